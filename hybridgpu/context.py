# SPDX-License-Identifier: Apache-2.0
"""Devices as users name them: ``cpu()``, ``gpu(i)``, ``cpu_pinned()``, and the current one."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from .base import MXNetError
from .core.source_location import located_hint, user_frame

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "map_gpus_to_cpu", "num_gpus"]


class _Default(type):
    """What ``Context.default_ctx`` reads and writes."""

    @property
    def default_ctx(cls) -> Context:
        _deprecated()
        return current_context()

    @default_ctx.setter
    def default_ctx(cls, ctx: Context) -> None:
        _deprecated()
        stack = Context._stack.__dict__.setdefault("contexts", [])
        stack[-1:] = [ctx]


def _deprecated() -> None:
    warnings.warn(
        "Context.default_ctx has been deprecated. Please use Context.current_context() instead. "
        "Please use test_utils.set_default_context to set a default context",
        DeprecationWarning,
        stacklevel=user_frame(),
    )


class _Entered(threading.local):
    """The contexts that a thread has entered. To look for an attribute that is missing costs a microsecond."""

    contexts: Any = None


class Context(metaclass=_Default):
    """A device: type and number. Also a context manager that makes it the default.

    Args:
        device_type: 'cpu', 'gpu' or 'cpu_pinned', or another Context to copy.
        device_id: number of the device.

    Raises:
        KeyError: an unknown type.
    """

    devtype2str: ClassVar = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
    _stack = _Entered()
    __slots__ = ("_device", "device_id", "device_typeid")
    device_typeid: int
    device_id: int

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
        else:
            self.device_typeid, self.device_id = Context.devstr2type[device_type], int(device_id)
        self._device: Any = None  #: the backends' device object, filled in at first use

    @property
    def device_type(self) -> str:
        """'cpu', 'gpu' or 'cpu_pinned'."""
        return Context.devtype2str[self.device_typeid]

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Context)
            and self.device_typeid == other.device_typeid
            and self.device_id == other.device_id
        )

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __str__ = __repr__

    def __enter__(self) -> Context:
        stack = Context._stack.__dict__.setdefault("contexts", [])
        stack.append(self)
        return self

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        Context._stack.contexts.pop()

    def __reduce__(self) -> tuple[Any, tuple[str, int]]:
        return Context, (self.device_type, self.device_id)

    def empty_cache(self) -> None:
        """Give memory that is kept for reuse back to the device."""
        from .backends.devices import device_of

        device_of(self).empty_cache()


_CPU0 = Context("cpu", 0)


def cpu(device_id: int = 0) -> Context:
    """The host. Every number is valid; they share memory."""
    return _CPU0 if device_id == 0 else Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Page-locked host memory (a synonym of the host here)."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """CUDA device number ``device_id``. Naming one is free; the first array on it needs the device."""
    return Context("gpu", device_id)


def map_gpus_to_cpu() -> None:
    """From now on ``Context("gpu", i)`` is ``cpu(i)``, and there is one GPU to be counted."""
    Context.devstr2type["gpu"] = Context.devstr2type["cpu"]


def _are_mapped() -> bool:
    return Context.devstr2type["gpu"] == Context.devstr2type["cpu"]


def current_context() -> Context:
    """The innermost ``with ctx:`` of this thread, or ``cpu(0)``."""
    stack = Context._stack.contexts
    return stack[-1] if stack else _CPU0


class _Watched(list[Context]):
    """The contexts that a thread has entered, while somebody wants to know whether they are asked for."""

    asked = False

    def __bool__(self) -> bool:
        self.asked = True
        return len(self) > 0


@contextmanager
def watching_context() -> Iterator[Callable[[], bool]]:
    """While entered, whether this thread has asked for its current context can be called."""
    before = Context._stack.__dict__.get("contexts", [])
    watched = Context._stack.contexts = _Watched(before)
    try:
        yield lambda: watched.asked
    finally:
        before[:] = watched
        Context._stack.contexts = before


def given_or_current(ctx: Any) -> Context:
    """``ctx``, or the current one where none is given.

    Raises:
        MXNetError: it is something else: a name, or an extent, as the 3 of ``nd.zeros(2, 3)``.
    """
    if ctx is None:
        return current_context()
    if isinstance(ctx, Context):
        return ctx
    instead = "mx.cpu() or mx.gpu(i)" if isinstance(ctx, str) else "the extents as one tuple, nd.zeros((2, 3))"
    raise MXNetError(f"Invalid context string {ctx}\n{located_hint(f'Write {instead}.')}")


def num_gpus() -> int:
    """Number of CUDA devices that can be used; 0 where there is no driver or no CuPy."""
    if _are_mapped():
        return 1  # programs that look for one take it
    from .backends.devices import count_gpus

    return count_gpus()


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """(free, total) bytes of a CUDA device."""
    from .backends.devices import device_of

    free, total = device_of(gpu(device_id)).memory_info()
    return free, total

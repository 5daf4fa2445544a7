# SPDX-License-Identifier: Apache-2.0
"""Devices: which module makes a device's arrays, how they are copied, which backend compiles.

CuPy is imported when the first array on a GPU is made, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..context import Context
from ..core.source_location import located_hint
from .base import Backend
from .memory import copy

if TYPE_CHECKING:
    from .library import Library

__all__ = ["Device", "HostDevice", "count_gpus", "device_of", "use_gpu_devices"]


class Device(Protocol):
    """A device as arrays and programs need it."""

    xp: Any  #: NumPy or CuPy

    @property
    def library(self) -> Library | None:
        """The library that computes some primitives better than ``xp``, in programs and eagerly."""

    def from_host(self, array: Any) -> Any:
        """A copy of a NumPy array on the device."""

    def to_host(self, array: Any) -> Any:
        """A copy of a device array as a NumPy array of its own."""

    def adopt(self, array: Any, source: Device) -> Any:
        """A copy of another device's array on this one."""

    def address(self, array: Any) -> int:
        """The address of the array's data."""

    def memory(self, array: Any) -> tuple[Any, Any]:
        """Two objects, one of which everybody refers to who can reach the array's memory without the array."""

    def current(self) -> AbstractContextManager[Any]:
        """Makes this device the current one, in which its arrays are made and its kernels started."""

    def needs_switch(self) -> bool:
        """Whether another device is the current one."""

    def is_capturing(self) -> bool:
        """Whether what is started on the current stream becomes part of a CUDA graph instead of running."""

    def capture_scope(self) -> AbstractContextManager[Callable[[Sequence[Any]], None]]:
        """While it is: memory that is taken inside belongs to that graph. It gives a function that has the graph hold
        arrays.
        """

    def synchronize(self) -> None:
        """Wait for everything that was started, on every stream."""

    def backend(self) -> Backend | None:
        """The compiler for this device; None means the reference interpreter."""

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""

    def empty_cache(self) -> None:
        """Give unused memory back."""


_nowhere = nullcontext()


class HostDevice:
    """The CPU."""

    xp: Any = np
    library: Library | None = None

    def from_host(self, array: Any) -> Any:
        return copy(np, array)

    def to_host(self, array: Any) -> Any:
        return np.array(array, order="C")

    def adopt(self, array: Any, source: Device) -> Any:
        return source.to_host(array)

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def memory(self, array: Any) -> tuple[Any, Any]:
        owner = array if array.base is None else array.base
        return owner, owner

    def current(self) -> AbstractContextManager[Any]:
        return _nowhere

    def needs_switch(self) -> bool:
        return False

    def is_capturing(self) -> bool:
        return False

    def capture_scope(self) -> AbstractContextManager[Callable[[Sequence[Any]], None]]:
        raise AssertionError("the host has no streams")

    def synchronize(self) -> None:
        pass

    def backend(self) -> Backend | None:
        from .cpu.backend import cpu_backend

        return cpu_backend()

    def memory_info(self) -> tuple[int, int]:
        import os

        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def empty_cache(self) -> None:
        pass


_host = HostDevice()
_gpus: dict[int, Device] = {}
_gpu_factory: Any = None  #: tests put an emulated device here


def use_gpu_devices(factory: Any) -> None:
    """Let ``factory(device_id)`` make the GPU devices; None restores CuPy's. For tests and emulation."""
    global _gpu_factory
    _gpu_factory = factory
    _gpus.clear()


def device_of(ctx: Context) -> Device:
    """The device behind a context.

    Raises:
        MXNetError: a GPU that is not there; the message says what was looked for.
    """
    try:
        if ctx.device_typeid != 2:
            return _host
    except AttributeError as error:  # the error is MXNet's
        if isinstance(ctx, str):
            error.args = (f"{error}\n{located_hint('Write mx.cpu() or mx.gpu(i).')}",)
        raise
    device = _gpus.get(ctx.device_id)
    if device is None:
        if _gpu_factory is not None:
            device = _gpu_factory(ctx.device_id)
        else:
            from .cuda.device import open_device

            device = open_device(ctx.device_id)
        _gpus[ctx.device_id] = device
    return device


def count_gpus() -> int:
    """Number of usable CUDA devices."""
    if _gpu_factory is not None:
        return int(getattr(_gpu_factory, "count", 1))
    from .cuda.device import count

    return count()

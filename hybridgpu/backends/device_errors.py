# SPDX-License-Identifier: Apache-2.0
"""Errors of a device's libraries: translated to MXNet's, and a second try where memory ran out.

Work on a device stands in a ``try``, which costs nothing, and hands what it raises to :func:`retry_after_oom`, or to
:func:`raise_translated` where it must not be repeated.
CuPy's errors are known by the package they come from: nothing is imported before one is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from traceback import clear_frames
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakSet

from ..base import MXNetError
from ..core.fork_safe_lock import Lock

__all__ = [
    "ERRORS_OF",
    "DeviceError",
    "HostMemoryError",
    "call_with_retry",
    "is_forked",
    "raise_translated",
    "register_holder",
    "release",
    "retry_after_oom",
    "translate",
]

_LIBRARIES = ("cupy", "cupy_backends")
#: 'cuda' -> what imports the module that knows CuPy's errors and gives its memory back
ERRORS_OF: dict[str, Callable[[], Any]] = {}
_MISSING = "Failure finding"  #: how CuPy begins to say that a library of CUDA is not there
_T = TypeVar("_T")


class MemoryHolder(Protocol):
    """A holder of device memory for reuse. Weak references to it must be possible."""

    def release(self) -> None:
        """Forget the memory that nobody uses; called in any thread."""


_forked = False


def is_forked() -> bool:
    """Whether this process is the child of a fork, without a program of its own since."""
    return _forked


def _after_in_child() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)


_holders: WeakSet[Any] = WeakSet()
_changing = Lock()


def register_holder(it: MemoryHolder) -> None:
    """Have ``it`` asked for its memory when a device has no more."""
    with _changing:
        _holders.add(it)


def release() -> None:
    """Take from all keepers what they keep."""
    with _changing:
        holders = list(_holders)
    for it in holders:
        it.release()


class DeviceError(MXNetError):
    """A device or one of its libraries failed; the cause is the library's own error, where it raised one.

    Attributes:
        memory: there was no memory left.
        lost: the device computes nothing any more for this process.
    """

    def __init__(self, message: str, memory: bool = False, lost: bool = False) -> None:
        super().__init__(message)
        self.memory, self.lost = memory, lost


class HostMemoryError(MXNetError, MemoryError):
    """The host has no memory for an array, or the system gives this process no more."""


def translate(error: Exception) -> Exception:
    """The error to raise in place of one that work on a device raised: MXNet's, or the same one."""
    text = "" if isinstance(error, MXNetError) else str(error)
    # what CuPy's compiled parts raise are errors of Python's own
    if type(error).__module__.partition(".")[0] not in _LIBRARIES and "cudaError" not in text and _MISSING not in text:
        return error
    translated: Exception = ERRORS_OF["cuda"]().of_cupy(error)
    return translated


def retry_after_oom(error: Exception, work: Callable[..., _T], *arguments: Any) -> _T:
    """What to do in place of work that raised an error, in the ``except`` clause: where memory ran out, give back what is
    kept for reuse and do ``work(*arguments)`` once more.

    Raises:
        DeviceError: it is an error of a device, or became one.
        Exception: another error, as it is.
    """
    translated = translate(error)
    if isinstance(translated, DeviceError) and translated.memory:
        clear_frames(error.__traceback__)  # which hold what the work had made by then
        freed = ERRORS_OF["cuda"]().give_back(release)
        try:
            return work(*arguments)
        except Exception as e:
            translated = translate(e)
            if freed and isinstance(translated, DeviceError) and translated.memory:
                translated.args = (f"{translated} That was {freed}, and not enough.",)
    raise translated


def call_with_retry(work: Callable[..., _T], *arguments: Any) -> _T:
    """Do ``work(*arguments)``; where it fails, see :func:`retry_after_oom`. A ``try`` in its place is faster."""
    try:
        return work(*arguments)
    except Exception as e:
        return retry_after_oom(e, work, *arguments)


def raise_translated(error: Exception) -> NoReturn:
    """Raise what :func:`translate` gives, in the ``except`` clause of work that is not done again."""
    raise translate(error)

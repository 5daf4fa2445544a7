# SPDX-License-Identifier: Apache-2.0
"""Every write into an array's memory, told to whoever keeps something that was computed from it.

Views share memory, so what is watched is the *owner*: the array that has the memory of all its views on the host,
CuPy's memory object on a GPU. A write is told after it has been made (on a GPU: after it was started), and a watcher
watches before it reads: whatever a watcher read in the middle of a write is told to be out of date.

Memory that was given away (DLPack, a NumPy array without a copy) may be written without a word. It is *shared* for
ever, and nothing that is kept may depend on it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from operator import setitem
from typing import Any, Protocol

import numpy as np

from ..core.fork_safe_lock import Lock
from .device_errors import retry_after_oom

__all__ = [
    "Watcher",
    "assign",
    "is_exported",
    "mark_exported",
    "notify_write",
    "notify_writes",
    "storage",
    "unwatch",
    "watch",
]


class Watcher(Protocol):
    """What wants to know of writes. Weak references to it must be possible."""

    def invalidate(self) -> None:
        """Memory that it watched was written. It watches none of that memory any more; called in any thread."""


_watchers: dict[int, tuple[weakref.ref[Any], ...]] = {}  #: identity of an owner (which watchers hold) -> who watches
_exported: dict[int, weakref.ref[Any]] = {}  #: identity of an owner on the host that was given away
_changing = Lock()


def storage(array: Any) -> Any:
    """The object that stands for an array's memory: one for all views."""
    if not isinstance(array, np.ndarray):
        return array.data.mem
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def notify_write(array: Any) -> None:
    """Tell that the array's memory was written."""
    if not _watchers:  # the usual case, at no cost
        return
    key = id(storage(array))
    if key in _watchers:
        with _changing:
            watchers = _watchers.pop(key, ())
        for reference in watchers:
            watcher = reference()
            if watcher is not None:
                watcher.invalidate()


def notify_writes(arrays: Sequence[Any]) -> None:
    """Tell that the memory of each of the arrays was written."""
    if _watchers:
        for array in arrays:
            notify_write(array)


def assign(target: Any, value: Any) -> None:
    """``target[...] = value``, told."""
    try:
        target[...] = value
    except Exception as e:
        retry_after_oom(e, setitem, target, ..., value)
    finally:
        notify_write(target)


def watch(watcher: weakref.ref[Any], arrays: Sequence[Any]) -> None:
    """Have ``watcher`` told of the next write into each of the arrays, which it has to hold, and of no later one."""
    with _changing:
        for array in arrays:
            key = id(storage(array))
            known = _watchers.get(key, ())
            if watcher not in known:
                _watchers[key] = (*known, watcher)


def unwatch(watcher: weakref.ref[Any], keys: Sequence[int]) -> None:
    """Forget a watcher of the owners with these identities."""
    with _changing:
        for key in keys:
            left = tuple(w for w in _watchers.get(key, ()) if w is not watcher)
            if left:
                _watchers[key] = left
            else:
                _watchers.pop(key, None)


def mark_exported(array: Any) -> None:
    """Note that others may write the array's memory from now on, without telling."""
    memory = storage(array)
    if isinstance(memory, np.ndarray):
        key = id(memory)
        _exported[key] = weakref.ref(memory, lambda _, known=_exported: known.pop(key, None))  # type: ignore[misc]
    elif _marks(memory):
        memory.hybridgpu_shared = True
    notify_write(array)


def is_exported(array: Any) -> bool:
    """Whether others may write the array's memory, as far as one can know."""
    memory = storage(array)
    if isinstance(memory, np.ndarray):
        return id(memory) in _exported
    # memory that is not of CuPy's pool cannot be marked, or is somebody else's to begin with
    return not _marks(memory) or hasattr(memory, "hybridgpu_shared")


def _marks(memory: Any) -> bool:
    return hasattr(memory, "__dict__")

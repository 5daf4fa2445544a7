# SPDX-License-Identifier: Apache-2.0
"""Write tracking: a write into an array's memory invalidates what was computed from it and kept.

Views share memory, so the *storage* is watched: the array that has the memory of all its views on the CPU, CuPy's
memory object on a GPU. Watchers are notified after a write was made (on a GPU: after it was started), and they watch
before they read: whatever a watcher read in the middle of a write is invalidated.

*Exported* memory (by DLPack, or as a NumPy array without a copy) may be written without notice. It stays exported, and
nothing that is kept may depend on it.
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
    """A watcher of writes. Weak references to it must be possible."""

    def invalidate(self) -> None:
        """React to a write into watched memory, in any thread. The watcher watches none of that memory any more."""


_watchers: dict[int, tuple[weakref.ref[Any], ...]] = {}  #: identity of a storage (which watchers hold) -> its watchers
_exported: dict[int, weakref.ref[Any]] = {}  #: identity of a NumPy storage that was exported
_changing = Lock()


def storage(array: Any) -> Any:
    """The object that stands for an array's memory: one for all views."""
    if not isinstance(array, np.ndarray):
        return array.data.mem
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def notify_write(array: Any) -> None:
    """Notify watchers of the array's memory that it was written."""
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
    """Notify watchers of the memory of each of the arrays that it was written."""
    if _watchers:
        for array in arrays:
            notify_write(array)


def assign(target: Any, value: Any) -> None:
    """``target[...] = value``, with watchers notified."""
    try:
        target[...] = value
    except Exception as e:
        retry_after_oom(e, setitem, target, ..., value)
    finally:
        notify_write(target)


def watch(watcher: weakref.ref[Any], arrays: Sequence[Any]) -> None:
    """Notify ``watcher`` of the next write into each of the arrays, which it has to hold, and of no later one."""
    with _changing:
        for array in arrays:
            key = id(storage(array))
            watchers = _watchers.get(key, ())
            if watcher not in watchers:
                _watchers[key] = (*watchers, watcher)


def unwatch(watcher: weakref.ref[Any], keys: Sequence[int]) -> None:
    """Forget a watcher of the storages with these identities."""
    with _changing:
        for key in keys:
            left = tuple(w for w in _watchers.get(key, ()) if w is not watcher)
            if left:
                _watchers[key] = left
            else:
                _watchers.pop(key, None)


def mark_exported(array: Any) -> None:
    """Mark the array's memory as one that others may write from now on, without notice."""
    memory = storage(array)
    if isinstance(memory, np.ndarray):
        key = id(memory)
        _exported[key] = weakref.ref(memory, lambda _, exported=_exported: exported.pop(key, None))  # type: ignore[misc]
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

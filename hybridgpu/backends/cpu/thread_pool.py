# SPDX-License-Identifier: Apache-2.0
"""The thread pool of this process (kernels/thread_pool.h), which programs call for their chunks.

It is compiled and kept as a program's code is, opened once, and never closed: its threads may be asleep in it. A program
holds a pointer to a function, which runs all its chunks at once until the pool's function takes its place.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from ...cache.disk_cache import Store
from ...compiler.program import Unit
from ...core.fork_safe_lock import Lock
from ...core.num_threads import get_num_threads, on_change
from ..worker_thread import ThreadCall

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from .toolchain import Toolchain

__all__ = ["POINTER", "ThreadPool", "worker_count"]

POINTER = "hg_run_chunks"  #: the variable of a program's code that holds the address of what runs its chunks
_SOURCE = '#include "thread_pool.h"\n'
_library: ctypes.CDLL | None = None  #: one a process, whichever toolchain made it
_opening = Lock()
_changing = Lock()  #: who waits for the pool, and its number of threads
_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


class ThreadPool:
    """The pool as a backend sees it, whose toolchain compiles it where no other has.

    Args:
        keep: writes new code into an entry of the store and opens it.
    """

    def __init__(self, toolchain: Toolchain, store: Store, keep: Callable[[str, bytes], ctypes.CDLL]) -> None:
        self._toolchain, self._store, self._keep = toolchain, store, keep
        self._waiting: dict[int, ctypes.CDLL] = {}  #: by its handle, code of programs that has no pool yet
        self._failed = False
        _pools.add(self)

    def preparing(self) -> AbstractContextManager[object]:
        """The pool's compilation in another thread, where it will be needed and is not there."""
        if (
            self._failed
            or _library is not None
            or get_num_threads() < 2
            or self._store.path("so", self._key) is not None
        ):
            return nullcontext()
        return ThreadCall(self._opened)

    def serve(self, code: ctypes.CDLL) -> None:
        """Give the pool's function to the code of a program that has chunks."""
        self._waiting[code._handle] = code  # first: another thread may set the number meanwhile, and looks for it here
        if _library is not None or get_num_threads() > 1:
            self.serve_waiting()

    def serve_waiting(self) -> None:
        """Give it to the code that came while one thread was enough, too."""
        pool = self._opened() if self._waiting else None
        if pool is not None:
            with _changing:
                while self._waiting:
                    _hand_over(pool, self._waiting.popitem()[1])

    @cached_property
    def _key(self) -> str:
        return self._toolchain.unit_key("strict", _SOURCE)

    def _opened(self) -> ctypes.CDLL | None:
        """The pool; None where it cannot be built, and one thread takes all chunks."""
        global _library
        with _opening:
            if _library is None and not self._failed:
                try:
                    _library = self._built()
                    _tell_number()
                except (OSError, RuntimeError) as e:  # the compiler refuses it, or nothing can be written
                    self._failed = True
                    why = str(e).strip().split("\n")[0]
                    warnings.warn(f"hybridgpu: compiled programs use one thread on the CPU: {why}", stacklevel=2)
            return _library

    def _built(self) -> ctypes.CDLL:
        if not sys.platform.startswith("linux"):
            raise OSError("the thread pool needs Linux's futex")
        path = self._store.path("so", self._key)
        if path is not None:
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                self._store.forget("so", self._key)
        return self._keep(self._key, self._toolchain.compile([Unit(entries=_SOURCE)], "strict", self._store).library)


def _tell_number() -> None:
    """Let the pool have the number that is set now: of several threads that set one, the last to come here knows the last."""
    with _changing:
        if _library is not None:
            _library.hg_pool_resize(get_num_threads())


def _resize(count: int) -> None:
    _tell_number()
    if count > 1:
        for pool in list(_pools):
            pool.serve_waiting()


on_change(_resize)


def worker_count() -> int:
    """Threads of the pool that exist now."""
    return 0 if _library is None else int(_library.hg_pool_workers())


def _hand_over(pool: ctypes.CDLL, code: ctypes.CDLL) -> None:
    address = ctypes.cast(pool.hg_pool_run, ctypes.c_void_p).value
    ctypes.c_void_p.in_dll(code, POINTER).value = address

# SPDX-License-Identifier: Apache-2.0
"""Calls in CUDA graphs that the user captures: what a graph refers to stays as long as the graph.

CUDA repeats a graph with the addresses that it was captured with, and CuPy's graphs hold no memory. So everything that captured
calls take in one capture comes from a pool of its own, and that pool, arguments, parameters and results belong to a *user
object* of CUDA's, which the graph holds, and what is instantiated from it. When CUDA destroys the last one it posts a semaphore
(its callbacks may call neither CUDA nor Python). The next capture takes the pool then; where memory runs out it is given back.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from ...core.fork_safe_lock import Lock
from ..device_errors import DeviceError, register_holder
from .libcuda import ERROR_TEXTS, bind, failure

__all__ = ["UserGraphs"]

_RELAXED = 2  #: CU_STREAM_CAPTURE_MODE_RELAXED: this thread may take memory of the device during captures
_UNSYNCHRONIZED = 1  #: CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
_MOVE = 1  #: CU_GRAPH_USER_OBJECT_MOVE: the graph takes the reference that we have
_SEMAPHORE = 64  #: bytes, which is more than a sem_t has

#: name -> types of the arguments; all return a CUresult
_FUNCTIONS: dict[str, Sequence[Any]] = {
    # stream, status, number of the capture, its graph, the nodes that the next one waits for, their number
    "cuStreamGetCaptureInfo_v2": (c_void_p, POINTER(c_int), POINTER(c_uint64), *(POINTER(c_void_p),) * 2, POINTER(c_size_t)),
    "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    # new object, argument of the function, function, references, flags
    "cuUserObjectCreate": (POINTER(c_void_p), c_void_p, c_void_p, c_uint, c_uint),
    "cuUserObjectRelease": (c_void_p, c_uint),
    "cuGraphRetainUserObject": (c_void_p, c_void_p, c_uint, c_uint),
    **ERROR_TEXTS,
}  # fmt: skip
_ADVICE = "Without the capture the call works; a captured one needs a driver for CUDA 12, on Linux."


@functools.lru_cache(maxsize=1)
def _functions() -> dict[str, Any]:
    """The functions of this machine's driver, with the system's semaphores.

    Raises:
        DeviceError: it has none of them, or the system has no such semaphores.
    """
    try:
        functions, system = bind(_FUNCTIONS), ctypes.CDLL(None)
        functions |= {name: getattr(system, name) for name in ("malloc", "free", "sem_init", "sem_post", "sem_trywait")}
    except (OSError, AttributeError, TypeError) as e:
        raise DeviceError(f"CUDA: this call cannot be captured: {e}\n{_ADVICE}") from e
    functions["malloc"].argtypes, functions["malloc"].restype = (c_size_t,), c_void_p
    for name in ("free", "sem_trywait"):
        functions[name].argtypes = (c_void_p,)
    functions["sem_init"].argtypes = (c_void_p, c_int, c_uint)
    return functions


def _call(name: str, *arguments: Any) -> None:
    functions = _functions()
    status = functions[name](*arguments)
    if status:
        raise failure(functions, name, status, _ADVICE)


class _Captured:
    """The objects that the calls of one capture refer to.

    Attributes:
        pool: where their memory comes from.
        held: arguments, parameters and results.
        semaphore: its address, which CUDA posts when nothing repeats the capture any more.
    """

    def __init__(self, pool: Any) -> None:
        functions = _functions()
        self.pool, self.held = pool, list[Any]()
        self.semaphore = functions["malloc"](_SEMAPHORE)  # not Python's: a graph may outlive the interpreter
        if not self.semaphore or functions["sem_init"](self.semaphore, 0, 0):
            raise DeviceError("CUDA: the system has no semaphore for a captured call")

    def is_over(self) -> bool:
        """Whether CUDA has destroyed all that repeats the capture."""
        functions = _functions()
        if functions["sem_trywait"](self.semaphore):
            return False
        functions["free"](self.semaphore)
        return True


class UserGraphs:
    """The captures of one device in which there were calls.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy, self._lock = cupy, Lock()
        self._captures: dict[int, _Captured] = {}
        #: pools of graphs that are gone: their results may be there still, and no memory is freed while streams are captured
        self._pools: list[Any] = []
        register_holder(self)

    def release(self) -> None:
        """Give back the memory of graphs that are gone."""
        self._drop()
        for pool in list(self._pools):
            pool.free_all_blocks()

    def _drop(self) -> None:
        """Forget what graphs held that are gone."""
        with self._lock:
            for number, captured in list(self._captures.items()):
                if captured.is_over():
                    del self._captures[number]
                    self._pools.append(captured.pool)

    @contextmanager
    def scope(self, stream: int) -> Iterator[Callable[[Sequence[Any]], None]]:
        """In it a call may be made on a stream that is captured: memory is taken from what the graph holds. It gives a
        function that has the graph hold more.

        Raises:
            DeviceError: CUDA refuses it.
        """
        mode = c_int(_RELAXED)
        _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            captured = self._of(stream)
            with self._cupy.cuda.using_allocator(captured.pool.malloc):
                yield captured.held.extend
        finally:
            _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def _of(self, stream: int) -> _Captured:
        status, number, graph = c_int(), c_uint64(), c_void_p()
        _call("cuStreamGetCaptureInfo_v2", stream, *map(ctypes.byref, (status, number, graph)), None, None)
        with self._lock:
            captured = self._captures.get(number.value)
            if captured is None:
                self._drop()
                captured = _Captured(self._pools.pop() if self._pools else self._cupy.cuda.MemoryPool())
                user_object, post = c_void_p(), ctypes.cast(_functions()["sem_post"], c_void_p)
                _call("cuUserObjectCreate", ctypes.byref(user_object), captured.semaphore, post, 1, _UNSYNCHRONIZED)
                try:
                    _call("cuGraphRetainUserObject", graph, user_object, 1, _MOVE)
                except DeviceError:
                    _call("cuUserObjectRelease", user_object, 1)
                    raise
                self._captures[number.value] = captured
        return captured

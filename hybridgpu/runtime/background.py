# SPDX-License-Identifier: Apache-2.0
"""Programs that are made in another thread, while operators answer one by one (``hybridize(background=True)``).

One thread makes them all, in the order of the calls: compilations take turns anyway. It is a daemon, since a process
that ends does not need what is still being made.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from .. import compiler
from ..backends.base import this_thread
from ..core.fork_safe_lock import Lock
from ..util import is_np_shape, np_shape

__all__ = ["BackgroundJob"]

T = TypeVar("T")


class BackgroundJob(Generic[T]):
    """A result that another thread will make.

    Args:
        make: makes it.
        done: is called there with the result.
    """

    def __init__(self, make: Callable[[], T], on_done: Callable[[T], object] = lambda result: None) -> None:
        self._make, self._on_done = make, on_done
        self._result: T | None = None
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        self._zeros_count = is_np_shape()  # of this thread
        self._finished = threading.Event()
        self._worker = _enqueue(self)

    def run(self) -> None:
        """Make it; what goes wrong is kept for :meth:`result`."""
        try:
            with np_shape(self._zeros_count):
                self._result = self._make()
            self._on_done(self._result)
        except BaseException as e:
            self._trace, self._error = e.__traceback__, e
        finally:
            self._finished.set()

    @property
    def finished(self) -> bool:
        """Whether it was made, or could not be."""
        return self._finished.is_set()

    def result(self, wait: bool = False) -> T | None:
        """The result; None while it is not there, unless ``wait`` asks for it.

        Raises:
            Exception: what making it raised, at every call.
        """
        if not self._finished.is_set() and not self._worker.is_alive():  # a fork left the thread behind
            self.run()
        if wait:
            self._finished.wait()
        if self._error is not None:
            raise self._error.with_traceback(self._trace)  # traces of earlier calls would keep their frames
        return self._result


#: what compiling imports besides :mod:`hybridgpu.compiler`, of which each graph needs a part: what runs a compiler, and
#: what reads templates for the first time
_MORE = (
    "hybridgpu.backends.cpu.compile",
    "hybridgpu.backends.cpu.prestarted_compiler",
    "subprocess",
    "encodings.unicode_escape",
)
_importing = threading.Lock()  #: forks wait for it: a child would wait for ever for a module that is half imported
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )
_starting = Lock()
_worker: threading.Thread | None = None
_queue: SimpleQueue[BackgroundJob[Any]] = SimpleQueue()


def _enqueue(later: BackgroundJob[Any]) -> threading.Thread:
    """Let the thread make ``later`` after what was asked for before; the thread."""
    global _worker, _queue
    with _starting:
        if _worker is None or not _worker.is_alive():
            _queue = SimpleQueue()
            _worker = threading.Thread(target=_work, args=(_queue,), name="hybridgpu compilation", daemon=True)
            _worker.start()
        _queue.put(later)
        return _worker


def _work(queue: SimpleQueue[BackgroundJob[Any]]) -> None:
    this_thread.background = True
    with _importing:
        modules = [m.name for m in pkgutil.walk_packages(compiler.__path__, f"{compiler.__name__}.")]
        for name in (*modules, *_MORE):
            importlib.import_module(name)
    while True:
        queue.get().run()

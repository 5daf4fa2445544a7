# SPDX-License-Identifier: Apache-2.0
"""ThreadCall: a call that another thread makes in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["ThreadCall"]

T = TypeVar("T")


class ThreadCall(Generic[T]):
    """A call that another thread makes. Leaving the ``with`` waits for its end, which Ctrl-C does not: then it goes on
    alone, and a process that ends does not wait for it either. Where no thread can be started, as under a limit of
    processes, the caller's own makes it.

    Attributes:
        seconds: what the call took, 0 until it has ended.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="hybridgpu compilation", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # can't start new thread
            self._run()
            if self._error is not None and not isinstance(self._error, Exception):  # Ctrl-C is this thread's
                raise self._error from None

    def _run(self) -> None:
        start = time.perf_counter()
        try:
            self._results.append(self._call())
        except BaseException as e:
            self._error = e
        self.seconds = time.perf_counter() - start

    def result(self) -> T:
        """The result of the call, or the error that it raised."""
        self._wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def __enter__(self) -> ThreadCall[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):
            self._wait()

    def _wait(self) -> None:
        if self._thread.ident is not None:  # it was started
            self._thread.join()

# SPDX-License-Identifier: Apache-2.0
"""Fork-safe locks: free in a child process, whoever held them in the parent.

A child process has only the thread that forked. A lock that another thread of the parent held at that
moment would stay locked in the child for ever, so the child gets a new one. What such locks guard is
changed by single assignments at the end, which a fork cannot cut in two.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

__all__ = ["Lock"]


class Lock:
    """A lock that its holder may take again; use it in ``with``.

    Attributes:
        raw: what is locked, until the next fork: ``with lock.raw`` takes no frames of Python.
    """

    def __init__(self) -> None:
        self.raw = threading.RLock()
        _all.add(self)

    def __enter__(self) -> None:
        self.raw.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.raw.release()

    def _renew(self) -> None:
        if self.raw.acquire(blocking=False):  # nobody held it, or the thread that forked
            self.raw.release()
        else:
            self.raw = threading.RLock()


_all: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_all):
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)

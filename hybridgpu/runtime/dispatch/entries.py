# SPDX-License-Identifier: Apache-2.0
"""Entries of a graph's signatures: why a program is needed, what makes it, the program.

A *signature* is all that a program is made for: the types of all inputs, parameters included, the training flag, the
gradients that are wanted (of a recorded call) or the parameters that are folded, TF32 and NumPy's shape semantics. What
calls show without a look at parameters, their *key*, is another thing: prepared calls are found by it (call_cache.py), in
constant time for a net of any size, and calls of several graphs of one function among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...core.fork_safe_lock import Lock
from ..background import BackgroundJob

__all__ = ["Entry", "remember"]

P = TypeVar("P")
_changing = Lock()  #: held while an entry begins or ends to wait for another thread, and while dictionaries change


class Entry(Generic[P]):
    """The entry of one signature.

    Attributes:
        reason: why a program is made, for reports.
        program: None while it is not there.
        pending: the job that makes it in another thread, and what runs operators one by one until then.
    """

    __slots__ = ("pending", "program", "reason")

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.program: P | None = None
        self.pending: tuple[BackgroundJob[P], P] | None = None

    def get(self, make: Callable[..., P], background: bool, wait: bool) -> P:
        """The program, or what answers while it is made in the background.

        Args:
            make: function (reason, whether operators are to run one by one) -> program.
            wait: for the program, if another thread makes it.
        """
        pending = self.pending
        if self.program is not None:
            return self.program
        if not background:
            self.program = program = make(self.reason)  # several threads may come here: one of them compiles
            return program
        if pending is None:
            interim: Any = make(self.reason, True)
            if not interim.interpreted:  # another block of the same structure has it
                self.program = interim
                return interim  # type: ignore[no-any-return]
            with _changing:
                if self.program is not None:  # another thread was here
                    return self.program
                if self.pending is None:  # it is pending before it can be done
                    self.pending = BackgroundJob(lambda: make(self.reason), self._finish), interim
                pending = self.pending
        job, meanwhile = pending
        result = job.result(wait)
        return meanwhile if result is None else result

    def _finish(self, program: P) -> None:
        with _changing:
            self.program, self.pending = program, None


def remember(entries: dict[Any, Any], key: Any, limit: int, make: Callable[[], Any]) -> Any:
    """The entry of a key, made if there is none; beyond the limit the oldest goes."""
    with _changing:
        entry = entries.get(key)  # another thread's, perhaps
        if entry is None:
            entry = make()
            if len(entries) >= limit:
                del entries[next(iter(entries))]
            entries[key] = entry
        return entry

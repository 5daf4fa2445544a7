# SPDX-License-Identifier: Apache-2.0
"""``mx.set_num_threads``, ``mx.get_num_threads``: how many threads compiled programs use on the CPU."""

from __future__ import annotations

import operator

from ..base import MXNetError
from ..core import num_threads

__all__ = ["get_num_threads", "set_num_threads"]


class _Scope:
    """Undoes a setting at the end of a ``with``."""

    def __init__(self, before: int | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        num_threads.set_num_threads(self._before)


def set_num_threads(count: int | None) -> _Scope:
    """Let compiled programs use so many threads on the CPU.

    It holds for the whole process from now on; in a ``with`` until its end. Results have the same bits for any number.

    Args:
        count: 1 to 32768; None is the usual state, in which HYBRIDGPU_NUM_THREADS, OMP_NUM_THREADS or the processors that the
            process may use decide.

    Raises:
        MXNetError: ``count`` is something else.
    """
    if count is not None:
        try:
            number = operator.index(count)
        except TypeError:
            number = 0
        if isinstance(count, bool) or not 1 <= number <= num_threads.MAX_THREADS:
            most = num_threads.MAX_THREADS
            raise MXNetError(f"set_num_threads takes a number of threads, 1 to {most}, or None, not {count!r}")
        count = number
    return _Scope(num_threads.set_num_threads(count))


def get_num_threads() -> int:
    """The number of threads that compiled programs use on the CPU, the caller's included."""
    return num_threads.get_num_threads()

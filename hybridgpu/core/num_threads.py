# SPDX-License-Identifier: Apache-2.0
"""The number of threads that compiled programs use on the CPU: what was set, what the environment says, or what the
process may use of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from math import ceil

from ..base import MXNetError
from .cgroups import processor_quota
from .settings import text_of

__all__ = ["MAX_THREADS", "available_processors", "get_num_threads", "on_change", "set_num_threads"]

MAX_THREADS = 1 << 15  #: that may be set; no machine has as many processors
_set: int | None = None  #: what the program said last
_listeners: list[Callable[[int], object]] = []


def get_num_threads() -> int:
    """Threads that compiled programs use on the CPU: what :func:`set_num_threads` was told, else HYBRIDGPU_NUM_THREADS,
    else OMP_NUM_THREADS, else as many as there are processors for this process.

    Raises:
        MXNetError: HYBRIDGPU_NUM_THREADS is no number above 0.
    """
    if _set is not None:
        return _set
    text = text_of("HYBRIDGPU_NUM_THREADS")
    if text:
        if not text.isdecimal() or not 0 < int(text) <= MAX_THREADS:
            raise MXNetError(f"Invalid Input: '{text}', valid values are: 1, 2, …, in HYBRIDGPU_NUM_THREADS")
        return int(text)
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # further numbers are of nested regions
    if first.isdecimal() and 0 < int(first) <= MAX_THREADS:
        return int(first)
    return available_processors()


def set_num_threads(count: int | None) -> int | None:
    """What :func:`get_num_threads` gives from now on, None for what the environment says; what was set before."""
    global _set
    before, _set = _set, count
    now = get_num_threads()
    for changed in _listeners:
        changed(now)
    return before


def on_change(changed: Callable[[int], object]) -> None:
    """Call ``changed`` with each number that is set from now on."""
    _listeners.append(changed)


@lru_cache
def available_processors() -> int:
    """Processors for this process: those that it may run on, or fewer where its control group has a quota of their time."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = processor_quota()
    return count if quota is None else max(1, min(count, ceil(quota)))

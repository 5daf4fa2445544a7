# SPDX-License-Identifier: Apache-2.0
"""The number of threads that compiled programs use on the CPU: what was set, what the environment says, or what the
process may use of the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from math import ceil
from pathlib import Path

from ..base import MXNetError
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
    quota = cgroup_quota()
    return count if quota is None else max(1, min(count, ceil(quota)))


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that the process's control groups allow, None where they do not say.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    quotas: list[float] = []
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2: a limit of a group holds for all inside
                quotas += _quotas(root / "sys/fs/cgroup", path, _quota_of_version_2)
            elif "cpu" in controllers.split(","):
                for mounted in ("cpu", "cpu,cpuacct"):
                    quotas += _quotas(root / "sys/fs/cgroup" / mounted, path, _quota_of_version_1)
    return min(quotas, default=None)


def _quotas(mounted: Path, path: str, read: Callable[[Path], float | None]) -> list[float]:
    """The quotas of a group and all groups around it. Inside a container its own group is often the root of what is seen."""
    parts = [p for p in path.split("/") if p and p != ".."]
    folders = [mounted.joinpath(*parts[:k]) for k in range(len(parts), -1, -1)]
    quotas = []
    for folder in folders:
        with suppress(OSError, ValueError):
            quotas.append(read(folder))
    return [q for q in quotas if q is not None]


def _quota_of_version_2(group: Path) -> float | None:
    match = re.fullmatch(r"(\d+) (\d+)\s*", (group / "cpu.max").read_text(encoding="ascii"))
    return int(match[1]) / int(match[2]) if match else None  # 'max': no limit


def _quota_of_version_1(group: Path) -> float | None:
    quota = int((group / "cpu.cfs_quota_us").read_text(encoding="ascii"))
    return quota / int((group / "cpu.cfs_period_us").read_text(encoding="ascii")) if quota > 0 else None

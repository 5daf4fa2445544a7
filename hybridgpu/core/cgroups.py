# SPDX-License-Identifier: Apache-2.0
"""Limits of control groups: how much time of processors and how much memory the process may use, in a container, say."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

__all__ = ["memory_limit", "processor_quota"]

_Number = TypeVar("_Number", int, float)


def processor_quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that the process's control groups allow, None where they do not say.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    quotas = _limits(root, "cpu", ("cpu", "cpu,cpuacct"), _quota_of_version_2, _quota_of_version_1)
    return min(quotas, default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes of memory that the process's control groups allow, None where they do not say.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    return min(_limits(root, "memory", ("memory",), _memory_of_version_2, _memory_of_version_1), default=None)


def _limits(
    root: Path,
    controller: str,
    mounts: Sequence[str],
    version_2: Callable[[Path], _Number | None],
    version_1: Callable[[Path], _Number | None],
) -> list[_Number]:
    """The limits of a controller that hold for the process, as the functions for the two versions read them in a group."""
    limits: list[_Number] = []
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2: a limit of a group holds for all inside
                limits += _of_groups(root / "sys/fs/cgroup", path, version_2)
            elif controller in controllers.split(","):
                for mounted in mounts:
                    limits += _of_groups(root / "sys/fs/cgroup" / mounted, path, version_1)
    return limits


def _of_groups(mounted: Path, path: str, read: Callable[[Path], _Number | None]) -> list[_Number]:
    """The limits of a group and all groups around it. Inside a container its own group is often the root of what is seen."""
    parts = [p for p in path.split("/") if p and p != ".."]
    limits = []
    for folder in (mounted.joinpath(*parts[:k]) for k in range(len(parts), -1, -1)):
        with suppress(OSError, ValueError):
            limits.append(read(folder))
    return [limit for limit in limits if limit is not None]


def _quota_of_version_2(group: Path) -> float | None:
    match = re.fullmatch(r"(\d+) (\d+)\s*", (group / "cpu.max").read_text(encoding="ascii"))
    return int(match[1]) / int(match[2]) if match else None  # 'max': no limit


def _quota_of_version_1(group: Path) -> float | None:
    quota = int((group / "cpu.cfs_quota_us").read_text(encoding="ascii"))
    return quota / int((group / "cpu.cfs_period_us").read_text(encoding="ascii")) if quota > 0 else None


def _memory_of_version_2(group: Path) -> int | None:
    text = (group / "memory.max").read_text(encoding="ascii").strip()
    return None if text == "max" else int(text)


def _memory_of_version_1(group: Path) -> int | None:
    return int((group / "memory.limit_in_bytes").read_text(encoding="ascii"))  # no limit: more than any machine has

# SPDX-License-Identifier: Apache-2.0
"""``mx.profiler``: times of operators and of compiled graphs, as a table and as a trace for chrome://tracing.

A compiled graph is one entry, named after its block; its kernels are what ``net.explain(x)`` shows.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from typing import Any

from ..base import MXNetError
from .hooks import scopes
from .objects import Counter, Domain, Event, Frame, Marker, Task
from .state import state as profiler
from .trace import SORTS

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "scope",
    "set_config",
    "set_state",
    "start",
    "stop",
]

_STATES = {"stop": False, "run": True}
_PROCESSES = {"worker": 0, "server": 1}


def set_config(**kwargs: Any) -> None:
    """Choose what is profiled; what is not named returns to its default.

    Args:
        filename: the trace that ``dump`` writes, 'profile.json' by default.
        profile_imperative: time operators on arrays, their derivatives, and custom operators; True by default.
        profile_symbolic: time compiled graphs; True by default.
        profile_all: both.
        aggregate_stats, continuous_dump, dump_period, profile_memory, profile_api, profile_process: accepted;
            the statistics are always kept, memory and foreign calls are not recorded.

    Raises:
        MXNetError: an unknown setting.
    """
    profiler.configure(kwargs)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start ('run') or stop ('stop') profiling; either ends a pause.

    Raises:
        KeyError: another state.
    """
    _ = _PROCESSES[profile_process]
    profiler.switch(running=_STATES[state], paused=False)


def start(profile_process: str = "worker") -> None:
    """``set_state('run')``."""
    set_state("run", profile_process)


def stop(profile_process: str = "worker") -> None:
    """``set_state('stop')``."""
    set_state("stop", profile_process)


def pause(profile_process: str = "worker") -> None:
    """Record nothing until ``resume``."""
    _ = _PROCESSES[profile_process]
    profiler.switch(paused=True)


def resume(profile_process: str = "worker") -> None:
    """Go on after ``pause``."""
    _ = _PROCESSES[profile_process]
    profiler.switch(paused=False)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace.

    Args:
        finished: also stop, and begin the next trace empty; else the next ``dump`` writes these events again.
        profile_process: 'worker', or 'server' as MXNet has it.

    Raises:
        MXNetError: the profiler has not run since the last finished trace.
    """
    _ = _PROCESSES[profile_process]
    if not profiler.open:
        raise MXNetError(
            "Check failed: profiler->IsEnableOutput(): Profiler hasn't been run. Config and start profiler first"
        )
    if finished:
        profiler.switch(running=False)
    profiler.trace.write(profiler.settings["filename"])
    if finished:
        profiler.trace.clear_events()
        profiler.open = False


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """The statistics by category and name, as text.

    Args:
        reset: count anew afterwards.
        format: 'table' or 'json'.
        sort_by: 'total', 'avg', 'min', 'max' or 'count', within each category.
        ascending: smallest first.
    """
    assert format in ("table", "json"), f"Invalid value provided for format: {format}. Support: 'table', 'json'"
    assert sort_by in SORTS, (
        f"Invalid value provided for sort_by: {sort_by}. Support: 'total', 'avg', 'min', 'max', 'count'"
    )
    assert ascending in (True, False), f"Invalid value provided for ascending: {ascending}. Support: False, True"
    assert reset in (True, False), f"Invalid value provided for reset: {reset}. Support: False, True"
    table = profiler.trace.table(sort_by, bool(ascending))
    if reset:
        profiler.trace.clear_statistics()
    if format == "json":
        return json.dumps({"Time": table, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)
    lines = ["", "Profile Statistics:"]
    titles = ("Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")
    for category, names in table.items():
        wide = max(24, *(len(n) for n in names)) if names else 24
        lines += [category, "=" * 17]
        lines.append(f"{'Name':<{wide}}" + "".join(f"{t:>17}" for t in titles))
        lines.append(f"{'----':<{wide}}" + "".join(f"{'-' * len(t):>17}" for t in titles))
        for name, row in names.items():
            times = "".join(f"{row[key]:>17.4f}" for key in ("Total", "Min", "Max", "Avg"))
            lines.append(f"{name:<{wide}}{row['Count']:>17.0f}{times}")
        lines.append("")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """Put ``name`` before the names of the calls inside: ``with scope('encoder:'):``."""
    scopes.names.append(name)
    try:
        yield
    finally:
        scopes.names.pop()


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Deprecated: ``set_config``."""
    warnings.warn(
        "profiler.profiler_set_config() is deprecated. Please use profiler.set_config() instead", stacklevel=2
    )
    set_config(**{f"profile_{mode}": True, "filename": filename})


def profiler_set_state(state: str = "stop") -> None:
    """Deprecated: ``set_state``."""
    warnings.warn("profiler.profiler_set_state() is deprecated. Please use profiler.set_state() instead", stacklevel=2)
    set_state(state)


def dump_profile() -> None:
    """Deprecated: ``dump``."""
    warnings.warn("profiler.dump_profile() is deprecated. Please use profiler.dump() instead", stacklevel=2)
    dump(True)

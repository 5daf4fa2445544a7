# SPDX-License-Identifier: Apache-2.0
"""What a profile holds: a list of events for Chrome's trace viewer, and statistics by category and name."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from ..core.fork_safe_lock import Lock
from ..io.formats.atomic import replace_file

__all__ = ["SORTS", "Statistic", "Trace"]

#: how ``dumps`` may sort -> the column
SORTS = {"total": "Total", "avg": "Avg", "min": "Min", "max": "Max", "count": "Count"}
_EPOCH_NS = time.time_ns() - time.perf_counter_ns()  # the trace shows the time of day


class Statistic:
    """Number, sum and bounds of the milliseconds (or values) of one name."""

    __slots__ = ("count", "high", "low", "total")

    def __init__(self) -> None:
        self.count, self.total, self.low, self.high = 0, 0.0, float("inf"), float("-inf")

    def add(self, value: float) -> None:
        """Count one more."""
        self.count += 1
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def row(self) -> dict[str, float]:
        """As ``dumps`` gives it, in milliseconds."""
        return {
            "Count": self.count,
            "Total": round(self.total, 4),
            "Min": round(self.low, 4),
            "Max": round(self.high, 4),
            "Avg": round(self.total / self.count, 4),
        }


class Trace:
    """Events and statistics; threads may add to it at once. Times are ``time.perf_counter_ns()``."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: list[dict[str, Any]] = []
        self._processes: dict[str, int] = {}
        self._statistics: dict[str, dict[str, Statistic]] = {}

    def span(self, category: str, name: str, place: str, start: int, stop: int) -> None:
        """Something that took from ``start`` to ``stop``; ``place`` is the row of the picture: a device, a domain."""
        with self._lock:
            common = {"name": name, "cat": category, "pid": self._process(place), "tid": threading.get_ident()}
            self._events.append({**common, "ph": "X", "ts": _micros(start), "dur": (stop - start) / 1e3})
            self._statistic(category, name).add((stop - start) / 1e6)

    def value(self, category: str, name: str, value: float) -> None:
        """A counter's new value."""
        with self._lock:
            common = {"name": name, "cat": category, "pid": self._process(category)}
            self._events.append({**common, "ph": "C", "ts": _micros(time.perf_counter_ns()), "args": {name: value}})

    def instant(self, category: str, name: str, scope: str) -> None:
        """A moment; ``scope`` is the viewer's letter."""
        with self._lock:
            common = {"name": name, "cat": category, "pid": self._process(category), "tid": threading.get_ident()}
            self._events.append({**common, "ph": "i", "ts": _micros(time.perf_counter_ns()), "s": scope})

    def _process(self, place: str) -> int:
        return self._processes.setdefault(place, len(self._processes))

    def _statistic(self, category: str, name: str) -> Statistic:
        return self._statistics.setdefault(category, {}).setdefault(name, Statistic())

    def write(self, filename: str) -> None:
        """Write the events as JSON for chrome://tracing; a reader never sees half a file."""
        with self._lock:
            names = [
                {"ph": "M", "name": "process_name", "pid": number, "args": {"name": place}}
                for place, number in self._processes.items()
            ]
            text = json.dumps({"traceEvents": [*names, *self._events], "displayTimeUnit": "ms"})
        replace_file(filename, text.encode())

    def clear_events(self) -> None:
        """Forget the events; the statistics stay."""
        with self._lock:
            self._events.clear()
            self._processes.clear()

    def clear_statistics(self) -> None:
        """Start counting anew."""
        with self._lock:
            self._statistics.clear()

    def table(self, sort_by: str, ascending: bool) -> dict[str, dict[str, dict[str, float]]]:
        """Category -> name -> Count, Total, Min, Max, Avg (milliseconds), sorted within each category."""
        column = SORTS[sort_by]
        with self._lock:
            rows = {c: {n: s.row() for n, s in names.items()} for c, names in sorted(self._statistics.items())}
        return {
            c: dict(sorted(names.items(), key=lambda item: item[1][column], reverse=not ascending))
            for c, names in rows.items()
        }


def _micros(ns: int) -> float:
    return (ns + _EPOCH_NS) / 1e3

# SPDX-License-Identifier: Apache-2.0
"""What programs profile themselves with: domains with tasks, frames, counters and markers; events."""

from __future__ import annotations

import time

from ..base import MXNetError
from .state import state

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task"]

_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


class Domain:
    """A category for tasks, frames, counters and markers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A counter of this domain, with a first value if one is given."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A marker of this domain."""
        return Marker(self, name)


class _Span:
    """What has a beginning and an end; also a context manager."""

    def __init__(self, category: str, name: str) -> None:
        self.name, self._category = name, category
        self._start: int | None = None

    def start(self) -> None:
        """Begin to time."""
        self._start = time.perf_counter_ns()

    def stop(self) -> None:
        """End; the time is kept if the profiler runs and ``start`` was called."""
        if self._start is not None and state.active:
            state.trace.span(self._category, self.name, self._category, self._start, time.perf_counter_ns())
        self._start = None

    def __enter__(self) -> _Span:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return self.name


class Task(_Span):
    """A piece of work; the times of all its passes are counted together."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Span):
    """One of many equal pieces of work, such as a batch."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Span):
    """A piece of work without a domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """A number that changes; ``+=`` and ``-=`` change it too."""

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name, self._domain, self._value = name, domain.name, 0.0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """Set the number."""
        self._value = value
        if state.active:
            state.trace.value(self._domain, self.name, value)

    def increment(self, delta: float = 1) -> None:
        """Add ``delta``."""
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """Subtract ``delta``."""
        self.set_value(self._value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """A moment worth seeing in the trace."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name, self._category = name, f"{domain.name},instant_marker"

    def mark(self, scope: str = "process") -> None:
        """Mark now, for the 'global', 'process', 'thread', 'task' or 'marker' scope.

        Raises:
            MXNetError: another scope.
        """
        if scope not in _SCOPES:
            raise MXNetError(f"Invalid Input: '{scope}', valid values are: {{{', '.join(map(repr, sorted(_SCOPES)))}}}")
        if state.active:
            state.trace.instant(self._category, self.name, _SCOPES[scope])

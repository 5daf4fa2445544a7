# SPDX-License-Identifier: Apache-2.0
"""Timing several ways of computing the same thing side by side.

A round times each way once, a batch of calls at a time, so that a slow phase of the machine meets all
of them; ratios and differences are taken within a round. On a GPU a batch lies between two CUDA
events, and the device is idle before the first.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from itertools import repeat
from statistics import median
from typing import Any, Protocol

__all__ = ["Clock", "CudaClock", "HostClock", "Samples", "compare", "loop"]

Loop = Callable[[int], None]  #: makes so many calls


class Clock(Protocol):
    """Times a batch."""

    def measure(self, run: Loop, calls: int) -> float:
        """Seconds that ``run(calls)`` takes, everything it starts included."""


class HostClock:
    """The processor's clock."""

    def measure(self, run: Loop, calls: int) -> float:
        start = time.perf_counter()
        run(calls)
        return time.perf_counter() - start


class CudaClock:
    """CUDA events on the current stream.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()

    def measure(self, run: Loop, calls: int) -> float:
        self._cuda.get_current_stream().synchronize()
        self._start.record()
        run(calls)
        self._stop.record()
        self._stop.synchronize()
        return float(self._cuda.get_elapsed_time(self._start, self._stop)) / 1e3


def loop(function: Callable[..., Any], *arguments: Any) -> Loop:
    """A batch of calls; as in a user's loop, a result lives until the next one is there."""
    if len(arguments) == 1:
        only = arguments[0]

        def run_one(calls: int) -> None:
            for _ in repeat(None, calls):
                out = function(only)
            del out

        return run_one

    def run(calls: int) -> None:
        for _ in repeat(None, calls):
            out = function(*arguments)
        del out

    return run


class Samples:
    """Microseconds a call of one way of computing, one number a round."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.rounds: list[float] = []

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def minimum(self) -> float:
        return min(self.rounds)

    def over(self, other: Samples) -> float:
        """Median over rounds of this time / the other's in the same round."""
        return median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))

    def beyond(self, other: Samples) -> float:
        """Median over rounds of this time - the other's in the same round."""
        return median(a - b for a, b in zip(self.rounds, other.rounds, strict=True))


def compare(
    loops: Mapping[str, Loop],
    clock: Clock,
    rounds: int,
    seconds: float,
    calls: int | None = None,
    progress: Callable[[], object] = lambda: None,
) -> dict[str, Samples]:
    """Time every loop, interleaved.

    Args:
        loops: by name; each has run before (nothing is left to compile).
        rounds: how many batches of each.
        seconds: about how long a batch takes, where ``calls`` is None.
        calls: calls in a batch, the same for all.
        progress: called after every round.
    """
    samples = {name: Samples(calls or batch_size(run, clock, seconds)) for name, run in loops.items()}
    names = list(loops)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for k in range(rounds):
            for name in names[k % len(names) :] + names[: k % len(names)]:  # nobody is always first
                s = samples[name]
                s.rounds.append(max(clock.measure(loops[name], s.calls), 1e-12) / s.calls * 1e6)
            progress()
    finally:
        if collecting:
            gc.enable()
    return samples


def batch_size(run: Loop, clock: Clock, seconds: float) -> int:
    """How many calls take about ``seconds``, at least one."""
    calls = 1
    while True:
        took = clock.measure(run, calls)
        if took > seconds / 4 or calls >= 1 << 20:
            return max(1, min(round(calls * seconds / max(took, 1e-9)), 1 << 20))
        calls *= 4

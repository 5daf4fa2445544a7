# SPDX-License-Identifier: Apache-2.0
"""Samples at a distance from each other."""

from __future__ import annotations

from collections.abc import Iterator

from ...data.sampler import Sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(Sampler):
    """Every ``interval``-th of ``length`` indices: for 5 and 2, these are 0, 2, 4, 1, 3.

    Args:
        length: how many samples there are.
        interval: the distance between indices.
        rollover: go through the skipped ones afterwards; otherwise they are left out.

    Raises:
        AssertionError: an interval above the length.
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        assert interval <= length, f"Interval {interval} must be smaller than or equal to length {length}"
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else len(range(0, self._length, self._interval))

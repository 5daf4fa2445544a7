# SPDX-License-Identifier: Apache-2.0
"""Memory: which buffer holds what, and where in the arena intermediate results lie.

Lifetimes are intervals of steps. Buffers are placed from the largest to the smallest at the lowest
offset where no living neighbour is in the way, which is within a few percent of the best in
practice (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["ALIGNMENT", "least", "place"]

ALIGNMENT = 256


def place(lifetimes: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets for buffers, and the size of the arena.

    Args:
        lifetimes: (first step, last step, bytes) of each buffer.
    """
    if not lifetimes:
        return [], 0
    first, last, nbytes = np.array(lifetimes, np.int64).T
    sizes = -(-np.maximum(nbytes, 1) // ALIGNMENT) * ALIGNMENT
    offsets = np.zeros(len(lifetimes), np.int64)
    # arrays, in the order of placement: a network has thousands of buffers, and each is compared with all before it
    order = np.lexsort((np.arange(len(lifetimes)), -nbytes))
    first, last, sizes = first[order], last[order], sizes[order]
    for k in range(len(order)):
        alive = np.flatnonzero((first[:k] <= last[k]) & (first[k] <= last[:k]))
        offsets[k] = _lowest(offsets[alive], sizes[alive], sizes[k])
    total = int((offsets + sizes).max())
    found = np.empty_like(offsets)
    found[order] = offsets
    return found.tolist(), total


def _lowest(offsets: np.ndarray, sizes: np.ndarray, size: int) -> int:
    """The lowest offset at which ``size`` bytes fit between neighbours."""
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    ends = np.maximum.accumulate(np.concatenate([[0], starts + sizes[order]]))
    gaps = np.flatnonzero(ends[:-1] + size <= starts)
    return int(ends[gaps[0]] if len(gaps) else ends[-1])


def least(lifetimes: Sequence[tuple[int, int, int]]) -> int:
    """Bytes that any placement needs: what lives at the fullest step."""
    changes: dict[int, int] = {}
    for first, last, nbytes in lifetimes:
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    most = now = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most

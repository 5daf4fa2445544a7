# SPDX-License-Identifier: Apache-2.0
"""Memory: which buffer holds what, and where in the arena intermediate results lie.

Lifetimes are intervals of steps. Buffers are placed from the largest to the smallest at the lowest
offset where no living neighbour is in the way, which is within a few percent of the best in
practice (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ALIGNMENT", "place"]

ALIGNMENT = 256


def place(lifetimes: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets for buffers, and the size of the arena.

    Args:
        lifetimes: (first step, last step, bytes) of each buffer.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    total = 0
    for k in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i][2], i)):
        first, last, nbytes = lifetimes[k]
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        at = 0
        alive = [j for j in placed if lifetimes[j][0] <= last and first <= lifetimes[j][1]]
        for j in sorted(alive, key=lambda i: offsets[i]):
            if at + size <= offsets[j]:
                break
            at = max(at, offsets[j] + -(-max(lifetimes[j][2], 1) // ALIGNMENT) * ALIGNMENT)
        offsets[k] = at
        placed.append(k)
        total = max(total, at + size)
    return offsets, total

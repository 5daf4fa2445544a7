# SPDX-License-Identifier: Apache-2.0
"""Arena offsets of buffers by their lifetimes.

Lifetimes are intervals of steps. Buffers are placed from the largest to the smallest at the lowest
offset where no living neighbour is in the way, which is within a few percent of the best in
practice (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). Where that leaves gaps
at the fullest step, other orders are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...ir.computed import computed

__all__ = ["ALIGNMENT", "GOOD_ENOUGH", "allocate", "peak_live"]

ALIGNMENT = 256  #: bytes: buffers begin at multiples of them
GOOD_ENOUGH = 1.01  #: times what lives at the fullest step: then no other order of placement is tried
_MAX_RETRIED_BUFFERS = 2000  #: buffers up to which others are
_RANDOM_ORDERS = 48  #: orders by chance
_SIZE_SIGMA = 0.6  #: standard deviation of the logarithm of sizes in them
_SMALL_FRACTION = 256  #: smaller parts of the arena come last in them


@computed
def allocate(lifetimes: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets for buffers, and the size of the arena.

    Args:
        lifetimes: (first step, last step, bytes) of each buffer.
    """
    if not lifetimes:
        return [], 0
    first, last, nbytes = np.array(lifetimes, np.int64).T
    sizes = -(-np.maximum(nbytes, 1) // ALIGNMENT) * ALIGNMENT
    number = np.arange(len(lifetimes))
    best_offsets, total = _allocate_in_order(first, last, sizes, np.lexsort((number, -nbytes)))
    enough = GOOD_ENOUGH * peak_live(lifetimes)
    if total > enough and len(lifetimes) <= _MAX_RETRIED_BUFFERS:
        for order in _other_orders(first, last, sizes, total):
            offsets, size = _allocate_in_order(first, last, sizes, order)
            if size < total:
                best_offsets, total = offsets, size
            if total <= enough:
                break
    return best_offsets.tolist(), total


def _other_orders(first: np.ndarray, last: np.ndarray, sizes: np.ndarray, total: int) -> Iterator[np.ndarray]:
    """Other orders: what lives longest in front, or what lives first; then sizes as they might be by chance."""
    number = np.arange(len(sizes))
    for keys in ((number, -(last - first + 1) * sizes), (number, first - last), (-sizes, first)):
        yield np.lexsort(keys)
    generator = np.random.default_rng(0)  # the same orders every time
    for _ in range(_RANDOM_ORDERS):
        chance = np.where(
            sizes * _SMALL_FRACTION >= total, np.exp(_SIZE_SIGMA * generator.standard_normal(len(sizes))), 1e-9
        )
        yield np.argsort(-sizes * chance, kind="stable")


def _allocate_in_order(
    first: np.ndarray, last: np.ndarray, sizes: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, int]:
    """Offsets of buffers that are placed in this order, and the size of the arena."""
    offsets = np.zeros(len(order), np.int64)
    # arrays, in the order of placement: a network has thousands of buffers, and each is compared with all before it
    first, last, sizes = first[order], last[order], sizes[order]
    for k in range(len(order)):
        alive = np.flatnonzero((first[:k] <= last[k]) & (first[k] <= last[:k]))
        offsets[k] = _lowest_gap(offsets[alive], sizes[alive], sizes[k])
    total = int((offsets + sizes).max())
    result = np.empty_like(offsets)
    result[order] = offsets
    return result, total


def _lowest_gap(offsets: np.ndarray, sizes: np.ndarray, size: int) -> int:
    """The lowest offset at which ``size`` bytes fit between neighbours."""
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    ends = np.maximum.accumulate(np.concatenate([[0], starts + sizes[order]]))
    gaps = np.flatnonzero(ends[:-1] + size <= starts)
    return int(ends[gaps[0]] if len(gaps) else ends[-1])


@computed
def peak_live(lifetimes: Sequence[tuple[int, int, int]]) -> int:
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

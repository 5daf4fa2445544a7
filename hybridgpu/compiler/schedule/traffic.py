# SPDX-License-Identifier: Apache-2.0
"""Traffic of kernels: how many elements of each array one run reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ..ir.computed import computed
from ..ir.graph import Node
from ..ir.indexing import Expr
from .kernel import Kernel
from .scalar import ScalarProgram

__all__ = ["bytes_of", "elements_read", "elements_read_by_all"]


def bytes_of(counts: Mapping[Node, int]) -> int:
    """Bytes of so many elements of arrays."""
    return sum(n * node.dtype.size for node, n in counts.items())


def elements_read_by_all(kernels: Iterable[Kernel]) -> dict[Node, int]:
    """Elements that one launch of all ``kernels`` reads of each input, see :attr:`Kernel.elements_read`."""
    counts: dict[Node, int] = {}
    for k in kernels:
        for node, count in k.elements_read.items():
            counts[node] = _at_most(node.size, counts.get(node, 0) + count)
    return counts


def elements_read(
    program: ScalarProgram, whole: Sequence[Node] = (), also: Sequence[dict[Node, int]] = ()
) -> dict[Node, int]:
    """Elements of each array that one run reads, every one once that is touched at all.

    ``whole`` are arrays that are read from end to end besides, ``also`` says how many elements of arrays are.
    """
    counts: dict[Node, int] = {node: node.size for node in whole}
    for s in program.scalars:
        if s.op == "load":
            assert s.node is not None and s.offset is not None
            counts[s.node] = _at_most(s.node.size, counts.get(s.node, 0) + _distinct_offsets(s.offset))
    for more in also:
        for node, n in more.items():
            counts[node] = _at_most(node.size, counts.get(node, 0) + n)
    return counts


def _distinct_offsets(offset: Expr) -> int:
    """The number of different values of ``offset``: fewer than points where windows overlap."""
    if not offset.affine:  # read at run time, or taken apart: as many as there are points, at most
        return math.prod(v.extent for v in offset.vars)
    return _distinct_of([(abs(c), a.high - a.low + 1) for a, c in offset.terms])


@computed
def _at_most(most: int, count: int) -> int:
    return min(most, count)


@computed
def _distinct_of(terms: Sequence[tuple[int, int]]) -> int:
    """The number of different sums of multiples of steps: (step, extent) of each."""
    count, span = 1, 0
    cluster: list[tuple[int, int]] = []  # (step, extent) that interleave
    for step, extent in sorted(terms):
        if step > span:
            count, span, cluster = count * _distinct_sums(tuple(cluster)), 0, []
        span += step * (extent - 1)
        cluster.append((step, extent))
    return count * _distinct_sums(tuple(cluster))


@lru_cache(4096)  # the elements of a window differ in a constant only
def _distinct_sums(cluster: tuple[tuple[int, int], ...]) -> int:
    """The number of different sums of a multiple of each step."""
    points = math.prod(extent for _, extent in cluster)
    if len(cluster) < 2 or points > 1 << 20:
        return points
    reached = np.zeros(1 + sum(step * (extent - 1) for step, extent in cluster), bool)
    reached[0] = True
    for step, extent in cluster:
        multiples = 1
        while multiples < extent:  # those below are there
            more = min(multiples, extent - multiples)
            reached[step * more :] |= reached[: -step * more].copy()
            multiples += more
    return int(np.count_nonzero(reached))

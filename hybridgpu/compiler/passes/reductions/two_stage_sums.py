# SPDX-License-Identifier: Apache-2.0
"""Sums over a batch of rows and along them, taken along the rows first.

The slopes of GroupNorm and InstanceNorm are sums over the batch and over all elements of a row, whose statistics are sums
along rows of the same arrays. Along each row alone they are one value more that the kernel of the rows reduces on its way,
and what is left, a sum of such values over the batch, is small. Halves are added up in float32 between the two.
"""

from __future__ import annotations

from math import prod

from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewritten
from .reduction_splitting import met_nearby, normalises

__all__ = ["sum_rows_first"]


def sum_rows_first(graph: Graph) -> Graph:
    """``graph`` with such sums in two where rows of what is summed are reduced anyway."""
    uses: dict[Node, list[Node]] | None = None
    plans: dict[Node, tuple[int, ...]] = {}
    for node in graph.nodes:
        along = _along_rows(node)
        if not along:
            continue
        uses = graph.uses() if uses is None else uses
        if not normalises(node, uses) and _rows_reduced(node, along, uses):
            plans[node] = along
    if not plans:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _in_two(b, node, new[node.inputs[0]], plans[node]) if node in plans else None

    return rewritten(graph, rule)


def _along_rows(node: Node) -> tuple[int, ...]:
    """The last axes of what ``node`` sums, if it sums over all of these and over a batch, but not over all there is."""
    if node.prim.name != "sum" or not node.dtype.is_float or node.size < 2:
        return ()
    x, axes = node.inputs[0], node.params["axes"]
    first = x.ndim
    while first - 1 in axes:
        first -= 1
    batch = prod(x.shape[a] for a in axes if a < first)
    along = tuple(range(first, x.ndim))
    return along if batch > 1 and prod(x.shape[a] for a in along) > 1 else ()


def _rows_reduced(node: Node, along: tuple[int, ...], uses: dict[Node, list[Node]]) -> bool:
    """True if something reduces rows of just these elements."""
    x = node.inputs[0]
    count = prod(x.shape[a] for a in along)
    for found in met_nearby(x, uses):
        shape, axes = found.inputs[0].shape, found.params["axes"]
        if found.size * count == x.size and prod(shape[axes[0] :]) == count:
            return True
    return False


def _in_two(b: Builder, node: Node, x: Node, along: tuple[int, ...]) -> Node:
    x = b.cast(x, node.dtype)
    total: Node = b.sum(b.sum(x, along), tuple(a for a in node.params["axes"] if a not in along))
    return total

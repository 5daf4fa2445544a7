# SPDX-License-Identifier: Apache-2.0
"""Two-stage sums: over a batch of rows and along them, first along the rows.

The slopes of GroupNorm and InstanceNorm are sums over the batch and over all elements of a row, whose statistics are sums
along rows of the same arrays. Along each row alone they are one value more that the kernel of the rows reduces on its way,
and what is left, a sum of such values over the batch, is small. Halves are added up in float32 between the two.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite
from .reduction_splitting import nearby_reductions, rereads_operand

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with such sums in two where rows of what is summed are reduced anyway."""
    uses: dict[Node, list[Node]] | None = None
    plans: dict[Node, tuple[int, ...]] = {}
    for node in graph.nodes:
        along = _row_axes(node)
        if not along:
            continue
        uses = graph.uses() if uses is None else uses
        if not rereads_operand(node, uses) and _rows_are_reduced(node, along, uses):
            plans[node] = along
    if not plans:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _two_stage(b, node, new[node.inputs[0]], plans[node]) if node in plans else None

    return rewrite(graph, rule)


def _row_axes(node: Node) -> tuple[int, ...]:
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


def _rows_are_reduced(node: Node, along: tuple[int, ...], uses: dict[Node, list[Node]]) -> bool:
    """True if something reduces rows of just these elements."""
    x = node.inputs[0]
    count = prod(x.shape[a] for a in along)
    for found in nearby_reductions(x, uses):
        shape, axes = found.inputs[0].shape, found.params["axes"]
        if found.size * count == x.size and prod(shape[axes[0] :]) == count:
            return True
    return False


def _two_stage(b: Builder, node: Node, x: Node, along: tuple[int, ...]) -> Node:
    x = b.cast(x, node.dtype)
    total: Node = b.sum(b.sum(x, along), tuple(a for a in node.params["axes"] if a not in along))
    return total

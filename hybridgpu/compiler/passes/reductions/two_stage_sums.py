# SPDX-License-Identifier: Apache-2.0
"""Two-stage sums: over a batch of rows and along them, first along the rows.

The slopes of GroupNorm and InstanceNorm are sums over the batch and over all elements of a row, whose statistics are sums
along rows of the same arrays. Along each row alone they are one value more that the kernel of the rows reduces on its way,
and what is left, a sum of such values over the batch, is small. Halves are added up in float32 between the two.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import Graph, Node
from ...target import Target
from .monoid import Chunks, Monoid, Reductions, split_reductions_of
from .reduction_splitting import Split, nearby_reductions, rereads_operand

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with such sums in two where rows of what is summed are reduced anyway."""
    return split_reductions_of(_TWO_STAGES, graph, ctx.target)


def _match(node: Node, target: Target) -> Reductions | None:
    return Reductions((node,)) if _row_axes(node) else None


def _choose_split(found: Reductions, uses: dict[Node, list[Node]], target: Target) -> Split | None:
    (node,) = found.results
    along = _row_axes(node)
    if rereads_operand(node, uses) or not _rows_are_reduced(node, along, uses):
        return None
    return Split(tuple(a for a in node.params["axes"] if a not in along))


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


def _merge_sums(chunks: Chunks, node: Node) -> Node:
    total: Node = chunks.b.sum(chunks.reduce("sum"), chunks.split.whole_axes)
    return total


_TWO_STAGES = Monoid(_match, _choose_split, lambda node: 0, (_merge_sums,))

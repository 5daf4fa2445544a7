# SPDX-License-Identifier: Apache-2.0
"""Welford statistics: means and variances by chunks, so that rows that no chip holds are read once.

A variance waits for the mean: ``sum((x - mean)**2)`` walks the row a second time. Where a row stays on chip that costs
no memory, and nothing is more accurate. Where it does not, parts of it do: each part has a mean ``c`` of its own, and
sums about that, which are merged (as by Chan, Golub and LeVeque, 1979) by an identity that holds for any ``a``, the
mean of the whole row among others, and any ``c``, a rounded mean among others::

    sum((x - a)**2)  =  sum over parts of  sum((x - c)**2) + (c - a) * (2 * sum(x - c) + length * (c - a))

Unlike in the difference of mean square and squared mean nothing is cancelled: offsets far from zero cost no digits.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ....core.dtypes import i32
from ...ir.graph import Graph, Node
from ...target import Target
from .monoid import Chunks, Monoid, Reductions, split_reductions_of
from .reduction_splitting import Split, rereads_operand, split_to_fit

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_MAX_LOOKAHEAD = 32  #: nodes of a row's size between a sum and a variance


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with sums of squared deviations by chunks where the target would read a row twice."""
    return split_reductions_of(_WELFORD, graph, ctx.target)


def _match_deviations(node: Node, target: Target) -> Reductions | None:
    """(sum(x), ``node``) if that sums (x - center)**2 over the same axes; the center, which is given, depends on the sum."""
    square = node.inputs[0] if node.inputs else node
    if node.prim.name != "sum" or not node.dtype.is_float or square.dtype is not node.dtype or not node.size:
        return None  # (of halves such sums would be taken in halves)
    if square.prim.name != "mul" or square.inputs[0] is not square.inputs[1]:
        return None
    centred = square.inputs[0]
    if centred.prim.name != "sub" or centred.inputs[1].prim.name != "broadcast":
        return None
    x, about, axes = centred.inputs[0], centred.inputs[1].inputs[0], node.params["axes"]
    if about.shape != tuple(1 if k in axes else d for k, d in enumerate(x.shape)):
        return None
    seen, frontier = {about}, [about]
    while frontier and len(seen) < _MAX_LOOKAHEAD:
        n = frontier.pop()
        if n.prim.name == "sum" and n.inputs[0] is x and n.params["axes"] == axes:
            return Reductions((n, node), (about,))
        if n.prim.family in ("elementwise", "view"):
            frontier += [i for i in n.inputs if i not in seen and i.size == node.size]
            seen.update(n.inputs)
    return None


def _choose_split(reductions: Reductions, uses: dict[Node, list[Node]], target: Target) -> Split | None:
    total, squares = reductions.results
    return split_to_fit(total, rereads_operand(squares, uses), target)


def _merge_sums(chunks: Chunks, total: Node) -> Node:
    merged: Node = chunks.b.sum(chunks.gather(chunks.reduce("sum", keepdims=True)), (chunks.axis,))
    return merged


def _merge_squares(chunks: Chunks, squares: Node, center: Node) -> Node:
    """The sum of squared deviations from ``center``, which has 1 for every axis that is reduced."""
    b, x, inner, split = chunks.b, chunks.x, chunks.inner, chunks.split
    sums = chunks.reduce("sum", keepdims=True)
    whole = prod(x.shape[k] for k in inner)
    axis = 0 if split.axis is None else split.axis
    missing = 0 if split.axis is None else split.count * split.length - squares.inputs[0].shape[axis]
    length = b.full(sums.shape, whole, x.dtype)
    inverse = b.full(sums.shape, 1.0 / whole, x.dtype)
    if missing:  # of the last chunk
        short = whole // split.length * (split.length - missing)
        last = b.eq(b.iota(sums.shape, axis, i32), split.count - 1)
        length = b.select(last, b.full(sums.shape, short, x.dtype), length)
        inverse = b.select(last, b.full(sums.shape, 1.0 / short, x.dtype), inverse)
    centred = x - sums * inverse
    if missing:
        at = b.iota(x.shape, axis, i32) * split.length + b.iota(x.shape, axis + 1, i32)
        centred = b.select(b.lt(at, split.count * split.length - missing), centred, b.full_like(centred, 0))
    deviations, rest = b.sum(centred * centred, inner), b.sum(centred, inner)
    center, lead = b.reshape(center, squares.shape), chunks.axis
    center = b.reshape(center, (*center.shape[:lead], 1, *center.shape[lead:]))
    offset = chunks.gather(sums) * chunks.gather(inverse) - center
    twice = chunks.gather(rest) * 2.0
    merged: Node = b.sum(chunks.gather(deviations) + offset * (twice + chunks.gather(length) * offset), (lead,))
    return merged


_WELFORD = Monoid(_match_deviations, _choose_split, lambda total: 0, (_merge_sums, _merge_squares))

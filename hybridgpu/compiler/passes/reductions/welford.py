# SPDX-License-Identifier: Apache-2.0
"""Welford statistics: means and variances by chunks, so that rows that no chip holds are read once.

A variance waits for the mean: ``sum((x - mean)**2)`` walks the row a second time. Where a row stays on chip that costs
no memory, and nothing is more accurate. Where it does not, parts of it do: each part has a mean ``c`` of its own, and
sums about that, which are merged (as by Chan, Golub and LeVeque, 1979) by an identity that holds for any ``a``, the
mean of the whole row among others, and any ``c``, a rounded mean among others::

    sum((x - a)**2)  =  sum over parts of  sum((x - c)**2) + (c - a) * (2 * sum(x - c) + length * (c - a))

All of these are ordinary reductions, so that fusion, scheduling and the memory plan need to know nothing of it. Unlike
in the difference of mean square and squared mean nothing is cancelled: offsets far from zero cost no digits.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ....core.dtypes import i32
from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite
from .reduction_splitting import Split, gather_partials, rereads_operand, split_axis, split_to_fit

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_MAX_LOOKAHEAD = 32  #: nodes of a row's size between a sum and a variance


@dataclass(frozen=True)
class _Pair:
    """``total`` = sum(x), ``squares`` = sum((x - broadcast(center))**2), where ``center`` depends on ``total``."""

    total: Node
    center: Node
    squares: Node
    split: Split


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with sums of squared deviations by chunks where the target would read a row twice."""
    pairs: dict[Node, _Pair] = {}
    totals: dict[Node, _Pair] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        found = _match_deviations(node)
        if found is None:
            continue
        uses = graph.uses() if uses is None else uses
        total, about = found
        parts = totals[total].split if total in totals else split_to_fit(total, rereads_operand(node, uses), ctx.target)
        if parts is not None:
            pairs[node] = totals[total] = _Pair(total, about, node, parts)
    if not pairs:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node in totals:
            return _merge_sums(b, totals[node], new[node.inputs[0]])
        pair = pairs.get(node)
        return _merge_squares(b, pair, new[pair.total.inputs[0]], new[pair.center]) if pair else None

    return rewrite(graph, rule)


def _match_deviations(node: Node) -> tuple[Node, Node] | None:
    """(sum(x), center) if ``node`` sums (x - center)**2 over the same axes, and the center depends on the sum."""
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
            return n, about
        if n.prim.family in ("elementwise", "view"):
            frontier += [i for i in n.inputs if i not in seen and i.size == node.size]
            seen.update(n.inputs)
    return None


def _outer_axes(total: Node) -> int:
    """The number of row axes before that of the chunks."""
    axes = total.params["axes"]
    return sum(a not in axes for a in range(axes[0]))


def _partial_sums(b: Builder, pair: _Pair, x: Node) -> tuple[Node, tuple[int, ...], Node]:
    """The operand by chunks, the axes inside a chunk, and the chunks' sums, with these axes as 1."""
    x, inner = split_axis(b, x, pair.total.params["axes"], pair.split, 0)
    return x, inner, b.sum(x, inner, keepdims=True)


def _merge_sums(b: Builder, pair: _Pair, x: Node) -> Node:
    x, inner, _ = _partial_sums(b, pair, x)
    lead = _outer_axes(pair.total)
    return b.sum(gather_partials(b, b.sum(x, inner), inner, pair.split, lead), (lead,))


def _merge_squares(b: Builder, pair: _Pair, x: Node, about: Node) -> Node:
    """The sum of squared deviations from ``about``, which has 1 for every axis of ``total``'s."""
    x, inner, sums = _partial_sums(b, pair, x)
    lead, parts = _outer_axes(pair.total), pair.split
    whole = prod(x.shape[k] for k in inner)
    axis = 0 if parts.axis is None else parts.axis
    missing = 0 if parts.axis is None else parts.count * parts.length - pair.total.inputs[0].shape[axis]
    length = b.full(sums.shape, whole, x.dtype)
    inverse = b.full(sums.shape, 1.0 / whole, x.dtype)
    if missing:  # of the last part
        short = whole // parts.length * (parts.length - missing)
        last = b.eq(b.iota(sums.shape, axis, i32), parts.count - 1)
        length = b.select(last, b.full(sums.shape, short, x.dtype), length)
        inverse = b.select(last, b.full(sums.shape, 1.0 / short, x.dtype), inverse)
    centred = x - sums * inverse
    if missing:
        at = b.iota(x.shape, axis, i32) * parts.length + b.iota(x.shape, axis + 1, i32)
        centred = b.select(b.lt(at, parts.count * parts.length - missing), centred, b.full_like(centred, 0))
    squares, rest = b.sum(centred * centred, inner), b.sum(centred, inner)

    def line(y: Node) -> Node:
        return gather_partials(b, b.reshape(y, squares.shape), inner, parts, lead)

    about = b.reshape(about, pair.total.shape)
    apart = line(sums) * line(inverse) - b.reshape(about, (*about.shape[:lead], 1, *about.shape[lead:]))
    return b.sum(line(squares) + apart * (line(rest) * 2.0 + line(length) * apart), (lead,))

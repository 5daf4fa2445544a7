# SPDX-License-Identifier: Apache-2.0
"""Online softmax: maxima and sums of exponentials by chunks, so that rows that no chip holds are read once.

``sum(exp(x - max))`` waits for the maximum: it walks the row a second time, and a softmax a third time. Where the row
does not stay on chip, parts of it do: each part has a maximum ``m`` of its own, and the sum about that, which are
merged::

    sum(exp(x - a))  =  sum over parts of  sum(exp(x - m)) * exp(m - a)      where a is the largest m

No exponential is larger than 1, as before. A part of minus infinities alone is summed about 0, which gives 0 instead of
NaN. Everything is an ordinary reduction, so that fusion, scheduling and the memory plan need to know nothing of it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ...ir.graph import Builder, Graph, Node
from ...primitives.views import RESHAPES, strip_views
from ..rewrite import rewrite
from .reduction_splitting import Split, gather_partials, rereads_operand, split_axis, split_to_fit

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


@dataclass(frozen=True)
class _Pair:
    """``largest`` = amax(x), ``total`` = sum(exp(x - broadcast(largest)))."""

    largest: Node
    total: Node
    split: Split


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with sums of exponentials by chunks where the target would read a row more often."""
    totals: dict[Node, _Pair] = {}
    maxima: dict[Node, _Pair] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        largest = _softmax_max(node)
        if largest is None:
            continue
        uses = graph.uses() if uses is None else uses
        parts = split_to_fit(node, rereads_operand(node, uses), ctx.target)
        if parts is not None:
            totals[node] = maxima[largest] = _Pair(largest, node, parts)
    if not totals:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node in maxima:
            return _merge_maxima(b, maxima[node], new[node.inputs[0]])
        pair = totals.get(node)
        return _merge_sums(b, pair, new[pair.largest.inputs[0]], new[pair.largest]) if pair else None

    return rewrite(graph, rule)


def _softmax_max(node: Node) -> Node | None:
    """The node amax(x) if ``node`` is the sum of exp(x - amax(x)) over the same axes."""
    power = node.inputs[0] if node.inputs else node
    if node.prim.name != "sum" or not node.dtype.is_float or power.dtype is not node.dtype or not node.size:
        return None
    if power.prim.name != "exp" or power.inputs[0].prim.name != "sub":
        return None
    x, spread = power.inputs[0].inputs
    if spread.prim.name != "broadcast":
        return None
    axes, about = node.params["axes"], spread.inputs[0]
    if about.shape != tuple(1 if k in axes else d for k, d in enumerate(x.shape)):
        return None
    about = strip_views(about, RESHAPES)
    same = about.prim.name == "amax" and about.inputs[0] is x and about.params["axes"] == axes
    return about if same else None


def _outer_axes(pair: _Pair) -> int:
    """The number of row axes before that of the chunks."""
    axes = pair.total.params["axes"]
    return sum(a not in axes for a in range(axes[0]))


def _partial_maxima(b: Builder, pair: _Pair, x: Node) -> tuple[Node, tuple[int, ...], Node]:
    """The operand by chunks, the axes inside a chunk, and the chunks' maxima, with these axes as 1."""
    x, inner = split_axis(b, x, pair.total.params["axes"], pair.split, -inf)
    return x, inner, b.reduce("amax", x, inner, keepdims=True)


def _gather(b: Builder, pair: _Pair, y: Node, inner: tuple[int, ...]) -> Node:
    """One value of each chunk, with one axis for all chunks."""
    shape = tuple(d for k, d in enumerate(y.shape) if k not in inner)
    return gather_partials(b, b.reshape(y, shape), inner, pair.split, _outer_axes(pair))


def _merge_maxima(b: Builder, pair: _Pair, x: Node) -> Node:
    _, inner, maxima = _partial_maxima(b, pair, x)
    return b.reduce("amax", _gather(b, pair, maxima, inner), (_outer_axes(pair),))


def _merge_sums(b: Builder, pair: _Pair, x: Node, largest: Node) -> Node:
    x, inner, maxima = _partial_maxima(b, pair, x)
    lead = _outer_axes(pair)
    about = b.select(b.eq(maxima, -inf), b.full_like(maxima, 0), maxima)
    sums = b.sum(b.exp(x - about), inner, keepdims=True)
    whole = b.reshape(largest, (*largest.shape[:lead], 1, *largest.shape[lead:]))
    scale = b.exp(_gather(b, pair, maxima, inner) - whole)
    return b.sum(_gather(b, pair, sums, inner) * scale, (lead,))

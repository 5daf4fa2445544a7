# SPDX-License-Identifier: Apache-2.0
"""Online softmax: maxima and sums of exponentials by chunks, so that rows that no chip holds are read once.

``sum(exp(x - max))`` waits for the maximum: it walks the row a second time, and a softmax a third time. Where the row
does not stay on chip, parts of it do: each part has a maximum ``m`` of its own, and the sum about that, which are
merged::

    sum(exp(x - a))  =  sum over parts of  sum(exp(x - m)) * exp(m - a)      where a is the largest m

No exponential is larger than 1, as before. A part of minus infinities alone is summed about 0, which gives 0 instead of
NaN.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ...ir.graph import Graph, Node
from ...primitives.views import RESHAPES, strip_views
from ...target import Target
from .monoid import Chunks, Monoid, Reductions, split_reductions_of
from .reduction_splitting import Split, rereads_operand, split_to_fit

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with sums of exponentials by chunks where the target would read a row more often."""
    return split_reductions_of(_SOFTMAX, graph, ctx.target)


def _match_softmax(node: Node, target: Target) -> Reductions | None:
    """(amax(x), ``node``) if that is the sum of exp(x - amax(x)) over the same axes."""
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
    return Reductions((about, node), (about,)) if same else None


def _choose_split(reductions: Reductions, uses: dict[Node, list[Node]], target: Target) -> Split | None:
    largest, total = reductions.results
    return split_to_fit(largest, rereads_operand(total, uses), target)


def _merge_maxima(chunks: Chunks, largest: Node) -> Node:
    return chunks.b.reduce("amax", chunks.gather(chunks.reduce("amax", keepdims=True)), (chunks.axis,))


def _merge_sums(chunks: Chunks, total: Node, largest: Node) -> Node:
    b, lead = chunks.b, chunks.axis
    maxima = chunks.reduce("amax", keepdims=True)
    about = b.select(b.eq(maxima, -inf), b.full_like(maxima, 0), maxima)
    sums = b.sum(b.exp(chunks.x - about), chunks.inner, keepdims=True)
    whole = b.reshape(largest, (*largest.shape[:lead], 1, *largest.shape[lead:]))
    scale = b.exp(chunks.gather(maxima) - whole)
    merged: Node = b.sum(chunks.gather(sums) * scale, (lead,))
    return merged


_SOFTMAX = Monoid(_match_softmax, _choose_split, lambda largest: -inf, (_merge_maxima, _merge_sums))

# SPDX-License-Identifier: Apache-2.0
"""Sums of exponentials over rows that no chip holds, read from memory once.

``sum(exp(x - max))`` waits for the maximum: it walks the row a second time, and a softmax a third time. Where the row
does not stay on chip, parts of it do: each part has a maximum ``m`` of its own, and the sum about that, which are
merged::

    sum(exp(x - a))  =  sum over parts of  sum(exp(x - m)) * exp(m - a)      where a is the largest m

No exponential is larger than 1, as before. A part of minus infinities alone is summed about 0, which gives 0 instead of
NaN. Everything is an ordinary reduction, so that fusion, scheduling and the memory plan need to know nothing of it.
"""

from __future__ import annotations

from math import inf

from ....dataclass import dataclass
from ...ir.graph import Builder, Graph, Node
from ...primitives.views import RESHAPES, behind
from ...target import Target
from ..rewrite import rewritten
from .reduction_splitting import Parts, lined_up, normalises, parts_on_chip, taken_apart

__all__ = ["merge_exponentials"]


@dataclass(frozen=True)
class _Pair:
    """``largest`` = amax(x), ``total`` = sum(exp(x - broadcast(largest)))."""

    largest: Node
    total: Node
    parts: Parts


def merge_exponentials(graph: Graph, target: Target) -> Graph:
    """``graph`` with sums of exponentials in parts where ``target``, a GPU, would read a row more often."""
    totals: dict[Node, _Pair] = {}
    maxima: dict[Node, _Pair] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        largest = _about(node)
        if largest is None:
            continue
        uses = graph.uses() if uses is None else uses
        parts = parts_on_chip(node, normalises(node, uses), target)
        if parts is not None:
            totals[node] = maxima[largest] = _Pair(largest, node, parts)
    if not totals:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node in maxima:
            return _largest(b, maxima[node], new[node.inputs[0]])
        pair = totals.get(node)
        return _total(b, pair, new[pair.largest.inputs[0]], new[pair.largest]) if pair else None

    return rewritten(graph, rule)


def _about(node: Node) -> Node | None:
    """The maximum of x if ``node`` is the sum of exp(x - maximum) over the same axes."""
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
    about = behind(about, RESHAPES)
    same = about.prim.name == "amax" and about.inputs[0] is x and about.params["axes"] == axes
    return about if same else None


def _lead(pair: _Pair) -> int:
    """Axes of rows before that of the parts."""
    axes = pair.total.params["axes"]
    return sum(a not in axes for a in range(axes[0]))


def _maxima(b: Builder, pair: _Pair, x: Node) -> tuple[Node, tuple[int, ...], Node]:
    """What is reduced in parts, the axes of a part's own elements, and the maxima, with these axes as 1."""
    x, inner = taken_apart(b, x, pair.total.params["axes"], pair.parts, -inf)
    return x, inner, b.reduce("amax", x, inner, keepdims=True)


def _line(b: Builder, pair: _Pair, y: Node, inner: tuple[int, ...]) -> Node:
    """A value of each part, with one axis for all parts."""
    shape = tuple(d for k, d in enumerate(y.shape) if k not in inner)
    return lined_up(b, b.reshape(y, shape), inner, pair.parts, _lead(pair))


def _largest(b: Builder, pair: _Pair, x: Node) -> Node:
    _, inner, maxima = _maxima(b, pair, x)
    return b.reduce("amax", _line(b, pair, maxima, inner), (_lead(pair),))


def _total(b: Builder, pair: _Pair, x: Node, largest: Node) -> Node:
    x, inner, maxima = _maxima(b, pair, x)
    lead = _lead(pair)
    about = b.select(b.eq(maxima, -inf), b.full_like(maxima, 0), maxima)
    sums = b.sum(b.exp(x - about), inner, keepdims=True)
    whole = b.reshape(largest, (*largest.shape[:lead], 1, *largest.shape[lead:]))
    scale = b.exp(_line(b, pair, maxima, inner) - whole)
    return b.sum(_line(b, pair, sums, inner) * scale, (lead,))

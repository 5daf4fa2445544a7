# SPDX-License-Identifier: Apache-2.0
"""Shared residuals: operands that the forward pass materializes for a library, saved for the backward pass as well.

Their gradients read these operands again: a relu, a join, a matrix whose axes changed places. Such a value is elementwise
work and views, which the backward pass would do once more for nothing else than to write it once more. Kept in place of
what it is made of it takes no memory. Where that has to be kept as well, it is kept if it spares enough traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir.graph import Graph, Node
from ...primitives.views import strip_views
from ..materialize import memory_behind
from ..precision.exact_extrema import bits_may_change, extrema_operands

__all__ = ["choose_residuals", "materialized_operands"]

_MIN_BYTES_SAVED = 2  #: bytes of traffic that have to be spared for each further byte of memory
_FUSIBLE = frozenset({"elementwise", "view", "gradient"})  #: families that kernels compute on their way
_MAX_NODES = 24  #: that are looked at on the way to what a value is made of


def materialized_operands(graph: Graph, by_library: Callable[[Node], bool], exact: bool) -> list[Node]:
    """The values, made by elementwise work and views, that lie in memory since a library reads them.

    Args:
        by_library: whether a library computes a product or convolution.
        exact: whether operations on float32 and float64 give the same bits when they are computed again. Values whose
            bits may be others are left out where extremes are taken of them: those would be of what was not rounded.
    """
    materialized: dict[Node, None] = {}
    for node in graph.nodes:
        if node.prim.name not in ("dot", "conv") or not by_library(node):
            continue
        for k, operand in enumerate(node.inputs):
            memory = memory_behind(node, k, operand)
            if memory.prim.family in _FUSIBLE and strip_views(memory).prim.family != "leaf":
                materialized[memory] = None
    if not materialized:
        return []
    met, change = extrema_operands(graph), bits_may_change(exact)
    return [n for n in materialized if strip_views(n) not in met or not change(strip_views(n))]


def choose_residuals(
    operands: Sequence[Node], stops: Collection[Node], without: Collection[Node], with_all: Collection[Node]
) -> list[Node]:
    """The ``operands`` that are worth keeping.

    Args:
        stops: values that may be kept instead.
        without: inputs and values that the backward pass takes if it makes all operands again.
        with_all: what it takes if they are kept.
    """
    made_of = {o: _sources(o, stops) for o in operands if o in with_all}
    chosen = [o for o, ends in made_of.items() if ends is not None]
    while True:
        needed = {e for o, ends in made_of.items() if o not in chosen and ends for e in ends}
        freed: set[Node] = set()
        good = []
        for o in chosen:
            gone = {e for e in made_of[o] or () if e in without and e not in with_all and e not in needed}
            new = sum(e.type.nbytes for e in gone - freed if e.prim.name != "input")
            spared = o.type.nbytes + sum(e.type.nbytes for e in gone)
            if spared >= _MIN_BYTES_SAVED * (o.type.nbytes - new):
                good.append(o)
                freed |= gone
        if len(good) == len(chosen):
            return chosen
        chosen = good


def _sources(node: Node, stops: Collection[Node]) -> set[Node] | None:
    """The inputs and the values among ``stops`` that ``node`` is made of; None if these are far away."""
    seen, frontier, sources = {node}, [node], set[Node]()
    while frontier:
        for i in frontier.pop().inputs:
            if i in seen:
                continue
            seen.add(i)
            if i in stops or i.prim.family not in _FUSIBLE:
                sources.add(i)
            else:
                frontier.append(i)
        if len(seen) > _MAX_NODES:
            return None
    return sources

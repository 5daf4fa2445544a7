# SPDX-License-Identifier: Apache-2.0
"""Sums of many updates in few rows of a table, done in parts: few blocks of a GPU would have all the work otherwise.

Each part of the updates is summed in a table of its own, and the tables are added up: histograms of long arrays, and
gradients of small tables that are looked up often. How many parts there are depends on shapes and the GPU alone, so that
results are the same in every run. Half precision is summed in float32 on the way.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....dtypes import f32
from ...ir.graph import Builder, Graph, Node
from ...target import Target
from ..rewrite import rewritten
from .reduction_splitting import Parts, cut, taken_apart
from .scatter_cost import choose, work_of

__all__ = ["scatter_in_parts"]

_GAIN = 0.7  #: of the time that it takes otherwise
_MOST = 11  #: parts at most, as a power of two
_LEAST = 1e-5  #: seconds of a scatter that may be worth it


def scatter_in_parts(graph: Graph, target: Target) -> Graph:
    """``graph`` with sums at computed positions in parts where ``target`` gains by it."""
    plans = {n: p for n in graph.nodes if n.prim.name in ("scatter_add", "scatter_along") and (p := _parts(n, target))}
    if not plans:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _in_parts(b, node, new[node.inputs[0]], new[node.inputs[1]], plans[node]) if node in plans else None

    return rewritten(graph, rule)


def _axes(node: Node) -> tuple[int, ...]:
    """The axes along which updates meet the same rows."""
    axis = node.params["axis"]
    return (axis,) if node.prim.name == "scatter_along" else tuple(range(axis, axis + node.inputs[1].ndim))


def _parts(node: Node, target: Target) -> Parts | None:
    if not node.size or not node.inputs[0].size or node.dtype.kind == "b":
        return None
    work = work_of(node)
    whole = choose(work, target).seconds
    if whole < _LEAST:
        return None

    def seconds(count: int) -> float:
        apart = replace(work, rows=work.rows * count, lead=work.lead * count)
        table = node.size * max(node.dtype.size, 4 if node.dtype.is_float else 1)
        return choose(apart, target).seconds + target.launch_seconds + (count + 1) * table * target.byte_seconds

    wanted = min((1 << k for k in range(1, _MOST + 1)), key=seconds)
    found = cut(node.inputs[0].shape, _axes(node), wanted)
    if found is None or seconds(_count(node, found)) > _GAIN * whole:
        return None
    return found


def _count(node: Node, parts: Parts) -> int:
    return prod(node.inputs[0].shape[a] for a in parts.kept) * parts.count


def _in_parts(b: Builder, node: Node, updates: Node, at: Node, parts: Parts) -> Node:
    axes, axis = _axes(node), node.params["axis"]
    count = _count(node, parts)
    wide = node.dtype.is_half
    if wide:
        updates = b.cast(updates, f32)
    before, behind = updates.shape[:axis], updates.shape[axes[-1] + 1 :]

    def apart(x: Node, first: int) -> Node:
        """``x``, whose first axis of positions is ``first``, with an axis of parts and one of a part's positions there."""
        mine = tuple(a - axis + first for a in axes)
        moved = Parts(
            tuple(a - axis + first for a in parts.kept),
            None if parts.axis is None else parts.axis - axis + first,
            parts.count,
            parts.length,
        )
        last = x.shape[mine[-1] + 1 :]
        x, _ = taken_apart(b, x, mine, moved, 0)
        length = x.size // (prod(x.shape[:first]) * count * prod(last))
        return b.reshape(x, (*x.shape[:first], count, length, *last))

    updates = apart(updates, axis)
    if node.prim.name == "scatter_along":
        at = apart(at, axis)
    else:
        at = apart(at, 0)
        at = b.broadcast(b.reshape(at, (*(1 for _ in before), *at.shape, *(1 for _ in behind))), updates.shape)
    tables = b.scatter_along(updates, at, axis=axis + 1, extent=node.params["extent"])
    total: Node = b.sum(tables, (axis,))
    return b.cast(total, node.dtype) if wide else total

# SPDX-License-Identifier: Apache-2.0
"""Split scatters: sums of many updates in few rows of a table, which few blocks of a GPU would compute otherwise.

Each chunk of the updates is summed in a table of its own, and the tables are added up: histograms of long arrays, and
gradients of small tables that are looked up often. The number of chunks depends on shapes and the GPU alone, so that
results are the same in every run. Half precision is summed in float32 on the way.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ....core.dtypes import f32
from ... import cost
from ...ir.graph import Builder, Graph, Node
from ...target import Target
from ..rewrite import replace_nodes
from .monoid import split_axis
from .reduction_splitting import Split, choose_split
from .scatter_cost import choose_config, scatter_workload

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_MAX_TIME_RATIO = 0.7  #: of the time that it takes otherwise
_MAX_LOG2_SPLIT = 11  #: parts at most, as a power of two
_MIN_SECONDS = 1e-5  #: seconds of a scatter that may be worth it


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with scatter-adds split where the target gains by it."""
    plans = {
        n: p
        for n in graph.nodes
        if n.prim.name in ("scatter_add", "scatter_along") and (p := _profitable_split(n, ctx.target))
    }
    return replace_nodes(graph, plans, _split)


def _axes(node: Node) -> tuple[int, ...]:
    """The axes along which updates meet the same rows."""
    axis = node.params["axis"]
    return (axis,) if node.prim.name == "scatter_along" else tuple(range(axis, axis + node.inputs[1].ndim))


def _profitable_split(node: Node, target: Target) -> Split | None:
    if not node.size or not node.inputs[0].size or node.dtype.kind == "b":
        return None
    work = scatter_workload(node)
    whole = choose_config(work, target).seconds
    if whole < _MIN_SECONDS:
        return None

    def seconds(count: int) -> float:
        split_work = replace(work, rows=work.rows * count, groups=work.groups * count)
        table = node.size * max(node.dtype.size, 4 if node.dtype.is_float else 1)
        return choose_config(split_work, target).seconds + cost.seconds(target, (count + 1) * table, launches=1)

    chunks = min((1 << k for k in range(1, _MAX_LOG2_SPLIT + 1)), key=seconds)
    split = choose_split(node.inputs[0].shape, _axes(node), chunks)
    if split is None or seconds(_split_count(node, split)) > _MAX_TIME_RATIO * whole:
        return None
    return split


def _split_count(node: Node, split: Split) -> int:
    return prod(node.inputs[0].shape[a] for a in split.whole_axes) * split.count


def _split(b: Builder, node: Node, new: dict[Node, Node], split: Split) -> Node:
    updates, at = (new[i] for i in node.inputs)
    axes, axis = _axes(node), node.params["axis"]
    count = _split_count(node, split)
    wide = node.dtype.is_half
    if wide:
        updates = b.cast(updates, f32)
    before, behind = updates.shape[:axis], updates.shape[axes[-1] + 1 :]

    def split_positions(x: Node, first: int) -> Node:
        """``x``, whose first axis of positions is ``first``, with an axis of parts and one of a part's positions there."""
        mine = tuple(a - axis + first for a in axes)
        moved = Split(
            tuple(a - axis + first for a in split.whole_axes),
            None if split.axis is None else split.axis - axis + first,
            split.count,
            split.length,
        )
        last = x.shape[mine[-1] + 1 :]
        x, _ = split_axis(b, x, mine, moved, 0)
        length = x.size // (prod(x.shape[:first]) * count * prod(last))
        return b.reshape(x, (*x.shape[:first], count, length, *last))

    updates = split_positions(updates, axis)
    if node.prim.name == "scatter_along":
        at = split_positions(at, axis)
    else:
        at = split_positions(at, 0)
        at = b.broadcast(b.reshape(at, (*(1 for _ in before), *at.shape, *(1 for _ in behind))), updates.shape)
    tables = b.scatter_along(updates, at, axis=axis + 1, extent=node.params["extent"])
    total: Node = b.sum(tables, (axis,))
    return b.cast(total, node.dtype) if wide else total

# SPDX-License-Identifier: Apache-2.0
"""Two-step reductions of few long rows, which would leave a GPU's multiprocessors idle otherwise.

A reduction over ``count`` elements becomes one over each of several chunks, and one over their partials. Both are
ordinary reductions, so that fusion, scheduling and the memory plan need to know nothing of it. The order in which
elements are put together depends on shapes alone: results are the same in every run. Sums and products of half
precision are taken on in float32 between the two.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.dtypes import DType
from ...cost import read_seconds, seconds
from ...ir.graph import Builder, Graph, Node
from ...ir.indexing import Var
from ...target import Target
from ..fuse.column_sums import why_no_room
from ..rewrite import rewrite
from .reduction_splitting import (
    ROWS_PER_BLOCK,
    Split,
    choose_split,
    fits_on_chip,
    gather_partials,
    nearby_reductions,
    rereads_operand,
    split_axis,
    target_splits,
)

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_REDUCTIONS = ("sum", "prod", "amax", "amin", "argmax", "argmin")
_PASSES = 3  #: how often rows are read that do not fit on chip


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with reductions split where the target gains by it."""
    target = ctx.target
    plans: dict[Node, Split] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        if node.prim.name in _REDUCTIONS and node.size and node.inputs[0].size // node.size >= 2 * target.part_elements:
            uses = graph.uses() if uses is None else uses
            again = rereads_operand(node, uses)
            found = (
                None
                if not again and _fuses_as_column_sum(node, uses, target)
                else _profitable_split(node, again, target)
            )
            if found:
                plans[node] = found
    if not plans:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _split(b, node, new[node.inputs[0]], plans[node]) if node in plans else None

    return rewrite(graph, rule)


def _profitable_split(node: Node, rereads: bool, target: Target) -> Split | None:
    """The split of a reduction; None if it is better left as it is."""
    x, axes = node.inputs[0], node.params["axes"]
    count = x.size // node.size
    contiguous = all(x.shape[a] == 1 for a in range(axes[-1] + 1, x.ndim))
    fits, blocks = fits_on_chip(node, contiguous, target)
    if not contiguous and not rereads:  # a cluster has nothing to keep
        blocks = -(-node.size // ROWS_PER_BLOCK)
    once = x.type.nbytes
    whole = read_seconds(target, once * (_PASSES if rereads and not fits else 1), blocks)
    if seconds(target, once * (_PASSES if rereads else 1), launches=4 if rereads else 1) >= whole:
        return None
    wanted = min(count // target.part_elements, target_splits(node.size, contiguous, target))
    return choose_split(x.shape, axes, wanted) if wanted > 1 else None


def _fuses_as_column_sum(node: Node, uses: dict[Node, list[Node]], target: Target) -> bool:
    """True if a kernel that walks rows of what ``node`` adds up can add it up on the way (fuse/column_sums.py)."""
    x, axes = node.inputs[0], node.params["axes"]
    rows = prod(x.shape[a] for a in axes)
    if (
        node.prim.name != "sum"
        or prod(x.shape[: axes[-1] + 1]) != rows
        or why_no_room([node], [Var("c", node.size)], target)
    ):
        return False
    return any(m.size == rows and m.params["axes"][-1] == m.inputs[0].ndim - 1 for m in nearby_reductions(x, uses))


def _split(b: Builder, node: Node, x: Node, split: Split) -> Node:
    """The reduction in two steps."""
    name, axes = node.prim.name, node.params["axes"]
    x = b.cast(x, node.dtype) if name in ("sum", "prod") else x
    value = {"argmax": "amax", "argmin": "amin"}.get(name, name)
    lead = sum(a not in axes for a in range(axes[0]))  # axes of rows before those of the parts
    values = _partials(b, value, x, axes, split, lead)
    best = b.reduce(name, values, (lead,))
    if name == value:
        return best
    inside = _partials(b, name, x, axes, split, lead)
    at = b.reshape(best, tuple(1 if k == lead else d for k, d in enumerate(values.shape)))
    size = prod(x.shape[a] for a in axes if a not in split.whole_axes and (split.axis is None or a > split.axis))
    result: Node = b.reshape(b.take_along(inside, at, axis=lead), node.shape) + best * (size * split.length)
    return result


def _partials(b: Builder, kind: str, x: Node, axes: tuple[int, ...], split: Split, outer: int) -> Node:
    """The partials: rows' own axes, and that of the chunks after the first ``outer`` of them."""
    x, inner = split_axis(b, x, axes, split, _identity(kind, x.dtype))
    return gather_partials(b, b.reduce(kind, x, inner), inner, split, outer)


def _identity(kind: str, dtype: DType) -> Any:
    """The identity element of a reduction; an argmax or argmin finds what stands before it."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    largest = kind in ("amin", "argmin")
    if dtype.is_float:
        return inf if largest else -inf
    if dtype.kind == "b":
        return largest
    limits = np.iinfo(dtype.np)
    return int(limits.max if largest else limits.min)

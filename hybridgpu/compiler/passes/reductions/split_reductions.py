# SPDX-License-Identifier: Apache-2.0
"""Two-step reductions of few long rows, which would leave a GPU's multiprocessors idle otherwise.

A reduction over ``count`` elements becomes one over each of several chunks, and one over their partials.

A block, or a cluster of some, reduces a row, so that few rows keep few multiprocessors busy, and those read only a part of what
memory gives. A second launch and the partials' way through memory cost microseconds; the cost model says where the first one
gains more. Chunks follow from shapes and the device's figures alone, so that a sum is the same in every run.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from ...cost import read_seconds, seconds
from ...ir.graph import Graph, Node
from ...ir.indexing import Var
from ...target import Target
from ..fuse.column_sums import why_no_room
from .monoid import Chunks, Monoid, Reductions, split_reductions_of
from .reduction_splitting import (
    ROWS_PER_BLOCK,
    Split,
    choose_split,
    fits_on_chip,
    nearby_reductions,
    rereads_operand,
    target_splits,
)

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_REDUCTIONS = ("sum", "prod", "amax", "amin", "argmax", "argmin")
_PASSES = 3  #: how often rows are read that do not fit on chip


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with reductions split where the target gains by it."""
    return split_reductions_of(_PLAIN, graph, ctx.target)


def _match(node: Node, target: Target) -> Reductions | None:
    long = node.prim.name in _REDUCTIONS and node.size and node.inputs[0].size // node.size >= 2 * target.part_elements
    return Reductions((node,)) if long else None


def _choose_split(reductions: Reductions, uses: dict[Node, list[Node]], target: Target) -> Split | None:
    (node,) = reductions.results
    again = rereads_operand(node, uses)
    return None if not again and _fuses_as_column_sum(node, uses, target) else _profitable_split(node, again, target)


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
    chunks = min(count // target.part_elements, target_splits(node.size, contiguous, target))
    return choose_split(x.shape, axes, chunks) if chunks > 1 else None


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


def _merge(chunks: Chunks, node: Node) -> Node:
    """The reduction of the chunks' results; of positions, that of the best chunk's value inside it."""
    name, b, lead, split = node.prim.name, chunks.b, chunks.axis, chunks.split
    value = {"argmax": "amax", "argmin": "amin"}.get(name, name)
    values = chunks.gather(chunks.reduce(value))
    best = b.reduce(name, values, (lead,))
    if name == value:
        return best
    inside = chunks.gather(chunks.reduce(name))
    at = b.reshape(best, tuple(1 if k == lead else d for k, d in enumerate(values.shape)))
    x, axes = node.inputs[0], node.params["axes"]
    size = prod(x.shape[a] for a in axes if a not in split.whole_axes and (split.axis is None or a > split.axis))
    result: Node = b.reshape(b.take_along(inside, at, axis=lead), node.shape) + best * (size * split.length)
    return result


def _identity(node: Node) -> bool | int | float:
    """The identity element of a reduction; an argmax or argmin finds what stands before it."""
    kind, dtype = node.prim.name, node.inputs[0].dtype
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    largest = kind in ("amin", "argmin")
    if dtype.is_float:
        return inf if largest else -inf
    if dtype.kind == "b":
        return largest
    limits = np.iinfo(dtype.np)
    return int(limits.max if largest else limits.min)


_PLAIN = Monoid(_match, _choose_split, _identity, (_merge,))

# SPDX-License-Identifier: Apache-2.0
"""Reductions of few rows of many elements, done in parts: a GPU's multiprocessors would stand idle otherwise.

A reduction over ``count`` elements becomes one over each of several parts, and one over their results. Both are
ordinary reductions, so that fusion, scheduling and the memory plan need to know nothing of it. The order in which
elements are put together depends on shapes alone: results are the same in every run. Sums and products of half
precision are taken on in float32 between the two.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from ....dtypes import DType
from ...ir.graph import Builder, Graph, Node
from ...ir.indexing import Var
from ...target import Target
from ..fuse.column_sums import fits
from ..rewrite import rewritten
from .reduction_splitting import (
    SIDE_BY_SIDE,
    Parts,
    cut,
    kept_by_blocks,
    lined_up,
    met_nearby,
    normalises,
    rate,
    taken_apart,
    wanted_parts,
)

__all__ = ["split_reductions"]

_REDUCTIONS = ("sum", "prod", "amax", "amin", "argmax", "argmin")
_WALKS = 3  #: how often rows are read that do not fit on chip


def split_reductions(graph: Graph, target: Target) -> Graph:
    """``graph`` with reductions in parts where ``target`` gains by it."""
    if target.name != "cuda":
        return graph
    plans: dict[Node, Parts] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        if node.prim.name in _REDUCTIONS and node.size and node.inputs[0].size // node.size >= 2 * target.part_elements:
            uses = graph.uses() if uses is None else uses
            again = normalises(node, uses)
            found = None if not again and _beside_rows(node, uses, target) else _parts(node, again, target)
            if found:
                plans[node] = found
    if not plans:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _in_parts(b, node, new[node.inputs[0]], plans[node]) if node in plans else None

    return rewritten(graph, rule)


def _parts(node: Node, normalises: bool, target: Target) -> Parts | None:
    """The parts of a reduction, None if it is better left as it is."""
    x, axes = node.inputs[0], node.params["axes"]
    count = x.size // node.size
    contiguous = all(x.shape[a] == 1 for a in range(axes[-1] + 1, x.ndim))
    fits, blocks = kept_by_blocks(node, contiguous, target)
    if not contiguous and not normalises:  # a cluster has nothing to keep
        blocks = -(-node.size // SIDE_BY_SIDE)
    bytes_a_second = rate(blocks, target)
    once = x.type.nbytes
    whole = once * (_WALKS if normalises and not fits else 1) / bytes_a_second
    apart = once * target.byte_seconds * (_WALKS if normalises else 1)
    apart += target.launch_seconds * (4 if normalises else 1)
    if apart >= whole:
        return None
    wanted = min(count // target.part_elements, wanted_parts(node.size, contiguous, target))
    return cut(x.shape, axes, wanted) if wanted > 1 else None


def _beside_rows(node: Node, uses: dict[Node, list[Node]], target: Target) -> bool:
    """True if a kernel that walks rows of what ``node`` adds up can add it up on the way (fuse/column_sums.py)."""
    x, axes = node.inputs[0], node.params["axes"]
    rows = prod(x.shape[a] for a in axes)
    if node.prim.name != "sum" or prod(x.shape[: axes[-1] + 1]) != rows or fits([node], [Var("c", node.size)], target):
        return False
    return any(m.size == rows and m.params["axes"][-1] == m.inputs[0].ndim - 1 for m in met_nearby(x, uses))


def _in_parts(b: Builder, node: Node, x: Node, parts: Parts) -> Node:
    """The reduction in two."""
    name, axes = node.prim.name, node.params["axes"]
    x = b.cast(x, node.dtype) if name in ("sum", "prod") else x
    value = {"argmax": "amax", "argmin": "amin"}.get(name, name)
    lead = sum(a not in axes for a in range(axes[0]))  # axes of rows before those of the parts
    values = _results(b, value, x, axes, parts, lead)
    best = b.reduce(name, values, (lead,))
    if name == value:
        return best
    inside = _results(b, name, x, axes, parts, lead)
    at = b.reshape(best, tuple(1 if k == lead else d for k, d in enumerate(values.shape)))
    size = prod(x.shape[a] for a in axes if a not in parts.kept and (parts.axis is None or a > parts.axis))
    result: Node = b.reshape(b.take_along(inside, at, axis=lead), node.shape) + best * (size * parts.length)
    return result


def _results(b: Builder, kind: str, x: Node, axes: tuple[int, ...], parts: Parts, lead: int) -> Node:
    """What the parts reduce to: rows' own axes, and that of the parts after the first ``lead`` of them."""
    x, inner = taken_apart(b, x, axes, parts, _identity(kind, x.dtype))
    return lined_up(b, b.reduce(kind, x, inner), inner, parts, lead)


def _identity(kind: str, dtype: DType) -> Any:
    """What changes no result of a reduction; a search finds what stands before it."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    largest = kind in ("amin", "argmin")
    if dtype.is_float:
        return inf if largest else -inf
    if dtype.kind == "b":
        return largest
    limits = np.iinfo(dtype.np)
    return int(limits.max if largest else limits.min)

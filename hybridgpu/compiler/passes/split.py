# SPDX-License-Identifier: Apache-2.0
"""Reductions of few rows of many elements, done in parts: a GPU's multiprocessors would stand idle otherwise.

A reduction over ``count`` elements becomes one over each of several parts, and one over their results. Both are
ordinary reductions, so that fusion, scheduling and the memory plan need to know nothing of it. The order in which
elements are put together depends on shapes alone: results are the same in every run. Sums and products of half
precision are taken on in float32 between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from ...dtypes import DType, f32
from ..ir.graph import Builder, Graph, Node
from ..primitives import TABLE
from ..target import Target

__all__ = [
    "ALONE",
    "SIDE_BY_SIDE",
    "Parts",
    "cut",
    "lined_up",
    "normalises",
    "split_reductions",
    "taken_apart",
    "wanted_parts",
]

_REDUCTIONS = ("sum", "prod", "amax", "amin", "argmax", "argmin")
_BLOCKS = 4  #: blocks that every multiprocessor should get
SIDE_BY_SIDE = 32  #: neighbouring rows that a block takes at once
ALONE = 2.5  #: shares of the memory's rate that one multiprocessor can take if the others are idle
_WALKS = 3  #: how often rows are read that do not fit on chip
_NEARBY = 64  #: readers that are looked at for one of a reduction's own size
_ROUND = 64  #: parts hold a multiple of so many elements where that is possible


def split_reductions(graph: Graph, target: Target) -> Graph:
    """``graph`` with reductions in parts where ``target`` gains by it."""
    if target.name != "cuda":
        return graph
    plans: dict[Node, Parts] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        if node.prim.name in _REDUCTIONS and node.size and node.inputs[0].size // node.size >= 2 * target.part_elements:
            uses = graph.uses() if uses is None else uses
            found = _parts(node, normalises(node, uses), target)
            if found:
                plans[node] = found
    if not plans:
        return graph
    b = Builder(TABLE)
    new: dict[Node, Node] = {n: b.input(n.type, n.params["name"]) for n in graph.inputs}
    for node in graph.nodes:
        if node in new:
            continue
        b.prov = node.prov
        inputs = [new[i] for i in node.inputs]
        new[node] = (
            _in_parts(b, node, inputs[0], plans[node]) if node in plans else b.apply(node.prim, inputs, node.params)
        )
    return b.finish([new[o] for o in graph.outputs], graph.name)


@dataclass(frozen=True)
class Parts:
    """How an operand is taken apart.

    Attributes:
        kept: reduced axes of which every element is a part of its own, …
        axis: … and the one that is cut, or None, …
        count, length: … into so many parts of so many elements along it; the last one may be filled up.
    """

    kept: tuple[int, ...]
    axis: int | None = None
    count: int = 1
    length: int = 1


def normalises(node: Node, uses: dict[Node, list[Node]]) -> bool:
    """True if something of the operand's size is computed from the result: rows may then be kept on chip."""
    size, seen, frontier = node.inputs[0].size, {node}, [node]
    while frontier and len(seen) < _NEARBY:
        for reader in uses.get(frontier.pop(), ()):
            if reader in seen or reader.prim.family not in ("elementwise", "view"):
                continue
            if reader.size >= size:
                return True
            seen.add(reader)
            frontier.append(reader)
    return False


def _parts(node: Node, normalises: bool, target: Target) -> Parts | None:
    """The parts of a reduction, None if it is better left as it is."""
    x, axes = node.inputs[0], node.params["axes"]
    count = x.size // node.size
    contiguous = all(x.shape[a] == 1 for a in range(axes[-1] + 1, x.ndim))
    blocks = node.size * target.cluster_blocks if contiguous else -(-node.size // SIDE_BY_SIDE)
    active = min(blocks, target.multiprocessors)
    share = 1 / (target.byte_seconds * target.multiprocessors)
    rate = active * share * min(ALONE, target.multiprocessors / active)
    once = x.type.nbytes
    fits = contiguous and count * 4 <= target.cluster_blocks * target.shared_bytes
    whole = once * (_WALKS if normalises and not fits else 1) / rate
    apart = once * target.byte_seconds * (_WALKS if normalises else 1)
    apart += target.launch_seconds * (4 if normalises else 1)
    if apart >= whole:
        return None
    wanted = min(count // target.part_elements, wanted_parts(node.size, contiguous, target))
    return cut(x.shape, axes, wanted) if wanted > 1 else None


def wanted_parts(rows: int, contiguous: bool, target: Target) -> int:
    """Parts of a row that keep all multiprocessors busy."""
    blocks = rows if contiguous else -(-rows // SIDE_BY_SIDE)
    return -(-_BLOCKS * target.multiprocessors // blocks)


def cut(shape: tuple[int, ...], axes: tuple[int, ...], wanted: int) -> Parts | None:
    """About ``wanted`` parts: whole outer axes first, then a part of the next one."""
    kept: list[int] = []
    for a in axes:
        extent = shape[a]
        if extent <= wanted:
            kept.append(a)
            wanted //= extent
            continue
        last = a == axes[-1]
        even = [s for s in range(max(2, wanted // 2), min(2 * wanted, extent) + 1) if extent % s == 0]
        if wanted > 1 and even:
            rounded = [s for s in even if not last or extent // s % _ROUND == 0] or even
            best = min(rounded, key=lambda s: abs(s - wanted))
            return Parts(tuple(kept), a, best, extent // best)
        if wanted > 1:  # uneven: the last part is filled up
            length = -(-extent // wanted)
            if last:
                length = -(-length // _ROUND) * _ROUND
            count = -(-extent // length)
            return Parts(tuple(kept), a, count, length) if count > 1 else None
        break
    return Parts(tuple(kept)) if kept and len(kept) < len(axes) else None


def _in_parts(b: Builder, node: Node, x: Node, parts: Parts) -> Node:
    """The reduction in two."""
    name, axes = node.prim.name, node.params["axes"]
    wide = x.dtype.is_half and name in ("sum", "prod")
    if wide:
        x = b.cast(x, f32)
    value = {"argmax": "amax", "argmin": "amin"}.get(name, name)
    lead = sum(a not in axes for a in range(axes[0]))  # axes of rows before those of the parts
    values = _results(b, value, x, axes, parts, lead)
    best = b.reduce(name, values, (lead,))
    if name == value:
        return b.cast(best, node.dtype) if wide else best
    inside = _results(b, name, x, axes, parts, lead)
    at = b.reshape(best, tuple(1 if k == lead else d for k, d in enumerate(values.shape)))
    size = prod(x.shape[a] for a in axes if a not in parts.kept and (parts.axis is None or a > parts.axis))
    result: Node = b.reshape(b.take_along(inside, at, axis=lead), node.shape) + best * (size * parts.length)
    return result


def _results(b: Builder, kind: str, x: Node, axes: tuple[int, ...], parts: Parts, lead: int) -> Node:
    """What the parts reduce to: rows' own axes, and that of the parts after the first ``lead`` of them."""
    x, inner = taken_apart(b, x, axes, parts, _identity(kind, x.dtype))
    return lined_up(b, b.reduce(kind, x, inner), inner, parts, lead)


def taken_apart(
    b: Builder, x: Node, axes: tuple[int, ...], parts: Parts, filling: bool | int | float
) -> tuple[Node, tuple[int, ...]]:
    """``x`` with an axis for the parts of the one that is cut, and the axes of a part's own elements."""
    inner = tuple(a for a in axes if a not in parts.kept)
    if parts.axis is not None:
        a, missing = parts.axis, parts.count * parts.length - x.shape[parts.axis]
        if missing:
            high = tuple(missing if k == a else 0 for k in range(x.ndim))
            x = b.pad(x, low=(0,) * x.ndim, high=high, value=filling)
        x = b.reshape(x, (*x.shape[:a], parts.count, parts.length, *x.shape[a + 1 :]))
        inner = tuple(k + (k >= a) for k in inner)
    return x, inner


def lined_up(b: Builder, found: Node, inner: tuple[int, ...], parts: Parts, lead: int) -> Node:
    """``found``, which lacks the ``inner`` axes of what was taken apart, with one axis for all parts."""
    # what is left of the axes, in order: rows' own ones, and those of the parts among them
    left = [k for k in range(found.ndim + len(inner)) if k not in inner]
    split = {k + (parts.axis is not None and k > parts.axis) for k in parts.kept}
    split |= {parts.axis} if parts.axis is not None else set()
    middle = [k for k, axis in enumerate(left) if axis in split]
    own = [k for k in range(len(left)) if k not in middle]
    found = b.transpose(found, (*own[:lead], *middle, *own[lead:]))
    shape = found.shape
    return b.reshape(found, (*shape[:lead], prod(shape[lead : lead + len(middle)]), *shape[lead + len(middle) :]))


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

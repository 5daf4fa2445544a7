# SPDX-License-Identifier: Apache-2.0
"""Pooling gradients on the CPU: folds of small windows, unrolled.

An element of an image gets something from each window that it lies in. Which places of windows these are depends on
its position modulo the stride alone: for every such remainder the sum is one of shifted arrays, without a division,
and the sums are joined like the teeth of combs. All of that are views and elementwise operators, of which loops are cut
where a border is. Where windows do not overlap, a fold is a view (:mod:`.canonicalize.disjoint_windows`).

Why this stays a rewrite of the graph, while maxima, sums and positions of windows are unrolled by the schedule
(``schedule/cpu/unrolled_windows.py``): a sum over a fold is a reduction whose loops step through the remainders of its
*results*. An extent that is no multiple of the stride leaves some remainders one element short, so that the schedule would
need stores under conditions; and what follows element by element (the derivatives of relu and of a normalisation) would be
placed behind a reduction, in a kernel that reduces nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from ...core.dtypes import bool_
from ..ir.graph import Builder, Graph, Node
from .canonicalize.simplify import simplify
from .recompute_hints import ALWAYS_RECOMPUTE, NO_RECOMPUTE
from .rewrite import rewrite

if TYPE_CHECKING:
    from ..pass_context import PassContext

__all__ = ["run"]

_MAX_WINDOW = 32  #: places of a window, …
_MAX_STRIDE = 4  #: … and its stride along an axis, up to which sums are written out
_MAX_PHASES = 8  #: remainders of all axes together


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with folds of small windows unrolled."""
    if not any(_is_fold_sum(n) for n in graph.nodes):
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if _is_fold_sum(node):
            return _unrolled_fold(b, node, new[node.inputs[0].inputs[0]], (0,) * node.ndim, node.shape)
        if _is_cropped_fold_sum(node):
            total = node.inputs[0]
            return _unrolled_fold(b, total, new[total.inputs[0].inputs[0]], node.params["begin"], node.shape)
        return None

    return simplify(rewrite(graph, rule))


def _is_cropped_fold_sum(node: Node) -> bool:
    """A sum without the padding around it."""
    return node.prim.name == "slice" and set(node.params["step"]) == {1} and _is_fold_sum(node.inputs[0])


def _is_fold_sum(node: Node) -> bool:
    """A sum over all places of windows of what goes back to an element."""
    if node.prim.name != "sum" or node.inputs[0].prim.name != "fold":
        return False
    back = node.inputs[0]
    n, stride = len(back.params["extent"]), back.params["stride"]
    small = prod(back.shape[:n]) <= _MAX_WINDOW and max(stride) <= _MAX_STRIDE and prod(stride) <= _MAX_PHASES
    return small and set(node.params["axes"]) == set(range(n)) and node.size > 0


def _unrolled_fold(b: Builder, node: Node, x: Node, begin: Sequence[int], shape: Sequence[int]) -> Node:
    """The part from ``begin`` of a sum of what goes back to elements, in ``shape``."""
    p = node.inputs[0].params
    stride, dilate, n = p["stride"], p["dilate"], len(p["extent"])
    kernel, positions = x.shape[:n], x.shape[x.ndim - n :]
    first, extent = begin[node.ndim - n :], shape[len(shape) - n :]
    lead = tuple(slice(c, c + d) for c, d in zip(begin[: node.ndim - n], shape, strict=False))
    count = tuple(-(-d // s) for d, s in zip(extent, stride, strict=True))

    @cache
    def at_offset(x: Node, k: tuple[int, ...]) -> Node:
        """The elements of windows at offset ``k``, computed for this offset alone."""
        rest = x.shape[n:]
        if x.prim.name == "full":
            return b.full(rest, x.params["value"], x.dtype)
        if x.prim.name == "iota" and x.params["axis"] < n:
            return b.full(rest, k[x.params["axis"]], x.dtype)
        if x.prim.family == "elementwise" and NO_RECOMPUTE not in x.params:
            # choices are cheap, and arrays of them many
            together = {ALWAYS_RECOMPUTE: True} if x.dtype is bool_ else {}
            return b.apply(x.prim, [at_offset(i, k) for i in x.inputs], {**x.params, **together})
        if x.prim.name == "broadcast" and set(x.inputs[0].shape[:n]) == {1}:
            inner = x.inputs[0]
            return b.broadcast(b.reshape(inner, inner.shape[n:]), rest)
        part = b.slice(x, (*k, *(0 for _ in rest)), (*(i + 1 for i in k), *rest))
        return b.reshape(part, rest)

    def tooth(rest: tuple[int, ...]) -> Node:
        """The sum for elements at ``rest`` modulo the stride."""
        total = b.full((*(c.stop - c.start for c in lead), *count), 0, x.dtype)
        for k in product(*map(range, kernel)):
            at = [r + c - i * d for r, c, i, d in zip(rest, first, k, dilate, strict=True)]
            if any(a % s for a, s in zip(at, stride, strict=True)):
                continue
            shift = [a // s for a, s in zip(at, stride, strict=True)]
            start = [max(0, a) for a in shift]
            stop = [min(t, q + a) for t, q, a in zip(positions, count, shift, strict=True)]
            if any(e <= c for c, e in zip(start, stop, strict=True)):
                continue
            part = at_offset(x, k)
            part = b.slice(part, (*(c.start for c in lead), *start), (*(c.stop for c in lead), *stop))
            low = [max(0, -a) for a in shift]
            high = [q - o - e + c for q, o, c, e in zip(count, low, start, stop, strict=True)]
            if any(low) or any(high):
                part = b.pad(part, low=(*(0 for _ in lead), *low), high=(*(0 for _ in lead), *high), value=0)
            total = total + part
        return total

    whole = _interleaved(b, tooth, stride, len(lead), ())
    if whole.shape != tuple(shape):
        whole = b.copy(whole, **{NO_RECOMPUTE: "uneven-extent"})
        whole = b.slice(whole, (0,) * whole.ndim, tuple(shape))
    return b.cast(whole, node.dtype)


def _interleaved(
    b: Builder, tooth: Callable[[tuple[int, ...]], Node], stride: Sequence[int], lead: int, rest: tuple[int, ...]
) -> Node:
    """The teeth of all remainders that begin with ``rest``, joined element by element along the axes that follow."""
    axis = len(rest)
    if axis == len(stride):
        return tooth(rest)
    parts = [_interleaved(b, tooth, stride, lead, (*rest, r)) for r in range(stride[axis])]
    if len(parts) == 1:
        return parts[0]
    shape, place = list(parts[0].shape), lead + axis
    wide = [b.reshape(y, (*shape[: place + 1], 1, *shape[place + 1 :])) for y in parts]
    shape[place] *= len(parts)
    return b.reshape(b.concat(wide, place + 1), tuple(shape))

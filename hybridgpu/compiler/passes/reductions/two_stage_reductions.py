# SPDX-License-Identifier: Apache-2.0
"""Two-stage reductions: over several axes, first along the last of them, where others need or share what that gives.

- *Sums over a batch of rows and along them*: the slopes of GroupNorm and InstanceNorm, whose statistics are sums along rows
  of the same arrays. Along each row alone they are one value more that the kernel of the rows reduces on its way, and what
  is left, a sum of such values over the batch, is small. Halves are added up in float32 between the two.
- *Maxima, minima and sums over large windows* (CPU): windows of several rows that overlap share what their rows have in
  common: the maxima of 5 x 5 elements are those of 5 maxima of 5, of which each belongs to several windows. The maxima of
  rows go to memory once. A kernel of a window's 25 comparisons was measured to take two to twenty times as long; for 3 x 3
  it depends, so that these stay as they are.

Maxima have the same bits: of equal elements (0 and -0) the first stays, of several NaNs the last, row by row or not. Sums
are added in another order, as any sum that is split; whether they are depends on a window and its image, never on how many
images there are. Sums of halves over windows are left alone: those of rows would take four bytes.

This stays beside :mod:`.split_reductions`, with which it shares the splitter (:mod:`.monoid`): that one cuts an axis into chunks
to keep a GPU busy, by the cost model, and only on CUDA. Here axes stay whole, on both targets, and what is gained is that the
first stage joins a kernel that reads the rows anyway, or that windows share it: neither is a matter of how many blocks run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ...target import Target
from .monoid import Chunks, Monoid, Reductions, split_reductions_of
from .reduction_splitting import Split, nearby_reductions, rereads_operand

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_MIN_WINDOW = 16  #: elements of a window, …
_MIN_ROW = 3  #: … and of its rows, from which on it is worth it
_MIN_SHARING = 1.5  #: windows, on average, that a row belongs to


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with such reductions in two where rows of what is reduced are reduced anyway, or shared."""
    return split_reductions_of(_TWO_STAGES, graph, ctx.target)


def _match(node: Node, target: Target) -> Reductions | None:
    return Reductions((node,)) if _row_axes(node) or (target.device.loop_nests and _shares_rows(node)) else None


def _choose_split(reductions: Reductions, uses: dict[Node, list[Node]], target: Target) -> Split | None:
    (node,) = reductions.results
    along = _row_axes(node)
    if not along:
        return Split(node.params["axes"][:-1])
    if rereads_operand(node, uses) or not _rows_are_reduced(node, along, uses):
        return None
    return Split(tuple(a for a in node.params["axes"] if a not in along))


def _row_axes(node: Node) -> tuple[int, ...]:
    """The last axes of what ``node`` sums, if it sums over all of these and over a batch, but not over all there is."""
    if node.prim.name != "sum" or not node.dtype.is_float or node.size < 2:
        return ()
    x, axes = node.inputs[0], node.params["axes"]
    first = x.ndim
    while first - 1 in axes:
        first -= 1
    batch = prod(x.shape[a] for a in axes if a < first)
    along = tuple(range(first, x.ndim))
    return along if batch > 1 and prod(x.shape[a] for a in along) > 1 else ()


def _rows_are_reduced(node: Node, along: tuple[int, ...], uses: dict[Node, list[Node]]) -> bool:
    """True if something reduces rows of just these elements."""
    x = node.inputs[0]
    count = prod(x.shape[a] for a in along)
    for reduction in nearby_reductions(x, uses):
        shape, axes = reduction.inputs[0].shape, reduction.params["axes"]
        if reduction.size * count == x.size and prod(shape[axes[0] :]) == count:
            return True
    return False


def _shares_rows(node: Node) -> bool:
    """True if ``node`` reduces large windows of an array whose rows belong to several windows each."""
    if node.prim.name not in ("amax", "amin", "sum") or node.inputs[0].prim.name != "unfold" or not node.size:
        return False
    x = node.inputs[0]
    if node.dtype is not x.dtype or (node.prim.name == "sum" and x.dtype.is_half):
        return False
    kernel, spread = x.shape[: len(x.params["extent"])], x.inputs[0]
    if node.params["axes"] != tuple(range(len(kernel))) or spread.prim.name != "broadcast":
        return False
    if spread.inputs[0].shape != (*(1 for _ in kernel), *spread.shape[len(kernel) :]):
        return False
    rows, windows = spread.shape[-len(kernel) : -1], x.params["extent"][:-1]
    shared = prod(windows) * prod(kernel[:-1]) >= _MIN_SHARING * prod(rows)
    return shared and kernel[-1] >= _MIN_ROW and prod(kernel) >= _MIN_WINDOW


def _merge_rows(chunks: Chunks, node: Node) -> Node:
    """The reduction of the results of rows."""
    b, kind, x = chunks.b, node.prim.name, chunks.x
    rows = _reduce_in_image(b, kind, x, chunks.inner) if x.prim.name == "unfold" else chunks.reduce(kind)
    total: Node = b.reduce(kind, rows, chunks.split.whole_axes)
    return total


def _reduce_in_image(b: Builder, kind: str, x: Node, axes: Sequence[int]) -> Node:
    """The windows ``x`` of an image reduced over some ``axes``: those along the others of an image that is reduced so."""
    image, p = x.inputs[0].inputs[0], x.params
    n = len(p["extent"])
    ones, rest = (1,) * n, x.inputs[0].shape[n:]

    def choose(reduced: Sequence[int], left: Sequence[int]) -> tuple[int, ...]:
        return tuple(reduced[k] if k in axes else left[k] for k in range(n))

    def windows(x: Node, kernel: tuple[int, ...], **params: tuple[int, ...]) -> Node:
        return b.unfold(b.broadcast(x, (*kernel, *x.shape[n:])), **params)

    kernel, image_extent = x.shape[:n], rest[len(rest) - n :]
    inside = {k: choose(p[k], ones) for k in ("stride", "dilate")}
    along = windows(image, choose(kernel, ones), **inside, extent=choose(p["extent"], image_extent))
    y = b.reduce(kind, along, tuple(range(n)))
    outside = {k: choose(ones, p[k]) for k in ("stride", "dilate")}
    y = windows(b.reshape(y, (*ones, *y.shape)), choose(ones, kernel), **outside, extent=p["extent"])
    return b.reshape(y, tuple(d for k, d in enumerate(y.shape) if k not in axes))


_TWO_STAGES = Monoid(_match, _choose_split, lambda node: 0, (_merge_rows,))

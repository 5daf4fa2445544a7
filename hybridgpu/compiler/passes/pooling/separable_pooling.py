# SPDX-License-Identifier: Apache-2.0
"""Separable pooling on the CPU: maxima and sums over large windows, first along rows, then over the rows.

Windows of several rows that overlap share what their rows have in common: the maxima of 5 x 5 elements are those of 5
maxima of 5, of which each belongs to several windows. The maxima of rows go to memory once. A kernel of a window's 25
comparisons was measured to take two to twenty times as long; for 3 x 3 it depends, so that these stay as they are.

Maxima have the same bits: of equal elements (0 and -0) the first stays, of several NaNs the last, row by row or not.
Sums are added in another order, as any sum that is split; whether they are depends on a window and its image, never
on how many images there are. Sums of halves are left alone: those of rows would take four bytes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_MIN_WINDOW = 16  #: elements of a window, …
_MIN_ROW = 3  #: … and of its rows, from which on it is worth it
_MIN_SHARING = 1.5  #: windows, on average, that a row belongs to


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with maxima, minima and sums over windows in two steps, where that is faster."""
    found = {n for n in graph.nodes if _separable(n)}
    if not found:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _separate(b, node, new[node.inputs[0].inputs[0].inputs[0]]) if node in found else None

    return rewrite(graph, rule)


def _separable(node: Node) -> bool:
    if node.prim.name not in ("amax", "amin", "sum") or node.inputs[0].prim.name != "unfold" or not node.size:
        return False
    if node.prim.name == "sum" and node.inputs[0].dtype.is_half:
        return False
    x = node.inputs[0]
    kernel = x.shape[: len(x.params["extent"])]
    if node.params["axes"] != tuple(range(len(kernel))):
        return False
    spread = x.inputs[0]
    if spread.prim.name != "broadcast":
        return False
    if spread.inputs[0].shape != (*(1 for _ in kernel), *spread.shape[len(kernel) :]):
        return False
    rows, windows = spread.shape[-len(kernel) : -1], x.params["extent"][:-1]
    shared = prod(windows) * prod(kernel[:-1]) >= _MIN_SHARING * prod(rows)
    return shared and kernel[-1] >= _MIN_ROW and prod(kernel) >= _MIN_WINDOW


def _separate(b: Builder, node: Node, image: Node) -> Node:
    """``image``: what windows are of, with an axis of one element for each of a window's axes in front."""
    p = node.inputs[0].params
    kernel, count = node.inputs[0].shape[: len(p["extent"])], p["extent"]
    n = len(kernel)
    rows = image.shape[-n:-1]
    ones = (1,) * (n - 1)

    def reduced(x: Node, kernel: tuple[int, ...], **params: tuple[int, ...]) -> Node:
        return b.reduce(node.prim.name, b.unfold(b.broadcast(x, (*kernel, *x.shape[n:])), **params), tuple(range(n)))

    along = {"stride": (*ones, p["stride"][-1]), "dilate": (*ones, p["dilate"][-1]), "extent": (*rows, count[-1])}
    held = reduced(image, (*ones, kernel[-1]), **along)
    across = {"stride": (*p["stride"][:-1], 1), "dilate": (*p["dilate"][:-1], 1), "extent": count}
    return reduced(b.reshape(held, (*(1,) * n, *held.shape)), (*kernel[:-1], 1), **across)

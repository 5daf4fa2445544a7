# SPDX-License-Identifier: Apache-2.0
"""Prepacked weights: those of dense layers in panels of columns, as the CPU's products read them fastest.

A product is computed for some columns of the weight at a time. Where these lie side by side and aligned, row after row,
every load is a whole vector, and no sum has to be folded across a vector at the end: with AVX-512 and beside several rows
1.1 to 1.5 times the speed of a weight whose rows lie along the sum, as those of a dense layer do; beside one row the same.

The order in which a sum is added up is another one, so whether a weight is packed must not depend on the number of rows:
a row's result would. (What is large enough for a library is another matter, as it is without panels.) Narrower panels,
which are slow for few rows, are for the numeric mode 'fast' alone.

In the graph a packed product is one product for each panel. The copy of the weight becomes part of the prelude.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..devices.cpu import CpuConstants
from ..ir.graph import Builder, Graph, Node, constant_nodes
from ..primitives import TABLE
from .parameter_folding import FOLD_REASON
from .rewrite import replace_nodes

if TYPE_CHECKING:
    from ..pass_context import PassContext

__all__ = ["MAX_PANEL_ROWS", "PANEL_ROW_BYTES", "run"]

PANEL_ROW_BYTES = (512, 256)  #: bytes of a panel's row: of wide ones, of narrow ones
MAX_PANEL_ROWS = 2048  #: rows of a panel, at most: it is read again for every few rows of the other operand
_MIN_ROWS_OF_NARROW = 8  #: of the other operand, at least, beside narrow panels


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with packed weights in its products, where the target gains by it."""
    constant = constant_nodes(graph, ctx.folded_inputs)
    dots = (n for n in graph.nodes if n.prim.name == "dot")
    chosen = {n: width for n in dots if (width := _panel_columns(n, constant, ctx.target.numeric == "fast"))}
    return replace_nodes(graph, chosen, _packed_product)


def _panel_columns(dot: Node, constant: Collection[Node], fast: bool) -> int:
    """The columns of a panel; 0 if the weight stays as it is."""
    x, weight = dot.inputs
    if dot.ndim != 2 or not dot.dtype.is_float or dot.dtype.is_half or weight not in constant or x in constant:
        return 0
    (rows, depth), work = x.shape, dot.size * x.shape[1]
    if (
        work == 0
        or depth > MAX_PANEL_ROWS
        or weight.size * CpuConstants.thin_rows > CpuConstants.tiled_product_ops
        or (rows > CpuConstants.thin_rows and work > CpuConstants.tiled_product_ops)
    ):
        return 0
    wide, narrow = (nbytes // dot.dtype.size for nbytes in PANEL_ROW_BYTES)
    if dot.shape[1] % wide == 0:
        return wide
    return narrow if fast and rows >= _MIN_ROWS_OF_NARROW and dot.shape[1] % narrow == 0 else 0


def _packed_product(b: Builder, dot: Node, new: dict[Node, Node], width: int) -> Node:
    """A product by panels of so many columns."""
    x, weight = (new[i] for i in dot.inputs)
    (rows, depth), columns = x.shape, weight.shape[1]
    count = columns // width
    panels = b.transpose(b.reshape(b.transpose(weight, (1, 0)), (count, width, depth)), (0, 2, 1))
    each = b.broadcast(b.reshape(x, (1, rows, depth)), (count, rows, depth))
    y = b.dot(each, b.apply(TABLE["copy"], (panels,), {FOLD_REASON: "products read it faster in panels of columns"}))
    return b.reshape(b.transpose(y, (1, 0, 2)), (rows, columns))

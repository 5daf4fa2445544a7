# SPDX-License-Identifier: Apache-2.0
"""Prepacked weights: those of dense layers and convolutions in the order in which the CPU's kernels read them fastest.

A product is computed for some columns of the weight at a time. Where these lie side by side and aligned, row after row,
every load is a whole vector, and no sum has to be folded across a vector at the end: with AVX-512 and beside several rows
1.1 to 1.5 times the speed of a weight whose rows lie along the sum, as those of a dense layer do; beside one row the same.

The order in which a sum is added up is another one, so whether a weight is packed must not depend on the number of rows:
a row's result would. (What is large enough for a library is another matter, as it is without panels.) Narrower panels,
which are slow for few rows, are for the numeric mode 'fast' alone.

In the graph a packed product is one product for each panel. The copy of the weight becomes part of the prelude.

A convolution's vectors are pixels of a row, of which small planes fill a part: four fifths of 7 x 7 pixels. With a packed
weight they are output channels, every pixel counts, and none has to be aligned (windows of 3 x 3, one thread: 512 channels
of 7 x 7 190 -> 250 GF/s, 256 of 14 x 14 219 -> 252, 128 of 28 x 28 226 -> 247). The order of its sums stays the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..devices.cpu import CpuConstants
from ..ir.graph import Builder, Graph, Node, constant_nodes
from ..primitives.packed_weight import pack
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
    fast = ctx.target.numeric == "fast"
    chosen: dict[Node, int] = {}
    for node in graph.nodes:
        if node.prim.name == "dot":
            chosen[node] = _panel_columns(node, constant, fast)
        elif node.prim.name == "conv" and node.inputs[1] in constant and node.inputs[0] not in constant:
            chosen[node] = ctx.select.packed_outputs(node, is_free=True)
    return replace_nodes(graph, {n: width for n, width in chosen.items() if width}, _packed)


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


def _packed(b: Builder, node: Node, new: dict[Node, Node], width: int) -> Node:
    """The product or convolution ``node`` with a weight packed in panels (blocks) of so many columns (output channels)."""
    if node.prim.name == "dot":
        return _packed_product(b, node, new, width)
    reason = {FOLD_REASON: "convolutions read it faster in blocks of output channels"}
    return b.reapply(node, [new[node.inputs[0]], pack(b, new[node.inputs[1]], width, **reason)])


def _packed_product(b: Builder, dot: Node, new: dict[Node, Node], width: int) -> Node:
    """A product by panels of so many columns."""
    x, weight = (new[i] for i in dot.inputs)
    (rows, depth), columns = x.shape, weight.shape[1]
    count = columns // width
    panels = b.transpose(b.reshape(b.transpose(weight, (1, 0)), (count, width, depth)), (0, 2, 1))
    each = b.broadcast(b.reshape(x, (1, rows, depth)), (count, rows, depth))
    y = b.dot(each, b.copy(panels, **{FOLD_REASON: "products read it faster in panels of columns"}))
    return b.reshape(b.transpose(y, (1, 0, 2)), (rows, columns))

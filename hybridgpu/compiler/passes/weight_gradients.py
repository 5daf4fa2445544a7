# SPDX-License-Identifier: Apache-2.0
"""Give a library's convolutions that are derivatives by a weight their arrays as layers have them.

Such a derivative is a convolution with batch and channels exchanged: of views of what the layer read and of its cotangent,
and with a result that is exchanged, too. What a library computes it from are the arrays behind these views, and it writes
the gradient in the order of the weight. Said as ``conv_weights``, no operand is copied in an order that only the convolution
has, and no result is turned.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Builder, Graph, Node
from ..primitives import TABLE
from ..primitives.conv import is_forward
from .rewrite import rewritten
from .simplify import simplify

__all__ = ["join_weight_gradients"]


def join_weight_gradients(graph: Graph, wants_kernel: Callable[[Node], bool]) -> Graph:
    """``graph`` with ``conv_weights`` in place of derivatives by a weight that a library computes.

    Args:
        wants_kernel: function (conv node) -> True if a kernel is generated for it.
    """
    found = {n for n in graph.nodes if _is_gradient(n) and not wants_kernel(n)}
    if not found:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node not in found:
            return None
        b.prov = node.prov
        x, y = (new[i] for i in node.inputs)
        swap = (1, 0, *range(2, node.ndim))
        made = b.apply(TABLE["conv_weights"], (_together(b, x, node.params["groups"]), b.transpose(y, swap)), node.params)
        return b.transpose(made, swap)

    return simplify(rewritten(graph, rule))  # most views cancel each other


def _is_gradient(node: Node) -> bool:
    if node.prim.name != "conv" or not node.size or not all(i.size for i in node.inputs) or not node.dtype.is_float:
        return False
    plain = max(node.params["base_dilate"]) == 1
    return plain and not is_forward(node.inputs[1].shape, node.shape, node.params)


def _together(b: Builder, x: Node, groups: int) -> Node:
    """(C / groups, groups * N, *S) as (N, C, *S)."""
    if groups == 1:
        return b.transpose(x, (1, 0, *range(2, x.ndim)))
    c, many, *size = x.shape
    parts = b.reshape(x, (c, groups, many // groups, *size))
    turned = b.transpose(parts, (2, 1, 0, *range(3, parts.ndim)))
    return b.reshape(turned, (many // groups, groups * c, *size))

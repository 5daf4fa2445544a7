# SPDX-License-Identifier: Apache-2.0
"""Backward convolutions of a library: filter and data gradients that take the layer's arrays as they lie.

The derivative by a weight is a convolution with batch and channels exchanged: of views of what the layer read and of its
cotangent, and with a result that is exchanged, too. That by the operand of a convolution with strides, which is what a
transposed convolution computes, is one with the weight turned round and its channels exchanged. What a library computes
them from are the arrays behind these views, and it writes a gradient in the order of the weight. Said as ``conv_backward_filter``
and ``conv_backward_data``, no operand is copied in an order that only the convolution has, and no result is turned.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ...primitives.conv import flip_weight, is_forward
from ..canonicalize.simplify import simplify
from ..rewrite import replace_nodes

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with ``conv_backward_filter`` and ``conv_backward_data`` in place of derivatives that a library computes."""
    replacements = {
        n: replacement for n in graph.nodes if (replacement := _match(n)) is not None and not ctx.generates(n)
    }
    rewritten = replace_nodes(graph, replacements, lambda b, node, new, make: make(b, node, new))
    return graph if rewritten is graph else simplify(rewritten)  # most views cancel each other


def _match(node: Node) -> Callable[[Builder, Node, dict[Node, Node]], Node] | None:
    """The rewrite of the node, if it is a gradient of a convolution."""
    if node.prim.name != "conv" or not node.size or not all(i.size for i in node.inputs):
        return None
    weight, params = node.inputs[1].shape, node.params
    if is_forward(weight, node.shape, params):
        return None
    if max(params["base_dilate"]) == 1:
        return _filter_gradient
    of_weight = prod(weight[2:]) > prod(node.shape[2:])
    return None if of_weight or max(params["stride"]) > 1 else _data_gradient


def _filter_gradient(b: Builder, conv: Node, new: dict[Node, Node]) -> Node:
    x, y = (new[i] for i in conv.inputs)
    swap = (1, 0, *range(2, conv.ndim))
    operand = _merge_groups(b, x, conv.params["groups"])
    return b.transpose(b.conv_backward_filter(operand, b.transpose(y, swap), **conv.params), swap)


def _data_gradient(b: Builder, conv: Node, new: dict[Node, Node]) -> Node:
    y, w = (new[i] for i in conv.inputs)
    return b.conv_backward_data(y, _unflipped(b, w, conv.params["groups"]), **conv.params)


def _unflipped(b: Builder, w: Node, groups: int) -> Node:
    """The node that the weight ``w`` is ``flipped`` of, step by step, so that the views cancel each other."""
    if groups == 1:
        return flip_weight(b, w, groups)
    c, o, *k = w.shape
    parts = b.transpose(b.reshape(w, (groups, c // groups, o, *k)), (0, 2, 1, *range(3, w.ndim + 1)))
    return b.reverse(b.reshape(parts, (groups * o, c // groups, *k)), axes=tuple(range(2, w.ndim)))


def _merge_groups(b: Builder, x: Node, groups: int) -> Node:
    """(C / groups, groups * N, *S) as (N, C, *S)."""
    if groups == 1:
        return b.transpose(x, (1, 0, *range(2, x.ndim)))
    c, many, *size = x.shape
    parts = b.reshape(x, (c, groups, many // groups, *size))
    turned = b.transpose(parts, (2, 1, 0, *range(3, parts.ndim)))
    return b.reshape(turned, (many // groups, groups * c, *size))

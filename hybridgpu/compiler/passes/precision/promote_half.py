# SPDX-License-Identifier: Apache-2.0
"""Promotion of half types to float32 in scatters and convolutions on the CPU.

A table to which many updates are added one after the other would lose most of them to rounding in a type of two bytes:
it is summed in float32, and rounded once. Kernels of convolutions read bands of float32 as they lie; where one is wanted
for such operands, halves are widened before it, and the result is rounded in what follows it.
"""

from __future__ import annotations

from collections.abc import Callable

from ....core.dtypes import f32
from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite

__all__ = ["convolve_in_float32", "scatter_in_float32"]


def scatter_in_float32(graph: Graph) -> Graph:
    """``graph`` with scatter-adds of float16 and bfloat16 in float32."""

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if not _adds_half(node):
            return None
        updates, at = (new[i] for i in node.inputs)
        return b.cast(b.apply(node.prim, (b.cast(updates, f32), at), node.params), node.dtype)

    return rewrite(graph, rule)


def _adds_half(node: Node) -> bool:
    return node.prim.name in ("scatter_add", "scatter_along") and node.dtype.is_half


def convolve_in_float32(graph: Graph, wants: Callable[[Node], bool]) -> Graph:
    """``graph`` with convolutions of float16 and bfloat16 in float32 where that has a kernel and they have none.

    Args:
        wants: whether a generated kernel computes a convolution.
    """

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name != "conv" or not node.dtype.is_half or wants(node):
            return None
        wide = b.apply(node.prim, [b.cast(new[i], f32) for i in node.inputs], node.params)
        return b.cast(wide, node.dtype) if wants(wide) else None

    return rewrite(graph, rule)

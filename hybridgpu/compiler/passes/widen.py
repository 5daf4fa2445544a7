# SPDX-License-Identifier: Apache-2.0
"""Sums of halves at computed positions, in float.

A table to which many updates are added one after the other would lose most of them to rounding in a type of two bytes:
it is summed in float32, and rounded once.
"""

from __future__ import annotations

from ...dtypes import f32
from ..ir.graph import Builder, Graph, Node
from .rewrite import rewritten

__all__ = ["sum_in_float"]


def sum_in_float(graph: Graph) -> Graph:
    """``graph`` with scatters that add up float16 or bfloat16 in float32."""

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if not _adds_halves(node):
            return None
        updates, at = (new[i] for i in node.inputs)
        return b.cast(b.apply(node.prim, (b.cast(updates, f32), at), node.params), node.dtype)

    return rewritten(graph, rule)


def _adds_halves(node: Node) -> bool:
    return node.prim.name in ("scatter_add", "scatter_along") and node.dtype.is_half

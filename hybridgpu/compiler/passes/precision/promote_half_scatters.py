# SPDX-License-Identifier: Apache-2.0
"""Promotion of scatters of half types to float32 on the CPU.

A table to which many updates are added one after the other would lose most of them to rounding in a type of two bytes:
it is summed in float32, and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.dtypes import f32
from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with scatter-adds of float16 and bfloat16 in float32."""

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name not in ("scatter_add", "scatter_along") or not node.dtype.is_half:
            return None
        updates, at = (new[i] for i in node.inputs)
        return b.cast(b.apply(node.prim, (b.cast(updates, f32), at), node.params), node.dtype)

    return rewrite(graph, rule)

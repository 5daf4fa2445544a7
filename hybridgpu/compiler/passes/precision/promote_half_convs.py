# SPDX-License-Identifier: Apache-2.0
"""Promotion of convolutions of half types to float32 on the CPU, where that has a kernel.

Kernels of convolutions read bands of float32 as they lie. Where one is wanted for operands of a half type, these are widened
before it, and the result is rounded in what follows it; elsewhere a library would be called.
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
    """``graph`` with convolutions of float16 and bfloat16 in float32 where that has a kernel and they have none."""

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name != "conv" or not node.dtype.is_half or ctx.generates(node):
            return None
        wide = b.apply(node.prim, [b.cast(new[i], f32) for i in node.inputs], node.params)
        return b.cast(wide, node.dtype) if ctx.generates(wide) else None

    return rewrite(graph, rule)

# SPDX-License-Identifier: Apache-2.0
"""Wide concats in steps: of very many arrays, the outputs of hundreds of time steps, for instance.

A kernel's loops are split where a concat goes over to its next operand. Of hundreds of operands neither the loops nor the
conditions, where loops are not split, are a text that compilers take in reasonable time, and a GPU's kernel has no room
for as many addresses. So runs of operands are concatenated in memory first. Each step has the same text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ..recompute_hints import NO_RECOMPUTE
from ..rewrite import rewrite

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` without concats of more operands than a kernel of the target can take."""
    most, step = ctx.target.device.concat_operands, ctx.target.device.concat_step_operands
    if not any(n.prim.name == "concat" and len(n.inputs) > most for n in graph.nodes):
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name != "concat":
            return None
        inputs, axis = [new[i] for i in node.inputs], node.params["axis"]
        while len(inputs) > most:
            parts = [inputs[k : k + step] for k in range(0, len(inputs), step)]
            inputs = [_concat_step(b, part, axis) if len(part) > 1 else part[0] for part in parts]
        return b.reapply(node, inputs)

    return rewrite(graph, rule)


def _concat_step(b: Builder, part: list[Node], axis: int) -> Node:
    return b.copy(b.concat(part, axis), **{NO_RECOMPUTE: "concat"})

# SPDX-License-Identifier: Apache-2.0
"""Joins of very many arrays, made in steps: the outputs of hundreds of time steps, for instance.

A kernel's loops are cut where a join goes over to its next operand. Of hundreds of operands neither the loops nor the
conditions, where loops are not cut, are a text that compilers take in reasonable time, and a GPU's kernel has no room
for as many addresses. So neighbours are joined in memory first. Each step of neighbours has the same text.
"""

from __future__ import annotations

from ...ir.graph import Builder, Graph, Node
from ...primitives import TABLE
from ...target import Target
from ..rewrite import rewritten

__all__ = ["APART", "TOGETHER", "WHY_APART", "join_in_steps"]

APART = "apart"  #: parameter of a copy that no reader may compute for itself, one of WHY_APART, …
TOGETHER = "together"  #: … and of what readers do compute for themselves, however often
WHY_APART = {
    "join": "a join of so many arrays is made in steps",
    "place": "each place of a window is compared with it",
    "rest": "what is left over of it would make positions that no loop can be cut for",
    "extreme": "it is compared with its own extreme, and might have other bits where it is computed again",
}
_MOST = {"cpu": 64, "cuda": 24}  #: operands that one kernel joins: the first loops are cut for, the others tested for
_STEP = {"cpu": 32, "cuda": 12}  #: operands of a step


def join_in_steps(graph: Graph, target: Target) -> Graph:
    """``graph`` without joins of more operands than a kernel of ``target`` can take."""
    most, step = _MOST[target.name], _STEP[target.name]
    if not any(n.prim.name == "concat" and len(n.inputs) > most for n in graph.nodes):
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name != "concat":
            return None
        inputs, axis = [new[i] for i in node.inputs], node.params["axis"]
        while len(inputs) > most:
            parts = [inputs[k : k + step] for k in range(0, len(inputs), step)]
            inputs = [_joined(b, part, axis) if len(part) > 1 else part[0] for part in parts]
        return b.apply(node.prim, inputs, node.params)

    return rewritten(graph, rule)


def _joined(b: Builder, part: list[Node], axis: int) -> Node:
    return b.apply(TABLE["copy"], (b.concat(part, axis),), {APART: "join"})

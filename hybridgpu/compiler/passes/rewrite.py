# SPDX-License-Identifier: Apache-2.0
"""Graph rewriting: a graph rebuilt node by node, with replacements for some."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Builder, Graph, Node
from ..primitives import TABLE

__all__ = ["rewrite"]


def rewrite(graph: Graph, rule: Callable[[Builder, Node, dict[Node, Node]], Node | None]) -> Graph:
    """``graph`` with its nodes replaced by ``rule``; inputs and outputs keep their positions.

    Args:
        rule: (builder, node, what stands for every node before it) -> what stands for the node; None where it
            stays the operation that it is. What is made belongs to the node's operator unless ``rule`` says otherwise.
    """
    b = Builder(TABLE)
    new: dict[Node, Node] = {n: b.input(n.type, n.params["name"]) for n in graph.inputs}
    for node in graph.nodes:
        if node in new:
            continue
        b.prov = node.prov
        replacement = rule(b, node, new)
        new[node] = b.reapply(node, [new[i] for i in node.inputs]) if replacement is None else replacement
    return b.finish([new[o] for o in graph.outputs], graph.name)

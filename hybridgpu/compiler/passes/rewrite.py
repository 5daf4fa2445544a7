# SPDX-License-Identifier: Apache-2.0
"""Graph rewriting: a graph rebuilt node by node, with replacements for some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..ir.graph import Builder, Graph, Node
from ..primitives import TABLE

__all__ = ["replace_nodes", "rewrite"]

P = TypeVar("P")


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


def replace_nodes(
    graph: Graph, plans: Mapping[Node, P], make: Callable[[Builder, Node, dict[Node, Node], P], Node]
) -> Graph:
    """``graph`` with the nodes of ``plans`` replaced by what ``make`` makes of each and its plan; as it is if there are none."""
    if not plans:
        return graph
    return rewrite(graph, lambda b, node, new: make(b, node, new, plans[node]) if node in plans else None)

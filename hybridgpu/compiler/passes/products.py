# SPDX-License-Identifier: Apache-2.0
"""Products that are wanted transposed, as the gradient of a weight that the forward pass transposes.

Written as it is computed, across its rows, each element of such a result goes to a cache line of its own. The product of
the transposed operands, in the other order, is the same sums in the order of memory; operands are read as they lie.
"""

from __future__ import annotations

from collections import Counter

from ..ir.graph import Builder, Graph, Node
from ..target import Target
from .rewrite import rewritten
from .simplify import simplify

__all__ = ["transpose_operands"]


def transpose_operands(graph: Graph, target: Target) -> Graph:
    """``graph`` with transposed operands in place of transposed products, on a host; a GPU stores through tiles."""
    uses = Counter([*(i for n in graph.nodes for i in n.inputs), *graph.outputs])
    found = {n for n in graph.nodes if _swaps(n) and n.inputs[0].prim.name == "dot" and uses[n.inputs[0]] == 1}
    if target.name != "cpu" or not found:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node not in found:
            return None
        product, perm = node.inputs[0], node.params["perm"]
        b.prov = product.prov
        left, right = (b.transpose(new[x], perm) for x in product.inputs)
        return b.dot(right, left)

    return simplify(rewritten(graph, rule))


def _swaps(node: Node) -> bool:
    """Whether a node is a matrix, or many, with rows and columns exchanged."""
    last = node.ndim - 1
    return node.prim.name == "transpose" and list(node.params["perm"]) == [*range(last - 1), last, last - 1]

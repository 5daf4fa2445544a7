# SPDX-License-Identifier: Apache-2.0
"""Transposed products, such as the gradient of a weight that the forward pass transposes, from transposed operands.

The product of the transposed operands, in the other order, is the same sums in the order of memory; operands are read as
they lie. On a host each element of such a result, written as it is computed, across its rows, would go to a cache line of
its own. On a GPU a generated kernel stores through tiles, but what a library leaves would be copied.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite
from .simplify import simplify

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with transposed operands in place of transposed products."""
    uses = Counter([*(i for n in graph.nodes for i in n.inputs), *graph.outputs])
    transposed = {
        n for n in graph.nodes if _is_matrix_transpose(n) and n.inputs[0].prim.name == "dot" and uses[n.inputs[0]] == 1
    }
    if ctx.target.device.has_shared_memory:  # through which a generated kernel stores in any order
        transposed = {n for n in transposed if not ctx.generates(n.inputs[0])}
    if not transposed:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node not in transposed:
            return None
        product, perm = node.inputs[0], node.params["perm"]
        b.prov = product.prov
        left, right = (b.transpose(new[x], perm) for x in product.inputs)
        return b.dot(right, left)

    return simplify(rewrite(graph, rule))


def _is_matrix_transpose(node: Node) -> bool:
    """Whether a node is a matrix, or many, with rows and columns exchanged."""
    last = node.ndim - 1
    return node.prim.name == "transpose" and list(node.params["perm"]) == [*range(last - 1), last, last - 1]

# SPDX-License-Identifier: Apache-2.0
"""Promotion of small results: what is computed from sums of float16 and bfloat16 stays float32 between kernels, too.

Kernels compute in float32 and round where they store. What one operator makes of a sum, a norm say, may be beyond what
a half holds, or take more digits, where its result does not; and where kernels end is nobody's concern. A number for
dozens of elements costs next to nothing in four bytes. What is as large as arrays themselves stays in two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.dtypes import f32
from ...ir.graph import Builder, Graph, Node
from ..recompute_hints import NO_RECOMPUTE
from ..rewrite import rewrite

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]

_MIN_REDUCED = 16  #: elements that are reduced to one, at least
_VIEWS = ("reshape", "transpose", "slice", "reverse")


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with small results of sums of half types in float32, rounded where something larger reads them."""
    few = _small_results(graph)
    wide: dict[Node, Node] = {}  # node of two bytes -> what it narrows

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name == "cast" and node.dtype is f32 and node.inputs[0] in wide:
            return wide[node.inputs[0]]
        if node not in few or not node.dtype.is_half:
            return None
        if node.prim.name == "round_to":
            wide[node] = new[node.inputs[0]]
        elif any(i in wide for i in node.inputs) and NO_RECOMPUTE not in node.params:
            operands = [wide.get(i) or _as_float32(b, new[i]) for i in node.inputs]
            wide[node] = b.reapply(node, operands)
        else:
            return None
        return b.round_to(wide[node], node.dtype)

    return rewrite(graph, rule)


def _as_float32(b: Builder, x: Node) -> Node:
    """``x``, if it is a half, as it stands in a kernel."""
    if not x.dtype.is_half:
        return x
    return b.full(x.shape, x.params["value"], f32) if x.prim.name == "full" else b.cast(x, f32)


def _small_results(graph: Graph) -> set[Node]:
    """Reductions to few numbers, and elementwise results of those."""
    behind: dict[Node, int] = {}  # elements that were reduced
    for node in graph.nodes:
        name, family = node.prim.name, node.prim.family
        count = max((behind[i] for i in node.inputs if i in behind), default=0)
        if family == "reduce":
            count = max(count, node.inputs[0].size)
        elif name not in (*_VIEWS, "round_to") and (family != "elementwise" or name == "cast"):
            continue
        if count >= _MIN_REDUCED * node.size:
            behind[node] = count
    return set(behind)

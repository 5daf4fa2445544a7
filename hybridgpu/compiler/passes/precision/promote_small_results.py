# SPDX-License-Identifier: Apache-2.0
"""What is made of sums of float16 and bfloat16, as long as it is few numbers: float32 between kernels, too.

Kernels compute in float32 and round where they store. What one operator makes of a sum, a norm say, may be beyond what
a half holds, or take more digits, where its result does not; and where kernels end is nobody's concern. A number for
dozens of elements costs next to nothing in four bytes. What is as large as arrays themselves stays in two.
"""

from __future__ import annotations

from ....dtypes import f32
from ...ir.graph import Builder, Graph, Node
from ..concat.split_wide_concats import APART
from ..rewrite import rewritten

__all__ = ["keep_few_wide"]

_MANY = 16  #: elements that are reduced to one, at least
_VIEWS = ("reshape", "transpose", "slice", "reverse")


def keep_few_wide(graph: Graph) -> Graph:
    """``graph`` with what follows from few sums of halves in float32, narrowed where something larger reads it."""
    few = _few(graph)
    wide: dict[Node, Node] = {}  # node of two bytes -> what it narrows

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node.prim.name == "cast" and node.dtype is f32 and node.inputs[0] in wide:
            return wide[node.inputs[0]]
        if node not in few or not node.dtype.is_half:
            return None
        if node.prim.name == "narrow":
            wide[node] = new[node.inputs[0]]
        elif any(i in wide for i in node.inputs) and APART not in node.params:
            held = [wide.get(i) or _widened(b, new[i]) for i in node.inputs]
            wide[node] = b.apply(node.prim, held, node.params)
        else:
            return None
        return b.narrow(wide[node], node.dtype)

    return rewritten(graph, rule)


def _widened(b: Builder, x: Node) -> Node:
    """``x``, if it is a half, as it stands in a kernel."""
    if not x.dtype.is_half:
        return x
    return b.full(x.shape, x.params["value"], f32) if x.prim.name == "full" else b.cast(x, f32)


def _few(graph: Graph) -> set[Node]:
    """Reductions to few numbers, and what is made of those element by element."""
    behind: dict[Node, int] = {}  # elements that were reduced
    for node in graph.nodes:
        name, family = node.prim.name, node.prim.family
        count = max((behind[i] for i in node.inputs if i in behind), default=0)
        if family == "reduce":
            count = max(count, node.inputs[0].size)
        elif name not in (*_VIEWS, "narrow") and (family != "elementwise" or name == "cast"):
            continue
        if count >= _MANY * node.size:
            behind[node] = count
    return set(behind)

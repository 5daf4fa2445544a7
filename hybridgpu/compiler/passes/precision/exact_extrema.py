# SPDX-License-Identifier: Apache-2.0
"""Values that are compared with their own maximum or minimum: so are masks of maxima, and derivatives of maxima made.

Such a comparison asks for equal bits. Values of float16 and bfloat16 are held in float32 and rounded where they are
stored; in the mode 'fast' a product and a sum are one rounding or two, as a compiler likes. So a value that two kernels
compute, or two loops of one, need not equal itself: no element is then the maximum, or some are by accident. Here
such values are written to memory once, and both the reduction and the comparison read them there.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Builder, Graph, Node, reachable
from ...primitives import TABLE
from ...target import Target
from ..concat.split_wide_concats import APART
from ..rewrite import rewritten

__all__ = ["EXTREMES", "changes", "compare_in_memory", "compared", "met_by_extremes", "shown"]

EXTREMES = ("amax", "amin")
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
#: what gives one of its operands, or its opposite: exact in any type
_EXACT = frozenset(
    {"select", "copy", "stop_gradient", "max", "min", "abs", "neg", "take", "take_along", "custom_gradient"}
)


def changes(exact: bool) -> Callable[[Node], bool]:
    """A function that tells whether a value's bits may be others where it is computed again.

    Args:
        exact: whether operations on float32 and float64 give the same bits each time.
    """
    known: dict[Node, bool] = {}

    def look(node: Node) -> bool:
        """``node``, whose operands are known."""
        if node.prim.family == "reduce":
            return node.dtype.is_half and known[node.inputs[0]]
        if node.prim.name == "narrow":  # stored it is rounded
            return True
        if node.prim.family not in ("elementwise", "view") and node.prim.name not in _EXACT:
            return False  # in memory
        arithmetic = node.prim.family == "elementwise" and node.prim.name not in _EXACT
        if arithmetic and node.dtype.is_float and (node.dtype.is_half or not exact) and node.prim.name != "cast":
            return True
        return any(known[i] for i in node.inputs)

    def find(node: Node) -> bool:
        for n in () if node in known else reachable([node]):
            if n not in known:
                known[n] = look(n)
        return known[node]

    return find


def shown(node: Node) -> Node:
    """What ``node`` shows elements of, in the same bits: what narrows rounds them."""
    while node.prim.family == "view" and len(node.inputs) == 1 and node.prim.name != "narrow":
        node = node.inputs[0]
    return node


def compared(graph: Graph) -> dict[Node, list[Node]]:
    """What of ``graph`` is compared with something else, views of either aside -> with what."""
    found: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.prim.name in _COMPARISONS:
            a, b = map(shown, node.inputs)
            found.setdefault(a, []).append(b)
            found.setdefault(b, []).append(a)
    return found


def met_by_extremes(graph: Graph) -> set[Node]:
    """What extremes of ``graph`` are taken of: values, and those that they are exactly, seen as another type or shape."""
    found: set[Node] = set()
    frontier = [n.inputs[0] for n in graph.nodes if n.prim.name in EXTREMES]
    while frontier:
        node = frontier.pop()
        if node not in found:
            found.add(node)
            if node.prim.family == "view" or node.prim.name in _EXACT or node.prim.name == "cast":
                frontier += node.inputs
    return found


def compare_in_memory(graph: Graph, target: Target) -> Graph:
    """``graph`` with what is compared with its own extreme in memory, where its bits might else differ."""
    if all(n.prim.name not in EXTREMES for n in graph.nodes):
        return graph
    pairs, change = compared(graph), changes(target.numeric == "strict")
    wanted = set()
    for node in graph.nodes:
        if node.prim.name in EXTREMES and node in pairs:
            operand = shown(node.inputs[0])
            if operand in pairs[node] and change(operand):
                wanted.add(operand)
    if not wanted:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        if node not in wanted:
            return None
        made = b.apply(node.prim, [new[i] for i in node.inputs], node.params)
        return b.apply(TABLE["copy"], (made,), {APART: "extreme"})

    return rewritten(graph, rule)

# SPDX-License-Identifier: Apache-2.0
"""Exact extrema: values that are compared with their own maximum or minimum, as masks and gradients of maxima do.

Such a comparison asks for equal bits. Values of float16 and bfloat16 are held in float32 and rounded where they are
stored; in the mode 'fast' a product and a sum are one rounding or two, as a compiler likes. So a value that two kernels
compute, or two loops of one, need not equal itself: no element is then the maximum, or some are by accident. Here
such values are written to memory once, and both the reduction and the comparison read them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....core.dtypes import DType
from ...ir.graph import Builder, Graph, Node, closure, reachable
from ..recompute_hints import NO_RECOMPUTE
from ..rewrite import replace_nodes

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["EXTREMA", "bits_may_change", "comparisons", "extrema_operands", "run", "value_source"]

EXTREMA = ("amax", "amin")
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
#: primitives that return one of their operands, or its negative: exact in any type
_BIT_EXACT = frozenset(
    {"select", "copy", "stop_gradient", "max", "min", "abs", "neg", "take", "take_along", "custom_gradient"}
)


def bits_may_change(exact: bool) -> Callable[[Node], bool]:
    """A predicate: whether a value's bits may change where it is recomputed.

    Args:
        exact: whether operations on float32 and float64 give the same bits each time.
    """
    may_change: dict[Node, bool] = {}

    def look(node: Node) -> bool:
        """``node``, whose operands are known."""
        if node.prim.family == "reduce":
            return node.dtype.is_half and may_change[node.inputs[0]]
        if node.prim.name == "round_to":  # stored it is rounded
            return True
        if node.prim.family not in ("elementwise", "view") and node.prim.name not in _BIT_EXACT:
            return False  # in memory
        arithmetic = node.prim.family == "elementwise" and node.prim.name not in _BIT_EXACT
        if arithmetic and node.dtype.is_float and (node.dtype.is_half or not exact) and node.prim.name != "cast":
            return True
        return any(may_change[i] for i in node.inputs)

    def find(node: Node) -> bool:
        for n in () if node in may_change else reachable([node]):
            if n not in may_change:
                may_change[n] = look(n)
        return may_change[node]

    return find


def value_source(node: Node) -> Node:
    """The source whose elements ``node`` has, as they are stored: views that round end the search, casts that do not count."""
    while True:
        if node.prim.family == "view" and len(node.inputs) == 1 and node.prim.name != "round_to":
            node = node.inputs[0]
        elif node.dtype.is_half and node.prim.name == "cast" and _widens(node.inputs[0], node.dtype):
            node = node.inputs[0].inputs[0]
        else:
            return node


def _widens(node: Node, dtype: DType) -> bool:
    """Whether ``node`` holds a value of ``dtype`` in another type, which a cast back then rounds."""
    return node.prim.name == "cast" and node.inputs[0].dtype is dtype


def comparisons(graph: Graph) -> dict[Node, list[Node]]:
    """Comparisons of ``graph``, views aside: value -> what it is compared with."""
    compared: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.prim.name in _COMPARISONS:
            a, b = map(value_source, node.inputs)
            compared.setdefault(a, []).append(b)
            compared.setdefault(b, []).append(a)
    return compared


def extrema_operands(graph: Graph) -> set[Node]:
    """Operands of the extrema of ``graph``: values, and those with the same bits under another type or shape."""

    def alike(node: Node) -> Sequence[Node]:
        same = node.prim.family == "view" or node.prim.name in _BIT_EXACT or node.prim.name == "cast"
        return node.inputs if same else ()

    return closure((n.inputs[0] for n in graph.nodes if n.prim.name in EXTREMA), alike)


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with values that are compared with their own extremum in memory, where their bits might else differ."""
    pairs, change = comparisons(graph), bits_may_change(ctx.target.numeric == "strict")
    extrema = [(n, value_source(n.inputs[0])) for n in graph.nodes if n.prim.name in EXTREMA and n in pairs]
    stored = {operand: "own-extremum" for n, operand in extrema if operand in pairs[n] and change(operand)}
    return replace_nodes(graph, stored, _in_memory)


def _in_memory(b: Builder, node: Node, new: dict[Node, Node], why: str) -> Node:
    return b.copy(b.reapply(node, [new[i] for i in node.inputs]), **{NO_RECOMPUTE: why})

# SPDX-License-Identifier: Apache-2.0
"""Packed weights of convolutions: blocks of output channels that lie side by side, as the CPU's kernel broadcasts to them.

A weight (O, C, *K) is kept as (O / block, C, *K, block). A convolution takes the view of it that looks like the weight
again, so that its meaning does not change; a kernel asks what is behind that view.
"""

from __future__ import annotations

from ..ir.graph import Builder, Node
from ..ir.indexing import Var, linearize, of_var, view_operands
from . import TABLE
from .views import PERMUTING_VIEWS

__all__ = ["pack", "packed_weight"]


def pack(b: Builder, w: Node, block: int, **params: str) -> Node:
    """The weight ``w`` as a view of its packed copy; ``params`` are those of the copy."""
    o, *inner = w.shape
    n = len(inner)
    lanes_last = b.transpose(b.reshape(w, (o // block, block, *inner)), (0, *range(2, n + 2), 1))
    copy = b.apply(TABLE["copy"], (lanes_last,), params)
    return b.reshape(b.transpose(copy, (0, n + 1, *range(1, n + 1))), w.shape)


def packed_weight(operand: Node) -> tuple[Node, int] | None:
    """The packed array of which ``operand`` is the view that looks like a weight, and its block; None for other operands."""
    if operand.prim.name != "reshape" or operand.inputs[0].prim.name not in PERMUTING_VIEWS:
        return None
    source: Node = operand
    while source.prim.name in PERMUTING_VIEWS:
        source = source.inputs[0]
    (outputs, *inner), block = operand.shape, source.shape[-1]
    if source.prim.family == "view" or source.ndim < 2 or outputs % block:
        return None
    outer, lane = Var("outer", outputs // block), Var("lane", block)
    variables = [Var(f"d{k}", d) for k, d in enumerate(inner)]
    node, index = operand, (of_var(outer) * block + of_var(lane), *map(of_var, variables))
    while node is not source:
        (part,) = view_operands(node, index)
        node, index = part.node, part.index
    packed = [outer, *variables, lane]
    wanted, found = linearize([*map(of_var, packed)], [v.extent for v in packed]), linearize(index, source.shape)
    same = found.affine and all(found.coefficient(v) == wanted.coefficient(v) for v in packed)
    return (source, block) if same and found.const == 0 else None

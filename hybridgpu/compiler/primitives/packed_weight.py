# SPDX-License-Identifier: Apache-2.0
"""Packed weights of convolutions: blocks of output channels that lie side by side, as the CPU's kernel broadcasts to them.

A weight (O, C, *K) is kept as (O / block, C, *K, block). A convolution takes the view of it that looks like the weight
again, so that its meaning does not change; a kernel asks what is behind that view. A program may have such views of its own,
of blocks of any size, as of a transposed matrix: the kernel computes with one vector or two of channels of one group.
"""

from __future__ import annotations

from math import prod

from ..devices.cpu import CpuConstants
from ..ir.graph import Builder, Node
from ..ir.indexing import Var, linearize, of_var, view_operands
from .views import PERMUTING_VIEWS

__all__ = ["block_sizes", "pack", "packed_weight"]


def block_sizes(itemsize: int) -> tuple[int, int]:
    """The output channels that a block may have, the better number first: elements of two of the widest vectors, and of one."""
    lanes = CpuConstants.vector_bytes // itemsize
    return 2 * lanes, lanes


def pack(b: Builder, w: Node, block: int, **params: str) -> Node:
    """The weight ``w`` as a view of its packed copy; ``params`` are those of the copy."""
    o, *inner = w.shape
    n = len(inner)
    lanes_last = b.transpose(b.reshape(w, (o // block, block, *inner)), (0, *range(2, n + 2), 1))
    copy = b.copy(lanes_last, **params)
    return b.reshape(b.transpose(copy, (0, n + 1, *range(1, n + 1))), w.shape)


def packed_weight(conv: Node, operand: Node | None = None) -> tuple[Node, int] | None:
    """The packed array of which the weight of ``conv`` is a view, and its block; None where the kernel cannot read it so.

    Args:
        operand: a view or a value that takes the place of the weight.
    """
    operand = operand or conv.inputs[1]
    if operand.prim.name != "reshape" or operand.inputs[0].prim.name not in PERMUTING_VIEWS:
        return None
    source: Node = operand
    while source.prim.name in PERMUTING_VIEWS:
        source = source.inputs[0]
    if source.prim.family in ("view", "leaf") and source.prim.name != "input":
        return None
    (outputs, *inner), block, params = operand.shape, source.shape[-1] if source.shape else 0, conv.params
    if (
        block not in block_sizes(source.dtype.size)
        or outputs // params["groups"] % block
        or prod(params["base_dilate"]) > 1
    ):
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

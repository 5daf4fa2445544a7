# SPDX-License-Identifier: Apache-2.0
"""Convolution fused with the pooling that follows it (CUDA): the kernel that reduces windows computes their elements.

A kernel of one element a thread loses nothing if neighbours are the elements of a window, which they reduce among
themselves: what the convolution makes is then neither stored nor read back, and there is one start less. That holds for
whatever is reduced over spatial axes, with elementwise work before and behind, as long as windows do not overlap.

Why this stays beside the legality of merging (:mod:`.match`): that asks whether two domains visit one array in one order.
Here the reductions are there, and what joins them is a product with loops of its own, whose elements a team of threads must
share evenly. On the CPU windows are reduced by kernels of their own.
"""

from __future__ import annotations

from math import prod

from ...devices.gpu import GpuConstants
from ...ir.graph import Node
from ...ir.indexing import Expr, Index, Var, all_vars
from .group import Group, label, row_major_vars

__all__ = ["lanes_per_window", "why_not_pooled"]

#: elements of a window that a thread computes: those of 3 by 3, the largest that is usual whose lanes are not even. With
#: more, kernels have too few threads. Not measured, there was no GPU.
_MAX_ITERATIONS = 9
_WARP = GpuConstants.warp_threads
_REDUCTIONS = ("sum", "prod", "amax", "amin")


def lanes_per_window(window: int) -> int:
    """Neighbouring threads that share a window of so many elements evenly: a power of two."""
    return min(window & -window, _WARP)


def why_not_pooled(group: Group, conv: Node, needed_elsewhere: bool) -> str | None:
    """Why ``group``, which holds reductions, cannot compute ``conv`` behind them, in words; None if it can.

    Args:
        needed_elsewhere: ``conv`` is also needed in memory.
    """
    name = label(conv)
    offset = group.affine_offset(conv)
    if offset is None:
        return f"{label(group.root)} does not read each result of the convolution once"
    (index,) = group.reads[conv]
    if group.column_sums or not _reduces_spatial_axes(group, index, conv):
        return f"{label(group.root)} reduces {name} over more than windows of its rows and columns"
    if not _is_injective(offset) or offset.vars != set(group.vars):
        return f"windows overlap, and elements of {name} would be computed more than once"
    if needed_elsewhere and row_major_vars(offset, conv.size) is None:
        return f"{name} is also needed in memory, and windows do not meet each of its elements"
    window = prod(v.extent for v in group.reduced)
    if window // lanes_per_window(window) > _MAX_ITERATIONS:
        return f"a window of {name} holds {window} elements, too many for the threads that would share it"
    if any(n.prim.name in ("take", "take_along") for n in group.index_of):
        return f"{label(group.root)} needs elements at places that are computed, which no window gathers"
    if not _is_single_pass(group):
        return f"{label(group.root)} reads {name} again with what a reduction of it gave"
    return None


def _reduces_spatial_axes(group: Group, index: Index, conv: Node) -> bool:
    """Whether every axis has variables of its own, with reduced ones in spatial axes only, and lies inside ``conv``."""
    seen: set[Var] = set()
    for k, (e, extent) in enumerate(zip(index, conv.shape, strict=True)):
        if not e.affine or e.low < 0 or e.high >= extent or seen & e.vars:
            return False
        if k < 2 and e.vars & set(group.reduced):
            return False
        seen |= e.vars
    return True


def _is_injective(offset: Expr) -> bool:
    """Whether all values of its variables give different positions."""
    span = 0
    for step, atom in sorted(((abs(c), a) for a, c in offset.terms), key=lambda t: t[0]):
        if step <= span:
            return False
        span += step * (atom.high - atom.low)
    return True


def _is_single_pass(group: Group) -> bool:
    """Whether reductions are of the kind that threads exchange, and no element waits for one."""
    reduced, late = set(group.reduced), set[Node]()
    for node in sorted(group.index_of, key=lambda n: n.index):
        inputs = list(node.inputs)
        while inputs:
            i = inputs.pop()
            if i in late:
                late.add(node)
            elif i.prim.family == "view":
                inputs += i.inputs
        if node.prim.family == "reduce":
            if node.prim.name not in _REDUCTIONS or node in late:
                return False
            late.add(node)
        elif node in late and all_vars(group.index_of[node]) & reduced:
            return False
    return True

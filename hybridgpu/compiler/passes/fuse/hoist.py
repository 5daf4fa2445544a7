# SPDX-License-Identifier: Apache-2.0
"""Hoisting (CUDA): kernels that run earlier than they must, merged into one that reads or writes the same array.

A bias's gradient is a sum of what another kernel writes for a library, and waits for nothing more; what a weight's gradient
reads is computed from arrays that were read before. In one kernel each array is read once, or not at all.
"""

from __future__ import annotations

from math import prod

from ...cost import read_seconds
from ...ir.graph import Node
from ..reductions.reduction_splitting import ROWS_PER_BLOCK
from .group import Group, row_major_vars
from .merge import can_hoist, merge
from .state import State, current_group

__all__ = ["hoist_groups"]

_MAX_TRIED = 4  #: groups that read an array and are looked at


def hoist_groups(state: State) -> None:
    """Merge groups into earlier ones over the same array, if one of both has no reduction and it takes less time."""
    for node in state.graph.nodes:
        if node.prim.family in ("view", "leaf") and node.prim.name != "input":
            continue
        home = state.group_of.get(node)
        groups = [*([current_group(home)] if home is not None else []), *state.readers_of(node)[: 2 * _MAX_TRIED]]
        groups = sorted({g for g in groups if _is_plain_loop(g)}, key=lambda g: (-g.level, g.serial))[: _MAX_TRIED + 1]
        for k, high in enumerate(groups):
            for low in groups[k + 1 :]:
                if high.merged_into is None and low.merged_into is None and _can_hoist_into(state, high, low, node):
                    merge(state, high, low, node, across_levels=True)


def _is_plain_loop(group: Group) -> bool:
    """Whether it is a loop nest of elementwise work and reductions alone."""
    return group.library is None and group.contraction is None and group.scatter is None


def _can_hoist_into(state: State, high: Group, low: Group, shared: Node) -> bool:
    """Whether ``low`` may run as early as ``high``, leaves nothing behind that would wait long, and saves time there."""
    if (high.reduced and low.reduced) or low.level >= high.level or low.points != high.points:
        return False
    if shared.size != high.points or not can_hoist(state, low, high.level, high):
        return False
    return _readers_follow_soon(state, high, low) and _pays(state, high, low, shared)


def _readers_follow_soon(state: State, high: Group, low: Group) -> bool:
    """Whether what reads results of ``low`` waits for nothing that is made behind ``high``: else they would fill memory."""
    for node in low.index_of:
        if node in state.outputs or node.size < low.points:
            continue
        for reader in state.readers_of(node):
            if reader is not low and not can_hoist(state, reader, high.level - 1, low):
                return False
    return True


def _pays(state: State, high: Group, low: Group, shared: Node) -> bool:
    """Whether one kernel takes less time than two: it has as many blocks as rows of the sums give it."""
    one, other = _traffic(state, high), _traffic(state, low)
    both = {n for n in low.reads if n in high.reads or n in high.index_of}
    saved = sum(n.type.nbytes for n in both)
    target, blocks = state.target, [_busy_blocks(state, g, shared) for g in (high, low)]
    apart = read_seconds(target, one, blocks[0]) + read_seconds(target, other, blocks[1]) + target.launch_seconds
    return read_seconds(target, one + other - saved, min(blocks)) < apart


def _traffic(state: State, group: Group) -> int:
    """Bytes that its kernel reads and writes."""
    stored = [n for n in group.index_of if n in state.outputs or any(g is not group for g in state.readers_of(n))]
    return sum(n.type.nbytes for n in (*group.reads, *stored))


def _busy_blocks(state: State, group: Group, shared: Node) -> int:
    """Blocks of its kernel that have work."""
    if not group.reduced:
        return state.target.gpu.multiprocessors
    rows = prod(v.extent for v in group.rows)
    offset = group.affine_offset(shared)
    order = row_major_vars(offset, shared.size) if offset is not None else None
    if order and order[-1] in group.reduced:
        return rows * state.target.gpu.cluster_blocks
    return -(-rows // ROWS_PER_BLOCK)

# SPDX-License-Identifier: Apache-2.0
"""Kernels that run earlier than they must, as part of one that reads the same array or makes it (CUDA).

A bias's gradient is a sum of what another kernel writes for a library, and waits for nothing more; what a weight's gradient
reads is computed from arrays that were read before. In one kernel each array is read once, or not at all.
"""

from __future__ import annotations

from math import prod

from ...ir.graph import Node
from ..reductions.reduction_splitting import SIDE_BY_SIDE, rate
from .group import Group, bijective
from .merge import merge, rises
from .state import State, merged

__all__ = ["merge_earlier"]

_TRIED = 4  #: groups that read an array and are looked at


def merge_earlier(state: State) -> None:
    """Merge groups into earlier ones that walk the same array, if one of both does not walk rows and it takes less time."""
    for node in state.graph.nodes:
        if node.prim.family in ("view", "leaf") and node.prim.name != "input":
            continue
        home = state.homes.get(node)
        groups = [*([merged(home)] if home is not None else []), *state.resolve(node)[: 2 * _TRIED]]
        groups = sorted({g for g in groups if _plain(g)}, key=lambda g: (-g.level, g.serial))[: _TRIED + 1]
        for k, high in enumerate(groups):
            for low in groups[k + 1 :]:
                if high.merged_into is None and low.merged_into is None and _may(state, high, low, node):
                    merge(state, high, low, node, levels=True)


def _plain(group: Group) -> bool:
    """Whether it walks arrays alone."""
    return group.library is None and group.contract is None and group.scatter is None


def _may(state: State, high: Group, low: Group, shared: Node) -> bool:
    """Whether ``low`` may run as early as ``high``, leaves nothing behind that would wait long, and saves time there."""
    if (high.reduced and low.reduced) or low.level >= high.level or low.points != high.points:
        return False
    if shared.size != high.points or not rises(state, low, high.level, high):
        return False
    return _used_soon(state, high, low) and _pays(state, high, low, shared)


def _used_soon(state: State, high: Group, low: Group) -> bool:
    """Whether what reads results of ``low`` waits for nothing that is made behind ``high``: else they would fill memory."""
    for node in low.at:
        if node in state.outputs or node.size < low.points:
            continue
        for reader in state.resolve(node):
            if reader is not low and not rises(state, reader, high.level - 1, low):
                return False
    return True


def _pays(state: State, high: Group, low: Group, shared: Node) -> bool:
    """Whether one kernel takes less time than two: it has as many blocks as rows of the sums give it."""
    one, other = _bytes(state, high), _bytes(state, low)
    both = {n for n in low.pending if n in high.pending or n in high.at}
    saved = sum(n.type.nbytes for n in both)
    rates = [rate(_blocks(state, g, shared), state.target) for g in (high, low)]
    apart = one / rates[0] + other / rates[1] + state.target.launch_seconds
    return (one + other - saved) / min(rates) < apart


def _bytes(state: State, group: Group) -> int:
    """What its kernel reads and writes."""
    stored = [n for n in group.at if n in state.outputs or any(g is not group for g in state.resolve(n))]
    return sum(n.type.nbytes for n in (*group.pending, *stored))


def _blocks(state: State, group: Group, shared: Node) -> int:
    """Blocks of its kernel that have work."""
    if not group.reduced:
        return state.target.gpu.multiprocessors
    rows = prod(v.extent for v in group.rows)
    offset = group.refine(shared)
    order = bijective(offset, shared.size) if offset is not None else None
    if order and order[-1] in group.reduced:
        return rows * state.target.gpu.cluster_blocks
    return -(-rows // SIDE_BY_SIDE)

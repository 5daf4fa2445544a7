# SPDX-License-Identifier: Apache-2.0
"""Merges of groups that are there: which pairs are tried, in which order, and whether they pay.

Whether two groups can be one is one rule for all of them (:mod:`.match`). Tried are groups around one array:

- *siblings*: of one level, which read the array in the same way;
- *column sums*: over the rows that another group reduces, at whatever level. The derivative of a normalisation has a
  result of the operand's size, for which it iterates over rows, and slopes of the scale and the shift, which are sums along
  columns; one kernel reads the arrays of both once. Other reductions of the same rows are merged with them;
- *hoisting* (CUDA): groups without a reduction that run earlier than they must, with one that reads or writes the same
  array: a bias's gradient is a sum of what another kernel writes for a library, and waits for nothing more. A host's loops
  have no other form for what is reduced on the way;
- *full reductions* of one value of each row, as the mean of a loss is, in the kernel that iterates over the rows. A host
  walks rows one after the other, so that their results can be combined on the way, in an order that depends on how many rows
  there are and on nothing else. A GPU's blocks compute rows side by side: what is combined of all of them is complete when
  the last block has finished, and a kernel of its own begins then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from ...cost import read_seconds, separate_launch_seconds
from ...ir.graph import Node
from ...ir.indexing import all_vars
from ..reductions.reduction_splitting import ROWS_PER_BLOCK
from .group import Group, label, row_major_vars
from .match import covers_rows, is_full_reduction
from .merge import can_hoist, merge
from .state import State, current_group

__all__ = ["hoist_column_sums", "hoist_groups", "merge_column_sums", "merge_full_reductions", "merge_siblings"]

_MAX_TRIED = 4  #: groups around one array into which a further one is tried to be merged


def _merge_pairs(
    state: State,
    node: Node,
    groups: Sequence[Group],
    may: Callable[[Group, Group], bool],
    across_levels: bool = True,
) -> None:
    """Merge groups around ``node`` into earlier ones of ``groups``, into the first few that stay."""
    first = 0
    for k, high in enumerate(groups):
        if high.merged_into is not None:
            continue
        if first == _MAX_TRIED:
            return
        first += 1
        for low in groups[k + 1 :]:
            if low.merged_into is not None or not may(high, low):
                continue
            refusal = merge(state, high, low, node, across_levels)
            if across_levels and refusal and refusal.rule == "column-sums" and refusal not in state.refusals:
                state.refusals.append(refusal)


def _home(state: State, node: Node) -> list[Group]:
    """The group that computes ``node``, if one does."""
    group = state.group_of.get(node)
    return [] if group is None else [current_group(group)]


def merge_siblings(state: State) -> None:
    """Merge groups of one level that run over the same array in the same way."""
    for node in state.graph.nodes:
        if node not in state.readers or (node.prim.family == "leaf" and node.prim.name != "input"):
            continue
        by_level: dict[int, list[Group]] = {}
        for g in state.readers_of(node):
            if not g.is_plain or node not in g.reads or len(g.reads[node]) != 1:
                continue
            if node in g.must_be_materialized and node.prim.name != "input":  # an input always is
                continue
            by_level.setdefault(g.level, []).append(g)

        def may(other: Group, g: Group, node: Node = node) -> bool:
            # rows may be few: reading an argument once is no reason to make a map as slow as a reduction
            alike = node.prim.name != "input" or bool(other.reduced) == bool(g.reduced)
            return alike and other.points == g.points and all_vars(g.reads[node][0]) == set(g.vars)

        for groups in by_level.values():
            _merge_pairs(state, node, groups, may, across_levels=False)


# -- column sums


def hoist_column_sums(state: State, node: Node, consumers: Sequence[Group]) -> bool:
    """Merge sums along columns into the rows that read ``node``, too, but run earlier; True if there are any.

    Results of a program, as slopes are, need not wait for their level: what nobody reads may be computed early.
    """
    top = max((g.level for g in consumers), default=0)
    highest = [g for g in consumers if g.level == top and g.reduced]
    hoisted = False
    for low in consumers:
        for high in highest:
            may = low.level < top and low.reduced and can_hoist(state, low, top, high)
            if may and merge(state, high, low, node, across_levels=True) is None:
                hoisted = True
                break
    return hoisted


def merge_column_sums(state: State) -> None:
    """Merge sums along columns into the group that iterates over the rows of an array, or computes it, at any level.

    So are other reductions of the same rows: results that nobody waits for join what other groups wait for.
    """
    for node in state.graph.nodes:
        readers = [g for g in state.readers_of(node) if g.reduced]
        home = [g for g in _home(state, node) if g.reduced]
        if readers and len(readers) + len(home) > 1:
            groups = sorted({*readers[:_MAX_TRIED], *home}, key=_by_level)
            _merge_pairs(state, node, groups, lambda high, low: can_hoist(state, low, high.level, high))


def _by_level(group: Group) -> tuple[int, int]:
    return -group.level, group.serial


# -- hoisting


def hoist_groups(state: State) -> None:
    """Merge groups into earlier ones over the same array, if one of both has no reduction and it takes less time."""
    for node in state.graph.nodes:
        if node.prim.family in ("view", "leaf") and node.prim.name != "input":
            continue
        candidates = {g for g in (*_home(state, node), *state.readers_of(node)[: 2 * _MAX_TRIED]) if g.is_plain}
        groups = sorted(candidates, key=_by_level)[: _MAX_TRIED + 1]
        _merge_pairs(state, node, groups, lambda high, low, node=node: _pays_to_hoist(state, high, low, node))  # type: ignore[misc]


def _pays_to_hoist(state: State, high: Group, low: Group, shared: Node) -> bool:
    """Whether ``low`` may run as early as ``high``, leaves nothing behind that would wait long, and saves time there."""
    if (high.reduced and low.reduced) or low.level >= high.level or low.points != high.points:
        return False
    if shared.size != high.points or not can_hoist(state, low, high.level, high):
        return False
    return _readers_follow_soon(state, high, low) and _is_faster(state, high, low, shared)


def _readers_follow_soon(state: State, high: Group, low: Group) -> bool:
    """Whether what reads results of ``low`` waits for nothing that is made behind ``high``: else they would fill memory."""
    for node in low.index_of:
        if node in state.outputs or node.size < low.points:
            continue
        for reader in state.readers_of(node):
            if reader is not low and not can_hoist(state, reader, high.level - 1, low):
                return False
    return True


def _is_faster(state: State, high: Group, low: Group, shared: Node) -> bool:
    """Whether one kernel takes less time than two: it has as many blocks as rows of the sums give it."""
    one, other = _traffic(state, high), _traffic(state, low)
    both = {n for n in low.reads if n in high.reads or n in high.index_of}
    saved = sum(n.type.nbytes for n in both)
    target, blocks = state.target, [_busy_blocks(state, g, shared) for g in (high, low)]
    separate = (
        read_seconds(target, one, blocks[0]) + read_seconds(target, other, blocks[1]) + separate_launch_seconds(target)
    )
    return read_seconds(target, one + other - saved, min(blocks)) < separate


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


# -- full reductions


def merge_full_reductions(state: State) -> None:
    """Merge groups that reduce values of all rows into those that iterate over the rows; on a GPU say why not."""
    for group in state.groups:
        if group.merged_into is not None or not is_full_reduction(group):
            continue
        for node in list(group.reads):
            for rows in _home(state, node):
                if rows is group or not covers_rows(rows, group):
                    continue
                if not state.target.device.loop_nests:
                    _refuse_full_reduction(state, rows, group)
                elif can_hoist(state, group, rows.level, rows):
                    merge(state, rows, group, node, full_reductions=True)
            if group.merged_into is not None:
                _merge_independent(state, group.merged_into)
                break


def _merge_independent(state: State, rows: Group) -> None:
    """Merge what is computed for every element of the rows, without a total: it was apart, as the rows ran before theirs."""
    for node in [n for n in rows.reads if n.size == rows.points]:
        for low in state.readers_of(node):
            if low.level < rows.level and not low.reduced and can_hoist(state, low, rows.level, rows):
                merge(state, rows, low, node, across_levels=True)
    state.refusals = [c for c in state.refusals if c.producer not in rows.index_of or c.consumer not in rows.index_of]


def _refuse_full_reduction(state: State, rows: Group, group: Group) -> None:
    """Replace the reasons why two kernels of a GPU are two by the one that they cannot be one."""
    reduction = next(n for n in group.index_of if n.prim.family == "reduce")
    reason = (
        f"{label(reduction)} is taken over all rows, which blocks of a GPU walk side by side: it begins when the last has "
        "finished"
    )
    for k, refusal in enumerate(state.refusals):
        if (
            refusal.producer in rows.index_of
            and refusal.consumer in group.index_of
            and refusal.rule == "reduction-shape"
        ):
            state.refusals[k] = replace(refusal, rule="full-reduction", reason=reason)

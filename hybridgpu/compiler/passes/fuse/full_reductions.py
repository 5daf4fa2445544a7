# SPDX-License-Identifier: Apache-2.0
"""Full reductions over one value of each row, as the mean of a loss is, in the kernel that iterates over the rows.

A host walks rows one after the other, so that their results can be put together on the way, in an order that depends on
how many rows there are and on nothing else. A GPU's blocks walk rows side by side: what is put together of all of them is
complete when the last block has finished, and a kernel of its own begins then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...ir.graph import Node
from ...ir.indexing import Expr, Var, all_vars, linearize, of_var, substitute
from .column_sums import dependents
from .group import Group, align_splits, label, row_major_vars
from .merge import can_hoist, merge
from .state import State, current_group

__all__ = ["merge_full_reductions"]

_REDUCTIONS = ("sum", "prod", "amax", "amin")


def merge_full_reductions(state: State) -> None:
    """Merge groups that reduce values of all rows into those that walk the rows; on a GPU say why not."""
    for group in state.groups:
        if group.merged_into is not None or not _is_full_reduction(group):
            continue
        for node in list(group.reads):
            made = state.group_of.get(node)
            rows = current_group(made) if made is not None else None
            if rows is None or rows is group or not _covers_rows(rows, group):
                continue
            if not state.target.loop_nests:
                _record_refusal(state, rows, group)
            elif _merge_into_rows(state, rows, group, node):
                _merge_independent(state, rows)
                state.refusals = [
                    c for c in state.refusals if c.producer not in rows.index_of or c.consumer not in rows.index_of
                ]
                break


def _is_full_reduction(group: Group) -> bool:
    """Whether a group has totals, and nothing that it computes at every point, not even another total, waits for one."""
    if not group.reduced or group.rows or group.contraction or group.scatter or group.library or group.column_sums:
        return False
    found = {n for n in group.index_of if n.prim.family == "reduce"}
    if not found or any(n.prim.name not in _REDUCTIONS for n in found):
        return False
    for n in group.index_of:
        waits = found.intersection(group.backward_slice(n)[0]) - {n}
        if waits and (n in found or all_vars(group.index_of[n])):
            return False
    return True


def _covers_rows(rows: Group, group: Group) -> bool:
    """Whether ``rows`` has as many rows as ``group`` has points, and nothing else on the way over them.

    Windows are no rows: a host walks many of them side by side (schedule/cpu/unrolled_windows.py).
    """
    if not rows.reduced or rows.contraction or rows.scatter or rows.library or rows.column_sums:
        return False
    if not rows.rows or prod(v.extent for v in rows.rows) != group.points:
        return False
    return not any(_reads_windows(i) for n in rows.index_of for i in n.inputs)


def _reads_windows(node: Node) -> bool:
    while node.prim.family == "view" and len(node.inputs) == 1:
        if node.prim.name == "unfold":
            return True
        node = node.inputs[0]
    return False


def _merge_into_rows(state: State, rows: Group, group: Group, shared: Node) -> bool:
    """Make ``group`` part of ``rows``, of which it reads ``shared``, if that may be."""
    limits = state.target
    if len(rows.index_of) + len(group.index_of) > limits.max_nodes or not can_hoist(state, group, rows.level, rows):
        return False
    pending = [n for n in group.reads if n not in rows.index_of]
    if len({*rows.reads, *pending}) > limits.max_arguments:
        return False
    table = _match_rows(rows, group, shared)
    if table is None or not _reads_at_definition(rows, group, table):
        return False
    group.replace({v: of_var(w) for v, w in table.items()})
    rows.full_reductions.update(dict.fromkeys(n for n in group.index_of if n.prim.family == "reduce"))
    rows.index_of.update(group.index_of)
    for node in pending:
        rows.read_fraction[node] = max(rows.read_fraction.get(node, 0.0), group.read_fraction.get(node, 1.0))
        mine = rows.reads.setdefault(node, [])
        mine.extend(i for i in group.reads[node] if i not in mine)
    rows.must_be_materialized.update(group.must_be_materialized)
    group.merged_into = rows
    return True


def _merge_independent(state: State, rows: Group) -> None:
    """Merge what is computed for every element of the rows, without a total: it was apart, as the rows ran before theirs."""
    waiting = dependents(rows, list(rows.full_reductions))  # (what is merged here waits for none)
    for node in [n for n in rows.reads if n.size == rows.points]:
        for low in state.readers_of(node):
            if low.level >= rows.level or low.reduced or not waiting.isdisjoint(low.reads):
                continue
            if can_hoist(state, low, rows.level, rows):
                merge(state, rows, low, node, across_levels=True)


def _match_rows(rows: Group, group: Group, shared: Node) -> dict[Var, Var] | None:
    """The variables of ``group`` -> those of the rows, in the same order, under which ``shared`` is at one place."""
    orders: list[list[Var]] = []
    for g in (rows, group):
        offset: Expr | None = g.affine_offset(shared)
        order = row_major_vars(offset, shared.size) if offset is not None else None
        if order is None or set(order) != set(g.rows if g is rows else g.vars):
            return None
        orders.append(order)
    if len(orders[0]) != len(orders[1]) and not align_splits(rows, group, orders, shared):
        return None
    if [v.extent for v in orders[0]] != [v.extent for v in orders[1]]:
        return None
    table = dict(zip(orders[1], orders[0], strict=True))
    return table if [table[v] for v in group.vars] == rows.rows else None


def _reads_at_definition(rows: Group, group: Group, table: dict[Var, Var]) -> bool:
    """Whether ``group`` reads what ``rows`` makes at the point that makes it."""
    places = {v: of_var(w) for v, w in table.items()}
    for node, wanted in group.reads.items():
        if node not in rows.index_of:
            continue
        here = linearize(rows.index_of[node], node.shape)
        if node in group.must_be_materialized or any(_offset_at(i, places, node) != here for i in wanted):
            return False
    return True


def _offset_at(index: Sequence[Expr], places: dict[Var, Expr], node: Node) -> Expr:
    return linearize([substitute(e, places) for e in index], node.shape)


def _record_refusal(state: State, rows: Group, group: Group) -> None:
    """Replace the reasons why two kernels of a GPU are two by the one that they cannot be one."""
    total = next(n for n in group.index_of if n.prim.family == "reduce")
    reason = (
        f"{label(total)} is taken over all rows, which blocks of a GPU walk side by side: it begins when the last has "
        "finished"
    )
    for k, refusal in enumerate(state.refusals):
        if (
            refusal.producer in rows.index_of
            and refusal.consumer in group.index_of
            and refusal.rule == "reduction-shape"
        ):
            state.refusals[k] = replace(refusal, rule="full-reduction", reason=reason)

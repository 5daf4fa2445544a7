# SPDX-License-Identifier: Apache-2.0
"""Totals: reductions over all rows of one value of each, as the mean of a loss is, in the kernel that walks the rows.

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
from .column_sums import late
from .group import Group, align, bijective, describe
from .merge import merge, rises
from .state import State, merged

__all__ = ["merge_totals"]

_KINDS = ("sum", "prod", "amax", "amin")


def merge_totals(state: State) -> None:
    """Merge groups that reduce values of all rows into those that walk the rows; on a GPU say why not."""
    for group in state.groups:
        if group.merged_into is not None or not _reduces_all(group):
            continue
        for node in list(group.pending):
            made = state.homes.get(node)
            rows = merged(made) if made is not None else None
            if rows is None or rows is group or not _walks_rows(rows, group):
                continue
            if state.target.name == "cuda":
                _say_why(state, rows, group)
            elif _merge(state, rows, group, node):
                _take_in(state, rows)
                state.cuts = [c for c in state.cuts if c.producer not in rows.at or c.consumer not in rows.at]
                break


def _reduces_all(group: Group) -> bool:
    """Whether a group has totals, and nothing that it computes at every point, not even another total, waits for one."""
    if not group.reduced or group.rows or group.contract or group.scatter or group.library or group.sums:
        return False
    found = {n for n in group.at if n.prim.family == "reduce"}
    if not found or any(n.prim.name not in _KINDS for n in found):
        return False
    for n in group.at:
        waits = found.intersection(group.needed(n)[0]) - {n}
        if waits and (n in found or all_vars(group.at[n])):
            return False
    return True


def _walks_rows(rows: Group, group: Group) -> bool:
    """Whether ``rows`` has as many rows as ``group`` has points, and nothing else on the way over them.

    Windows are no rows: a host walks many of them side by side (schedule/cpu/unrolled_windows.py).
    """
    if not rows.reduced or rows.contract or rows.scatter or rows.library or rows.sums:
        return False
    if not rows.rows or prod(v.extent for v in rows.rows) != group.points:
        return False
    return not any(_of_windows(i) for n in rows.at for i in n.inputs)


def _of_windows(node: Node) -> bool:
    while node.prim.family == "view" and len(node.inputs) == 1:
        if node.prim.name == "windows":
            return True
        node = node.inputs[0]
    return False


def _merge(state: State, rows: Group, group: Group, shared: Node) -> bool:
    """Make ``group`` part of ``rows``, of which it reads ``shared``, if that may be."""
    limits = state.target
    if len(rows.at) + len(group.at) > limits.max_nodes or not rises(state, group, rows.level, rows):
        return False
    pending = [n for n in group.pending if n not in rows.at]
    if len({*rows.pending, *pending}) > limits.max_arguments:
        return False
    table = _same_rows(rows, group, shared)
    if table is None or not _read_where_made(rows, group, table):
        return False
    group.replace({v: of_var(w) for v, w in table.items()})
    rows.totals.update(dict.fromkeys(n for n in group.at if n.prim.family == "reduce"))
    rows.at.update(group.at)
    for node in pending:
        rows.shares[node] = max(rows.shares.get(node, 0.0), group.shares.get(node, 1.0))
        mine = rows.pending.setdefault(node, [])
        mine.extend(i for i in group.pending[node] if i not in mine)
    rows.memory.update(group.memory)
    group.merged_into = rows
    return True


def _take_in(state: State, rows: Group) -> None:
    """Merge what is computed for every element of the rows, without a total: it was apart, as the rows ran before theirs."""
    waiting = late(rows, list(rows.totals))  # (what is merged here waits for none)
    for node in [n for n in rows.pending if n.size == rows.points]:
        for low in state.resolve(node):
            if low.level >= rows.level or low.reduced or not waiting.isdisjoint(low.pending):
                continue
            if rises(state, low, rows.level, rows):
                merge(state, rows, low, node, levels=True)


def _same_rows(rows: Group, group: Group, shared: Node) -> dict[Var, Var] | None:
    """The variables of ``group`` -> those of the rows, in the same order, under which ``shared`` is at one place."""
    orders: list[list[Var]] = []
    for g in (rows, group):
        offset: Expr | None = g.refine(shared)
        order = bijective(offset, shared.size) if offset is not None else None
        if order is None or set(order) != set(g.rows if g is rows else g.vars):
            return None
        orders.append(order)
    if len(orders[0]) != len(orders[1]) and not align(rows, group, orders, shared):
        return None
    if [v.extent for v in orders[0]] != [v.extent for v in orders[1]]:
        return None
    table = dict(zip(orders[1], orders[0], strict=True))
    return table if [table[v] for v in group.vars] == rows.rows else None


def _read_where_made(rows: Group, group: Group, table: dict[Var, Var]) -> bool:
    """Whether ``group`` reads what ``rows`` makes at the point that makes it."""
    places = {v: of_var(w) for v, w in table.items()}
    for node, wanted in group.pending.items():
        if node not in rows.at:
            continue
        here = linearize(rows.at[node], node.shape)
        if node in group.memory or any(_at(i, places, node) != here for i in wanted):
            return False
    return True


def _at(index: Sequence[Expr], places: dict[Var, Expr], node: Node) -> Expr:
    return linearize([substitute(e, places) for e in index], node.shape)


def _say_why(state: State, rows: Group, group: Group) -> None:
    """Replace the reasons why two kernels of a GPU are two by the one that they cannot be one."""
    total = next(n for n in group.at if n.prim.family == "reduce")
    reason = (
        f"{describe(total)} is taken over all rows, which blocks of a GPU walk side by side: it begins when the last has "
        "finished"
    )
    for k, cut in enumerate(state.cuts):
        if cut.producer in rows.at and cut.consumer in group.at and cut.rule == "pattern":
            state.cuts[k] = replace(cut, rule="total", reason=reason)

# SPDX-License-Identifier: Apache-2.0
"""Matching of groups: the one legality rule of merging, and the change of variables that it takes.

A group is a domain of loop variables, members with index maps, and reductions, each over some of the variables: those
within a row, or the rows. Two groups that read one array, or of which one reads what the other computes, become one where

- their *domains* match: under a substitution of variables both visit the elements of the array in one order. The domain of
  the second may be the rows of the first;
- their *reductions* match: they run within the same rows, or one group has none; or one reduces rows and the other the
  columns of these (column sums: the kernel accumulates one for each element of a row on its way); or the second reduces
  values of the rows to one (full reductions);
- nothing is *read* where or before the kernel has it: what follows a reduction is known at its own place only, what follows
  a reduction over rows behind the last row only, and what must be materialized in memory only.

Whether a merge pays, and which groups are tried, is for others to say (see :mod:`.merge_passes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from ....core.dataclass import dataclass
from ...ir.graph import Node
from ...ir.indexing import Var, all_vars, linearize, of_var, substitute
from ...target import Target
from ..recompute_hints import NO_RECOMPUTE
from .column_sums import why_no_room
from .group import Group, Refusal, align_splits, label, label_pair, row_major_vars
from .row_pattern import has_rows_of

__all__ = ["Match", "covers_rows", "is_full_reduction", "match_domains", "match_groups"]

_MAX_TRIED = 4  #: arrays by which domains are tried to be matched
_COLUMN_REDUCTIONS = ("sum",)
_FULL_REDUCTIONS = ("sum", "prod", "amax", "amin")


@dataclass(frozen=True)
class Match:
    """The map by which one group becomes part of another.

    Attributes:
        substitution: the variables of the group that is merged -> those of the other.
        reduced: the variables that a row of both consists of.
        over_rows: the reductions of either that run over all rows of both.
    """

    substitution: dict[Var, Var]
    reduced: list[Var]
    over_rows: list[Node]


def match_groups(
    a: Group, b: Group, shared: Node, target: Target, across_levels: bool = False, full_reductions: bool = False
) -> Match | Refusal:
    """The match by which ``b`` becomes part of ``a``, or why there is none.

    Args:
        shared: an array that both read, or one computes and the other reads.
        across_levels: ``b`` has a lower level, and may read what ``a`` computes.
        full_reductions: ``b`` reduces values of the rows of ``a`` (see :func:`covers_rows`).
    """
    match = None if full_reductions else _match_columns(a, b, shared, target)
    if isinstance(match, Refusal):
        return match
    columns = match is not None
    match = match or _match_rows(a, b, shared, across_levels, full_reductions)
    if match is not None and not columns and a.column_sums and b.column_sums:
        too_many = why_no_room([*a.column_sums, *b.column_sums], a.reduced, target)
        if too_many:
            return Refusal(a.root, b.root, "column-sums", f"sums are taken on the way over rows, {too_many}")
    moved = shared if match is None else _read_elsewhere(a, b, match, across_levels, columns)
    if match is None or moved is not None:
        one, other = label_pair(a.root, b.root)
        does = "read" if match is None else "have"
        return Refusal(
            a.root, b.root, "domain", f"{one} and {other} {does} {label(moved or shared)} in different orders"
        )
    return match


def match_domains(
    a: Group, b: Group, node: Node, covers_a: Callable[[list[Var]], bool] = lambda order: False
) -> tuple[dict[Var, Var], list[Var]] | None:
    """(variables of ``b`` -> those of ``a``, these from the outermost to the innermost in memory), by ``node``.

    Both have each of its elements once; ``covers_a``: whether variables of ``a`` will do that are not all.
    """
    orders: list[list[Var]] = []
    for g in (a, b):
        offset = g.affine_offset(node)
        order = row_major_vars(offset, node.size) if offset is not None else None
        if order is None or (set(order) != set(g.vars) and (g is b or not covers_a(order))):
            return None
        orders.append(order)
    if len(orders[0]) != len(orders[1]) and not align_splits(a, b, orders, node):
        return None
    if [v.extent for v in orders[0]] != [v.extent for v in orders[1]]:
        return None
    return dict(zip(orders[1], orders[0], strict=True)), orders[0]


# -- reductions


def _match_rows(a: Group, b: Group, shared: Node, across_levels: bool, full_reductions: bool) -> Match | None:
    """The match of groups that reduce within the same rows, or of which one is about the rows of the other."""
    if across_levels and (a.column_sums or b.column_sums or (a.reduced and b.reduced and shared not in a.reads)):
        return None

    def are_rows(order: list[Var]) -> bool:
        return (full_reductions or not b.reduced) and has_rows_of(a, shared, order)

    domain_match = match_domains(a, b, shared, are_rows)
    if domain_match is None:
        return None
    table, order = domain_match
    if full_reductions:  # in the order of the rows
        sums = [n for n in b.index_of if n.prim.family == "reduce"]
        return Match(table, a.reduced, sums) if [table[v] for v in b.vars] == a.rows else None
    if len(table) < len(a.vars):
        return Match(table, [v for v in a.vars if v not in order], [])
    reduced = [table[v] for v in b.reduced]
    if a.reduced and b.reduced and set(reduced) != set(a.reduced):
        return None
    return Match(table, a.reduced or reduced, [])


def _match_columns(a: Group, b: Group, shared: Node, target: Target) -> Match | Refusal | None:
    """The match of groups of which one reduces rows of a domain and the other its columns; None if they do not."""
    if not (a.reduced and b.reduced) or a.points != b.points:
        return None
    both = [n for n in b.reads if n in a.reads or n in a.index_of] + [n for n in a.reads if n in b.index_of]
    tried = [n for n in dict.fromkeys([shared, *both]) if n.size == a.points][:_MAX_TRIED]
    domain_match = next(filter(None, (match_domains(a, b, n) for n in tried)), None)
    if domain_match is None:
        return None
    table, order = domain_match
    along, across = set(a.reduced), {table[v] for v in b.reduced}
    if along & across or along | across != set(a.vars):
        return None
    # the innermost variable in memory tells which of them iterates over rows
    rows, columns = (a, b) if order[-1] in along else (b, a)
    sums = [n for n in columns.index_of if n.prim.family == "reduce"]
    if (
        columns.column_sums or not sums
    ):  # (without sums it is going to reduce columns, by one that is still to be placed)
        return None
    one, other = label_pair(columns.root, rows.root)

    def refuse(reason: str) -> Refusal:
        return Refusal(columns.root, rows.root, "column-sums", reason)

    if any(n.prim.name not in _COLUMN_REDUCTIONS for n in sums):
        return refuse(f"{one} runs along columns of the rows of {other}, which add up sums only on the way")
    early = rows.reads.keys() & _dependents(columns, sums) or columns.reads.keys() & _dependents(rows, rows.over_rows)
    if early or _needed_before_end(columns, sums):
        return refuse(f"{one} needs its sums over all rows before these were walked")
    reduced = a.reduced if rows is a else [table[v] for v in b.reduced]
    why = why_no_room([*sums, *rows.column_sums], reduced, target)
    return refuse(f"{one} is summed over the rows of {other}, {why}") if why else Match(table, reduced, sums)


def is_full_reduction(group: Group) -> bool:
    """Whether a group reduces all that it iterates over, and nothing at its points waits for that."""
    if not group.reduced or group.rows or not group.is_plain or group.column_sums:
        return False
    reductions = [n for n in group.index_of if n.prim.family == "reduce"]
    if not reductions or any(n.prim.name not in _FULL_REDUCTIONS for n in reductions):
        return False
    return not _needed_before_end(group, reductions)


def covers_rows(rows: Group, group: Group) -> bool:
    """Whether ``rows`` has as many rows as ``group`` has points, and no column sums on the way over them.

    Windows are no rows: a host computes many of them side by side (schedule/cpu/unrolled_windows.py).
    """
    if not rows.reduced or not rows.is_plain or rows.column_sums:
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


# -- reads


def _read_elsewhere(a: Group, b: Group, match: Match, across_levels: bool, columns: bool) -> Node | None:
    """A value that ``b`` reads and ``a`` computes, but a kernel of both does not have where it is read; None without any.

    Column sums, and rows beside rows, may recompute what no reduction comes before at a place of their own.
    """
    places = {v: of_var(w) for v, w in match.substitution.items()}
    of_rows = across_levels and not columns and bool(a.reduced and b.reduced)
    exact = bool(match.over_rows or across_levels) and not columns and not of_rows
    for node, indices in b.reads.items():
        place = a.index_of.get(node)
        if place is None:
            continue
        reductions = [n for n in a.backward_slice(node)[0] if n.prim.family == "reduce"]
        if not a.over_rows.keys().isdisjoint(reductions):
            return node
        if node in b.must_be_materialized or NO_RECOMPUTE in node.params:
            return node
        if of_rows and not all_vars(place) <= set(a.rows):
            return node
        if exact or reductions:
            here = linearize(place, node.shape)
            if any(linearize([substitute(e, places) for e in i], node.shape) != here for i in indices):
                return node
    return None


def _dependents(group: Group, reductions: Collection[Node]) -> set[Node]:
    """The members of ``group`` that depend on ``reductions``, these included."""
    if not reductions:
        return set()
    return {n for n in group.index_of if any(m in reductions for m in group.backward_slice(n)[0])}


def _needed_before_end(group: Group, sums: list[Node]) -> bool:
    """True if something that is computed at every point, or another sum, depends on one of ``sums``."""
    points = set(group.reduced)
    for n in _dependents(group, sums):
        if n in sums:
            if any(m in sums and m is not n for m in group.backward_slice(n)[0]):
                return True
        elif all_vars(group.index_of[n]) & points:
            return True
    return False

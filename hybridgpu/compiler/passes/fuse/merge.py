# SPDX-License-Identifier: Apache-2.0
"""Merging of groups that read the same data: siblings of one level, and groups of several levels over the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Node
from ...ir.indexing import Expr, Var, all_vars, linearize, of_var, substitute
from ..recompute_hints import NO_RECOMPUTE
from .column_sums import match_column_sums, why_no_room
from .group import Group, Refusal, align_splits, label, label_pair, row_major_vars
from .row_pattern import has_rows_of
from .state import State, current_group

__all__ = ["absorb_rounding", "can_hoist", "hoist_column_sums", "merge", "merge_column_sums", "merge_siblings"]

_MAX_SIBLINGS = 4  #: groups of one level that a further one is tried to be merged with


def merge(state: State, a: Group, b: Group, shared: Node, across_levels: bool = False) -> Refusal | None:
    """Merge ``b`` into ``a`` so that both read ``shared`` at one index, or say why not.

    ``across_levels``: they are of two levels, that of ``a`` no lower; one of them has to iterate over rows, and the other
    over the same rows, or columns of the same domain.
    """

    def refuse(rule: str, reason: str) -> Refusal:
        return Refusal(a.root, b.root, rule, reason)

    if a.library or b.library or a.contraction or b.contraction:
        return refuse("kernel-kind", "contractions and library calls do not share a kernel with their siblings")
    if a.scatter or b.scatter:
        return refuse("kernel-kind", "a kernel that scatters is not shared with its siblings")
    if len(a.index_of) + len(b.index_of) > state.target.max_nodes:
        return refuse("size", "together the kernels would hold too many operations")
    if len({**a.reads, **b.reads}) > state.target.max_arguments:
        return refuse("arguments", f"together the kernels would read more than {state.target.max_arguments} arrays")
    found = match_column_sums(a, b, shared, state.target)
    if isinstance(found, Refusal):
        return found
    if found:
        table: dict[Var, Var] | None = found.substitution
    elif across_levels:
        table = _same_rows(a, b, shared) if a.reduced and b.reduced else _same_domain(a, b, shared)
    else:
        table = _match_vars(a, b, shared)
    if table is not None and a.column_sums and b.column_sums:
        too_many = why_no_room([*a.column_sums, *b.column_sums], a.reduced, state.target)
        if too_many:
            return refuse("column-sums", f"sums are taken on the way over rows, {too_many}")
    if table is None:
        one, other = label_pair(a.root, b.root)
        return refuse("domain", f"{one} and {other} read {label(shared)} in different orders")
    turned = _index_mismatch(a, b, table)
    if turned is not None:
        one, other = label_pair(a.root, b.root)
        return refuse("domain", f"{one} and {other} have {label(turned)} in different orders")
    b.replace({v: of_var(w) for v, w in table.items()})
    if found:
        a.reduced = found.reduced
        a.column_sums.update(dict.fromkeys(found.sums))
    elif b.reduced and not a.reduced:
        a.reduced = [table[v] for v in b.reduced]
    a.column_sums.update(b.column_sums)
    a.index_of.update(b.index_of)
    for node, wanted in b.reads.items():
        if node in a.index_of:
            continue
        shares = [g.read_fraction.get(node, 1.0) for g in (a, b) if node in g.reads]
        a.read_fraction[node] = max(shares)
        mine = a.reads.setdefault(node, [])
        mine.extend(i for i in wanted if i not in mine)
    a.must_be_materialized.update(b.must_be_materialized)
    b.merged_into = a
    return None


def _match_vars(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The variables of ``b`` -> those of ``a`` under which both read ``shared`` at the same place.

    ``a`` may read it once a row, if it is made by a reduction over rows: then ``b`` has values of these rows.
    """
    orders: list[list[Var]] = []
    for g in (a, b):
        offset: Expr | None = g.affine_offset(shared)
        order = row_major_vars(offset, shared.size) if offset is not None else None
        if order is None or (set(order) != set(g.vars) and (g is b or b.reduced or not has_rows_of(a, shared, order))):
            return None
        orders.append(order)
    if len(orders[0]) != len(orders[1]) and not align_splits(a, b, orders, shared):
        return None
    if [v.extent for v in orders[0]] != [v.extent for v in orders[1]]:
        return None
    table = dict(zip(orders[1], orders[0], strict=True))
    if len(table) < len(a.vars):
        a.reduced = [v for v in a.vars if v not in orders[0]]
        return table
    if a.reduced and b.reduced and {table[v] for v in b.reduced} != set(a.reduced):
        return None
    return table


def _index_mismatch(a: Group, b: Group, table: dict[Var, Var]) -> Node | None:
    """What ``a`` makes of a reduction and ``b`` would read at another index where they are one.

    A kernel has it at one index only. Elements of what is not reduced it computes wherever they are read.
    """
    places = {v: of_var(w) for v, w in table.items()}
    for node, wanted in b.reads.items():
        if node in a.index_of and any(n.prim.family == "reduce" for n in a.backward_slice(node)[0]):
            here = linearize(a.index_of[node], node.shape)
            if any(linearize([substitute(e, places) for e in i], node.shape) != here for i in wanted):
                return node
    return None


def _same_rows(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The same if both walk rows of ``shared``, and ``b`` reads of what ``a`` makes no more than values of its rows."""
    table = _match_vars(a, b, shared) if shared in a.reads else None
    if table is None or a.column_sums or b.column_sums:
        return None
    rows = set(a.rows)
    return table if all(all_vars(a.index_of[n]) <= rows for n in b.reads if n in a.index_of) else None


def _same_domain(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The same for domains of the size of ``shared``, if ``b`` reads what ``a`` makes where ``a`` makes it.

    What has to be read from memory, as what is compared with its own extreme has, is not read where it is made.
    """
    table = _match_vars(a, b, shared)
    if table is None or a.column_sums or b.column_sums:
        return None
    places = {v: of_var(w) for v, w in table.items()}
    for node, wanted in b.reads.items():
        place = a.index_of.get(node)
        if place is None:
            continue
        if NO_RECOMPUTE in node.params or any(tuple(substitute(e, places) for e in i) != tuple(place) for i in wanted):
            return None
    return table


def merge_siblings(state: State) -> None:
    """Groups of one level that run over the same array in the same way become one kernel."""
    for node in state.graph.nodes:
        if node not in state.readers or (node.prim.family == "leaf" and node.prim.name != "input"):
            continue
        by_level: dict[int, list[Group]] = {}
        for g in state.readers_of(node):
            if g.library or g.contraction or g.scatter or node not in g.reads or len(g.reads[node]) != 1:
                continue
            if node in g.must_be_materialized and node.prim.name != "input":  # an input always is
                continue
            met = by_level.setdefault(g.level, [])
            whole = all_vars(g.reads[node][0]) == set(g.vars)
            for other in met[:_MAX_SIBLINGS]:
                # rows may be few: reading an argument once is no reason to make a map as slow as a reduction
                alike = node.prim.name != "input" or bool(other.reduced) == bool(g.reduced)
                if whole and alike and other.points == g.points and merge(state, other, g, node) is None:
                    break
            else:
                met.append(g)


# -- rows of several levels, and sums over all rows


def can_hoist(state: State, group: Group, level: int, partner: Group) -> bool:
    """True if ``group`` may run at a higher ``level``: all that it reads is there, or computed by the group ``partner``."""
    for node in group.reads:
        home = state.group_of.get(node)
        if home is not None and current_group(home) is not partner and current_group(home).level <= level:
            return False
    return True


def hoist_column_sums(state: State, node: Node, consumers: Sequence[Group]) -> bool:
    """Merge sums along columns into the rows that read ``node``, too, but run earlier; True if there are any.

    Results of a program, as slopes are, need not wait for their level: what nobody reads may be computed early.
    """
    top = max((g.level for g in consumers), default=0)
    highest = [g for g in consumers if g.level == top and g.reduced]
    lifted = False
    for low in consumers:
        for high in highest:
            may = low.level < top and low.reduced and can_hoist(state, low, top, high)
            if may and merge(state, high, low, node, across_levels=True) is None:
                lifted = True
                break
    return lifted


def merge_column_sums(state: State) -> None:
    """Sums along columns become part of the kernel that walks the rows of an array, or makes it, at whatever level.

    So do other walks over the same rows: results that nobody waits for join what other groups wait for.
    """
    for node in state.graph.nodes:
        readers = [g for g in state.readers_of(node) if g.reduced]
        home = state.group_of.get(node)
        made = [current_group(home)] if home is not None and current_group(home).reduced else []
        if not readers or len(readers) + len(made) < 2:
            continue
        groups = sorted({*readers[:_MAX_SIBLINGS], *made}, key=lambda g: (-g.level, g.serial))
        for k, high in enumerate(groups):
            for low in groups[k + 1 :]:
                if high.merged_into is None and low.merged_into is None and can_hoist(state, low, high.level, high):
                    refusal = merge(state, high, low, node, across_levels=True)
                    if refusal is not None and refusal.rule == "column-sums" and refusal not in state.refusals:
                        state.refusals.append(refusal)


def absorb_rounding(state: State) -> None:
    """Merge a result that is only another group's value rounded into that group.

    Most do as they are placed. Sums along columns that read a value of a row, too, keep its copy apart until they are part
    of the kernel that walks these rows.
    """
    for group in state.groups:
        node = next(iter(group.index_of), None)
        if group.merged_into is not None or node is None or len(group.index_of) > 1 or node.prim.name != "copy":
            continue
        narrowed = node.inputs[0]
        source = narrowed.inputs[0] if narrowed.prim.name == "round_to" else None
        made = None if source is None else state.group_of.get(source)
        if source is None or made is None:
            continue
        home = current_group(made)
        if source in home.index_of and not home.contraction:
            home.index_of[node] = home.index_of[source]
            group.merged_into = home
            state.group_of[node] = home
            state.refusals = [c for c in state.refusals if node not in (c.producer, c.consumer)]

# SPDX-License-Identifier: Apache-2.0
"""Groups that read the same data become one: those of one level, and those of several where one walks rows."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Node
from ...ir.indexing import Expr, Var, all_vars, linearize, of_var, substitute
from ..concat.split_wide_concats import APART
from .column_sums import beside, fits
from .group import Cut, Group, align, bijective, describe, describe_two
from .row_pattern import has_rows
from .state import State, merged

__all__ = ["lift", "merge", "merge_beside", "merge_siblings", "rises", "round_where_made"]

_SIBLINGS = 4  #: groups of one level that a further one is tried to be merged with


def merge(state: State, a: Group, b: Group, shared: Node, levels: bool = False) -> Cut | None:
    """Merge ``b`` into ``a`` so that both read ``shared`` at one index, or say why not.

    With ``levels`` they are of two, that of ``a`` no lower: one of them has to walk rows, and the other the same rows, or
    columns of the same domain.
    """

    def refuse(rule: str, reason: str) -> Cut:
        return Cut(a.anchor, b.anchor, rule, reason)

    if a.library or b.library or a.contract or b.contract:
        return refuse("kind", "contractions and library calls do not share a kernel with their siblings")
    if a.scatter or b.scatter:
        return refuse("kind", "a kernel that scatters is not shared with its siblings")
    if len(a.at) + len(b.at) > state.target.max_nodes:
        return refuse("size", "together the kernels would hold too many operations")
    if len({**a.pending, **b.pending}) > state.target.max_arguments:
        return refuse("arguments", f"together the kernels would read more than {state.target.max_arguments} arrays")
    found = beside(a, b, shared, state.target)
    if isinstance(found, Cut):
        return found
    if found:
        table: dict[Var, Var] | None = found.table
    elif levels:
        table = _same_rows(a, b, shared) if a.reduced and b.reduced else _same_walk(a, b, shared)
    else:
        table = _correspondence(a, b, shared)
    if table is not None and a.sums and b.sums:
        too_many = fits([*a.sums, *b.sums], a.reduced, state.target)
        if too_many:
            return refuse("beside", f"sums are taken on the way over rows, {too_many}")
    if table is None:
        one, other = describe_two(a.anchor, b.anchor)
        return refuse("domain", f"{one} and {other} read {describe(shared)} in different orders")
    turned = _turned(a, b, table)
    if turned is not None:
        one, other = describe_two(a.anchor, b.anchor)
        return refuse("domain", f"{one} and {other} have {describe(turned)} in different orders")
    b.replace({v: of_var(w) for v, w in table.items()})
    if found:
        a.reduced = found.reduced
        a.sums.update(dict.fromkeys(found.sums))
    elif b.reduced and not a.reduced:
        a.reduced = [table[v] for v in b.reduced]
    a.sums.update(b.sums)
    a.at.update(b.at)
    for node, wanted in b.pending.items():
        if node in a.at:
            continue
        shares = [g.shares.get(node, 1.0) for g in (a, b) if node in g.pending]
        a.shares[node] = max(shares)
        mine = a.pending.setdefault(node, [])
        mine.extend(i for i in wanted if i not in mine)
    a.memory.update(b.memory)
    b.merged_into = a
    return None


def _correspondence(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The variables of ``b`` -> those of ``a`` under which both read ``shared`` at the same place.

    ``a`` may read it once a row, if it is made by a reduction over rows: then ``b`` has values of these rows.
    """
    orders: list[list[Var]] = []
    for g in (a, b):
        offset: Expr | None = g.refine(shared)
        order = bijective(offset, shared.size) if offset is not None else None
        if order is None or (set(order) != set(g.vars) and (g is b or b.reduced or not has_rows(a, shared, order))):
            return None
        orders.append(order)
    if len(orders[0]) != len(orders[1]) and not align(a, b, orders, shared):
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


def _turned(a: Group, b: Group, table: dict[Var, Var]) -> Node | None:
    """What ``a`` makes of a reduction and ``b`` would read at another index where they are one.

    A kernel has it at one index only. Elements of what is not reduced it computes wherever they are read.
    """
    places = {v: of_var(w) for v, w in table.items()}
    for node, wanted in b.pending.items():
        if node in a.at and any(n.prim.family == "reduce" for n in a.needed(node)[0]):
            here = linearize(a.at[node], node.shape)
            if any(linearize([substitute(e, places) for e in i], node.shape) != here for i in wanted):
                return node
    return None


def _same_rows(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The same if both walk rows of ``shared``, and ``b`` reads of what ``a`` makes no more than values of its rows."""
    table = _correspondence(a, b, shared) if shared in a.pending else None
    if table is None or a.sums or b.sums:
        return None
    rows = set(a.rows)
    return table if all(all_vars(a.at[n]) <= rows for n in b.pending if n in a.at) else None


def _same_walk(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The same for domains of the size of ``shared``, if ``b`` reads what ``a`` makes where ``a`` makes it.

    What has to be read from memory, as what is compared with its own extreme has, is not read where it is made.
    """
    table = _correspondence(a, b, shared)
    if table is None or a.sums or b.sums:
        return None
    places = {v: of_var(w) for v, w in table.items()}
    for node, wanted in b.pending.items():
        place = a.at.get(node)
        if place is None:
            continue
        if APART in node.params or any(tuple(substitute(e, places) for e in i) != tuple(place) for i in wanted):
            return None
    return table


def merge_siblings(state: State) -> None:
    """Groups of one level that run over the same array in the same way become one kernel."""
    for node in state.graph.nodes:
        if node not in state.readers or (node.prim.family == "leaf" and node.prim.name != "input"):
            continue
        by_level: dict[int, list[Group]] = {}
        for g in state.resolve(node):
            if g.library or g.contract or g.scatter or node not in g.pending or len(g.pending[node]) != 1:
                continue
            if node in g.memory and node.prim.name != "input":  # an input always is
                continue
            met = by_level.setdefault(g.level, [])
            whole = all_vars(g.pending[node][0]) == set(g.vars)
            for other in met[:_SIBLINGS]:
                # rows may be few: reading an argument once is no reason to make a map as slow as a reduction
                alike = node.prim.name != "input" or bool(other.reduced) == bool(g.reduced)
                if whole and alike and other.points == g.points and merge(state, other, g, node) is None:
                    break
            else:
                met.append(g)


# -- rows of several levels, and sums over all rows


def rises(state: State, group: Group, level: int, beside: Group) -> bool:
    """True if ``group`` may run at a higher ``level``: all that it reads is there, or made by the group ``beside``."""
    for node in group.pending:
        home = state.homes.get(node)
        if home is not None and merged(home) is not beside and merged(home).level <= level:
            return False
    return True


def lift(state: State, node: Node, consumers: Sequence[Group]) -> bool:
    """Merge sums along columns into the rows that read ``node``, too, but run earlier; True if there are any.

    Results of a program, as slopes are, need not wait for their level: what nobody reads may be computed early.
    """
    top = max((g.level for g in consumers), default=0)
    highest = [g for g in consumers if g.level == top and g.reduced]
    lifted = False
    for low in consumers:
        for high in highest:
            may = low.level < top and low.reduced and rises(state, low, top, high)
            if may and merge(state, high, low, node, levels=True) is None:
                lifted = True
                break
    return lifted


def merge_beside(state: State) -> None:
    """Sums along columns become part of the kernel that walks the rows of an array, or makes it, at whatever level.

    So do other walks over the same rows: results that nobody waits for join what other groups wait for.
    """
    for node in state.graph.nodes:
        readers = [g for g in state.resolve(node) if g.reduced]
        home = state.homes.get(node)
        made = [merged(home)] if home is not None and merged(home).reduced else []
        if not readers or len(readers) + len(made) < 2:
            continue
        groups = sorted({*readers[:_SIBLINGS], *made}, key=lambda g: (-g.level, g.serial))
        for k, high in enumerate(groups):
            for low in groups[k + 1 :]:
                if high.merged_into is None and low.merged_into is None and rises(state, low, high.level, high):
                    cut = merge(state, high, low, node, levels=True)
                    if cut is not None and cut.rule == "beside" and cut not in state.cuts:
                        state.cuts.append(cut)


def round_where_made(state: State) -> None:
    """A result that is only the narrowed form of a number becomes part of the kernel that makes this number.

    Most do as they are placed. Sums along columns that read a value of a row, too, keep its copy apart until they are part
    of the kernel that walks these rows.
    """
    for group in state.groups:
        node = next(iter(group.at), None)
        if group.merged_into is not None or node is None or len(group.at) > 1 or node.prim.name != "copy":
            continue
        narrowed = node.inputs[0]
        source = narrowed.inputs[0] if narrowed.prim.name == "narrow" else None
        made = None if source is None else state.homes.get(source)
        if source is None or made is None:
            continue
        home = merged(made)
        if source in home.at and not home.contract:
            home.at[node] = home.at[source]
            group.merged_into = home
            state.homes[node] = home
            state.cuts = [c for c in state.cuts if node not in (c.producer, c.consumer)]

# SPDX-License-Identifier: Apache-2.0
"""Axis collapsing: the loop variables of a kernel in their final form.

First variables are split where quotients and remainders take them apart; then they are ordered so
that the innermost walks memory with stride one; then neighbours that every index treats as one are
merged. A chain of elementwise operators over any shape ends as a single loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ..ir.dims import nominal
from ..ir.indexing import Expr, Quotient, Remainder, Var, divide, modulo, of_var
from ..passes.fuse.group import split_point
from ..size_buckets import MIN_SPLIT_EXTENT
from .index_set_splitting import MAX_CONDITIONS
from .scalar import Scalar, ScalarProgram

__all__ = ["can_collapse", "collapse_axes", "split_at_quotients"]


def collapse_axes(program: ScalarProgram, reorder: bool = True) -> None:
    """Split, order (if ``reorder``) and merge the variables of ``program`` (in place)."""
    split_at_quotients(program, [program.vars, program.reduced])
    rows = [v for v in program.vars if v not in program.reduced]
    rows = _ordered(program, rows) if reorder else rows
    reduced = _ordered(program, program.reduced)
    rows = _collapsed(program, rows)
    reduced = _collapsed(program, reduced)
    table = {}
    for k, v in enumerate([*rows, *reduced]):
        table[v] = Var(f"i{k}", v.extent)
    program.replace({v: of_var(w) for v, w in table.items()})
    program.vars = [table[v] for v in [*rows, *reduced]]
    program.reduced = [table[v] for v in reduced]


def split_at_quotients(program: ScalarProgram, lists: Sequence[list[Var]]) -> None:
    """Split the variables in ``lists`` where quotients and remainders take them apart (in place)."""
    for _ in range(16):
        mine = {v for variables in lists for v in variables}
        at = next((split for e in program.expressions() if (split := _find_split(e, mine))), None)
        if not at:
            return
        var, by = at
        outer, inner = Var(f"{var.name}o", var.extent // by), Var(f"{var.name}i", by)
        for variables in lists:
            if var in variables:
                place = variables.index(var)
                variables[place : place + 1] = [outer, inner]
        program.replace({var: of_var(outer) * by + of_var(inner)})


def _find_split(e: Expr, among: Collection[Var]) -> tuple[Var, int] | None:
    split = split_point(e, among)
    for atom, _ in e.terms:
        if split is None and isinstance(atom, (Quotient, Remainder)):
            split = _find_split(atom.expr, among)
    return split


def _ordered(program: ScalarProgram, variables: list[Var]) -> list[Var]:
    """Outermost first: by the strides of the first store that uses them, else of the loads."""
    offsets = [s.offset for s in program.stores] + [s.offset for s in program.scalars if s.op == "load" and s.offset]
    weights = {v: next((abs(c) for e in offsets if (c := e.coefficient(v))), 0) for v in variables}
    place = {v: k for k, v in enumerate(variables)}
    return sorted(variables, key=lambda v: (-weights[v] if weights[v] else -(1 << 62), place[v]))


def _collapsed(program: ScalarProgram, variables: list[Var]) -> list[Var]:
    k = 0
    while k + 1 < len(variables):
        outer, inner = variables[k], variables[k + 1]
        tests = {c.expr for s in program.scalars for c in s.conditions if c.expr.terms == ((outer, 1),)}
        points = nominal(prod(v.extent for v in variables[k:]))
        few = not program.reduced and len(tests) <= MAX_CONDITIONS and points >= MIN_SPLIT_EXTENT * (2 * len(tests) + 1)
        moved = _shifted_row_loads(program, outer, inner) if tests and few else {}
        offsets = {moved.get(s, s.offset) for s in program.scalars if s.op == "load"}
        offsets = offsets.union(e for e in program.expressions() if e not in {s.offset for s in moved})
        if all(can_collapse(e, outer, inner) or (few and e in tests) for e in offsets if e is not None):
            for s, e in moved.items():
                s.offset = e
            one = Var(f"{outer.name}{inner.name}", outer.extent * inner.extent)
            e = of_var(one)
            program.replace({outer: divide(e, inner.extent), inner: modulo(e, inner.extent)})
            variables[k : k + 2] = [one]
            k = max(k - 1, 0)
        else:
            k += 1
    return variables


def _shifted_row_loads(program: ScalarProgram, outer: Var, inner: Var) -> dict[Scalar, Expr]:
    """Loads of a lone row that happen at one value of ``outer`` -> an offset that grows with it as others do."""
    shifted = {}
    for s in program.scalars:
        if s.op == "load" and s.offset is not None and not s.offset.coefficient(outer):
            for expr, bound in s.conditions:
                if bound == 1 and expr.terms == ((outer, 1),):
                    shifted[s] = s.offset + expr * (s.offset.coefficient(inner) * inner.extent)
    return shifted


def can_collapse(e: Expr, outer: Var, inner: Var) -> bool:
    """True if ``e`` depends on the pair only through ``outer * inner.extent + inner``.

    (A position read at run time depends on them through expressions that are looked at themselves.)
    """
    if e.coefficient(outer) != e.coefficient(inner) * inner.extent:
        return False
    for atom, _ in e.terms:
        if isinstance(atom, (Quotient, Remainder)) and {outer, inner} & atom.expr.vars:
            return False
    return True

# SPDX-License-Identifier: Apache-2.0
"""Index set splitting: programs over a part of their domain.

A join or a pad tests at every element which of its parts the element belongs to. Where such a test
depends on one loop variable alone, it changes at a few known values of it: between two of them the
answer is known, what is not reached disappears, and so does the test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.graph import Node, closure
from ..ir.indexing import Condition, Expr, IndirectIndex, Var, const, substitute
from .scalar import Scalar, ScalarProgram, Store, indirect_positions, is_combine, operands_of

__all__ = ["MAX_CONDITIONS", "bit_copies", "breakpoints", "live_scalars", "outer_breakpoint_axis", "restrict"]

MAX_CONDITIONS = 8  #: of rows that are walked as one: so many pieces are loops of their own, or tests at every element


def breakpoints(program: ScalarProgram, var: Var) -> list[int]:
    """The values of ``var``, in order, at which a condition on it alone becomes true or false."""
    points = []
    for s in program.scalars:
        for expr, bound in s.conditions:
            if len(expr.terms) != 1 or expr.terms[0][0] is not var:
                continue
            step = expr.terms[0][1]
            for limit in (0, bound):  # the first value beyond which step * var + const >= limit changes
                gap = limit - expr.const
                points.append(-(-gap // step) if step > 0 else gap // step + 1)
    within = sorted(k for k in dict.fromkeys(points) if var.low < k <= var.high)
    # of a dimension's points some may be alike at one size, which no table finds
    return [k for n, k in enumerate(within) if n == 0 or k != within[n - 1]]


def outer_breakpoint_axis(program: ScalarProgram) -> Var | None:
    """The outermost variable, if parts of joins and pads begin at values of it and nowhere else."""
    if not program.vars:
        return None
    first = program.vars[0]
    tests = {c for s in program.scalars for c in s.conditions}
    outer = all(c.expr.terms == ((first, 1),) for c in tests)
    return first if outer and 0 < len(tests) <= MAX_CONDITIONS else None


def restrict(
    program: ScalarProgram, var: Var, begin: int, end: int, keep: bool = True
) -> tuple[ScalarProgram, Var | None]:
    """``program`` where ``begin <= var < end``, and the variable that takes the place of ``var``.

    Scalars that are the same there as everywhere stay the objects they are. Of a single value there is
    no variable unless ``keep``.
    """
    part = Var(var.name, end - begin, begin) if keep or end - begin > 1 else None
    table = {var: Expr(((part, 1),)) if part else const(begin)}
    restricted: dict[Scalar, Scalar] = {}
    loads: dict[object, Scalar] = {}
    reads: dict[Scalar, IndirectIndex] = {}

    def opaque(atom: IndirectIndex) -> Expr:
        new = restricted[atom.value]
        if new is not atom.value:
            atom = reads.setdefault(new, IndirectIndex(new, atom.low, atom.high))
        return Expr(((atom, 1),))

    def renew(e: Expr) -> Expr:
        return substitute(e, table, opaque) if e.terms else e

    tested: dict[Condition, Condition] = {}  # parts of a join have most of their conditions in common

    def test(c: Condition) -> Condition:
        new = tested.get(c)
        if new is None:
            new = tested[c] = Condition(renew(c.expr), c.bound)
        return new

    needed = _needed(program, test, var)
    for s in program.scalars:
        if s not in needed:
            continue
        new = restricted[s] = _restricted(s, restricted, renew, test, part, var)
        if new.op == "load":  # loads under several conditions may have become one
            first_load = loads.setdefault((new.node, new.offset, new.conditions), new)
            restricted[s] = s if new is s else first_load
    stores = [Store(t.node, restricted[t.value], renew(t.offset), t.scattered) for t in program.stores]
    variables = [v for v in (part if v is var else v for v in program.vars) if v]
    scalars = live_scalars(list(dict.fromkeys(restricted.values())), stores)
    return ScalarProgram(scalars, [], stores, variables, []), part


def _needed(program: ScalarProgram, test: Callable[[Condition], Condition], var: Var) -> set[Scalar]:
    """The scalars that are reached where ``test`` gives the conditions: of a choice that is known there one side alone."""

    def operands(s: Scalar) -> Sequence[Scalar]:
        if s.op == "compute" and s.node is None and var in s.vars:
            chosen = _known_value(s.args[0], test, var)
            return s.args if chosen is None else (s.args[0], s.args[1 if chosen else 2])
        return operands_of(s)

    return closure(_stored(program.stores), operands)


def _known_value(predicate: Scalar, test: Callable[[Condition], Condition], var: Var) -> bool | None:
    """The value of a predicate wherever ``test`` gives the conditions, if it is the same."""
    if predicate.op != "predicate" or var not in predicate.vars:
        return None
    if any(indirect_positions(c.expr) for c in predicate.conditions):
        return None  # known at run time, to scalars that are not restricted yet
    conditions = _tested(predicate, test)
    if any(c.never for c in conditions):
        return False
    return None if conditions else True


def _tested(s: Scalar, test: Callable[[Condition], Condition]) -> tuple[Condition, ...]:
    """The conditions of ``s`` as ``test`` gives them, without those that always hold: where a part is empty, all do."""
    return tuple(c for c in map(test, s.conditions) if not c.always)


def _restricted(
    s: Scalar,
    restricted: dict[Scalar, Scalar],
    renew: Callable[[Expr], Expr],
    test: Callable[[Condition], Condition],
    part: Var | None,
    var: Var,
) -> Scalar:
    if var not in s.vars:
        return s
    used = s.vars - {var} | ({part} if part else frozenset())
    if s.op == "compute" and s.node is None and (chosen := restricted[s.args[0]]).op == "const":
        return restricted[s.args[1 if chosen.value else 2]]
    args = tuple(restricted[a] for a in s.args)
    if s.op == "compute":
        if is_combine(s) and _is_identity_element(s.node, *args):
            return args[0]
        arg_vars = frozenset[Var]().union(*(a.vars for a in args))
        return Scalar("compute", s.dtype, args, s.node, vars=arg_vars)
    conditions = _tested(s, test)
    if any(c.never for c in conditions):
        return Scalar("const", s.dtype, value=False if s.op == "predicate" else 0)
    if s.op == "predicate":
        if not conditions:
            return Scalar("const", s.dtype, value=True)
        # (what conditions name besides ``s.vars`` is known where the loops begin)
        used &= frozenset[Var]().union(*(c.expr.vars for c in conditions))
    return Scalar(s.op, s.dtype, args, s.node, s.value, None if s.offset is None else renew(s.offset), conditions, used)


def _is_identity_element(node: Node | None, state: Scalar, element: Scalar) -> bool:
    """True for an element of the padding that changes no state: a zero of a sum, an extreme that was met before.

    (A sum begins with +0 and is therefore never -0.)
    """
    if node is None or element.op != "const":
        return False
    if node.prim.name == "sum":
        return bool(element.value == 0)
    while state.op == "compute" and state.node is node:
        if _same_constant(state.args[1], element):
            return True
        state = state.args[0]
    return _same_constant(state, element)


def _same_constant(a: Scalar, b: Scalar) -> bool:
    return a.op == b.op == "const" and repr(a.value) == repr(b.value)


def live_scalars(scalars: list[Scalar], stores: list[Store]) -> list[Scalar]:
    """The ``scalars`` that a store needs, in their order."""
    live = closure(_stored(stores), operands_of)
    return [s for s in scalars if s in live]


def _stored(stores: list[Store]) -> list[Scalar]:
    """The values that are stored, and the run-time positions where."""
    return [t.value for t in stores] + [p for t in stores for p in indirect_positions(t.offset)]


def bit_copies(program: ScalarProgram) -> set[Scalar]:
    """Half-precision scalars that are loaded, chosen and stored but never computed with.

    They need not become floats on their way.
    """
    moved = {s for s in program.scalars if s.dtype.is_half and (s.op == "load" or (s.op == "compute" and not s.node))}
    stores: dict[Scalar, bool] = {}
    for t in program.stores:
        adds = t.scattered and t.node.prim.name != "scatter_set"
        stores[t.value] = stores.get(t.value, True) and t.node.dtype == t.value.dtype and not adds
    moved = {s for s in moved if stores.get(s, True)}
    changed = True
    while changed:
        before = len(moved)
        for s in reversed(program.scalars):
            if s not in moved:  # what computes needs floats
                moved.difference_update(a for a in s.args if a.dtype.is_half)
            elif s.op == "compute" and not all(a in moved or a.op == "const" for a in s.args[1:]):
                moved.discard(s)
        changed = len(moved) != before
    return moved

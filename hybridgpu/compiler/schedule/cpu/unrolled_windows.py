# SPDX-License-Identifier: Apache-2.0
"""Unrolled windows on the CPU: small ones that overlap or reach over the border become straight-line statements.

Lanes are neighbouring windows. Where a window's elements are statements of one loop body rather than loops around it,
what holds for one of them alone, such as that it lies in the padding, is a condition on the position of the window:
loops are cut there (see :mod:`.loop_nests`), and the interior is free of tests. States stay in registers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir.indexing import ZERO, Expr, Var
from ..index_set_splitting import restrict
from ..scalar import Scalar, ScalarProgram, Store

__all__ = ["unroll_windows", "wants_unrolled_windows"]

_WINDOW = 32  #: elements of a window, …
_STEP = 4  #: … distance of windows, …
_FEWEST = 4  #: … and their number along an axis, up to which and from which this pays
_MOST = 160  #: values of a window: each is a statement for every piece of a loop


def wants_unrolled_windows(program: ScalarProgram, rows: list[Var]) -> bool:
    """True if all that is reduced are windows that slide over arrays, and only results of them are stored."""
    reduced = set(program.reduced)
    elements = prod(v.extent for v in reduced)
    if not rows or not reduced or elements > _WINDOW or rows[-1].extent < _FEWEST:
        return False
    if any(r.node.prim.name not in ("sum", "amax", "amin") for r in program.reductions):
        return False
    after = _after(program)
    full = [s for s in program.scalars if s.vars & reduced and s not in after]
    if len(full) * elements > _MOST or any(s.vars & reduced for s in after):
        return False
    if any(t.offset.vars & reduced or t.value.vars & reduced for t in program.stores):
        return False
    loads = [s for s in program.scalars if s.op == "load" and s.offset is not None]
    if any(s.offset is None or not s.offset.affine for s in loads):
        return False
    windows = [s for s in loads if s in full]
    # without tests, loads with one stride each make better vectors than a few in one loop
    plain = not any(s.conditions for s in full)
    return bool(windows) and all(_shares_lines(program, s.offset, rows[-1], plain) for s in windows if s.offset)


def _shares_lines(program: ScalarProgram, e: Expr, row: Var, plain: bool) -> bool:
    """True if neighbouring windows have elements of one line of an array."""
    step, inner = e.coefficient(row), e.coefficient(program.reduced[-1])
    return 0 < step <= (1 if plain else _STEP) and 0 < inner < step * row.extent


def _after(program: ScalarProgram) -> set[Scalar]:
    """Results of reductions, and what is made of them."""
    found = {r.result for r in program.reductions}
    for s in program.scalars:
        if not found.isdisjoint(s.args):
            found.add(s)
    return found


def unroll_windows(program: ScalarProgram) -> ScalarProgram:
    """``program`` with statements, in their order, in place of the loops over what is reduced."""
    after, reduced = _after(program), set(program.reduced)
    scalars = [s for s in program.scalars if s not in after and not s.vars & reduced]
    elements: dict[Scalar, list[Scalar]] = {r.result: [] for r in program.reductions}
    stores = [Store(r.node, r.operand, ZERO) for r in program.reductions]
    parts = [ScalarProgram(program.scalars, [], stores, program.vars, [])]
    for v in program.reduced:
        parts = [restrict(p, v, k, k + 1, keep=False)[0] for p in parts for k in range(v.low, v.high + 1)]
    for part in parts:
        scalars += part.scalars
        for r, store in zip(program.reductions, part.stores, strict=True):
            elements[r.result].append(store.value)
    made: dict[Scalar, Scalar] = {}
    for s in program.scalars:
        if s in elements:
            states = _states(s, elements[s])
            scalars += states
            made[s] = states[-1]
        elif s in after:
            args = tuple(made.get(a, a) for a in s.args)
            made[s] = replace(s, args=args)
            scalars.append(made[s])
    results = [replace(t, value=made.get(t.value, t.value)) for t in program.stores]
    variables = [v for v in program.vars if v not in reduced]
    return ScalarProgram(list(dict.fromkeys(scalars)), [], results, variables, [])


def _states(result: Scalar, elements: list[Scalar]) -> list[Scalar]:
    """The states of a reduction as it takes ``elements`` in, the result last."""
    node = result.node
    assert node is not None
    if node.prim.name == "sum":  # which starts from +0
        elements = [Scalar("const", result.dtype, value=0), *elements]
    state = elements[0]
    states = [state]
    for e in elements[1:]:
        state = Scalar("compute", result.dtype, (state, e), node, vars=state.vars | e.vars)
        states.append(state)
    return states

# SPDX-License-Identifier: Apache-2.0
"""Unrolled windows on the CPU: small ones that overlap or reach over the border become straight-line statements.

Lanes are neighbouring windows. Where a window's elements are statements of one loop body rather than loops around it,
what holds for one of them alone, such as that it lies in the padding, is a condition on the position of the window:
loops are cut there (see :mod:`.loop_nests`), and the interior is free of tests. States stay in registers. The position
of the first of equal maxima is found by comparisons with the maximum, which make vectors.

This is the unrolling of any loops over what is reduced: a program in which they are statements, which the loop nests of map
kernels then cut and order as they do others. Why it decides for itself where it pays: with longer windows, or far apart,
states no longer fit registers, or lanes share no lines, and the walks of reductions (:mod:`.rows`) are faster.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....core.dtypes import DType, bool_, i32
from ...ir.dims import Dim
from ...ir.graph import Node
from ...ir.indexing import ZERO, Expr, Var, linearize, of_var
from ...ir.types import tensor_type
from ...primitives import builder
from ..index_set_splitting import restrict
from ..scalar import Scalar, ScalarProgram, Store

__all__ = ["unroll_windows", "wants_unrolled_windows"]

_WINDOW = 32  #: elements of a window, …
_STEP = 4  #: … distance of windows, …
_FEWEST = 4  #: … and their number along an axis, up to which and from which this pays
_MOST = 160  #: values of a window: each is a statement for every piece of a loop
_SEARCHED, _NARROW = (
    9,
    3,
)  #: elements, or else extents, of windows that positions of extrema are found in by comparisons
_EXTREMUM = {"argmax": "amax", "argmin": "amin"}


def wants_unrolled_windows(program: ScalarProgram, rows: list[Var]) -> bool:
    """True if all that is reduced are windows that slide over arrays, and only results of them are stored."""
    reduced = set(program.reduced)
    elements = prod(v.extent for v in reduced)
    if not rows or not reduced or type(elements) is Dim or elements > _WINDOW or rows[-1].extent < _FEWEST:
        return False
    searched = any(r.node.prim.name in _EXTREMUM for r in program.reductions)
    if any(r.node.prim.name not in ("sum", "amax", "amin", *_EXTREMUM) for r in program.reductions):
        return False
    if searched and (not _is_searched(program) or (elements > _SEARCHED and max(v.extent for v in reduced) > _NARROW)):
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
    plain = not searched and not any(s.conditions for s in full)
    return bool(windows) and all(_shares_lines(program, s.offset, rows[-1], plain) for s in windows if s.offset)


def _shares_lines(program: ScalarProgram, e: Expr, row: Var, plain: bool) -> bool:
    """True if neighbouring windows have elements of one line of an array."""
    step, inner = e.coefficient(row), e.coefficient(program.reduced[-1])
    return 0 < step <= (1 if plain else _STEP) and 0 < inner < step * row.extent


def _is_searched(program: ScalarProgram) -> bool:
    """True if positions are those in order, of windows that overlap: others' derivatives are one kernel with the maxima."""
    order = linearize([of_var(v) for v in program.reduced], [v.extent for v in program.reduced])
    if any(r.position != order for r in program.reductions if r.node.prim.name in _EXTREMUM):
        return False
    loads = [
        s.offset for s in program.scalars if s.op == "load" and s.offset is not None and s.vars & set(program.reduced)
    ]
    rows = [v for v in program.vars if v not in program.reduced]
    steps = [(e.coefficient(w), e.coefficient(v), v.extent) for e in loads for v in program.reduced for w in rows]
    return any(inner and step % inner == 0 and 0 < step < inner * extent for step, inner, extent in steps)


def _after(program: ScalarProgram) -> set[Scalar]:
    """Results of reductions, and what is made of them."""
    dependents = {r.result for r in program.reductions}
    for s in program.scalars:
        if not dependents.isdisjoint(s.args):
            dependents.add(s)
    return dependents


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
    replacements: dict[Scalar, Scalar] = {}
    maxima: dict[tuple[str, tuple[Scalar, ...]], list[Scalar]] = {}
    for s in program.scalars:
        if s in elements:
            assert s.node is not None
            operands = elements[s]
            kind = _EXTREMUM.get(s.node.prim.name, s.node.prim.name)
            key = (kind, tuple(operands))
            if key not in maxima:
                maxima[key] = _states(s.node if kind == s.node.prim.name else _node(kind, operands[0].dtype), operands)
            states = maxima[key]
            if kind != s.node.prim.name:
                states = [*states, *_positions(s.node.dtype, operands, states[-1])]
            scalars += states
            replacements[s] = states[-1]
        elif s in after:
            args = tuple(replacements.get(a, a) for a in s.args)
            replacements[s] = replace(s, args=args)
            scalars.append(replacements[s])
    results = [replace(t, value=replacements.get(t.value, t.value)) for t in program.stores]
    variables = [v for v in program.vars if v not in reduced]
    return ScalarProgram(list(dict.fromkeys(scalars)), [], results, variables, [])


def _states(node: Node, elements: list[Scalar]) -> list[Scalar]:
    """The states of the reduction ``node`` as it takes ``elements`` in, the result last."""
    if node.prim.name == "sum":  # which starts from +0
        elements = [Scalar("const", node.dtype, value=0), *elements]
    state = elements[0]
    states = [state]
    for e in elements[1:]:
        state = Scalar("compute", node.dtype, (state, e), node, vars=state.vars | e.vars)
        states.append(state)
    return states


def _positions(dtype: DType, elements: list[Scalar], extremum: Scalar) -> list[Scalar]:
    """The position of the first of ``elements`` that is the ``extremum``, a NaN before all others; the result last."""
    different, equal = (_node(kind, elements[0].dtype) for kind in ("ne", "eq"))
    numbers = [Scalar("const", i32, value=k) for k in range(len(elements))]
    scalars = [*numbers]
    at = numbers[-1]
    for number, e in reversed(list(zip(numbers[:-1], elements, strict=False))):
        # a choice after the other makes vectors, where one with two reasons makes branches
        for node, other in ((different, e), (equal, extremum)) if e.dtype.is_float else ((equal, extremum),):
            test = Scalar("compute", bool_, (e, other), node, vars=e.vars | other.vars)
            at = Scalar("compute", i32, (test, number, at), vars=test.vars | at.vars)
            scalars += [test, at]
    return [*scalars, Scalar("compute", dtype, (at,), _node("cast", i32, dtype), vars=at.vars)]


def _node(kind: str, dtype: DType, target: DType | None = None) -> Node:
    """An application of a primitive that stands for arithmetic which no operator asked for."""
    b = builder()
    x = b.input(tensor_type((2,), dtype))
    if target is not None:
        return b.cast(x, target)
    return b.reduce(kind, x, (0,)) if kind in _EXTREMUM.values() else getattr(b, kind)(x, x)

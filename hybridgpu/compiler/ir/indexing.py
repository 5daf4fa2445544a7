# SPDX-License-Identifier: Apache-2.0
"""Integer index expressions, and how views transform them.

An :class:`Expr` is a sum ``c0*a0 + c1*a1 + ... + const`` of atoms: loop variables, quotients and
remainders by constants, and values read at run time. Every atom knows its range, so quotients and
remainders vanish where they must: with ``0 <= j < 5``, ``(5*i + j) // 5`` is ``i``. That is all the
symbolic arithmetic that views of row-major tensors need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from ...core.dataclass import dataclass
from .computed import common_divisor
from .graph import Node

__all__ = [
    "ZERO",
    "Condition",
    "Expr",
    "IndirectIndex",
    "Var",
    "const",
    "delinearize",
    "divide",
    "linearize",
    "modulo",
    "substitute",
    "view_operands",
]


@dataclass(frozen=True, eq=False)
class Var:
    """A loop variable with values start … start + extent - 1. Compared by identity."""

    name: str
    extent: int
    start: int = 0

    @property
    def low(self) -> int:
        return self.start

    @property
    def high(self) -> int:
        return self.start + self.extent - 1

    @property
    def vars(self) -> frozenset[Var]:
        return frozenset((self,))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """``expr // by``, rounded down."""

    expr: Expr
    by: int

    @property
    def low(self) -> int:
        return self.expr.low // self.by

    @property
    def high(self) -> int:
        return self.expr.high // self.by

    @property
    def vars(self) -> frozenset[Var]:
        return self.expr.vars

    def __repr__(self) -> str:
        return f"({self.expr!r})//{self.by}"


@dataclass(frozen=True)
class Remainder:
    """``expr mod by``, never negative."""

    expr: Expr
    by: int
    low: int = 0

    @property
    def high(self) -> int:
        return self.by - 1

    @property
    def vars(self) -> frozenset[Var]:
        return self.expr.vars

    def __repr__(self) -> str:
        return f"({self.expr!r})%{self.by}"


@dataclass(frozen=True, eq=False)
class IndirectIndex:
    """An index read at run time: ``value`` is the scalar that holds it, within ``low`` … ``high``."""

    value: Any
    low: int
    high: int

    @property
    def vars(self) -> frozenset[Var]:
        return self.value.vars  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.value!r}>"


Atom = Var | Quotient | Remainder | IndirectIndex


@dataclass(frozen=True)
class Expr:
    """``sum(coefficient * atom) + const``; make it with the functions below, not directly."""

    terms: tuple[tuple[Atom, int], ...]
    const: int = 0

    @cached_property
    def low(self) -> int:
        return self.const + sum(c * (a.low if c > 0 else a.high) for a, c in self.terms)

    @cached_property
    def high(self) -> int:
        return self.const + sum(c * (a.high if c > 0 else a.low) for a, c in self.terms)

    @cached_property
    def vars(self) -> frozenset[Var]:
        """Every loop variable in it, however deep."""
        return frozenset[Var]().union(*(atom.vars for atom, _ in self.terms))

    @property
    def affine(self) -> bool:
        """True if it is a sum of loop variables only."""
        return all(isinstance(a, Var) for a, _ in self.terms)

    def coefficient(self, var: Var) -> int:
        """The factor of ``var`` at the top level (0 where it is absent)."""
        return next((c for a, c in self.terms if a is var), 0)

    def __add__(self, other: Expr | int) -> Expr:
        if isinstance(other, int):
            return Expr(self.terms, self.const + other) if other else self
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        merged: dict[Atom, int] = dict(self.terms)
        for atom, c in other.terms:
            merged[atom] = merged.get(atom, 0) + c
        return _normal(merged, self.const + other.const)

    def __mul__(self, factor: int) -> Expr:
        if factor == 0:
            return ZERO
        return Expr(tuple((a, c * factor) for a, c in self.terms), self.const * factor)

    def __repr__(self) -> str:
        parts = [f"{a!r}" if c == 1 else f"{c}*{a!r}" for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


ZERO = Expr(())


def const(value: int) -> Expr:
    return Expr((), value)


def of_var(var: Var) -> Expr:
    """The variable as an expression; a variable with one value is 0."""
    return Expr(((var, 1),)) if var.extent > 1 else ZERO


def _normal(terms: dict[Atom, int], constant: int) -> Expr:
    """Drop zeros and put ``k*by*(e // by) + k*(e mod by)`` together as ``k*e``."""
    remainders = [a for a in terms if isinstance(a, Remainder) and terms[a]]
    for r in remainders:
        q = Quotient(r.expr, r.by)
        c = terms.get(r, 0)
        if c and terms.get(q, 0) == c * r.by:
            rest = {a: k for a, k in terms.items() if a not in (q, r)}
            return Expr(tuple((a, k) for a, k in rest.items() if k), constant) + r.expr * c
    return Expr(tuple((a, c) for a, c in terms.items() if c), constant)


def _separate(e: Expr, by: int) -> tuple[int, Expr, Expr] | None:
    """``e`` as ``g * high + low`` with ``g > 1`` a divisor of ``by`` and ``0 <= low < g``, if there is one.

    Then ``e // by`` is ``high // (by // g)``: the low part never carries.
    """
    for g in sorted({common_divisor(by, c) for _, c in e.terms}, reverse=True):
        if g == 1:
            break
        low = Expr(tuple((a, c) for a, c in e.terms if c % g), e.const % g)
        if low.low >= 0 and low.high < g:
            high = Expr(tuple((a, c // g) for a, c in e.terms if c % g == 0), e.const // g)
            return g, high, low
    return None


def divide(e: Expr, by: int) -> Expr:
    """``e // by`` rounded down, simplified."""
    if by == 1:
        return e
    whole = Expr(tuple((a, c // by) for a, c in e.terms if c % by == 0), e.const // by)
    rest = Expr(tuple((a, c) for a, c in e.terms if c % by), e.const % by)
    if rest.low // by == rest.high // by:
        return whole + rest.low // by
    parts = _separate(rest, by)
    if parts:
        common, high, _ = parts
        return whole + divide(high, by // common)
    if len(rest.terms) == 1 and rest.const == 0 and rest.terms[0][1] == 1:
        atom = rest.terms[0][0]
        if isinstance(atom, Quotient):
            return whole + divide(atom.expr, by * atom.by)
        if isinstance(atom, Remainder) and atom.by % by == 0:
            # (e mod ab) // b = (e // b) mod a
            return whole + modulo(divide(atom.expr, by), atom.by // by)
    rest, lifted = _lifted(rest, by)
    return whole + Expr(((Quotient(rest, by), 1),)) + -lifted


def modulo(e: Expr, by: int) -> Expr:
    """``e mod by``, never negative, simplified."""
    if by == 1:
        return ZERO
    rest = Expr(tuple((a, c) for a, c in e.terms if c % by), e.const % by)
    if rest.low // by == rest.high // by:
        return rest + -(rest.low // by * by)
    parts = _separate(rest, by)
    if parts:
        common, high, low = parts
        return modulo(high, by // common) * common + low
    if len(rest.terms) == 1 and rest.const == 0 and rest.terms[0][1] == 1:
        atom = rest.terms[0][0]
        if isinstance(atom, Remainder) and atom.by % by == 0:
            return modulo(atom.expr, by)
    return Expr(((Remainder(_lifted(rest, by)[0], by), 1),))


def _lifted(e: Expr, by: int) -> tuple[Expr, int]:
    """``e`` plus the least multiple of ``by`` that makes it non-negative, and that multiple over ``by``.

    C rounds quotients towards zero: what is divided in a kernel must not be negative.
    """
    lifted = max(0, -(e.low // by))
    return e + lifted * by, lifted


def linearize(index: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major position of ``index`` in a tensor of ``shape``."""
    offset, step = ZERO, 1
    for e, extent in zip(reversed(index), reversed(shape), strict=True):
        offset = offset + e * step
        step *= extent
    return offset


def delinearize(offset: Expr, shape: Sequence[int]) -> tuple[Expr, ...]:
    """The index of row-major position ``offset`` in a tensor of ``shape``.

    A position outside the tensor (which conditions keep from being read) is outside along the first axis: nothing is
    wrapped there.
    """
    index: list[Expr] = []
    step, first = prod(shape), True
    for extent in shape:
        if extent == 1:
            index.append(ZERO)
            continue
        step //= extent
        index.append(divide(offset, step) if first else modulo(divide(offset, step), extent))
        first = False
    return tuple(index)


def substitute(e: Expr, table: dict[Var, Expr], opaque: Callable[[IndirectIndex], Expr] | None = None) -> Expr:
    """``e`` with variables (and, by ``opaque``, run-time values) replaced, simplified again."""
    out = const(e.const)
    for atom, c in e.terms:
        if isinstance(atom, Var):
            new = table.get(atom)
            out = out + (Expr(((atom, 1),)) if new is None else new) * c
        elif isinstance(atom, Quotient):
            out = out + divide(substitute(atom.expr, table, opaque), atom.by) * c
        elif isinstance(atom, Remainder):
            out = out + modulo(substitute(atom.expr, table, opaque), atom.by) * c
        else:
            out = out + (opaque(atom) if opaque else Expr(((atom, 1),))) * c
    return out


class Condition(NamedTuple):
    """``0 <= expr < bound``; parts that always hold are not written."""

    expr: Expr
    bound: int

    @property
    def always(self) -> bool:
        return self.expr.low >= 0 and self.expr.high < self.bound

    @property
    def never(self) -> bool:
        return self.expr.high < 0 or self.expr.low >= self.bound

    def simplified(self) -> Condition:
        """The same condition with as few terms as it takes: on a position, not a quotient, and on its high part alone."""
        expr, bound = self
        while True:
            atom, factor = expr.terms[0] if len(expr.terms) == 1 else (None, 0)
            parts = _separate(expr, bound) if len(expr.terms) > 1 else None
            if isinstance(atom, Quotient) and factor == 1:
                expr, bound = atom.expr + expr.const * atom.by, bound * atom.by
            elif parts and parts[1].terms and parts[2].terms:
                common, expr, _ = parts
                bound //= common
            else:
                return Condition(expr, bound)


Index = tuple[Expr, ...]


@dataclass(frozen=True)
class Operand:
    """An element that a view reads for one index: an operand at an index, where the conditions hold."""

    node: Node
    index: Index
    conditions: tuple[Condition, ...] = ()


def view_operands(view: Node, index: Index) -> list[Operand]:
    """The operands of ``view`` at ``index``: one, or for concat one per part that can be reached.

    A pad's operand carries the conditions inside which it is read; outside is the pad value.
    """
    x = view.inputs[0]
    name, params = view.prim.name, view.params
    if name == "reshape":
        return [Operand(x, reshaped(index, view.shape, x.shape))]
    if name == "round_to":
        return [Operand(x, index)]
    if name == "broadcast":
        return [Operand(x, tuple(ZERO if d == 1 else e for e, d in zip(index, x.shape, strict=True)))]
    if name == "transpose":
        source: list[Expr] = [ZERO] * x.ndim
        for e, p in zip(index, params["perm"], strict=True):
            source[p] = e
        return [Operand(x, tuple(source))]
    if name == "slice":
        return [Operand(x, tuple(e * s + b for e, b, s in zip(index, params["begin"], params["step"], strict=True)))]
    if name == "reverse":
        flipped = tuple(
            e * -1 + (d - 1) if k in params["axes"] else e for k, (e, d) in enumerate(zip(index, x.shape, strict=True))
        )
        return [Operand(x, flipped)]
    if name == "pad":
        moved = tuple(e + -lo for e, lo in zip(index, params["low"], strict=True))
        inside = tuple(
            c.simplified() for c in (Condition(e, d) for e, d in zip(moved, x.shape, strict=True)) if not c.always
        )
        return [Operand(x, moved, inside)]
    if name == "unfold":
        n = len(params["extent"])
        steps = zip(index[:n], index[len(index) - n :], params["stride"], params["dilate"], strict=True)
        moved = tuple(t * stride + k * dilate for k, t, stride, dilate in steps)
        return [Operand(x, (*index[: len(index) - n], *moved))]
    if name == "fold":
        return [_fold_operand(view, index)]
    if name == "concat":
        axis, parts, at = params["axis"], [], 0
        for part in view.inputs:
            e = index[axis] + -at
            at += part.shape[axis]
            condition = Condition(e, part.shape[axis])
            if not condition.never and part.size:
                where = () if condition.always else (condition.simplified(),)
                parts.append(Operand(part, (*index[:axis], e, *index[axis + 1 :]), where))
        return parts
    raise AssertionError(f"{name} is no view")


def _fold_operand(view: Node, index: Index) -> Operand:
    """The window position that element ``index`` of an ``fold`` belongs to, where there is one."""
    x, params = view.inputs[0], view.params
    n = len(params["extent"])
    lead = view.ndim - n
    positions: list[Expr] = []
    conditions: list[Condition] = []
    for k, s, extent, stride, dilate in zip(
        index[:n], index[lead:], x.shape[lead:], params["stride"], params["dilate"], strict=True
    ):
        offset = s + k * -dilate
        position = divide(offset, stride)
        positions.append(position)
        conditions += [Condition(modulo(offset, stride), 1), Condition(position, extent)]
    return Operand(x, (*index[:lead], *positions), tuple(c for c in conditions if not c.always))


def reshaped(index: Index, shape: tuple[int, ...], target: tuple[int, ...]) -> Index:
    """The index in ``target`` of the element at ``index`` in ``shape``.

    Extents that both shapes share at either end keep their expressions: only the middle is taken
    apart, which also keeps indices that were read at run time out of divisions.
    """
    left = 0
    while left < min(len(shape), len(target)) and shape[left] == target[left]:
        left += 1
    right = 0
    while right < min(len(shape), len(target)) - left and shape[-1 - right] == target[-1 - right]:
        right += 1
    middle = delinearize(
        linearize(index[left : len(shape) - right], shape[left : len(shape) - right]),
        target[left : len(target) - right],
    )
    return (*index[:left], *middle, *index[len(shape) - right :])


def all_vars(index: Iterable[Expr]) -> frozenset[Var]:
    """The loop variables of several expressions."""
    variables: frozenset[Var] = frozenset()
    for e in index:
        variables |= e.vars
    return variables

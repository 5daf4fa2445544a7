# SPDX-License-Identifier: Apache-2.0
"""Templates: plans made for dimensions, from which those for other extents are built without planning.

Planning takes the dimensions of a signature for what they are, numbers that change (ir/dims.py). The result has them in it,
and the guards say which extents it holds for. So a further size costs as much as checking these, and computing the numbers
and texts that depend on the dimensions; everything else is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from math import prod
from typing import Any

from .ir.dims import LEAST, MARK, OPERATIONS, Constant, Dim, Form, Scope

__all__ = ["Template", "at_own_extents"]

Values = list[Any]  #: of each atom
Instantiator = Callable[[Values], Any]  #: builds a value with dimensions in it, from those of the atoms


class Template:
    """Something planned, nested records and containers, with what it depends on.

    Args:
        scope: in which it was planned.
        planned: with Dims of that scope in it, and marks in its texts.
    """

    def __init__(self, scope: Scope, planned: Any) -> None:
        self._atoms = [(_operation(kind), kind, list(map(_of_operand, operands))) for kind, *operands in scope.atoms]
        self._guards = [
            (max(map(_last_atom, operands)), OPERATIONS[kind], [_of_operand(x) for x in operands], outcome)
            for (kind, *operands), outcome in scope.guards.items()
        ]
        self._make = _instantiator(planned, {n: form for form, n in scope.marked.items()})

    def _holds(self, values: Values, extents: Sequence[int]) -> bool:
        """Whether every decision comes out the same; ``values`` of atoms are added as they are wanted."""
        for last, compute, operands, outcome in self._guards:
            if last >= len(values):
                self._add(values, extents, last + 1)
            if compute(*(x(values) for x in operands)) != outcome:
                return False
        return True

    def _add(self, values: Values, extents: Sequence[int], count: int) -> None:
        """Compute the values of the first ``count`` atoms."""
        for compute, kind, operands in self._atoms[len(values) : count]:
            if kind == "dimension":
                values.append(extents[operands[0](values)])
            else:
                values.append(compute(*(x(values) for x in operands)))

    def at(self, extents: Sequence[int]) -> Any:
        """The same for other extents; None if it would have been planned in another way for them."""
        values: Values = []
        try:
            if min(extents) < LEAST or not self._holds(values, extents):
                return None
            return self._filled(values, extents)
        except (ArithmeticError, ValueError):  # it would have been planned of these extents alone
            return None

    def _filled(self, values: Values, extents: Sequence[int]) -> Any:
        self._add(values, extents, len(self._atoms))
        return self._make(values)


def at_own_extents(scope: Scope, planned: Any) -> Any:
    """The plan as plain values: those of the signature that it was planned for."""
    return Template(scope, planned)._filled([], [extent for extent, _ in scope.dimensions])


def _operation(kind: str) -> Any:
    return None if kind == "dimension" else OPERATIONS[kind]


def _of_operand(x: Any) -> Instantiator:
    if type(x) is Constant:
        return lambda values: x.value
    return of_form(x) if type(x) is tuple else lambda values: x


def _last_atom(operand: Any) -> int:
    """The last atom of a form; -1 of anything else."""
    return max((a for atoms, _ in operand for a in atoms), default=-1) if type(operand) is tuple else -1


def of_form(form: Form) -> Instantiator:
    """The function that computes a form from the atoms' values."""
    if len(form) == 1:
        atoms, factor = form[0]
        if len(atoms) == 1:
            (atom,) = atoms
            return (lambda values: values[atom]) if factor == 1 else lambda values: values[atom] * factor
    return lambda values: sum(prod([values[a] for a in atoms]) * c for atoms, c in form)


def _instantiator(x: Any, marks: dict[int, Form]) -> Instantiator:
    dynamic = _dynamic_instantiator(x, marks)
    return dynamic if dynamic is not None else lambda values: x


def _dynamic_instantiator(x: Any, marks: dict[int, Form]) -> Instantiator | None:
    """The function that builds ``x`` from the atoms' values; None if it has no dimension in it."""
    cls = type(x)
    if cls is str:
        return _text(x, marks) if "\x02" in x else None
    if issubclass(cls, Dim):
        return of_form(x.form)
    if cls in (list, tuple) or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        parts = [_dynamic_instantiator(y, marks) for y in x]
        if not any(parts):
            return None
        items = list(zip(x, parts, strict=True))
        if cls is list:
            return lambda values: [y if p is None else p(values) for y, p in items]
        build = tuple if cls is tuple else cls._make
        return lambda values: build([y if p is None else p(values) for y, p in items])
    if cls is dict:
        keys, elements = _dynamic_instantiator(list(x), marks), _dynamic_instantiator(list(x.values()), marks)
        if keys is None and elements is None:
            return None
        names, whole = list(x), list(x.values())
        return lambda values: dict(
            zip(names if keys is None else keys(values), whole if elements is None else elements(values), strict=True)
        )
    if is_dataclass(cls) and "__dict__" in dir(cls):
        named = [(f.name, getattr(x, f.name)) for f in fields(cls)]
        changing = [(name, p) for name, y in named if (p := _dynamic_instantiator(y, marks)) is not None]
        return _record(x, changing) if changing else None
    return None


def _record(x: Any, changing: list[tuple[str, Instantiator]]) -> Instantiator:
    def make(values: Values) -> Any:
        record = object.__new__(type(x))
        record.__dict__.update(x.__dict__)
        for name, build in changing:
            record.__dict__[name] = build(values)
        return record

    return make


def _text(text: str, marks: dict[int, Form]) -> Instantiator:
    pieces = MARK.split(text)
    forms = [of_form(marks[int(n)]) for n in pieces[2::4]]
    specs = pieces[3::4]
    del pieces[3::4], pieces[2::3]

    def make(values: Values) -> str:
        rendered = list(pieces)
        rendered[1::2] = [format(f(values), s) if s else repr(f(values)) for f, s in zip(forms, specs, strict=True)]
        return "".join(rendered)

    return make

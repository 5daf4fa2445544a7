# SPDX-License-Identifier: Apache-2.0
"""Functions of dimensions: what they give is computed anew for every size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from math import gcd
from typing import Any, TypeVar

from .dims import Constant, Dim, Form, Scope, form_of, nominal, symbolic

__all__ = ["common_divisor", "computed", "fits_into"]

T = TypeVar("T")


def common_divisor(x: int, y: int) -> int:
    """``gcd(x, y)``, of dimensions a divisor of both at every size."""
    if type(x) is not Dim and type(y) is not Dim:
        return gcd(x, y)
    scope = x.scope if type(x) is Dim else y.scope  # type: ignore[attr-defined]
    terms = (*form_of(x), *form_of(y))
    atoms = list(terms[0][0]) if terms else []
    for others, _ in terms[1:]:
        shared = Counter(atoms) & Counter(others)
        atoms = sorted(shared.elements())
    divisor = scope.of_form(((tuple(atoms), gcd(*(c for _, c in terms))),))
    return divisor  # type: ignore[no-any-return]


def fits_into(size: int, room: int) -> bool:
    """Whether ``size <= room``. A guard only where it is so: what finds no room goes elsewhere, and may at every size."""
    values = [x.value if type(x) is Dim else x for x in (size, room)]
    return values[0] <= values[1] and size <= room


def computed(function: Callable[..., T]) -> Callable[..., T]:
    """A function of numbers, as an operation: what it makes of Dims, also in nested tuples, is computed anew for every size.

    It decides nothing by the size that its results do not say. These are a number, or numbers in lists and tuples.
    """

    @wraps(function)
    def compute(*args: Any) -> Any:
        dims: list[Dim] = []
        structure = Constant(_taken_out(args, dims) if symbolic[0] else None)
        if not dims:
            return function(*args)
        scope = dims[0].scope

        def filled(_: Any, *values: Any) -> Any:
            return function(*_filled(structure.value, values))

        value = filled(None, *(d.value for d in dims))
        try:
            at_first = filled(None, *map(nominal, dims))
        except (ArithmeticError, ValueError):  # the nominal extents may not allow it: the present ones decide
            return filled(None, *(d._plain() for d in dims))
        interned = scope.functions.setdefault((function, structure, tuple(x.form for x in dims)), filled)
        return _results(scope, scope.atom("call", (interned, *(x.form for x in dims))), value, at_first)

    return compute


class _Slot:
    """The place of a Dim in arguments."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:  # to no tuple, nor to a number
        return type(other) is _Slot and other.number == self.number

    def __hash__(self) -> int:
        return hash((_Slot, self.number))


def _taken_out(x: Any, dims: list[Dim]) -> Any:
    if type(x) is Dim:
        dims.append(x)
        return _Slot(len(dims) - 1)
    return tuple(_taken_out(y, dims) for y in x) if type(x) in (tuple, list) else x


def _filled(x: Any, values: Sequence[Any]) -> Any:
    if type(x) is _Slot:
        return values[x.number]
    return tuple(_filled(y, values) for y in x) if type(x) is tuple else x


def _results(scope: Scope, form: Form, value: Any, at_first: Any) -> Any:
    """Dims for the numbers of a result."""
    if isinstance(value, (list, tuple)):
        return type(value)(
            _results(scope, scope.atom("item", (form, k)), x, y)
            for k, (x, y) in enumerate(zip(value, at_first, strict=True))
        )
    return Dim(scope, form, value, at_first)

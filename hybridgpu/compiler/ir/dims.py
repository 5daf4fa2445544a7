# SPDX-License-Identifier: Apache-2.0
"""Symbolic dimensions: extents that change from call to call, such as the batch's.

A dimension is known once a second signature differs from the first one in it. It is an int, the extent of this
signature, that knows a *nominal* extent as well, mostly that of the first one (size_buckets.py). Arithmetic is done on
both, so that whatever follows from a dimension, the number of elements of a reshape or the stride of an axis, is one, too: no
operator needs a rule for it. What sizes decide is asked of the nominal extent (:func:`nominal`), so that a further
size has the kernels of the first, whose loops take their extents as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, TypeVar

from ...core.fork_safe_lock import Lock

__all__ = ["Dim", "cached_by_extents", "nominal", "nominal_shape", "symbolic", "symbolic_dims"]

T = TypeVar("T")
symbolic = [0]  #: how many graphs with dimensions are being compiled, by any thread
_counting = Lock()


@contextmanager
def symbolic_dims() -> Iterator[None]:
    """Shapes of types may have dimensions within; elsewhere nothing looks for them."""
    with _counting:
        symbolic[0] += 1
    try:
        yield
    finally:
        with _counting:
            symbolic[0] -= 1


class Dim(int):
    """An extent that other calls have otherwise, or a number that follows from such.

    Attributes:
        nominal: what it is at the nominal extent.
    """

    nominal: int

    def __new__(cls, value: int, at_first: int) -> Dim:
        made = super().__new__(cls, value)
        made.nominal = at_first
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return Dim, (int(self), self.nominal)

    def __repr__(self) -> str:
        return int.__repr__(self)

    __str__ = __repr__


def nominal(number: int) -> int:
    """The number as it decides: a dimension's is its nominal extent."""
    return number.nominal if type(number) is Dim else number


def nominal_shape(shape: Sequence[int]) -> tuple[int, ...] | None:
    """A shape as it decides; None if there is no dimension in it."""
    for extent in shape:
        if type(extent) is Dim:
            return tuple(map(nominal, shape))
    return None


def _lifted(name: str) -> Callable[..., Any]:
    """The method ``name`` of int, done on both numbers; what is the same at both is none that changes."""
    plain = getattr(int, name)

    def method(self: Dim, *others: Any) -> Any:
        value = plain(self, *others)
        if type(value) is not int:  # NotImplemented: a float is no extent
            return value
        try:
            first = plain(self.nominal, *(o.nominal if type(o) is Dim else o for o in others))
        except ZeroDivisionError:  # a common divisor of this extent alone: nobody has asked this of the first one
            return value
        return value if first == value else Dim(value, first)

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "floordiv"):
    for _side in ("", "r"):
        setattr(Dim, f"__{_side}{_name}__", _lifted(f"__{_side}{_name}__"))
for _name in ("__neg__", "__abs__"):
    setattr(Dim, _name, _lifted(_name))


def cached_by_extents(maxsize: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """As ``lru_cache``; but dimensions, which equal other ints, have results of their own."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @lru_cache(maxsize)
        def found(nominals: tuple[Any, ...], *args: Any) -> T:
            return function(*args)

        @wraps(function)
        def cached(*args: Any) -> T:
            return found(_nominals(args) if symbolic[0] else (), *args)

        return cached

    return decorate


def _nominals(x: Any) -> Any:
    """The nominal extents in nested tuples and records, by which these differ from others that are equal."""
    if type(x) is Dim:
        return x.nominal
    if isinstance(x, tuple):
        return tuple(map(_nominals, x))
    return tuple(map(_nominals, vars(x).values())) if hasattr(x, "__dict__") else None

# SPDX-License-Identifier: Apache-2.0
"""Dynamic constants: numbers that kernels take as arguments, so that what differs in them alone has one text.

Most follow from an extent and know it: its reciprocal, itself as a float, the last index of an axis. Means over the batch, or
over other axes before the last one, multiply by such a share; a sequence ends at the last step at the latest. The others number
the random draws of a graph, which a net has in every layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.dtypes import DType
from .dims import Dim, derived

if TYPE_CHECKING:
    from typing_extensions import Self  # which checkers know without the package; in typing from Python 3.11 on

__all__ = [
    "DrawNumber",
    "DynamicFloat",
    "LastIndex",
    "Reciprocal",
    "argument_kind",
    "float_of_extent",
    "last_index",
    "reciprocal",
    "value_bits",
]


class DynamicFloat(float):
    """A number of elements as a float, rounded as a constant of some element type is.

    Attributes:
        count: the number of elements.
    """

    __slots__ = ("count",)
    count: int

    def __new__(cls, count: int, value: float | None = None) -> Self:
        number = super().__new__(cls, cls.function(count) if value is None else value)
        number.count = count
        return number

    @staticmethod
    def function(count: int) -> float:
        """The number that follows from the count."""
        return float(count)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.count, float(self)

    def rounded(self, value: float, dtype: DType) -> float:
        """This number as a constant of ``dtype``, whose elements hold it as ``value``."""
        return type(self)(self.count, value) if dtype.short in ("f32", "f64") else value


class Reciprocal(DynamicFloat):
    """``1 / count``."""

    __slots__ = ()

    @staticmethod
    def function(count: int) -> float:
        return 1.0 / count


class _DimFloat(Dim):
    """The DynamicFloat of a dimension.

    Attributes:
        kind: its class.
    """

    __slots__ = ("count", "kind")
    count: int
    kind: type[DynamicFloat]

    def __new__(cls, kind: type[DynamicFloat], count: int, value: Any) -> _DimFloat:
        number: Any = super().__new__(cls, value.scope, value.form, value.value, value.nominal)
        number.kind, number.count = kind, count
        return number  # type: ignore[no-any-return]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # type: ignore[override]
        return self.kind

    def rounded(self, dtype: DType) -> float:
        """This number as a constant of ``dtype``."""
        return _DimFloat(self.kind, self.count, derived("rounded", self, dtype.short))


class LastIndex(int):
    """The last place along an axis that may be that of time."""

    @property
    def count(self) -> int:
        """The extent of the axis."""
        return self + 1


class DrawNumber(int):
    """The number of a random draw among those of its graph: that of its stream."""


def argument_kind(value: object) -> object:
    """The kind of a number that kernels may take as an argument, which tells it from an equal literal; None of a literal,
    and of a dimension, whose text tells it."""
    if type(value) is Dim:
        return None
    return DrawNumber if isinstance(value, DrawNumber) else getattr(value, "count", None)


def value_bits(value: float, dtype: DType) -> int:
    """The bits of a constant of ``dtype``, as a whole number."""
    return derived("bits", value, dtype.short)  # type: ignore[no-any-return]


def last_index(position: int) -> int:
    """The last place along an axis; a dimension's is known to change as it is."""
    return position if type(position) is Dim else LastIndex(position)


def float_of_extent(extent: int) -> float:
    """A dimension as a float."""
    return _DimFloat(DynamicFloat, extent, derived("mul", 1.0, extent))


def reciprocal(count: int, outer: bool) -> float:
    """``1 / count``, NaN of no elements; ``outer``: an axis is counted that may be the batch's or that of time.

    That of a dimension (dims.py) is an argument whatever axis it is of.
    """
    if not count:
        return float("nan")
    if type(count) is Dim and count > 1:
        return _DimFloat(Reciprocal, count, derived("truediv", 1.0, count))
    return Reciprocal(count) if outer and count > 1 else 1.0 / count

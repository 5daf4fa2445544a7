# SPDX-License-Identifier: Apache-2.0
"""Dynamic constants: numbers that follow from an extent and know it: its reciprocal, itself as a float, the last index of an axis.

Means over the batch, or over other axes before the last one, multiply by such a share; a sequence ends at the last step at
the latest. Kernels take the number as an argument, so that their text is the same for every batch size and every number of
steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.dtypes import DType
from .dims import Dim

if TYPE_CHECKING:
    from typing_extensions import Self  # which checkers know without the package; in typing from Python 3.11 on

__all__ = ["DynamicFloat", "LastIndex", "Reciprocal", "float_of_extent", "reciprocal"]


class DynamicFloat(float):
    """A number of elements as a float, rounded as a constant of some element type is.

    Attributes:
        count: the number of elements.
    """

    __slots__ = ("count",)
    count: int

    def __new__(cls, count: int, value: float | None = None) -> Self:
        made = super().__new__(cls, cls.function(count) if value is None else value)
        made.count = count
        return made

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


class LastIndex(int):
    """The last place along an axis that may be that of time."""

    @property
    def count(self) -> int:
        """The extent of the axis."""
        return self + 1


def float_of_extent(value: Any) -> Any:
    """A dimension as a dynamic constant, any other number as it is."""
    return DynamicFloat(value) if type(value) is Dim else value


def reciprocal(count: int, outer: bool) -> float:
    """``1 / count``, NaN of no elements; ``outer``: an axis is counted that may be the batch's or that of time.

    That of a dimension (dims.py) is an argument whatever axis it is of.
    """
    if not count:
        return float("nan")
    return Reciprocal(count) if (outer or type(count) is Dim) and count > 1 else 1.0 / count

# SPDX-License-Identifier: Apache-2.0
"""Dynamic constants: numbers that follow from an extent and know it, its reciprocal and the last index along an axis.

Means over the batch, or over other axes before the last one, multiply by such a share; a sequence ends at the last step at
the latest. Kernels take the number as an argument, so that their text is the same for every batch size and every number of
steps.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import DType

__all__ = ["LastIndex", "Reciprocal", "reciprocal"]


class Reciprocal(float):
    """``1 / count``, rounded as a constant of some element type is.

    Attributes:
        count: the number of elements.
    """

    __slots__ = ("count",)
    count: int

    def __new__(cls, count: int, value: float | None = None) -> Reciprocal:
        made = super().__new__(cls, 1.0 / count if value is None else value)
        made.count = count
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.count, float(self)

    def rounded(self, value: float, dtype: DType) -> float:
        """This share as a constant of ``dtype``, whose elements hold it as ``value``."""
        return Reciprocal(self.count, value) if dtype.short in ("f32", "f64") else value


class LastIndex(int):
    """The last place along an axis that may be that of time."""

    @property
    def count(self) -> int:
        """The extent of the axis."""
        return self + 1


def reciprocal(count: int, outer: bool) -> float:
    """``1 / count``, NaN of no elements; ``outer``: an axis is counted that may be the batch's or that of time."""
    if not count:
        return float("nan")
    return Reciprocal(count) if outer and count > 1 else 1.0 / count

# SPDX-License-Identifier: Apache-2.0
"""Traced arrays of unknown shape: it depends on values, or a parameter waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..symbol import Symbol
from .error import not_traced

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["Open", "unknown_class"]


class Open:
    """In the place of the data of a parameter that waits for its shape."""

    def __init__(self, trace: Trace, parameter: Any) -> None:
        self.trace, self.parameter = trace, parameter

    def check(self) -> None:
        self.symbol()

    def symbol(self) -> Symbol:
        raise not_traced(
            f"the shape of parameter {self.parameter.name} is not known yet",
            "Give its shape where it is made, or define infer_shape(self, x) in the block, which sets it.",
        )


_unknown: dict[type, type] = {}


def unknown_class(kind: type) -> type:
    """The class of arrays whose shape depends on values."""
    cls = _unknown.get(kind)
    if cls is None:
        cls = _unknown[kind] = type(f"{kind.__name__}OfUnknownShape", (kind,), {"__slots__": (), **_UNKNOWN})
    return cls


def _depends(name: str) -> property:
    def read(self: Any) -> Any:
        raise not_traced(
            f"{name} of this array depends on values, which are not known while a function is traced",
            "Operators take it as it is; what depends on its extents is computed outside of the function. A mask as a factor, or "
            "in where(mask, x, y), keeps the shape.",
        )

    return property(read)


_UNKNOWN: dict[str, Any] = {n: _depends(n) for n in ("shape", "size", "ndim", "dtype")}
_UNKNOWN["__repr__"] = _UNKNOWN["__str__"] = lambda self: "<traced array, whose shape depends on values>"
_UNKNOWN["context"] = _UNKNOWN["ctx"] = property(lambda self: self._data.trace.ctx)

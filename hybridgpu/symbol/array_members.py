# SPDX-License-Identifier: Apache-2.0
"""Members that arrays have and Symbols refuse: MXNet's errors, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..base import NotImplementedForSymbol
from ..core.source_location import located_hint

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["ROWS_HINT", "array_only", "refuse_in_place"]


def array_only(name: str, instead: str) -> Any:
    def method(self: Symbol, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedForSymbol(name, advice=located_hint(instead))

    method.__name__ = name
    method.__doc__ = f"Arrays only: raises NotImplementedForSymbol. {instead}"
    return method


def refuse_in_place(name: str, symbol: str, with_integer: bool, binary: str) -> Callable[[Any, Any], NoReturn]:
    def method(self: Symbol, other: Any) -> NoReturn:
        shown = (other, 1) if with_integer else (other,)
        raise NotImplementedForSymbol(
            name, symbol, *shown, advice=located_hint(f"Write x = x {binary} y instead of x {symbol} y.")
        )

    return method


ROWS_HINT = "x[i] takes an output of a Symbol. Write F.slice, F.slice_axis, F.take or F.pick to index its values."

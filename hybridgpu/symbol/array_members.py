# SPDX-License-Identifier: Apache-2.0
"""What arrays have and Symbols refuse: MXNet's errors, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..base import NotImplementedForSymbol
from ..core.source_location import located_hint

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["INSTEAD", "ROWS_HINT", "array_only", "refuse_in_place"]


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
INSTEAD = {
    "shape": "Shapes are not known while tracing: use F.shape_array(x), reshape codes (0 keeps an extent, -1 infers one), or *_like operators.",
    "dtype": "Element types are not known while tracing: use F.cast, or *_like operators that follow an input.",
    "context": "Devices are not known while tracing: operators run where their inputs are.",
    "ctx": "Devices are not known while tracing: operators run where their inputs are.",
    "size": "Sizes are not known while tracing: use F.size_array(x).",
    "ndim": "The number of axes is not known while tracing: use reshape codes such as -2 (copy the rest).",
    "T": "Write F.transpose(x).",
    "grad": "Gradients belong to arrays: call attach_grad on the inputs before the block runs.",
    "attach_grad": "Gradients belong to arrays: call attach_grad on the inputs before the block runs.",
    "copyto": "Write F.identity(x).",
    "item": "Values are not known while tracing: keep them in the graph, or read them from the block's result.",
    "numpy": "Values are not known while tracing: use operators of F, or read the block's result.",
    "view": "Write F.reshape(x, shape=(...)).",
    "permute": "Write F.transpose(x, axes=(...)).",
    "unsqueeze": "Write F.expand_dims(x, axis=...).",
    "stype": "Storage is always dense here.",
    "tostype": "Storage is always dense here.",
}

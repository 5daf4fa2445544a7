# SPDX-License-Identifier: Apache-2.0
"""Nested arguments and results of blocks."""

from __future__ import annotations

from typing import Any

from .. import nested
from ..ndarray import NDArray
from ..nested import formats_agree, regroup
from ..symbol import Symbol

__all__ = ["flatten", "formats_agree", "regroup"]

#: what to write instead of what is neither array nor Symbol
_INSTEAD = {
    "input": "\nMake arrays of numbers and NumPy's arrays: nd.array(x).",
    "output": "\nReturn what operators of F give, or lists and tuples of it.",
}
_DICT = "\nReturn the values as a tuple, in an order that the caller knows."


def flatten(args: Any, what: str) -> tuple[list[Any], Any]:
    """(arrays or Symbols in order, format), see ``hybridgpu.nested``.

    Raises:
        ValueError: something that is neither, in MXNet's words with ``what`` ('input' or 'output'), and a way out.
    """

    def format_of(value: Any) -> int | None:
        if isinstance(value, Symbol):
            return len(value._heads) if len(value._heads) > 1 else 0
        if isinstance(value, NDArray):
            return 0
        if value is None:
            return -1
        if not isinstance(value, (list, tuple)):
            hint = _DICT if isinstance(value, dict) and what == "output" else _INSTEAD.get(what, "")
            raise ValueError(
                f"When hybridized, the input of HybridBlock {what} must be (nested) list of Symbol or NDArray, but got {value} of type {type(value)}{hint}"
            )
        return None

    return nested.flatten(args, format_of)

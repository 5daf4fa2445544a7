# SPDX-License-Identifier: Apache-2.0
"""Nested arguments and results: flattening and putting together again.

A format is 0 for an array, -1 for None, or a list of formats.
"""

from __future__ import annotations

from typing import Any

from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["flatten", "formats_agree", "regroup"]


def flatten(args: Any, what: str) -> tuple[list[Any], Any]:
    """(arrays or Symbols in order, format).

    Raises:
        ValueError: something that is neither, in MXNet's words with ``what`` ('input' or 'output').
    """
    if isinstance(args, (NDArray, Symbol)):
        if isinstance(args, Symbol) and len(args._heads) > 1:
            return [args], len(args._heads)
        return [args], 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise ValueError(
            f"When hybridized, the input of HybridBlock {what} must be (nested) list of Symbol or NDArray, but got {args} of type {type(args)}"
        )
    flat: list[Any] = []
    formats = []
    for a in args:
        part, form = flatten(a, what)
        flat += part
        formats.append(form)
    return flat, formats


def regroup(flat: list[Any], form: Any) -> Any:
    """The nested structure of ``form`` made of ``flat`` (which is used up); sequences become lists."""
    if isinstance(form, int):
        if form == 0:
            return flat.pop(0)
        if form == -1:
            flat.pop(0)
            return None
        return [flat.pop(0) for _ in range(form)]
    return [regroup(flat, f) for f in form]


def formats_agree(stored: Any, new: Any) -> bool:
    """True if a call of format ``new`` fits a graph traced with ``stored``: trailing Nones do not count."""
    if isinstance(stored, list) and isinstance(new, list):
        a, b = list(stored), list(new)
        while a and a[-1] == -1:
            a.pop()
        while b and b[-1] == -1:
            b.pop()
        return len(a) == len(b) and all(formats_agree(x, y) for x, y in zip(a, b, strict=True))
    return bool(stored == new)

# SPDX-License-Identifier: Apache-2.0
"""Nested lists of arguments and results: flattening, and putting together again.

A format is 0 for one value, the number of them for a value that stands for several, -1 for None, or a
list of formats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["count_values", "flatten", "formats_agree", "regroup"]


def flatten(args: Any, format_of: Callable[[Any], int | None]) -> tuple[list[Any], Any]:
    """(values in order, format).

    Args:
        format_of: the format of a value, None for a list or tuple that holds some; raises for anything else.
    """
    form = format_of(args)
    if form is not None:
        return [args], form
    flat: list[Any] = []
    formats = []
    for a in args:
        part, inner = flatten(a, format_of)
        flat += part
        formats.append(inner)
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


def count_values(form: Any) -> int:
    """How many values a format stands for.

    Raises:
        ValueError: it is none.
    """
    if isinstance(form, list):
        return sum(map(count_values, form))
    if not isinstance(form, int) or form < -1:
        raise ValueError(f"{str(form)[:50]} is no format of arguments")
    return {0: 1, -1: 0}.get(form, form)


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

# SPDX-License-Identifier: Apache-2.0
"""Nested arguments and results of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import nested
from ..ndarray import NDArray
from ..nested import formats_agree, regroup
from ..symbol import Symbol

__all__ = ["flatten", "formats_agree", "prepared_for", "regroup"]

Call = Callable[..., Any]


def flatten(args: Any, what: str) -> tuple[list[Any], Any]:
    """(arrays or Symbols in order, format), see ``hybridgpu.nested``.

    Raises:
        ValueError: something that is neither, in MXNet's words with ``what`` ('input' or 'output').
    """

    def format_of(value: Any) -> int | None:
        if isinstance(value, Symbol):
            return len(value._heads) if len(value._heads) > 1 else 0
        if isinstance(value, NDArray):
            return 0
        if value is None:
            return -1
        if not isinstance(value, (list, tuple)):
            raise ValueError(
                f"When hybridized, the input of HybridBlock {what} must be (nested) list of Symbol or NDArray, but got {value} of type {type(value)}"
            )
        return None

    return nested.flatten(args, format_of)


def prepared_for(form: list[Any], general: Call, prepare: Callable[[Call], Call | None]) -> Call | None:
    """A prepared call for arguments of format ``form``: arrays, lists of arrays, None; None where there is none.

    Args:
        general: function (arguments as a tuple) for any call.
        prepare: function (what takes a tuple of all arrays, for calls of another kind) -> a prepared call that takes
            these arrays one by one, or None.
    """
    if form == [0] * len(form):
        return prepare(general)
    if not all(f == 0 or f == -1 or (isinstance(f, list) and not any(f)) for f in form):
        return None
    lengths = [len(f) if isinstance(f, list) else f for f in form]
    lists = [isinstance(f, list) for f in form]
    count = len(form)

    def regrouped(flat: Sequence[Any]) -> Any:
        rest = iter(flat)
        return general(
            tuple(
                [next(rest) for _ in range(n)] if several else (None if n else next(rest))
                for several, n in zip(lists, lengths, strict=True)
            )
        )

    fast = prepare(regrouped)
    if fast is None:
        return None

    def call(*args: Any) -> Any:
        if len(args) != count:
            return general(args)
        flat: list[Any] = []
        for a, several, n in zip(args, lists, lengths):
            if several:
                if (a.__class__ is not list and a.__class__ is not tuple) or len(a) != n:
                    return general(args)
                flat += a
            elif n:
                if a is not None:
                    return general(args)
            else:
                flat.append(a)
        return fast(*flat)

    return call

# SPDX-License-Identifier: Apache-2.0
"""Lists among the arguments and results of prepared calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..nested import regroup

__all__ = ["Call", "finish_of", "is_plain", "prepared_for"]

Call = Callable[..., Any]


def is_plain(form: Any) -> bool:
    """Whether arguments of this format are arrays, lists of arrays, or None: others have no prepared calls."""
    return all(f == 0 or f == -1 or (isinstance(f, list) and not any(f)) for f in form)


def finish_of(form: Any) -> Callable[[list[Any]], Any] | None:
    """What makes a block's result of format ``form`` of the graph's; None for a single one."""
    if form == 0:
        return None
    if isinstance(form, int) or not any(form):
        return list
    return lambda results: regroup(results, form)


def prepared_for(form: Sequence[Any], general: Call, prepare: Callable[[Call], Call | None]) -> Call | None:
    """A prepared call for arguments of format ``form``: arrays, lists of arrays, None; None where there is none.

    Args:
        general: function (arguments as a tuple) for any call.
        prepare: function (what takes a tuple of all arrays, for calls of another kind) -> a prepared call that takes
            these arrays one by one, or None.
    """
    if not any(form):
        return prepare(general)
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

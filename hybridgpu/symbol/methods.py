# SPDX-License-Identifier: Apache-2.0
"""Symbol methods: the operators that arrays have as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import MXNetError
from ..misplaced import through_numpy
from ..ndarray.methods import method_operator
from ..ops import OPERATORS
from ..ops.functions import bind

__all__ = ["make_method"]

#: attributes that the method gives even where the program does not
_GIVEN: dict[str, dict[str, Any]] = {"squeeze": {"axis": None}, "diag": {"k": 0}}
_ONLY_SYMBOL = {"reshape": "Reshape", "broadcast_to": "broadcast_to", "astype": "Cast"}


def make_method(name: str) -> Callable[..., Any] | None:
    """The Symbol method ``name``: the operator with the Symbol as first input; None if there is none."""
    if name == "split_v2":
        from . import split_v2

        return split_v2
    op = OPERATORS[_ONLY_SYMBOL[name]] if name in _ONLY_SYMBOL else method_operator(name)
    if op is None:
        return None
    from .compose import apply_symbol

    record, spelled = op, "cast" if name == "astype" else name

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args:
            kwargs = {**_GIVEN.get(name, {}), **kwargs}
        try:
            return apply_symbol(record, spelled, bind(record, (self, *args), kwargs))
        except MXNetError as error:
            through_numpy(error, name, "F")
            raise

    method.__name__ = name
    method.__doc__ = op.docstring()
    return method

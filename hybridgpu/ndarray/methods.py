# SPDX-License-Identifier: Apache-2.0
"""Array and Symbol methods derived from the operator records."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..ops import OPERATORS
from ..ops.functions import bind
from ..ops.record import Operator

__all__ = ["make_method", "method_operator"]


@lru_cache
def _methods() -> dict[str, Operator]:
    return {op.method: op for op in OPERATORS.values() if op.method}


def method_operator(name: str) -> Operator | None:
    """The operator whose record names ``name`` as a method."""
    return _methods().get(name)


def make_method(name: str) -> Callable[..., Any] | None:
    """The NDArray method ``name``: the operator with the array as first input."""
    if name == "split_v2":
        from .creation import split_v2

        return split_v2
    op = method_operator(name)
    if op is None:
        return None
    from .apply import apply_function

    record = op

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return apply_function(record, name, bind(record, (self, *args), kwargs))

    method.__name__ = name
    method.__doc__ = op.docstring()
    return method

# SPDX-License-Identifier: Apache-2.0
"""Array and Symbol methods derived from the operator records."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ..base import MXNetError
from ..core import autograd_state
from ..core.source_location import located_hint
from ..hints.tracing import through_numpy
from ..ops import OPERATORS
from ..ops.functions import OperatorSignature, bind, module_with
from ..ops.record import Operator
from .plans import with_plans

__all__ = ["attribute_error", "make_method", "method_names", "method_operator", "operator_methods"]


@lru_cache
def operator_methods() -> dict[str, Operator]:
    """The operators whose records name a method, by its name."""
    return {op.method: op for op in OPERATORS.values() if op.method}


def method_operator(name: str) -> Operator | None:
    """The operator whose record names ``name`` as a method."""
    return operator_methods().get(name)


def attribute_error(x: Any, name: str) -> AttributeError:
    """The error for an attribute that arrays do not have."""
    kind = "NDArray" if x._kind is None else "ndarray"
    text = f"'{kind}' object has no attribute '{name}'"
    from ..hints import members

    if x._kind is None:
        own = {*dir(type(x)), *method_names()}
        written = members.instead(members.ARRAYS, name, partial(module_with, functions="nd"), own)
    else:
        from ..ops.numpy.members import np_module_with

        written = members.instead(members.ARRAYS_OF_NP, name, partial(np_module_with, before=""), dir(type(x)))
    if not written:
        return AttributeError(text, name=name, obj=x)  # behind which Python guesses at another one
    return AttributeError(f"{text}\n{located_hint(written)}", obj=x)


def method_names() -> set[str]:
    """Names of the NDArray methods that :func:`make_method` makes."""
    return {*operator_methods(), *_WRITTEN, "split_v2"}


def make_method(name: str) -> Callable[..., Any] | None:
    """The NDArray method ``name``: the operator with the array as first input."""
    if name == "split_v2":
        from .creation import split_v2

        return split_v2
    if name in _WRITTEN:
        return _WRITTEN[name]
    op = method_operator(name)
    if op is None:
        return None
    from .apply import apply_function

    record = op

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return apply_function(record, name, bind(record, (self, *args), kwargs))
        except MXNetError as error:
            through_numpy(error, name, "nd")
            raise

    method = with_plans(method)
    method.__name__ = name
    method.__doc__ = op.docstring()
    method.__signature__ = OperatorSignature(op, False, method=True)  # type: ignore[attr-defined]
    return method


def _broadcast_like(self: Any, other: Any) -> Any:
    """The array broadcast to the shape of another, which may have more axes; the operator wants as many."""
    if autograd_state.state.trace is not None and self.ndim == other.ndim:  # the graph holds for other extents, too
        from .apply import apply

        op = OPERATORS["broadcast_like"]
        return apply(op, (self, other), op.parse({}))
    return self.broadcast_to(other.shape)


def _slice_assign(self: Any, rhs: Any, begin: Any, end: Any, step: Any) -> Any:
    """Write an array into a slice of this one."""
    from .apply import apply

    op = OPERATORS["_slice_assign"]
    return apply(op, (self, rhs), op.parse({"begin": begin, "end": end, "step": step}), self)


def _slice_assign_scalar(self: Any, value: float, begin: Any, end: Any, step: Any) -> Any:
    """Write a number into a slice of this array."""
    from .apply import apply

    op = OPERATORS["_slice_assign_scalar"]
    return apply(op, (self,), op.parse({"scalar": value, "begin": begin, "end": end, "step": step}), self)


#: methods that are not the operator of their name with the array as its first input
_WRITTEN = {f.__name__.removeprefix("_"): f for f in (_broadcast_like, _slice_assign, _slice_assign_scalar)}
for _name, _function in _WRITTEN.items():
    _function.__name__ = _function.__qualname__ = _name

# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of np that MXNet leaves to NumPy: isclose and what is made of it, heaviside, divmod, select …

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import unwrap
from typing import Any

import numpy as np

from ...base import MXNetError, ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, bool_, dtype_of, f64
from ...hints.tracing import in_graph
from ..elementwise import broadcast_pair
from ..params import Bool, Double, Values
from ..record import operator, sample
from .application import ArrayOrNumber, np_function_or_host
from .reduce_as_numpy import axis_of, need_default

__all__ = ["common_float", "need_arrays"]


def common_float(*dtypes: DType) -> DType:
    """The floating point type in which NumPy computes with arrays of these types."""
    first = dtypes[0]
    if first.is_float and all(d is first for d in dtypes):
        return first
    dtype = dtype_of(np.result_type(*(d.np for d in dtypes)))
    return dtype if dtype.is_float else f64


def need_arrays(F: Any, *values: Any, floats: bool = False) -> None:
    """
    Raises:
        NotImplementedError: one is no array, such as a list; or of integers, if ``floats`` are needed.
    """
    for x in values:
        if not F.is_array(x):
            raise NotImplementedError(f"operators take arrays, not {type(x)}{in_graph(x) if F.symbolic else ''}")
        if floats and not F.symbolic and not dtype_of(x.dtype).is_float:
            raise NotImplementedError(f"operators compute this of floats, not of {x.dtype}")


# -- comparison


@operator(
    "_npi_isclose",
    "a b",
    params={
        "rtol": Double(1e-5, "tolerance, relative to b"),
        "atol": Double(1e-8, "absolute tolerance"),
        "equal_nan": Bool(False, "NaN is close to NaN"),
        "lhs": Double(None, "a number in the place of a", optional=True),
        "rhs": Double(None, "a number in the place of b", optional=True),
    },
    optional=lambda p: [name for name, number in (("a", p.lhs), ("b", p.rhs)) if number is None],
    dtypes="**",
    differentiable=False,
    result_dtype=lambda p, d: bool_,
    samples=(
        sample([(3, 5), (3, 5)], {"rtol": 0.5}),
        sample([(3, 5), (5,)], {"equal_nan": True, "atol": 1}),
        sample([(2, 3)], {"rhs": 1, "atol": 0.5}),
        sample([(2, 3)], {"lhs": 1.5, "rtol": 0.25}),
        sample([(), (0, 3)]),
    ),
)
def isclose(b: Builder, p: Values, *operands: Node) -> Node:
    """Whether ``|a - b| <= atol + rtol * |b|``. Hybridgpu's own."""
    dtype = common_float(*(n.dtype for n in operands))
    arrays = iter([b.cast(n, dtype) for n in operands])
    x, y = (next(arrays) if v is None else b.full((), v, dtype) for v in (p.lhs, p.rhs))
    try:
        x, y = broadcast_pair(b, x, y)
    except MXNetError as e:
        raise ParameterError(str(e)) from None
    near = b.le(b.abs(x - y), b.abs(y) * p.rtol + p.atol)
    close = b.select(b.logical_and(b.isfinite(x), b.isfinite(y)), near, b.eq(x, y))
    return b.logical_or(close, b.logical_and(b.isnan(x), b.isnan(y))) if p.equal_nan else close


def _isclose(F: Any, a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    numbers = {k: float(v) for k, v in (("lhs", a), ("rhs", b)) if isinstance(v, numeric_types)}
    operands = [v for v in (a, b) if not isinstance(v, numeric_types)]
    need_arrays(F, *operands)
    if not isinstance(rtol, numeric_types) or not isinstance(atol, numeric_types):
        raise NotImplementedError("tolerances of operators are numbers")
    attributes = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, **numbers}
    inputs = (None if "lhs" in numbers else a, None if "rhs" in numbers else b) if F.symbolic else operands
    return F.invoke("_npi_isclose", inputs, attributes)


@np_function_or_host("isclose")
def np_isclose(F: Any, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether elements are equal within ``atol + rtol * |b|``."""
    return F.number(_isclose(F, a, b, rtol, atol, equal_nan))


@np_function_or_host("allclose")
def np_allclose(
    F: Any, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> ArrayOrNumber:
    """Whether all elements are equal within ``atol + rtol * |b|``."""
    return F.number(F.function("all")(_isclose(F, a, b, rtol, atol, equal_nan)), bool)


def _all_equal(F: Any, a1: Any, a2: Any) -> Any:
    if a1.dtype != a2.dtype:
        raise NotImplementedError("operators compare arrays of one type")
    return F.number(F.function("all")(F.function("equal")(a1, a2)), bool)


@np_function_or_host("array_equal")
def np_array_equal(F: Any, a1: Any, a2: Any, equal_nan: bool = False) -> ArrayOrNumber:
    """Whether two arrays have one shape and equal elements."""
    need_arrays(F, a1, a2)
    if F.symbolic or equal_nan:
        raise NotImplementedError("array_equal needs shapes, which Symbols do not have: write all(equal(x, y))")
    return a1.shape == a2.shape and _all_equal(F, a1, a2)


@np_function_or_host("array_equiv")
def np_array_equiv(F: Any, a1: Any, a2: Any) -> ArrayOrNumber:
    """Whether two arrays broadcast and have equal elements."""
    need_arrays(F, a1, a2)
    if F.symbolic:
        raise NotImplementedError("array_equiv needs shapes, which Symbols do not have: write all(equal(x, y))")
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return _all_equal(F, a1, a2)


# -- arithmetic


@operator("_npi_signbit", "x", same_shape=True, differentiable=False, dtypes="*", result_dtype=lambda p, d: bool_)
def signbit(b: Builder, p: Values, x: Node) -> Node:
    """Whether the sign is minus, of zeros, too; False for NaN. Hybridgpu's own."""
    if x.dtype is bool_:
        return b.full(x.shape, False, bool_)
    below = b.lt(x, 0)
    if not x.dtype.is_float:
        return below
    return b.logical_or(below, b.logical_and(b.eq(x, 0), b.lt(b.full_like(x, 1) / x, 0)))


def _of_floats(name: str, function: Callable[[Any, Any], Any], doc: str, result: str = "ArrayOrNumber") -> None:
    """Declare a ufunc of one array; NumPy's own for integers and with keywords."""

    @np_function_or_host(name)
    def definition(F: Any, x: Any, out: Any = None, **kwargs: Any) -> Any:
        need_default(out=out, **kwargs)
        need_arrays(F, x, floats=True)
        return function(F, x)

    definition.__doc__, unwrap(definition).__annotations__["return"] = doc, result


_of_floats("signbit", lambda F, x: F.number(F.invoke("_npi_signbit", (x,))), "Whether the sign is minus.")
_of_floats("positive", lambda F, x: F.number(F.function("copy")(x)), "A copy.")


def _modf(F: Any, x: Any) -> Any:
    whole = F.function("trunc")(x)
    return F.number(F.function("subtract")(x, whole)), F.number(whole)


_of_floats(
    "modf", _modf, "The part behind the point and the whole part, both with the sign of the number.", "tuple[Any, Any]"
)


@np_function_or_host("real")
def np_real(F: Any, val: Any) -> ArrayOrNumber:
    """The array itself: its numbers are real."""
    need_arrays(F, val)
    return val


def _of_two(name: str, function: Callable[[Any, Any, Any], Any], doc: str, result: str = "ArrayOrNumber") -> None:
    """Declare a ufunc of two arrays, or of an array and a number; NumPy's own for integers and with keywords."""

    @np_function_or_host(name)
    def definition(F: Any, x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        need_default(out=out, **kwargs)
        need_arrays(F, *(x for x in (x1, x2) if not isinstance(x, numeric_types)), floats=True)
        if not F.symbolic and len({x.dtype for x in (x1, x2) if F.is_array(x)}) > 1:
            raise NotImplementedError("operators compute this of arrays of one type")
        return function(F, x1, x2)

    definition.__doc__, unwrap(definition).__annotations__["return"] = doc, result


def _heaviside(F: Any, x1: Any, x2: Any) -> Any:
    if not F.is_array(x1):
        raise NotImplementedError("the first operand is a number")
    where, greater = F.function("where"), F.function("greater")
    step = where(greater(x1, 0), 1.0, where(F.function("less")(x1, 0), 0.0, x1))  # NaN stays
    return F.number(where(F.function("equal")(x1, 0), x2, step))


def _divmod(F: Any, x1: Any, x2: Any) -> Any:
    if not F.is_array(x1):
        raise NotImplementedError("the first operand is a number")
    rest = F.function("mod")(x1, x2)
    quotient = F.function("rint")((x1 - rest) / x2)
    if F.is_array(x2):
        by_zero = F.function("equal")(x2, 0)
        quotient, rest = (F.function("where")(by_zero, y, z) for y, z in ((x1 / x2, quotient), (math.nan, rest)))
    elif not x2:
        raise NotImplementedError("division by zero")
    return F.number(quotient), F.number(rest)


def _float_power(F: Any, x1: Any, x2: Any) -> Any:
    x1, x2 = (x.astype("float64") if F.is_array(x) else x for x in (x1, x2))
    return F.number(F.function("power")(x1, x2))


_of_two("heaviside", _heaviside, "0 below 0, 1 above, ``x2`` at 0.")
_of_two("divmod", _divmod, "The quotient rounded down, and the remainder with the sign of ``x2``.", "tuple[Any, Any]")
_of_two("float_power", _float_power, "x1 to the power x2, in double precision.")


# -- choice


@np_function_or_host("select")
def np_select(F: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Of several arrays the first whose condition holds, else ``default``."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    need_arrays(F, *condlist, *choicelist)
    arrays = [*choicelist, *([default] if F.is_array(default) else [])]
    if not arrays or not (F.is_array(default) or isinstance(default, numeric_types)):
        raise NotImplementedError("there is no array to choose")
    if not F.symbolic:
        kinds = {dtype_of(x.dtype) for x in arrays}
        if len(kinds) > 1 or (not next(iter(kinds)).is_float and default != int(default)):
            raise NotImplementedError("operators choose from arrays of one type")
        for k, condition in enumerate(condlist):
            if condition.dtype != bool:
                raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    y = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        y = F.function("where")(condition, choice, y)
    return y


@np_function_or_host("rollaxis")
def np_rollaxis(F: Any, a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved before another one."""
    need_arrays(F, a)
    if F.symbolic:
        if min(axis, start) < 0:
            raise NotImplementedError(
                "rollaxis of Symbols, whose number of axes is not known: count axes from the first"
            )
    else:
        axis = axis_of(axis, a.ndim)
        if not -a.ndim <= start <= a.ndim:
            raise NotImplementedError("NumPy has the error for it")
        start = start + a.ndim if start < 0 else start
    return F.function("moveaxis")(a, axis, start - 1 if start > axis else start)


@np_function_or_host("size")
def np_size(F: Any, a: Any, axis: int | None = None) -> int:
    """The number of elements, or of those along an axis."""
    need_arrays(F, a)
    if F.symbolic:
        raise NotImplementedError("size of Symbols: shapes are known when the graph runs")
    return int(a.size) if axis is None else a.shape[axis]


@np_function_or_host("ndim")
def np_ndim(F: Any, a: Any) -> int:
    """The number of axes."""
    need_arrays(F, a)
    if F.symbolic:
        raise NotImplementedError("ndim of Symbols: shapes are known when the graph runs")
    return a.ndim


@np_function_or_host("msort", lambda a: np.sort(a, axis=0))
def np_msort(F: Any, a: Any) -> Any:
    """The elements in ascending order along the first axis."""
    need_arrays(F, a)
    return F.function("sort")(a, axis=0)

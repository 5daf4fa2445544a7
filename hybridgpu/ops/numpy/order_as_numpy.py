# SPDX-License-Identifier: Apache-2.0
"""Orders of elements of np that MXNet leaves to NumPy: nanmedian, nanquantile, nanpercentile, partition, lexsort.

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...base import ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, bool_, f64, i64, u8
from ..params import Axis, Bool, Enum, Floats, Param, Values
from ..record import operator, sample
from .application import np_function_or_host
from .elementwise_as_numpy import common_float, need_arrays
from .reduce import kept_shape
from .reduce_as_numpy import axes_of, axis_of, check_axes, need_default
from .statistics import between

__all__: list[str] = []

# -- order statistics that pass over NaN


def _ordered(b: Builder, a: Node, axes: Sequence[int], dtype: DType) -> tuple[Node, Node]:
    """The elements over axes in ascending order along a new last axis, NaN behind; and how many are not NaN."""
    rest = [k for k in range(a.ndim) if k not in axes]
    shape = (*(a.shape[k] for k in rest), prod(a.shape[k] for k in axes))
    x = b.reshape(b.transpose(b.cast(a, dtype), [*rest, *axes]), shape)
    last = x.ndim - 1
    line = b.take_along(x, b.argsort(x, axis=last, ascending=True), axis=last)
    return line, b.sum(
        b.cast(b.logical_not(b.isnan(x)) if dtype.is_float else b.full(x.shape, True, bool_), i64),
        (last,),
        keepdims=True,
    )


def _median_type(dtype: DType) -> DType:
    return common_float(dtype)


@operator(
    "_npi_nanmedian",
    "a",
    params={"axis": Axis(doc="axes to reduce; None means all"), "keepdims": Bool(False, "keep them with extent 1")},
    result_dtype=lambda p, d: d[0] and _median_type(d[0]),
    samples=(
        sample([(3, 5)]),
        sample([(3, 4)], {"axis": (1,), "keepdims": True}),
        sample([(2, 3, 4)], {"axis": (0, 2)}),
    ),
)
def nanmedian(b: Builder, p: Values, a: Node) -> Node:
    """The middle of the elements over axes that are not NaN; NaN if there is none. Hybridgpu's own."""
    axes = axes_of(p.axis, a.ndim)
    dtype = _median_type(a.dtype)
    shape = kept_shape(a.shape, axes, p.keepdims)
    if any(not a.shape[k] for k in axes):
        return b.full(shape, math.nan, dtype)
    line, count = _ordered(b, a, axes, dtype)
    last = line.ndim - 1
    low, high = (b.max(b.div(count - k, b.full_like(count, 2)), 0) for k in (1, 0))
    y = (b.take_along(line, low, axis=last) + b.take_along(line, high, axis=last)) / 2
    odd = b.eq(b.mod(count, b.full_like(count, 2)), 1)
    y = b.select(odd, b.take_along(line, low, axis=last), y)
    return b.reshape(b.select(b.eq(count, 0), b.full_like(y, math.nan), y), shape)


@np_function_or_host("nanmedian")
def np_nanmedian(
    F: Any, a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The median over axes of the elements that are not NaN."""
    need_default(out=out)
    check_axes(F, a, axis)
    return F.number(F.invoke("_npi_nanmedian", (a,), {"axis": axis, "keepdims": keepdims}))


def _check_quantiles(xp: Any, p: Values, a: Any, q: Any) -> None:
    if q.size and not (q.min() >= 0 and q.max() <= (100 if p.percent else 1)):
        raise ParameterError("quantiles are out of range")


_INTERPOLATION: dict[str, Param] = {
    "axis": Axis(doc="axes to reduce; None means all"),
    "keepdims": Bool(False, "keep them with extent 1"),
    "interpolation": Enum(
        "linear", "between two elements", choices=("higher", "linear", "lower", "midpoint", "nearest")
    ),
    "percent": Bool(False, "quantiles are percentages"),
    "numbers": Floats(None, "the quantiles, where they are no input", optional=True, single=False),
    "one": Bool(False, "there is one number, without an axis of its own"),
}


def _quantile_type(p: Values, dtypes: Sequence[DType | None]) -> DType | None:
    return f64 if p.interpolation in ("linear", "midpoint") else dtypes[0]


@operator(
    "_npi_nanquantile",
    "a q",
    params=_INTERPOLATION,
    optional=lambda p: ["a"] if p.numbers is not None else ["a", "q"],
    dtypes="**",
    result_dtype=_quantile_type,
    check_arrays=lambda xp, p, a, q=None: None if q is None else _check_quantiles(xp, p, a, q),
    no_gradient=("q",),
    samples=(
        sample([(3, 5)], {"numbers": (0.3,), "one": True}),
        sample([(3, 5)], {"numbers": (20, 70), "percent": True, "axis": (1,), "keepdims": True}),
        sample([(2, 3, 5), (2,)], {"axis": (0, 2), "interpolation": "midpoint"}, {1: (0, 1)}),
        sample([(7,), (1, 2)], {"interpolation": "nearest"}, {1: (0, 1)}),
    ),
)
def nanquantile(b: Builder, p: Values, a: Node, q: Node | None = None) -> Node:
    """Quantiles over axes of the elements that are not NaN, those of several numbers along first axes. Hybridgpu's own."""
    axes = axes_of(p.axis, a.ndim)
    numbers = () if p.one else (len(p.numbers),) if q is None else q.shape
    dtype = _quantile_type(p, (a.dtype,)) or f64
    shape = kept_shape(a.shape, axes, p.keepdims)
    if any(not a.shape[k] for k in axes):
        return b.full((*numbers, *shape), math.nan, dtype)
    if q is None:
        parts = [b.full((1,), v / 100 if p.percent else v, f64) for v in p.numbers]
        q = b.concat(parts, 0) if len(parts) > 1 else parts[0]
    else:
        q = b.stop_gradient(b.reshape(q, (q.size,)))
        q = q / 100 if p.percent else q
    line, count = _ordered(b, a, axes, u8 if a.dtype is bool_ else a.dtype)
    last = line.ndim - 1
    wide = (*line.shape[:-1], q.size)
    most = b.broadcast(b.cast(b.max(count - 1, 0), f64), wide)
    position = b.min(b.max(b.broadcast(b.cast(q, f64), wide) * most, 0), most)
    y = between(b, position, p.interpolation, lambda at: b.take_along(line, at, axis=last), dtype)
    if dtype.is_float:
        y = b.select(b.broadcast(b.eq(count, 0), y.shape), b.full_like(y, math.nan), y)
    return b.reshape(b.transpose(y, [last, *range(last)]), (*numbers, *shape))


def _of_quantiles(name: str, percent: bool) -> None:
    host = _host_quantile(name)

    @np_function_or_host(name, host)
    def definition(
        F: Any,
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        interpolation: str | None = None,
    ) -> Any:
        need_default(out=out)
        need_arrays(F, a)
        check_axes(F, a, axis)
        if not F.symbolic and a.dtype == bool:
            raise NotImplementedError("NumPy has the error for it")
        if (interpolation or method) not in ("higher", "linear", "lower", "midpoint", "nearest"):
            raise NotImplementedError(f"operators do not have the method {interpolation or method}")
        options = {
            "axis": axis,
            "keepdims": bool(keepdims),
            "interpolation": interpolation or method,
            "percent": percent,
        }
        if F.is_array(q):
            return F.number(F.invoke("_npi_nanquantile", (a, q), options))
        one = isinstance(q, numeric_types)
        numbers = np.asarray(q, dtype="float64")
        if numbers.ndim > 1 or not numbers.size:
            raise NotImplementedError("numbers of operators are a list")
        if not (numbers.min() >= 0 and numbers.max() <= (100 if percent else 1)):
            raise ValueError(
                f"{'Percentiles' if percent else 'Quantiles'} must be in the range [0, {100 if percent else 1}]"
            )
        attributes = {**options, "numbers": tuple(numbers.reshape(-1).tolist()), "one": one}
        return F.number(F.invoke("_npi_nanquantile", (a,), attributes))

    definition.__doc__ = f"{'Percentiles' if percent else 'Quantiles'} over axes of the elements that are not NaN."


def _host_quantile(name: str) -> Callable[..., Any]:
    """NumPy's function with the arguments of before NumPy 2, and its types: float64 between two elements."""
    function = getattr(np, name)

    def renamed(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = np._NoValue,
        *,
        interpolation: str | None = None,
    ) -> Any:
        return function(a, q, axis, out, overwrite_input, interpolation or method, keepdims=keepdims)

    return renamed


_of_quantiles("nanpercentile", True)
_of_quantiles("nanquantile", False)


# -- order


def _need_place(F: Any, a: Any, kth: Any, axis: Any) -> None:
    """
    Raises:
        ParameterError: ``kth`` is out of range.
    """
    if F.symbolic:
        return
    n = a.size if axis is None else a.shape[axis_of(axis, a.ndim)]
    for k in np.ravel(kth).tolist():
        if not -n <= k < n:
            raise ParameterError(f"kth(={k}) out of bounds ({n})")


def _of_order(name: str, function: str, doc: str) -> None:
    @np_function_or_host(name, eager=False)
    def definition(F: Any, a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
        need_default(order=order)
        need_arrays(F, a)
        _need_place(F, a, kth, axis)
        return F.function(function)(a, axis=axis)

    definition.__doc__ = doc


_of_order("partition", "sort", "The elements along an axis, those before ``kth`` not larger; in a graph all in order.")
_of_order("argpartition", "argsort", "The positions of what ``partition`` gives; in a graph all in order.")


@np_function_or_host("lexsort")
def np_lexsort(F: Any, keys: Any, axis: int = -1) -> Any:
    """The positions (int64) in the order of the last key, of equal ones in that of the key before it, and so on."""
    if F.is_array(keys):
        if F.symbolic or keys.ndim < 2:
            raise NotImplementedError("keys of a graph are a list of arrays")
        keys = [keys[k] for k in range(keys.shape[0])]
    need_arrays(F, *keys)
    if not keys or (not F.symbolic and (len({k.shape for k in keys}) > 1 or not keys[0].ndim)):
        raise ParameterError("all keys need to be the same shape")
    along = F.function("take_along_axis")
    first, *others = keys
    positions = F.function("argsort")(first, axis=axis)
    for key in others:
        positions = along(positions, F.function("argsort")(along(key, positions, axis), axis=axis), axis)
    return positions

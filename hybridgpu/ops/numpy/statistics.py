# SPDX-License-Identifier: Apache-2.0
"""Order statistics and counts: np.percentile, quantile, histogram and bincount."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

from ...base import MXNetError, ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, bool_, f32, f64, i64
from ..params import Axis, Bool, Double, Enum, Int, Values
from ..record import operator, sample, shape_text
from .application import np_function
from .derive import no_gradient

__all__ = ["between"]


# -- percentiles


def _check_range(xp: Any, p: Values, *arrays: Any) -> None:
    percents = [p.q_scalar] if p.q_scalar is not None else arrays[1:]
    for q in percents:
        low, high = (q, q) if p.q_scalar is not None else (q.min(initial=0), q.max(initial=0))
        if not (low >= 0 and high <= 100):
            raise ParameterError("Check failed: is_valid: percentile exceeds the valid range")


def between(b: Builder, position: Node, interpolation: str, pick: Callable[[Node], Node], dtype: DType) -> Node:
    """Elements of the last axis of an ordered array at fractional positions.

    Args:
        pick: the elements at positions (int64); positions and elements broadcast.
        dtype: of the result.
    """
    low, high = b.floor(position), b.ceil(position)
    if interpolation == "nearest":
        low = high = b.rint(position)
    elif interpolation == "lower":
        high = low
    elif interpolation == "higher":
        low = high
    below = pick(b.cast(low, i64))
    if low is high:
        return b.cast(below, dtype)
    above = pick(b.cast(high, i64))
    part = b.full_like(position, 0.5) if interpolation == "midpoint" else position - low
    part = b.select(b.eq(low, high), b.full_like(part, 0), part)
    part = b.broadcast(b.cast(part, dtype), below.shape)
    return b.cast(below, dtype) + b.cast(above - below, dtype) * part


@operator(
    "_npi_percentile",
    "a q",
    params={
        "axis": Axis(doc="axes to reduce; None means all"),
        "interpolation": Enum(
            "linear",
            "between two elements",
            choices=("higher", "linear", "lower", "midpoint", "nearest"),
        ),
        "keepdims": Bool(False, "keep reduced axes with extent 1"),
        "q_scalar": Double(None, "the percentage, or None for an array of them", optional=True),
    },
    optional=lambda p: ["a", "q"] if p.q_scalar is None else ["a"],
    dtypes="**",
    result_dtype=lambda p, d: f64 if d[0] is f64 else f32,
    infer_dtypes=lambda p, d: [x or f32 for x in d],
    check_arrays=_check_range,
    differentiable=False,
    samples=(
        sample([(3, 5)], {"q_scalar": 30}),
        sample([(3, 5)], {"q_scalar": 40, "axis": (1,), "keepdims": True}),
        sample([(2, 3, 5), (3,)], {"axis": (0, 2), "interpolation": "midpoint"}, {1: (0, 100)}),
        sample([(7,), ()], {"interpolation": "nearest"}, {1: (0, 100)}),
    ),
)
def percentile(b: Builder, p: Values, a: Node, q: Node | None = None) -> Node:
    """Percentiles over axes; those of an array ``q`` along a new first axis. NaN where an element is."""
    if a.dtype is bool_:
        raise MXNetError("Unknown type enum 7")
    if not a.ndim:
        raise MXNetError(
            "Check failed: *axis >= 0 && *axis < static_cast<int>(src_shape.ndim()): Invalid axis! axis should be between 0 "
            "and 0, found axis=-1"
        )
    if q is None:
        _check_range(None, p)
    elif q.ndim > 1:
        raise MXNetError(f"Check failed: qshape.ndim() <= 1U ({q.ndim} vs. 1) : ")
    axes = tuple(range(a.ndim)) if p.axis is None else tuple(k + a.ndim if k < 0 else k for k in p.axis)
    for axis in axes:
        if not 0 <= axis < a.ndim:
            raise MXNetError(
                f"Check failed: axes[axes.ndim()-1] < ishape.ndim() ({axis} vs. {a.ndim}) : Reduction axis {axis} Exceeds input "
                f"dimensions {shape_text(a.shape)}"
            )
    rest = [k for k in range(a.ndim) if k not in axes]
    lead, n = tuple(a.shape[k] for k in rest), prod(a.shape[k] for k in axes)
    wide = f64 if a.dtype is f64 else f32
    shape = tuple(1 if k in axes else d for k, d in enumerate(a.shape)) if p.keepdims else lead
    counts = () if q is None else q.shape
    if not n:
        return b.full((*counts, *shape), math.nan, wide)
    x = b.reshape(b.transpose(b.cast(a, wide), [*rest, *axes]), (*lead, n))
    last = x.ndim - 1
    line = b.take_along(x, b.argsort(x, axis=last, ascending=True), axis=last)
    percents = b.full((1,), p.q_scalar, f64) if q is None else b.reshape(b.cast(q, f64), (q.size,))
    position = percents * ((n - 1) / 100)
    position = b.min(b.select(b.ge(position, 0), position, b.full_like(position, 0)), n - 1)  # whatever the values are
    y = between(b, position, p.interpolation, lambda at: b.take(line, at, axis=last), wide)
    missing = b.reduce("amax", b.cast(b.isnan(x), i64), (last,), keepdims=True)
    y = b.select(b.broadcast(b.ne(missing, 0), y.shape), b.full_like(y, math.nan), y)
    return b.reshape(b.transpose(y, [last, *range(last)]), (*counts, *shape))


@np_function("percentile")
def np_percentile(
    F: Any,
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Percentiles over axes, all of them by default."""
    return _percentile(F, a, q, 1, axis, out, overwrite_input, interpolation, keepdims)


@np_function("quantile")
def np_quantile(
    F: Any,
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Quantiles over axes, all of them by default."""
    return _percentile(F, a, q, 100, axis, out, overwrite_input, interpolation, keepdims)


def _percentile(
    F: Any, a: Any, q: Any, factor: int, axis: Any, out: Any, overwrite_input: Any, interpolation: str, keepdims: bool
) -> Any:
    if overwrite_input is not None:
        raise NotImplementedError("overwrite_input is not supported yet")
    attributes = {"axis": axis, "interpolation": interpolation, "keepdims": keepdims}
    if isinstance(q, numeric_types):
        return F.invoke("_npi_percentile", (a,), {**attributes, "q_scalar": float(q) * factor}, out)
    percents = F.invoke("_npi_multiply_scalar", (q,), {"scalar": 100.0}) if factor != 1 and F.is_array(q) else q
    return F.invoke("_npi_percentile", (a, percents), {**attributes, "q_scalar": None}, out)


# -- counts


@np_function("histogram")
def np_histogram(
    F: Any, a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the edges of the bins: a number with a range, or an array of edges."""
    for name, present in (("normed", normed is True), ("weights", weights is not None), ("density", density is True)):
        if present:
            raise NotImplementedError(f"{name} is not supported yet...")
    if isinstance(bins, numeric_types):
        if range is None:
            raise NotImplementedError("automatic range is not supported yet...")
        return F.invoke("_npi_histogram", (a,), {"bin_cnt": bins, "range": range})
    if isinstance(bins, (list, tuple)):
        raise NotImplementedError("array_like bins is not supported yet...")
    if isinstance(bins, str):
        raise NotImplementedError("string bins is not supported yet...")
    if F.is_array(bins):
        return F.invoke("_npi_histogram", (a, bins))
    raise ValueError(f"np.histogram fails with bins of {type(bins)}")


def _count(xp: Any, p: Values, data: Any, weights: Any = None) -> list[Any]:
    if data.dtype.kind == "f":
        raise MXNetError("Check failed: !common: :is_float(data.dtype()): Input data should be int type")
    if data.ndim > 1:
        raise MXNetError(f"Check failed: data.shape().ndim() <= 1U ({data.ndim} vs. 1) : Input only accept 1d array")
    if weights is not None and weights.shape != data.shape:
        raise MXNetError(
            f"Check failed: data.shape() == weights.shape() ({shape_text(data.shape)} vs. {shape_text(weights.shape)}) : "
            "weights should has same size as input"
        )
    data = data.reshape(-1)
    if data.size and int(data.min()) < 0:
        raise MXNetError(
            f"Check failed: data_ptr[i] >= 0 ({int(data.min())} vs. 0) : input should be nonnegative number"
        )
    numbers = data.astype(xp.int64)
    if not data.size:
        return [xp.zeros(p.minlength, (data if weights is None else weights).dtype)]
    if weights is None:
        return [xp.bincount(numbers, minlength=p.minlength).astype(data.dtype)]
    return [xp.bincount(numbers, weights.reshape(-1), minlength=p.minlength).astype(weights.dtype)]


@operator(
    "_npi_bincount",
    "data weights",
    params={
        "minlength": Int(0, "least number of counts", low=0),
        "has_weights": Bool(False, "sum weights instead of counting"),
    },
    optional=lambda p: ["data", "weights"] if p.has_weights else ["data"],
    dtypes="**",
    result_dtype=lambda p, d: d[-1],
    eager=_count,
    eager_gradient=no_gradient,
    differentiable=False,
    samples=(sample([(5,)], {"minlength": 3}, {0: (0, 6)}),),
    domain=(0, 6),
)
def bincount(b: Builder, p: Values, data: Node, weights: Node | None = None) -> Node:
    """How often each number occurs, or the sum of its weights. How many counts there are depends on values, so a program
    ends here."""
    raise MXNetError(
        "bincount: the shape of the result depends on values, which a graph of fixed shapes does not have\n"
        "Call it on arrays, or sum npx.one_hot(x, n) over its first axis instead."
    )


@np_function("bincount")
def np_bincount(F: Any, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number that is not negative occurs, or the sum of its weights."""
    if not F.is_array(x):
        raise TypeError("Input data should be NDarray")
    if minlength < 0:
        raise ValueError("Minlength value should greater than 0")
    inputs = (x,) if weights is None else (x, weights)
    return F.invoke("_npi_bincount", inputs, {"minlength": minlength, "has_weights": weights is not None})

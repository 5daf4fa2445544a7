# SPDX-License-Identifier: Apache-2.0
"""Sums of np that MXNet leaves to NumPy: cov, corrcoef, trapz, unwrap.

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import ParameterError
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, f64, i64
from ..params import Bool, Double, Dtype, Int, Param, Values
from ..record import operator, sample
from .application import ArrayOrNumber, np_function_or_host
from .elementwise_as_numpy import common_float, need_arrays
from .reduce_as_numpy import axis_of, need_default

__all__: list[str] = []

# -- covariance


def _rows(b: Builder, x: Node, dtype: DType, rowvar: bool) -> Node:
    """One variable a row."""
    y = b.cast(x, dtype)
    y = b.reshape(y, (1,) * (2 - y.ndim) + y.shape)
    return b.transpose(y, (1, 0)) if not rowvar and y.shape[0] != 1 else y


def _covariance(b: Builder, p: Values, m: Node, y: Node | None) -> Node:
    for name, x in (("m", m), ("y", y)):
        if x is not None and x.ndim > 2:
            raise ParameterError(f"{name} has more than 2 dimensions")
    dtype = p.dtype or f64
    x = _rows(b, m, dtype, p.rowvar)
    if y is not None:
        x = b.concat([x, _rows(b, y, dtype, p.rowvar)], 0)
    n = x.shape[1]
    ddof = (0 if p.bias else 1) if p.ddof is None else p.ddof
    x = x - b.broadcast(b.mean(x, (1,), keepdims=True), x.shape)
    products = b.dot(x, b.transpose(x, (1, 0)))
    return products / b.full_like(products, max(n - ddof, 0))


_COV: dict[str, Param] = {
    "rowvar": Bool(True, "rows are variables, otherwise columns"),
    "bias": Bool(False, "divide by the number of observations, not by one less"),
    "ddof": Int(None, "subtracted from that number, in the place of bias", optional=True),
    "dtype": Dtype(None, "element type of the result; float64 by default", optional=True),
    "paired": Bool(False, "y has further variables"),
}
_COV_SAMPLES = (
    sample([(3, 5)]),
    sample([(5, 3)], {"rowvar": False, "ddof": 0}),
    sample([(2, 5), (5,)], {"paired": True, "bias": True}),
    sample([(6,)]),
)


@operator(
    "_npi_cov",
    "m y",
    params=dict(_COV),
    optional=lambda p: ["m", "y"] if p.paired else ["m"],
    dtypes="**",
    result_dtype=lambda p, d: p.dtype or f64,
    samples=_COV_SAMPLES,
)
def cov(b: Builder, p: Values, m: Node, y: Node | None = None) -> Node:
    """Covariances of variables; without axes if there is one variable. Hybridgpu's own."""
    c = _covariance(b, p, m, y)
    return b.reshape(c, tuple(d for d in c.shape if d != 1))


@operator(
    "_npi_corrcoef",
    "x y",
    params=dict(_COV),
    optional=lambda p: ["x", "y"] if p.paired else ["x"],
    dtypes="**",
    result_dtype=lambda p, d: p.dtype or f64,
    samples=_COV_SAMPLES[:3],
)
def corrcoef(b: Builder, p: Values, x: Node, y: Node | None = None) -> Node:
    """Correlation coefficients of variables; without axes if there is one variable. Hybridgpu's own."""
    c = _covariance(b, p, x, y)
    n = c.shape[0]
    if n == 1:
        return b.reshape(c / c, ())
    same = b.eq(b.iota((n, n), 0, i64), b.iota((n, n), 1, i64))
    spread = b.sqrt(b.sum(b.select(same, c, b.full_like(c, 0)), (1,)))
    c = c / b.broadcast(b.reshape(spread, (n, 1)), c.shape) / b.broadcast(spread, c.shape)
    return b.select(b.gt(c, 1), b.full_like(c, 1), b.select(b.lt(c, -1), b.full_like(c, -1), c))


def _cov_inputs(F: Any, m: Any, y: Any) -> tuple[Any, ...]:
    inputs = (m,) if y is None else (m, y)
    need_arrays(F, *inputs)
    return inputs


@np_function_or_host("cov")
def np_cov(
    F: Any,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> ArrayOrNumber:
    """Covariances of variables, a row or (``rowvar`` False) a column each; in double precision by default."""
    need_default(fweights=fweights, aweights=aweights)
    inputs = _cov_inputs(F, m, y)
    attributes = {"rowvar": rowvar, "bias": bias, "ddof": ddof, "paired": y is not None}
    return F.invoke("_npi_cov", inputs, {**attributes, **({} if dtype is None else {"dtype": dtype})})


@np_function_or_host("corrcoef")
def np_corrcoef(
    F: Any, x: Any, y: Any = None, rowvar: bool = True, bias: Any = None, ddof: Any = None, *, dtype: Any = None
) -> ArrayOrNumber:
    """Correlation coefficients of variables, a row or (``rowvar`` False) a column each; in double precision by default."""
    need_default(bias=bias, ddof=ddof)
    inputs = _cov_inputs(F, x, y)
    attributes = {"rowvar": rowvar, "paired": y is not None, **({} if dtype is None else {"dtype": dtype})}
    return F.number(F.invoke("_npi_corrcoef", inputs, attributes))


# -- along an axis


def _area_type(dtypes: Sequence[DType | None]) -> DType | None:
    known_dtypes = [d for d in dtypes if d is not None]
    return common_float(*known_dtypes) if len(known_dtypes) == len(dtypes) else None


@operator(
    "_npi_trapz",
    "y x",
    params={
        "dx": Double(1.0, "distance of neighbours, without x"),
        "axis": Int(-1, "the axis"),
        "placed": Bool(False, "x has the positions"),
    },
    optional=lambda p: ["y", "x"] if p.placed else ["y"],
    dtypes="**",
    result_dtype=lambda p, d: _area_type(d),
    samples=(
        sample([(3, 5)], {"dx": 0.5}),
        sample([(3, 5), (3,)], {"axis": 0, "placed": True}),
        sample([(2, 4), (2, 4)], {"placed": True}),
        sample([(1,)]),
    ),
)
def trapz(b: Builder, p: Values, y: Node, x: Node | None = None) -> Node:
    """The integral along an axis by the trapezoidal rule. Hybridgpu's own."""
    axis = axis_of(p.axis, y.ndim)
    dtype = common_float(*(n.dtype for n in (y, x) if n is not None))
    y, n = b.cast(y, dtype), y.shape[axis]
    middle = b.slice_axis(y, axis, min(1, n), n) + b.slice_axis(y, axis, 0, max(n - 1, 0))
    if x is None:
        return b.sum(middle * p.dx / 2, (axis,))
    x = b.cast(x, dtype)
    if x.ndim == 1:
        x = b.reshape(x, tuple(x.size if k == axis else 1 for k in range(y.ndim)))
    elif x.ndim != y.ndim:
        raise ParameterError(f"operands could not be broadcast together with shapes {x.shape} {y.shape}")
    n = x.shape[axis]
    distance = b.slice_axis(x, axis, min(1, n), n) - b.slice_axis(x, axis, 0, max(n - 1, 0))
    if any(d not in (1, e) for d, e in zip(distance.shape, middle.shape, strict=True)):
        raise ParameterError(f"operands could not be broadcast together with shapes {distance.shape} {middle.shape}")
    return b.sum(b.broadcast(distance, middle.shape) * middle / 2, (axis,))


@np_function_or_host("trapz", np.trapezoid)
def np_trapz(F: Any, y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> ArrayOrNumber:
    """The integral along an axis by the trapezoidal rule, between positions ``x`` or at the distance ``dx``."""
    if not isinstance(dx, (int, float)):
        raise NotImplementedError("distances of operators are numbers")
    inputs = (y,) if x is None else (y, x)
    need_arrays(F, *inputs)
    return F.number(F.invoke("_npi_trapz", inputs, {"dx": dx, "axis": axis, "placed": x is not None}))


@operator(
    "_npi_unwrap",
    "p",
    params={
        "discont": Double(None, "smaller jumps stay; None for half a period", optional=True),
        "axis": Int(-1, "the axis"),
        "period": Double(2 * math.pi, "what is added or subtracted"),
    },
    same_shape=True,
    result_dtype=lambda p, d: d[0] and common_float(d[0]),
    samples=(
        sample([(3, 5)], {"period": 2.5}),
        sample([(4, 3)], {"axis": 0, "discont": 3}),
        sample([(1,)]),
    ),
    domain=(-7.0, 7.0),
)
def unwrap(b: Builder, p: Values, x: Node) -> Node:
    """Jumps between neighbours of more than half a period replaced by their complements. Hybridgpu's own."""
    axis = axis_of(p.axis, x.ndim)
    x, n = b.cast(x, common_float(x.dtype)), x.shape[axis]
    if n < 2:
        return b.copy(x)
    high = p.period / 2
    jump = b.slice_axis(x, axis, 1, n) - b.slice_axis(x, axis, 0, n - 1)
    within = b.mod(jump + high, p.period) - high
    within = b.select(b.logical_and(b.eq(within, -high), b.gt(jump, 0)), b.full_like(within, high), within)
    small = b.lt(b.abs(jump), max(high, high if p.discont is None else p.discont))
    added = b.cumsum(b.select(small, b.full_like(jump, 0), within - jump), axis=axis)
    return x + b.pad(added, [int(k == axis) for k in range(x.ndim)], [0] * x.ndim, 0)


@np_function_or_host("unwrap")
def np_unwrap(F: Any, p: Any, discont: Any = None, axis: int = -1, *, period: float = 6.283185307179586) -> Any:
    """Angles without jumps of more than half a period along an axis."""
    need_arrays(F, p)
    if not isinstance(period, float) or not (discont is None or isinstance(discont, (int, float))):
        raise NotImplementedError("periods of operators are floats")
    return F.invoke("_npi_unwrap", (p,), {"discont": discont, "axis": axis, "period": period})

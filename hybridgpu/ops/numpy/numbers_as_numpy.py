# SPDX-License-Identifier: Apache-2.0
"""Functions of np of the parts of numbers that MXNet leaves to NumPy: frexp, spacing, packbits, unpackbits; and i0.

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...base import ParameterError
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, f16, f32, f64, i32, u8
from ..params import Enum, Int, Param, Values
from ..record import operator, sample
from .application import np_function_or_host
from .elementwise_as_numpy import common_float, need_arrays
from .reduce_as_numpy import axis_of, need_default

__all__: list[str] = []

# -- exponents


def _exponent(b: Builder, x: Node) -> tuple[Node, Node, Node]:
    """For finite x other than 0: |x| * 2**-e from 1 to 2; e; and 2**e. Exact, and in binary steps."""
    y = b.abs(x)
    e, power = b.full(x.shape, 0, i32), b.full_like(x, 1)
    top = 512 if x.dtype is f64 else 64
    steps = [top >> k for k in range(top.bit_length())]

    def scaled(where: Node, k: int) -> None:
        nonlocal y, e, power
        y = b.select(where, y * 2.0**-k, y)
        e = b.select(where, e + k, e)
        power = b.select(where, power * 2.0**k, power)

    b.reserve(20 * len(steps))
    for k in steps:
        scaled(b.ge(y, 2.0**k), k)
    for k in (top, *steps):  # numbers below the least normal one need more
        scaled(b.lt(y, 2.0 ** (1 - k)), -k)
    return y, e, power


def _regular(b: Builder, x: Node) -> Node:
    return b.logical_and(b.isfinite(x), b.ne(x, 0))


@operator(
    "_npi_frexp",
    "x",
    outputs=2,
    result_dtype=lambda p, d: (d[0] and common_float(d[0]), i32),
    samples=(sample([(3, 5)]), sample([()]), sample([(0, 3)])),
)
def frexp(b: Builder, p: Values, x: Node) -> tuple[Node, Node]:
    """A number from 0.5 to 1 and the exponent of the 2 that it is multiplied with. Hybridgpu's own."""
    dtype = common_float(x.dtype)
    x = b.cast(x, f32 if dtype.is_half else dtype)
    y, e, _ = _exponent(b, x)
    regular = _regular(b, x)
    fraction = b.select(regular, b.select(b.lt(x, 0), -y, y) * 0.5, x)
    return b.cast(fraction, dtype), b.select(regular, e + 1, b.full(x.shape, 0, i32))


@np_function_or_host("frexp")
def np_frexp(F: Any, x: Any, out: Any = None, **kwargs: Any) -> Any:
    """Numbers from 0.5 to 1, with the sign of x, and exponents (int32) of 2."""
    need_default(out=out, **kwargs)
    need_arrays(F, x, floats=True)
    return tuple(F.number(y) for y in F.invoke("_npi_frexp", (x,)))


@operator(
    "_npi_spacing",
    "x",
    same_shape=True,
    differentiable=False,
    result_dtype=lambda p, d: d[0] and common_float(d[0]),
)
def spacing(b: Builder, p: Values, x: Node) -> Node:
    """The distance to the next number away from 0, with the sign of x but of float16. Hybridgpu's own."""
    dtype = common_float(x.dtype)
    x = b.cast(x, f32 if dtype.is_half else dtype)
    info = np.finfo(dtype.np)
    _, _, power = _exponent(b, x)
    least = float(info.smallest_subnormal)
    distance = b.max(power * float(info.eps), least)
    distance = b.select(b.eq(x, 0), b.full_like(x, least), distance)
    distance = b.select(b.ge(b.abs(x), float(info.max)), b.full_like(x, np.inf), distance)
    if dtype is not f16:
        distance = b.select(b.lt(x, 0), -distance, distance)
    return b.cast(b.select(b.isfinite(x), distance, b.full_like(x, np.nan)), dtype)


@np_function_or_host("spacing")
def np_spacing(F: Any, x: Any, out: Any = None, **kwargs: Any) -> Any:
    """The distance of each number to the next one away from 0."""
    need_default(out=out, **kwargs)
    need_arrays(F, x, floats=True)
    return F.number(F.invoke("_npi_spacing", (x,)))


# -- bits

_BITS: dict[str, Param] = {
    "axis": Int(None, "the axis; None for the flattened array", optional=True),
    "bitorder": Enum("big", "the first bit is the largest, or the smallest", choices=("big", "little")),
}


def _line(b: Builder, p: Values, a: Node) -> tuple[Node, int]:
    return (b.reshape(a, (a.size,)), 0) if p.axis is None else (a, axis_of(p.axis, a.ndim))


@operator(
    "_npi_packbits",
    "a",
    params=dict(_BITS),
    differentiable=False,
    result_dtype=lambda p, d: u8,
    samples=(sample([(3, 5)]), sample([(3, 17)], {"axis": 1}), sample([(9, 2)], {"axis": 0, "bitorder": "little"})),
)
def packbits(b: Builder, p: Values, a: Node) -> Node:
    """Eight elements along an axis as the bits of one, whether they are not 0. Hybridgpu's own."""
    x, axis = _line(b, p, a)
    n = -(-x.shape[axis] // 8)
    x = b.cast(b.ne(x, 0), i32)
    x = b.pad(x, [0] * x.ndim, [n * 8 - x.shape[axis] if k == axis else 0 for k in range(x.ndim)], 0)
    total = b.full(tuple(n if k == axis else d for k, d in enumerate(x.shape)), 0, i32)
    if n:
        step = [8 if k == axis else 1 for k in range(x.ndim)]
        for bit in range(8):
            first = [bit if k == axis else 0 for k in range(x.ndim)]
            total = total + b.slice(x, first, x.shape, step) * (1 << (bit if p.bitorder == "little" else 7 - bit))
    return b.cast(total, u8)


@operator(
    "_npi_unpackbits",
    "a",
    params={
        **_BITS,
        "count": Int(None, "how many bits of an axis; those at its end that are not, if negative", optional=True),
    },
    dtypes="*",
    differentiable=False,
    result_dtype=lambda p, d: u8,
    infer_dtypes=lambda p, d: [d[0] or u8],
    samples=(
        sample([(3, 2)], {}, {0: (0, 255)}),
        sample([(3, 2)], {"axis": 1, "count": 5}, {0: (0, 255)}),
        sample([(2, 2)], {"axis": 0, "bitorder": "little", "count": -3}, {0: (0, 255)}),
    ),
)
def unpackbits(b: Builder, p: Values, a: Node) -> Node:
    """The bits of elements along an axis, as 0 and 1. Hybridgpu's own."""
    x, axis = _line(b, p, a)
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    whole = b.reshape(b.cast(x, i32), shape)
    order = range(8) if p.bitorder == "little" else range(7, -1, -1)
    bits = [b.cast(b.ne(b.bit_and(whole, b.full_like(whole, 1 << k)), 0), u8) for k in order]
    n = 8 * x.shape[axis]
    y = b.reshape(b.concat(bits, axis + 1), tuple(n if k == axis else d for k, d in enumerate(x.shape)))
    if p.count is None:
        return y
    count = p.count if p.count >= 0 else n + p.count
    if count < 0:
        raise ParameterError(f"-count {-p.count} is larger than the number of bits")
    if count <= n:
        return b.slice_axis(y, axis, 0, count)
    return b.pad(y, [0] * y.ndim, [count - n if k == axis else 0 for k in range(y.ndim)], 0)


@np_function_or_host("packbits")
def np_packbits(F: Any, a: Any, axis: Any = None, bitorder: str = "big") -> Any:
    """Eight elements along an axis, or of the flattened array, as the bits of one (uint8)."""
    need_arrays(F, a)
    if bitorder not in ("big", "little") or (not F.symbolic and a.dtype.kind == "f"):
        raise NotImplementedError("NumPy has the error for it")
    return F.invoke("_npi_packbits", (a,), {"axis": axis, "bitorder": bitorder})


@np_function_or_host("unpackbits")
def np_unpackbits(F: Any, a: Any, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """The bits of elements (uint8) along an axis, or of the flattened array, as 0 and 1."""
    need_arrays(F, a)
    if bitorder not in ("big", "little") or (not F.symbolic and a.dtype != np.uint8):
        raise NotImplementedError("NumPy has the error for it")
    return F.invoke("_npi_unpackbits", (a,), {"axis": axis, "count": count, "bitorder": bitorder})


# -- a Bessel function


def _scaled_i0(x: Any) -> Any:
    """exp(-x) i0(x), the mean of exp(x (cos t - 1)) over angles t."""
    angles = (np.arange(4096) + 0.5) * (np.pi / 4096)
    return np.exp(np.multiply.outer(x, np.cos(angles) - 1)).mean(-1)


@cache
def _i0_series(dtype: DType) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Chebyshev coefficients of exp(-x) i0(x) up to 8, and of that times the root of x from 8 on, of 16 / x - 1."""

    def beyond(t: Any) -> Any:
        x = 16 / (t + 1)
        return _scaled_i0(x) * np.sqrt(x)

    coefficients = []
    for function in (lambda t: _scaled_i0(4 * (t + 1)), beyond):
        series = np.polynomial.chebyshev.chebinterpolate(function, 32)
        used = np.flatnonzero(np.abs(series) > np.finfo(dtype.np).eps * 0.125 * np.abs(series).max())
        coefficients.append(tuple(series[: used[-1] + 1].tolist()))
    return coefficients[0], coefficients[1]


def _chebyshev(b: Builder, t: Node, series: tuple[float, ...]) -> Node:
    """A Chebyshev series at t, from -1 to 1, by Clenshaw's recurrence."""
    last, before = b.full_like(t, 0), b.full_like(t, 0)
    for c in series[:0:-1]:
        last, before = t * 2 * last - before + c, last
    return t * last - before + series[0]


@operator(
    "_npi_i0",
    "x",
    same_shape=True,
    result_dtype=lambda p, d: d[0] and common_float(d[0]),
    domain=(-12.0, 12.0),
)
def i0(b: Builder, p: Values, x: Node) -> Node:
    """The modified Bessel function of the first kind and order 0. Hybridgpu's own."""
    dtype = common_float(x.dtype)
    wide = f32 if dtype.is_half else dtype
    size = b.abs(b.cast(x, wide))
    near, far = _i0_series(wide)
    b.reserve(4 * (len(near) + len(far)))
    low = _chebyshev(b, b.min(size, 8) / 4 - 1, near)
    beyond = b.max(size, 8)
    high = _chebyshev(b, 16 / beyond - 1, far) / b.sqrt(beyond)
    return b.cast(b.exp(size) * b.select(b.gt(size, 8), high, low), dtype)


@np_function_or_host("i0")
def np_i0(F: Any, x: Any) -> Any:
    """The modified Bessel function of the first kind and order 0."""
    need_arrays(F, x)
    if not F.symbolic and x.dtype == bool:
        raise NotImplementedError("NumPy decides the type")
    return F.invoke("_npi_i0", (x,))

# SPDX-License-Identifier: Apache-2.0
"""Polynomials and sums of shifted products of np that MXNet leaves to NumPy: correlate, vander, poly and its relatives.

The operators are Hybridgpu's own, with NumPy's types and errors. A polynomial is its coefficients, the highest power first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...core import autograd_state
from ...core.dtypes import DType, dtype_of, f32, f64
from ..params import Bool, Double, Enum, Floats, Int, Values
from ..record import operator, sample
from .application import np_function_or_host
from .elementwise_as_numpy import need_arrays
from .linalg import _inverse_by_svd
from .positions_as_numpy import common_type

__all__: list[str] = []

# -- powers


def _power_type(dtype: DType) -> DType:
    return dtype_of(np.promote_types(dtype.np, np.int64))


@operator(
    "_npi_vander",
    "x",
    params={
        "N": Int(None, "columns; None for as many as rows", optional=True),
        "increasing": Bool(False, "the power 0 comes first"),
    },
    result_dtype=lambda p, d: d[0] and _power_type(d[0]),
    samples=(sample([(4,)]), sample([(3,)], {"N": 5, "increasing": True}), sample([(3,)], {"N": 0})),
)
def vander(b: Builder, p: Values, x: Node) -> Node:
    """The matrix of the powers of each element, in the type of NumPy's int64 with it. Hybridgpu's own."""
    if x.ndim != 1:
        raise ParameterError("x must be a one-dimensional array or sequence.")
    dtype, columns = _power_type(x.dtype), x.size if p.N is None else p.N
    if columns < 0:
        raise ParameterError("negative dimensions are not allowed")
    if not columns or not x.size:
        return b.full((x.size, columns), 0, dtype)
    b.reserve(columns)
    line = b.reshape(b.cast(x, dtype), (x.size, 1))
    powers = [b.full((x.size, 1), 1, dtype)]
    while len(powers) < columns:
        powers.append(powers[-1] * line)
    return b.concat(powers if p.increasing else powers[::-1], 1)


@np_function_or_host("vander")
def np_vander(F: Any, x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix of the powers of each element, the highest first."""
    need_arrays(F, x)
    if not F.symbolic and dtype_of(x.dtype).is_half:
        raise NotImplementedError("NumPy decides the type")
    return F.invoke("_npi_vander", (x,), {"N": N, "increasing": increasing})


def _of_polynomials(name: str, function: str) -> None:
    @np_function_or_host(name)
    def definition(F: Any, a1: Any, a2: Any) -> Any:
        need_arrays(F, a1, a2)
        if F.symbolic or a1.dtype != a2.dtype or a1.ndim != 1 or a2.ndim != 1:
            raise NotImplementedError("operators take lines of coefficients of one type, of known length")
        longest = max(a1.size, a2.size)
        a1, a2 = (
            x if x.size == longest else F.function("pad")(x, ((longest - x.size, 0),), mode="constant")
            for x in (a1, a2)
        )
        return F.function(function)(a1, a2)

    definition.__doc__ = f"numpy.{name}: coefficients of a polynomial, the highest power first."


_of_polynomials("polyadd", "add")
_of_polynomials("polysub", "subtract")


# -- products


def _common_type(p: Values, dtypes: Sequence[DType | None]) -> DType | None:
    known_dtypes = [d for d in dtypes if d is not None]
    return common_type(*known_dtypes) if len(known_dtypes) == len(dtypes) else None


@operator(
    "_npi_correlate",
    "a v",
    params={"mode": Enum("valid", "which shifts: those where one covers the other", choices=("full", "same", "valid"))},
    dtypes="**",
    result_dtype=_common_type,
    samples=(
        sample([(6,), (3,)]),
        sample([(2,), (5,)], {"mode": "same"}),
        sample([(4,), (3,)], {"mode": "full"}),
    ),
)
def correlate(b: Builder, p: Values, a: Node, v: Node) -> Node:
    """The sums of products of a line with another one that is shifted along it. Hybridgpu's own."""
    for x in (a, v):
        if x.ndim != 1 or not x.size:
            raise ParameterError("operators correlate two lines that are not empty")
    dtype = common_type(a.dtype, v.dtype)
    wide = f32 if dtype.is_half else dtype
    swapped = a.size < v.size
    x, y = (b.cast(n, wide) for n in ((v, a) if swapped else (a, v)))
    k = y.size
    low, high = {"valid": (0, 0), "same": (k // 2, k - k // 2 - 1), "full": (k - 1, k - 1)}[p.mode]
    x = b.pad(x, (low,), (high,), 0)
    n = x.size - k + 1
    shifted = b.unfold(b.broadcast(b.reshape(x, (1, x.size)), (k, x.size)), stride=(1,), dilate=(1,), extent=(n,))
    sums = b.sum(shifted * b.broadcast(b.reshape(y, (k, 1)), (k, n)), (0,))
    return b.cast(b.reverse(sums, axes=(0,)) if swapped else sums, dtype)


@np_function_or_host("correlate")
def np_correlate(F: Any, a: Any, v: Any, mode: str = "valid") -> Any:
    """The sums of products of a line with another one that is shifted along it."""
    need_arrays(F, a, v)
    if mode not in ("valid", "same", "full") or (not F.symbolic and bool in (a.dtype, v.dtype)):
        raise NotImplementedError("NumPy decides it")
    return F.invoke("_npi_correlate", (a, v), {"mode": mode})


def _without_zeros(F: Any, x: Any) -> Any:
    """A polynomial without leading zeros, as NumPy has them; in a graph, whose shapes are fixed, they stay."""
    if F.symbolic or autograd_state.state.trace is not None:
        return x
    if x.ndim != 1 or not x.size:
        raise ParameterError("Polynomial must be 1d only.")
    places = np.flatnonzero(x.asnumpy())
    first = int(places[0]) if places.size else x.size - 1
    return x[first:] if first else x


@np_function_or_host("polymul")
def np_polymul(F: Any, a1: Any, a2: Any) -> Any:
    """The product of two polynomials."""
    need_arrays(F, a1, a2)
    a1, a2 = (_without_zeros(F, x) for x in (a1, a2))
    return F.function("correlate")(a1, F.function("flip")(a2, axis=0), mode="full")


@operator(
    "_npi_poly",
    "seq_of_zeros",
    result_dtype=lambda p, d: d[0] and _of_zeros(d[0]),
    samples=(sample([(4,)]), sample([(1,)])),
)
def poly(b: Builder, p: Values, seq_of_zeros: Node) -> Node:
    """The polynomial with these zeros. Hybridgpu's own."""
    x = seq_of_zeros
    if x.ndim != 1 or not x.size:
        raise ParameterError("input must be 1d or non-empty square 2d array.")
    x = b.cast(x, _of_zeros(x.dtype))
    b.reserve(4 * x.size)
    y = b.full((1,), 1, x.dtype)
    for k in range(x.size):
        zero = b.broadcast(b.slice(x, (k,), (k + 1,)), y.shape)
        y = b.pad(y, (0,), (1,), 0) - b.pad(y * zero, (1,), (0,), 0)
    return y


def _of_zeros(dtype: DType) -> DType:
    return dtype if dtype is f32 else f64


@np_function_or_host("poly")
def np_poly(F: Any, seq_of_zeros: Any) -> Any:
    """The polynomial with these zeros."""
    need_arrays(F, seq_of_zeros)
    return F.invoke("_npi_poly", (seq_of_zeros,))


@operator(
    "_npi_polyint",
    "p",
    params={"k": Floats(doc="the constants of the integrals, one an integral", single=False)},
    result_dtype=lambda p, d: f64,
    samples=(sample([(4,)], {"k": (0,)}), sample([(3,)], {"k": (1.5, -2)})),
)
def polyint(b: Builder, values: Values, p: Node) -> Node:
    """The integral of a polynomial, taken once a constant, in double precision. Hybridgpu's own."""
    if p.ndim != 1:
        raise ParameterError("operators integrate one polynomial")
    y = b.cast(p, f64)
    for constant in values.k:
        n = y.size
        powers = b.full((n,), n, f64) - b.iota((n,), 0, f64)
        y = b.pad(y / powers, (0,), (1,), constant)
    return y


@np_function_or_host("polyint")
def np_polyint(F: Any, p: Any, m: int = 1, k: Any = None) -> Any:
    """The integral of a polynomial, taken ``m`` times with the constants ``k``, in double precision."""
    need_arrays(F, p)
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = [0.0] * m if k is None else [k] * m if isinstance(k, numeric_types) else list(k)
    if len(constants) == 1 < m:
        constants *= m
    if len(constants) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    if not all(isinstance(c, numeric_types) for c in constants):
        raise NotImplementedError("constants of operators are numbers")
    if not m:
        return F.function("copy")(p)
    return F.invoke("_npi_polyint", (p,), {"k": tuple(map(float, constants[:m]))})


@operator(
    "_npi_polyfit",
    "x y w",
    params={
        "deg": Int(doc="the highest power", low=0),
        "rcond": Double(None, "singular values up to this fraction of the largest count as zero", optional=True),
        "weighted": Bool(False, "there are weights"),
    },
    optional=lambda p: ["x", "y", "w"] if p.weighted else ["x", "y"],
    dtypes="***",
    result_dtype=lambda p, d: f64,
    samples=(sample([(4,), (4,)], {"deg": 1}), sample([(4,), (4, 2), (4,)], {"deg": 2, "weighted": True})),
)
def polyfit(b: Builder, p: Values, x: Node, y: Node, w: Node | None = None) -> Node:
    """The polynomial nearest to points, by least squares, in double precision. Hybridgpu's own."""
    n = p.deg + 1
    if (
        x.ndim != 1
        or not x.size
        or y.ndim not in (1, 2)
        or y.shape[0] != x.size
        or (w is not None and w.shape != x.shape)
    ):
        raise ParameterError("expected x and y to have same length")
    rcond = x.size * float(np.finfo(x.dtype.np if x.dtype.is_float else "f8").eps) if p.rcond is None else p.rcond
    line, right = b.reshape(b.cast(x, f64), (x.size, 1)), b.cast(b.reshape(y, (x.size, y.size // x.size)), f64)
    b.reserve(2 * n)
    powers = [b.full((x.size, 1), 1, f64)]
    while len(powers) < n:
        powers.append(powers[-1] * line)
    left = b.concat(powers[::-1], 1) if n > 1 else powers[0]
    if w is not None:
        weights = b.reshape(b.cast(w, f64), (x.size, 1))
        left, right = (m * b.broadcast(weights, m.shape) for m in (left, right))
    scale = b.sqrt(b.sum(left * left, (0,)))
    coefficients = b.dot(_inverse_by_svd(b, left / b.broadcast(scale, left.shape), b.full((), rcond, f64)), right)
    coefficients = coefficients / b.broadcast(b.reshape(scale, (n, 1)), coefficients.shape)
    return b.reshape(coefficients, (n, *y.shape[1:]))


@np_function_or_host("polyfit")
def np_polyfit(
    F: Any, x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The polynomial of the degree ``deg`` nearest to points, by least squares, in double precision."""
    inputs = (x, y) if w is None else (x, y, w)
    need_arrays(F, *inputs)
    if full or cov or not isinstance(deg, int) or deg < 0:
        raise NotImplementedError("operators give the coefficients alone")
    return F.invoke("_npi_polyfit", inputs, {"deg": deg, "rcond": rcond, "weighted": w is not None})

# SPDX-License-Identifier: Apache-2.0
"""Functions of np.linalg that MXNet leaves to NumPy: cond, matrix_rank, matrix_power, multi_dot, qr, lstsq.

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from ...base import ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...compiler.primitives.linalg import eye, swap
from ...core.dtypes import DType, f64, i32, i64
from ..params import Double, Enum, Values
from ..record import operator, sample
from .application import np_function_or_host
from .elementwise_as_numpy import common_float, need_arrays
from .linalg import _inverse_by_svd, _matrix_norm, _singular_values
from .reduce_as_numpy import need_default

__all__: list[str] = []


def _matrices(b: Builder, x: Node, square: bool = False) -> Node:
    """``x`` in the type that NumPy computes in.

    Raises:
        ParameterError: it has too few axes, or half precision, or is not square.
    """
    if x.ndim < 2:
        raise ParameterError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.dtype.is_float and x.dtype.size < 4:
        raise ParameterError(f"array type {x.dtype.name} is unsupported in linalg")
    if square and x.shape[-1] != x.shape[-2]:
        raise ParameterError("Last 2 dimensions of the array must be square")
    return b.cast(x, common_float(x.dtype))


def _float_type(p: Values, dtypes: Any) -> DType | None:
    return dtypes[0] and common_float(dtypes[0])


# -- condition and rank

_ORDERS = ("None", "2", "-2", "1", "-1", "inf", "-inf", "fro", "nuc")


@operator(
    "_npi_cond",
    "x",
    params={"p": Enum("None", "the norm; None is that of the largest singular value", choices=_ORDERS)},
    result_dtype=_float_type,
    samples=(sample([(3, 3)]), sample([(2, 3, 4)], {"p": "-2"}), sample([(2, 2, 2)], {"p": "fro"})),
    domain=(0.5, 2.0),
)
def cond(b: Builder, p: Values, x: Node) -> Node:
    """Condition numbers of matrices; infinite where there is no inverse. Hybridgpu's own."""
    plain = p.p in ("None", "2", "-2")
    a = _matrices(b, x, square=not plain)
    if not a.size:
        raise ParameterError("cond is not defined on empty arrays")
    batch = a.shape[:-2]
    if plain:
        values = _singular_values(b, a)
        n = values.shape[-1]
        first, last = (b.reshape(b.slice_axis(values, -1, k, k + 1), batch) for k in (0, n - 1))
        y = last / first if p.p == "-2" else first / last
    else:
        axes = (a.ndim - 2, a.ndim - 1)
        order = 2.0 if p.p in ("fro", "nuc") else float(p.p)
        both = b.slogdet(b.stop_gradient(a))
        regular = b.ne(b.reshape(b.slice_axis(both, -1, 0, 1), batch), 0)
        wide = b.broadcast(b.reshape(regular, (*batch, 1, 1)), a.shape)
        inverse = b.inverse(b.select(wide, a, eye(b, a)))

        def norm(m: Node) -> Node:
            if p.p == "fro":
                return b.sqrt(b.sum(m * m, axes))
            return b.reshape(_matrix_norm(b, m, axes, order, p.p == "nuc"), batch)

        y = b.select(regular, norm(a) * norm(inverse), b.full(batch, math.inf, a.dtype))
    missing = b.reduce("amax", b.cast(b.isnan(a), i32), (a.ndim - 2, a.ndim - 1))
    return b.select(b.logical_and(b.isnan(y), b.eq(missing, 0)), b.full_like(y, math.inf), y)


@np_function_or_host("linalg.cond")
def np_cond(F: Any, x: Any, p: Any = None) -> Any:
    """Condition numbers of matrices: the norm ``p`` times that of the inverse."""
    need_arrays(F, x)
    order = {np.inf: "inf", -np.inf: "-inf"}.get(p, str(p))
    if order not in _ORDERS:
        raise NotImplementedError("NumPy has the error for it")
    return F.number(F.invoke("_npi_cond", (x,), {"p": order}))


@operator(
    "_npi_matrix_rank",
    "M",
    params={"tol": Double(None, "singular values up to this count as zero", optional=True)},
    result_dtype=lambda p, d: i64,
    differentiable=False,
    samples=(sample([(3, 3)]), sample([(2, 3, 4)], {"tol": 0.5}), sample([(3,)])),
)
def matrix_rank(b: Builder, p: Values, M: Node) -> Node:
    """How many singular values of matrices are not zero; of a vector whether it is not. Hybridgpu's own."""
    if M.ndim < 2:
        return b.reduce("amax", b.cast(b.ne(M, 0), i64)) if M.size else b.full((), 0, i64)
    a = _matrices(b, M)
    if not a.size:
        return b.full(a.shape[:-2], 0, i64)
    values = _singular_values(b, a)
    last = (values.ndim - 1,)
    if p.tol is None:
        least = b.reduce("amax", values, last, keepdims=True) * (max(a.shape[-2:]) * _epsilon(a.dtype))
        greater = b.gt(values, b.broadcast(least, values.shape))
    else:
        greater = b.gt(values, b.full_like(values, p.tol))
    return b.sum(b.cast(greater, i64), last)


def _epsilon(dtype: DType) -> float:
    return float(np.finfo(dtype.np).eps)


@np_function_or_host("linalg.matrix_rank")
def np_matrix_rank(F: Any, A: Any, tol: Any = None, hermitian: bool = False) -> Any:
    """The ranks of matrices: how many singular values are larger than ``tol``."""
    need_arrays(F, A)
    if not (tol is None or isinstance(tol, numeric_types)):
        raise NotImplementedError("tolerances of operators are numbers")
    kind = int if not F.symbolic and A.ndim < 2 else None
    return F.number(F.invoke("_npi_matrix_rank", (A,), {"tol": tol}), kind)


# -- factorisation


@operator(
    "_npi_qr",
    "a",
    outputs=2,
    result_dtype=_float_type,
    samples=(sample([(1, 1)]), sample([(2, 3, 1)]), sample([(1, 3)])),
    domain=(0.5, 2.0),
)
def qr(b: Builder, p: Values, a: Node) -> tuple[Node, Node]:
    """Q with orthonormal columns and an upper triangular R with a = Q R. Hybridgpu's own."""
    x = _matrices(b, a)
    m, n = x.shape[-2:]
    k = min(m, n)
    if not x.size:
        raise ParameterError("operators factorise no empty matrices")
    both = b.lq(swap(b, b.slice_axis(x, -1, 0, k)))
    q, r = swap(b, b.slice_axis(both, -1, 0, m)), swap(b, b.slice_axis(both, -1, m, m + k))
    if n > k:
        r = b.concat([r, b.dot(swap(b, q), b.slice_axis(x, -1, k, n))], x.ndim - 1)
    return q, r


@np_function_or_host("linalg.qr")
def np_qr(F: Any, a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and an upper triangular R with a = Q R; only R with the mode 'r'."""
    need_arrays(F, a)
    if mode not in ("reduced", "r"):
        raise NotImplementedError("operators have the modes 'reduced' and 'r'")
    results = F.invoke("_npi_qr", (a,))
    return results[1] if mode == "r" else results if F.symbolic else tuple(results)


def _lstsq(a: Any, b: Any, rcond: Any = "warn") -> Any:
    return np.linalg.lstsq(a, b, -1 if rcond == "warn" else rcond)  # which cuts singular values off at zero


def _lstsq_types(p: Values, dtypes: Any) -> tuple[DType | None, ...]:
    dtype = common_float(*dtypes) if all(dtypes) else None
    return dtype, dtype, i32, dtype


@operator(
    "_npi_lstsq",
    "a b",
    params={"rcond": Double(None, "singular values up to this fraction of the largest count as zero", optional=True)},
    outputs=4,
    dtypes="**",
    result_dtype=_lstsq_types,
    samples=(sample([(3, 1), (3,)]), sample([(1, 3), (1, 2)], {"rcond": 0.1})),
    domain=(0.5, 2.0),
)
def lstsq(build: Builder, p: Values, a: Node, b: Node) -> tuple[Node, Node, Node, Node]:
    """x with the least a x - b, the sums of its squares (none for at most as many rows as columns), the rank of a, and its
    singular values. Hybridgpu's own."""
    dtype = common_float(a.dtype, b.dtype)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise ParameterError("operators solve one system of equations")
    m, n = a.shape
    if b.shape[0] != m:
        raise ParameterError("Incompatible dimensions")
    if not a.size or not b.size:
        raise ParameterError("operators solve no empty systems")
    matrix, y = build.cast(a, f64), build.cast(build.reshape(b, (m, b.size // m)), f64)
    rcond = _epsilon(dtype) * max(m, n) if p.rcond is None else p.rcond if p.rcond >= 0 else _epsilon(f64)
    x = build.dot(_inverse_by_svd(build, matrix, build.full((), rcond, f64)), y)
    values = _singular_values(build, matrix)
    least = build.reduce("amax", values, (0,), keepdims=True) * rcond
    rank = build.sum(build.cast(build.gt(values, build.broadcast(least, values.shape)), i32), (0,))
    rest = build.dot(matrix, x) - y
    residuals = build.sum(rest * rest, (0,)) if m > n else build.full((0,), 0, f64)
    x = build.reshape(x, (n, *b.shape[1:]))
    return build.cast(x, dtype), build.cast(residuals, dtype), rank, build.cast(values, dtype)


@np_function_or_host("linalg.lstsq", _lstsq, eager=False)
def np_lstsq(F: Any, a: Any, b: Any, rcond: Any = "warn") -> Any:
    """x with the least a x - b, the sums of its squares, the rank of a, and its singular values.

    In a graph the sums do not depend on the rank: there is one a column of b if a has more rows than columns.
    """
    need_arrays(F, a, b)
    rcond = -1.0 if isinstance(rcond, str) else rcond
    results = F.invoke("_npi_lstsq", (a, b), {"rcond": rcond})
    return results if F.symbolic else tuple(results)


# -- products


@np_function_or_host("linalg.matrix_power")
def np_matrix_power(F: Any, a: Any, n: int) -> Any:
    """A matrix multiplied with itself; for a negative ``n`` its inverse with itself."""
    need_arrays(F, a, floats=True)
    if not isinstance(n, int):
        raise TypeError("exponent must be an integer")
    if n == 0 or (not F.symbolic and (a.ndim < 2 or a.shape[-1] != a.shape[-2])):
        raise NotImplementedError("NumPy makes the identity, or has the error for it")
    factor = a if n > 0 else F.function("linalg.inv")(a)
    n, y = abs(n), None
    while n:
        if n & 1:
            y = factor if y is None else F.function("matmul")(y, factor)
        n >>= 1
        factor = F.function("matmul")(factor, factor) if n else factor
    return F.function("copy")(y) if y is a else y


@np_function_or_host("linalg.multi_dot")
def np_multi_dot(F: Any, arrays: Any, *, out: Any = None) -> Any:
    """The product of several matrices in the order that multiplies least; of Symbols, whose shapes are not known, from the left."""
    need_default(out=out)
    need_arrays(F, *arrays, floats=True)
    if len(arrays) < 2:
        raise NotImplementedError("NumPy has the error for it")
    dot = F.function("dot")
    if F.symbolic:
        return reduce(dot, arrays)
    if len({x.dtype for x in arrays}) > 1 or any(x.ndim != 2 for x in arrays):
        raise NotImplementedError("operators multiply matrices of one type")
    if any(x.shape[1] != y.shape[0] for x, y in pairwise(arrays)):
        raise ParameterError("shapes of neighbours are not aligned")
    best = [[(0, x)] for x in arrays]  # [first][number - 1]: multiplications, and the product as nested pairs
    for count in range(2, len(arrays) + 1):
        for first in range(len(arrays) - count + 1):
            end = arrays[first].shape[0] * arrays[first + count - 1].shape[1]
            ways = []
            for left in range(1, count):
                (one, x), (two, y) = best[first][left - 1], best[first + left][count - left - 1]
                ways.append((one + two + end * arrays[first + left].shape[0], (x, y)))
            best[first].append(min(ways, key=lambda way: way[0]))

    def product(tree: Any) -> Any:
        return dot(product(tree[0]), product(tree[1])) if isinstance(tree, tuple) else tree

    return product(best[0][-1][1])

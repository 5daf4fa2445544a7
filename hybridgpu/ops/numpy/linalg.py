# SPDX-License-Identifier: Apache-2.0
"""np.linalg: factorisations, systems of equations, eigenvalues and norms of matrices, which are the last two axes.

det, inv and slogdet are other names of legacy operators. Factorisations are library calls.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...compiler.primitives.linalg import swap
from ...core.dtypes import DType, f32, f64
from ..elementwise import in_floats
from ..linalg import _check_float, _check_square
from ..params import Axis, Bool, Double, Int, Param, Shape, Text, Values
from ..record import operator, sample, shape_text
from .application import np_function

__all__: list[str] = []


def _wide(*inputs: Node) -> DType:
    """What equations and eigenvalues are computed in: float32 if everything is, else float64."""
    for x in inputs:
        if x.dtype.is_float and x.dtype.size < 4:
            raise MXNetError(
                f"Check failed: a_type != mshadow: :kFloat16 (2 vs. 2) : array type {x.dtype.name} is unsupported in linalg"
            )
    return f32 if all(x.dtype is f32 for x in inputs) else f64


def _wide_type(p: Values, dtypes: Any) -> DType | None:
    return None if any(d is None for d in dtypes) else f32 if all(d is f32 for d in dtypes) else f64


def _last_axes(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    """The axes moved behind the others."""
    return b.transpose(x, [*(k for k in range(x.ndim) if k not in axes), *axes])


# -- factorisations


@operator("_npi_cholesky", "A", samples=(sample([(4, 1, 1)]), sample([(0, 2, 2)])), domain=(0.5, 2.0))
def cholesky(b: Builder, p: Values, A: Node) -> Node:
    """The lower triangular L of a symmetric positive definite A = L L**T. Only the lower triangle of A is read."""
    _check_square(A, "potrf")
    return b.cholesky(A)


@operator(
    "_npi_svd",
    "A",
    outputs=3,
    samples=(sample([(1, 1, 1)]), sample([(2, 1, 3)]), sample([(0, 2, 3)])),
    domain=(0.5, 2.0),
)
def svd(b: Builder, p: Values, A: Node) -> tuple[Node, Node, Node]:
    """UT, L and V of A = UT diag(L) V; A has at most as many rows as columns, and as many singular values as rows."""
    _check_float(A)
    if A.ndim < 2:
        raise MXNetError(f"Operator _npi_svd inferring shapes failed. input shapes: {shape_text(A.shape)}")
    m, n = A.shape[-2:]
    if m > n:
        raise MXNetError(
            f"Check failed: in_a[ndim - 2] <= in_a[ndim - 1] ({m} vs. {n}) : Input A shape wrong: The second to last "
            "dimension must be less than or equal to the last dimension"
        )
    both = b.svd(A)
    values = b.reshape(b.slice_axis(both, -1, m, m + 1), A.shape[:-1])
    return b.slice_axis(both, -1, 0, m), values, b.slice_axis(both, -1, m + 1, m + 1 + n)


def _singular_values(b: Builder, x: Node) -> Node:
    """Along the last axis, descending."""
    if x.shape[-2] > x.shape[-1]:
        x = swap(b, x)
    m = x.shape[-2]
    return b.reshape(b.slice_axis(b.svd(x), -1, m, m + 1), x.shape[:-1])


def _inverse_by_svd(b: Builder, A: Node, cutoff: Node) -> Node:
    """The pseudo-inverse; singular values up to the fraction ``cutoff`` of the largest count as zero."""
    tall = A.shape[-2] > A.shape[-1]
    x = swap(b, A) if tall else A
    m, n = x.shape[-2:]
    if not x.size:
        y = b.full((*x.shape[:-2], n, m), 0, A.dtype)
    else:
        both = b.svd(x)
        u, s = b.slice_axis(both, -1, 0, m), b.slice_axis(both, -1, m, m + 1)
        v = b.slice_axis(both, -1, m + 1, m + 1 + n)
        least = b.reduce("amax", s, (s.ndim - 2,), keepdims=True) * b.reshape(cutoff, (*x.shape[:-2], 1, 1))
        mask = b.gt(s, b.broadcast(least, s.shape))
        inverse = b.select(mask, 1 / b.select(mask, s, b.full_like(s, 1)), b.full_like(s, 0))
        y = b.dot(swap(b, v * b.broadcast(inverse, v.shape)), swap(b, u))
    return swap(b, y) if tall else y


def _check_matrices(A: Node) -> None:
    if A.ndim < 2:
        raise MXNetError(f"Check failed: a_ndim >= 2 ({A.ndim} vs. 2) : Array must be at least two-dimensional")


@operator(
    "_npi_pinv_scalar_rcond",
    "A",
    params={
        "rcond": Double(1e-15, "singular values up to this fraction of the largest count as zero"),
        "hermitian": Bool(False, "accepted"),
    },
    differentiable=False,
    samples=(sample([(3, 1, 1)]), sample([(2, 1, 3)], {"rcond": 0.1}), sample([(3, 1)]), sample([(0, 3)])),
    domain=(0.5, 2.0),
)
def pinv_scalar_rcond(b: Builder, p: Values, A: Node) -> Node:
    """Pseudo-inverses."""
    _wide(A)
    _check_float(A)
    _check_matrices(A)
    return _inverse_by_svd(b, A, b.full(A.shape[:-2], p.rcond, A.dtype))


@operator(
    "_npi_pinv",
    "A rcond",
    params={"hermitian": Bool(False, "accepted")},
    dtypes="**",
    result_dtype=lambda p, d: d[0],
    differentiable=False,
    samples=(sample([(3, 1, 1), (3,)]), sample([(2, 1, 3), ()])),
    domain=(0.5, 0.9),
)
def pinv(b: Builder, p: Values, A: Node, rcond: Node) -> Node:
    """Pseudo-inverses, with a cut-off for each."""
    _wide(A)
    _check_float(A)
    _check_matrices(A)
    return _inverse_by_svd(b, A, b.broadcast(b.cast(rcond, A.dtype), A.shape[:-2]))


# -- eigenvalues


def _check_eigen(A: Node) -> DType:
    wide = _wide(A)
    _check_matrices(A)
    if A.shape[-2] != A.shape[-1]:
        raise MXNetError(
            f"Check failed: a_shape[a_ndim - 2] == a_shape[a_ndim - 1] ({A.shape[-2]} vs. {A.shape[-1]}) : Input A's last "
            "two dimension must be equal"
        )
    return wide


def _eig(b: Builder, A: Node) -> tuple[Node, Node]:
    wide = _check_eigen(A)
    n = A.shape[-1]
    if not A.size:
        return b.full(A.shape[:-1], 0, wide), b.full(A.shape, 0, wide)
    both = b.eig(b.cast(A, wide))
    return b.reshape(b.slice_axis(both, -2, n, n + 1), A.shape[:-1]), b.slice_axis(both, -2, 0, n)


def _eigh(b: Builder, A: Node, uplo: str) -> tuple[Node, Node]:
    wide = _check_eigen(A)
    n = A.shape[-1]
    if not A.size:
        return b.full(A.shape[:-1], 0, wide), b.full(A.shape, 0, wide)
    x = b.cast(A, wide)
    both = b.eigh(swap(b, x) if uplo == "U" else x)
    return b.reshape(b.slice_axis(both, -1, n, n + 1), A.shape[:-1]), swap(b, b.slice_axis(both, -1, 0, n))


_UPLO: dict[str, Param] = {"UPLO": Text("L", "the triangle that is read: L, or U")}
_EIGEN: dict[str, Any] = {"result_dtype": _wide_type, "differentiable": False}
_SQUARES = (sample([(3, 1, 1)]), sample([(0, 2, 2)]))


@operator("_npi_eig", "A", outputs=2, samples=_SQUARES, **_EIGEN)
def eig(b: Builder, p: Values, A: Node) -> tuple[Node, Node]:
    """Eigenvalues, and eigenvectors as columns; complex ones are an error."""
    return _eig(b, A)


@operator("_npi_eigvals", "A", samples=_SQUARES, **_EIGEN)
def eigvals(b: Builder, p: Values, A: Node) -> Node:
    """Eigenvalues; complex ones are an error."""
    return _eig(b, A)[0]


@operator("_npi_eigh", "A", params=dict(_UPLO), outputs=2, samples=_SQUARES, **_EIGEN)
def eigh(b: Builder, p: Values, A: Node) -> tuple[Node, Node]:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors as columns, whose largest entries are positive."""
    return _eigh(b, A, p.UPLO)


@operator("_npi_eigvalsh", "A", params=dict(_UPLO), samples=(*_SQUARES, sample([(2, 1, 1)], {"UPLO": "U"})), **_EIGEN)
def eigvalsh(b: Builder, p: Values, A: Node) -> Node:
    """Eigenvalues of symmetric matrices, ascending."""
    return _eigh(b, A, p.UPLO)[0]


# -- equations


@operator(
    "_npi_solve",
    "A B",
    dtypes="**",
    result_dtype=_wide_type,
    samples=(sample([(2, 1, 1), (2, 1)]), sample([(1, 1), (1, 3)]), sample([(0, 0), (0,)])),
    domain=(0.5, 2.0),
)
def solve(b: Builder, p: Values, A: Node, B: Node) -> Node:
    """X of A X = B: of vectors where B has one axis less than A, else of matrices."""
    wide = _wide(A, B)
    if A.ndim < 2:
        raise MXNetError(f"Check failed: in_a_ndim >= 2 ({A.ndim} vs. 2) : Array must be at least two-dimensional")
    if A.shape[-2] != A.shape[-1]:
        raise MXNetError(
            f"Check failed: in_a_shape[in_a_ndim - 2] == in_a_shape[in_a_ndim - 1] ({A.shape[-2]} vs. {A.shape[-1]}) : "
            "Input A's last two dimension must be equal"
        )
    vectors = B.ndim == A.ndim - 1
    if not vectors and B.ndim != A.ndim:
        raise MXNetError("A's and B's dimensions don't match")
    for m, n in zip(A.shape[:-2], B.shape, strict=False):
        if m != n:
            raise MXNetError(
                f"Check failed: in_a_shape[i] == in_b_shape[i] ({m} vs. {n}) : A's and B's dimensions don't match"
            )
    rows = B.shape[-1 if vectors else -2]
    if rows != A.shape[-1]:
        which = "last dimension" if vectors else "last and second to last dimension"
        end = "in_b_shape[in_b_ndim - 1]" if vectors else "in_b_shape[in_b_ndim - 2]"
        raise MXNetError(
            f"Check failed: in_a_shape[in_a_ndim - 1] == {end} ({A.shape[-1]} vs. {rows}) : Input A's and B's {which} must "
            "be equal"
        )
    x, y = b.cast(A, wide), b.cast(B, wide)
    if vectors:
        return b.reshape(b.general_solve(x, b.reshape(y, (*y.shape, 1))), B.shape)
    return b.general_solve(x, y)


@operator(
    "_npi_tensorinv",
    "a",
    params={"ind": Int(2, "number of axes that are the rows")},
    samples=(sample([(1, 1, 1)]), sample([(1, 1)], {"ind": 1})),
    domain=(0.5, 2.0),
)
def tensorinv(b: Builder, p: Values, a: Node) -> Node:
    """The inverse of the matrix whose rows are the first ``ind`` axes and whose columns are the others."""
    if p.ind <= 0:
        raise MXNetError(f"Check failed: ind > 0 ({p.ind} vs. 0) : Invalid ind argument.")
    _check_float(a)
    front, back = a.shape[: p.ind], a.shape[p.ind :]
    if not prod(back):
        raise MXNetError(
            f"Check failed: prod_back > 0 ({prod(back)} vs. 0) : can not reshape array of size 0 into shape"
        )
    if prod(front) != prod(back):
        raise MXNetError(
            f"Check failed: prod_front == prod_back ({prod(front)} vs. {prod(back)}) : a shape must be square, i. e., "
            "prod(a.shape[:ind]) == prod(a.shape[ind:])."
        )
    return b.reshape(b.inverse(b.reshape(a, (prod(front), prod(back)))), (*back, *front))


@operator(
    "_npi_tensorsolve",
    "a b",
    params={"a_axes": Shape((), "axes of a that are moved behind the others first")},
    dtypes="**",
    result_dtype=_wide_type,
    samples=(sample([(1, 1, 1), (1, 1)]), sample([(1, 1), (1,)], {"a_axes": (0,)})),
    domain=(0.5, 2.0),
)
def tensorsolve(build: Builder, p: Values, a: Node, b: Node) -> Node:
    """x of tensordot(a, x, x.ndim) = b."""
    wide = _wide(a, b)
    axes = tuple(k % a.ndim if a.ndim else 0 for k in p.a_axes)
    x = build.cast(_last_axes(build, a, axes) if axes else a, wide)
    rest = x.shape[b.ndim - a.ndim :]  # all axes where there are as many
    rows = prod(x.shape) // prod(rest) if prod(rest) else 0
    if rows != prod(rest):
        raise MXNetError(f"Check failed: prod_front == prod_back ({rows} vs. {prod(rest)}) : a shape must be square.")
    if rows != b.size:
        raise MXNetError(
            f"Check failed: prod_back == b_shape.Size() ({rows} vs. {b.size}) : a's and b's dimensions don't match"
        )
    y = build.general_solve(build.reshape(x, (rows, rows)), build.reshape(build.cast(b, wide), (rows, 1)))
    return build.reshape(y, rest)


# -- norms


def _vector_norm(b: Builder, x: Node, axis: int, order: float) -> Node:
    """Of vectors along an axis, which stays with extent 1."""
    size = b.abs(x)
    if order == math.inf:
        return b.reduce("amax", size, (axis,), keepdims=True)
    if order == -math.inf:
        return b.reduce("amin", size, (axis,), keepdims=True)
    if order == 0:
        return b.sum(b.cast(b.ne(x, 0), x.dtype), (axis,), keepdims=True)
    if order == 1:
        return b.sum(size, (axis,), keepdims=True)
    if order == 2:
        return b.sqrt(b.sum(x * x, (axis,), keepdims=True))
    powers = b.pow(size, b.full_like(size, order))
    if order < 0:  # zeros do not count, as in MXNet
        powers = b.select(b.eq(size, 0), size, powers)
    total = b.sum(powers, (axis,), keepdims=True)
    return b.pow(total, b.full_like(total, 1 / order))


def _matrix_norm(b: Builder, x: Node, axes: tuple[int, int], order: float, nuclear: bool) -> Node:
    """Of matrices whose rows and columns are two axes, which stay with extent 1."""
    rows, columns = axes
    if not nuclear and order in (1, -1, math.inf, -math.inf):
        summed, other = (rows, columns) if abs(order) == 1 else (columns, rows)
        total = b.sum(b.abs(x), (summed,), keepdims=True)
        return b.reduce("amax" if order > 0 else "amin", total, (other,), keepdims=True)
    if not nuclear and order not in (2, -2):
        raise MXNetError("Invalid norm order for inputs.")
    if x.dtype.size < 4:
        raise MXNetError("Matrix +/- 2-norm does not support float 16 due to SVD implementation.")
    shape = tuple(1 if k in axes else d for k, d in enumerate(x.shape))
    if not x.size:
        return b.full(shape, 0, x.dtype)
    values = _singular_values(b, _last_axes(b, x, axes))
    last = (values.ndim - 1,)
    y = b.sum(values, last) if nuclear else b.reduce("amax" if order > 0 else "amin", values, last)
    return b.reshape(y, shape)


_ALL, _VECTOR_OR_MATRIX, _SPECTRAL, _FROBENIUS, _NUCLEAR = -2, -1, 0, 1, 2  #: values of ``flag``


@operator(
    "_npi_norm",
    params={
        "ord": Double(2.0, "order"),
        "axis": Axis(doc="axes of the vectors or matrices; None: all, or the last two"),
        "keepdims": Bool(False, "keep these axes with extent 1"),
        "flag": Int(_ALL, "-2 all elements, -1 by ord and the number of axes, 0 spectral, 1 Frobenius, 2 nuclear"),
    },
    kept=3,
    samples=(
        sample([(3, 4)]),
        sample([(2, 3, 4)], {"axis": (1,), "flag": -1, "ord": 3, "keepdims": True}),
        sample([(2, 3, 4)], {"axis": (0, 2), "flag": 1}),
        sample([(2, 3, 4)], {"axis": (2, 0), "flag": -1, "ord": 1}),
        sample([(5,)], {"flag": -1, "ord": "inf"}),
        sample([(2, 1, 3)], {"axis": (1, 2), "flag": 0, "ord": 2}),
        sample([()]),
        sample([(0, 3)]),
    ),
    domain=(0.5, 2.0),
)
def norm(b: Builder, p: Values, data: Node) -> Node:
    """Norms of vectors or matrices. Of integers it is an integer."""
    ndim = data.ndim
    if p.flag == _ALL:
        axes = tuple(range(ndim))
    elif p.axis is None:
        axes = (0,) if ndim == 1 else (ndim - 2, ndim - 1)
    else:
        axes = tuple(k + ndim if k < 0 else k for k in p.axis)
    for k, axis in enumerate(axes):
        if not 0 <= axis < ndim or axis in axes[:k]:
            raise MXNetError(
                f"Check failed: axes[axes.ndim()-1] < ishape.ndim() ({axis} vs. {ndim}) : Reduction axis {axis} Exceeds input "
                f"dimensions {shape_text(data.shape)}"
            )
    if not axes and ndim:
        raise MXNetError("Invalid norm order for inputs.")
    if len(axes) > 2 and p.flag != _ALL:
        raise MXNetError("Improper number of dimensions to norm.")
    singular = (
        p.flag == _NUCLEAR or p.flag == _SPECTRAL or (p.flag != _FROBENIUS and len(axes) == 2 and abs(p.ord) == 2)
    )
    if singular and p.flag != _ALL and not data.dtype.is_float:
        _check_float(data)
    if p.flag == _NUCLEAR and len(axes) == 1:
        raise MXNetError("Invalid norm order for inputs.")

    def of_floats(x: Node) -> Node:
        if p.flag in (_ALL, _FROBENIUS):
            return b.sqrt(b.sum(x * x, axes, keepdims=True)) if axes else b.abs(x)
        if len(axes) == 1:
            return _vector_norm(b, x, axes[0], p.ord)
        return _matrix_norm(b, x, (axes[0], axes[1]), p.ord, p.flag == _NUCLEAR)

    y = in_floats(b, of_floats, data)
    return y if p.keepdims else b.reshape(y, tuple(d for k, d in enumerate(data.shape) if k not in axes))


# -- functions


@np_function("linalg.norm")
def np_norm(F: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors or matrices: 'fro', 'nuc', 'inf' (or infinity) and their negatives, or a number."""
    if not (axis is None or isinstance(axis, (int, tuple))):
        raise TypeError("'axis' must be None, an integer or a tuple of integers.")
    axes = (axis,) if isinstance(axis, int) else axis
    if ord in ("inf", "-inf"):
        ord = float(ord)
    order, flag = (
        (2, _FROBENIUS) if ord in ("fro", "f") else (2, _NUCLEAR) if ord == "nuc" else (ord, _VECTOR_OR_MATRIX)
    )
    if ord is None:
        order, flag = 2, _ALL if axes is None else _FROBENIUS
    elif ord in (2, -2) and axes is not None and len(axes) == 2:
        flag = _SPECTRAL
    return F.invoke("_npi_norm", (x,), {"ord": order, "axis": axes, "keepdims": keepdims, "flag": flag})


@np_function("linalg.svd")
def np_svd(F: Any, a: Any) -> tuple[Any, Any, Any]:
    """ut, s and v of a = ut diag(s) v; a has at most as many rows as columns."""
    results = F.invoke("_npi_svd", (a,))
    return results if F.symbolic else tuple(results)


@np_function("linalg.cholesky")
def np_cholesky(F: Any, a: Any) -> Any:
    """The lower triangular L of a symmetric positive definite a = L L.T."""
    return F.invoke("_npi_cholesky", (a,))


@np_function("linalg.inv")
def np_inv(F: Any, a: Any) -> Any:
    """Inverse matrices."""
    return F.invoke("_npi_inv", (a,))


@np_function("linalg.det")
def np_det(F: Any, a: Any) -> Any:
    """Determinants."""
    return F.invoke("_npi_det", (a,))


@np_function("linalg.slogdet")
def np_slogdet(F: Any, a: Any) -> tuple[Any, Any]:
    """Signs and logarithms of the sizes of determinants."""
    return F.invoke("_npi_slogdet", (a,))


@np_function("linalg.solve")
def np_solve(F: Any, a: Any, b: Any) -> Any:
    """x of a x = b."""
    return F.invoke("_npi_solve", (a, b))


@np_function("linalg.tensorinv")
def np_tensorinv(F: Any, a: Any, ind: int = 2) -> Any:
    """The inverse of the matrix whose rows are the first ``ind`` axes."""
    return F.invoke("_npi_tensorinv", (a,), {"ind": ind})


@np_function("linalg.tensorsolve")
def np_tensorsolve(F: Any, a: Any, b: Any, axes: Any = None) -> Any:
    """x of tensordot(a, x, x.ndim) = b; the ``axes`` of a are moved to the end first."""
    return F.invoke("_npi_tensorsolve", (a, b), {"a_axes": () if axes is None else axes})


@np_function("linalg.pinv")
def np_pinv(F: Any, a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """Pseudo-inverses; singular values up to the fraction ``rcond`` of the largest count as zero."""
    if hermitian is True:
        raise NotImplementedError("hermitian is not supported yet...")
    if np.isscalar(rcond):
        return F.invoke("_npi_pinv_scalar_rcond", (a,), {"rcond": rcond, "hermitian": hermitian})
    return F.invoke("_npi_pinv", (a, rcond), {"hermitian": hermitian})


@np_function("linalg.eigvals")
def np_eigvals(F: Any, a: Any) -> Any:
    """Eigenvalues, which must be real."""
    return F.invoke("_npi_eigvals", (a,))


@np_function("linalg.eigvalsh")
def np_eigvalsh(F: Any, a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of symmetric matrices, ascending."""
    return F.invoke("_npi_eigvalsh", (a,), {"UPLO": UPLO})


@np_function("linalg.eig")
def np_eig(F: Any, a: Any) -> tuple[Any, Any]:
    """Eigenvalues, which must be real, and eigenvectors as columns."""
    results = F.invoke("_npi_eig", (a,))
    return results if F.symbolic else tuple(results)


@np_function("linalg.eigh")
def np_eigh(F: Any, a: Any, UPLO: str = "L") -> tuple[Any, Any]:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors as columns."""
    results = F.invoke("_npi_eigh", (a,), {"UPLO": UPLO})
    return results if F.symbolic else tuple(results)

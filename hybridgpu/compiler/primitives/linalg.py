# SPDX-License-Identifier: Apache-2.0
"""Factorisations and solutions with matrices: the last two axes are the matrix, leading ones batches.

Each is a library call. Factorisations of two results are returned side by side in one array, so
that they are computed once; lowerings take them apart with slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.dtypes import i64
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS", "eye", "swap", "triangle"]

Evaluate = Callable[[Any, Sequence[Any], Params, TensorType], Any]

_LEAF = 32  #: triangular systems of this size are solved row by row


# -- small graphs that rules and lowerings share


def swap(b: Builder, x: Node) -> Node:
    """The transposed matrices."""
    return b.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _rows_columns(b: Builder, x: Node) -> tuple[Node, Node]:
    return b.iota(x.shape, x.ndim - 2, i64), b.iota(x.shape, x.ndim - 1, i64)


def triangle(b: Builder, x: Node, lower: bool) -> Node:
    """The matrices with zeros above (lower) or below the diagonal."""
    rows, columns = _rows_columns(b, x)
    inside = b.le(columns, rows) if lower else b.ge(columns, rows)
    return b.select(inside, x, b.full_like(x, 0))


def eye(b: Builder, like: Node) -> Node:
    """Unit matrices of the shape and type of ``like``."""
    rows, columns = _rows_columns(b, like)
    return b.cast(b.eq(rows, columns), like.dtype)


def _mirror(b: Builder, x: Node) -> Node:
    """The symmetric matrix with the lower triangle of ``x``."""
    rows, columns = _rows_columns(b, x)
    return b.select(b.ge(rows, columns), x, swap(b, x))


# -- type rules


def _square(types: Sequence[TensorType], params: Params) -> TensorType:
    t = types[0]
    if t.ndim < 2 or t.shape[-1] != t.shape[-2] or not t.dtype.is_float:
        raise TypeError(f"square matrices are needed, not {t!r}")
    return t


def _infer_solve(types: Sequence[TensorType], params: Params) -> TensorType:
    a, x = _square(types, params), types[1]
    if a.dtype is not x.dtype or a.shape[:-2] != x.shape[:-2] or x.ndim != a.ndim or a.shape[-1] != x.shape[-2]:
        raise TypeError(f"a triangular system of {a!r} and {x!r}")
    return x


def _from_square(shape: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Callable[..., TensorType]:
    """The type rule of a result of square matrices whose ``shape`` follows from theirs."""
    return lambda types, params: tensor_type(shape(_square(types, params).shape), types[0].dtype)


_infer_det = _from_square(lambda s: s[:-2])
_infer_slogdet = _from_square(lambda s: (*s[:-2], 2))
_infer_eigh = _from_square(lambda s: (*s[:-1], s[-1] + 1))
_infer_eig = _from_square(lambda s: (*s[:-2], s[-1] + 1, s[-1]))


def _infer_lq(types: Sequence[TensorType], params: Params) -> TensorType:
    t = types[0]
    if t.ndim < 2 or t.shape[-2] > t.shape[-1] or not t.dtype.is_float:
        raise TypeError(f"matrices with at most as many rows as columns are needed, not {t!r}")
    return tensor_type((*t.shape[:-1], t.shape[-1] + t.shape[-2]), t.dtype)


def _infer_svd(types: Sequence[TensorType], params: Params) -> TensorType:
    m, n = _infer_lq(types, params).shape[-2], types[0].shape[-1]
    return tensor_type((*types[0].shape[:-1], m + 1 + n), types[0].dtype)


# -- evaluation


def _by_solver(evaluate: Evaluate) -> Evaluate:
    """``evaluate``, with words for a GPU without cuSOLVER, which CuPy loads when it is first asked for."""

    @wraps(evaluate)
    def run(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
        try:
            return evaluate(xp, inputs, params, out)
        except ImportError as e:
            raise MXNetError(
                "Factorisations, inverses and determinants on a GPU are cuSOLVER's, which CuPy does not find: "
                f"{(str(e).splitlines() or [''])[0]}\n"
                "pip install nvidia-cusolver-cu12 (for CUDA 13: nvidia-cusolver), or compute them on mx.cpu()."
            ) from e

    return run


@_by_solver
def _cholesky(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    lower = xp.tril(inputs[0])
    whole = lower + xp.swapaxes(xp.tril(inputs[0], -1), -1, -2)  # only the lower triangle counts
    try:
        return xp.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        raise MXNetError(
            "Check failed: ret == 0: potrf failed in lapack. This may happen when the input matrix is either not "
            "symmetric or not positive definite."
        ) from None


def _lower_solve(xp: Any, a: Any, x: Any) -> Any:
    """Solution of a * y = x for lower triangles ``a``, halves first, row by row at the end."""
    n = a.shape[-1]
    if n > _LEAF:
        half = n // 2
        top = _lower_solve(xp, a[..., :half, :half], x[..., :half, :])
        rest = x[..., half:, :] - xp.matmul(a[..., half:, :half], top)
        return xp.concatenate([top, _lower_solve(xp, a[..., half:, half:], rest)], axis=-2)
    y = xp.empty_like(x)
    for k in range(n):
        solved_part = xp.matmul(a[..., k : k + 1, :k], y[..., :k, :]) if k else 0
        y[..., k : k + 1, :] = (x[..., k : k + 1, :] - solved_part) / a[..., k : k + 1, k : k + 1]
    return y


def _solve(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    a, x = inputs
    if params["lower"]:
        return _lower_solve(xp, a, x)
    # upper triangles are lower ones read backwards
    y = _lower_solve(xp, xp.flip(a, (-1, -2)), xp.flip(x, -2))
    return xp.flip(y, -2)


@_by_solver
def _inverse(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    try:
        return xp.linalg.inv(inputs[0]).astype(out.dtype.np, copy=False)
    except np.linalg.LinAlgError:
        raise MXNetError("Check failed: ret == 0: the input matrix is non-convertible") from None


@_by_solver
def _inverse_or_zero(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """Inverses, zeros for matrices that have none."""
    a = inputs[0]
    regular = xp.linalg.slogdet(a)[0] != 0
    safe = xp.where(regular[..., None, None], a, xp.eye(a.shape[-1], dtype=a.dtype))
    return xp.where(regular[..., None, None], xp.linalg.inv(safe), 0).astype(out.dtype.np, copy=False)


@_by_solver
def _det(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return xp.asarray(xp.linalg.det(inputs[0]), out.dtype.np)


@_by_solver
def _slogdet(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    sign, log = xp.linalg.slogdet(inputs[0])
    return xp.stack([xp.asarray(sign), xp.asarray(log)], axis=-1).astype(out.dtype.np, copy=False)


@_by_solver
def _lq(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    q, r = xp.linalg.qr(xp.swapaxes(inputs[0], -1, -2))
    return xp.concatenate([xp.swapaxes(q, -1, -2), xp.swapaxes(r, -1, -2)], axis=-1)


@_by_solver
def _eigh(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    try:
        values, columns = xp.linalg.eigh(inputs[0], UPLO="L")
    except np.linalg.LinAlgError as e:
        raise MXNetError(f"Check failed: ret == 0: syevd failed in lapack: {e}") from None
    rows = xp.swapaxes(columns, -1, -2)
    # the entry of the largest size is positive, the first of several
    largest = xp.take_along_axis(rows, xp.argmax(xp.absolute(rows), axis=-1)[..., None], axis=-1)
    rows = xp.where(largest < 0, -rows, rows)
    return xp.concatenate([rows, values[..., None]], axis=-1)


@_by_solver
def _svd(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    a = inputs[0]
    if not a.size:
        return xp.zeros(out.shape, out.dtype.np)
    try:
        u, values, rows = xp.linalg.svd(a, full_matrices=False)
    except np.linalg.LinAlgError as e:
        raise MXNetError(f"Check failed: ret == 0: gesvd failed in lapack: {e}") from None
    # the entry of the largest size of each right vector is positive, as in MXNet
    largest = xp.take_along_axis(rows, xp.argmax(xp.absolute(rows), axis=-1)[..., None], axis=-1)
    sign = xp.where(largest < 0, -1, 1).astype(out.dtype.np)
    return xp.concatenate([u * xp.swapaxes(sign, -1, -2), values[..., None], rows * sign], axis=-1)


@_by_solver
def _general_solve(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    if not out.size or not inputs[0].size:
        return xp.zeros(out.shape, out.dtype.np)
    try:
        return xp.linalg.solve(*inputs).astype(out.dtype.np, copy=False)
    except np.linalg.LinAlgError:
        raise MXNetError(
            "gesv: Check failed: res <= 0: The factorization has been completed, but the factor U is exactly singular, so "
            "the solution could not be computed."
        ) from None


def _eig(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """On the host: CuPy has no general eigenvalues."""
    a = inputs[0] if xp is np else xp.asnumpy(inputs[0])
    values, vectors = np.linalg.eig(a)
    if np.iscomplexobj(values):
        worst = np.absolute(values.imag).max(initial=0.0)
        raise MXNetError(
            f"Check failed: fabs(wi_ptr[i]) <= 1e-15 ({worst:g} vs. 1e-15) : Complex eigvals is unsupported in linalg temporary."
        )
    return xp.asarray(np.concatenate([vectors, values[..., None, :]], axis=-2).astype(out.dtype.np, copy=False))


# -- derivatives


def _vjp_cholesky(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    """MXNet's, which is symmetric: L**-T * mirror(L**T * g) * L**-1 / 2."""
    upper = swap(b, y)
    middle = _mirror(b, b.dot(upper, g))
    left = b.tri_solve(upper, middle, lower=False)
    return [swap(b, b.tri_solve(upper, swap(b, left), lower=False)) * 0.5]


def _vjp_solve(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    a, lower = inputs[0], params["lower"]
    of_x = b.tri_solve(swap(b, a), g, lower=not lower)
    return [triangle(b, -b.dot(of_x, swap(b, y)), lower), of_x]


def _vjp_inverse(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    transposed = swap(b, y)
    return [-b.dot(b.dot(transposed, g), transposed)]


def _over_matrix(b: Builder, scalars: Node, like: Node) -> Node:
    return b.broadcast(b.reshape(scalars, (*scalars.shape, 1, 1)), like.shape)


def _vjp_det(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    x = inputs[0]
    return [_over_matrix(b, g * y, x) * swap(b, b.inverse_or_zero(x))]


def _vjp_slogdet(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    x = inputs[0]
    of_log = b.reshape(b.slice_axis(g, -1, 1, 2), x.shape[:-2])
    return [_over_matrix(b, of_log, x) * swap(b, b.inverse_or_zero(x))]


def _vjp_lq(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    """L**-T * (gQ + mirror(M) * Q) with M = L**T * gL - gQ * Q**T."""
    n, whole = inputs[0].shape[-1], y.shape[-1]
    q, lower = b.slice_axis(y, -1, 0, n), b.slice_axis(y, -1, n, whole)
    of_q, of_l = b.slice_axis(g, -1, 0, n), b.slice_axis(g, -1, n, whole)
    upper = swap(b, lower)
    middle = b.dot(upper, of_l) - b.dot(of_q, swap(b, q))
    return [b.tri_solve(upper, of_q + b.dot(_mirror(b, middle), q), lower=False)]


def _vjp_eigh(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    """U**T * (Y + diag(gl)) * U, Y[i,j] = (X[i,j] - X[j,i]) / 2(l[i] - l[j]) with X = gU * U**T."""
    n = y.shape[-2]
    u, of_u = b.slice_axis(y, -1, 0, n), b.slice_axis(g, -1, 0, n)
    values, of_values = b.slice_axis(y, -1, n, n + 1), b.slice_axis(g, -1, n, n + 1)
    x = b.dot(of_u, swap(b, u))
    rows, columns = _rows_columns(b, x)
    gap = b.broadcast(values, x.shape) - b.broadcast(swap(b, values), x.shape)
    least = 1e-100 if x.dtype.size > 4 else 1e-30
    size = b.max(b.abs(gap), least)  # equal eigenvalues: as far apart as MXNet takes them to be
    signed = b.select(b.ge(rows, columns), size, -size)
    off = (x - swap(b, x)) * 0.5 / signed
    middle = b.select(b.eq(rows, columns), b.broadcast(of_values, x.shape), off)
    return [b.dot(b.dot(swap(b, u), middle), u)]


def _vjp_general_solve(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    of_x = b.general_solve(swap(b, inputs[0]), g)
    return [-b.dot(of_x, swap(b, y)), of_x]


def _vjp_svd(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    """For a = u * diag(s) * v with square u: u * (F(u) * s + diag(gs) + s * F(v)) * v + u * diag(1/s) * gv * (1 - vT * v),
    where F(w) = (w' - w'T) / (s[j]**2 - s[i]**2) with w' = uT * gu, or v * gvT."""
    m, n = inputs[0].shape[-2:]
    u, s, v = b.slice_axis(y, -1, 0, m), b.slice_axis(y, -1, m, m + 1), b.slice_axis(y, -1, m + 1, m + 1 + n)
    gu, gs, gv = b.slice_axis(g, -1, 0, m), b.slice_axis(g, -1, m, m + 1), b.slice_axis(g, -1, m + 1, m + 1 + n)
    square = (*s.shape[:-1], m)
    of_rows, of_columns = b.broadcast(s, square), b.broadcast(swap(b, s), square)
    gap = (of_columns - of_rows) * (of_columns + of_rows)
    least = 1e-100 if gap.dtype.size > 4 else 1e-30
    signed = b.select(b.ge(gap, 0), b.max(gap, least), b.min(gap, -least))  # equal ones: that far apart

    def turned(w: Node) -> Node:
        return (w - swap(b, w)) / signed

    left = turned(b.dot(swap(b, u), gu)) * of_columns
    right = turned(b.dot(v, swap(b, gv))) * of_rows
    middle = left + right + eye(b, left) * b.broadcast(gs, square)
    beyond = gv - b.dot(b.dot(gv, swap(b, v)), v)
    return [b.dot(u, b.dot(middle, v) + beyond / b.broadcast(s, beyond.shape))]


ROWS = [
    Primitive("cholesky", "library", _square, _cholesky, _vjp_cholesky, doc="lower L of a symmetric positive L * L**T"),
    Primitive("tri_solve", "library", _infer_solve, _solve, _vjp_solve, doc="y of a * y = x for triangular a"),
    Primitive("inverse", "library", _square, _inverse, _vjp_inverse, doc="inverse matrices"),
    Primitive(
        "inverse_or_zero",
        "library",
        _square,
        _inverse_or_zero,
        _vjp_inverse,
        doc="inverse matrices, zero where there is none",
    ),
    Primitive("det", "library", _infer_det, _det, _vjp_det, doc="determinants; the derivative is 0 where they are 0"),
    Primitive("slogdet", "library", _infer_slogdet, _slogdet, _vjp_slogdet, doc="(sign, log of size) of determinants"),
    Primitive("lq", "library", _infer_lq, _lq, _vjp_lq, doc="Q beside L of the factorisation L * Q"),
    Primitive("eigh", "library", _infer_eigh, _eigh, _vjp_eigh, doc="eigenvectors as rows beside the eigenvalues"),
    Primitive("svd", "library", _infer_svd, _svd, _vjp_svd, doc="u, s and v of u * diag(s) * v, side by side"),
    Primitive("eig", "library", _infer_eig, _eig, NO_DERIVATIVE, doc="eigenvectors as columns above the eigenvalues"),
    Primitive(
        "general_solve", "library", _infer_solve, _general_solve, _vjp_general_solve, doc="y of a * y = x for square a"
    ),
]

# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on batches of matrices, the last two axes; float32 and float64.

Products are matrix products that kernels may fuse with their neighbours; factorisations and
triangular systems are library calls.
"""

from __future__ import annotations

import math

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.linalg import eye, swap, triangle
from ..core.dtypes import f64, i64
from ..util import is_np_shape
from .params import Bool, Double, Int, Param, Values
from .record import operator, sample

__all__: list[str] = []

_TRANSPOSE: dict[str, Param] = {
    "transpose_a": Bool(False, "use A transposed"),
    "transpose_b": Bool(False, "use B transposed"),
}
_ALPHA = Double(1.0, "factor of the result")
_AXIS = Int(-2, "axis of the matrix rows; the columns are the last axis")


def _check_float(*inputs: Node) -> None:
    for x in inputs:
        if not x.dtype.is_float or x.dtype.size < 4:
            raise MXNetError("This operation only supports 32-bit and 64-bit floating point")


def _check_square(x: Node, name: str = "") -> None:
    _check_float(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        rows, columns = (1, x.shape[0]) if x.ndim == 1 else (*x.shape[-2:],) if x.ndim else (1, 1)
        if name:
            raise MXNetError(
                f"Check failed: A.size(0) == A.size(1) ({rows} vs. {columns}) : No square matrix as input to {name}."
            )
        raise MXNetError(
            "Check failed: (*in_attrs)[0][ndim-2] == (*in_attrs)[0][ndim-1] "
            f"({rows} vs. {columns}) : Input operand must be a tensor of square matrices"
        )


def _vector(b: Builder, x: Node) -> Node:
    """One number a matrix; without NumPy shape semantics a single one has shape (1,)."""
    return x if x.ndim or is_np_shape() else b.reshape(x, (1,))


# -- products


def _rows_last_but_one(b: Builder, x: Node, axis: int, back: bool = False) -> Node:
    """Move the axis of the rows beside that of the columns, or back from there."""
    perm = [k for k in range(x.ndim) if k != axis]
    perm.insert(x.ndim - 2, axis)
    if back:
        perm = [perm.index(k) for k in range(x.ndim)]
    return b.transpose(x, perm)


def _product(b: Builder, p: Values, A: Node, B: Node) -> tuple[Node, int]:
    """op(A) op(B) with the rows on the last axis but one, and the axis they belong on."""
    _check_float(A, B)
    if A.ndim < 2 or A.ndim != B.ndim:
        raise MXNetError(f"Check failed: inputs need the same number of axes, two at least, not {A.ndim} and {B.ndim}")
    axis = p.axis + A.ndim if p.axis < 0 else p.axis
    if not 0 <= axis < A.ndim - 1:
        raise MXNetError(f"Check failed: axis >= 0 && axis < ndim-1: Invalid row axis ({p.axis})")
    x, y = _rows_last_but_one(b, A, axis), _rows_last_but_one(b, B, axis)
    if x.shape[:-2] != y.shape[:-2]:
        k, (m, n) = next((k, d) for k, d in enumerate(zip(x.shape, y.shape, strict=True)) if d[0] != d[1])
        raise MXNetError(
            f"Check failed: (*in_attrs)[0][i] == (*in_attrs)[1][i] ({m} vs. {n}) : "
            f"Shapes of inputs 0, 1 must be the same, except on row/col axis (axis {k})"
        )
    x = swap(b, x) if p.transpose_a else x
    y = swap(b, y) if p.transpose_b else y
    if x.shape[-1] != y.shape[-2]:
        raise _incompatible(x.shape[-1], y.shape[-2])
    return b.dot(x, y), axis


def _incompatible(m: int, n: int) -> MXNetError:
    return MXNetError(f"Check failed: ({m} vs. {n}) : Incompatible matrix dimensions for multiplication")


@operator(
    "_linalg_gemm linalg_gemm",
    "A B C",
    params={**_TRANSPOSE, "alpha": _ALPHA, "beta": Double(1.0, "factor of C"), "axis": _AXIS},
    samples=(
        sample([(2, 3, 4), (2, 5, 4), (2, 3, 5)], {"transpose_b": True, "alpha": 2, "beta": 0.5}),
        sample([(3, 2, 4), (4, 2, 5), (3, 2, 5)], {"axis": 0}),
    ),
)
def gemm(b: Builder, p: Values, A: Node, B: Node, C: Node) -> Node:
    """alpha * op(A) op(B) + beta * C."""
    product, axis = _product(b, p, A, B)
    y = _rows_last_but_one(b, product, axis, back=True)
    if y.shape != C.shape:
        raise MXNetError(f"Check failed: C has shape {list(C.shape)}, the product of A and B {list(y.shape)}")
    result: Node = y * p.alpha + C * p.beta
    return result


@operator(
    "_linalg_gemm2 linalg_gemm2",
    "A B",
    params={**_TRANSPOSE, "alpha": _ALPHA, "axis": _AXIS},
    samples=(
        sample([(3, 4), (3, 5)], {"transpose_a": True, "alpha": 0.5}),
        sample([(2, 3, 2, 4), (2, 4, 2, 5)], {"axis": 1}),
    ),
)
def gemm2(b: Builder, p: Values, A: Node, B: Node) -> Node:
    """alpha * op(A) op(B)."""
    product, axis = _product(b, p, A, B)
    result: Node = _rows_last_but_one(b, product, axis, back=True) * p.alpha
    return result


@operator(
    "_linalg_syrk linalg_syrk",
    "A",
    params={"transpose": Bool(False, "A**T A instead of A A**T"), "alpha": _ALPHA},
    samples=(
        sample([(2, 3, 4)], {"alpha": 2}),
        sample([(3, 4)], {"transpose": True}),
    ),
)
def syrk(b: Builder, p: Values, A: Node) -> Node:
    """alpha * A A**T."""
    _check_float(A)
    turned = swap(b, A)
    result: Node = (b.dot(turned, A) if p.transpose else b.dot(A, turned)) * p.alpha
    return result


_TRIANGULAR: dict[str, Param] = {
    "transpose": Bool(False, "use A transposed"),
    "rightside": Bool(False, "A stands to the right of B"),
    "lower": Bool(True, "A is lower triangular; the other triangle is not read"),
    "alpha": _ALPHA,
}


def _check_triangular(p: Values, A: Node, B: Node) -> None:
    _check_float(A, B)
    _check_square(A)
    if A.ndim != B.ndim or A.shape[:-2] != B.shape[:-2]:
        raise MXNetError(f"Check failed: the batches of A {list(A.shape)} and B {list(B.shape)} differ")
    if B.shape[-1 if p.rightside else -2] != A.shape[-1]:
        raise _incompatible(B.shape[-1 if p.rightside else -2], A.shape[-1])


@operator(
    "_linalg_trmm linalg_trmm",
    "A B",
    domain=(0.5, 2.0),
    params=dict(_TRIANGULAR),
    samples=(
        sample([(2, 3, 3), (2, 3, 4)], {"alpha": 2}),
        sample([(3, 3), (4, 3)], {"rightside": True, "lower": False}),
        sample([(3, 3), (3, 4)], {"transpose": True}),
    ),
)
def trmm(b: Builder, p: Values, A: Node, B: Node) -> Node:
    """alpha * op(A) B with a triangular A, or alpha * B op(A)."""
    _check_triangular(p, A, B)
    a = triangle(b, A, p.lower)
    a = swap(b, a) if p.transpose else a
    result: Node = (b.dot(B, a) if p.rightside else b.dot(a, B)) * p.alpha
    return result


@operator(
    "_linalg_trsm linalg_trsm",
    "A B",
    domain=(0.5, 2.0),
    params=dict(_TRIANGULAR),
    samples=(
        sample([(2, 3, 3), (2, 3, 4)], {"alpha": 2}),
        sample([(3, 3), (4, 3)], {"rightside": True, "lower": False}),
        sample([(3, 3), (3, 4)], {"transpose": True}),
    ),
)
def trsm(b: Builder, p: Values, A: Node, B: Node) -> Node:
    """alpha * op(A)**-1 B with a triangular A, or alpha * B op(A)**-1."""
    _check_triangular(p, A, B)
    a, lower = (swap(b, A), not p.lower) if p.transpose else (A, p.lower)
    if p.rightside:  # x a = B is a**T x**T = B**T
        y = swap(b, b.tri_solve(swap(b, a), swap(b, B), lower=not lower))
    else:
        y = b.tri_solve(a, B, lower=lower)
    result: Node = y * p.alpha
    return result


# -- factorisations, inverses, determinants


@operator(
    "_linalg_potrf linalg_potrf",
    "A",
    params={"lower": Bool(True, "else the upper triangular U of A = U**T U, from the upper triangle")},
    domain=(0.5, 2.0),
    samples=(sample([(4, 1, 1)]), sample([(4, 1, 1)], {"lower": False})),
)
def potrf(b: Builder, p: Values, A: Node) -> Node:
    """The lower triangular L of a symmetric positive definite A = L L**T. Only the lower triangle of A is read;
    its gradient is symmetric."""
    _check_square(A, "potrf")
    return b.cholesky(A) if p.lower else swap(b, b.cholesky(swap(b, A)))


@operator(
    "_linalg_potri linalg_potri",
    "A",
    params={"lower": Bool(True, "else (A**T A)**-1 for an upper triangular A")},
    domain=(0.5, 2.0),
    samples=(
        sample([(4, 1, 1)]),
        sample([(2, 3, 3)]),
        sample([(2, 3, 3)], {"lower": False}),
    ),
)
def potri(b: Builder, p: Values, A: Node) -> Node:
    """(A A**T)**-1 for a lower triangular A, which is the inverse of what potrf factorised."""
    _check_square(A, "potri")
    lower = A if p.lower else swap(b, A)
    inverse = b.tri_solve(lower, eye(b, A), lower=True)
    return b.dot(swap(b, inverse), inverse)


@operator(
    "_linalg_inverse linalg_inverse _npi_inv",
    "A",
    domain=(0.5, 2.0),
    samples=(
        sample([(4, 1, 1)]),
        sample([(2, 2)]),
    ),
)
def inverse(b: Builder, p: Values, A: Node) -> Node:
    """Inverse matrices."""
    _check_square(A)
    return b.inverse(A)


@operator(
    "_linalg_det linalg_det _npi_det",
    "A",
    np_shape=True,
    domain=(0.5, 2.0),
    kept=2,  # factors and pivots
    samples=(
        sample([(3, 3)]),
        sample([(2, 2, 2, 2)]),
    ),
)
def det(b: Builder, p: Values, A: Node) -> Node:
    """Determinants. The gradient is 0 where the determinant is."""
    _check_square(A)
    return _vector(b, b.det(A))


@operator(
    "_linalg_slogdet linalg_slogdet _npi_slogdet",
    "A",
    np_shape=True,
    domain=(0.5, 2.0),
    outputs=2,
    kept=2,  # factors and pivots
    samples=(
        sample([(3, 3)]),
        sample([(2, 2, 2, 2)]),
    ),
)
def slogdet(b: Builder, p: Values, A: Node) -> tuple[Node, Node]:
    """Signs of the determinants, and logarithms of their sizes. No gradient passes through the signs."""
    _check_square(A)
    both = b.slogdet(A)
    batch = both.shape[:-1]
    sign = b.stop_gradient(b.reshape(b.slice_axis(both, -1, 0, 1), batch))
    return _vector(b, sign), _vector(b, b.reshape(b.slice_axis(both, -1, 1, 2), batch))


@operator(
    "_linalg_gelqf linalg_gelqf",
    "A",
    outputs=2,
    samples=(
        sample([(2, 2, 3)]),
        sample([(3, 3)]),
    ),
)
def gelqf(b: Builder, p: Values, A: Node) -> tuple[Node, Node]:
    """Q and L of A = L Q: L lower triangular, the rows of Q orthonormal. A has at most as many rows as columns."""
    _check_float(A)
    if A.ndim < 2 or A.shape[-2] > A.shape[-1]:
        raise MXNetError(
            f"Check failed: in_a[ndim-2] <= in_a[ndim-1] ({' vs. '.join(map(str, A.shape[-2:]))}) : "
            "Input A shape wrong: Last dimension must be >= than second to last"
        )
    both, n = b.lq(A), A.shape[-1]
    return b.slice_axis(both, -1, 0, n), b.slice_axis(both, -1, n, both.shape[-1])


@operator(
    "_linalg_syevd",
    "A",
    outputs=2,
    samples=(sample([(3, 1, 1)]),),
)
def syevd(b: Builder, p: Values, A: Node) -> tuple[Node, Node]:
    """U and L of a symmetric A = U**T diag(L) U: eigenvectors as rows, eigenvalues ascending.

    Only the lower triangle of A is read. The entry of largest size of each eigenvector is positive.
    """
    _check_square(A)
    both, n = b.eigh(A), A.shape[-1]
    values = b.slice_axis(both, -1, n, n + 1)
    return b.slice_axis(both, -1, 0, n), b.reshape(values, A.shape[:-1])


# -- diagonals and triangles


def diagonal(b: Builder, x: Node, k: int) -> Node:
    """The k-th diagonals of the last two axes, as the last axis."""
    m, n = x.shape[-2:]
    start = k if k >= 0 else -k * n
    count = max(min(m, n - k) if k >= 0 else min(m + k, n), 0)
    flat = b.reshape(x, (*x.shape[:-2], m * n))
    if not count:
        return b.slice(flat, (0,) * flat.ndim, (*flat.shape[:-1], 0))
    begin, step = (*(0,) * (flat.ndim - 1), start), (*(1,) * (flat.ndim - 1), n + 1)
    return b.slice(flat, begin, (*flat.shape[:-1], start + (count - 1) * (n + 1) + 1), step)


def matrix_of_diagonal(b: Builder, x: Node, k: int) -> Node:
    """Square matrices whose k-th diagonal is the last axis, zero elsewhere."""
    n = x.shape[-1] + abs(k)
    lead = (0,) * (x.ndim - 1)
    line = b.pad(x, low=(*lead, max(k, 0)), high=(*lead, max(-k, 0)), value=0) if k else x
    shape = (*x.shape[:-1], n, n)
    wide = b.broadcast(b.reshape(line, (*x.shape[:-1], 1, n)), shape)
    here = b.eq(b.iota(shape, x.ndim, i64), b.iota(shape, x.ndim - 1, i64) + k)
    return b.select(here, wide, b.full_like(wide, 0))


def _check_offset(n: int, offset: int) -> int:
    if n - abs(offset) <= 0:
        raise MXNetError(
            f"Check failed: n > 0 ({n - abs(offset)} vs. 0) : "
            f"Illegal offset {offset} for diag/trian extraction of matrix with dimension {n}"
        )
    return n - abs(offset)


@operator(
    "_linalg_sumlogdiag linalg_sumlogdiag",
    "A",
    np_shape=True,
    domain=(0.5, 2.0),
    samples=(
        sample([(3, 3)]),
        sample([(2, 4, 4)]),
    ),
)
def sumlogdiag(b: Builder, p: Values, A: Node) -> Node:
    """Sums of the logarithms of the diagonals."""
    _check_square(A)
    line = diagonal(b, A, 0)
    return _vector(b, b.sum(b.log(line), (line.ndim - 1,)))


@operator(
    "_linalg_extractdiag linalg_extractdiag",
    "A",
    params={"offset": Int(0, "above (or below) the main one")},
    samples=(
        sample([(3, 3)]),
        sample([(2, 4, 4)], {"offset": 1}),
        sample([(4, 4)], {"offset": -2}),
    ),
)
def extractdiag(b: Builder, p: Values, A: Node) -> Node:
    """Diagonals of square matrices."""
    _check_square(A)
    _check_offset(A.shape[-1], p.offset)
    return diagonal(b, A, p.offset)


@operator(
    "_linalg_makediag linalg_makediag",
    "A",
    params={"offset": Int(0, "above (or below) the main one")},
    samples=(
        sample([(3,)]),
        sample([(2, 4)], {"offset": 1}),
        sample([(2, 2)], {"offset": -2}),
    ),
)
def makediag(b: Builder, p: Values, A: Node) -> Node:
    """Square matrices with the input on a diagonal."""
    _check_float(A)
    return matrix_of_diagonal(b, A, p.offset)


_TRIANGLE: dict[str, Param] = {
    "offset": Int(0, "diagonal that bounds the triangle, which lies above it if positive, below it if negative"),
    "lower": Bool(True, "with offset 0: the lower triangle"),
}


def _is_lower(p: Values) -> bool:
    return bool(p.offset < 0 or (p.offset == 0 and p.lower))


@operator(
    "_linalg_extracttrian linalg_extracttrian",
    "A",
    params=dict(_TRIANGLE),
    samples=(
        sample([(3, 3)]),
        sample([(2, 4, 4)], {"offset": 1}),
        sample([(4, 4)], {"lower": False}),
        sample([(5, 5)], {"offset": -2}),
    ),
)
def extracttrian(b: Builder, p: Values, A: Node) -> Node:
    """Triangles of square matrices as vectors: lower ones row by row, upper ones column by column."""
    _check_square(A)
    n = A.shape[-1]
    m = _check_offset(n, p.offset)
    # entry q of a packed lower triangle stands in row r = floor((sqrt(8q + 1) - 1) / 2), exactly in double
    q = b.iota((m * (m + 1) // 2,), 0, i64)
    r = b.cast(b.floor((b.sqrt(b.cast(q, f64) * 8 + 1) - 1) * 0.5), i64)
    c = q - r * (r + 1) / 2
    shift = abs(p.offset)
    flat = (r + shift) * n + c if _is_lower(p) else c * n + r + shift
    return b.take(b.reshape(A, (*A.shape[:-2], n * n)), flat, axis=A.ndim - 2)


@operator(
    "_linalg_maketrian linalg_maketrian",
    "A",
    params=dict(_TRIANGLE),
    samples=(
        sample([(6,)]),
        sample([(2, 3)], {"offset": 1}),
        sample([(10,)], {"lower": False}),
        sample([(3,)], {"offset": -2}),
    ),
)
def maketrian(b: Builder, p: Values, A: Node) -> Node:
    """Square matrices with a triangle from vectors, zero elsewhere: what extracttrian takes apart."""
    _check_float(A)
    total = A.shape[-1]
    m = (math.isqrt(8 * total + 1) - 1) // 2
    if m * (m + 1) // 2 != total:
        m += 1
        raise MXNetError(
            f"Check failed: (m*(m+1))/2 == n ({m * (m + 1) // 2} vs. {total}) : "
            "Input tensor of maketrian has an invalid dimension for the last axis."
        )
    shift = abs(p.offset)
    n = m + shift
    rows, columns = b.iota((n, n), 0, i64), b.iota((n, n), 1, i64)
    r, c = (rows, columns) if _is_lower(p) else (columns, rows)
    r = r - shift
    inside = b.logical_and(b.ge(r, 0), b.le(c, r))
    q = r * (r + 1) / 2 + c
    at = b.select(inside, q, b.full_like(q, 0))
    y = b.take(A, at, axis=A.ndim - 1)
    return b.select(b.broadcast(inside, y.shape), y, b.full_like(y, 0))

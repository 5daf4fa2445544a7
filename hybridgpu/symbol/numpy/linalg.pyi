# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.sym.np.linalg``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.symbol.numpy.symbol import _Symbol

_Array: TypeAlias = _Symbol
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def cholesky(a: _Array) -> _Array:
    """The lower triangular L of a symmetric positive definite a = L L.T."""
def cond(x: _Array | float, p: Any = None) -> _Array:
    """Condition numbers of matrices: the norm ``p`` times that of the inverse."""
def det(a: _Array) -> _Array:
    """Determinants."""
def eig(a: _Array) -> tuple[_Array, _Array]:
    """Eigenvalues, which must be real, and eigenvectors as columns."""
def eigh(a: _Array, UPLO: str = 'L') -> tuple[_Array, _Array]:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors as columns."""
def eigvals(a: _Array) -> _Array:
    """Eigenvalues, which must be real."""
def eigvalsh(a: _Array, UPLO: str = 'L') -> _Array:
    """Eigenvalues of symmetric matrices, ascending."""
def inv(a: _Array) -> _Array:
    """Inverse matrices."""
def lstsq(a: _Array, b: _Array, rcond: _Array | float | str | None = 'warn') -> _Array:
    """x with the least a x - b, the sums of its squares, the rank of a, and its singular values."""
def matrix_power(a: _Array, n: int) -> _Array:
    """A matrix multiplied with itself; for a negative ``n`` its inverse with itself."""
def matrix_rank(A: _Array, tol: float | None = None, hermitian: bool = False) -> _Array:
    """The ranks of matrices: how many singular values are larger than ``tol``."""
def multi_dot(arrays: Sequence[_Array], *, out: _Array | None = None) -> _Array:
    """The product of several matrices in the order that multiplies least; of Symbols, whose shapes are not known, from the left."""
def norm(x: _Array | float, ord: int | float | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> _Array:
    """The norm of vectors or matrices: 'fro', 'nuc', 'inf' (or infinity) and their negatives, or a number."""
def pinv(a: _Array, rcond: _Array | float | str | None = 1e-15, hermitian: bool = False) -> _Array:
    """Pseudo-inverses; singular values up to the fraction ``rcond`` of the largest count as zero."""
def qr(a: _Array, mode: str = 'reduced') -> _Array:
    """Q with orthonormal columns and an upper triangular R with a = Q R; only R with the mode 'r'."""
def slogdet(a: _Array) -> tuple[_Array, _Array]:
    """Signs and logarithms of the sizes of determinants."""
def solve(a: _Array, b: _Array) -> _Array:
    """x of a x = b."""
def svd(a: _Array) -> tuple[_Array, _Array, _Array]:
    """ut, s and v of a = ut diag(s) v; a has at most as many rows as columns."""
def tensorinv(a: _Array, ind: int = 2) -> _Array:
    """The inverse of the matrix whose rows are the first ``ind`` axes."""
def tensorsolve(a: _Array, b: _Array, axes: Any = None) -> _Array:
    """x of tensordot(a, x, x.ndim) = b; the ``axes`` of a are moved to the end first."""

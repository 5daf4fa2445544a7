# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.nd.linalg``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.ndarray import NDArray

_Array: TypeAlias = NDArray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def det(A: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Determinants. The gradient is 0 where the determinant is."""
def extractdiag(A: _Array, offset: int = 0, *, out: Any = None, name: str | None = None) -> _Array:
    """Diagonals of square matrices."""
def extracttrian(A: _Array, offset: int = 0, lower: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """Triangles of square matrices as vectors: lower ones row by row, upper ones column by column."""
def gelqf(A: _Array, *, out: Any = None, name: str | None = None) -> list[_Array]:
    """Q and L of A = L Q: L lower triangular, the rows of Q orthonormal. A has at most as many rows as columns."""
def gemm(A: _Array, B: _Array, C: _Array, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, beta: float = 1.0, axis: int = -2, *, out: Any = None, name: str | None = None) -> _Array:
    """alpha * op(A) op(B) + beta * C."""
def gemm2(A: _Array, B: _Array, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, axis: int = -2, *, out: Any = None, name: str | None = None) -> _Array:
    """alpha * op(A) op(B)."""
def inverse(A: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Inverse matrices."""
def makediag(A: _Array, offset: int = 0, *, out: Any = None, name: str | None = None) -> _Array:
    """Square matrices with the input on a diagonal."""
def maketrian(A: _Array, offset: int = 0, lower: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """Square matrices with a triangle from vectors, zero elsewhere: what extracttrian takes apart."""
def potrf(A: _Array, lower: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """The lower triangular L of a symmetric positive definite A = L L**T. Only the lower triangle of A is read;"""
def potri(A: _Array, lower: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """(A A**T)**-1 for a lower triangular A, which is the inverse of what potrf factorised."""
def slogdet(A: _Array, *, out: Any = None, name: str | None = None) -> list[_Array]:
    """Signs of the determinants, and logarithms of their sizes. No gradient passes through the signs."""
def sumlogdiag(A: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Sums of the logarithms of the diagonals."""
def syevd(A: _Array, *, out: Any = None, name: str | None = None) -> list[_Array]:
    """U and L of a symmetric A = U**T diag(L) U: eigenvectors as rows, eigenvalues ascending."""
def syrk(A: _Array, transpose: bool = False, alpha: float = 1.0, *, out: Any = None, name: str | None = None) -> _Array:
    """alpha * A A**T."""
def trmm(A: _Array, B: _Array, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0, *, out: Any = None, name: str | None = None) -> _Array:
    """alpha * op(A) B with a triangular A, or alpha * B op(A)."""
def trsm(A: _Array, B: _Array, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0, *, out: Any = None, name: str | None = None) -> _Array:
    """alpha * op(A)**-1 B with a triangular A, or alpha * B op(A)**-1."""

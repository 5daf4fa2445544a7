# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.sym.linalg``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.symbol.symbol import Symbol

_Array: TypeAlias = Symbol
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def det(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Determinants. The gradient is 0 where the determinant is."""
def extractdiag(A: _Array | None = None, offset: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Diagonals of square matrices."""
def extracttrian(A: _Array | None = None, offset: int = 0, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Triangles of square matrices as vectors: lower ones row by row, upper ones column by column."""
def gelqf(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Q and L of A = L Q: L lower triangular, the rows of Q orthonormal. A has at most as many rows as columns."""
def gemm(A: _Array | None = None, B: _Array | None = None, C: _Array | None = None, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, beta: float = 1.0, axis: int = -2, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A) op(B) + beta * C."""
def gemm2(A: _Array | None = None, B: _Array | None = None, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, axis: int = -2, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A) op(B)."""
def inverse(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse matrices."""
def makediag(A: _Array | None = None, offset: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Square matrices with the input on a diagonal."""
def maketrian(A: _Array | None = None, offset: int = 0, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Square matrices with a triangle from vectors, zero elsewhere: what extracttrian takes apart."""
def potrf(A: _Array | None = None, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The lower triangular L of a symmetric positive definite A = L L**T. Only the lower triangle of A is read;"""
def potri(A: _Array | None = None, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """(A A**T)**-1 for a lower triangular A, which is the inverse of what potrf factorised."""
def slogdet(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Signs of the determinants, and logarithms of their sizes. No gradient passes through the signs."""
def sumlogdiag(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sums of the logarithms of the diagonals."""
def syevd(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """U and L of a symmetric A = U**T diag(L) U: eigenvectors as rows, eigenvalues ascending."""
def syrk(A: _Array | None = None, transpose: bool = False, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * A A**T."""
def trmm(A: _Array | None = None, B: _Array | None = None, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A) B with a triangular A, or alpha * B op(A)."""
def trsm(A: _Array | None = None, B: _Array | None = None, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A)**-1 B with a triangular A, or alpha * B op(A)**-1."""

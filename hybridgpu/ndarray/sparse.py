# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.sparse``: on dense arrays, which all arrays are, its functions are those of ``mx.nd``.

What makes sparse arrays, or is about their parts, raises one error. The classes are there for ``isinstance``.
"""

from __future__ import annotations

from typing import Any

from ..frontend.namespaces import Namespace
from ..hints.absent_member import AbsentMember
from . import creation
from .apply import apply_function
from .creation import empty as _empty
from .creation import zeros as _zeros
from .ndarray import NDArray
from .storage_types import need_dense, refuse_sparse

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add",
    "array",
    "csr_matrix",
    "divide",
    "empty",
    "multiply",
    "row_sparse_array",
    "subtract",
    "zeros",
]

add, subtract, multiply, divide = (getattr(creation, n) for n in ("add", "subtract", "multiply", "divide"))
_operators = Namespace("sparse", apply_function, "ndarray")


class BaseSparseNDArray(NDArray):
    """The base of sparse arrays, of which there are none."""

    __slots__ = ()
    check_format = AbsentMember("ndarray.sparse.BaseSparseNDArray")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_sparse(type(self).__name__)


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed rows."""

    __slots__ = ()
    asscipy = AbsentMember("ndarray.sparse.CSRNDArray")
    data = AbsentMember("ndarray.sparse.CSRNDArray")
    indices = AbsentMember("ndarray.sparse.CSRNDArray")
    indptr = AbsentMember("ndarray.sparse.CSRNDArray")


class RowSparseNDArray(BaseSparseNDArray):
    """An array of which few rows are not zero."""

    __slots__ = ()
    data = AbsentMember("ndarray.sparse.RowSparseNDArray")
    indices = AbsentMember("ndarray.sparse.RowSparseNDArray")
    retain = AbsentMember("ndarray.sparse.RowSparseNDArray")


def csr_matrix(arg1: Any, shape: Any = None, ctx: Any = None, dtype: Any = None) -> CSRNDArray:
    """A matrix in compressed rows.

    Raises:
        MXNetError: always.
    """
    refuse_sparse("csr_matrix")


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Any = None, dtype: Any = None) -> RowSparseNDArray:
    """An array of which few rows are not zero.

    Raises:
        MXNetError: always.
    """
    refuse_sparse("row_sparse_array")


def zeros(stype: str, shape: Any, ctx: Any = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Zeros, with ``stype`` 'default'.

    Raises:
        MXNetError: another storage type.
        ValueError: what is none.
    """
    need_dense("zeros", stype)
    return _zeros(shape, ctx, dtype, **kwargs)


def empty(stype: str, shape: Any, ctx: Any = None, dtype: Any = None) -> NDArray:
    """An array whose values nobody knows, with ``stype`` 'default'.

    Raises:
        MXNetError: another storage type.
        ValueError: what is none.
    """
    need_dense("empty", stype)
    return _empty(shape, ctx, dtype)


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> NDArray:
    """A sparse array of another one, or of a SciPy matrix.

    Raises:
        AssertionError: a dense array, as in MXNet.
        MXNetError: a SciPy matrix.
        ValueError: anything else, as in MXNet.
    """
    assert not isinstance(source_array, NDArray), (
        "Please use `tostype` to create RowSparseNDArray or CSRNDArray from an NDArray"
    )
    if hasattr(source_array, "toarray"):
        refuse_sparse("sparse.array")
    raise ValueError("Unexpected source_array type: ", type(source_array))


def __getattr__(name: str) -> Any:
    value = getattr(_operators, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_operators)})

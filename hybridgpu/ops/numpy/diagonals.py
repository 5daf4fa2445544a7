# SPDX-License-Identifier: Apache-2.0
"""Operators and functions of np about diagonals and triangles."""

from __future__ import annotations

from typing import Any

from ...base import MXNetError, ParameterError
from ...compiler.ir import Builder, Node
from ...core.dtypes import i64
from ..elementwise import need_number
from ..linalg import diagonal, matrix_of_diagonal
from ..params import Int, Param, Values
from ..record import operator, sample, shape_text
from .application import np_function
from .reduce import given
from .shape import np_axis

__all__: list[str] = []

_K: dict[str, Param] = {"k": Int(0, "which diagonal, above the main one if positive")}
_PLANE: dict[str, Param] = {
    "offset": Int(0, "which diagonal, above the main one if positive"),
    "axis1": Int(0, "rows"),
    "axis2": Int(1, "columns"),
}
_PLANES = (
    sample([(3, 4)], {"offset": 1}),
    sample([(2, 3, 4)], {"offset": -1, "axis1": 2, "axis2": 0}),
    sample([(2, 3)], {"offset": 5}),
    sample([(0, 3)]),
)


def _out_of_range(k: int, ndim: int) -> MXNetError:
    return MXNetError(f"Check failed: i >= 0 && i < ndim(): index = {k} must be in range [0, {ndim})")


@operator(
    "_np_diag",
    params=dict(_K),
    samples=(sample([(4,)], {"k": -1}), sample([(3, 5)], {"k": 1}), sample([(2, 3)], {"k": 4}), sample([(0,)])),
)
def diag(b: Builder, p: Values, data: Node) -> Node:
    """The diagonal of a matrix; of a vector: the matrix with that diagonal."""
    if data.ndim > 2:
        raise MXNetError(f"Check failed: ishape.ndim() <= 2 ({data.ndim} vs. 2) : Input must be 1- or 2-d")
    if not data.ndim:
        raise _out_of_range(0, 0)
    return matrix_of_diagonal(b, data, p.k) if data.ndim == 1 else diagonal(b, data, p.k)


@operator(
    "_np_diagflat", params=dict(_K), samples=(sample([(2, 2)]), sample([(3,)], {"k": 2}), sample([(2, 2)], {"k": -1}))
)
def diagflat(b: Builder, p: Values, data: Node) -> Node:
    """The matrix whose diagonal is the flattened array."""
    if not data.ndim:
        raise MXNetError("Diagonal does not exist.")
    return matrix_of_diagonal(b, b.reshape(data, (data.size,)), p.k)


def _in_plane(b: Builder, p: Values, data: Node) -> Node:
    """The diagonals of a plane as the last axis."""
    one, two = np_axis(p.axis1, data.ndim), np_axis(p.axis2, data.ndim)
    if one == two:
        raise MXNetError(
            f"Check failed: x1 != x2 ({one} vs. {two}) : axis1 and axis2 cannot refer to the same axis {one}"
        )
    rest = [k for k in range(data.ndim) if k not in (one, two)]
    return diagonal(b, b.transpose(data, [*rest, one, two]), p.offset)


def _need_plane(data: Node) -> None:
    if data.ndim < 2:
        raise MXNetError(f"Check failed: ishape.ndim() >= 2 ({data.ndim} vs. 2) : Input array should be at least 2d")


@operator("_np_diagonal", params=dict(_PLANE), samples=_PLANES)
def diagonal_(b: Builder, p: Values, data: Node) -> Node:
    """The diagonals of a plane of two axes, as the last axis."""
    _need_plane(data)
    return _in_plane(b, p, data)


@operator("_np_trace", params=dict(_PLANE), samples=_PLANES)
def trace(b: Builder, p: Values, data: Node) -> Node:
    """The sums of the diagonals of a plane of two axes."""
    need_number(data)
    _need_plane(data)
    y = _in_plane(b, p, data)
    return b.sum(y, (y.ndim - 1,))


@operator(
    "_npi_tril",
    params=dict(_K),
    samples=(sample([(3, 4)]), sample([(2, 3, 3)], {"k": 1}), sample([(3,)], {"k": -1}), sample([(0, 3)])),
)
def tril(b: Builder, p: Values, data: Node) -> Node:
    """Matrices with zeros above a diagonal; of a vector a matrix with it in every row."""
    if not data.ndim:
        raise _out_of_range(1, 0)
    x = data if data.ndim > 1 else b.broadcast(b.reshape(data, (1, data.shape[0])), (data.shape[0],) * 2)
    row, column = (b.iota(x.shape, axis, i64) for axis in (x.ndim - 2, x.ndim - 1))
    return b.select(b.le(column, row + p.k), x, b.full_like(x, 0))


@operator(
    "_npi_diag_indices_from",
    differentiable=False,
    result_dtype=lambda p, d: i64,
    samples=(sample([(3, 3)]), sample([(2, 2, 2)])),
)
def diag_indices_from(b: Builder, p: Values, data: Node) -> Node:
    """The positions of the main diagonal, a row of int64 an axis."""
    if data.ndim < 2:
        raise ParameterError(
            f"Check failed: ishape.ndim() >= 2 ({data.ndim} vs. 2) : Input array should be at least 2d"
        )
    for d in data.shape:
        if d != data.shape[0]:
            raise ParameterError(
                f"Check failed: ishape[i] == size ({d} vs. {data.shape[0]}) : All dimensions of input must be of equal "
                f"length, not {shape_text(data.shape)}"
            )
    return b.iota((data.ndim, data.shape[0]), 1, i64)


def _of_diagonal(word: str, doc: str) -> None:
    def function(F: Any, array: Any, k: int = 0, out: Any = None, name: str | None = None, **kwargs: Any) -> Any:
        return F.invoke(f"_np_{word}", (array,), {**({"k": k} if k else {}), **kwargs}, out, name)

    function.__doc__ = doc
    np_function(word)(function)


_of_diagonal("diag", "The k-th diagonal of a matrix, or the matrix with a vector as its k-th diagonal.")
_of_diagonal("diagflat", "The matrix whose k-th diagonal is the flattened array.")


def _plane(offset: int, axis1: int, axis2: int) -> dict[str, Any]:
    return given(offset=offset or None, axis1=axis1 or None, axis2=None if axis2 == 1 else axis2)


@np_function("diagonal")
def diagonal_of(
    F: Any,
    a: Any,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """The diagonals of a plane of two axes, as the last axis."""
    return F.invoke("_np_diagonal", (a,), {**_plane(offset, axis1, axis2), **kwargs}, out, name)


@np_function("trace")
def trace_of(
    F: Any,
    a: Any,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """The sums of the diagonals of a plane of two axes."""
    return F.invoke("_np_trace", (a,), {**_plane(offset, axis1, axis2), **kwargs}, out, name)


@np_function("tril")
def tril_of(F: Any, m: Any, k: int = 0) -> Any:
    """Matrices with zeros above the k-th diagonal."""
    return F.invoke("_npi_tril", (m,), {"k": k})


@np_function("diag_indices_from")
def diag_indices_of(F: Any, arr: Any) -> tuple[Any, ...]:
    """The positions of the main diagonal, an array of int64 an axis."""
    indices = F.invoke("_npi_diag_indices_from", (arr,))
    return indices if F.symbolic else tuple(indices)  # a graph has them as the rows of one array

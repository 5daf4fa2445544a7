# SPDX-License-Identifier: Apache-2.0
"""Sorting and what counts along an axis: sort, argsort, topk, cumsum, histogram.

Equal elements keep their order. With axis None the flattened array is sorted.
"""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import bool_, f64, i64
from .params import Bool, Dtype, Enum, Floats, Int, Values
from .record import operator, sample, shape_text
from .shape import axis_of

__all__: list[str] = []

_AXIS = Int(-1, "the axis; None for the flattened array", optional=True)


def _line(b: Builder, data: Node, axis: int | None) -> tuple[Node, int]:
    """The array to sort and the axis to sort along."""
    if data.dtype is bool_:
        raise MXNetError("Unknown type enum 7")
    if axis is None:
        return b.reshape(data, (data.size,)), 0
    if not -data.ndim <= axis < data.ndim:
        raise MXNetError(
            "Check failed: *axis >= 0 && *axis < static_cast<int>(src_shape.ndim()): "
            f"Invalid axis! axis should be between 0 and {data.ndim}, found axis={axis}"
        )
    return data, axis % data.ndim


@operator(
    "sort _npi_sort",
    params={"axis": _AXIS, "is_ascend": Bool(True, "ascending")},
    outputs=2,
    visible=1,
    method="sort",
    samples=(
        sample([(3, 7)], {"axis": 0}),
        sample([(2, 5, 4)], {"axis": -1, "is_ascend": False}),
        sample([(3, 4)], {"axis": None}),
        sample([(0, 3)]),
    ),
)
def sort(b: Builder, p: Values, data: Node) -> tuple[Node, Node]:
    """The elements in order along an axis."""
    x, axis = _line(b, data, p.axis)
    order = b.argsort(x, axis=axis, ascending=p.is_ascend)
    return b.take_along(x, order, axis=axis), order


@operator(
    "argsort _npi_argsort",
    params={"axis": _AXIS, "is_ascend": Bool(True, "ascending"), "dtype": Dtype("float32", "type of the indices")},
    method="argsort",
    differentiable=False,
    samples=(
        sample([(3, 7)], {"axis": 0, "dtype": "int32"}),
        sample([(2, 5, 4)], {"is_ascend": False}),
        sample([(3, 4)], {"axis": None}),
    ),
)
def argsort(b: Builder, p: Values, data: Node) -> Node:
    """The positions of the elements in order along an axis."""
    x, axis = _line(b, data, p.axis)
    return b.cast(b.argsort(x, axis=axis, ascending=p.is_ascend), p.dtype)


@operator(
    "topk _npx_topk",
    params={
        "axis": _AXIS,
        "k": Int(1, "how many; all if less than 1"),
        "ret_typ": Enum("indices", "what to return", choices=("both", "indices", "mask", "value")),
        "is_ascend": Bool(False, "the smallest instead of the largest"),
        "dtype": Dtype("float32", "type of the indices"),
    },
    outputs=lambda p: 1 if p.ret_typ in ("indices", "mask") else 2,
    visible=lambda p: 2 if p.ret_typ == "both" else 1,
    result_dtype=lambda p, d: p.dtype if p.ret_typ == "indices" else d[0],
    method="topk",
    samples=(
        sample([(3, 7)], {"k": 3}),
        sample([(3, 7)], {"k": 2, "ret_typ": "both", "axis": 0, "is_ascend": True}),
        sample([(2, 5)], {"k": 2, "ret_typ": "mask"}),
        sample([(2, 5)], {"k": 4, "ret_typ": "value", "axis": None}),
        sample([(2, 5)], {"k": 0, "dtype": "int64"}),
    ),
)
def topk(b: Builder, p: Values, data: Node) -> Node | tuple[Node, Node]:
    """The k largest (or smallest) elements along an axis: their values, indices, both, or a mask of them."""
    x, axis = _line(b, data, p.axis)
    extent = x.shape[axis]
    if p.k > extent:
        raise MXNetError(f"Check failed: *k >= 0 && *k <= *element_num: k must be smaller than {extent}, get k = {p.k}")
    count = p.k if p.k > 0 else extent
    order = b.argsort(x, axis=axis, ascending=p.is_ascend)
    order = b.slice_axis(order, axis, 0, count)
    if p.ret_typ == "indices":
        return b.cast(order, p.dtype)
    if p.ret_typ == "mask":
        ones = b.full(order.shape, 1, x.dtype)
        return b.reshape(b.scatter_along(ones, order, axis=axis, extent=extent), data.shape)
    return b.take_along(x, order, axis=axis), b.cast(order, p.dtype)


@operator(
    "_np_cumsum cumsum",
    "a",
    params={"axis": Int(None, "the axis; None for the flattened array"), "dtype": Dtype(None, "type of the result")},
    samples=(
        sample([(3, 7)]),
        sample([(3, 7)], {"axis": 0}),
        sample([(2, 3, 4)], {"axis": 1, "dtype": "float64"}),
    ),
)
def cumsum(b: Builder, p: Values, a: Node) -> Node:
    """Running sums along an axis, in the type of the result (int64 for bool)."""
    if p.axis is None:
        x, axis = b.reshape(a, (a.size,)), 0
    else:
        if not -a.ndim <= p.axis < a.ndim:
            raise MXNetError(
                "Check failed: !axis.has_value() || ((axis.value() >= -out.shape_.ndim()) && axis.value() < "
                f"out.shape_.ndim()): axis value {p.axis} out of range"
            )
        x, axis = a, axis_of(p.axis, a.ndim)
    dtype = p.dtype or (i64 if a.dtype is bool_ else a.dtype)
    return b.cumsum(b.cast(x, dtype), axis=axis)


def _histogram_inputs(p: Values) -> list[str]:
    return ["data"] if p.bin_cnt is not None else ["data", "bins"]


@operator(
    "_histogram _npi_histogram",
    "data bins",
    params={
        "bin_cnt": Int(None, "number of bins of equal width, with ``range``"),
        "range": Floats(None, "(lowest, highest) value counted", single=False),
    },
    optional=_histogram_inputs,
    outputs=2,
    differentiable=False,
    samples=(
        sample([(5, 9)], {"bin_cnt": 4, "range": (-2, 2)}),
        sample([(7,), (4,)]),
    ),
)
def histogram(b: Builder, p: Values, data: Node, bins: Node | None = None) -> tuple[Node, Node]:
    """Numbers of elements (int64) between edges, and the edges. The last bin holds its upper edge too."""
    if data.dtype is bool_:
        data = b.cast(data, f64)  # there are no edges of truth values
    x = b.reshape(data, (data.size,))
    if bins is not None:
        return _count_between(b, x, bins), b.copy(bins)
    if p.range is None or len(p.range) != 2:
        raise MXNetError("Check failed: has_range: bin_cnt needs a range of two numbers, such as range=(0, 1)")
    low, high = p.range
    count = p.bin_cnt
    if count < 1 or not low <= high:
        raise MXNetError(f"Check failed: bin_cnt > 0 and range[0] <= range[1]: got {count} bins over ({low}, {high})")
    edges = b.iota((count + 1,), 0, f64) * ((high - low) / count) + low
    edges = b.select(b.eq(b.iota(edges.shape, 0, i64), count), b.full_like(edges, high), edges)
    edges = b.cast(edges, data.dtype)
    # the quotient may be one bin off by rounding: the edges decide
    wide, width = b.cast(x, f64), high - low
    inside = b.logical_and(b.ge(wide, low), b.le(wide, high))
    guess = (wide - low) * (count / width) if width else b.full_like(wide, 0)
    at = b.max(b.min(b.cast(b.select(inside, guess, b.full_like(guess, 0)), i64), count - 1), 0)
    below = b.lt(x, b.take(edges, at, axis=0))
    at = b.select(b.logical_and(below, b.gt(at, 0)), at - 1, at)
    above = b.logical_and(b.ge(x, b.take(edges, at + 1, axis=0)), b.lt(at + 1, count))
    at = b.select(above, at + 1, at)
    return b.scatter_add(b.cast(inside, i64), at, axis=0, extent=count), edges


def _count_between(b: Builder, x: Node, bins: Node) -> Node:
    count = bins.size - 1
    if bins.ndim != 1 or count < 1:
        raise MXNetError(f"Check failed: bins must be a vector of at least two edges, not {shape_text(bins.shape)}")
    edges = b.broadcast(b.reshape(bins, (1, count + 1)), (x.size, count + 1))
    values = b.broadcast(b.reshape(x, (x.size, 1)), edges.shape)
    position: Any = b.sum(b.cast(b.ge(values, edges), i64), (1,)) - 1
    last = b.broadcast(b.slice(bins, (count,), (count + 1,)), x.shape)
    position = b.select(b.eq(x, last), b.full_like(position, count - 1), position)
    inside = b.logical_and(b.ge(position, 0), b.lt(position, count))
    return b.scatter_add(b.cast(inside, i64), b.max(b.min(position, count - 1), 0), axis=0, extent=count)

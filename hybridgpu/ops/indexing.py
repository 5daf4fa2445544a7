# SPDX-License-Identifier: Apache-2.0
"""Reads and writes at computed positions: take, pick, Embedding, one_hot, gather and scatter.

Indices may be floats, which are cut towards zero. Out of range indices clip by default, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import bool_, i64
from ..hints.op_errors import refusal
from .params import Bool, Double, Dtype, Enum, Int, Shape, Values
from .record import operator, sample, shape_text, tuple_text
from .shape import axis_of, second_without_axis

__all__ = ["bounded"]


def bounded(b: Builder, at: Node, extent: int, mode: str) -> Node:
    """Integer positions within 0 … extent - 1, by clipping or wrapping.

    ``raise`` looks for positions out of range where a host computes eagerly; kernels wrap them.
    """
    at = b.cast(at, i64)
    if mode == "raise":
        return b.wrap_index(at, extent, axis=None)
    if mode == "wrap":
        return b.mod(at, extent)
    return b.max(b.min(at, extent - 1), 0)


@operator(
    "take _npi_take",
    "a indices",
    params={
        "axis": Int(0, "axis to read along"),
        "mode": Enum("clip", "out of range", choices=("clip", "raise", "wrap")),
    },
    dtypes="**",
    method="take",
    no_gradient=("indices",),
    samples=(
        sample([(4, 5), (3,)], None, {1: (-2, 6)}),
        sample([(2, 3, 4), (2, 2)], {"axis": 1, "mode": "wrap"}, {1: (-7, 7)}),
        sample([(4, 5), (0,)], {"axis": -1}, {1: (0, 0)}),
        sample([(1,), (1,)], None, {1: (0, 0)}),
    ),
)
def take(b: Builder, p: Values, a: Node, indices: Node) -> Node:
    """Entries of ``a`` along an axis; the shape of ``indices`` takes the place of the axis."""
    axis = axis_of(p.axis, a.ndim)
    return b.take(a, bounded(b, indices, a.shape[axis], p.mode), axis=axis)


@operator(
    "batch_take",
    "a indices",
    dtypes="**",
    samples=(sample([(4, 5), (4,)], None, {1: (-1, 5)}), sample([(1, 1), (1,)], None, {1: (0, 0)})),
)
def batch_take(b: Builder, p: Values, a: Node, indices: Node) -> Node:
    """One entry of each row: a[i, indices[i]]."""
    at = b.reshape(bounded(b, indices, a.shape[1], "clip"), (a.shape[0], 1))
    return b.reshape(b.take_along(a, at, axis=1), indices.shape)


@operator(
    "pick choose_element_0index _npx_pick",
    "data index",
    params={
        "axis": Int(-1, "axis to pick along; None for the flattened array", optional=True),
        "keepdims": Bool(False, "keep the axis with extent 1"),
        "mode": Enum("clip", "out of range", choices=("clip", "wrap")),
    },
    dtypes="**",
    infer_inputs=second_without_axis,
    method="pick",
    no_gradient=("index",),
    samples=(
        sample([(3, 4), (3,)], None, {1: (-2, 5)}),
        sample([(2, 3, 4), (2, 4)], {"axis": 1, "mode": "wrap"}, {1: (-4, 7)}),
        sample([(2, 3), (2, 1)], {"keepdims": True}, {1: (0, 2)}),
        sample([(3, 4), (2,)], {"axis": None}, {1: (0, 11)}),
        sample([(0, 4), (0,)], None, {1: (0, 3)}),
    ),
)
def pick(b: Builder, p: Values, data: Node, index: Node) -> Node:
    """One entry along an axis for every position of the other axes."""
    if p.axis is None:
        flat = b.reshape(data, (data.size,))
        return b.take(flat, bounded(b, index, data.size, p.mode), axis=0)
    axis = axis_of(p.axis, data.ndim)
    index_shape = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    if index.size != data.size // max(data.shape[axis], 1):
        expected = index_shape if index.ndim == data.ndim else (*data.shape[:axis], *data.shape[axis + 1 :])
        text = f"Shape inconsistent, Provided = {shape_text(index.shape)}, inferred shape={shape_text(expected)}"
        if index.shape == data.shape:
            raise refusal(
                text,
                f"The index is as large as the data, but names one element along axis {axis}: take its argmax, "
                "or, if it is labels that are probabilities, write SoftmaxCrossEntropyLoss(sparse_label=False).",
            )
        raise MXNetError(text)
    y = b.take_along(data, bounded(b, b.reshape(index, index_shape), data.shape[axis], p.mode), axis=axis)
    dropped = (*data.shape[:axis], *data.shape[axis + 1 :])
    return y if p.keepdims else b.reshape(y, dropped or (1,))


@operator(
    "one_hot _npx_one_hot",
    "indices",
    params={
        "depth": Int(doc="extent of the new axis", low=0),
        "on_value": Double(1.0),
        "off_value": Double(0.0),
        "dtype": Dtype("float32", "element type"),
    },
    method="one_hot",
    differentiable=False,
    samples=(
        sample([(5,)], {"depth": 4}, {0: (-1, 5)}),
        sample([(2, 3)], {"depth": 3, "on_value": 2, "off_value": -1, "dtype": "int32"}, {0: (0, 2)}),
        sample([(0,)], {"depth": 3}, {0: (0, 2)}),
    ),
)
def one_hot(b: Builder, p: Values, indices: Node) -> Node:
    """A new last axis that is ``on_value`` at the index; indices out of range give no ``on_value``."""
    shape = (*indices.shape, p.depth)
    at = b.broadcast(b.reshape(b.cast(indices, i64), (*indices.shape, 1)), shape)
    hit = b.eq(at, b.iota(shape, indices.ndim, i64))
    return b.select(hit, b.full(shape, p.on_value, p.dtype), b.full(shape, p.off_value, p.dtype))


def _embedding_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    return [shapes[0], (p.input_dim, p.output_dim)]


@operator(
    "Embedding _npx_embedding",
    "data weight",
    params={
        "input_dim": Int(doc="rows of the table", low=1),
        "output_dim": Int(doc="length of a row", low=1),
        "dtype": Dtype("float32", "type of the table"),
        "sparse_grad": Bool(False, "accepted; gradients are dense"),
    },
    dtypes="**",
    infer_inputs=_embedding_shapes,
    infer_dtypes=lambda p, d: [d[0], d[1] or p.dtype],
    result_dtype=lambda p, d: d[1] or p.dtype,
    no_gradient=("data",),
    samples=(
        sample([(4,), (6, 3)], {"input_dim": 6, "output_dim": 3}, {0: (-1, 7)}),
        sample([(2, 3), (5, 40)], {"input_dim": 5, "output_dim": 40}, {0: (0, 4)}),
        sample([(0,), (5, 4)], {"input_dim": 5, "output_dim": 4}, {0: (0, 4)}),
    ),
)
def embedding(b: Builder, p: Values, data: Node, weight: Node) -> Node:
    """Rows of a table: weight[data], indices clipped."""
    if weight.shape != (p.input_dim, p.output_dim):
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(weight.shape)}, inferred shape={tuple_text((p.input_dim, p.output_dim))}"
        )
    if data.dtype is bool_:
        raise MXNetError("Check failed: Embedding indices cannot be bool")
    return b.take(weight, bounded(b, data, p.input_dim, "clip"), axis=0)


# -- several axes at once: the first axis of the indices counts the axes of the data


def _flat_positions(b: Builder, indices: Node, shape: Sequence[int]) -> Node:
    """Numbers of the rows that columns of ``indices`` name, as if the indexed axes were one."""
    total: Any = None
    for axis, extent in enumerate(shape):
        at = b.wrap_index(b.cast(b.item(indices, axis), i64), extent, axis=axis)
        total = at if total is None else total * extent + at
    return total  # type: ignore[no-any-return]


@operator(
    "gather_nd _npx_gather_nd _npi_gather_nd",
    "data indices",
    dtypes="**",
    no_gradient=("indices",),
    samples=(
        sample([(3, 4), (2, 5)], positions={1: (-3, 2)}),
        sample([(3, 2, 4), (1, 2, 3)], positions={1: (0, 2)}),
    ),
)
def gather_nd(b: Builder, p: Values, data: Node, indices: Node) -> Node:
    """Entries (or slices) of ``data`` at the positions that the columns of ``indices`` name."""
    if indices.ndim < 2:
        raise MXNetError(
            f"Check failed: ishape.ndim() > 1 ({indices.ndim} vs. 1) : gather_nd requires index tensor to have at least 2 dimensions"
        )
    count = indices.shape[0]
    if count > data.ndim:
        raise MXNetError(
            f"Check failed: ishape[0] <= dshape.ndim() ({count} vs. {data.ndim}) : Number of indices exceeds data dimension"
        )
    rows = b.reshape(data, (prod(data.shape[:count]), *data.shape[count:]))
    y = b.take(rows, _flat_positions(b, indices, data.shape[:count]), axis=0)
    return y if y.ndim else b.reshape(y, (1,))


def _scattered(b: Builder, into: Node, updates: Node, indices: Node) -> Node:
    """``into`` with entries replaced."""
    shape = into.shape
    count = indices.shape[0] if indices.ndim else 0
    if (
        not 0 < count <= len(shape)
        or indices.shape[1:] != updates.shape[: indices.ndim - 1]
        or updates.shape[indices.ndim - 1 :] != shape[count:]
    ):
        raise MXNetError(
            "Check failed: valid: Invalid data, indices, and output shape combination for scatter_nd: "
            f"{shape_text(updates.shape)}, {shape_text(indices.shape)}, {shape_text(shape)}"
        )
    at = _flat_positions(b, indices, shape[:count])
    rows = b.reshape(into, (prod(shape[:count]), *shape[count:]))
    new = b.reshape(updates, (at.size, *shape[count:]))
    return b.reshape(b.scatter_set(rows, new, b.reshape(at, (at.size,))), shape)


@operator(
    "scatter_nd",
    "data indices",
    params={"shape": Shape(doc="extents of the result")},
    dtypes="**",
    no_gradient=("indices",),
    samples=(
        sample([(1,), (2, 1)], {"shape": (3, 4)}, {1: (0, 2)}),
        sample([(1, 4), (1, 1)], {"shape": (3, 4)}, {1: (0, 2)}),
    ),
)
def scatter_nd(b: Builder, p: Values, data: Node, indices: Node) -> Node:
    """Zeros with the entries of ``data`` at the positions that the columns of ``indices`` name."""
    return _scattered(b, b.full(p.shape, 0, data.dtype), data, indices)


@operator(
    "_scatter_set_nd _npi_scatter_set_nd",
    "lhs rhs indices",
    params={"shape": Shape(doc="extents of lhs")},
    dtypes="TT*",
    samples=(sample([(3, 4), (1,), (2, 1)], {"shape": (3, 4)}, {2: (0, 2)}),),
)
def scatter_set_nd(b: Builder, p: Values, lhs: Node, rhs: Node, indices: Node) -> Node:
    """lhs with the entries of rhs at the positions that the columns of ``indices`` name."""
    return _scattered(b, lhs, rhs, indices)


@operator(
    "_contrib_index_copy",
    "old_tensor index_vector new_tensor",
    dtypes="T*T",
    samples=(sample([(4, 3), (1,), (1, 3)], positions={1: (0, 3)}),),
)
def index_copy(b: Builder, p: Values, old_tensor: Node, index_vector: Node, new_tensor: Node) -> Node:
    """The old array with rows replaced by those of the new one."""
    if index_vector.ndim != 1 or new_tensor.shape != (*index_vector.shape, *old_tensor.shape[1:]):
        raise MXNetError(
            f"Check failed: index_copy of {shape_text(new_tensor.shape)} into {shape_text(old_tensor.shape)} "
            f"at rows of {shape_text(index_vector.shape)}"
        )
    at = b.wrap_index(b.cast(index_vector, i64), old_tensor.shape[0], axis=0)
    return b.scatter_set(old_tensor, new_tensor, at)


@operator(
    "fill_element_0index", "lhs mhs rhs", dtypes="TT*", samples=(sample([(3, 4), (3,), (3,)], positions={2: (0, 3)}),)
)
def fill_element_0index(b: Builder, p: Values, lhs: Node, mhs: Node, rhs: Node) -> Node:
    """lhs with entry rhs[i] of row i replaced by mhs[i]."""
    if lhs.ndim != 2 or mhs.shape != lhs.shape[:1] or rhs.shape != lhs.shape[:1]:
        raise MXNetError(
            f"Check failed: fill_element_0index needs a matrix and two vectors as long as it, not "
            f"{shape_text(lhs.shape)}, {shape_text(mhs.shape)} and {shape_text(rhs.shape)}"
        )
    column = (lhs.shape[0], 1)
    here = b.eq(b.iota(lhs.shape, 1, i64), b.broadcast(b.reshape(b.cast(rhs, i64), column), lhs.shape))
    return b.select(here, b.broadcast(b.reshape(mhs, column), lhs.shape), lhs)


# -- numbers of elements and their coordinates


@operator(
    "_unravel_index unravel_index",
    params={"shape": Shape(None, "extents of the array; the first may be -1")},
    differentiable=False,
    samples=(
        sample([(4,)], {"shape": (3, 4)}, {0: (0, 11)}),
        sample([(2, 3)], {"shape": (-1, 4, 5)}, {0: (0, 100)}),
    ),
    named=True,
)
def unravel_index(b: Builder, p: Values, data: Node) -> Node:
    """Coordinates of flat positions: a new first axis, one entry an axis of ``shape``."""
    if not p.shape:
        raise MXNetError("Check failed: unravel_index needs a shape")
    rest, coordinates = b.stop_gradient(b.cast(data, i64)), []
    for extent in p.shape[:0:-1]:
        above = rest / extent
        coordinates.append(rest - above * extent)
        rest = above
    coordinates.append(rest)
    rows = [b.reshape(x, (1, *data.shape)) for x in reversed(coordinates)]
    return b.cast(b.concat(rows, 0), data.dtype)


@operator(
    "_ravel_multi_index ravel_multi_index",
    params={"shape": Shape(None, "extents of the array; the first may be -1")},
    differentiable=False,
    samples=(
        sample([(2, 5)], {"shape": (3, 4)}, {0: (0, 2)}),
        sample([(3, 2, 2)], {"shape": (-1, 4, 5)}, {0: (0, 3)}),
    ),
    named=True,
)
def ravel_multi_index(b: Builder, p: Values, data: Node) -> Node:
    """Flat positions of coordinates, which stand along the first axis."""
    ndim = len(p.shape or ())
    if not data.ndim or data.shape[0] != ndim or not ndim:
        raise MXNetError(
            f"Check failed: (*in_attrs)[0][0] == shape.ndim() ({data.shape[0] if data.ndim else 0} vs. {ndim}) : "
            "First dimension of input of ravel operator does not match shape parameter dimension."
        )
    total: Any = None
    for axis, extent in enumerate(p.shape):
        at = b.stop_gradient(b.cast(b.item(data, axis), i64))
        total = at if total is None else total * extent + at
    y = b.cast(total, data.dtype)
    return y if y.ndim else b.reshape(y, (1,))


# -- results whose extent depends on values


def _check_mask(p: Values, data: Any, index: Any) -> None:
    if p.axis != 0:
        raise MXNetError(f"Check failed: axis == 0 ({p.axis} vs. 0) : Not supported yet")
    if index.ndim != 1 or not data.ndim or data.shape[0] != index.shape[0]:
        raise MXNetError(
            f"Check failed: data.shape()[axis] == idx.shape()[0] ({data.shape[0] if data.ndim else 0} vs. {index.shape[0] if index.ndim else 0})"
        )


def _mask(xp: Any, p: Values, data: Any, index: Any) -> list[Any]:
    _check_mask(p, data, index)
    return [xp.ascontiguousarray(data[index != 0])]


def _mask_gradient(xp: Any, p: Values, cotangents: Any, inputs: Any, outputs: Any) -> list[Any]:
    data, index = inputs
    g = xp.zeros_like(data)
    g[index != 0] = cotangents[0]
    return [g, xp.zeros_like(index)]


@operator(
    "_contrib_boolean_mask _npi_boolean_mask",
    "data index",
    params={"axis": Int(0, "the axis; only the first one")},
    dtypes="**",
    eager=_mask,
    eager_gradient=_mask_gradient,
    samples=(
        sample([(4, 3), (4,)], positions={1: (0, 1)}),
        sample([(4,), (4,)], positions={1: (0, 1)}),
    ),
)
def boolean_mask(b: Builder, p: Values, data: Node, index: Node) -> Node:
    """The rows where ``index`` is not zero. How many there are depends on values, so a program ends here."""
    raise MXNetError(
        "boolean_mask: the shape of the result depends on values, which a graph of fixed shapes does not have\n"
        "Multiply by the mask instead, or call it on arrays."
    )

# SPDX-License-Identifier: Apache-2.0
"""Reads at computed positions: take, pick, Embedding, one_hot.

Indices may be floats, which are cut towards zero. Out of range indices clip by default, as in MXNet.
"""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..dtypes import bool_, i64
from .params import Bool, Dtype, Enum, Float, Int, Values
from .record import operator, shape_text, tuple_text
from .shape import axis_of

__all__ = ["bounded"]


def bounded(b: Builder, at: Node, extent: int, mode: str) -> Node:
    """Integer positions within 0 … extent - 1, by clipping or wrapping."""
    at = b.cast(at, i64)
    if mode == "wrap":
        return b.mod(at, extent)
    return b.max(b.min(at, extent - 1), 0)


@operator(
    "take",
    "a indices",
    params={
        "axis": Int(0, "axis to read along"),
        "mode": Enum("clip", "out of range", choices=("clip", "raise", "wrap")),
    },
    dtypes="**",
    method="take",
)
def take(b: Builder, p: Values, a: Node, indices: Node) -> Node:
    """Entries of ``a`` along an axis; the shape of ``indices`` takes the place of the axis."""
    axis = axis_of(p.axis, a.ndim)
    return b.take(a, bounded(b, indices, a.shape[axis], p.mode), axis=axis)


@operator("batch_take", "a indices", dtypes="**")
def batch_take(b: Builder, p: Values, a: Node, indices: Node) -> Node:
    """One entry of each row: a[i, indices[i]]."""
    at = b.reshape(bounded(b, indices, a.shape[1], "clip"), (a.shape[0], 1))
    return b.reshape(b.take_along(a, at, axis=1), indices.shape)


@operator(
    "pick choose_element_0index",
    "data index",
    params={
        "axis": Int(-1, "axis to pick along; None for the flattened array", optional=True),
        "keepdims": Bool(False, "keep the axis with extent 1"),
        "mode": Enum("clip", "out of range", choices=("clip", "wrap")),
    },
    dtypes="**",
    method="pick",
)
def pick(b: Builder, p: Values, data: Node, index: Node) -> Node:
    """One entry along an axis for every position of the other axes."""
    if p.axis is None:
        flat = b.reshape(data, (data.size,))
        return b.take(flat, bounded(b, index, data.size, p.mode), axis=0)
    axis = axis_of(p.axis, data.ndim)
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    if index.size != data.size // max(data.shape[axis], 1):
        raise MXNetError(
            f"Check failed: pick: index of {shape_text(index.shape)} does not fit data of {shape_text(data.shape)} along axis {axis}"
        )
    y = b.take_along(data, bounded(b, b.reshape(index, kept), data.shape[axis], p.mode), axis=axis)
    dropped = (*data.shape[:axis], *data.shape[axis + 1 :])
    return y if p.keepdims else b.reshape(y, dropped or (1,))


@operator(
    "one_hot",
    "indices",
    params={
        "depth": Int(doc="extent of the new axis", low=0),
        "on_value": Float(1.0),
        "off_value": Float(0.0),
        "dtype": Dtype("float32", "element type"),
    },
    method="one_hot",
    differentiable=False,
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
    "Embedding",
    "data weight",
    params={
        "input_dim": Int(doc="rows of the table", low=1),
        "output_dim": Int(doc="length of a row", low=1),
        "dtype": Dtype("float32", "type of the table"),
        "sparse_grad": Bool(False, "accepted; gradients are dense"),
    },
    dtypes="**",
    infer_inputs=_embedding_shapes,
    result_dtype=lambda p, d: d[1] or p.dtype,
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

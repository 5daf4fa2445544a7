# SPDX-License-Identifier: Apache-2.0
"""Reads at computed positions. Indices are integers within bounds: lowerings clip or wrap first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.dtypes import i32, i64
from ..ir.graph import Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type
from .prepared import PreparedEvaluation

__all__ = ["ROWS", "add_at", "need_entries"]


def need_entries(extent: int, positions: int) -> None:
    """Refuse to read or write entries where there are none: no position is within bounds there."""
    if positions and not extent:
        raise MXNetError("Check failed: there are positions along an axis that has no entries")


def _infer_take(types: Sequence[TensorType], params: Params) -> TensorType:
    data, at, axis = types[0], types[1], params["axis"]
    if not at.dtype.is_integer or not 0 <= axis < data.ndim:
        raise TypeError(f"take of {data!r} along {axis} by {at!r}")
    result = tensor_type((*data.shape[:axis], *at.shape, *data.shape[axis + 1 :]), data.dtype)
    need_entries(data.shape[axis], result.size)
    return result


def _infer_take_along(types: Sequence[TensorType], params: Params) -> TensorType:
    data, at, axis = types[0], types[1], params["axis"]
    same = all(i == axis or d == e for i, (d, e) in enumerate(zip(data.shape, at.shape, strict=False)))
    if not at.dtype.is_integer or data.ndim != at.ndim or not same:
        raise TypeError(f"take_along of {data!r} along {axis} by {at!r}")
    need_entries(data.shape[axis], at.size)
    return tensor_type(at.shape, data.dtype)


def _prepare_take_along(
    xp: Any, shapes: Sequence[tuple[int, ...]], params: Params, out: TensorType
) -> Callable[..., Any]:
    """The index along the other axes is made once."""
    axis, extents = params["axis"], out.shape
    others = [xp.arange(d).reshape((-1,) + (1,) * (out.ndim - i - 1)) for i, d in enumerate(extents)]
    before, after = tuple(others[:axis]), tuple(others[axis + 1 :])

    def chosen(data: Any, at: Any) -> Any:
        index = (*before, at, *after)
        return data[index]

    return chosen


def _vjp_take(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.scatter_add(g, inputs[1], axis=params["axis"], extent=inputs[0].shape[params["axis"]]), None]


def _vjp_take_along(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    data, at, axis = *inputs, params["axis"]
    if at.shape[axis] == 1:  # nothing adds up: a comparison, which fuses with what is around it
        wide = i64 if data.shape[axis] > 1 << 30 else i32
        chosen = b.eq(b.iota(data.shape, axis, wide), b.broadcast(b.cast(at, wide), data.shape))
        return [b.select(chosen, b.broadcast(g, data.shape), b.full(data.shape, 0, g.dtype)), None]
    return [b.scatter_along(g, at, axis=axis, extent=data.shape[axis]), None]


def _infer_scatter_add(types: Sequence[TensorType], params: Params) -> TensorType:
    updates, at, axis = types[0], types[1], params["axis"]
    if updates.shape[axis : axis + at.ndim] != at.shape or not at.dtype.is_integer:
        raise TypeError(f"scatter_add of {updates!r} along {axis} by {at!r}")
    need_entries(params["extent"], updates.size)
    return tensor_type((*updates.shape[:axis], params["extent"], *updates.shape[axis + at.ndim :]), updates.dtype)


#: types that CuPy's atomic additions lack -> those that hold their sums
_WIDER = {"bfloat16": np.float32, "int8": np.int32, "uint8": np.int32, "int16": np.int32, "uint16": np.int32}


def add_at(xp: Any, y: Any, index: Any, values: Any) -> None:
    """``y[index] += values``, where positions may repeat."""
    wide = None if xp is np else _WIDER.get(y.dtype.name)
    if wide is None:
        xp.add.at(y, index, values)
        return
    sums = y.astype(wide)
    xp.add.at(sums, index, values.astype(wide))
    y[...] = sums.astype(y.dtype)


def _evaluate_scatter_add(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    updates, at = inputs
    axis = params["axis"]
    y = xp.zeros(out.shape, out.dtype.np)
    before = out.shape[:axis]
    flat = updates.reshape((*before, at.size, *out.shape[axis + 1 :]))
    add_at(xp, xp.moveaxis(y, axis, 0), at.reshape(-1), xp.moveaxis(flat, axis, 0))
    return y


def _infer_scatter_along(types: Sequence[TensorType], params: Params) -> TensorType:
    updates, axis = types[0], params["axis"]
    if updates.shape != types[1].shape or not types[1].dtype.is_integer:
        raise TypeError(f"scatter_along of {updates!r} by {types[1]!r}")
    need_entries(params["extent"], updates.size)
    return tensor_type((*updates.shape[:axis], params["extent"], *updates.shape[axis + 1 :]), updates.dtype)


def _evaluate_scatter_along(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    updates, at = inputs
    y = xp.zeros(out.shape, out.dtype.np)
    grid = list(xp.meshgrid(*[xp.arange(d) for d in at.shape], indexing="ij", sparse=True))
    grid[params["axis"]] = at
    add_at(xp, y, tuple(grid), updates)
    return y


ROWS = [
    Primitive(
        "take",
        "index",
        _infer_take,
        lambda xp, inputs, params, out: xp.take(inputs[0], inputs[1], axis=params["axis"]),
        _vjp_take,
        doc="entries along an axis, the index array's shape in its place",
        moves=True,
    ),
    Primitive(
        "take_along",
        "index",
        _infer_take_along,
        PreparedEvaluation(_prepare_take_along),
        _vjp_take_along,
        doc="one entry along an axis for every position of the index array",
        moves=True,
    ),
    Primitive(
        "scatter_add",
        "index",
        _infer_scatter_add,
        _evaluate_scatter_add,
        lambda b, g, y, inputs, params: [b.take(g, inputs[1], axis=params["axis"]), None],
        doc="the transpose of take: repeated indices add up",
    ),
    Primitive(
        "scatter_along",
        "index",
        _infer_scatter_along,
        _evaluate_scatter_along,
        lambda b, g, y, inputs, params: [b.take_along(g, inputs[1], axis=params["axis"]), None],
        doc="the transpose of take_along: repeated indices add up",
    ),
]

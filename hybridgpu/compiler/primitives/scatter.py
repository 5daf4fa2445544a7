# SPDX-License-Identifier: Apache-2.0
"""Writes at computed positions that replace, and positions that are checked where that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import MXNetError
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive
from ..ir.types import TensorType, joint_type
from .gather import need_entries

__all__ = ["ROWS"]


def _infer_scatter_set(types: Sequence[TensorType], params: Params) -> TensorType:
    data, updates, at = types
    if (
        not at.dtype.is_integer
        or at.ndim != 1
        or data.ndim < 1
        or updates.dtype is not data.dtype
        or updates.shape != (*at.shape, *data.shape[1:])
    ):
        raise TypeError(f"scatter_set of {updates!r} into {data!r} at {at!r}")
    need_entries(data.shape[0], updates.size)
    return data


def _evaluate_scatter_set(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    data, updates, at = inputs
    y = xp.array(data)
    y[at] = updates
    return y


def _vjp_scatter_set(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    _, updates, at = inputs
    return [b.scatter_set(g, b.full_like(updates, 0), at), b.take(g, at, axis=0), None]


def _infer_wrap(types: Sequence[TensorType], params: Params) -> TensorType:
    if not types[0].dtype.is_integer or joint_type(types[0], types[1]) is None:
        raise TypeError(f"wrap_index of {types[0]!r} by {types[1]!r}")
    return types[0]


def _evaluate_wrap(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    at, extent = inputs
    axis = params["axis"]
    if xp is np:  # on the host a look at every index is cheap; a device is not stopped for it
        beyond = (at >= extent) | (at < (0 if axis is None else -extent))
        if beyond.any():
            if axis is None:
                raise MXNetError("Check failed: is_valid: take operator contains indices out of bound")
            first, size = np.broadcast_to(at, beyond.shape)[beyond].flat[0], np.max(extent)
            raise IndexError(f"index {first} is out of bounds for axis {axis} with size {size}")
    return xp.where(at < 0, at + extent, at) % xp.maximum(extent, 1)


ROWS = [
    Primitive(
        "scatter_set",
        "index",
        _infer_scatter_set,
        _evaluate_scatter_set,
        _vjp_scatter_set,
        doc="rows of the first operand replaced by those of the second; of repeated positions the last one wins",
        moves=True,
    ),
    Primitive(
        "wrap_index",
        "elementwise",
        _infer_wrap,
        _evaluate_wrap,
        NO_DERIVATIVE,
        "hg::mod({0}, {1})",
        8,
        "positions counted from the end where negative; IndexError out of range, which kernels wrap instead",
        checks=True,
    ),
]

# SPDX-License-Identifier: Apache-2.0
"""The order of elements along an axis. Sorted values are a ``take_along`` by it, with its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import i64
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if not 0 <= params["axis"] < types[0].ndim:
        raise TypeError(f"argsort of {types[0]!r} along axis {params['axis']}")
    return tensor_type(types[0].shape, i64)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    x, axis = inputs[0], params["axis"]
    if params["ascending"]:
        return xp.argsort(x, axis=axis, kind="stable").astype(out.dtype.np, copy=False)
    # the reverse of a stable order of the reversed array is descending, and equal elements keep their order
    order = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return (x.shape[axis] - 1 - xp.flip(order, axis)).astype(out.dtype.np, copy=False)


ROWS = [
    Primitive(
        "argsort",
        "sort",
        _infer,
        _evaluate,
        NO_DERIVATIVE,
        doc="positions in ascending or descending order along an axis; equal elements keep their order",
    )
]

# SPDX-License-Identifier: Apache-2.0
"""The order of elements along an axis. Sorted values are a ``take_along`` by it, with its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtypes import i64
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]

_MIN_PACKED = 2048  #: elements of which a packed order takes less than a stable one
_PACKED_TYPES = frozenset(map(np.dtype, ("f4", "f2", "i4")))
_POSITION_BITS = np.uint64(32)
_SIGN = 0x80000000


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if not 0 <= params["axis"] < types[0].ndim:
        raise TypeError(f"argsort of {types[0]!r} along axis {params['axis']}")
    return tensor_type(types[0].shape, i64)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    x, axis = inputs[0], params["axis"]
    if xp is np and x.size >= _MIN_PACKED and x.dtype in _PACKED_TYPES:
        return _packed_order(x, axis, params["ascending"])
    if params["ascending"]:
        return xp.argsort(x, axis=axis, kind="stable").astype(out.dtype.np, copy=False)
    # the reverse of a stable order of the reversed array is descending, and equal elements keep their order
    order = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return (x.shape[axis] - 1 - xp.flip(order, axis)).astype(out.dtype.np, copy=False)


def _packed_order(x: Any, axis: int, ascending: bool) -> Any:
    """The order by sorting words of the element above its position: NumPy has vectors for a sort, but none for a stable order."""
    keys = _keys(np.moveaxis(x, axis, -1))
    words = (keys if ascending else ~keys).astype(np.uint64)
    words <<= _POSITION_BITS
    words |= np.arange(x.shape[axis], dtype=np.uint64)
    words.sort(axis=-1)
    words &= np.uint64(0xFFFFFFFF)
    return np.ascontiguousarray(np.moveaxis(words.view(np.int64), -1, axis))


def _keys(x: Any) -> Any:
    """32 bits of each element that are ordered as the elements are: both zeros are equal, so is every NaN, above all others."""
    if x.dtype.kind != "f":
        return x.astype(np.int32).view(np.uint32) ^ np.uint32(_SIGN)
    floats = x.astype(np.float32)
    floats += np.float32(0)  # no negative zero
    np.copyto(floats, np.nan, where=np.isnan(floats))  # the positive one
    bits = floats.view(np.uint32)
    return bits ^ ((bits.view(np.int32) >> 31).view(np.uint32) | np.uint32(_SIGN))


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

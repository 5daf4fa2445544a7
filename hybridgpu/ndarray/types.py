# SPDX-License-Identifier: Apache-2.0
"""Types of arrays: shape, element type and context, one object each."""

from __future__ import annotations

from typing import Any

from ..compiler.ir.types import TensorType, tensor_type
from ..context import Context
from ..dtypes import DType, dtype_of

__all__ = ["ArrayType", "array_type"]


class ArrayType:
    """Shape, element type and context, interned; make it with :func:`array_type`."""

    __slots__ = ("ctx", "tensor")

    def __init__(self, tensor: TensorType, ctx: Context) -> None:
        self.tensor, self.ctx = tensor, ctx

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __repr__(self) -> str:
        return f"{self.tensor!r}@{self.ctx}"


_TYPES: dict[Any, ArrayType] = {}


def array_type(shape: tuple[int, ...], dtype: Any, ctx: Context) -> ArrayType:
    """The one ArrayType of this shape, element type and context."""
    key = (shape, dtype, ctx.device_typeid, ctx.device_id)
    found = _TYPES.get(key)
    if found is None:
        tensor = tensor_type(tuple(int(d) for d in shape), dtype_of(dtype))
        found = _TYPES.setdefault(key, ArrayType(tensor, ctx))
    return found

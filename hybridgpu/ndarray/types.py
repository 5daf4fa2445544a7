# SPDX-License-Identifier: Apache-2.0
"""Types of arrays: shape, element type and context, one object each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compiler.ir.types import TensorType, tensor_type
from ..context import Context
from ..core.dtypes import DType, dtype_of

if TYPE_CHECKING:
    from .versions import Family

__all__ = ["ArrayType", "VersionedType", "array_type"]


class ArrayType:
    """Shape, element type and context, interned; make it with :func:`array_type`.

    Attributes:
        family: those that share the array's memory, where that may be exchanged for other memory (``ndarray/versions.py``).
        plain: the interned type, which arrays in memory of their own have.
    """

    __slots__ = ("ctx", "plain", "tensor")
    family: Family | None = None

    def __init__(self, tensor: TensorType, ctx: Context) -> None:
        self.tensor, self.ctx, self.plain = tensor, ctx, self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __repr__(self) -> str:
        return f"{self.tensor!r}@{self.ctx}"


class VersionedType(ArrayType):
    """The type of one array whose memory may be exchanged: prepared calls, which compare types, never take the array."""

    __slots__ = ("family",)

    def __init__(self, plain: ArrayType, family: Family) -> None:
        super().__init__(plain.tensor, plain.ctx)
        self.family, self.plain = family, plain


_TYPES: dict[Any, ArrayType] = {}


def array_type(shape: tuple[int, ...], dtype: Any, ctx: Context) -> ArrayType:
    """The one ArrayType of this shape, element type and context."""
    key = (shape, dtype, ctx.device_typeid, ctx.device_id)
    cached = _TYPES.get(key)
    if cached is None:
        tensor = tensor_type(tuple(int(d) for d in shape), dtype_of(dtype))
        cached = _TYPES.setdefault(key, ArrayType(tensor, ctx))
    return cached

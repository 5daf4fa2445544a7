# SPDX-License-Identifier: Apache-2.0
"""Shape and element type of a value, interned: equal types are the same object."""

from __future__ import annotations

from functools import cached_property
from math import prod

from ...dataclass import dataclass
from ...dtypes import DType

__all__ = ["TensorType", "tensor_type"]


@dataclass(frozen=True, eq=False)
class TensorType:
    """A dense, row-major tensor type. Make it with :func:`tensor_type`; compare with ``is``."""

    shape: tuple[int, ...]
    dtype: DType

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.size * self.dtype.size

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Row-major strides in elements."""
        strides, step = [], 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return tensor_type, (self.shape, self.dtype)


_TYPES: dict[tuple[tuple[int, ...], DType], TensorType] = {}


def tensor_type(shape: tuple[int, ...], dtype: DType) -> TensorType:
    """The one TensorType of this shape and dtype (threads may call at once: setdefault is atomic)."""
    key = (shape, dtype)
    found = _TYPES.get(key)
    return found if found is not None else _TYPES.setdefault(key, TensorType(shape, dtype))

# SPDX-License-Identifier: Apache-2.0
"""Shape and element type of a value, interned: equal types are the same object."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from ...base import MXNetError
from ...core.dataclass import dataclass
from ...core.dtypes import DType
from .dim_texts import report_text
from .dims import Dim, scope_of, symbolic

__all__ = ["TensorType", "joint_type", "tensor_type"]


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
        return f"{self.dtype.short}[{','.join(map(report_text, self.shape))}]"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return tensor_type, (self.shape, self.dtype)


_MOST_AXES = int(getattr(np, "MAXDIMS", 64))  #: that NumPy's arrays can have
_LARGEST = (1 << 63) - 1  #: bytes of an array: sizes and positions are signed numbers of 64 bits everywhere


def _check_size(shape: tuple[int, ...], dtype: DType) -> None:
    """
    Raises:
        MXNetError: there are too many axes, an extent is negative, or sizes of the array do not fit in 64 bits.
    """
    if len(shape) > _MOST_AXES:
        raise MXNetError(f"An array of {len(shape)} axes is asked for; NumPy's have at most {_MOST_AXES}")
    nbytes = dtype.size
    for extent in shape:
        if extent < 0:
            raise MXNetError(f"Shape [{','.join(map(str, shape))}] has the negative extent {extent}")
        nbytes *= max(extent, 1)  # strides count on even where there are no elements
    if nbytes > _LARGEST:
        raise MXNetError(
            f"Size of tensor you are trying to allocate is larger than 2^63 bytes: {dtype.name} "
            f"[{','.join(map(str, shape))}]"
        )


_TYPES: dict[tuple[tuple[int, ...], DType], TensorType] = {}


def tensor_type(shape: tuple[int, ...], dtype: DType) -> TensorType:
    """The one TensorType of this shape and dtype (threads may call at once: setdefault is atomic).

    Shapes whose dimensions are symbolic have types of their own, within :func:`~hybridgpu.compiler.ir.dims.symbolic_dims`.

    Raises:
        MXNetError: there can be no such array.
    """
    scope = scope_of(shape) if symbolic[0] else None
    key = shape, dtype
    types = _TYPES if scope is None else scope.types
    cached = types.get(key)
    if cached is not None:
        return cached
    _check_size(shape, dtype)
    return types.setdefault(key, TensorType(tuple(map(int, shape)) if scope is None else shape, dtype))


def joint_type(x: TensorType, y: TensorType) -> TensorType | None:
    """The type of two values that are of one type but for which dimensions are known to be symbolic; None of others."""
    if x is y:
        return x
    if not symbolic[0] or x.dtype is not y.dtype or x.shape != y.shape:
        return None
    return tensor_type(tuple(b if type(b) is Dim else a for a, b in zip(x.shape, y.shape, strict=True)), x.dtype)

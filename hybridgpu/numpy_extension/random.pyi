# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.npx.random``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.numpy.array import ndarray

_Array: TypeAlias = ndarray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def bernoulli(prob: _Array | float | None = None, logit: _Array | float | None = None, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """1 with probability ``prob``, or sigmoid(logit), else 0; float32 by default."""
def normal_n(loc: _Array | float = 0.0, scale: _Array | float = 1.0, batch_shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None) -> _Array:
    """Normal numbers: ``batch_shape`` draws of the shape of the parameters."""
def uniform_n(low: _Array | float = 0.0, high: _Array | float | None = 1.0, batch_shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None) -> _Array:
    """Uniform on [low, high): ``batch_shape`` draws of the shape of the parameters."""
def seed(seed: int, ctx: _Device = 'all') -> None: ...

# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.random``: samplers. Without ``shape`` they draw one number, of shape (1,)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import Context
from ..ops import OPERATORS
from .apply import apply
from .array import NDArray

__all__ = ["exponential", "normal", "randint", "randn", "uniform"]


def _extents(shape: Any) -> tuple[int, ...]:
    if shape is None:
        return (1,)
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape) or (1,)


def _draw(name: str, shape: Any, dtype: Any, ctx: Context | None, out: NDArray | None, **attributes: Any) -> NDArray:
    if out is not None and shape is None:
        shape, dtype = out.shape, dtype or out.dtype
    op = OPERATORS[name]
    if dtype in ("None", None):
        dtype = None
    values = op.parse({**attributes, "shape": _extents(shape), "dtype": dtype})
    return apply(op, (), values, out, ctx)  # type: ignore[no-any-return]


def uniform(
    low: float = 0,
    high: float = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Uniform on [low, high), float32 by default."""
    return _draw("_random_uniform", shape, dtype, ctx, out, low=low, high=high)


def normal(
    loc: float = 0,
    scale: float = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Normal with mean ``loc`` and standard deviation ``scale``."""
    return _draw("_random_normal", shape, dtype, ctx, out, loc=loc, scale=scale)


def randn(
    *shape: int, loc: float = 0, scale: float = 1, dtype: Any = None, ctx: Context | None = None, out: Any = None
) -> NDArray:
    """Normal numbers, the extents as separate arguments."""
    return normal(loc, scale, shape or None, dtype, ctx, out)


def exponential(
    scale: float = 1, shape: Any = None, dtype: Any = None, ctx: Context | None = None, out: Any = None
) -> NDArray:
    """Exponential with mean ``scale``."""
    return _draw("_random_exponential", shape, dtype, ctx, out, lam=1.0 / scale)


def randint(
    low: int, high: int, shape: Any = None, dtype: Any = None, ctx: Context | None = None, out: Any = None
) -> NDArray:
    """Integers in low … high - 1, int32 by default."""
    return _draw("_random_randint", shape, dtype, ctx, out, low=low, high=high)

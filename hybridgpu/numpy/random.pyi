# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.np.random``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.numpy.array import ndarray

_Array: TypeAlias = ndarray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def beta(a: _Array, b: _Array, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None) -> _Array:
    """Beta on [0, 1] with shapes ``a`` and ``b``, from two gamma numbers in double precision."""
def chisquare(df: _Array | float, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None) -> _Array:
    """Chi-squared with ``df`` degrees of freedom: mean df, variance 2 * df (a quarter of both in MXNet, where the scale of"""
def choice(a: _Array | int, size: int | Sequence[int] | None = None, replace: bool = True, p: Any = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Items of an array, or numbers below ``a``, drawn with the probabilities ``p``."""
def exponential(scale: _Array | float = 1.0, size: int | Sequence[int] | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Exponential with mean ``scale``."""
def gamma(shape: int | Sequence[int], scale: _Array | float = 1.0, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Gamma with shape ``shape`` and scale ``scale``, float32 by default."""
def gumbel(loc: _Array | float = 0.0, scale: _Array | float = 1.0, size: int | Sequence[int] | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Gumbel with mode ``loc`` and scale ``scale``."""
def logistic(loc: _Array | float = 0.0, scale: _Array | float = 1.0, size: int | Sequence[int] | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Logistic with mean ``loc`` and scale ``scale``."""
def lognormal(mean: _Array | float = 0.0, sigma: _Array | float = 1.0, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Exponentials of normal numbers with mean ``mean`` and standard deviation ``sigma``."""
def multinomial(n: int, pvals: float | Sequence[float] | None, size: int | Sequence[int] | None = None) -> _Array:
    """How often each outcome occurs in ``n`` trials with the probabilities ``pvals``."""
def multivariate_normal(mean: _Array | float, cov: _Array | bool | str, size: int | Sequence[int] | None = None, check_valid: str | None = None, tol: float | None = None) -> _Array:
    """Normal vectors with a mean and a covariance, which broadcast. ``check_valid`` and ``tol`` have no effect."""
def normal(loc: _Array | float = 0.0, scale: _Array | float = 1.0, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Normal with mean ``loc`` and standard deviation ``scale``, float32 by default."""
def pareto(a: _Array, size: int | Sequence[int] | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Pareto II (Lomax) with shape ``a``, from 0."""
def power(a: _Array, size: int | Sequence[int] | None = None) -> _Array:
    """Numbers on [0, 1] with density a * x**(a - 1)."""
def rand(*size: int) -> _Array:
    """Uniform on [0, 1), the extents as separate arguments."""
def randint(low: _Array | float, high: _Array | float | None = None, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Uniform integers in low … high - 1, or below ``low`` if that is the only bound; int64 by default."""
def randn(*size: int) -> _Array:
    """Standard normal numbers, the extents as separate arguments."""
def rayleigh(scale: _Array | float = 1.0, size: int | Sequence[int] | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Rayleigh with mode ``scale``."""
def shuffle(x: _Array | float) -> None:
    """Put the entries of the first axis in random order, in place."""
def uniform(low: _Array | float = 0.0, high: _Array | float | None = 1.0, size: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Uniform on [low, high), float32 by default."""
def weibull(a: _Array, size: int | Sequence[int] | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Weibull with shape ``a`` and scale 1."""

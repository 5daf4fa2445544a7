# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.sym.random``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.symbol.symbol import Symbol

_Array: TypeAlias = Symbol
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def exponential(scale: _Array | float = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Exponential with mean ``scale``."""
def exponential_like(data: _Array | None = None, lam: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Exponential with rate lam, in the shape and type of an array."""
def gamma(alpha: Any = 1, beta: Any = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Gamma with shape ``alpha`` and scale ``beta``."""
def gamma_like(data: _Array | None = None, alpha: float = 1.0, beta: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Gamma with shape alpha and scale beta, in the shape and type of an array."""
def generalized_negative_binomial(mu: Any = 1, alpha: Any = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Negative binomial with mean ``mu`` and variance ``mu + alpha * mu**2``."""
def generalized_negative_binomial_like(data: _Array | None = None, mu: float = 1.0, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Negative binomial with mean mu and variance mu + alpha * mu**2, in the shape and type of an array."""
def multinomial(data: _Array, shape: int | Sequence[int] | None = None, get_prob: bool = True, dtype: _DType | None = 'int32') -> _Array:
    """Numbers of categories with the probabilities of the last axis of ``data``, ``shape`` of them a row."""
def negative_binomial(k: int = 1, p: Any = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Successes before the k-th failure, whose probability is ``p``."""
def negative_binomial_like(data: _Array | None = None, k: int = 1, p: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Successes before the k-th failure, in the shape and type of an array."""
def normal(loc: _Array | float = 0, scale: _Array | float = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Normal with mean ``loc`` and standard deviation ``scale``."""
def normal_like(data: _Array | None = None, loc: float = 0.0, scale: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normal with a mean and a standard deviation, in the shape and type of an array."""
def pdf_dirichlet(sample: _Array | None = None, alpha: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the Dirichlet distribution, along the last axis."""
def pdf_exponential(sample: _Array | None = None, lam: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the exponential distribution with rate lam."""
def pdf_gamma(sample: _Array | None = None, alpha: _Array | None = None, beta: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the gamma distribution with shape alpha and rate beta."""
def pdf_generalized_negative_binomial(sample: _Array | None = None, mu: _Array | None = None, alpha: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Probability of the negative binomial distribution with mean mu and dispersion alpha."""
def pdf_negative_binomial(sample: _Array | None = None, k: _Array | None = None, p: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Probability of k failures' successes."""
def pdf_normal(sample: _Array | None = None, mu: _Array | None = None, sigma: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the normal distribution."""
def pdf_poisson(sample: _Array | None = None, lam: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Probability of the Poisson distribution with mean lam."""
def pdf_uniform(sample: _Array | None = None, low: _Array | None = None, high: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the uniform distribution on [low, high], for samples inside."""
def poisson(lam: Any = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Poisson with mean ``lam``."""
def poisson_like(data: _Array | None = None, lam: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Poisson with mean lam, in the shape and type of an array."""
def randint(low: int, high: int, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Integers in low … high - 1, int32 by default."""
def randn(*shape: int, loc: _Array | float = 0, scale: _Array | float = 1, dtype: _DType | None = None) -> _Array:
    """Normal numbers, the extents as separate arguments."""
def shuffle(data: _Array) -> _Array:
    """The entries of the first axis in random order."""
def uniform(low: _Array | float = 0, high: _Array | float | None = 1, shape: int | Sequence[int] | None = None, dtype: _DType | None = None, ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Uniform on [low, high), float32 by default."""
def uniform_like(data: _Array | None = None, low: float = 0.0, high: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Uniform on [low, high), in the shape and type of an array."""

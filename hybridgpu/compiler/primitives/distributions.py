# SPDX-License-Identifier: Apache-2.0
"""Distributions without a closed form: gamma and Poisson, drawn by rejection from counter-based bits.

Element ``i`` tries with words of its own until it accepts, so that what it gets depends on the
state and on its own parameter alone, whatever the other elements need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtypes import i64
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type
from . import special
from .random import STATE, words

__all__ = ["ROWS"]

_ROUND = 1 << 24  #: distance of the streams of consecutive words; lower ones number the draws of a graph
_LARGE = 10.0  #: rates from which Poisson numbers are drawn by rejection


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if types[0] is not STATE or not types[1].dtype.is_float:
        raise TypeError(f"a random state and floating point parameters are needed, not {types[0]!r} and {types[1]!r}")
    return types[1]


class _Source:
    """Uniform numbers on (0, 1) for chosen elements, 53 bits each, anew at every call."""

    def __init__(self, xp: Any, state: Any, stream: int) -> None:
        self._xp, self._state, self._stream = xp, state, stream

    def uniform(self, at: Any) -> Any:
        xp, parts = self._xp, []
        for _ in range(2):
            parts.append(words(xp, self._state, at, self._stream).astype(xp.float64))
            self._stream = (self._stream + _ROUND) & 0xFFFFFFFF
        high, low = parts
        return (xp.floor(high / 32) * 2.0**26 + xp.floor(low / 64) + 0.5) * 2.0**-53


def _elements(sample: Callable[[Any, _Source, Any, Any], Any]) -> Callable[..., Any]:
    """A primitive's evaluation from ``sample(xp, source, numbers of elements, parameters)`` in float64."""

    def run(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
        state, parameters = inputs
        flat = xp.broadcast_to(parameters, out.shape).astype(xp.float64).reshape(-1)
        at = xp.arange(out.size, dtype=xp.uint64)
        y = sample(xp, _Source(xp, state, params["stream"]), at, flat)
        return y.reshape(out.shape).astype(out.dtype.np)

    return run


def _until_accepted(xp: Any, at: Any, parameters: Sequence[Any], attempt: Callable[..., tuple[Any, Any]]) -> Any:
    """Repeat ``attempt(elements, *parameters) -> (values, accepted)`` for the elements still refused."""
    y = xp.full(at.shape, xp.nan)
    left = xp.arange(at.size)
    while left.size:
        values, accepted = attempt(at[left], *(p[left] for p in parameters))
        y[left[accepted]] = values[accepted]
        left = left[~accepted]
    return y


def _gamma(xp: Any, source: _Source, at: Any, alpha: Any) -> Any:
    """Marsaglia and Tsang, "A simple method for generating gamma variables", 2000."""
    valid = (alpha > 0) & xp.isfinite(alpha)
    safe = xp.where(valid, alpha, 1.0)
    small = safe < 1
    d = xp.where(small, safe + 1, safe) - 1 / 3
    c = 1 / xp.sqrt(9 * d)
    boost = xp.where(small, source.uniform(at) ** (1 / safe), 1.0)

    def attempt(at: Any, d: Any, c: Any) -> tuple[Any, Any]:
        radius = xp.sqrt(-2 * xp.log(source.uniform(at)))
        x = radius * xp.cos(2 * math.pi * source.uniform(at))
        v = (1 + c * x) ** 3
        positive = v > 0
        bound = 0.5 * x * x + d - d * v + d * xp.log(xp.where(positive, v, 1.0))
        return d * v, positive & (xp.log(source.uniform(at)) < bound)

    return xp.where(valid, _until_accepted(xp, at, (d, c), attempt) * boost, xp.where(alpha == 0, 0.0, xp.nan))


def _poisson(xp: Any, source: _Source, at: Any, rate: Any) -> Any:
    """By inversion where the rate is small, else Hörmann's transformed rejection (1993)."""
    valid = (rate >= 0) & (rate < 2.0**62)
    y = xp.where(valid, 0.0, xp.nan)
    u = source.uniform(at)
    few = xp.nonzero(valid & (rate > 0) & (rate < _LARGE))[0]
    many = xp.nonzero(valid & (rate >= _LARGE))[0]
    if few.size:
        y[few] = _poisson_inverse(xp, u[few], rate[few])
    if many.size:
        y[many] = _poisson_rejection(xp, source, at[many], rate[many])
    return y


def _poisson_inverse(xp: Any, u: Any, rate: Any) -> Any:
    k = xp.zeros(u.shape)
    term = xp.exp(-rate)
    total = term.copy()
    for step in range(1, 200):  # beyond, the sum is 1 for every rate below the limit
        above = u > total
        if not above.any():
            break
        k += above
        term = term * rate / step
        total = total + term
    return k


def _poisson_rejection(xp: Any, source: _Source, at: Any, rate: Any) -> Any:
    lgamma = special.function(xp, "lgamma")
    b = 0.931 + 2.53 * xp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def attempt(at: Any, rate: Any, a: Any, b: Any, scale: Any, quick: Any) -> tuple[Any, Any]:
        u, v = source.uniform(at) - 0.5, source.uniform(at)
        edge = 0.5 - xp.absolute(u)
        k = xp.floor((2 * a / edge + b) * u + rate + 0.43)
        at_once = (edge >= 0.07) & (v <= quick)
        possible = (k >= 0) & ~((edge < 0.013) & (v > edge))
        whole = xp.maximum(k, 0.0)
        left = xp.log(v * scale / (a / (edge * edge) + b))
        right = whole * xp.log(rate) - rate - lgamma(whole + 1)
        return k, at_once | (possible & (left <= right))

    return _until_accepted(xp, at, (rate, a, b, scale, quick), attempt)


def _infer_unique(types: Sequence[TensorType], params: Params) -> TensorType:
    batch, count = params["shape"]
    if types[0] is not STATE or count > params["below"]:
        raise TypeError(f"{count} different numbers below {params['below']}")
    return tensor_type((batch, count + 1), i64)


def _unique_zipfian(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """Different numbers in a row, and behind them how many were drawn for that."""
    (state,) = inputs
    source, (batch, count) = _Source(xp, state, params["stream"]), params["shape"]
    y = np.zeros(out.shape, np.int64)
    width = max(2 * count, 16)
    for row in range(batch if count else 0):
        drawn = np.zeros(0, np.int64)
        while True:
            at = xp.arange(row * width, (row + 1) * width, dtype=xp.uint64)
            numbers = xp.floor(xp.exp(source.uniform(at) * math.log(params["below"])) + 0.5).astype(xp.int64) - 1
            drawn = np.concatenate([drawn, np.asarray(numbers if xp is np else xp.asnumpy(numbers))])
            first = np.sort(np.unique(drawn, return_index=True)[1])
            if len(first) >= count:
                break
        y[row, :count] = drawn[first[:count]]
        y[row, count] = first[count - 1] + 1
    return xp.asarray(y)


ROWS = [
    Primitive(
        "unique_zipfian",
        "library",
        _infer_unique,
        _unique_zipfian,
        NO_DERIVATIVE,
        cost=200,
        doc="different numbers with a log-uniform distribution",
    ),
    Primitive(
        "random_gamma",
        "library",
        _infer,
        _elements(_gamma),
        NO_DERIVATIVE,
        cost=200,
        doc="gamma numbers of scale 1, one for each shape parameter",
    ),
    Primitive(
        "random_poisson",
        "library",
        _infer,
        _elements(_poisson),
        NO_DERIVATIVE,
        cost=200,
        doc="Poisson numbers, one for each rate",
    ),
]

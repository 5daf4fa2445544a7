# SPDX-License-Identifier: Apache-2.0
"""Statistical tests of samplers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import erfc, sqrt
from typing import Any

import numpy as np

from ..ndarray.ndarray import NDArray

__all__ = ["chi_square_check", "gen_buckets_probs_with_ppf", "mean_check", "var_check", "verify_generator"]


def _draw(generator: Callable[[int], Any], count: int) -> Any:
    samples = generator(count)
    if isinstance(samples, NDArray):
        samples = samples.asnumpy()
    return np.asarray(samples).reshape(-1)[:count]


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Equally likely intervals of a distribution, from its quantile function, and their probabilities."""
    assert nbuckets > 0
    edges = [ppf(k / nbuckets) for k in range(nbuckets + 1)]
    return list(pairwise(edges)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable[[int], Any], mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """True if the mean of the samples lies within three standard errors of ``mu``."""
    mean = float(np.mean(_draw(generator, nsamples).astype(np.float64)))
    return bool(abs(mean - mu) < 3 * sigma / sqrt(nsamples))


def var_check(generator: Callable[[int], Any], sigma: float, nsamples: int = 1000000) -> bool:
    """True if the variance of the samples lies within three standard errors of ``sigma**2``, for normal samples."""
    variance = float(np.var(_draw(generator, nsamples).astype(np.float64), ddof=1))
    error = sigma**2 * sqrt(2.0 / (nsamples - 1))
    return bool(abs(variance - sigma**2) < 3 * error)


def chi_square_check(
    generator: Callable[[int], Any], buckets: Sequence[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, Any, Any]:
    """Pearson's chi-square test.

    Args:
        buckets: intervals (low, high), or the values of a discrete distribution.
        probs: of the buckets; they sum to 1.

    Returns:
        The p-value, the counts, the expected counts.
    """
    samples = _draw(generator, nsamples)
    assert abs(sum(probs) - 1) < 1e-6, "the probabilities must sum to 1"
    expected = np.asarray(probs, np.float64) * samples.size
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array([buckets[0][0], *(high for _, high in buckets)], np.float64)
        inside = samples.astype(np.float64)
        counts = np.bincount(
            np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(buckets) - 1), minlength=len(buckets)
        )
    else:
        counts = np.array([np.count_nonzero(samples == b) for b in buckets])
    occupied = expected > 0
    statistic = float((((counts - expected) ** 2)[occupied] / expected[occupied]).sum())
    return _chi_square_tail(statistic, int(occupied.sum()) - 1), counts, expected


def _chi_square_tail(x: float, degrees: int) -> float:
    """P(chi-square >= x): the regularised upper incomplete gamma function Q(degrees / 2, x / 2) by its finite sum."""
    if degrees <= 0:
        return 1.0
    half = x / 2
    # Q(a + 1, y) = Q(a, y) + y**a e**-y / Gamma(a + 1)
    if degrees % 2:
        total, a, term = erfc(sqrt(half)), 0.5, np.exp(-half) * sqrt(half) / (sqrt(np.pi) / 2)
    else:
        total, a, term = float(np.exp(-half)), 1.0, float(np.exp(-half)) * half
    while a < degrees / 2 - 0.25:
        total += term
        a += 1
        term *= half / a
    return float(min(max(total, 0.0), 1.0))


def verify_generator(
    generator: Callable[[int], Any],
    buckets: Sequence[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Repeat the chi-square test; the p-values.

    Raises:
        AssertionError: fewer than ``success_rate`` of the repetitions have a p-value above ``alpha``.
    """
    values = [chi_square_check(generator, buckets, probs, nsamples)[0] for _ in range(nrepeat)]
    passed = sum(p > alpha for p in values)
    assert passed >= nrepeat * success_rate, f"{passed} of {nrepeat} chi-square tests passed; p-values {values}"
    return values

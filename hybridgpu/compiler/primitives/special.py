# SPDX-License-Identifier: Apache-2.0
"""Array functions that NumPy lacks, written over ``xp`` or taken from CuPy's own special module.

The error function family is evaluated by polynomials that are computed, once per process
and at first use, from the standard library's ``math.erfc`` and ``math.lgamma``: no table of
coefficients to trust. Results are accurate to a few ulp of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.dtypes import DType

__all__ = ["divide", "function", "modulo", "power", "round_away"]


def divide(xp: Any, a: Any, b: Any, dtype: DType) -> Any:
    """Division in one dtype; integers are cut towards zero and division by zero gives zero."""
    if dtype.is_float:
        return xp.divide(a, b)
    if xp is np and dtype.kind == "u" and b.ndim == 0 and b:
        return np.floor_divide(a, b)
    zero = b == 0
    safe = xp.where(zero, xp.asarray(1, dtype.np), b)
    quotient = xp.floor_divide(a, safe)
    if dtype.kind == "i":  # floor to truncation: one up where the signs differ and there is a rest
        quotient = quotient + ((quotient < 0) & (quotient * safe != a)).astype(dtype.np)
        # a quotient that rounds up from -0.x floors to -1, handled above; 0 and positive are exact
    return xp.where(zero, xp.asarray(0, dtype.np), quotient).astype(dtype.np, copy=False)


def modulo(xp: Any, a: Any, b: Any, dtype: DType) -> Any:
    """Remainder with the sign of the divisor; modulo zero gives zero."""
    zero = b == 0
    safe = xp.where(zero, xp.asarray(1, dtype.np), b)
    return xp.where(zero, xp.asarray(0, dtype.np), xp.mod(a, safe)).astype(dtype.np, copy=False)


def power(xp: Any, a: Any, b: Any) -> Any:
    """``a ** b`` as C's pow has it: NumPy's short cut for the exponent 0.5 is sqrt, which differs at -0 and -inf."""
    y = xp.power(a, b)
    if xp is np:
        half = b == 0.5
        if np.any(half):
            root = np.where(a == -np.inf, np.inf, np.sqrt(a) + 0.0)
            y = np.where(half, root, y).astype(y.dtype)
    return y


def round_away(xp: Any, x: Any) -> Any:
    """Halves away from zero, through float64 so that adding 0.5 is exact."""
    wide = x.astype(xp.float64, copy=False)
    return xp.copysign(xp.floor(xp.absolute(wide) + 0.5), wide).astype(x.dtype, copy=False)


_PART = 1 << 13  #: elements at a time: what lies between the steps of a function stays in the cache


def function(xp: Any, name: str) -> Callable[[Any], Any]:
    """The elementwise special function ``name`` for the array module ``xp``."""
    if xp is not np:
        return _device_function(xp, name)
    if name in ("sigmoid", "softplus"):
        return _PLAIN[name]

    def run(x: Any) -> Any:
        plain = _FLOAT32.get(name, _PLAIN[name]) if x.dtype.itemsize <= 4 else _PLAIN[name]
        if x.size <= _PART:
            return plain(x.astype(np.float64)).astype(x.dtype)
        flat, y = x.reshape(-1), np.empty(x.shape, x.dtype)
        parts = y.reshape(-1)
        for at in range(0, flat.size, _PART):
            parts[at : at + _PART] = plain(flat[at : at + _PART].astype(np.float64))
        return y

    return run


@lru_cache
def _device_function(xp: Any, name: str) -> Callable[[Any], Any]:
    if name == "sigmoid":
        return lambda x: xp.reciprocal(1 + xp.exp(-x))
    if name == "softplus":
        return lambda x: xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.absolute(x)))
    from cupyx.scipy import special  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if name == "trigamma":
        return lambda x: special.polygamma(1, x).astype(x.dtype, copy=False)
    table = {"erf": "erf", "erfinv": "erfinv", "tgamma": "gamma", "lgamma": "gammaln", "digamma": "digamma"}
    plain = getattr(special, table[name])
    return lambda x: plain(x).astype(x.dtype, copy=False)


def _sigmoid(x: Any) -> Any:
    # nothing overflows; a second exp costs a quarter of choosing by the sign
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.absolute(x)))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.absolute(x)))


def _powers(f: Callable[[float], float], degree: int) -> tuple[float, ...]:
    """The polynomial that meets ``f`` in Chebyshev's points on [-1, 1], the highest power first."""
    from numpy.polynomial import chebyshev

    n = degree + 1

    def cos(k: int) -> float:  # of k half steps from point to point
        return math.cos(math.pi * (k % (4 * n)) / (2 * n))

    values = [f(cos(2 * k + 1)) for k in range(n)]
    sums = [math.fsum(v * cos(j * (2 * k + 1)) for k, v in enumerate(values)) for j in range(n)]
    return tuple(float(c) for c in chebyshev.cheb2poly([(2 if j else 1) / n * c for j, c in enumerate(sums)])[::-1])


@lru_cache
def _near() -> tuple[float, ...]:
    """erf(x) / x on [-1, 1] as a function of 2 x^2 - 1."""

    def value(t: float) -> float:
        x = math.sqrt((t + 1) / 2)
        return math.erf(x) / x

    return _powers(value, 18)


@lru_cache
def _far() -> tuple[float, ...]:
    """erfc(x) e^(x^2) on [1, 6] as a function of (1/x - 7/12) 12/5."""

    def value(t: float) -> float:
        x = 1 / (t * 5 / 12 + 7 / 12)
        return math.erfc(x) * math.exp(x * x)

    return _powers(value, 28)


@lru_cache
def _log_erfc() -> tuple[float, ...]:
    """-log(erfc(a)) / a on [0, 4] as a function of a / 2 - 1."""

    def value(u: float) -> float:
        a = 2 * (u + 1)
        return -(math.log1p(-math.erf(a)) if a < 0.5 else math.log(math.erfc(a))) / a

    return _powers(value, 13)


def _polynomial(x: Any, powers: Sequence[float]) -> Any:
    y = np.full_like(x, powers[0])
    for c in powers[1:]:
        y *= x
        y += c
    return y


def _erf(x: Any) -> Any:
    a = np.absolute(x)
    small = np.minimum(a, 1.0)
    near = x * _polynomial(2 * small * small - 1, _near())
    clipped = np.clip(a, 1.0, 6.0)
    far = 1 - np.exp(-clipped * clipped) * _polynomial((1 / clipped - 7 / 12) * 2.4, _far())
    return np.where(np.isnan(x), x, np.where(a <= 1, near, np.copysign(far, x)))


def _erf_float32(x: Any) -> Any:
    """The error function of float64 ``x`` as exactly as float32 has it (0.55 of its ulp): 1 - e^(-a p(a)), a = |x| up to 4."""
    a = np.minimum(np.absolute(x), 4.0)
    y = _polynomial(a * 0.5 - 1, _log_erfc())
    y *= a
    np.exp(np.negative(y, out=y), out=y)
    np.subtract(1, y, out=y)
    np.multiply(a, 2 / math.sqrt(math.pi), out=y, where=a < 1e-4)  # where 1 - e^-… has lost its digits
    return np.copysign(y, x, out=y)


def _erfinv(x: Any) -> Any:
    """Winitzki's closed form as a start, then Newton steps on erf (quadratic; three reach double)."""
    with np.errstate(all="ignore"):
        inside = np.clip(x, -1 + 2**-54, 1 - 2**-54)
        log = np.log1p(-inside * inside)
        first = 2 / (math.pi * 0.147) + log / 2
        y = np.copysign(np.sqrt(np.sqrt(first * first - log / 0.147) - first), x)
        for _ in range(3):
            slope = (2 / math.sqrt(math.pi)) * np.exp(-y * y)
            error = (_erf(y) - inside) / slope
            y = y - error / (1 + y * error)  # Halley's correction
        y = np.where(x == 0, x, y)
        y = np.where(np.absolute(x) == 1, np.copysign(np.inf, x), y)
        return np.where(np.absolute(x) > 1, np.nan, y)


def _scalar(f: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda x: np.asarray(np.frompyfunc(f, 1, 1)(x), dtype=np.float64).reshape(np.shape(x))


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except ValueError:  # a pole, or -inf
        return math.nan if x != 0 else math.copysign(math.inf, x)
    except OverflowError:  # a large number, or one next to zero
        return math.copysign(math.inf, x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # poles
        return math.inf


def _digamma(x: float) -> float:
    if x == 0:
        return -math.copysign(math.inf, x)
    if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    if x == math.inf:
        return x
    if x < 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))  # exact: the pole is at an integer
    shift = 0.0
    while x < 10:  # recurrence, then the asymptotic series
        shift -= 1 / x
        x += 1
    r = 1 / (x * x)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * 691 / 32760)))))
    return shift + math.log(x) - 0.5 / x - series


def _trigamma(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == math.inf:
        return 0.0
    if x <= 0:
        if x == math.floor(x):
            return math.inf
        root = math.pi / math.sin(math.pi * (x - round(x)))  # exact: the pole is at an integer
        return root * root - _trigamma(1 - x)
    if x * x == 0:
        return math.inf
    total = 0.0
    while x < 16:  # recurrence, then the asymptotic series
        total += 1 / (x * x)
        x += 1
    z = 1 / (x * x)
    series = 1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * (5 / 66 - z * 691 / 2730))))
    return total + (1 + series * z) / x + 0.5 * z


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "erf": _erf,
    "erfinv": _erfinv,
    "tgamma": _scalar(_gamma),
    "lgamma": _scalar(_lgamma),
    "digamma": _scalar(_digamma),
    "trigamma": _scalar(_trigamma),
}
#: for types up to float32, in a third of the time
_FLOAT32: dict[str, Callable[[Any], Any]] = {"erf": _erf_float32}

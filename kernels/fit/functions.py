# SPDX-License-Identifier: Apache-2.0
"""The functions that the kernels approximate, to fifty digits, from their series."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from math import comb

from remez import DIGITS

ONE = Decimal(1)
TINY = Decimal(10) ** -(DIGITS + 5)


def with_digits(extra: int, f: Callable[..., Decimal], *arguments: Decimal | int) -> Decimal:
    """f with so many more digits, rounded at the end."""
    with localcontext() as context:
        context.prec += extra
        value = f(*arguments)
    return +value


def _pi() -> Decimal:
    """Gauss and Legendre's arithmetic-geometric mean."""
    a, b, t, p = ONE, (ONE / 2).sqrt(), ONE / 4, ONE
    while abs(a - b) > Decimal(10) ** -(getcontext().prec - 3):
        a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
    return (a + b) ** 2 / (4 * t)


with localcontext() as _context:
    _context.prec = 400
    LONG_PI = _pi()
    LONG_LN2 = Decimal(2).ln()
    TWO_OVER_SQRT_PI = 2 / LONG_PI.sqrt()
PI, LN2, SQRT2 = +LONG_PI, +LONG_LN2, Decimal(2).sqrt()


def expm1(x: Decimal) -> Decimal:
    return with_digits(DIGITS, lambda v: v.exp() - 1, x)


def log1p(x: Decimal) -> Decimal:
    return with_digits(DIGITS, lambda v: (1 + v).ln(), x)


def _alternating(x: Decimal, first: Decimal, n: int) -> Decimal:
    term = total = first
    while abs(term) > TINY:
        term *= -x * x / ((n + 1) * (n + 2))
        n += 2
        total += term
    return total


def sin(x: Decimal) -> Decimal:
    return with_digits(15, _alternating, x, x, 1)


def cos(x: Decimal) -> Decimal:
    return with_digits(15, _alternating, x, ONE, 0)


def _arctan(x: Decimal) -> Decimal:
    halvings = 0
    while abs(x) > Decimal("0.05"):
        x = x / (1 + (1 + x * x).sqrt())
        halvings += 1
    term = total = x
    n = 1
    while abs(term) > TINY:
        term *= -x * x
        n += 2
        total += term / n
    return total * 2**halvings


def arctan(x: Decimal) -> Decimal:
    return with_digits(15, _arctan, x)


def arcsin(x: Decimal) -> Decimal:
    return arctan(x / (1 - x * x).sqrt())


def _erf(x: Decimal) -> Decimal:
    term = total = x
    n = 0
    while abs(term) > Decimal(10) ** -getcontext().prec:
        n += 1
        term *= -x * x / n
        total += term / (2 * n + 1)
    return total * TWO_OVER_SQRT_PI


def erf(x: Decimal) -> Decimal:
    return with_digits(DIGITS + int(x * x / 2), _erf, x)


def erfc(x: Decimal) -> Decimal:
    return with_digits(DIGITS + int(x * x), lambda v: 1 - _erf(v), x)


def erfinv_tail(x: Decimal) -> Decimal:
    """y with erfc(y) = x, by Newton's method on log(erfc)."""
    y = (-(x.ln()) / 2).sqrt() if x < Decimal("0.5") else Decimal("0.5")
    target = x.ln()
    for _ in range(60):
        c = erfc(y)
        step = (c.ln() - target) * c * (y * y).exp() / TWO_OVER_SQRT_PI
        y += step
        if abs(step) < Decimal(10) ** -(DIGITS - 15):
            break
    return y


def _bernoulli(count: int) -> list[Fraction]:
    b = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        b.append(-sum((comb(m + 1, k) * b[k] for k in range(m)), Fraction(0)) / (m + 1))
    return b[2::2]


BERNOULLI = [Decimal(b.numerator) / Decimal(b.denominator) for b in _bernoulli(40)]


def digamma(x: Decimal) -> Decimal:
    """x >= 1: 50 steps up by the recurrence, then the asymptotic series."""
    below = sum((1 / (x + i) for i in range(50)), Decimal(0))
    y = x + 50
    series = sum((b / (2 * k * y ** (2 * k)) for k, b in enumerate(BERNOULLI, 1)), Decimal(0))
    return y.ln() - 1 / (2 * y) - series - below

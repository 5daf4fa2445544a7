# SPDX-License-Identifier: Apache-2.0
"""Weighted minimax fits in decimal arithmetic: Remez' exchange algorithm, and coefficients rounded one at a time.

Only the standard library is needed. The exchange runs on a fixed Chebyshev grid: with several hundred
points its optimum is within a fraction of a percent of the continuous one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, getcontext

DIGITS = 50
getcontext().prec = DIGITS

Function = Callable[[Decimal], Decimal]
Rounding = Callable[[Decimal], Decimal]


def to_float32(value: Decimal) -> Decimal:
    return Decimal(struct.unpack("f", struct.pack("f", float(value)))[0])


def to_float64(value: Decimal) -> Decimal:
    return Decimal(float(value))


def solve(rows: list[list[Decimal]], right: list[Decimal]) -> list[Decimal]:
    """Gaussian elimination with partial pivoting."""
    n = len(right)
    a = [[*row, v] for row, v in zip(rows, right, strict=True)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(a[r][i]))
        a[i], a[pivot] = a[pivot], a[i]
        for r in range(i + 1, n):
            factor = a[r][i] / a[i][i]
            if factor:
                a[r] = [u - factor * v for u, v in zip(a[r], a[i], strict=True)]
    x = [Decimal(0)] * n
    for i in reversed(range(n)):
        x[i] = (a[i][n] - sum(a[i][j] * x[j] for j in range(i + 1, n))) / a[i][i]
    return x


def alternation(errors: Sequence[Decimal], wanted: int) -> list[int]:
    """Indices of ``wanted`` extrema with alternating signs (fewer, if there are fewer)."""
    found: list[int] = []
    for i, e in enumerate(errors):
        if found and (e > 0) == (errors[found[-1]] > 0):
            if abs(e) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)

    def size(k: int) -> Decimal:
        return abs(errors[found[k]])

    while len(found) > wanted:
        inner = min(range(len(found) - 1), key=lambda k: max(size(k), size(k + 1)))
        if len(found) == wanted + 1 or min(size(0), size(-1)) < max(size(inner), size(inner + 1)):
            del found[0 if size(0) < size(-1) else -1]
        else:
            del found[inner : inner + 2]
    return found


class Minimax:
    """Minimise max |w(z) * (sum of c_k z**k - g(z))| over lo <= z <= hi, for k = 0 … degree."""

    def __init__(self, g: Function, weight: Function, lo: Decimal, hi: Decimal, degree: int, points: int = 0) -> None:
        self.degree = degree
        points = points or 40 * (degree + 2)
        middle, half = (lo + hi) / 2, (hi - lo) / 2
        # Chebyshev nodes; an even count, so that the middle, where some g are 0/0, is left out
        count = points + points % 2
        nodes = [middle - half * Decimal(math.cos(math.pi * (i + 0.5) / count)) for i in range(count)]
        self.values = [g(z) for z in nodes]
        self.weights = [weight(z) for z in nodes]
        self.nodes = nodes
        self.powers = [[z**k for k in range(degree + 1)] for z in nodes]

    def errors(self, c: Sequence[Decimal]) -> list[Decimal]:
        return [
            w * (sum(a * b for a, b in zip(c, row, strict=True)) - y)
            for w, row, y in zip(self.weights, self.powers, self.values, strict=True)
        ]

    def fit(self, fixed: Sequence[Decimal] = ()) -> tuple[list[Decimal], Decimal]:
        """Coefficients and largest error, the lowest ``len(fixed)`` coefficients given."""
        m, n = len(fixed), self.degree + 1 - len(fixed)
        if not n:
            c = list(fixed)
            return c, max(abs(e) for e in self.errors(c))
        # what is left to fit is z**m times a polynomial: at odd m its sign changes at 0
        signs = [-1 if z < 0 and m % 2 else 1 for z in self.nodes]
        count = len(self.nodes)
        reference = [round((count - 1) * (1 - math.cos(math.pi * i / n)) / 2) for i in range(n + 1)]
        best: tuple[list[Decimal], Decimal] | None = None
        for _ in range(40):
            rows, right = [], []
            for i, j in enumerate(reference):
                rows.append([*self.powers[j][m:], (-1) ** i * signs[j] / self.weights[j]])
                right.append(self.values[j] - sum(a * b for a, b in zip(fixed, self.powers[j], strict=False)))
            *free, level = solve(rows, right)
            c = [*fixed, *free]
            errors = [e * s for e, s in zip(self.errors(c), signs, strict=True)]
            largest = max(abs(e) for e in errors)
            if best is None or largest < best[1]:
                best = c, largest
            reference = alternation(errors, n + 1)
            if largest <= abs(level) * Decimal("1.001") or len(reference) < n + 1:
                break
        assert best is not None
        return best

    def rounded(self, rounding: Rounding) -> tuple[list[Decimal], Decimal]:
        """The same with coefficients that a machine format holds: round the lowest, fit the others again, and so on."""
        c, error = self.fit()
        for k in range(self.degree + 1):
            c, error = self.fit([*c[:k], rounding(c[k])])
        return c, error

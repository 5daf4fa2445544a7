# SPDX-License-Identifier: Apache-2.0
"""Print the constants of kernels/math_cpu_*.h, in the form in which they stand there.

    python kernels/fit/fit_math.py              every table, with the error of the fit
    python kernels/fit/fit_math.py log_f32      one table
    python kernels/fit/fit_math.py --update     rewrite the statements after `// fit: NAME` in the headers

The method is Remez' algorithm in decimal arithmetic (remez.py); the functions come from their series (functions.py).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import functions as exact
from functions import LN2, LONG_PI, PI, SQRT2, TWO_OVER_SQRT_PI
from remez import Function, Minimax, to_float32, to_float64

HEADERS = sorted(Path(__file__).resolve().parent.parent.glob("math_*.h"))
D = Decimal
HALF_LN2 = LN2 / 2


def literal(value: Decimal, bits: int) -> str:
    """The shortest decimal that a compiler reads as this value."""
    for digits in range(1, 18):
        text = f"{float(value):.{digits}g}"
        if (to_float32 if bits == 32 else to_float64)(D(text)) == value:
            break
    if not re.search(r"[.e]", text):
        text += ".0"
    return text + ("f" if bits == 32 else "")


@dataclass(frozen=True)
class Table:
    """Named constants and, for a fit, its largest weighted error."""

    bits: int
    values: dict[str, Decimal]
    error: float = 0.0
    scope: str = "const"

    def statement(self) -> str:
        kind = "float" if self.bits == 32 else "double"
        items = ", ".join(f"{name} = {literal(value, self.bits)}" for name, value in self.values.items())
        return f"{self.scope} {kind} {items};"


TABLES: dict[str, Callable[[], Table]] = {}


def table(build: Callable[[], Table]) -> Callable[[], Table]:
    TABLES[build.__name__] = build
    return build


def fit(
    bits: int,
    g: Function,
    weight: Function,
    lo: Decimal | str,
    hi: Decimal | str,
    names: str,
    first: dict[str, Decimal] | None = None,
) -> Table:
    """A minimax polynomial, its coefficients rounded to the format and named."""
    labels = names.split()
    rounding = to_float32 if bits == 32 else to_float64
    coefficients, error = Minimax(g, weight, D(lo), D(hi), len(labels) - 1).rounded(rounding)
    return Table(bits, {**(first or {}), **dict(zip(labels, coefficients, strict=True))}, float(error))


def numbered(first: int, last: int, step: int = 1) -> str:
    return " ".join(f"c{i}" for i in range(first, last + 1, step))


def cut(value: Decimal, bits: int) -> Decimal:
    """The leading bits of a value, towards zero."""
    unit = D(2) ** (math.frexp(float(value))[1] - bits)
    return D(int(value / unit)) * unit


# -- constants


@table
def ln2_f32() -> Table:
    high = cut(LN2 + D(2) ** -12, 9)  # 355/512: nine bits, rounded
    values = {"kLog2E": to_float32(1 / LN2), "kLn2Hi": high, "kLn2Lo": to_float32(LN2 - high)}
    return Table(32, values, scope="constexpr")


@table
def ln2_f64() -> Table:
    high = cut(LN2, 32)
    values = {"kLog2E64": to_float64(1 / LN2), "kLn2Hi64": high, "kLn2Lo64": to_float64(LN2 - high)}
    return Table(64, values, scope="constexpr")


@table
def log2e_f32() -> Table:
    high = to_float32(1 / LN2)
    return Table(32, {"high": high, "low": to_float32(1 / LN2 - high)})


@table
def log10_f32() -> Table:
    log2 = LN2 / D(10).ln()
    high = cut(log2, 12)
    return Table(32, {"high": high, "low": to_float32(log2 - high), "scale": to_float32(1 / D(10).ln())})


@table
def turns() -> Table:
    """1 / (2 pi) in three parts of 29 bits and a rest, from bit 3 and from bit 58 on."""
    rest = 1 / (2 * LONG_PI)
    values: dict[str, Decimal] = {}
    with exact.localcontext() as context:
        context.prec = 120
        rest = 1 / (2 * LONG_PI)
        for name, start in (("a", 2), ("b", 57)):
            left = rest % (D(2) ** -start)
            for k in range(3):
                unit = D(2) ** -(start + 29 * (k + 1))
                values[f"{name}{k}"] = D(int(left / unit)) * unit
                left -= values[f"{name}{k}"]
            values[f"{name}3"] = to_float64(left)
    return Table(64, values)


# -- exponentials: weights that make the error relative to the whole result


def _second_order(r: Decimal) -> Decimal:
    """(e^r - 1 - r) / r^2"""
    return (exact.expm1(r) - r) / (r * r)


@table
def exp_f32() -> Table:
    return fit(32, _second_order, lambda r: r * r / r.exp(), -HALF_LN2, HALF_LN2, numbered(2, 6))


@table
def expm1_f32() -> Table:
    return fit(32, _second_order, lambda r: abs(r * r / exact.expm1(r)), -HALF_LN2, HALF_LN2, numbered(2, 6))


@table
def exp2_f64_short() -> Table:
    return fit(64, lambda r: (r * LN2).exp(), lambda r: (r * -LN2).exp(), "-0.5", "0.5", numbered(0, 7))


@table
def exp_f64() -> Table:
    return fit(64, _second_order, lambda r: r * r / r.exp(), -HALF_LN2, HALF_LN2, numbered(2, 11))


@table
def expm1_f64() -> Table:
    return fit(64, _second_order, lambda r: abs(r * r / exact.expm1(r)), -HALF_LN2, HALF_LN2, numbered(2, 12))


# -- logarithms


@table
def log_f32() -> Table:
    def g(f: Decimal) -> Decimal:
        return (exact.log1p(f) - f) / (f * f)

    return fit(32, g, lambda f: abs(f * f / exact.log1p(f)), 1 / SQRT2 - 1, SQRT2 - 1, numbered(2, 10))


QUOTIENT = (SQRT2 - 1) / (SQRT2 + 1)  # the largest s = (m - 1) / (m + 1)


def _log_over_s(z: Decimal) -> Decimal:
    """log(m) / s with s = (m - 1) / (m + 1) = sqrt(z)"""
    s = z.sqrt()
    return ((1 + s) / (1 - s)).ln() / s


@table
def log2_quotient_f64() -> Table:
    def g(z: Decimal) -> Decimal:
        return _log_over_s(z) / LN2

    return fit(64, g, lambda z: 1 / g(z), "1e-12", QUOTIENT**2, "l0 l1 l2 l3 l4")


@table
def log_f64() -> Table:
    def g(z: Decimal) -> Decimal:
        return (_log_over_s(z) - 2) / z

    return fit(64, g, lambda z: z / _log_over_s(z), "1e-14", QUOTIENT**2, numbered(1, 7))


# -- roots


@table
def rcbrt_f32() -> Table:
    def g(h: Decimal) -> Decimal:
        return ((1 - h) ** (D(-1) / 3) - 1) / h

    return fit(32, g, abs, "-0.11", "0.11", numbered(0, 2))


# -- circular and hyperbolic functions near 0


def _odd_tail(f: Function) -> tuple[Function, Function]:
    """(f(s) / s - 1) / z for s = sqrt(z), and the weight for the error relative to f"""

    def g(z: Decimal) -> Decimal:
        s = z.sqrt()
        return (f(s) / s - 1) / z

    return g, lambda z: z * z.sqrt() / f(z.sqrt())


EIGHTH = (PI / 4) ** 2 * D("1.001")


@table
def sin_f32() -> Table:
    return fit(32, *_odd_tail(exact.sin), "1e-9", EIGHTH, numbered(3, 7, 2))


@table
def cos_f32() -> Table:
    def g(z: Decimal) -> Decimal:
        return (exact.cos(z.sqrt()) - 1 + z / 2) / (z * z)

    return fit(32, g, lambda z: z * z / exact.cos(z.sqrt()), "1e-9", EIGHTH, numbered(4, 8, 2))


@table
def atan_f32() -> Table:
    return fit(32, *_odd_tail(exact.arctan), "1e-9", "1", numbered(3, 17, 2))


@table
def asin_f32() -> Table:
    return fit(32, *_odd_tail(exact.arcsin), "1e-9", "0.25", numbered(3, 11, 2))


# -- fast mode: relative errors below 2^-18


@table
def exp_short_f32() -> Table:
    return fit(32, lambda r: exact.expm1(r) / r, lambda r: abs(r) / r.exp(), -HALF_LN2, HALF_LN2, numbered(1, 4))


@table
def log_short_f32() -> Table:
    def g(f: Decimal) -> Decimal:
        return (exact.log1p(f) - f) / (f * f)

    return fit(32, g, lambda f: abs(f * f / exact.log1p(f)), 1 / SQRT2 - 1, SQRT2 - 1, numbered(2, 7))


@table
def log1p_short_f32() -> Table:
    def g(f: Decimal) -> Decimal:
        return exact.log1p(f) / f

    return fit(32, g, lambda f: 1 / g(f), "1e-9", "1", numbered(0, 7))


def quotient(f: Function, largest: str, divisor: str) -> Table:
    """f(x) / x as a quotient of polynomials in z = x^2 up to ``largest``: the numerator that is best for a divisor.

    The divisors are those of the best quotients of degrees 3 and 3 (rounded, which the numerators make good).
    """
    names = [f"d{k}" for k in range(1, 4)]
    d = [D(1), *(to_float32(D(v)) for v in divisor.split())]

    def q(z: Decimal) -> Decimal:
        return ((d[3] * z + d[2]) * z + d[1]) * z + d[0]

    def over_x(z: Decimal) -> Decimal:
        return f(z.sqrt()) / z.sqrt()

    return fit(
        32,
        lambda z: over_x(z) * q(z),
        lambda z: 1 / (over_x(z) * q(z)),
        "1e-9",
        D(largest) ** 2,
        numbered(0, 3),
        dict(zip(names, d[1:], strict=True)),
    )


@table
def tanh_near_f32() -> Table:
    def over_x(z: Decimal) -> Decimal:
        x = z.sqrt()
        e = exact.expm1(2 * x)
        return e / (e + 2) / x

    return fit(32, lambda z: (over_x(z) - 1) / z, lambda z: z / over_x(z), "1e-9", D("0.36"), numbered(0, 3))


@table
def tanh_quotient_f32() -> Table:
    def tanh(x: Decimal) -> Decimal:
        e = exact.expm1(2 * x)
        return e / (e + 2)

    return quotient(tanh, "6.75", "0.4570383 0.021357565 0.00014898065")


@table
def erf_quotient_f32() -> Table:
    return quotient(exact.erf, "3.3", "0.47048504 0.094949567 0.0092547623")


# -- error functions


@table
def erf_f32() -> Table:
    """erf(a) = N / (N + D), N = a P(a): the D that is best for a P.

    P is the numerator of the best quotient of degrees 6 and 6, times a number that makes both constants, whose ratio is
    2 / sqrt(pi), almost exact after rounding.
    """
    names = [f"n{k}" for k in range(7)]
    best = "0.83833027 -0.41280133 0.18022884 0.0022122208 0.0028698333 0.00049464864 0.0012160386"
    n = [to_float32(D(v)) for v in best.split()]

    def numerator(a: Decimal) -> Decimal:
        return sum((c * a**k for k, c in enumerate(n)), D(0)) * a

    return fit(
        32,
        lambda a: numerator(a) * exact.erfc(a) / exact.erf(a),
        lambda a: exact.erf(a) / numerator(a),
        "1e-5",
        "3.93",
        " ".join(f"d{k}" for k in range(7)),
        dict(zip(names, n, strict=True)),
    )


@table
def erf_f64() -> Table:
    """In (a - 3) / 3, which keeps the coefficients small"""

    def g(v: Decimal) -> Decimal:
        a = 3 * v + 3
        return (-exact.erfc(a).ln() - TWO_OVER_SQRT_PI * a) / (a * a)

    def weight(v: Decimal) -> Decimal:
        a = 3 * v + 3
        return a * a * exact.erfc(a) / exact.erf(a)

    high = to_float64(TWO_OVER_SQRT_PI)
    first = {"high": high, "low": to_float64(TWO_OVER_SQRT_PI - high)}
    return fit(64, g, weight, "-0.9999999", "1", numbered(0, 24), first)


def _erfinv_over_x(w: Decimal) -> Decimal:
    """erfinv(x) / x as a function of w = -log(1 - x^2)"""
    x = exact.with_digits(20, lambda v: (1 - (-v).exp()).sqrt(), w)
    return exact.erfinv_tail(1 - x) / x


@table
def erfinv_central_f32() -> Table:
    def g(t: Decimal) -> Decimal:
        return _erfinv_over_x(t + D("2.5"))

    return fit(32, g, lambda t: 1 / g(t), "-2.4999999", "2.5", numbered(0, 9))


@table
def erfinv_tail_f32() -> Table:
    def g(u: Decimal) -> Decimal:
        return _erfinv_over_x((u + 3) ** 2)

    return fit(32, g, lambda u: 1 / g(u), D(5).sqrt() - 3, "1", " ".join(f"d{i}" for i in range(10)))


@table
def digamma_f64() -> Table:
    """digamma(x) / (x - root) in x - 1.5, and the root in two parts"""
    root = D("1.46163214496836234")
    for _ in range(3):
        root -= exact.digamma(root) / D("0.96767224544762")

    def g(t: Decimal) -> Decimal:
        return exact.digamma(t + D("1.5")) / (t + D("1.5") - root)

    high = to_float64(root)
    first = {"high": high, "low": to_float64(root - high)}
    return fit(64, g, lambda t: 1 / g(t), "-0.5", "0.5", numbered(0, 20), first)


@table
def erfc_f64_short() -> Table:
    def g(w: Decimal) -> Decimal:
        a = 2 * (1 + w) / (1 - w)
        return (a * a).exp() * exact.erfc(a) * (a + 2)

    return fit(64, g, lambda w: 1 / g(w), "-1", D("8.2") / D("12.2"), numbered(0, 9))


def fitted_statements(text: str) -> list[tuple[str, str]]:
    """The names and statements (on one line) that follow `// fit: NAME`."""
    found = re.findall(r"// fit: (\w+)\n\s*([^;]*;)", text)
    return [(name, " ".join(statement.split())) for name, statement in found]


def _wrapped(statement: str, indent: str) -> str:
    lines, line = [], indent
    for item in statement.split(", "):
        if len(line) + len(item) > 116:
            lines.append(line.rstrip())
            line = indent + "    "
        line += item + ", "
    return "\n".join([*lines, line.rstrip(", ")])


def update() -> None:
    built = {name: build().statement() for name, build in TABLES.items()}
    for path in HEADERS:
        text = path.read_text()

        def replace(match: re.Match[str]) -> str:
            return f"{match[1]}// fit: {match[2]}\n{_wrapped(built[match[2]], match[1])}"

        new = re.sub(r"( *)// fit: (\w+)\n[^;]*;", replace, text)
        if new != text:
            path.write_text(new)
            print("rewritten:", path.name)


def main(arguments: list[str]) -> None:
    if arguments == ["--update"]:
        update()
        return
    for name in arguments or TABLES:
        built = TABLES[name]()
        print(f"// fit: {name}" + (f"   (error 2^{math.log2(built.error):.2f})" if built.error else ""))
        print(built.statement())


if __name__ == "__main__":
    main(sys.argv[1:])

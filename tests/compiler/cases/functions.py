# SPDX-License-Identifier: Apache-2.0
"""Functions of one element and of two, comparisons, logic, in every element type."""

from __future__ import annotations

from math import nan
from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node

ROUNDING = ("neg", "abs", "sign", "floor", "ceil", "trunc", "rint", "round_away")
ANGLES = ("sin", "cos", "tan")
FUNCTIONS = (
    *("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "rcbrt"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("sigmoid", "softplus", "erf", "erfinv"),
)
GAMMA = ("tgamma", "lgamma")
POLYGAMMA = ("digamma", "trigamma")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "max", "min")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = ("bit_and", "bit_or", "bit_xor")


def _each(b: Builder, names: tuple[str, ...], *x: Node) -> list[Node]:
    return [getattr(b, name)(*x) for name in names]


@case("f32[40]", "f64[40]")
def rounded(b: Builder, x: Node, y: Node) -> Any:
    return [*_each(b, ROUNDING, x * 3.0), *_each(b, ROUNDING, y * 3.0)]


@case("f32[40]", "f64[40]")
def functions(b: Builder, x: Node, y: Node) -> Any:
    return [r for a in (x, y) for r in (*_each(b, FUNCTIONS, a), *_each(b, GAMMA, b.abs(a) + 0.1))]


@case("f32[40]", "f64[40]", "f16[40]", "bf16[40]")
def angles(b: Builder, *x: Node) -> Any:
    """Small and large ones; products with powers of two are exact."""
    large = {"f16": 2.0**14}
    return [r for a in x for f in (1.0, large.get(a.dtype.short, 2.0**30)) for r in _each(b, ANGLES, a * f)]


@case("f32[40]", "f64[40]")
def functions_with_poles(b: Builder, x: Node, y: Node) -> Any:
    return [r for a in (x, y) for r in _each(b, POLYGAMMA, a)]


@case("f32[40]", "f64[40]", "f16[40]")
def not_a_number(b: Builder, *x: Node) -> Any:
    return [b.select(b.gt(a, 0.0), a, b.full(a.shape, nan, a.dtype)) for a in x]


@case("f32[40]", "f32[40]", "f64[40]", "f64[40]")
def functions_of_two(b: Builder, x: Node, y: Node, u: Node, v: Node) -> Any:
    names = ("hypot", "atan2", "mod", "div")
    return [r for p, q in ((x, y), (u, v)) for r in (*_each(b, names, p, q), b.pow(b.abs(p), q))]


@case("f32[40]", "f32[40]", "f64[40]", "f64[40]")
def compared(b: Builder, x: Node, y: Node, u: Node, v: Node) -> Any:
    """Many of them equal."""
    whole = [b.rint(a) for a in (x, y, u, v)]
    tests = [r for a in (x, u) for r in _each(b, ("isnan", "isinf", "isfinite"), a)]
    truths = b.gt(x, y), b.lt(x, 0.0)
    tests += [*_each(b, LOGICAL, *truths), b.logical_not(truths[0])]
    return [*_each(b, COMPARED, *whole[:2]), *_each(b, COMPARED, *whole[2:]), *tests]


@case("i32[40]", "i32[40]", "i64[40]", "i64[40]", "u8[40]", "u8[40]", "i8[40]", "i8[40]")
def compared_integers(b: Builder, *x: Node) -> Any:
    names = (*COMPARED, "mod", "div")
    found = [r for k in range(0, 8, 2) for r in _each(b, names, *x[k : k + 2])]
    return [*found, *(r for k in (0, 2, 6) for r in _each(b, ("neg", "abs", "sign"), x[k]))]


@case("i32[40]", "i32[40]", "i64[40]", "i64[40]", "u8[40]", "u8[40]", "i8[40]", "i8[40]", "bool[40]", "bool[40]")
def bits(b: Builder, *x: Node) -> Any:
    found = [r for k in range(0, 10, 2) for r in _each(b, BITWISE, *x[k : k + 2])]
    return [*found, *(b.gcd(*x[k : k + 2]) for k in range(0, 8, 2))]

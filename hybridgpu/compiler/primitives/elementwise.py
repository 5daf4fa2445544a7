# SPDX-License-Identifier: Apache-2.0
"""Elementwise primitives: all operands and the result have one shape.

A row gives the NumPy meaning, the scalar expression for kernels, and the derivative as a formula
in ``g`` (the cotangent), ``y`` (the result) and the operands. Formulas for kinks follow MXNet:
``maximum`` at a tie gives everything to its left operand, ``abs`` and ``sign`` are 0 at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtypes import DType, bool_, f32
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive, not_differentiable
from ..ir.types import TensorType, joint_type, tensor_type
from . import special
from .prepared import PreparedEvaluation

ROWS: list[Primitive] = []

Formula = Callable[..., Any]


def _same(types: Sequence[TensorType], params: Params) -> TensorType:
    first = types[0]
    for t in types:
        if t is not first:
            joint = joint_type(first, t)
            if joint is None:
                raise TypeError(f"operands differ: {first!r} and {t!r}")
            first = joint
    return first


def _same_of(allowed: Callable[[DType], bool], wanted: str) -> Callable[..., TensorType]:
    """The type rule of operands of one type whose element type is ``allowed``."""

    def infer(types: Sequence[TensorType], params: Params) -> TensorType:
        if not allowed(types[0].dtype):
            raise TypeError(f"{wanted} operand is needed, not {types[0]!r}")
        return _same(types, params)

    return infer


_same_float = _same_of(lambda dtype: dtype.is_float, "a floating point")
_same_bool = _same_of(lambda dtype: dtype is bool_, "a bool")
_same_whole = _same_of(lambda dtype: not dtype.is_float, "an integer or bool")
_same_integer = _same_of(lambda dtype: dtype.is_integer, "an integer")


def _to_bool(types: Sequence[TensorType], params: Params) -> TensorType:
    return tensor_type(_same(types, params).shape, bool_)


def _formulas(rules: tuple[Formula, ...]) -> Callable[..., Sequence[Node | None]]:
    def vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
        return [rule(b, g, y, *inputs) for rule in rules]

    return vjp


def _row(
    name: str,
    infer: Callable[..., TensorType],
    evaluate: Callable[..., Any] | str,
    expr: str | Callable[..., str],
    rules: tuple[Formula, ...] | str,
    cost: int,
    doc: str,
    **traits: bool,
) -> None:
    run = (
        PreparedEvaluation(lambda xp, shapes, params, out: getattr(xp, evaluate))
        if isinstance(evaluate, str)
        else evaluate
    )
    vjp = rules if isinstance(rules, str) else _formulas(rules)
    ROWS.append(Primitive(name, "elementwise", infer, run, vjp, expr, cost, doc, **traits))


def _float_unary(
    name: str, evaluate: Callable[..., Any] | str, rule: Formula | str, cost: int, doc: str, **traits: bool
) -> None:
    rules = rule if isinstance(rule, str) else (rule,)
    _row(name, _same_float, evaluate, f"hg::{name}({{0}})", rules, cost, doc, **traits)


def _special(name: str) -> Callable[..., Any]:
    return lambda xp, inputs, params, out: special.function(xp, name)(*inputs)


def _by_kind(of_float: str, of_integer: str) -> Callable[[Sequence[DType], DType], str]:
    return lambda dtypes, out: of_float if dtypes[0].is_float else of_integer


# -- unary, any number type

_row("neg", _same, "negative", _by_kind("-{0}", "hg::negative({0})"), (lambda b, g, y, x: -g,), 1, "-x")
_row("abs", _same, "absolute", "hg::abs({0})", (lambda b, g, y, x: g * b.sign(x),), 1, "|x|")
_row(
    "sign",
    _same,
    lambda xp, inputs, params, out: (inputs[0] > 0).astype(out.dtype.np) - (inputs[0] < 0).astype(out.dtype.np),
    "hg::sign({0})",
    NO_DERIVATIVE,
    2,
    "-1, 0 or 1; 0 for NaN",
    jumps=True,
    numpy_slow=True,
)

# -- rounding

for _name, _np, _doc in (
    ("floor", "floor", "largest integer not above x"),
    ("ceil", "ceil", "smallest integer not below x"),
    ("trunc", "trunc", "x without its fraction"),
    ("rint", "rint", "nearest integer, halves to even"),
):
    _float_unary(_name, _np, NO_DERIVATIVE, 1, _doc, jumps=True)
_float_unary(
    "round_away",
    lambda xp, inputs, params, out: special.round_away(xp, inputs[0]),
    NO_DERIVATIVE,
    2,
    "nearest integer, halves away from zero",
    jumps=True,
    numpy_slow=True,
)

# -- exponentials, powers, roots

_float_unary("exp", "exp", lambda b, g, y, x: g * y, 12, "e**x")
_float_unary("expm1", "expm1", lambda b, g, y, x: g * (y + 1), 14, "e**x - 1 without cancellation")
_float_unary("log", "log", lambda b, g, y, x: g / x, 14, "natural logarithm")
_float_unary("log2", "log2", lambda b, g, y, x: g / (x * math.log(2)), 14, "logarithm to base 2")
_float_unary("log10", "log10", lambda b, g, y, x: g / (x * math.log(10)), 14, "logarithm to base 10")
_float_unary("log1p", "log1p", lambda b, g, y, x: g / (x + 1), 16, "log(1 + x) without cancellation")
_float_unary("sqrt", "sqrt", lambda b, g, y, x: g * 0.5 / y, 6, "square root", numpy_slow=True)
_float_unary(
    "rsqrt",
    lambda xp, inputs, params, out: xp.reciprocal(xp.sqrt(inputs[0])),
    lambda b, g, y, x: g * -0.5 * y * y * y,
    8,
    "1 / sqrt(x)",
    numpy_slow=True,
)
_float_unary("cbrt", "cbrt", lambda b, g, y, x: g / (y * y * 3), 20, "cube root")
_float_unary(
    "rcbrt",
    lambda xp, inputs, params, out: xp.reciprocal(xp.cbrt(inputs[0])),
    lambda b, g, y, x: -g * y / (x * 3),
    22,
    "1 / cbrt(x)",
)

# -- trigonometric and hyperbolic

_float_unary("sin", "sin", lambda b, g, y, x: g * b.cos(x), 20, "sine, radians")
_float_unary("cos", "cos", lambda b, g, y, x: -g * b.sin(x), 20, "cosine, radians")
_float_unary("tan", "tan", lambda b, g, y, x: g * (y * y + 1), 24, "tangent, radians")
_float_unary("asin", "arcsin", lambda b, g, y, x: g * b.rsqrt(1 - x * x), 20, "inverse sine")
_float_unary("acos", "arccos", lambda b, g, y, x: -g * b.rsqrt(1 - x * x), 20, "inverse cosine")
_float_unary("atan", "arctan", lambda b, g, y, x: g / (x * x + 1), 20, "inverse tangent")
_float_unary("sinh", "sinh", lambda b, g, y, x: g * b.cosh(x), 18, "hyperbolic sine")
_float_unary("cosh", "cosh", lambda b, g, y, x: g * b.sinh(x), 18, "hyperbolic cosine")
_float_unary("tanh", "tanh", lambda b, g, y, x: g * (1 - y * y), 18, "hyperbolic tangent")
_float_unary("asinh", "arcsinh", lambda b, g, y, x: g * b.rsqrt(x * x + 1), 24, "inverse hyperbolic sine")
_float_unary("acosh", "arccosh", lambda b, g, y, x: g * b.rsqrt(x * x - 1), 24, "inverse hyperbolic cosine")
_float_unary("atanh", "arctanh", lambda b, g, y, x: g / (1 - x * x), 24, "inverse hyperbolic tangent")

# -- sigmoid family, error function, gamma

_float_unary("sigmoid", _special("sigmoid"), lambda b, g, y, x: g * y * (1 - y), 16, "1 / (1 + e**-x)")
_float_unary(
    "softplus", _special("softplus"), lambda b, g, y, x: g * b.sigmoid(x), 28, "log(1 + e**x) without overflow"
)
_float_unary(
    "erf",
    _special("erf"),
    lambda b, g, y, x: g * (2 / math.sqrt(math.pi)) * b.exp(-(x * x)),
    18,
    "error function",
    series=True,
)
_float_unary(
    "erfinv",
    _special("erfinv"),
    lambda b, g, y, x: g * (math.sqrt(math.pi) / 2) * b.exp(y * y),
    30,
    "inverse error function",
    series=True,
)
_float_unary("tgamma", _special("tgamma"), lambda b, g, y, x: g * y * b.digamma(x), 60, "gamma function", series=True)
_float_unary("lgamma", _special("lgamma"), lambda b, g, y, x: g * b.digamma(x), 60, "log of |gamma(x)|", series=True)
_float_unary(
    "digamma", _special("digamma"), lambda b, g, y, x: g * b.trigamma(x), 60, "derivative of lgamma", series=True
)
_float_unary(
    "trigamma",
    _special("trigamma"),
    not_differentiable(
        "_backward_gammaln",
        "gamma, gammaln and digamma lead to the second derivative of gammaln, which has none: compute it by differences.",
    ),
    60,
    "derivative of digamma",
    series=True,
)

# -- binary

_row(
    "add",
    _same,
    "add",
    _by_kind("{0} + {1}", "hg::plus({0}, {1})"),
    (lambda b, g, y, x0, x1: g, lambda b, g, y, x0, x1: g),
    1,
    "x0 + x1; integers wrap around",
)
_row(
    "sub",
    _same,
    "subtract",
    _by_kind("{0} - {1}", "hg::minus({0}, {1})"),
    (lambda b, g, y, x0, x1: g, lambda b, g, y, x0, x1: -g),
    1,
    "x0 - x1; integers wrap around",
)
_row(
    "mul",
    _same,
    "multiply",
    _by_kind("{0} * {1}", "hg::times({0}, {1})"),
    (lambda b, g, y, x0, x1: g * x1, lambda b, g, y, x0, x1: g * x0),
    1,
    "x0 * x1; integers wrap around",
)
_row(
    "div",
    _same,
    lambda xp, inputs, params, out: special.divide(xp, inputs[0], inputs[1], out.dtype),
    _by_kind("{0} / {1}", "hg::idiv({0}, {1})"),
    (lambda b, g, y, x0, x1: g / x1, lambda b, g, y, x0, x1: -g * y / x1),
    4,
    "x0 / x1; integers are cut towards zero and x / 0 is 0",
)
_row(
    "mod",
    _same,
    lambda xp, inputs, params, out: special.modulo(xp, inputs[0], inputs[1], out.dtype),
    "hg::mod({0}, {1})",
    # integers have no slope
    (
        lambda b, g, y, x0, x1: g if x0.dtype.is_float else None,
        lambda b, g, y, x0, x1: -g * b.floor(x0 / x1) if x0.dtype.is_float else None,
    ),
    8,
    "remainder with the divisor's sign; x mod 0 is 0",
    jumps=True,
)
_row(
    "pow",
    _same_float,
    lambda xp, inputs, params, out: special.power(xp, *inputs),
    "hg::pow({0}, {1})",
    (
        lambda b, g, y, x0, x1: g * x1 * b.pow(x0, x1 - 1),
        lambda b, g, y, x0, x1: g * b.log(x0) * y,
    ),
    40,
    "x0 ** x1",
)
_row(
    "max",
    _same,
    "maximum",
    "hg::maximum({0}, {1})",
    (
        lambda b, g, y, x0, x1: b.select(b.ge(x0, x1), g, b.full_like(g, 0)),
        lambda b, g, y, x0, x1: b.select(b.ge(x0, x1), b.full_like(g, 0), g),
    ),
    1,
    "the larger; NaN if either is NaN",
    numpy_slow=True,
)
_row(
    "min",
    _same,
    "minimum",
    "hg::minimum({0}, {1})",
    (
        lambda b, g, y, x0, x1: b.select(b.le(x0, x1), g, b.full_like(g, 0)),
        lambda b, g, y, x0, x1: b.select(b.le(x0, x1), b.full_like(g, 0), g),
    ),
    1,
    "the smaller; NaN if either is NaN",
    numpy_slow=True,
)
_row(
    "hypot",
    _same_float,
    "hypot",
    "hg::hypot({0}, {1})",
    (lambda b, g, y, x0, x1: g * x0 / y, lambda b, g, y, x0, x1: g * x1 / y),
    12,
    "sqrt(x0**2 + x1**2) without overflow",
)
_row(
    "atan2",
    _same_float,
    "arctan2",
    "hg::atan2({0}, {1})",
    (
        lambda b, g, y, x0, x1: g * x1 / (x0 * x0 + x1 * x1),
        lambda b, g, y, x0, x1: -g * x0 / (x0 * x0 + x1 * x1),
    ),
    24,
    "angle of the point (x1, x0)",
)

# -- integers

for _name, _np, _c, _doc in (
    ("bit_and", "bitwise_and", "&", "bits set in both; of bool: both"),
    ("bit_or", "bitwise_or", "|", "bits set in either; of bool: either"),
    ("bit_xor", "bitwise_xor", "^", "bits set in exactly one; of bool: exactly one"),
):
    _row(_name, _same_whole, _np, f"({{T}})({{0}} {_c} {{1}})", NO_DERIVATIVE, 1, _doc)
_row("gcd", _same_integer, "gcd", "hg::gcd({0}, {1})", NO_DERIVATIVE, 60, "greatest common divisor, not negative")

# -- comparison and logic

for _name, _np, _c in (
    ("eq", "equal", "=="),
    ("ne", "not_equal", "!="),
    ("lt", "less", "<"),
    ("le", "less_equal", "<="),
    ("gt", "greater", ">"),
    ("ge", "greater_equal", ">="),
):
    _row(_name, _to_bool, _np, f"{{0}} {_c} {{1}}", NO_DERIVATIVE, 1, f"x0 {_c} x1, bool", jumps=True)
_row("logical_and", _same_bool, "logical_and", "{0} && {1}", NO_DERIVATIVE, 1, "both, bool")
_row("logical_or", _same_bool, "logical_or", "{0} || {1}", NO_DERIVATIVE, 1, "either, bool")
_row("logical_xor", _same_bool, "logical_xor", "{0} != {1}", NO_DERIVATIVE, 1, "exactly one, bool")
_row("logical_not", _same_bool, "logical_not", "!{0}", NO_DERIVATIVE, 1, "not, bool")
for _name, _np in (("isnan", "isnan"), ("isinf", "isinf"), ("isfinite", "isfinite")):
    _row(
        _name,
        lambda types, params: tensor_type(_same_float(types, params).shape, bool_),
        _np,
        f"hg::{_name}({{0}})",
        NO_DERIVATIVE,
        1,
        f"{_name}(x), bool",
        jumps=True,
    )


# -- select, cast, copy


def _infer_select(types: Sequence[TensorType], params: Params) -> TensorType:
    condition, x0, x1 = types
    joint = joint_type(x0, x1)
    if condition.dtype is not bool_ or joint is None or condition.shape != x0.shape:
        raise TypeError(f"select wants a bool and two equal types, not {condition!r}, {x0!r}, {x1!r}")
    return joint


def _cast_expr(dtypes: Sequence[DType], out: DType) -> str:
    source = dtypes[0]
    if out is bool_:
        return "{0} != 0"
    if source.is_float and out.is_integer:
        # narrow types wrap as MXNet's do, which a direct conversion leaves undefined
        return "({T})hg::to_int({0})" if out.size < 4 or out.short == "i32" else "({T})hg::to_long({0})"
    if out.is_half:
        rounded = out.storage.replace("hg::", "hg::round_")
        if source is bool_:
            return f"{rounded}({{0}} ? 1.0f : 0.0f)"
        return f"{rounded}({{0}})" if source.is_float else f"{rounded}((float){{0}})"
    if source is bool_ and out.is_float:
        return "{0} ? ({T})1 : ({T})0"  # g++ takes four times as long to convert a mask as to select by it
    return "({T}){0}"


def _evaluate_cast(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    x, target = inputs[0], params["dtype"]
    if target is bool_:
        return x != 0
    if x.dtype.kind == "f" and target.is_integer and (target.size < 4 or target.kind == "u"):
        x = x.astype(xp.int32 if target.size < 4 else xp.int64)
    return x.astype(target.np)


_row(
    "select",
    _infer_select,
    lambda xp, inputs, params, out: xp.where(*inputs),
    "{0} ? {1} : {2}",
    (
        lambda b, g, y, c, x0, x1: None,
        lambda b, g, y, c, x0, x1: b.select(c, g, b.full_like(g, 0)),
        lambda b, g, y, c, x0, x1: b.select(c, b.full_like(g, 0), g),
    ),
    1,
    "x1 where the condition holds, else x2",
    moves=True,
)
_row(
    "cast",
    lambda types, params: tensor_type(types[0].shape, params["dtype"]),
    _evaluate_cast,
    _cast_expr,
    # what was only held in a wider type is not rounded on its way back
    (lambda b, g, y, x: b.round_to(g, x.dtype) if x.dtype.is_half and g.dtype is f32 else b.cast(g, x.dtype),),
    1,
    "convert the element type",
)
_row(
    "copy",
    _same,
    lambda xp, inputs, params, out: xp.array(inputs[0], order="C"),
    "{0}",
    (lambda b, g, y, x: g,),
    1,
    "the same values in memory of their own",
    moves=True,
)
_row(
    "stop_gradient",
    _same,
    lambda xp, inputs, params, out: inputs[0],
    "{0}",
    NO_DERIVATIVE,
    1,
    "identity whose derivative is zero",
    moves=True,
)

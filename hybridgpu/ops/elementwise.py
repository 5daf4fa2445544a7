# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators: unary, binary, with a scalar, broadcasting, logic, selection.

MXNet computes floating point functions of integers in double precision and cuts the result back to
the input's type; comparisons give 0 and 1 in the input's type; a scalar operand is converted to the
array's type first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.graph import broadcast_shapes
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import DType, bool_, f32, f64, i64
from .dynamic_attributes import DynamicAttribute, as_stored
from .params import Bool, Double, Dtype, Float, Int, Values
from .precision import MIXED
from .record import operator, sample, shape_text

Fn = Callable[..., Node]

# -- helpers for lowerings


def in_floats(b: Builder, function: Fn, *inputs: Node) -> Node:
    """``function`` on floating point operands; integers go through double and are cut back."""
    dtype = inputs[0].dtype
    if dtype.is_float:
        return function(*inputs)
    need_number(inputs[0])
    return b.cast(function(*(b.cast(i, f64) for i in inputs)), dtype)


def need_number(x: Node) -> None:
    """Raise MXNet's error for truth values where it computes with numbers only."""
    if x.dtype is bool_:
        raise MXNetError("Unknown type enum 7")


def truth(b: Builder, x: Node) -> Node:
    """``x != 0`` as bool."""
    return x if x.dtype is bool_ else b.ne(x, 0)


def as_number(b: Builder, condition: Node, dtype: DType) -> Node:
    """A bool as 0 and 1 of ``dtype``."""
    return b.cast(condition, dtype)


def root_flat_at_zero(b: Builder, root: Fn, x: Node) -> Node:
    """``root(x)``, with the slope 0 at 0, where that of a root is infinite: what is constant gives no gradient."""
    some = b.ne(x, 0)
    return b.select(some, root(b.select(some, x, 1)), 0)


# -- unary


def _unary(name: str, function: Fn, doc: str, **fields: Any) -> None:
    """Declare a unary operator; ``function`` takes the builder and a floating point node."""

    def lower(b: Builder, p: Values, data: Node) -> Node:
        return in_floats(b, lambda x: function(b, x), data)

    operator(name, **{"method": name.split(maxsplit=1)[0], "same_shape": True, **fields}, doc=doc)(lower)


def _unary_any(name: str, function: Fn, doc: str, **fields: Any) -> None:
    """As ``_unary`` for functions that integers have of their own."""

    def lower(b: Builder, p: Values, data: Node) -> Node:
        need_number(data)
        return function(b, data)

    operator(name, **{"method": name.split(maxsplit=1)[0], "same_shape": True, **fields}, doc=doc)(lower)


def _same_for_integers(primitive: str) -> Fn:
    """Rounding: what is whole already stays."""
    return lambda b, x: getattr(b, primitive)(x) if x.dtype.is_float else b.copy(x)


def _rint_down(b: Builder, x: Node) -> Node:
    """Nearest integer, halves down: MXNet's rint (-2.5 -> -3, 0.5 -> 0, 2.5 -> 2)."""
    if not x.dtype.is_float:
        return b.copy(x)
    low, high = b.floor(x), b.ceil(x)
    return b.select(b.le(x - low, high - x), low, high)


_unary_any("abs", lambda b, x: b.abs(x), "Absolute value.")
_unary_any("sign", lambda b, x: b.sign(x), "-1, 0 or 1; 0 for NaN.", differentiable=False)
_unary_any("negative", lambda b, x: b.neg(x), "The negative.", method="")
_unary_any("square", lambda b, x: x * x, "x * x.")
_unary_any("rint", _rint_down, "Nearest integer, halves down.", differentiable=False)
_unary_any("ceil", _same_for_integers("ceil"), "Smallest integer not below.", differentiable=False)
_unary_any("floor", _same_for_integers("floor"), "Largest integer not above.", differentiable=False)
_unary_any("trunc", _same_for_integers("trunc"), "The integer part.", differentiable=False)
_unary_any("fix", _same_for_integers("trunc"), "Nearest integer towards zero.", differentiable=False)
_unary_any("round", _same_for_integers("round_away"), "Nearest integer, halves away from zero.", differentiable=False)
_unary("sqrt", lambda b, x: b.sqrt(x), "Square root.", domain=(0.1, 4))
_unary("rsqrt", lambda b, x: b.rsqrt(x), "1 / sqrt(x).", domain=(0.1, 4))
_unary("cbrt", lambda b, x: b.cbrt(x), "Cube root.", domain=(0.1, 4))
_unary("rcbrt", lambda b, x: b.rcbrt(x), "1 / cbrt(x).", domain=(0.1, 4))
_unary("exp", lambda b, x: b.exp(x), "e ** x.")
_unary("expm1", lambda b, x: b.expm1(x), "e ** x - 1 without cancellation.")
_unary("log", lambda b, x: b.log(x), "Natural logarithm.", domain=(0.1, 4))
_unary("log10", lambda b, x: b.log10(x), "Logarithm to base 10.", domain=(0.1, 4))
_unary("log2", lambda b, x: b.log2(x), "Logarithm to base 2.", domain=(0.1, 4))
_unary("log1p", lambda b, x: b.log1p(x), "log(1 + x) without cancellation.", domain=(-0.5, 2))
_unary("sin", lambda b, x: b.sin(x), "Sine of an angle in radians.")
_unary("cos", lambda b, x: b.cos(x), "Cosine of an angle in radians.")
_unary("tan", lambda b, x: b.tan(x), "Tangent of an angle in radians.", domain=(-1.2, 1.2))
_unary("arcsin", lambda b, x: b.asin(x), "Inverse sine, radians.", domain=(-0.9, 0.9))
_unary("arccos", lambda b, x: b.acos(x), "Inverse cosine, radians.", domain=(-0.9, 0.9))
_unary("arctan", lambda b, x: b.atan(x), "Inverse tangent, radians.")
_unary("sinh", lambda b, x: b.sinh(x), "Hyperbolic sine.")
_unary("cosh", lambda b, x: b.cosh(x), "Hyperbolic cosine.")
_unary("tanh", lambda b, x: b.tanh(x), "Hyperbolic tangent.")
_unary("arcsinh", lambda b, x: b.asinh(x), "Inverse hyperbolic sine.")
_unary("arccosh", lambda b, x: b.acosh(x), "Inverse hyperbolic cosine.", domain=(1.1, 4))
_unary("arctanh", lambda b, x: b.atanh(x), "Inverse hyperbolic tangent.", domain=(-0.9, 0.9))
_unary("degrees", lambda b, x: x * (180 / math.pi), "Radians to degrees.")
_unary("radians", lambda b, x: x * (math.pi / 180), "Degrees to radians.")
_unary("reciprocal", lambda b, x: b.div(1, x), "1 / x.", domain=(0.2, 3))


@gradient_rule("relu")
def _relu_gradient(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> Sequence[Node | None]:
    """1 above zero, 0 at and below it, NaN at NaN."""
    slope = b.select(b.gt(y, 0), g, b.full_like(g, 0))
    return [b.select(b.isnan(y), y, slope) if y.dtype.is_float else slope]


def rectified(b: Builder, x: Node) -> Node:
    """max(x, 0) with MXNet's derivative."""
    y = b.custom_gradient(b.max(0, x), x, rule="relu")
    assert isinstance(y, Node)
    return y


_unary_any("relu", rectified, "max(x, 0).", domain=(0.1, 2))
_unary("sigmoid", lambda b, x: b.sigmoid(x), "1 / (1 + e ** -x).")
_unary("softsign", lambda b, x: x / (b.abs(x) + 1), "x / (1 + |x|).", method="")
_unary("erf _npx_erf", lambda b, x: b.erf(x), "Error function.", method="")
_unary("erfinv _npx_erfinv", lambda b, x: b.erfinv(x), "Inverse error function.", domain=(-0.9, 0.9), method="")
_unary("gamma _npx_gamma", lambda b, x: b.tgamma(x), "Gamma function.", domain=(0.5, 4), method="")
_unary(
    "gammaln _npx_gammaln", lambda b, x: b.lgamma(x), "Log of the absolute value of gamma.", domain=(0.5, 4), method=""
)
_unary_any(
    "logical_not",
    lambda b, x: as_number(b, b.logical_not(truth(b, x)), x.dtype),
    "1 where x is 0.",
    differentiable=False,
    method="",
)


@operator("hard_sigmoid", same_shape=True, params={"alpha": Float(0.2, "slope"), "beta": Float(0.5, "offset")})
def hard_sigmoid(b: Builder, p: Values, data: Node) -> Node:
    """clip(alpha * x + beta, 0, 1)."""
    return in_floats(b, lambda x: b.max(b.min(x * p.alpha + p.beta, 1), 0), data)


@operator(
    "smooth_l1 _npx_smooth_l1", same_shape=True, params={"scalar": Double(1.0, "where the parabola meets the line")}
)
def smooth_l1(b: Builder, p: Values, data: Node) -> Node:
    """A parabola near zero and |x| - 0.5 / scalar**2 beyond 1 / scalar**2."""

    def compute(x: Node) -> Node:
        square = p.scalar * p.scalar
        if not square:  # the parabola is everywhere
            return x * x * 0.0
        size = b.abs(x)
        return b.select(b.lt(size, 1 / square), x * x * (0.5 * square), size - 0.5 / square)

    return in_floats(b, compute, data)


@operator("_copy identity", same_shape=True, method="")
def identity(b: Builder, p: Values, data: Node) -> Node:
    """The same values in an array of its own."""
    return b.copy(data)


@operator("BlockGrad stop_gradient", same_shape=True, differentiable=False)
def block_grad(b: Builder, p: Values, data: Node) -> Node:
    """Identity through which no gradient flows."""
    return b.stop_gradient(data)


@gradient_rule("ones", exact=False)
def _ones(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> list[Node | None]:
    """A loss starts the backward pass: what comes from behind it does not count."""
    return [b.full_like(inputs[0], 1)]


@operator("make_loss", same_shape=True, output_names=("loss",))
def make_loss(b: Builder, p: Values, data: Node) -> Node:
    """Marks a loss: identity, with a gradient of 1 whatever the head gradient is."""
    return b.custom_gradient(b.copy(data), data, rule="ones")


@operator("zeros_like", same_shape=True, method="zeros_like", differentiable=False)
def zeros_like(b: Builder, p: Values, data: Node) -> Node:
    """Zeros of the input's shape and type."""
    return b.full_like(data, 0)


@operator("ones_like", same_shape=True, method="ones_like", differentiable=False)
def ones_like(b: Builder, p: Values, data: Node) -> Node:
    """Ones of the input's shape and type."""
    return b.full_like(data, 1)


@operator(
    "Cast cast _npx_cast _npi_cast",
    same_shape=True,
    params={"dtype": Dtype(doc="the new element type")},
    samples=tuple(sample(None, {"dtype": d}) for d in ("float32", "float16", "float64", "int32", "uint8", "bool")),
    domain=(-100.0, 100.0),
)
def cast(b: Builder, p: Values, data: Node) -> Node:
    """Convert the elements: floats are cut towards zero, narrow integers wrap, bool is x != 0."""
    return asked_cast(b, data, p.dtype)


def asked_cast(b: Builder, x: Node, dtype: DType) -> Node:
    """A cast that the program asks for: its gradient is rounded, other than that of casts in our formulas."""
    y = b.cast(x, dtype)
    return b.custom_gradient(y, x, rule="cast") if x.dtype.is_half and dtype is f32 else y


@gradient_rule("cast")
def _cast_gradient(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> Sequence[Node | None]:
    return [b.cast(g, inputs[0].dtype)]


def _mixed_dtype(p: Values, dtypes: Sequence[DType | None]) -> DType | None:
    return p.dtype if dtypes[0] in MIXED else dtypes[0]


@operator(
    "amp_cast",
    same_shape=True,
    params={"dtype": Dtype(doc="the new element type")},
    result_dtype=_mixed_dtype,
    samples=tuple(sample(None, {"dtype": d}) for d in ("float32", "float16")),
)
def amp_cast(b: Builder, p: Values, data: Node) -> Node:
    """Cast between float32, float16 and bfloat16; other types stay."""
    return asked_cast(b, data, p.dtype) if data.dtype in MIXED else b.copy(data)


@operator(
    "clip _npi_clip",
    same_shape=True,
    params={"a_min": Float(doc="lower bound", varies=True), "a_max": Float(doc="upper bound", varies=True)},
    method="clip",
    samples=(sample(None, {"a_min": -0.75, "a_max": 1}), sample(None, {"a_min": 1, "a_max": float("inf")})),
)
def clip(b: Builder, p: Values, data: Node) -> Node:
    """Limit the values to a_min … a_max; NaN stays."""
    need_number(data)
    if data.dtype.is_float:
        return _clip(b, data, p.a_min, p.a_max)
    wide = b.cast(data, f64)
    limited = _clip(b, wide, p.a_min, p.a_max)
    result = b.cast(limited, data.dtype)
    return b.select(b.eq(limited, wide), data, result) if data.dtype.size == 8 else result  # which float64 may round


def _clip(b: Builder, x: Node, low: float | DynamicAttribute, high: float | DynamicAttribute) -> Node:
    # bounds on the left: at a bound the gradient goes to x, as in MXNet; there the upper one wins over both, and NaN is none
    if isinstance(low, DynamicAttribute) or isinstance(high, DynamicAttribute):
        least, most = (_bound(b, x, *bound) for bound in ((low, -math.inf), (high, math.inf)))
        raised = b.max(x, least)
        return b.select(b.le(least, most), b.min(raised, most), b.select(b.gt(x, most), most, raised))
    low, high = float(np.float32(low)), float(np.float32(high))  # as MXNet keeps them
    low, high = -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
    return b.min(b.max(x, low), high) if low <= high else b.select(b.gt(x, high), b.full_like(x, high), b.max(x, low))


def _bound(b: Builder, x: Node, value: float | DynamicAttribute, none: float) -> Node:
    """``value`` in the type and shape of ``x``; ``none`` where it is NaN."""
    if not isinstance(value, DynamicAttribute):
        return scalar_node(b, x, none if math.isnan(value) else value)
    number = value.number(x.dtype)
    number = b.select(b.isnan(number), b.full_like(number, none), number)
    return b.broadcast(b.reshape(number, (1,) * x.ndim), x.shape)


# -- binary: lhs op rhs, without and with broadcasting


def _integer_power(b: Builder, x: Node, y: Node) -> Node:
    return in_floats(b, b.pow, x, y)


def _compare(primitive: str) -> Fn:
    return lambda b, x, y: as_number(b, getattr(b, primitive)(x, y), x.dtype)


def _logic(primitive: str) -> Fn:
    return lambda b, x, y: as_number(b, getattr(b, primitive)(truth(b, x), truth(b, y)), x.dtype)


#: word -> (function, doc, names without broadcasting, gradient)
_BINARY: dict[str, tuple[Fn, str, str, bool]] = {
    "add": (lambda b, x, y: x + y, "lhs + rhs", "elemwise_add _plus _Plus _add _grad_add", True),
    "sub": (lambda b, x, y: x - y, "lhs - rhs", "elemwise_sub _minus _Minus _sub", True),
    "mul": (lambda b, x, y: x * y, "lhs * rhs", "elemwise_mul _mul _Mul", True),
    "div": (lambda b, x, y: x / y, "lhs / rhs; integers are cut towards zero", "elemwise_div _div _Div", True),
    "mod": (lambda b, x, y: b.mod(x, y), "remainder with the sign of rhs; 0 where rhs is 0", "_mod _Mod", True),
    "power": (_integer_power, "lhs ** rhs", "_power _pow _Power", True),
    "maximum": (lambda b, x, y: b.max(x, y), "the larger; NaN if either is NaN", "_maximum _Maximum", True),
    "minimum": (lambda b, x, y: b.min(x, y), "the smaller; NaN if either is NaN", "_minimum _Minimum", True),
    "hypot": (lambda b, x, y: in_floats(b, b.hypot, x, y), "sqrt(lhs**2 + rhs**2)", "_hypot _Hypot", True),
    "equal": (_compare("eq"), "1 where lhs == rhs", "_equal _Equal", False),
    "not_equal": (_compare("ne"), "1 where lhs != rhs", "_not_equal _Not_Equal", False),
    "greater": (_compare("gt"), "1 where lhs > rhs", "_greater _Greater", False),
    "greater_equal": (_compare("ge"), "1 where lhs >= rhs", "_greater_equal _Greater_Equal", False),
    "lesser": (_compare("lt"), "1 where lhs < rhs", "_lesser _Lesser", False),
    "lesser_equal": (_compare("le"), "1 where lhs <= rhs", "_lesser_equal _Lesser_Equal", False),
    "logical_and": (_logic("logical_and"), "1 where both are true", "_logical_and _Logical_And", False),
    "logical_or": (_logic("logical_or"), "1 where either is true", "_logical_or _Logical_Or", False),
    "logical_xor": (_logic("logical_xor"), "1 where exactly one is true", "_logical_xor _Logical_Xor", False),
}
_BROADCASTING = tuple(
    sample(shapes)
    for shapes in (
        [(3, 5), (3, 5)],
        [(2, 1, 4), (3, 1)],
        [(1,), (2, 3)],
        [(2, 3, 7), (1, 3, 1)],
        [(), (2, 3)],
        [(0, 3), (1, 3)],
    )
)
_BROADCAST_ALIASES = {
    "add": "broadcast_plus",
    "sub": "broadcast_minus",
    "maximum": "_npi_maximum",
    "minimum": "_npi_minimum",
}


def broadcast_pair(b: Builder, lhs: Node, rhs: Node) -> tuple[Node, Node]:
    """Both operands in their common shape.

    Raises:
        MXNetError: the shapes do not broadcast.
    """
    try:
        shape = broadcast_shapes([lhs.shape, rhs.shape])
    except ValueError:
        raise MXNetError(
            "Check failed: l == 1 || r == 1: operands could not be broadcast together with shapes "
            f"{shape_text(lhs.shape)} {shape_text(rhs.shape)}"
        ) from None
    return b.broadcast(lhs, shape), b.broadcast(rhs, shape)


def _no_bool(x: Node, name: str) -> None:
    if x.dtype is bool_:
        raise MXNetError(f"Operator {name} does not support boolean type")


def _binary(word: str, function: Fn, doc: str, plain: str, gradient: bool) -> None:
    domain = (0.5, 2.0) if word in ("div", "mod", "power") else (-2.0, 2.0)

    def lower_plain(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
        if not word.startswith("logical"):
            _no_bool(lhs, plain.split(maxsplit=1)[0])
        return function(b, lhs, rhs)

    name = f"broadcast_{word}"

    def lower_broadcast(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
        if not word.startswith("logical"):
            _no_bool(lhs, name)
        return function(b, *broadcast_pair(b, lhs, rhs))

    operator(
        plain,
        "lhs rhs",
        same_shape=True,
        doc=f"{doc} (equal shapes).",
        output_names=("output",) if word == "add" else (),
        domain=domain,
        differentiable=gradient,
    )(lower_plain)
    names = f"{name} {_BROADCAST_ALIASES.get(word, '')}"
    operator(
        names,
        "lhs rhs",
        doc=f"{doc} (broadcasting).",
        domain=domain,
        differentiable=gradient,
        samples=_BROADCASTING,
    )(lower_broadcast)


for _word, (_function, _doc, _plain, _gradient) in _BINARY.items():
    _binary(_word, _function, _doc, _plain, _gradient)


# -- with a scalar


def scalar_node(b: Builder, x: Node, value: float | DynamicAttribute) -> Node:
    """The scalar converted to the array's type: MXNet computes int32 [3] + 1.7 as 4."""
    if isinstance(value, DynamicAttribute):
        return b.broadcast(b.reshape(value.number(x.dtype), (1,) * x.ndim), x.shape)
    return b.full(x.shape, as_stored(value, x.dtype), x.dtype)


_SCALAR: dict[str, tuple[str, bool]] = {  # name -> (word of _BINARY, scalar on the left)
    "_plus_scalar": ("add", False),
    "_minus_scalar": ("sub", False),
    "_rminus_scalar": ("sub", True),
    "_mul_scalar": ("mul", False),
    "_div_scalar": ("div", False),
    "_rdiv_scalar": ("div", True),
    "_mod_scalar": ("mod", False),
    "_rmod_scalar": ("mod", True),
    "_power_scalar": ("power", False),
    "_rpower_scalar": ("power", True),
    "_maximum_scalar": ("maximum", False),
    "_minimum_scalar": ("minimum", False),
    "_hypot_scalar": ("hypot", False),
    "_equal_scalar": ("equal", False),
    "_not_equal_scalar": ("not_equal", False),
    "_greater_scalar": ("greater", False),
    "_greater_equal_scalar": ("greater_equal", False),
    "_lesser_scalar": ("lesser", False),
    "_lesser_equal_scalar": ("lesser_equal", False),
    "_logical_and_scalar": ("logical_and", False),
    "_logical_or_scalar": ("logical_or", False),
    "_logical_xor_scalar": ("logical_xor", False),
}


def _with_scalar(name: str, word: str, reverse: bool) -> None:
    function, doc, _, gradient = _BINARY[word]

    def lower(b: Builder, p: Values, data: Node) -> Node:
        if data.dtype is bool_:  # MXNet computes these in int64
            data = b.cast(data, i64)
        elif not p.is_int and data.dtype.is_integer:
            data = b.cast(data, f64)
        scalar = scalar_node(b, data, p.scalar)
        return function(b, scalar, data) if reverse else function(b, data, scalar)

    # named as in messages: 'in operator _plus_scalar(name="...")'
    late = word not in ("mod", "power")  # some values of these have arithmetic of their own
    params = {
        "scalar": Double(1.0, "the other operand", varies=late),
        "is_int": Bool(True, "False: integers become float64"),
    }
    side = "the scalar is lhs" if reverse else "the scalar is rhs"
    domain = (0.5, 2.0) if word in ("div", "mod", "power") else (-2.0, 2.0)
    left, *rest = name.strip("_").split("_")  # old files: _RMinusScalar, _GreaterEqualScalar
    old = "".join(part.capitalize() for part in (["r", left[1:]] if reverse else [left]) + rest)
    of_np = f"_npi{name}" if word in ("maximum", "minimum", "hypot") else ""
    operator(
        f"{name} _{old} {of_np}",
        same_shape=True,
        params=params,
        result_dtype=lambda p, d: f64 if not p.is_int and d[0] is not None and d[0].is_integer else d[0],
        doc=f"{doc}; {side}.",
        domain=domain,
        differentiable=gradient,
        samples=(sample(None, {"scalar": 1.75}), sample(None, {"scalar": 2, "is_int": False})),
    )(lower)


for _name, (_word, _reverse) in _SCALAR.items():
    _with_scalar(_name, _word, _reverse)


# -- variadic, selection


@operator(
    "add_n ElementWiseSum",
    "*args",
    params={"num_args": Int(1, "Number of inputs to be summed.", low=1)},
    same_shape=True,
    count_param="num_args",
)
def add_n(b: Builder, p: Values, *args: Node) -> Node:
    """The sum of all inputs."""
    need_number(args[0])
    total = args[0]
    for x in args[1:]:
        total = total + x
    return b.copy(total) if len(args) == 1 else total


@operator(
    "where",
    "condition x y",
    dtypes="*TT",
    result_dtype=lambda p, d: d[1] or d[2],
    infer_inputs=lambda p, s: _where_shapes(s),
    infer_from_results=lambda p, s, results: _where_shapes(s, results[0]),
    no_gradient=("condition",),
    samples=tuple(
        sample(shapes, positions={0: (0, 1)})
        for shapes in ([(3, 5)] * 3, [(4,), (4, 2, 3), (4, 2, 3)], [(1,)] * 3, [(0, 3)] * 3)
    ),
)
def where(b: Builder, p: Values, condition: Node, x: Node, y: Node) -> Node:
    """x where the condition is not zero, else y; a 1-d condition picks rows."""
    if x.shape != y.shape:
        raise MXNetError(
            f"Incompatible attr in node  at 2-th input: expected {shape_text(x.shape)}, got {shape_text(y.shape)}"
        )
    if condition.shape != x.shape:
        if condition.ndim != 1 or not x.ndim or condition.shape[0] != x.shape[0]:
            raise MXNetError(
                "Check failed: condition must have the shape of x or be a vector as long as its first axis: "
                f"got {shape_text(condition.shape)} for x of {shape_text(x.shape)}"
            )
        condition = b.reshape(condition, (*condition.shape, *(1,) * (x.ndim - 1)))
    return b.select(b.broadcast(truth(b, condition), x.shape), x, y)


def _where_shapes(shapes: list[Any], result: Any = None) -> list[Any]:
    """As in MXNet nothing follows for the condition, which may be a vector, and nothing at all before it is known."""
    if shapes[0] is None:
        return shapes
    shape = shapes[1] or shapes[2] or result
    return [shapes[0], shape, shape]


@operator("_contrib_div_sqrt_dim", same_shape=True)
def div_sqrt_dim(b: Builder, p: Values, data: Node) -> Node:
    """data / sqrt(extent of the last axis)."""
    need_number(data)
    root = math.sqrt(data.shape[-1])
    return data * (1 / root) if data.dtype.is_float else data / int(root)


@operator(
    "_contrib_quadratic",
    same_shape=True,
    params={k: Float(0.0) for k in "abc"},
    samples=(sample(None, {"a": 2, "b": -1, "c": 0.5}), sample()),
    named=True,
)
def quadratic(b: Builder, p: Values, data: Node) -> Node:
    """a * x**2 + b * x + c."""
    need_number(data)
    return in_floats(b, lambda x: x * x * p.a + x * p.b + p.c, data)

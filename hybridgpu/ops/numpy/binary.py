# SPDX-License-Identifier: Apache-2.0
"""Operators of two arrays in np, with broadcasting, of an array and a number, and by a condition.

Which element types go together is MXNet's rule, not NumPy's. ``add``, ``subtract``, ``multiply``, ``mod`` and ``power``
take a float with anything, ``add``, ``multiply`` and ``power`` an integer with another one, too; ``true_divide`` makes
float32 of integers. Everything else takes one type. A number is converted to the array's type first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...compiler.ir.graph import broadcast_shapes
from ...core.dtypes import DType, bool_, f32, f64, i8, i32, i64, u8
from ...hints.op_errors import differing_types, refusal
from ..dynamic_attributes import DynamicAttribute, as_stored
from ..elementwise import broadcast_pair, in_floats, scalar_node, truth
from ..params import Bool, Double, Values
from ..record import operator, sample, shape_text

__all__: list[str] = []

Fn = Callable[[Builder, Node, Node], Node]
#: (operator, type of lhs, type of rhs) -> the type in which it computes
Promotion = Callable[[str, DType, DType], DType]

#: C types, as messages name them
_C_NAMES = {i8: "char", u8: "unsigned char", i32: "int", i64: "long long", bool_: "bool"}
_RANK = (bool_, i8, u8, i32, i64)


# -- which types go together


def one_type(name: str, lhs: DType, rhs: DType) -> DType:
    """
    Raises:
        MXNetError: the types differ.
    """
    if lhs is not rhs:
        raise differing_types(
            f"Incompatible attr in node  at 1-th input: expected {lhs.name}, got {rhs.name}", ("lhs", lhs), ("rhs", rhs)
        )
    return lhs


def _numbers_of_one_type(name: str, lhs: DType, rhs: DType) -> DType:
    if one_type(name, lhs, rhs) is bool_:
        raise MXNetError(f"Operator {name} does not support boolean type")
    return lhs


def _compared(name: str, lhs: DType, rhs: DType) -> DType:
    if lhs is not rhs:
        raise differing_types(
            f"Type inconsistent, Provided = {lhs.name}, inferred type = {rhs.name}", ("lhs", lhs), ("rhs", rhs)
        )
    return lhs


def _floats_of_one_type(name: str, lhs: DType, rhs: DType) -> DType:
    if not _compared(name, lhs, rhs).is_float:
        raise MXNetError("Check failed: common::is_float(in_attrs->at(0)): Do not support `int` as input.")
    return lhs


def _whole(name: str, lhs: DType, rhs: DType) -> DType:
    if lhs.is_float:
        raise refusal(
            "Check failed: in_attrs->at(0) == mshadow::kInt64 || in_attrs->at(0) == mshadow::kInt32 || "
            "in_attrs->at(0) == mshadow::kInt8 || in_attrs->at(0) == mshadow::kUint8 || in_attrs->at(0) == mshadow::kBool",
            f"Bits are those of whole numbers and of bool, not of {lhs.name}: cast with astype('int32'), or compare first.",
            types=True,
        )
    return one_type(name, lhs, rhs)


def _with_float(lhs: DType, rhs: DType) -> DType | None:
    """The type of a pair of which one is a float."""
    floats = [d for d in (lhs, rhs) if d.is_float]
    if len(floats) < 2 or lhs is rhs:
        return floats[0] if floats else None
    if lhs.is_half and rhs.is_half:
        return f32  # of float16 and bfloat16 neither holds the other
    return max(floats, key=lambda d: d.size)


def _mixed(name: str, lhs: DType, rhs: DType) -> DType:
    result = _with_float(lhs, rhs)
    if result is not None or lhs is rhs:
        return result or lhs
    for dtype in (lhs, rhs):
        if dtype not in _RANK:
            raise MXNetError(f"Unknown type enum {dtype.flag}\nCast it with astype('int32') or astype('int64').")
    if {lhs, rhs} == {i8, u8}:
        raise MXNetError(
            "Check failed: mshadow::DataType<DType>::kFlag == type_flag_: TBlob.get_with_shape: data type do not match "
            f"specified type.Expected: {_C_NAMES[rhs]} v.s. given int\nCast both to int32 with astype('int32')."
        )
    return max(lhs, rhs, key=_RANK.index)


def _mixed_with_floats(name: str, lhs: DType, rhs: DType) -> DType:
    result = _with_float(lhs, rhs)
    if result is not None:
        return result
    if lhs is not rhs:
        raise MXNetError(
            f"Operator {name} does not support combination of {_C_NAMES.get(lhs, lhs.name)} with "
            f"{_C_NAMES.get(rhs, rhs.name)} yet...\n"
            f"Cast one of them with astype('{lhs.name}') or astype('{rhs.name}')."
        )
    return _numbers_of_one_type(name, lhs, rhs)


def _divided(name: str, lhs: DType, rhs: DType) -> DType:
    if lhs.is_float != rhs.is_float:
        return lhs if lhs.is_float else rhs
    if lhs is not rhs:
        raise MXNetError(f"not implemented yet...\nCast one of them with astype('{lhs.name}') or astype('{rhs.name}').")
    return lhs if lhs.is_float else f32


# -- what they compute


def _power(b: Builder, x: Node, y: Node) -> Node:
    if x.dtype is bool_:
        return b.logical_or(x, b.logical_not(y))
    return in_floats(b, b.pow, x, y)


def _copysign(b: Builder, x: Node, y: Node) -> Node:
    """The sign of -0.0 counts as plus."""
    if x.dtype.kind == "u":
        return b.copy(x)
    alike = (
        b.eq(b.lt(x, 0), b.lt(y, 0))
        if not x.dtype.is_float
        else b.logical_or(b.logical_and(b.ge(x, 0), b.ge(y, 0)), b.logical_and(b.lt(x, 0), b.lt(y, 0)))
    )
    return b.select(alike, x, -x)


def _ldexp(b: Builder, x: Node, y: Node) -> Node:
    return in_floats(b, lambda x, y: x * b.pow(b.full_like(y, 2), y), x, y)


def _lcm(b: Builder, x: Node, y: Node) -> Node:
    if x.dtype is bool_:
        return b.logical_and(x, y)
    divisor = b.max(b.gcd(x, y), 1)  # of two zeros, whose lcm is 0
    return b.abs(x / divisor * y)


def _both(boolean: str, number: Fn) -> Fn:
    """A function that truth values have of their own."""
    return lambda b, x, y: getattr(b, boolean)(x, y) if x.dtype is bool_ else number(b, x, y)


def _compare(primitive: str) -> Fn:
    return lambda b, x, y: getattr(b, primitive)(x, y)


def _bits(primitive: str) -> Fn:
    return lambda b, x, y: getattr(b, primitive)(x, y)


#: name -> (function, types, doc, names of the operands, has a gradient)
_BINARY: dict[str, tuple[Fn, Promotion, str, str, bool]] = {
    "add": (_both("logical_or", lambda b, x, y: x + y), _mixed, "lhs + rhs", "lhs rhs", True),
    "subtract": (lambda b, x, y: x - y, _mixed_with_floats, "lhs - rhs", "lhs rhs", True),
    "multiply": (_both("logical_and", lambda b, x, y: x * y), _mixed, "lhs * rhs", "lhs rhs", True),
    "true_divide": (lambda b, x, y: x / y, _divided, "lhs / rhs; of integers in float32", "lhs rhs", True),
    "mod": (lambda b, x, y: b.mod(x, y), _mixed_with_floats, "remainder with the sign of rhs", "lhs rhs", True),
    "power": (_power, _mixed, "lhs ** rhs", "lhs rhs", True),
    "arctan2": (lambda b, x, y: in_floats(b, b.atan2, x, y), _floats_of_one_type, "angle of (x2, x1)", "x1 x2", True),
    "hypot": (lambda b, x, y: b.hypot(x, y), _floats_of_one_type, "sqrt(x1**2 + x2**2)", "x1 x2", True),
    "copysign": (_copysign, _numbers_of_one_type, "|lhs| with the sign of rhs", "lhs rhs", True),
    "ldexp": (_ldexp, _numbers_of_one_type, "lhs * 2**rhs", "lhs rhs", True),
    "lcm": (_lcm, _whole, "least common multiple", "lhs rhs", False),
    "bitwise_and": (_bits("bit_and"), _whole, "bits set in both", "lhs rhs", False),
    "bitwise_or": (_bits("bit_or"), _whole, "bits set in either", "lhs rhs", False),
    "bitwise_xor": (_bits("bit_xor"), _whole, "bits set in exactly one", "lhs rhs", False),
    "equal": (_compare("eq"), _compared, "lhs == rhs", "lhs rhs", False),
    "not_equal": (_compare("ne"), _compared, "lhs != rhs", "lhs rhs", False),
    "greater": (_compare("gt"), _compared, "lhs > rhs", "lhs rhs", False),
    "greater_equal": (_compare("ge"), _compared, "lhs >= rhs", "lhs rhs", False),
    "less": (_compare("lt"), _compared, "lhs < rhs", "lhs rhs", False),
    "less_equal": (_compare("le"), _compared, "lhs <= rhs", "lhs rhs", False),
}
_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
_POSITIVE = ("true_divide", "mod", "power")  #: whose domain leaves zero out
_SHAPES = (
    sample([(3, 5), (3, 5)]),
    sample([(2, 1, 4), (3, 1)]),
    sample([(2, 3, 7), (1, 3, 1)]),
    sample([(), (2, 3)]),
    sample([(), ()]),
    sample([(0, 3), (1, 3)]),
)


def _domain(word: str) -> tuple[float, float]:
    return (0.5, 2.0) if word in _POSITIVE else (-4.0, 4.0)


def _binary(word: str, function: Fn, promote: Promotion, doc: str, inputs: str, gradient: bool) -> None:
    name = f"_npi_{word}"

    def lower(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
        dtype = promote(name, lhs.dtype, rhs.dtype)
        # as in MXNet no gradient flows into integers that were made floats
        x, y = (b.cast(b.stop_gradient(x) if dtype.is_float and not x.dtype.is_float else x, dtype) for x in (lhs, rhs))
        return function(b, *broadcast_pair(b, x, y))

    def result(p: Values, dtypes: Sequence[DType | None]) -> DType | None:
        if word in _COMPARISONS:
            return bool_
        lhs, rhs = dtypes
        return promote(name, lhs, rhs) if lhs is not None and rhs is not None else lhs or rhs

    operator(
        name,
        inputs,
        dtypes="TT" if promote in (_numbers_of_one_type, _whole) else "**",
        infer_dtypes=lambda p, d: [d[0] or d[1], d[1] or d[0]],
        result_dtype=result,
        doc=f"{doc} (broadcasting).",
        domain=_domain(word),
        differentiable=gradient,
        samples=_SHAPES,
    )(lower)


for _word, _row in _BINARY.items():
    _binary(_word, *_row)


# -- with a number


def _widened(data: DType, is_int: bool) -> DType:
    """The type in which an array is computed with a number."""
    if data is bool_:
        return i64 if is_int else f64
    return data if is_int or data.is_float else f64


def _float_of(data: DType, is_int: bool) -> DType:
    return data if data.is_float else f32


def _compared_with(data: DType, is_int: bool) -> DType:
    return data if data is bool_ else _widened(data, is_int)


def _whole_with(data: DType, is_int: bool) -> DType:
    return _whole("", data, data)


def _integer_with(data: DType, is_int: bool) -> DType:
    if _whole("", data, data) is bool_:
        raise MXNetError("Unknown type enum 7")
    return data


#: operator -> (word of _BINARY, number on the left)
_SCALAR = {
    **{f"{word}_scalar": (word, False) for word in _BINARY if word != "hypot"},
    **{
        f"r{word}_scalar": (word, True)
        for word in ("subtract", "true_divide", "mod", "power", "arctan2", "copysign", "ldexp")
    },
}


def _number_of(b: Builder, x: Node, scalar: float | DynamicAttribute) -> Node:
    if x.dtype is bool_ and not isinstance(scalar, DynamicAttribute):
        return b.full(x.shape, bool(scalar), bool_)
    return scalar_node(b, x, scalar)


def _with_scalar(name: str, word: str, reverse: bool) -> None:
    function, promote, doc, _, gradient = _BINARY[word]
    computed: dict[Promotion, Callable[[DType, bool], DType]] = {
        _divided: _float_of,
        _compared: _compared_with,
        _whole: _integer_with if word == "lcm" else _whole_with,
    }
    type_of = computed.get(promote, _widened)

    def lower(b: Builder, p: Values, data: Node) -> Node:
        x = b.cast(data, type_of(data.dtype, p.is_int))
        scalar = _number_of(b, x, p.scalar)
        return function(b, scalar, x) if reverse else function(b, x, scalar)

    def result(p: Values, dtypes: Sequence[DType | None]) -> DType | None:
        if word in _COMPARISONS:
            return bool_
        return None if dtypes[0] is None else type_of(dtypes[0], p.is_int)

    # of the others some values have arithmetic or errors of their own
    late = word in (*_COMPARISONS, "add", "subtract", "multiply", "true_divide", "copysign")
    samples = [sample(None, {"scalar": 2}), sample(None, {"scalar": 1.75, "is_int": False})]
    if word not in _POSITIVE:
        samples.append(sample(None, {"scalar": -3}))
    operator(
        f"_npi_{name}",
        same_shape=True,
        params={
            "scalar": Double(1.0, "the other operand", varies=late),
            "is_int": Bool(True, "False: integers become float64"),
        },
        result_dtype=result,
        doc=f"{doc}; the number is {'lhs' if reverse else 'rhs'}.",
        domain=_domain(word),
        differentiable=gradient,
        samples=tuple(samples),
    )(lower)


for _name, (_word, _reverse) in _SCALAR.items():
    _with_scalar(_name, _word, _reverse)


# -- by a condition


def _chosen(b: Builder, condition: Node, x: Node, y: Node) -> Node:
    try:
        shape = broadcast_shapes([condition.shape, x.shape, y.shape])
    except ValueError:
        shapes = " ".join(shape_text(n.shape) for n in (condition, x, y))
        raise MXNetError(
            f"Check failed: l == 1 || r == 1: operands could not be broadcast together with shapes {shapes}"
        ) from None
    return b.select(*(b.broadcast(n, shape) for n in (truth(b, condition), x, y)))


@operator(
    "_npi_where",
    "condition x y",
    dtypes="*TT",
    result_dtype=lambda p, d: d[1] or d[2],
    no_gradient=("condition",),
    samples=tuple(
        sample(shapes, positions={0: (0, 1)})
        for shapes in ([(3, 5)] * 3, [(2, 1), (3, 1, 1), (1, 4)], [()] * 3, [(3,), (), (2, 3)], [(0, 3)] * 3)
    ),
)
def where(b: Builder, p: Values, condition: Node, x: Node, y: Node) -> Node:
    """x where the condition is not zero, else y; all three broadcast."""
    return _chosen(b, condition, x, y)


def _where_number(name: str, array: str, first: bool) -> None:
    def lower(b: Builder, p: Values, condition: Node, data: Node) -> Node:
        number = b.full((), as_stored(p.scalar, data.dtype) if data.dtype is not bool_ else bool(p.scalar), data.dtype)
        return _chosen(b, condition, *((number, data) if first else (data, number)))

    operator(
        name,
        f"condition {array}",
        dtypes="**",
        params={"scalar": Double(0.0, "the number, converted to the array's type")},
        result_dtype=lambda p, d: d[1],
        no_gradient=("condition",),
        doc=f"The {'number' if first else 'array'} where the condition is not zero, else the other.",
        samples=tuple(
            sample(shapes, {"scalar": 1.7}, {0: (0, 1)}) for shapes in ([(3, 5)] * 2, [(2, 1), (3,)], [(), ()])
        ),
    )(lower)


_where_number("_npi_where_lscalar", "x", True)
_where_number("_npi_where_rscalar", "y", False)


@operator(
    "_npi_where_scalar2",
    "condition",
    params={"x": Double(0.0, "where the condition holds"), "y": Double(0.0, "elsewhere")},
    same_shape=True,
    differentiable=False,
    result_dtype=lambda p, d: f32,
    samples=(sample(None, {"x": 1.7, "y": -3}),),
)
def where_scalar2(b: Builder, p: Values, condition: Node) -> Node:
    """One of two numbers, in float32."""
    numbers = (b.full(condition.shape, v, f32) for v in (p.x, p.y))
    return b.select(truth(b, condition), *numbers)

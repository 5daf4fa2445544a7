# SPDX-License-Identifier: Apache-2.0
"""Functions of one array in np: those of nd under their names in np, and those that np alone has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, bool_
from ..elementwise import need_number, truth
from ..params import Bool, Double, Int, Values
from ..record import operator, sample
from .application import npx_function
from .derive import derived_operator

__all__ = ["AS_IN_ND"]

#: operators of np that compute as those of nd
AS_IN_ND = [
    "negative",
    "sign",
    "rint",
    "ceil",
    "floor",
    "trunc",
    "fix",
    "square",
    "sqrt",
    "cbrt",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "degrees",
    "radians",
    "reciprocal",
]

for _name in AS_IN_ND:
    derived_operator(f"_npi_{_name}", _name, inputs="x")
derived_operator("_npi_absolute _npi_abs", "abs", inputs="x")
derived_operator("_np_copy", "_copy", inputs="a")
derived_operator("_npx_relu", "relu")
derived_operator("_npx_sigmoid", "sigmoid")


@operator("_npi_bitwise_not", "x", same_shape=True, differentiable=False)
def bitwise_not(b: Builder, p: Values, x: Node) -> Node:
    """Every bit the other way round; of bool: not."""
    need_whole(x.dtype)
    return b.logical_not(x) if x.dtype is bool_ else b.bit_xor(x, b.full_like(x, 255 if x.dtype.kind == "u" else -1))


def need_whole(dtype: DType) -> None:
    """
    Raises:
        MXNetError: bits of a floating point type are wanted.
    """
    if dtype.is_float:
        raise MXNetError(f"This operation only support integer types, not {dtype.name}")


@operator("_npi_logical_not", "x", same_shape=True, differentiable=False, result_dtype=lambda p, d: bool_)
def logical_not(b: Builder, p: Values, x: Node) -> Node:
    """True where x is 0."""
    return b.logical_not(truth(b, x))


def _kind_of_number(name: str, test: Callable[[Builder, Node], Node], whole: bool, doc: str) -> None:
    """Declare a question about floating point numbers, to which integers have one answer."""

    def lower(b: Builder, p: Values, x: Node) -> Node:
        return test(b, x) if x.dtype.is_float else b.full(x.shape, whole, bool_)

    operator(f"_npi_{name}", "x", same_shape=True, differentiable=False, result_dtype=lambda p, d: bool_, doc=doc)(
        lower
    )


_kind_of_number("isnan", lambda b, x: b.isnan(x), False, "True for NaN.")
_kind_of_number("isinf", lambda b, x: b.isinf(x), False, "True for both infinities.")
_kind_of_number("isposinf", lambda b, x: b.eq(x, math.inf), False, "True for infinity.")
_kind_of_number("isneginf", lambda b, x: b.eq(x, -math.inf), False, "True for minus infinity.")
_kind_of_number("isfinite", lambda b, x: b.isfinite(x), True, "True for all but NaN and infinities.")


@operator(
    "_npi_around",
    "x",
    same_shape=True,
    params={"decimals": Int(0, "places behind the point; negative ones before it")},
    differentiable=False,
    samples=tuple(sample(None, {"decimals": k}) for k in (0, 1, -1)),
    domain=(-60.0, 60.0),
)
def around(b: Builder, p: Values, x: Node) -> Node:
    """The nearest number with so many decimals, halves to even; integers are cut."""
    need_number(x)
    places = min(abs(p.decimals), 300)
    if not x.dtype.is_float and p.decimals < -18:  # more places than integers have
        return b.full_like(x, 0)
    scale: float = 10**places
    if not x.dtype.is_float:
        return b.copy(x) if p.decimals >= 0 else x / scale * scale
    if p.decimals == 0:
        return b.rint(x)
    return b.rint(x * scale) / scale if p.decimals > 0 else b.rint(x / scale) * scale


@operator(
    "_npi_nan_to_num",
    same_shape=True,
    params={
        "copy": Bool(True, "False writes into the array itself"),
        "nan": Double(0.0, "instead of NaN"),
        "posinf": Double(None, "instead of infinity; None for the largest number of the type"),
        "neginf": Double(None, "instead of minus infinity; None for the smallest number of the type"),
    },
    samples=(sample(), sample(None, {"nan": 2, "posinf": 3, "neginf": -4})),
)
def nan_to_num(b: Builder, p: Values, data: Node) -> Node:
    """Numbers in the place of NaN and infinities, through which no gradient flows."""
    if not data.dtype.is_float:
        return b.copy(data)
    largest = float(data.dtype.finfo.max)
    high = largest if p.posinf is None else p.posinf
    low = -largest if p.neginf is None else p.neginf
    y = b.select(b.isnan(data), b.full_like(data, p.nan), data)
    y = b.select(b.eq(data, math.inf), b.full_like(data, high), y)
    return b.select(b.eq(data, -math.inf), b.full_like(data, low), y)


@npx_function("relu")
def relu(F: Any, data: Any, out: Any = None, name: str | None = None) -> Any:
    """max(data, 0)."""
    return F.invoke("_npx_relu", (data,), None, out, name)

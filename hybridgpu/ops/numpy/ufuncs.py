# SPDX-License-Identifier: Apache-2.0
"""Functions of np that NumPy calls universal: of each element of one array, or of two arrays that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import integer_types, numeric_types
from ...util import check_ufunc_keywords as check_keywords
from .application import not_supported, np_function
from .elementwise import AS_IN_ND

__all__ = ["check_keywords", "with_number"]

# -- of one array

#: names of functions where they are not those of their operators
_UNARY_NAMES = {
    "absolute": ("absolute", "abs", "fabs"),
    "bitwise_not": ("bitwise_not", "invert"),
    "degrees": ("degrees", "rad2deg"),
    "radians": ("radians", "deg2rad"),
}
_QUESTIONS = ("isnan", "isinf", "isposinf", "isneginf", "isfinite")
_UNARY = [*AS_IN_ND, "absolute", "bitwise_not", "logical_not", *_QUESTIONS]


def _unary(word: str, name: str) -> None:
    spelled = "abs" if name in ("abs", "fabs") else word  # nodes of a graph are named by it
    operator, of_number = f"_npi_{spelled}", getattr(np, name)

    def function(F: Any, x: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs:
            check_keywords(kwargs, name, True)
        if isinstance(x, numeric_types):
            return of_number(x)
        if not F.is_array(x):
            raise not_supported(F, x)
        if out is not None and word in _QUESTIONS and isinstance(out, F.array) and out.dtype != bool:
            raise TypeError("the `out` parameter should be a boolean array")
        return F.invoke(operator, (x,), None, out)

    function.__doc__ = f"numpy.{name}, elementwise; of a number, NumPy's own. ``out`` receives the result."
    np_function(name)(function)


for _word in _UNARY:
    for _name in _UNARY_NAMES.get(_word, (_word,)):
        _unary(_word, _name)


# -- of two arrays


def with_number(F: Any, operator: str, x: Any, number: Any, left: bool, out: Any = None) -> Any:
    """An operator on an array and a number.

    As in MXNet, graphs keep whether the number is an integer, and compute with floats in double precision where it is
    none; one on the left never counts as an integer there. Arrays convert the number to their own type.
    """
    attributes: dict[str, Any] = {"scalar": float(number)}
    if F.symbolic:
        attributes["is_int"] = not left and isinstance(number, integer_types)
    return F.invoke(operator, (x,), attributes, out)


#: word of the operator -> (names of the functions, operator for a number on the left; itself if the order is all one)
_BINARY: dict[str, tuple[tuple[str, ...], str]] = {
    "add": (("add",), "add"),
    "subtract": (("subtract",), "rsubtract"),
    "multiply": (("multiply",), "multiply"),
    "true_divide": (("divide", "true_divide"), "rtrue_divide"),
    "mod": (("mod", "remainder"), "rmod"),
    "power": (("power",), "rpower"),
    "maximum": (("maximum",), "maximum"),
    "minimum": (("minimum",), "minimum"),
    "arctan2": (("arctan2",), "rarctan2"),
    "hypot": (("hypot",), "hypot"),
    "copysign": (("copysign",), "rcopysign"),
    "ldexp": (("ldexp",), "rldexp"),
    "lcm": (("lcm",), "lcm"),
    "bitwise_and": (("bitwise_and",), "bitwise_and"),
    "bitwise_or": (("bitwise_or",), "bitwise_or"),
    "bitwise_xor": (("bitwise_xor",), "bitwise_xor"),
    "equal": (("equal",), "equal"),
    "not_equal": (("not_equal",), "not_equal"),
    "greater": (("greater",), "less"),
    "greater_equal": (("greater_equal",), "less_equal"),
    "less": (("less",), "greater"),
    "less_equal": (("less_equal",), "greater_equal"),
}
_WITHOUT_KEYWORDS = ("true_divide", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def _binary(word: str, name: str, reversed_word: str) -> None:
    operator, scalar, reverse = f"_npi_{word}", f"_npi_{word}_scalar", f"_npi_{reversed_word}_scalar"
    of_numbers: Callable[..., Any] = getattr(np, name)

    def compute(F: Any, x1: Any, x2: Any, out: Any) -> Any:
        if isinstance(x2, numeric_types):
            if isinstance(x1, numeric_types):
                return of_numbers(x1, x2, out=out)
            return with_number(F, scalar, x1, x2, False, out)
        if isinstance(x1, numeric_types):
            return with_number(F, reverse, x2, x1, True, out)
        if not (isinstance(x1, F.array) and isinstance(x2, F.array)):
            raise not_supported(F, x2, x1)
        return F.invoke(operator, (x1, x2), None, out)

    def function(F: Any, x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs:
            check_keywords(kwargs, name, False)
        return compute(F, x1, x2, out)

    def plain(F: Any, x1: Any, x2: Any, out: Any = None) -> Any:
        return compute(F, x1, x2, out)

    chosen = plain if name in _WITHOUT_KEYWORDS else function
    chosen.__doc__ = (
        f"numpy.{name} of two arrays that broadcast, or of an array and a number. ``out`` receives the result."
    )
    np_function(name)(chosen)


for _word, (_names, _reversed) in _BINARY.items():
    for _name in _names:
        _binary(_word, _name, _reversed)


# -- with attributes, or of three


@np_function("around", "round", "round_")
def around(F: Any, x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """Numbers rounded to so many decimals, halves to even."""
    if isinstance(x, numeric_types):
        return np.around(x, decimals, **kwargs)
    if not isinstance(x, F.array):
        raise TypeError(f"type {type(x)} not supported")
    return F.invoke("_npi_around", (x,), {"decimals": decimals, **kwargs}, out)


@np_function("nan_to_num")
def nan_to_num(
    F: Any,
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    **kwargs: Any,
) -> Any:
    """Numbers in the place of NaN and infinities; ``copy=False`` writes them into ``x``."""
    if isinstance(x, numeric_types):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    if not F.is_array(x):
        raise TypeError(f"type {type(x)} not supported")
    if not F.symbolic and np.dtype(x.dtype).kind in "iu":
        return x
    attributes = {"copy": copy, "nan": nan, "posinf": posinf, "neginf": neginf}
    return F.invoke("_npi_nan_to_num", (x,), attributes, None if copy else x)


@np_function("clip")
def clip(F: Any, a: Any, a_min: float | None, a_max: float | None, out: Any = None) -> Any:
    """Values limited to a_min … a_max; None for no limit on that side."""
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    if isinstance(a, numeric_types):
        return np.clip(a, a_min, a_max)
    low, high = -math.inf if a_min is None else a_min, math.inf if a_max is None else a_max
    return F.invoke("_npi_clip", (a,), {"a_min": low, "a_max": high}, out)


@np_function("where")
def where(F: Any, condition: Any, x: Any = None, y: Any = None) -> Any:
    """``x`` where the condition holds, else ``y``; without both, the positions where it holds."""
    if x is None and y is None:
        return F.function("nonzero")(condition)
    if isinstance(condition, numeric_types):
        return x if condition != 0 else y
    numbers = isinstance(x, numeric_types), isinstance(y, numeric_types)
    if all(numbers):
        return F.invoke("_npi_where_scalar2", (condition,), {"x": float(x), "y": float(y)})
    if F.is_array(x) and F.is_array(y):
        return F.invoke("_npi_where", (condition, x, y))
    try:
        scalar = float(x if F.is_array(y) else y)
    except TypeError:
        raise not_supported(F, x, y) from None
    if not (F.is_array(x) or F.is_array(y)):
        raise not_supported(F, x, y)
    if F.is_array(y):
        return F.invoke("_npi_where_lscalar", (condition, y), {"scalar": scalar})
    return F.invoke("_npi_where_rscalar", (condition, x), {"scalar": scalar})

# SPDX-License-Identifier: Apache-2.0
"""Functions of np that call functions, which MXNet leaves to NumPy: piecewise, apply_along_axis, apply_over_axes.

NumPy answers eager calls, with arrays of its own for the functions. In a graph, and while gradients are recorded, the functions
get arrays of np, whole ones where NumPy passes a selection.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import ParameterError, numeric_types
from .application import np_function_or_host
from .elementwise_as_numpy import need_arrays
from .reduce_as_numpy import axis_of

__all__: list[str] = []


@np_function_or_host("piecewise", eager=False)
def np_piecewise(F: Any, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Functions of x, or numbers, each where its condition holds; one more than conditions counts where none does.

    In a graph functions are called with the whole of x, so that they have to take it without harm.
    """
    need_arrays(F, x)
    if F.is_array(condlist):
        if F.symbolic or condlist.ndim == x.ndim:
            condlist = [condlist]
        else:
            condlist = [condlist[k] for k in range(condlist.shape[0])]
    need_arrays(F, *condlist)
    functions = list(funclist)
    if len(functions) not in (len(condlist), len(condlist) + 1):
        n = len(condlist)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")

    def value(function: Any) -> Any:
        y = function(x, *args, **kw) if callable(function) else function
        if isinstance(y, numeric_types):
            return F.function("full_like")(x, y)
        return y if F.symbolic or y.dtype == x.dtype else y.astype(x.dtype)

    y = value(functions[len(condlist)]) if len(functions) > len(condlist) else F.function("zeros_like")(x)
    for condition, function in zip(condlist, functions, strict=False):
        y = F.function("where")(condition, value(function), y)
    return y


@np_function_or_host("apply_along_axis", eager=False)
def np_apply_along_axis(F: Any, func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """The results of a function of lines for each line along an axis, in its place."""
    need_arrays(F, arr)
    if F.symbolic:
        raise NotImplementedError("apply_along_axis of Symbols, whose shapes are not known")
    axis = axis_of(axis, arr.ndim)
    lines = F.function("moveaxis")(arr, axis, -1)
    lead = lines.shape[:-1]
    if not arr.size or not arr.ndim:
        raise ParameterError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [func1d(lines[place], *args, **kwargs) for place in np.ndindex(lead)]
    y = F.function("stack")([v if F.is_array(v) else F.function("full")((), v) for v in results])
    y = F.function("reshape")(y, (*lead, *y.shape[1:]))
    new = y.ndim - len(lead)
    order = [*range(axis), *range(len(lead), len(lead) + new), *range(axis, len(lead))]
    return F.function("transpose")(y, order)


@np_function_or_host("apply_over_axes", eager=False)
def np_apply_over_axes(F: Any, func: Any, a: Any, axes: Any) -> Any:
    """The result of a function of an array and an axis, applied for one axis after the other; reduced axes stay."""
    need_arrays(F, a)
    if F.symbolic:
        raise NotImplementedError("apply_over_axes of Symbols, whose shapes are not known")
    y = a
    for axis in np.ravel(axes).tolist():
        axis = axis_of(axis, a.ndim)
        result = func(y, axis)
        if result.ndim != y.ndim:
            result = F.function("expand_dims")(result, axis)
            if result.ndim != y.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        y = result
    return y

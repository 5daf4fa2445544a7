# SPDX-License-Identifier: Apache-2.0
"""Reductions of np that MXNet leaves to NumPy: those that pass over NaN, count_nonzero, ptp and alltrue.

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import ParameterError
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, bool_, i64, u8
from ..params import Axis, Bool, Int, Param, Values
from ..record import operator, sample
from .application import ArrayOrNumber, np_function_or_host
from .reduce import kept_shape

__all__ = ["axes_of", "axis_of", "check_axes", "need_default"]

_AXIS: dict[str, Param] = {
    "axis": Axis(doc="axes to reduce; None means all, () none"),
    "keepdims": Bool(False, "keep reduced axes with extent 1"),
}
_SAMPLES = (
    sample([(3, 5)]),
    sample([(3, 70)], {"axis": 1}),
    sample([(3, 4, 5)], {"axis": (0, -1), "keepdims": True}),
    sample([()]),
)


def axis_of(axis: int, ndim: int) -> int:
    """``axis`` as a number that is not negative.

    Raises:
        ParameterError: it is out of range.
    """
    if not -ndim <= axis < ndim:
        raise ParameterError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def need_default(**given: Any) -> None:
    """
    Raises:
        NotImplementedError: an argument is given that operators do not take.
    """
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"{name} is not supported by operators")


def axes_of(axis: tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Axes as numbers that are not negative; None means all.

    Raises:
        ParameterError: one is out of range, or there twice.
    """
    axes = tuple(range(ndim)) if axis is None else tuple(axis_of(k, ndim) for k in axis)
    if len(set(axes)) != len(axes):
        raise ParameterError("duplicate value in 'axis'")
    return axes


def _number_for_nan(b: Builder, x: Node, number: float) -> Node:
    return b.select(b.isnan(x), b.full_like(x, number), x) if x.dtype.is_float else x


def _total_type(data: DType) -> DType:
    return data if data.is_float else i64


def _extreme(word: str, how: str, least: float, ufunc: str) -> None:
    def lower(b: Builder, p: Values, a: Node) -> Node:
        axes = axes_of(p.axis, a.ndim)
        if any(not a.shape[k] for k in axes):
            raise ParameterError(f"zero-size array to reduction operation {ufunc} which has no identity")
        shape = kept_shape(a.shape, axes, p.keepdims)
        if not axes:
            return b.copy(a)
        y = b.reduce(how, _number_for_nan(b, a, least), axes)
        if a.dtype.is_float:
            y = b.select(b.reduce("amin", b.isnan(a), axes), b.full_like(y, math.nan), y)
        return b.reshape(y, shape)

    doc = f"{'Largest' if how == 'amax' else 'Smallest'} element over axes that is not NaN; NaN if there is none."
    operator(f"_npi_nan{word}", "a", params=dict(_AXIS), samples=_SAMPLES, doc=f"{doc} Hybridgpu's own.")(lower)

    @np_function_or_host(f"nan{word}")
    def function(
        F: Any,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> ArrayOrNumber:
        need_default(out=out, initial=initial, where=where)
        return F.number(F.invoke(f"_npi_nan{word}", (a,), {"axis": axis, "keepdims": keepdims}))

    function.__doc__ = doc


_extreme("max", "amax", -math.inf, "fmax")
_extreme("min", "amin", math.inf, "fmin")


@operator(
    "_npi_nanprod",
    "a",
    params=dict(_AXIS),
    samples=_SAMPLES,
    domain=(0.5, 1.5),
    result_dtype=lambda p, d: d[0] and _total_type(d[0]),
)
def nanprod(b: Builder, p: Values, a: Node) -> Node:
    """Product over axes, with NaN as 1; of integers in int64. Hybridgpu's own."""
    axes = axes_of(p.axis, a.ndim)
    x = b.cast(_number_for_nan(b, a, 1), _total_type(a.dtype))
    return b.reshape(b.reduce("prod", x, axes) if axes else b.copy(x), kept_shape(a.shape, axes, p.keepdims))


@np_function_or_host("nanprod")
def np_nanprod(
    F: Any,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> ArrayOrNumber:
    """The product over axes, all of them by default, with NaN as 1; of integers in int64."""
    need_default(dtype=dtype, out=out, initial=initial, where=where)
    _need_signed(F, a)
    return F.number(F.invoke("_npi_nanprod", (a,), {"axis": axis, "keepdims": keepdims}))


def _running_product(b: Builder, x: Node, axis: int) -> Node:
    """In as many steps as the extent has binary digits."""
    n, step = x.shape[axis], 1
    while step < n:
        low = [step if k == axis else 0 for k in range(x.ndim)]
        x = x * b.pad(b.slice_axis(x, axis, 0, n - step), low, [0] * x.ndim, 1)
        step *= 2
    return x


def _running(word: str, number: int, total: Callable[[Builder, Node, int], Node]) -> None:
    """Declare a running total, with ``number`` in the place of NaN."""

    def lower(b: Builder, p: Values, a: Node) -> Node:
        x = b.cast(_number_for_nan(b, a, number), _total_type(a.dtype))
        if p.axis is None:
            return total(b, b.reshape(x, (x.size,)), 0)
        return total(b, x, axis_of(p.axis, x.ndim))

    what = "sums" if word == "sum" else "products"
    operator(
        f"_npi_nancum{word}",
        "a",
        params={"axis": Int(None, "the axis; None for the flattened array", optional=True)},
        samples=(sample([(3, 5)]), sample([(3, 5)], {"axis": 0}), sample([(2, 3, 4)], {"axis": -2}), sample([()])),
        result_dtype=lambda p, d: d[0] and _total_type(d[0]),
        doc=f"Running {what} along an axis, with NaN as {number}; of integers in int64. Hybridgpu's own.",
    )(lower)

    @np_function_or_host(f"nancum{word}")
    def function(F: Any, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        need_default(dtype=dtype, out=out)
        _need_signed(F, a)
        return F.invoke(f"_npi_nancum{word}", (a,), {"axis": axis})

    function.__doc__ = (
        f"Running {what} along an axis, or of the flattened array, with NaN as {number}; of integers in int64."
    )


_running("sum", 0, lambda b, x, axis: b.cumsum(x, axis=axis))
_running("prod", 1, _running_product)


def _need_one(xp: Any, p: Values, a: Any) -> None:
    if a.dtype.kind == "f" and xp.isnan(a).all(axis=p.axis).any():
        raise ValueError("All-NaN slice encountered")


def _place(word: str, least: float) -> None:
    """Declare nanargmax or nanargmin."""

    def lower(b: Builder, p: Values, a: Node) -> Node:
        x = b.reshape(a, (a.size,)) if p.axis is None else a
        axis = 0 if p.axis is None else axis_of(p.axis, a.ndim)
        if not x.shape[axis]:
            raise ParameterError(f"attempt to get {word} of an empty sequence")
        x = _number_for_nan(b, x, least)
        position = getattr(b, word)(x if x.dtype is not bool_ else b.cast(x, u8), axes=(axis,))
        shape = kept_shape(a.shape, range(a.ndim) if p.axis is None else (axis,), p.keepdims)
        return b.reshape(b.cast(position, i64), shape)

    kind = "largest" if word == "argmax" else "smallest"
    operator(
        f"_npi_nan{word}",
        "a",
        params={
            "axis": Int(None, "the axis; None for the flattened array", optional=True),
            "keepdims": _AXIS["keepdims"],
        },
        samples=(sample([(3, 5)]), sample([(3, 5)], {"axis": 0}), sample([(2, 3, 4)], {"axis": -2, "keepdims": True})),
        result_dtype=lambda p, d: i64,
        differentiable=False,
        check_arrays=_need_one,
        doc=f"Where the {kind} element along an axis is that is not NaN. Hybridgpu's own.",
    )(lower)

    @np_function_or_host(f"nan{word}")
    def function(F: Any, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        need_default(out=out)
        return F.number(F.invoke(f"_npi_nan{word}", (a,), {"axis": axis, "keepdims": keepdims}))

    function.__doc__ = (
        f"The position (int64) of the {kind} element along an axis, or of the flattened array, that is not NaN."
    )


_place("argmax", -math.inf)
_place("argmin", math.inf)


def _need_signed(F: Any, a: Any) -> None:
    """
    Raises:
        NotImplementedError: NumPy's result has a type that operators do not make, uint64.
    """
    if not F.symbolic and F.is_array(a) and a.dtype == u8.np:
        raise NotImplementedError("totals of unsigned integers are unsigned in NumPy")


@np_function_or_host("count_nonzero")
def np_count_nonzero(F: Any, a: Any, axis: Any = None, *, keepdims: bool = False) -> ArrayOrNumber:
    """How many elements are not 0, over axes."""
    check_axes(F, a, axis)
    different = F.function("not_equal")(a, 0)
    return F.number(F.function("sum")(different, axis=axis, keepdims=keepdims), int)


@np_function_or_host("ptp")
def np_ptp(F: Any, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ArrayOrNumber:
    """The largest less the smallest element over axes."""
    need_default(out=out)
    check_axes(F, a, axis)
    if not F.symbolic and (a.dtype == bool or not a.size):
        raise NotImplementedError("NumPy has the error for it")
    largest, smallest = (F.function(name)(a, axis=axis, keepdims=keepdims) for name in ("max", "min"))
    return F.number(F.function("subtract")(largest, smallest))


def check_axes(F: Any, a: Any, axis: Any) -> None:
    """
    Raises:
        ParameterError: an axis is out of range; of Symbols, their graph says it.
    """
    if not F.symbolic and axis is not None and F.is_array(a):
        axes_of((axis,) if isinstance(axis, int) else tuple(axis), a.ndim)


@np_function_or_host("alltrue", np.all)
def np_alltrue(
    F: Any, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, where: Any = None
) -> ArrayOrNumber:
    """Whether no element over axes is 0."""
    need_default(out=out, where=where)
    check_axes(F, a, axis)
    return F.number(F.function("all")(a, axis=axis, keepdims=keepdims))

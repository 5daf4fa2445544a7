# SPDX-License-Identifier: Apache-2.0
"""Reductions. Without ``keepdims`` the reduced axes go; what would be a scalar has shape (1,)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import bool_
from .elementwise import in_floats, need_number
from .params import Axis, Bool, Dtype, Int, Values
from .record import operator, sample, shape_text

__all__ = ["reduction_axes", "shape_back"]

_PARAMS = {
    "axis": Axis(doc="axes to reduce; None or () means all"),
    "keepdims": Bool(False, "keep reduced axes with extent 1"),
    "exclude": Bool(False, "reduce all axes but these"),
}


def reduction_axes(axis: tuple[int, ...] | None, shape: tuple[int, ...], exclude: bool = False) -> tuple[int, ...]:
    """The axes to reduce, sorted and non-negative.

    Raises:
        MXNetError: an axis out of range or given twice.
    """
    ndim = len(shape)
    if not axis:
        return tuple(range(ndim))
    for a in axis:
        if not -ndim <= a < ndim:
            raise MXNetError(f"Reduction axis {a} Exceeds input dimensions {shape_text(shape)}")
    axes = {a % ndim for a in axis}
    if len(axes) != len(axis):
        raise MXNetError(f"Reduction axes have duplicates {shape_text(axis)}")
    return tuple(a for a in range(ndim) if (a in axes) != exclude)


def shape_back(b: Builder, y: Node, x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """The shape MXNet gives a reduced value: (1,) instead of ()."""
    if keepdims:
        return b.reshape(y, tuple(1 if k in axes else d for k, d in enumerate(x.shape)))
    return y if y.ndim else b.reshape(y, (1,))


_REDUCED = (
    sample([(3, 5)]),
    sample([(3, 70)], {"axis": 1}),
    sample([(3, 4, 5)], {"axis": (0, 2), "keepdims": True}),
    sample([(3, 4, 5)], {"axis": 1, "exclude": True}),
    sample([(2, 3, 4)], {"axis": -2}),
    sample([(1,)]),
    sample([(1, 1)], {"axis": 1}),
)
_EMPTY = (sample([(0, 3)], {"axis": 1}), sample([(0, 3)], {"axis": 0}))


def _reduction(name: str, function: Callable[[Builder, Node, tuple[int, ...]], Node], doc: str, **fields: Any) -> None:
    def lower(b: Builder, p: Values, data: Node) -> Node:
        axes = reduction_axes(p.axis, data.shape, p.exclude)
        if not data.ndim:
            y = function(b, b.reshape(data, (1,)), (0,))
            return y if p.keepdims else b.reshape(y, (1,))
        if not axes:
            return b.copy(data)
        return shape_back(b, function(b, data, axes), data, axes, p.keepdims)

    fields.setdefault("samples", _REDUCED + _EMPTY)
    operator(name, params=dict(_PARAMS), method=name.split(maxsplit=1)[0], doc=doc, **fields)(lower)


def _sum(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    if x.dtype is bool_:  # any
        return b.reduce("amax", x, axes)
    return b.sum(x, axes)


def _nan_to(value: float) -> Callable[[Builder, Node], Node]:
    return lambda b, x: b.select(b.isnan(x), b.full_like(x, value), x) if x.dtype.is_float else x


def _extreme(how: str) -> Callable[[Builder, Node, tuple[int, ...]], Node]:
    def lower(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
        if not x.size:
            raise MXNetError(
                f"Check failed: (*in_attrs)[0].Size() > 0U (0 vs. 0) : Reduction input's size should > 0 {shape_text(x.shape)}"
            )
        return b.reduce(how, x, axes)

    return lower


_reduction("sum sum_axis", _sum, "Sum over axes.")
_reduction("mean", lambda b, x, axes: b.mean(x, axes), "Mean over axes; integers are cut towards zero.")
_reduction("prod", lambda b, x, axes: b.reduce("prod", x, axes), "Product over axes.", domain=(0.5, 1.5))
_reduction("nansum", lambda b, x, axes: b.sum(_nan_to(0)(b, x), axes), "Sum over axes, NaN counted as 0.")
_reduction(
    "nanprod",
    lambda b, x, axes: b.reduce("prod", _nan_to(1)(b, x), axes),
    "Product over axes, NaN counted as 1.",
    domain=(0.5, 1.5),
)
_reduction(
    "max max_axis",
    _extreme("amax"),
    "Largest element over axes; NaN wins.",
    samples=_REDUCED,
)
_reduction(
    "min min_axis",
    _extreme("amin"),
    "Smallest element over axes; NaN wins.",
    samples=_REDUCED,
)


@operator(
    "norm",
    params={
        "ord": Int(2, "1 or 2"),
        "axis": Axis(doc="an axis, a pair of axes, or None for all"),
        "out_dtype": Dtype(None, "type of the result"),
        "keepdims": Bool(False, "keep reduced axes with extent 1"),
    },
    method="norm",
    result_dtype=lambda p, d: p.out_dtype or d[0],
    samples=(
        sample([(3, 5)]),
        sample([(3, 70)], {"ord": 1, "axis": 1}),
        sample([(2, 3, 4)], {"axis": (0, 2), "keepdims": True}),
        sample([(1,)], {"ord": 1}),
        sample([(2, 3)], {"axis": 0, "out_dtype": "float64"}),
        sample([(0, 3)], {"axis": 1}),
    ),
)
def norm(b: Builder, p: Values, data: Node) -> Node:
    """Sum of absolute values (ord 1) or root of the sum of squares (ord 2)."""
    if p.ord not in (1, 2):
        raise MXNetError(
            f"Check failed: param.ord == 1 || param.ord == 2: norm only supports ord=1 and ord=2, not {p.ord}"
        )
    axes = reduction_axes(p.axis, data.shape)

    def compute(x: Node) -> Node:
        return b.sum(b.abs(x), axes) if p.ord == 1 else b.sqrt(b.sum(x * x, axes))

    y = in_floats(b, compute, data)
    if p.out_dtype is not None:
        y = b.cast(y, p.out_dtype)
    return shape_back(b, y, data, axes, p.keepdims)


def _arg(name: str, doc: str) -> None:
    def lower(b: Builder, p: Values, data: Node) -> Node:
        axes = reduction_axes(None if p.axis is None else (p.axis,), data.shape)
        if p.axis is None and not data.size:
            raise MXNetError(
                "Check failed: inputs[0].shape_.Size() != 0U (0 vs. 0) : attempt to search an empty sequence"
            )
        if p.axis is not None and not data.shape[axes[0]]:
            raise MXNetError(
                "Check failed: inputs[0].shape_[axis] != 0 (0 vs. 0) : searching input tensor of shape "
                f"{shape_text(data.shape)} along axis = {axes[0]} of zero dim-size is not allowed"
            )
        y = b.cast(getattr(b, name)(data, axes=axes), data.dtype)
        if p.axis is None and p.keepdims:
            return b.reshape(y, (1,) * data.ndim)
        return shape_back(b, y, data, axes, p.keepdims)

    params = {
        "axis": Int(None, "axis to search; None for the flattened array"),
        "keepdims": Bool(False, "keep the axis with extent 1"),
    }
    operator(
        name,
        params=params,
        method=name,
        differentiable=False,
        samples=(
            sample([(3, 5)], {"axis": 1}),
            sample([(3, 70)], {"axis": 0, "keepdims": True}),
            sample([(2, 3)]),
            sample([(2, 3)], {"keepdims": True}),
            sample([(1,)], {"axis": 0}),
            sample([(0, 3)], {"axis": 1}),
        ),
        doc=doc,
    )(lower)


_arg("argmax", "Index of the first largest element, in the type of the data.")
_arg("argmin", "Index of the first smallest element, in the type of the data.")


@operator(
    "argmax_channel",
    method="argmax_channel",
    differentiable=False,
    samples=(sample([(3, 5)]), sample([(2, 3, 4)]), sample([(1, 1)])),
)
def argmax_channel(b: Builder, p: Values, data: Node) -> Node:
    """argmax along axis 1."""
    return shape_back(b, b.cast(b.argmax(data, axes=(1,)), data.dtype), data, (1,), False)


@operator(
    "moments",
    params={"axes": Axis(doc="axes to reduce"), "keepdims": Bool(False, "keep reduced axes")},
    outputs=2,
    samples=(
        sample([(3, 5)]),
        sample([(3, 70)], {"axes": (1,)}),
        sample([(2, 3, 4)], {"axes": (0, 2), "keepdims": True}),
        sample([(1, 1)], {"axes": (0,)}),
    ),
    named=True,
)
def moments(b: Builder, p: Values, data: Node) -> tuple[Node, Node]:
    """Mean and (biased) variance over axes."""
    need_number(data)
    axes = reduction_axes(p.axes, data.shape)
    mean = b.mean(data, axes, keepdims=True)
    centred = data - mean
    variance = b.mean(centred * centred, axes)
    reduced_shape = tuple(d for k, d in enumerate(data.shape) if k not in axes)
    flat = b.reshape(mean, reduced_shape)
    return shape_back(b, flat, data, axes, p.keepdims), shape_back(b, variance, data, axes, p.keepdims)

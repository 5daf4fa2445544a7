# SPDX-License-Identifier: Apache-2.0
"""Reductions of np. Without ``keepdims`` the reduced axes go, so that a total has shape ()."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, bool_, f32, i64
from ..elementwise import need_number, root_flat_at_zero, truth
from ..params import Axis, Bool, Double, Dtype, Int, Param, Values
from ..record import operator, sample
from ..reduce import reduction_axes
from .application import ArrayOrList, np_function

__all__ = ["given", "kept_shape"]

_AXIS: dict[str, Param] = {"axis": Axis(doc="axes to reduce; None means all, () none")}
_KEEPDIMS: dict[str, Param] = {"keepdims": Bool(False, "keep reduced axes with extent 1")}
_DTYPE: dict[str, Param] = {"dtype": Dtype(None, "element type of the result")}
_INITIAL: dict[str, Param] = {"initial": Double(None, "not supported: None")}

_SHAPES = (
    sample([(3, 5)]),
    sample([(3, 70)], {"axis": 1}),
    sample([(3, 4, 5)], {"axis": (0, -1), "keepdims": True}),
    sample([(2, 3)], {"axis": ()}),
    sample([()]),
)
_EMPTY = (sample([(0, 3)], {"axis": 0}), sample([(0, 3)]))


def given(**attributes: Any) -> dict[str, Any]:
    """The attributes that a call gives; None and False are what is meant without them."""
    return {k: v for k, v in attributes.items() if v is not None and v is not False}


def _axes(axis: tuple[int, ...] | None, x: Node) -> tuple[int, ...]:
    """The axes to reduce. As in MXNet an array without axes takes 0."""
    if axis == () or (not x.ndim and axis in ((0,), (-1,))):
        return ()
    return reduction_axes(axis, x.shape)


def kept_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape of what is reduced over axes."""
    return tuple(1 if k in axes else d for k, d in enumerate(shape) if keepdims or k not in axes)


def _reduced(b: Builder, x: Node, p: Values, function: Callable[[Builder, Node, tuple[int, ...]], Node]) -> Node:
    """``function`` of the builder, ``x`` and the axes, in the shape that the attributes ask for."""
    if getattr(p, "initial", None) is not None:
        raise MXNetError("initial is not supported yet")
    axes = _axes(p.axis, x)
    return b.reshape(function(b, x, axes), kept_shape(x.shape, axes, p.keepdims))


def _count(x: Node, axes: Sequence[int]) -> int:
    count = 1
    for k in axes:
        count *= x.shape[k]
    return count


def _total(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    return b.sum(x, axes) if axes else b.copy(x)


def _product(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    return b.reduce("prod", x, axes) if axes else b.copy(x)


def _mean(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    if axes and x.dtype.is_float and _count(x, axes):
        return b.mean(x, axes)
    return _total(b, x, axes) / max(_count(x, axes), 1)


def _widened(b: Builder, x: Node, dtype: DType) -> Node:
    """``x`` in a type, or as it is if it is a float that is wider."""
    return x if x.dtype.is_float and (not dtype.is_float or dtype.size < x.dtype.size) else b.cast(x, dtype)


def _summed_type(data: DType, dtype: DType | None) -> DType:
    return dtype or (i64 if data is bool_ else data)


def _mean_type(data: DType, dtype: DType | None) -> DType:
    return dtype or (data if data.is_float else f32)


def _sum_like(name: str, function: Callable[..., Node], result: Callable[..., DType], doc: str, **fields: Any) -> None:
    """Declare a reduction that adds or multiplies, in the type of the result or, if that is narrower, of the data."""

    def lower(b: Builder, p: Values, a: Node) -> Node:
        dtype = result(a.dtype, p.dtype)
        return b.cast(_reduced(b, _widened(b, a, i64 if dtype is bool_ else dtype), p, function), dtype)

    operator(
        name,
        "a",
        params={**_AXIS, **_DTYPE, **_KEEPDIMS, **_INITIAL},
        result_dtype=lambda p, d: p.dtype if d[0] is None else result(d[0], p.dtype),
        samples=(*_SHAPES, *_EMPTY, sample([(3, 4)], {"axis": 0, "dtype": "float64"})),
        doc=doc,
        **fields,
    )(lower)


_sum_like("_np_sum", _total, _summed_type, "Sum over axes; of bool in int64.")
_sum_like("_np_prod _np_product", _product, _summed_type, "Product over axes; of bool in int64.", domain=(0.5, 1.5))
_sum_like("_npi_mean", _mean, _mean_type, "Mean over axes; of integers in float32.")


def _extreme(name: str, how: str, word: str, doc: str) -> None:
    def reduce(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
        if any(not x.shape[k] for k in axes):
            raise MXNetError(
                "Check failed: is_all_reducded_axes_not_zero: zero-size array to reduction operation "
                f"{word} which has no identity"
            )
        return b.reduce(how, x, axes) if axes else b.copy(x)

    def lower(b: Builder, p: Values, a: Node) -> Node:
        if not a.ndim and p.axis:
            raise MXNetError(f"Check failed: i >= 0 && i < ndim(): index = {p.axis[0]} must be in range [0, 0)")
        return _reduced(b, a, p, reduce)

    samples = (*_SHAPES, sample([(0, 3)], {"axis": 1}))
    operator(name, "a", params={**_AXIS, **_KEEPDIMS, **_INITIAL}, samples=samples, doc=doc)(lower)


_extreme("_np_max _np_amax", "amax", "maximum", "Largest element over axes; NaN wins.")
_extreme("_np_min _np_amin", "amin", "minimum", "Smallest element over axes; NaN wins.")


def _truth(name: str, how: str, none: bool, doc: str) -> None:
    def reduce(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
        if not _count(x, axes):
            return b.full(kept_shape(x.shape, axes, False), none, bool_)
        return b.reduce(how, x, axes) if axes else b.copy(x)

    def lower(b: Builder, p: Values, data: Node) -> Node:
        return _reduced(b, truth(b, data), p, reduce)

    operator(
        name,
        params={**_AXIS, **_KEEPDIMS},
        differentiable=False,
        result_dtype=lambda p, d: bool_,
        samples=(*_SHAPES, *_EMPTY),
        doc=doc,
    )(lower)


_truth("_np_any _np_sometrue", "amax", False, "Whether any element is not 0, over axes.")
_truth("_np_all", "amin", True, "Whether no element is 0, over axes.")


def _spread(name: str, doc: str) -> None:
    """Declare the variance or its root."""

    def lower(b: Builder, p: Values, a: Node) -> Node:
        need_number(a)
        dtype = p.dtype or a.dtype
        x = _widened(b, a, dtype if dtype.is_float else f32)

        def reduce(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
            centred = x - b.mean(x, axes, keepdims=True) if axes else x * 0.0
            total, count = _total(b, centred * centred, axes), _count(x, axes) - p.ddof
            variance = total / count if count > 0 else total / b.full_like(total, 0)
            return root_flat_at_zero(b, b.sqrt, variance) if name == "std" else variance

        return b.cast(_reduced(b, x, p, reduce), dtype)

    operator(
        f"_npi_{name}",
        "a",
        params={**_AXIS, **_DTYPE, "ddof": Int(0, "subtracted from the number of elements"), **_KEEPDIMS},
        samples=(*_SHAPES[:3], sample([(5, 3)], {"axis": 0, "ddof": 1}), sample([(2, 3)], {"dtype": "float64"})),
        kept=1,
        doc=doc,
    )(lower)


_spread("var", "Variance over axes; of integers cut to their type.")
_spread("std", "Standard deviation over axes; of integers cut to their type.")


def _arg(name: str, doc: str) -> None:
    def lower(b: Builder, p: Values, data: Node) -> Node:
        need_number(data)
        axes = _axes(None if p.axis is None else (p.axis,), data)
        if p.axis is None and not data.size:
            raise MXNetError(
                "Check failed: inputs[0].shape_.Size() != 0U (0 vs. 0) : attempt to search an empty sequence"
            )
        if p.axis is not None and axes and not data.shape[axes[0]]:
            shape = ",".join(map(str, data.shape))
            raise MXNetError(
                f"Check failed: inputs[0].shape_[axis] != 0 (0 vs. 0) : searching input tensor of shape [{shape}] "
                f"along axis = {axes[0]} of zero dim-size is not allowed"
            )
        y = getattr(b, name)(data, axes=axes) if axes else b.full(data.shape, 0, i64)
        return b.reshape(b.cast(y, i64), kept_shape(data.shape, axes, p.keepdims))

    operator(
        f"_npi_{name}",
        params={"axis": Int(None, "axis to search; None for the flattened array"), **_KEEPDIMS},
        differentiable=False,
        result_dtype=lambda p, d: i64,
        samples=(
            sample([(3, 5)], {"axis": 1}),
            sample([(3, 70)], {"axis": 0, "keepdims": True}),
            sample([(2, 3)]),
            sample([()]),
            sample([(0, 3)], {"axis": 1}),
        ),
        doc=doc,
    )(lower)


_arg("argmax", "Index of the first largest element, int64.")
_arg("argmin", "Index of the first smallest element, int64.")


@operator(
    "_npi_average",
    "a weights",
    params={
        **_AXIS,
        "returned": Bool(False, "the sum of the weights as a second result"),
        "weighted": Bool(True, "False: there are no weights"),
    },
    optional=lambda p: ["a", "weights"] if p.weighted else ["a"],
    outputs=2,
    visible=lambda p: 2 if p.returned else 1,
    domain=(0.5, 2.0),
    samples=(
        sample([(3, 5)], {"weighted": False}),
        sample([(3, 5), (3, 5)], {"axis": (0,)}),
        sample([(3, 5), (5,)], {"axis": (1,), "returned": True}),
    ),
)
def average(b: Builder, p: Values, a: Node, weights: Node | None = None) -> tuple[Node, Node]:
    """Mean over axes, weighted by an array of the same shape or by one as long as the axis."""
    need_number(a)
    axes = _axes(p.axis, a)
    if weights is None:
        number = _count(a, axes)
        count = b.full((), number, a.dtype)
        return _mean(b, a, axes) if number else _total(b, a, axes) / 0, count
    if weights.shape != a.shape:
        if p.axis is None:
            raise MXNetError(
                "Check failed: param.axis.has_value() == true (0 vs. 1) : Axis must be specified when shapes of a and "
                "weights differ."
            )
        if weights.ndim != 1 or len(axes) != 1:
            raise MXNetError(
                "Check failed: w_shape.ndim() == 1: 1D weights expected when shapes of a and weights differ."
            )
        if weights.shape[0] != a.shape[axes[0]]:
            raise MXNetError(
                f"Check failed: a_shape[red_axis] == w_shape[0] ({a.shape[axes[0]]} vs. {weights.shape[0]}) : Length of "
                "weights not compatible with specified axis."
            )
        line = b.reshape(weights, tuple(d if k in axes else 1 for k, d in enumerate(a.shape)))
        scale = b.sum(weights, (0,))
        total = _total(b, a * b.broadcast(line, a.shape), axes)
        return total / b.broadcast(b.reshape(scale, (1,) * total.ndim), total.shape), scale
    scale = _total(b, weights, axes)
    return _total(b, a * weights, axes) / scale, scale


@operator(
    "_npi_diff",
    "a",
    params={"n": Int(1, "how often"), "axis": Int(-1, "the axis")},
    samples=(
        sample([(3, 5)]),
        sample([(3, 5)], {"n": 2, "axis": 0}),
        sample([(2, 3)], {"n": 4}),
        sample([(2, 3)], {"n": 0}),
    ),
)
def diff(b: Builder, p: Values, a: Node) -> Node:
    """Differences of neighbours along an axis, ``n`` times."""
    need_number(a)
    if p.n < 0:
        raise MXNetError(f"Check failed: n >= 0 ({p.n} vs. 0) : ")
    if not -a.ndim <= p.axis < a.ndim:
        raise MXNetError(
            f"Check failed: axis < ndim && axis >= -ndim: axis {p.axis} exceeds the input dimension of {a.ndim}"
        )
    axis, y = p.axis % a.ndim, b.copy(a) if not p.n else a
    for _ in range(min(p.n, a.shape[axis])):
        n = y.shape[axis]
        if n < 2:
            return b.full((*y.shape[:axis], 0, *y.shape[axis + 1 :]), 0, a.dtype)
        y = b.slice_axis(y, axis, 1, n) - b.slice_axis(y, axis, 0, n - 1)
    return y


# -- functions


@np_function("sum")
def sum(
    F: Any,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """The sum over axes, all of them by default; of bool in int64."""
    attributes = {**given(axis=axis, dtype=dtype, keepdims=keepdims, initial=initial), **kwargs}
    return F.invoke("_np_sum", (a,), attributes, out, name)


@np_function("prod", "product")
def prod(
    F: Any,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """The product over axes, all of them by default; of bool in int64."""
    attributes = {**given(axis=axis, dtype=dtype, keepdims=keepdims, initial=initial), **kwargs}
    return F.invoke("_np_prod", (a,), attributes, out, name)


def _over_axes(names: tuple[str, ...], operator: str, doc: str) -> None:
    def function(
        F: Any,
        a: Any,
        axis: Any = None,
        keepdims: bool = False,
        out: Any = None,
        initial: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Any:
        return F.invoke(operator, (a,), {**given(axis=axis, keepdims=keepdims, initial=initial), **kwargs}, out, name)

    function.__doc__ = doc
    np_function(*names)(function)


for _name in ("max", "amax"):
    _over_axes((_name,), f"_np_{_name}", "The largest element over axes, all of them by default.")
for _name in ("min", "amin"):
    _over_axes((_name,), f"_np_{_name}", "The smallest element over axes, all of them by default.")
_over_axes(("any", "sometrue"), "_np_any", "Whether any element over axes is not 0.")
_over_axes(("all",), "_np_all", "Whether no element over axes is 0.")


@np_function("mean")
def mean(F: Any, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The mean over axes, all of them by default; of integers in float32."""
    attributes = {"axis": axis, "keepdims": keepdims, **given(dtype=dtype)}
    return F.invoke("_npi_mean", (a,), attributes, out)


def _spread_function(word: str, doc: str) -> None:
    def function(
        F: Any,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        attributes = {"axis": axis, "ddof": ddof, "keepdims": keepdims, **given(dtype=dtype)}
        return F.invoke(f"_npi_{word}", (a,), attributes, out)

    function.__doc__ = doc
    np_function(word)(function)


_spread_function("var", "The variance over axes; ``ddof`` is subtracted from the number of elements.")
_spread_function("std", "The standard deviation over axes; ``ddof`` is subtracted from the number of elements.")


def _arg_function(word: str, doc: str) -> None:
    def function(F: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
        return F.invoke(f"_npi_{word}", (a,), {"axis": axis, "keepdims": False}, out)

    function.__doc__ = doc
    np_function(word)(function)


_arg_function("argmax", "The index (int64) of the first largest element along an axis, or of the flattened array.")
_arg_function("argmin", "The index (int64) of the first smallest element along an axis, or of the flattened array.")


@np_function("average")
def average_of(
    F: Any, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, out: Any = None
) -> ArrayOrList:
    """The mean over axes, weighted if there are weights; with ``returned`` the sum of the weights, too."""
    inputs = (a,) if weights is None else (a, weights)
    attributes = {"axis": axis, "returned": returned, **({} if len(inputs) > 1 else {"weighted": False})}
    return F.invoke("_npi_average", inputs, attributes, out)


@np_function("cumsum")
def cumsum(
    F: Any, a: Any, axis: int | None = None, dtype: Any = None, out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Running sums along an axis, or of the flattened array; of bool in int64."""
    return F.invoke("_np_cumsum", (a,), {**given(axis=axis, dtype=dtype), **kwargs}, out, name)


@np_function("diff")
def diff_of(F: Any, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, ``n`` times."""
    if prepend or append:
        raise NotImplementedError("prepend and append options are not supported yet")
    return F.invoke("_npi_diff", (a,), {"n": n, "axis": axis})

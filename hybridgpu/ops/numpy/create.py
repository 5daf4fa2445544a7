# SPDX-License-Identifier: Apache-2.0
"""Operators of np without inputs, arrays like others, and the functions that call them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...core.dtypes import bool_, f64, i64
from ..create import CTX, NUMBERS, arange_length
from ..elementwise import scalar_node
from ..params import Bool, Double, Dtype, Int, Long, Param, Shape, Text, Values
from ..record import operator, sample, shape_text
from .application import ArrayOrList, np_function
from .reduce import given

__all__: list[str] = []

_DTYPE: dict[str, Param] = {"dtype": Dtype("float32", "element type", only=NUMBERS)}
_ANY_DTYPE: dict[str, Param] = {"dtype": Dtype("float32", "element type")}


def _checked(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """
    Raises:
        MXNetError: an extent is unknown.
    """
    if any(d < 0 for d in shape):
        raise MXNetError(
            f"Operator {name} inferring shapes failed.\ninput shapes:\noutput shapes:\n{shape_text(shape)}\n"
            f"shape : {shape}: extents must not be negative"
        )
    return shape


def _constant(word: str, value: float) -> None:
    def lower(b: Builder, p: Values) -> Node:
        return b.full(_checked(p.shape, f"_npi_{word}"), value, p.dtype)

    operator(
        f"_npi_{word}",
        "",
        params={"shape": Shape((), "extents"), **CTX, **_ANY_DTYPE},
        differentiable=False,
        samples=(
            sample([], {"shape": (3, 5)}),
            sample([], {"shape": (), "dtype": "int64"}),
            sample([], {"shape": (0, 2), "dtype": "bool"}),
        ),
        doc=f"{word.capitalize()}.",
    )(lower)


_constant("zeros", 0)
_constant("ones", 1)


@operator(
    "_npi_identity",
    "",
    params={"shape": Shape((), "(n, n)"), **CTX, **_ANY_DTYPE},
    differentiable=False,
    samples=(sample([], {"shape": (3, 3)}), sample([], {"shape": (0, 0), "dtype": "bool"})),
)
def identity(b: Builder, p: Values) -> Node:
    """Ones on the main diagonal of a square matrix."""
    shape = _checked(p.shape, "_npi_identity")
    if len(shape) != 2:
        raise MXNetError(
            f"Check failed: shape.ndim() == 2: identity needs a shape of two extents, not {shape_text(shape)}"
        )
    return b.cast(b.eq(b.iota(shape, 1, i64), b.iota(shape, 0, i64)), p.dtype)


class _Columns(Long):
    """A number of columns; None for as many as there are rows."""

    @property
    def type_name(self) -> str:
        return ""


@operator(
    "_npi_eye",
    "",
    params={
        "N": Long(doc="rows"),
        "M": _Columns(None, "columns; None for as many as rows"),
        "k": Long(0, "which diagonal, above the main one if positive"),
        **CTX,
        **_DTYPE,
    },
    differentiable=False,
    samples=(
        sample([], {"N": 3}),
        sample([], {"N": 3, "M": 5, "k": -1, "dtype": "int32"}),
        sample([], {"N": 0}),
        sample([], {"N": 2, "M": 3, "k": 7}),
    ),
)
def eye(b: Builder, p: Values) -> Node:
    """Ones on a diagonal."""
    columns = p.N if p.M is None else p.M
    for word, extent in (("N", p.N), ("M", columns)):
        if extent < 0:
            raise MXNetError(
                f"Check failed: param.{word} >= 0: negative dimensions are not allowed. {word} is {extent}"
            )
    shape = (p.N, columns)
    return b.cast(b.eq(b.iota(shape, 1, i64), b.iota(shape, 0, i64) + p.k), p.dtype)


@operator(
    "_npi_arange",
    "",
    params={
        "start": Double(doc="first value"),
        "stop": Double(None, "the value not reached; None: start is it, from 0"),
        "step": Double(1.0, "distance"),
        "repeat": Int(1, "how often each value comes", low=1),
        "infer_range": Bool(False, "has no meaning"),
        **CTX,
        **_DTYPE,
    },
    differentiable=False,
    samples=(
        sample([], {"start": 5}),
        sample([], {"start": 2, "stop": 9, "step": 2.5, "dtype": "int32"}),
        sample([], {"start": 1, "stop": -1, "step": -0.25, "dtype": "float64"}),
        sample([], {"start": 3, "stop": 1}),
    ),
)
def arange(b: Builder, p: Values) -> Node:
    """Values at equal distances; none if stop lies on the other side of start."""
    start, stop = (0.0, p.start) if p.stop is None else (p.start, p.stop)
    if not p.step:
        raise MXNetError("Check failed: param.step != 0: Invalid range: step cannot be 0")
    count = arange_length(start, stop, p.step) if (stop - start) / p.step > 0 else 0
    step = p.step
    if p.dtype.is_integer:  # integers count in integral steps
        start, step = int(start), int(step)
    line = b.iota((count * p.repeat,), 0, i64)
    line = line / p.repeat if p.repeat > 1 else line
    return b.cast(b.cast(line, i64 if p.dtype.is_integer else f64) * step + start, p.dtype)


@operator(
    "_npi_logspace",
    "",
    params={
        "start": Double(doc="base ** start is the first value"),
        "stop": Double(doc="base ** stop is the last value"),
        "num": Int(doc="number of values"),
        "endpoint": Bool(True, "stop is the last exponent"),
        "base": Double(10.0, "the base"),
        **CTX,
        **_DTYPE,
    },
    differentiable=False,
    samples=(
        sample([], {"start": 0, "stop": 2, "num": 5}),
        sample([], {"start": 1, "stop": 0, "num": 4, "endpoint": False, "base": 2, "dtype": "float64"}),
        sample([], {"start": 1, "stop": 2, "num": 1}),
    ),
)
def logspace(b: Builder, p: Values) -> Node:
    """Powers of a base whose exponents lie at equal distances."""
    if p.num < 0:
        raise MXNetError(
            f"Check failed: param.num >= 0 ({p.num} vs. 0) : Number of sequence should be non-negative, received {p.num}"
        )
    parts = p.num - 1 if p.endpoint else p.num
    exponents = b.iota((p.num,), 0, f64) * ((p.stop - p.start) / parts if parts else 0.0) + p.start
    return b.cast(b.pow(b.full_like(exponents, p.base), exponents), p.dtype)


@operator(
    "_npi_indices",
    "",
    params={
        "dimensions": Shape(doc="extents of the grid"),
        "dtype": Dtype("int32", "element type", only=NUMBERS),
        **CTX,
    },
    differentiable=False,
    samples=(
        sample([], {"dimensions": (2, 3)}),
        sample([], {"dimensions": (4,), "dtype": "float32"}),
        sample([], {"dimensions": (0, 2)}),
        sample([], {"dimensions": ()}),
    ),
)
def indices(b: Builder, p: Values) -> Node:
    """The positions of a grid's elements: a new first axis, one entry an axis."""
    shape = _checked(p.dimensions, "_npi_indices")
    if not shape:
        return b.full((0,), 0, p.dtype)
    rows = [b.iota((1, *shape), axis + 1, i64) for axis in range(len(shape))]
    return b.cast(b.concat(rows, 0) if len(rows) > 1 else rows[0], p.dtype)


@operator(
    "_npi_full_like",
    "a",
    params={
        "fill_value": Double(doc="the value", varies=True),
        **CTX,
        "dtype": Dtype(None, "element type; None for the array's"),
    },
    differentiable=False,
    same_shape=True,
    result_dtype=lambda p, d: p.dtype or d[0],
    samples=(sample(None, {"fill_value": 2.5}), sample(None, {"fill_value": -1, "dtype": "int32"})),
)
def full_like(b: Builder, p: Values, a: Node) -> Node:
    """One value everywhere, in the shape of an array."""
    dtype = p.dtype or a.dtype
    like = b.full(a.shape, 0, dtype)
    if dtype is bool_ and not isinstance(p.fill_value, (int, float)):
        return b.ne(scalar_node(b, b.full(a.shape, 0, f64), p.fill_value), 0)
    if dtype is bool_:
        return b.full(a.shape, bool(p.fill_value), bool_)
    return scalar_node(b, like, p.fill_value)


# -- functions


def _need_c(order: str, text: str = "") -> None:
    if order != "C":
        raise NotImplementedError(*([text] if text else []))


def _placed(ctx: Any, **attributes: Any) -> dict[str, Any]:
    """The attributes, with a context where there is one.

    Raises:
        TypeError: ``dtype`` is no element type.
    """
    dtype = attributes.get("dtype")
    if isinstance(dtype, str) and dtype != "bfloat16":
        np.dtype(dtype)
    return {**attributes, **given(ctx=ctx)}


@np_function("zeros")
def zeros(F: Any, shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> Any:
    """Zeros, float32 by default."""
    _need_c(order)
    return F.invoke("_npi_zeros", (), {"shape": shape, "dtype": dtype or np.float32, **given(ctx=ctx)})


@np_function("empty")
def empty(F: Any, shape: Any, dtype: Any = np.float32, order: str = "C", ctx: Any = None) -> Any:
    """An array whose values do not count, float32 by default."""
    _need_c(order, f"`empty` only supports order equal to `C`, while received {order}")
    return F.invoke("_npi_zeros", (), {"shape": shape, "dtype": dtype or np.float32, **given(ctx=ctx)})


@np_function("ones")
def ones(F: Any, shape: Any, dtype: Any = np.float32, order: str = "C", ctx: Any = None) -> Any:
    """Ones, float32 by default."""
    _need_c(order)
    return F.invoke("_npi_ones", (), _placed(ctx, shape=shape, dtype=np.float32 if dtype is None else dtype))


@np_function("full")
def full(
    F: Any, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None
) -> Any:
    """One value everywhere, or an array that is broadcast; float32 by default, bool for True and False."""
    _need_c(order)
    if F.is_array(fill_value):
        result = F.invoke("_npi_broadcast_to", (fill_value,), {"shape": shape})
        return result if dtype is None else F.invoke("_npi_cast", (result,), {"dtype": dtype})
    if isinstance(fill_value, bool):
        fill_value, dtype = int(fill_value), np.bool_ if dtype is None else dtype
    attributes = _placed(ctx, shape=shape, value=fill_value, dtype=np.float32 if dtype is None else dtype)
    return F.invoke("_npi_full", (), attributes, out)


@np_function("full_like")
def full_like_of(
    F: Any, a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None
) -> Any:
    """One value everywhere, in the shape of an array, and in its type by default."""
    _need_c(order)
    value = int(fill_value) if isinstance(fill_value, bool) else fill_value
    return F.invoke("_npi_full_like", (a,), _placed(ctx, fill_value=value, **given(dtype=dtype)), out)


@np_function("zeros_like")
def zeros_like(F: Any, a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """Zeros in the shape of an array, and in its type by default."""
    return full_like_of(F, a, 0, dtype, order, ctx, out)


@np_function("ones_like")
def ones_like(F: Any, a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """Ones in the shape of an array, and in its type by default."""
    return full_like_of(F, a, 1, dtype, order, ctx, out)


@operator(
    "_npi_empty_like _npi_empty_like_fallback",
    "prototype",
    custom_type="empty_like_fallback",
    params={
        "dtype": Dtype(None, "element type; None for that of the input", optional=True),
        "order": Text("C", "'C'"),
        "subok": Bool(False, "accepted"),
        "shape": Shape(None, "accepted", optional=True),
    },
    differentiable=False,
    samples=(sample([(3, 5)]), sample([(0, 3)], {"dtype": "int32"})),
)
def empty_like_of(b: Builder, p: Values, prototype: Node) -> Node:
    """An array in the shape of another whose values do not count: zeros. Hybridgpu's own: MXNet makes it in Python."""
    return b.full(prototype.shape, 0, p.dtype or prototype.dtype)


@np_function("empty_like")
def empty_like(
    F: Any, prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False, shape: Any = None
) -> Any:
    """An array in the shape of another, and in its type by default, whose values do not count."""
    _need_c(order, "Only support C-order at this moment")
    if subok:
        raise NotImplementedError("Creating array by using sub-class is not supported at this moment")
    if shape is not None:
        raise NotImplementedError("Assigning new shape is not supported at this moment")
    attributes = {"dtype": "None" if dtype is None else dtype, "order": order, "subok": subok, "shape": shape}
    return F.invoke("_npi_empty_like", (prototype,), attributes)


@np_function("arange")
def arange_of(F: Any, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, ctx: Any = None) -> Any:
    """Values at equal distances from start (0 by default) to before stop, float32 by default."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if start is None and stop is None:
        raise ValueError("start and stop cannot be both None")
    if step == 0:
        raise ZeroDivisionError("step cannot be 0")
    attributes = _placed(ctx, start=start, stop=stop, step=step, dtype="float32" if dtype is None else dtype)
    return F.invoke("_npi_arange", (), attributes)


def _need_number(F: Any, *ends: Any, text: str) -> None:
    if any(isinstance(e, (list, np.ndarray)) or F.is_array(e) for e in ends):
        raise NotImplementedError(text)


@np_function("linspace")
def linspace(
    F: Any,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
) -> ArrayOrList:
    """``num`` values at equal distances from start to stop, float32 by default; with ``retstep`` the distance, too."""
    _need_number(F, start, stop, text="start and stop only support int")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")
    attributes = _placed(ctx, start=start, stop=stop, num=num, endpoint=endpoint, **given(dtype=dtype))
    samples = F.invoke("_npi_linspace", (), {**attributes, "endpoint": endpoint})
    return (samples, (stop - start) / (num - 1)) if retstep else samples


@np_function("logspace")
def logspace_of(
    F: Any,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
) -> Any:
    """``num`` powers of a base whose exponents lie at equal distances from start to stop, float32 by default."""
    _need_number(F, start, stop, text="start and stop only support int and float")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")
    attributes = _placed(ctx, start=start, stop=stop, num=num, endpoint=endpoint, base=base, **given(dtype=dtype))
    return F.invoke("_npi_logspace", (), {**attributes, "endpoint": endpoint})


@np_function("eye")
def eye_of(F: Any, N: int, M: int | None = None, k: int = 0, dtype: Any = np.float32, **kwargs: Any) -> Any:
    """Ones on the k-th diagonal, float32 by default."""
    if "order" in kwargs:
        raise NotImplementedError("function eye does not support parameter order")
    attributes = _placed(kwargs.get("ctx"), N=N, M=M, k=k, dtype=np.float32 if dtype is None else dtype)
    return F.invoke("_npi_eye", (), attributes)


@np_function("identity")
def identity_of(F: Any, n: int, dtype: Any = None, ctx: Any = None) -> Any:
    """The square matrix with ones on its diagonal, float32 by default."""
    if not isinstance(n, int):
        raise TypeError("Input 'n' should be an integer")
    if n < 0:
        raise ValueError("Input 'n' cannot be negative")
    attributes = _placed(ctx, shape=(n, n), dtype=np.float32 if dtype is None else dtype)
    return F.invoke("_npi_identity", (), attributes)


@np_function("indices")
def indices_of(F: Any, dimensions: Any, dtype: Any = np.int32, ctx: Any = None) -> Any:
    """The positions of a grid's elements, int32 by default."""
    if not isinstance(dimensions, (tuple, list)):
        raise ValueError("The dimensions must be sequence of ints")
    return F.invoke("_npi_indices", (), _placed(ctx, dimensions=tuple(dimensions), dtype=dtype))


@np_function("meshgrid")
def meshgrid(F: Any, *xi: Any, **kwargs: Any) -> list[Any]:
    """The coordinates of a grid from those of its axes: an array an axis, each of the grid's shape."""
    if not kwargs.pop("copy", True):
        raise NotImplementedError("copy=False is not implemented")
    if kwargs.pop("sparse", False):
        raise NotImplementedError("sparse=False is not implemented")
    indexing = kwargs.pop("indexing", "xy")
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        places[:2] = 1, 0
    shapes = [tuple(-1 if k == place else 1 for k in range(len(xi))) for place in places]
    lines = [F.invoke("_np_reshape", (x,), {"newshape": s}) for x, s in zip(xi, shapes, strict=True)]
    return F.function("broadcast_arrays")(*lines)

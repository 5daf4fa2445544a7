# SPDX-License-Identifier: Apache-2.0
"""Operators and functions of np that keep all elements and change shape or order, or repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...base import MXNetError, ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ..params import Int, Shape, Text, Values
from ..record import operator, sample, shape_text
from .application import ArrayOrList, np_function
from .reduce import given

__all__ = ["np_axis"]


def np_axis(axis: int, ndim: int) -> int:
    """``axis`` as a non-negative number.

    Raises:
        MXNetError: it is out of range.
    """
    if not -ndim <= axis < ndim:
        raise MXNetError(
            f"Check failed: axis < ndim && axis >= -ndim: axis {axis} is out of bounds for array of dimension {ndim}"
        )
    return axis % ndim


# -- reshape


def _new_shape(size: int, extents: Sequence[int]) -> tuple[int, ...]:
    """The shape that extents describe of which one may be -1."""
    for d in extents:
        if d < -1:
            raise MXNetError(
                f"Check failed: param.newshape[i] == -1 ({d} vs. -1) : The shape dimension size to inferred must be -1"
            )
    shape = list(extents)
    if -1 in shape:
        if shape.count(-1) > 1:
            raise MXNetError("Check failed: !has_unknown_dim_size: Can only specify one unknown dimension")
        known_size = prod(d for d in shape if d != -1)
        if not known_size:
            raise MXNetError(
                f"Check failed: known_dim_size_prod != 0 (0 vs. 0) : Cannot reshape array of size {size} into shape "
                f"{shape_text(extents)}"
            )
        shape[shape.index(-1)] = size // known_size
    if prod(shape) != size:
        raise MXNetError(
            f"Check failed: src.Size() == dst->Size() ({size} vs. {prod(shape)}) : Cannot reshape array of size {size} "
            f"into shape {shape_text(extents)}"
        )
    return tuple(shape)


@operator(
    "_np_reshape",
    "a",
    params={"newshape": Shape(doc="extents; -1 stands for what is left"), "order": Text("C", "C")},
    same_size=True,
    samples=(
        sample([(2, 3, 4)], {"newshape": (6, -1)}),
        sample([(2, 3)], {"newshape": -1}),
        sample([(1, 1)], {"newshape": ()}),
        sample([()], {"newshape": (1, 1)}),
        sample([(0, 3)], {"newshape": (3, 0)}),
    ),
)
def reshape(b: Builder, p: Values, a: Node) -> Node:
    """The same elements under another shape."""
    return b.reshape(a, _new_shape(a.size, p.newshape))


@np_function("reshape")
def reshape_of(
    F: Any, a: Any, newshape: Any, order: str = "C", out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """The same elements under another shape, of which one extent may be -1."""
    attributes = {"newshape": newshape, **({"order": order} if order != "C" else {}), **kwargs}
    return F.invoke("_np_reshape", (a,), attributes, out, name)


@np_function("ravel")
def ravel(F: Any, x: Any, order: str = "C") -> Any:
    """All elements in a row."""
    if order == "F":
        raise NotImplementedError(f"order {order} is not supported")
    if isinstance(x, numeric_types):
        return np.reshape(x, -1)
    if not F.is_array(x):
        raise TypeError(f"type {type(x)} not supported")
    return F.invoke("_npi_reshape", (x,), {"newshape": -1})


@np_function("shape")
def shape(F: Any, a: Any) -> tuple[int, ...]:
    """The extents."""
    return a.shape


# -- axes


@operator(
    "_np_transpose",
    "a",
    params={"axes": Shape(None, "new order; None reverses")},
    samples=(
        sample([(3, 5)]),
        sample([(2, 3, 4)], {"axes": (-1, 0, 1)}),
        sample([(33, 65)]),
        sample([()]),
        sample([(0, 3)]),
    ),
)
def transpose(b: Builder, p: Values, a: Node) -> Node:
    """Permute the axes."""
    if p.axes is None:
        return _permuted(b, a, range(a.ndim)[::-1])
    if len(p.axes) != a.ndim:
        raise MXNetError(
            f"Check failed: ndim == param.axes.ndim() ({a.ndim} vs. {len(p.axes)}) : The number of axes does not match "
            f"the dimension of the tensor. axes = {shape_text(p.axes)}, input tensor shape = {shape_text(a.shape)}"
        )
    axes = [np_axis(k, a.ndim) for k in p.axes]
    if len(set(axes)) != a.ndim:
        raise ParameterError(
            f"Check failed: axes_set.size() == axes.ndim() ({len(set(axes))} vs. {a.ndim}) : Repeated axis in transpose. "
            f"param.axes = {shape_text(p.axes)}"
        )
    return _permuted(b, a, axes)


def _permuted(b: Builder, x: Node, axes: Sequence[int]) -> Node:
    return b.copy(x) if x.ndim < 2 else b.transpose(x, tuple(axes))


@operator(
    "_np_moveaxis",
    "a",
    params={"source": Shape(doc="axes to move"), "destination": Shape(doc="where they come to lie")},
    samples=(
        sample([(2, 3, 4)], {"source": 0, "destination": -1}),
        sample([(2, 3, 4)], {"source": (0, 1), "destination": (-1, -2)}),
    ),
)
def moveaxis(b: Builder, p: Values, a: Node) -> Node:
    """Axes at other places; the others keep their order."""
    if len(p.source) != len(p.destination):
        raise MXNetError(
            f"Check failed: param.source.ndim() == param.destination.ndim() ({len(p.source)} vs. {len(p.destination)}) : "
            "source and destination not equal."
        )
    for word in ("source", "destination"):
        for k in getattr(p, word):
            if not -a.ndim <= k < a.ndim:
                raise MXNetError(
                    f"Check failed: static_cast<size_t>(param.{word}[i]) < ndim ({k} vs. {a.ndim}) : axis out of bounds"
                )
    source, destination = ([k % a.ndim for k in axes] for axes in (p.source, p.destination))
    for word, axes in (("source", source), ("destination", destination)):
        if len(set(axes)) != len(axes):
            raise MXNetError(f"Check failed: real_src[i] != real_src[j]: repeated axis in `{word}` argument")
    order = [k for k in range(a.ndim) if k not in source]
    for to, k in sorted(zip(destination, source, strict=True)):
        order.insert(to, k)
    return _permuted(b, a, order)


@operator(
    "_np_squeeze",
    "a",
    params={"axis": Shape(None, "axes to drop; None for all of extent 1", optional=True)},
    samples=(
        sample([(1, 2, 1, 3)]),
        sample([(1, 2, 1)], {"axis": (0, -1)}),
        sample([(1, 1)]),
        sample([(0, 1)], {"axis": 1}),
    ),
)
def squeeze(b: Builder, p: Values, a: Node) -> Node:
    """Drop axes of extent 1."""
    if p.axis is None:
        return b.reshape(a, tuple(d for d in a.shape if d != 1))
    axes = {np_axis(k, a.ndim) for k in p.axis if a.ndim or k not in (0, -1)}
    for k in axes:
        if a.shape[k] != 1:
            raise MXNetError(
                f"Check failed: dshape[axes[i]] == 1 ({a.shape[k]} vs. 1) : cannot select an axis to squeeze out which has "
                f"size={a.shape[k]} not equal to one"
            )
    return b.reshape(a, tuple(d for k, d in enumerate(a.shape) if k not in axes))


@np_function("transpose")
def transpose_of(F: Any, a: Any, axes: Any = None, name: str | None = None, out: Any = None, **kwargs: Any) -> Any:
    """The axes in another order, reversed by default."""
    return F.invoke("_np_transpose", (a,), {**given(axes=axes), **kwargs}, out, name)


@np_function("swapaxes")
def swapaxes(F: Any, a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    return F.invoke("_npi_swapaxes", (a,), {"dim1": axis1, "dim2": axis2})


@np_function("moveaxis")
def moveaxis_of(
    F: Any, a: Any, source: Any, destination: Any, out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Axes at other places; the others keep their order."""
    return F.invoke("_np_moveaxis", (a,), {"source": source, "destination": destination, **kwargs}, out, name)


@np_function("squeeze")
def squeeze_of(F: Any, a: Any, axis: Any = None, out: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """Without axes of extent 1: all of them, or those given."""
    return F.invoke("_np_squeeze", (a,), {**given(axis=axis), **kwargs}, out, name)


@np_function("expand_dims")
def expand_dims(F: Any, a: Any, axis: int) -> Any:
    """With a new axis of extent 1."""
    return F.invoke("_npi_expand_dims", (a,), {"axis": axis})


def _at_least(name: str, pad: Any, doc: str) -> None:
    def lower(b: Builder, p: Values, *arys: Node) -> list[Node]:
        return [b.reshape(x, pad(x.shape)) for x in arys]

    operator(
        f"_np_{name}",
        "*arys",
        params={"num_args": Int(doc="Number of input arrays.", low=1)},
        count_param="num_args",
        outputs=lambda p: p.num_args,
        samples=tuple(sample([s, (2, 3), (4,)], {"num_args": 3}) for s in ((), (5,), (2, 3), (2, 3, 4))),
        doc=doc,
    )(lower)

    def function(F: Any, *arys: Any) -> ArrayOrList:
        return F.invoke(f"_np_{name}", arys, {"num_args": len(arys)})

    function.__doc__ = doc
    np_function(name)(function)


_at_least("atleast_1d", lambda s: s or (1,), "The arrays with at least one axis.")
_at_least(
    "atleast_2d",
    lambda s: s if len(s) > 1 else (1, *s) if s else (1, 1),
    "The arrays with at least two axes, new ones first.",
)
_at_least(
    "atleast_3d",
    lambda s: s if len(s) > 2 else (*s, 1) if len(s) == 2 else (1, *s, 1) if s else (1, 1, 1),
    "The arrays with at least three axes: (N,) becomes (1, N, 1), (M, N) becomes (M, N, 1).",
)


# -- broadcasting


@operator(
    "_npi_broadcast_to",
    "array",
    params={"shape": Shape((), "new extents; -2 keeps one")},
    samples=(
        sample([(1, 3)], {"shape": (4, 3)}),
        sample([(2, 1)], {"shape": (3, -2, 5)}),
        sample([()], {"shape": (2,)}),
        sample([(0, 1)], {"shape": (2, 0, 3)}),
    ),
)
def broadcast_to(b: Builder, p: Values, array: Node) -> Node:
    """Repeat axes of extent 1, and add axes in front, up to a shape."""
    if array.ndim > len(p.shape):
        raise MXNetError(
            f"Check failed: ishape.ndim() <= param.shape.ndim() ({array.ndim} vs. {len(p.shape)}) : shape "
            f"{shape_text(array.shape)} is not broadcastable to {shape_text(p.shape)}"
        )
    first = len(p.shape) - array.ndim
    shape = tuple(array.shape[k - first] if d == -2 and k >= first else d for k, d in enumerate(p.shape))
    if any(d not in (1, t) for d, t in zip(array.shape, shape[first:], strict=True)):
        raise MXNetError(
            f"Check failed: ishape[j] == pshape[i] || ishape[j] == 1: shape {shape_text(array.shape)} is not broadcastable "
            f"to {shape_text(p.shape)}"
        )
    if any(d < 0 for d in shape):
        raise MXNetError(
            "Check failed: mxnet::shape_is_known(pshape): the objective shape for broadcasting array must be known, got "
            f"{shape_text(p.shape)}"
        )
    return b.broadcast(array, shape)


@np_function("broadcast_to")
def broadcast_to_of(F: Any, array: Any, shape: Any) -> Any:
    """Repeated along new axes, and along those of extent 1, up to a shape."""
    if np.isscalar(array):
        return F.function("full")(shape, array)
    return F.invoke("_npi_broadcast_to", (array,), {"shape": shape})


@np_function("broadcast_arrays")
def broadcast_arrays(F: Any, *args: Any) -> list[Any]:
    """The arrays and numbers, each broadcast to the shape of all."""
    shapes = [() if np.isscalar(array) else array.shape for array in args]
    shape: tuple[int, ...] = ()
    for theirs in shapes:
        try:
            shape = np.broadcast_shapes(shape, theirs)
        except ValueError:
            raise ValueError(f"shape1={shape} is not broadcastable to shape2={theirs}") from None
    broadcast_to = F.function("broadcast_to")
    return [
        array if theirs == shape and F.is_array(array) else broadcast_to(array, shape)
        for array, theirs in zip(args, shapes, strict=True)
    ]


# -- order of elements


@operator(
    "_npi_flip",
    params={"axis": Shape(doc="axes to reverse; None for all", optional=True)},
    samples=(
        sample([(3, 5)], {"axis": 1}),
        sample([(2, 3, 4)], {"axis": (0, 2)}),
        sample([(2, 3)], {"axis": None}),
        sample([()], {"axis": None}),
        sample([(0, 3)], {"axis": 1}),
    ),
)
def flip(b: Builder, p: Values, data: Node) -> Node:
    """Reverse the order along axes."""
    axes = range(data.ndim) if p.axis is None else sorted({np_axis(k, data.ndim) for k in p.axis})
    return b.reverse(data, axes=tuple(axes)) if axes else b.copy(data)


@np_function("flip")
def flip_of(F: Any, m: Any, axis: Any = None, out: Any = None) -> Any:
    """The order of elements reversed along axes, all of them by default."""
    if isinstance(m, numeric_types):
        return np.flip(m, axis)
    if not isinstance(m, F.array):
        raise TypeError(f"type {type(m)} not supported")
    return F.invoke("_npi_flip", (m,), {"axis": axis}, out)


@np_function("flipud")
def flipud(F: Any, m: Any) -> Any:
    """Rows in reverse order."""
    return flip_of(F, m, 0)


@np_function("fliplr")
def fliplr(F: Any, m: Any) -> Any:
    """Columns in reverse order."""
    return flip_of(F, m, 1)


@operator(
    "_np_roll",
    params={
        "shift": Shape(None, "by how much, one for all axes or one an axis", optional=True),
        "axis": Shape(None, "axes; None for the flattened array", optional=True),
    },
    same_shape=True,
    samples=(
        sample([(3, 5)], {"shift": 2}),
        sample([(3, 5)], {"shift": (1, -7), "axis": (0, 1)}),
        sample([(3, 5)], {"shift": 1, "axis": (0, 1)}),
        sample([()], {"shift": 1}),
        sample([(0, 3)], {"shift": 1}),
    ),
)
def roll(b: Builder, p: Values, data: Node) -> Node:
    """Elements shifted along axes; what leaves at one end comes in at the other."""
    if p.shift is None:
        raise MXNetError("Check failed: param.shift.has_value(): roll needs a shift")
    if p.axis is None:
        if len(p.shift) != 1:
            raise MXNetError("shift must be an int.")
        flat = b.reshape(data, (data.size,))
        return b.reshape(_rolled(b, flat, 0, p.shift[0]), data.shape)
    shifts = p.shift * len(p.axis) if len(p.shift) == 1 else p.shift
    if len(shifts) != len(p.axis):
        raise MXNetError("shift and `axis` must be a tuple of the same size.")
    for axis in p.axis:
        if not -data.ndim <= axis < data.ndim:
            raise MXNetError(
                f"Check failed: axes[axes.ndim() - 1] < ndim ({axis} vs. {data.ndim}) : axis {axis} Exceeds input "
                f"dimensions {shape_text(data.shape)}"
            )
    y = data
    for axis, shift in zip(p.axis, shifts, strict=True):
        y = _rolled(b, y, axis % data.ndim, shift)
    return b.copy(y) if y is data else y


def _rolled(b: Builder, x: Node, axis: int, shift: int) -> Node:
    extent = x.shape[axis]
    at = -shift % extent if extent else 0
    if not at:
        return b.copy(x)
    return b.concat([b.slice_axis(x, axis, at, extent), b.slice_axis(x, axis, 0, at)], axis)


@np_function("roll")
def roll_of(
    F: Any, a: Any, shift: Any, axis: Any = None, out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Elements shifted along axes, or of the flattened array."""
    return F.invoke("_np_roll", (a,), {**given(axis=axis), "shift": shift, **kwargs}, out, name)


@operator(
    "_npi_rot90",
    params={
        "k": Int(1, "how many quarter turns"),
        "axes": Shape(None, "the plane, from the first towards the second", optional=True),
    },
    samples=(
        *(sample([(2, 3)], {"k": k, "axes": (0, 1)}) for k in (1, 2, 3, 4, -1)),
        sample([(2, 3, 4)], {"axes": (2, 0)}),
        sample([(0, 3)], {"axes": (0, 1)}),
    ),
)
def rot90(b: Builder, p: Values, data: Node) -> Node:
    """Turn by right angles in the plane of two axes."""
    given_axes = p.axes or (0, 1)
    if len(given_axes) != 2:
        raise MXNetError("Check failed: param.axes.value().ndim() == 2: The size of axes must be 2")
    for k in given_axes:
        if not -data.ndim <= k < data.ndim:
            raise MXNetError(f"Check failed: i >= 0 && i < ndim(): index = {k} must be in range [0, {data.ndim})")
    one, two = (k % data.ndim for k in given_axes)
    if one == two:
        raise MXNetError(
            f"Check failed: real_axes[0] != real_axes[1] ({one} vs. {two}) : axes have duplicates {shape_text(given_axes)}"
        )
    order = list(range(data.ndim))
    order[one], order[two] = two, one
    turns = p.k % 4
    if turns == 0:
        return b.copy(data)
    if turns == 2:
        return b.reverse(data, axes=tuple(sorted((one, two))))
    if turns == 1:
        return b.transpose(b.reverse(data, axes=(two,)), order)
    return b.reverse(b.transpose(data, order), axes=(two,))


@np_function("rot90")
def rot90_of(F: Any, m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Turned by right angles in the plane of two axes, from the first towards the second."""
    return F.invoke("_npi_rot90", (m,), {"k": k, "axes": axes})


# -- repetition


@np_function("tile")
def tile(F: Any, A: Any, reps: Any) -> Any:
    """The whole array repeated along its axes."""
    if isinstance(A, numeric_types):
        return np.tile(A, reps=reps)
    if not F.is_array(A):
        raise TypeError(f"type {type(A)} not supported")
    return F.invoke("_npi_tile", (A,), {"reps": reps})


@np_function("repeat")
def repeat(
    F: Any, a: Any, repeats: Any, axis: int | None = None, out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Each element several times, along an axis or of the flattened array."""
    return F.invoke("_np_repeat", (a,), {"repeats": repeats, **given(axis=axis), **kwargs}, out, name)


@np_function("copy")
def copy(F: Any, a: Any, out: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """The same values in an array of its own."""
    return F.invoke("_np_copy", (a,), kwargs or None, out, name)

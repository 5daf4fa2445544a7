# SPDX-License-Identifier: Apache-2.0
"""Shape operators: reshape, transpose, concat, repeat, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import i64
from ..util import is_np_shape
from .params import Bool, Int, Ints, Shape, Values
from .record import operator, sample, shape_text, tuple_text

__all__ = ["axis_of", "infer_reshape", "second_without_axis"]


def axis_of(axis: int, ndim: int, what: str = "axis") -> int:
    """``axis`` as a non-negative number.

    Raises:
        MXNetError: it is out of range.
    """
    if not -ndim <= axis < ndim:
        raise MXNetError(f"Check failed: {what} {axis} is out of bounds for an array of {ndim} dimensions")
    return axis % ndim


def second_without_axis(p: Values, shapes: list[Any]) -> list[Any]:
    """Shapes of two inputs of which the second, if unknown, is the first without ``p.axis``."""
    if len(shapes) != 2 or shapes[0] is None or shapes[1] is not None or p.axis is None:
        return shapes
    data = tuple(shapes[0])
    axis = axis_of(p.axis, len(data))
    return [data, data[:axis] + data[axis + 1 :]]


# -- reshape


def infer_reshape(shape: Sequence[int], target: Sequence[int], reverse: bool = False) -> tuple[int, ...]:
    """The shape that MXNet's codes 0, -1, -2, -3 and -4 describe.

    Raises:
        MXNetError: the codes do not fit the shape, or the sizes differ.
    """
    source = list(shape)[::-1] if reverse else list(shape)
    codes = list(target)
    if reverse:
        codes.reverse()
    out: list[int] = []
    at, k, unknown = 0, 0, -1

    def take() -> int:
        nonlocal at
        if at >= len(source):
            raise MXNetError(
                f"Check failed: shape {tuple(target)} has more codes than {shape_text(shape)} has dimensions"
            )
        at += 1
        return source[at - 1]

    while k < len(codes):
        code = codes[k]
        if code == 0:
            out.append(take())
        elif code == -1:
            if unknown >= 0:
                raise MXNetError("Check failed: at most one dimension can be -1")
            unknown = len(out)
            out.append(1)
            at += 1
        elif code == -2:
            out += source[at:]
            at = len(source)
        elif code == -3:
            out.append(take() * take())
        elif code == -4:
            whole = take()
            if k + 2 >= len(codes):
                raise MXNetError("Check failed: code -4 needs two numbers after it")
            first, second = codes[k + 1 : k + 3]
            if first == -1 and second == -1:
                raise MXNetError("Check failed: Split dims cannot both be -1.")
            first = whole // second if first == -1 else first
            second = whole // first if second == -1 else second
            if first * second != whole:
                raise MXNetError(f"Check failed: Split dims {first}, {second} do not divide original dim {whole}")
            out += [first, second]
            k += 2
        elif code > 0:
            out.append(code)
            at += 1
        else:
            raise MXNetError(f"Check failed: {code} is no reshape code")
        k += 1
    size = prod(shape)
    if unknown >= 0:
        rest = prod(out[:unknown] + out[unknown + 1 :])
        out[unknown] = size // rest if rest else 0
    if reverse:
        out.reverse()
    if prod(out) != size:
        raise MXNetError(
            f"Check failed: oshape.Size() == dshape.Size(): Target shape size is different to source. Target: {shape_text(out)} Source: {shape_text(shape)}"
        )
    return tuple(out)


@operator(
    "Reshape reshape",
    params={
        "shape": Shape((), "new extents; 0 copies, -1 infers, -2 copies the rest, -3 merges two, -4 splits one"),
        "reverse": Bool(False, "match the codes from the right"),
        "target_shape": Shape((), "old form of shape"),
        "keep_highest": Bool(False, "old form: keep the first extent"),
    },
    same_size=True,
    samples=(
        sample([(2, 3, 4)], {"shape": (0, -1)}),
        sample([(2, 3, 4)], {"shape": (-4, 1, 2, -2)}),
        sample([(10, 5, 4)], {"shape": (-1, 0), "reverse": True}),
        sample([(2, 3, 4)], {"shape": (-3, 0)}),
        sample([(1,)], {"shape": (1, 1)}),
        sample([(0, 3)], {"shape": (0, 0, 1)}),
    ),
)
def reshape(b: Builder, p: Values, data: Node) -> Node:
    """The same elements under another shape."""
    if p.shape:
        return b.reshape(data, infer_reshape(data.shape, p.shape, p.reverse))
    target = list(p.target_shape)
    if p.keep_highest and target:
        target[0] = data.shape[0]
    return b.reshape(data, infer_reshape(data.shape, [-1 if t == 0 else t for t in target]))


@operator(
    "reshape_like _npx_reshape_like",
    "lhs rhs",
    dtypes="**",
    params={k: Int(None) for k in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end")},
    method="reshape_like",
    no_gradient=("rhs",),
    samples=(
        sample([(2, 6), (3, 4)]),
        sample([(2, 12), (2, 3, 4)], {"lhs_begin": 1, "lhs_end": 2, "rhs_begin": 1, "rhs_end": 3}),
        sample([(0, 3), (3, 0)]),
    ),
)
def reshape_like(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
    """lhs with the shape of rhs, or with axes begin … end replaced by those of rhs."""

    def span(begin: int | None, end: int | None, ndim: int) -> tuple[int, int]:
        start = 0 if begin is None else begin + ndim if begin < 0 else begin
        stop = ndim if end is None else end + ndim if end < 0 else end
        return start, stop

    lb, le = span(p.lhs_begin, p.lhs_end, lhs.ndim)
    rb, re_ = span(p.rhs_begin, p.rhs_end, rhs.ndim)
    return b.reshape(lhs, _same_size(lhs, (*lhs.shape[:lb], *rhs.shape[rb:re_], *lhs.shape[le:])))


def _same_size(x: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    if prod(shape) != x.size:
        raise MXNetError(
            f"Cannot reshape array of shape {shape_text(x.shape)} to {shape_text(shape)}: the sizes differ"
        )
    return shape


@operator(
    "Flatten flatten _npx_batch_flatten",
    method="flatten",
    samples=(
        sample([(2, 3, 4)]),
        sample([(3,)]),
        sample([(0, 3, 2)]),
        sample([(1, 1)]),
    ),
)
def flatten(b: Builder, p: Values, data: Node) -> Node:
    """All axes but the first folded into one."""
    return b.reshape(data, (data.shape[0], prod(data.shape[1:])))


@operator(
    "expand_dims _npi_expand_dims",
    params={"axis": Int(doc="position of the new axis")},
    method="expand_dims",
    samples=(
        sample([(2, 3)], {"axis": 0}),
        sample([(2, 3)], {"axis": -1}),
        sample([(1,)], {"axis": 1}),
        sample([(0, 3)], {"axis": 1}),
    ),
)
def expand_dims(b: Builder, p: Values, data: Node) -> Node:
    """A new axis of extent 1."""
    if not -data.ndim - 1 <= p.axis <= data.ndim:
        raise MXNetError(f"Check failed: axis must be in the range [{-data.ndim}, {data.ndim}] ({p.axis} provided)")
    axis = p.axis % (data.ndim + 1)
    return b.reshape(data, (*data.shape[:axis], 1, *data.shape[axis:]))


@operator(
    "squeeze",
    params={"axis": Ints(None, "axes to drop; None for all of extent 1", optional=True)},
    method="squeeze",
    samples=(
        sample([(1, 2, 1, 3)]),
        sample([(1, 2, 1)], {"axis": 2}),
        sample([(1, 2, 1)], {"axis": (0, -1)}),
        sample([(1, 1)]),
        sample([(0, 1)], {"axis": 1}),
    ),
    named=True,
)
def squeeze(b: Builder, p: Values, data: Node) -> Node:
    """Drop axes of extent 1."""
    if p.axis is None:
        axes = [k for k, d in enumerate(data.shape) if d == 1]
    else:
        axes = [axis_of(a, data.ndim) for a in p.axis]
        for a in axes:
            if data.shape[a] != 1:
                raise MXNetError(
                    f"Check failed: cannot select an axis to squeeze out which has size={data.shape[a]} not equal to one"
                )
    shape = tuple(d for k, d in enumerate(data.shape) if k not in axes)
    return b.reshape(data, shape or (1,))


# -- order of axes and elements


@operator(
    "transpose",
    params={"axes": Shape((), "new order; () reverses")},
    method="transpose",
    samples=(
        sample([(3, 5)]),
        sample([(2, 3, 4)], {"axes": (1, 2, 0)}),
        sample([(3,)]),
        sample([(33, 65)]),
        sample([(0, 3)]),
    ),
)
def transpose(b: Builder, p: Values, data: Node) -> Node:
    """Permute the axes."""
    axes = [axis_of(a, data.ndim) for a in p.axes] or list(range(data.ndim))[::-1]
    if sorted(axes) != list(range(data.ndim)):
        raise MXNetError(f"Check failed: axes {p.axes} are no permutation of the {data.ndim} axes")
    return b.copy(data) if data.ndim < 2 else b.transpose(data, axes)


@operator(
    "SwapAxis swapaxes _npi_swapaxes",
    params={"dim1": Int(0, "first axis"), "dim2": Int(0, "second axis")},
    method="swapaxes",
    samples=(
        sample([(2, 3, 4)], {"dim1": 0, "dim2": 2}),
        sample([(3, 5)], {"dim1": 0, "dim2": -1}),
        sample([(1, 1)]),
        sample([(0, 3)], {"dim1": 0, "dim2": 1}),
    ),
    named=True,
    output_names=("output",),
)
def swapaxes(b: Builder, p: Values, data: Node) -> Node:
    """Exchange two axes."""
    axes = list(range(data.ndim))
    one, two = axis_of(p.dim1, data.ndim), axis_of(p.dim2, data.ndim)
    axes[one], axes[two] = axes[two], axes[one]
    return b.transpose(data, axes)


@operator(
    "reverse flip",
    params={"axis": Ints(doc="axes to reverse")},
    method="flip",
    samples=(
        sample([(3, 5)], {"axis": 1}),
        sample([(2, 3, 4)], {"axis": (0, 2)}),
        sample([(1,)], {"axis": 0}),
        sample([(0, 3)], {"axis": 1}),
    ),
    named=True,
)
def flip(b: Builder, p: Values, data: Node) -> Node:
    """Reverse the order along axes."""
    return b.reverse(data, axes=tuple(sorted(axis_of(a, data.ndim) for a in p.axis)))


# -- joining and repeating


@operator(
    "Concat concat",
    "*data",
    params={"num_args": Int(1, "Number of inputs to be concated.", low=1), "dim": Int(1, "axis to join along")},
    count_param="num_args",
    samples=(
        sample([(2, 3), (2, 1), (2, 4)]),
        sample([(2, 3), (1, 3)], {"dim": 0}),
        sample([(2, 3)]),
        sample([(2, 3, 2), (2, 3, 1)], {"dim": -1}),
        sample([(0, 3), (2, 3)], {"dim": 0}),
    ),
    output_names=("output",),
)
def concat(b: Builder, p: Values, *data: Node) -> Node:
    """Join along an axis (1 by default)."""
    axis = axis_of(p.dim, data[0].ndim)
    for k, x in enumerate(data):
        if x.ndim != data[0].ndim or any(
            j != axis and d != e for j, (d, e) in enumerate(zip(x.shape, data[0].shape, strict=False))
        ):
            expected = shape_text([-1 if j == axis else d for j, d in enumerate(data[0].shape)])
            raise MXNetError(
                f"Check failed: Incompatible input shape: expected {expected}, got {shape_text(x.shape)} (input {k})"
            )
    return b.copy(data[0]) if len(data) == 1 else b.concat(list(data), axis)


@operator(
    "stack",
    "*data",
    params={"axis": Int(0, "position of the new axis"), "num_args": Int(1, "Number of inputs to be stacked.", low=1)},
    same_shape=True,
    count_param="num_args",
    samples=(
        sample([(2, 3), (2, 3)]),
        sample([(2, 3)] * 3, {"axis": 1}),
        sample([(4,), (4,)], {"axis": -1}),
        sample([(1,)]),
        sample([(0, 3), (0, 3)]),
    ),
)
def stack(b: Builder, p: Values, *data: Node) -> Node:
    """Join along a new axis."""
    axis = axis_of(p.axis, data[0].ndim + 1)
    shape = (*data[0].shape[:axis], 1, *data[0].shape[axis:])
    return b.concat([b.reshape(x, shape) for x in data], axis)


@operator(
    "tile _npi_tile",
    params={"reps": Ints(doc="repetitions an axis")},
    method="tile",
    samples=(
        sample([(2, 3)], {"reps": (2, 2)}),
        sample([(3,)], {"reps": (2, 1, 2)}),
        sample([(2, 3)], {"reps": (2,)}),
        sample([(1,)], {"reps": (1,)}),
        sample([(0, 3)], {"reps": (2, 1)}),
    ),
    named=True,
)
def tile(b: Builder, p: Values, data: Node) -> Node:
    """The whole array repeated along its axes, as NumPy's tile."""
    if min(p.reps, default=0) < 0:
        raise MXNetError(f"Check failed: dim_size >= -1: reps must not be negative, got {shape_text(p.reps)}")
    if 0 in p.reps and not is_np_shape():
        raise MXNetError(
            f"Operator tile inferring shapes failed: reps {tuple_text(p.reps)} make an empty array.\n"
            "Empty arrays need NumPy shape semantics: with mx.np_shape()."
        )
    rank = max(len(p.reps), data.ndim)
    reps = (1,) * (rank - len(p.reps)) + p.reps
    shape = (1,) * (rank - data.ndim) + data.shape
    x = b.reshape(data, [e for d in shape for e in (1, d)])
    x = b.broadcast(x, [e for r, d in zip(reps, shape, strict=True) for e in (r, d)])
    return b.reshape(x, tuple(r * d for r, d in zip(reps, shape, strict=True)))


@operator(
    "repeat _np_repeat",
    params={"repeats": Int(doc="how often", low=0), "axis": Int(None, "the axis; None flattens")},
    method="repeat",
    samples=(
        sample([(2, 3)], {"repeats": 2}),
        sample([(2, 3)], {"repeats": 3, "axis": 1}),
        sample([(2, 3)], {"repeats": 2, "axis": -2}),
        sample([(1,)], {"repeats": 1}),
        sample([(0, 3)], {"repeats": 2, "axis": 1}),
    ),
    named=True,
)
def repeat(b: Builder, p: Values, data: Node) -> Node:
    """Every element repeated in place."""
    x = data
    if p.axis is None:
        x = b.reshape(x, (x.size,))
    axis = axis_of(p.axis or 0, x.ndim)
    shape = x.shape
    wide = b.broadcast(
        b.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :])), (*shape[: axis + 1], p.repeats, *shape[axis + 1 :])
    )
    return b.reshape(wide, (*shape[:axis], shape[axis] * p.repeats, *shape[axis + 1 :]))


# -- broadcasting


def broadcast_shape(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """``target`` with 0 standing for the input's extent.

    Raises:
        MXNetError: an extent other than 1 would have to grow.
    """
    if len(shape) != len(target):
        raise MXNetError(
            f"Check failed: ishape.ndim() == param.shape.ndim() ({len(shape)} vs. {len(target)}) : "
            f"Operand of shape {shape_text(shape)} cannot be broadcasted to {shape_text(target)}"
        )
    out = tuple(d if t == 0 else t for d, t in zip(shape, target, strict=True))
    if any(d not in (1, t) for d, t in zip(shape, out, strict=True)):
        raise MXNetError(
            f"Check failed: ishape[i] == oshape[i] || ishape[i] == 1: Array cannot be broadcasted from {shape_text(shape)} to {shape_text(target)}"
        )
    return out


@operator(
    "broadcast_to",
    params={"shape": Shape((), "new extents; 0 keeps one")},
    samples=(
        sample([(1, 3)], {"shape": (4, 3)}),
        sample([(2, 1, 3)], {"shape": (0, 5, 0)}),
        sample([(1,)], {"shape": (1,)}),
    ),
)
def broadcast_to(b: Builder, p: Values, data: Node) -> Node:
    """Repeat axes of extent 1 up to a shape."""
    return b.broadcast(data, broadcast_shape(data.shape, p.shape))


@operator(
    "broadcast_axis broadcast_axes",
    params={"axis": Shape((), "axes of extent 1"), "size": Shape((), "their new extents")},
    method="broadcast_axes",
    samples=(
        sample([(1, 3, 1)], {"axis": (0, 2), "size": (2, 4)}),
        sample([(2, 1)], {"axis": -1, "size": 3}),
        sample([(1,)], {"axis": 0, "size": 1}),
    ),
)
def broadcast_axis(b: Builder, p: Values, data: Node) -> Node:
    """Repeat single axes of extent 1."""
    if len(p.axis) != len(p.size):
        raise MXNetError(f"Check failed: axis {p.axis} and size {p.size} differ in length")
    shape = list(data.shape)
    for a, n in zip(p.axis, p.size, strict=True):
        axis = axis_of(a, data.ndim)
        if shape[axis] != 1:
            raise MXNetError(f"Check failed: axis {a} has extent {shape[axis]}; only extents of 1 can be broadcast")
        shape[axis] = n
    return b.broadcast(data, shape)


@operator(
    "broadcast_like",
    "lhs rhs",
    params={
        "lhs_axes": Shape(None, "axes of lhs", optional=True),
        "rhs_axes": Shape(None, "axes of rhs that give their extents", optional=True),
    },
    dtypes="**",
    method="broadcast_like",
    no_gradient=("rhs",),
    samples=(
        sample([(1, 3), (4, 3)]),
        sample([(2, 1), (5, 7)], {"lhs_axes": (1,), "rhs_axes": (-1,)}),
        sample([(1,), (1,)]),
    ),
)
def broadcast_like(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
    """lhs broadcast to the shape of rhs, or to single axes of it."""
    if p.lhs_axes is None or p.rhs_axes is None:
        return b.broadcast(lhs, broadcast_shape(lhs.shape, rhs.shape))
    if len(p.lhs_axes) != len(p.rhs_axes):
        raise MXNetError(
            "Check failed: rhs_axes.ndim() == lhs_axes.ndim(): Input_axis and other_axis size does not match"
        )
    if not p.lhs_axes:
        raise MXNetError(
            "Check failed: lhs_axes.ndim() > 0: Empty axes tuple is not allowed\nLeave both axes out to broadcast to the whole shape."
        )
    target = list(lhs.shape)
    for la, ra in zip(p.lhs_axes, p.rhs_axes, strict=True):
        target[axis_of(la, lhs.ndim)] = rhs.shape[axis_of(ra, rhs.ndim)]
    return b.broadcast(lhs, broadcast_shape(lhs.shape, tuple(target)))


# -- shapes as arrays


def _numbers(b: Builder, values: Sequence[int]) -> Node:
    parts = [b.full((1,), v, i64) for v in values]
    return b.concat(parts, 0) if parts else b.full((0,), 0, i64)


@operator(
    "shape_array _npx_shape_array",
    method="shape_array",
    differentiable=False,
    result_dtype=lambda p, d: i64,
    samples=(
        sample([(2, 3)]),
        sample([(1,)]),
        sample([(0, 3)]),
    ),
)
def shape_array(b: Builder, p: Values, data: Node) -> Node:
    """The shape as an int64 array."""
    return _numbers(b, data.shape)


@operator(
    "size_array",
    method="size_array",
    differentiable=False,
    result_dtype=lambda p, d: i64,
    samples=(
        sample([(2, 3)]),
        sample([(1,)]),
        sample([(0, 3)]),
    ),
)
def size_array(b: Builder, p: Values, data: Node) -> Node:
    """The number of elements as an int64 array."""
    return _numbers(b, [data.size])

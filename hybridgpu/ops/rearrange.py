# SPDX-License-Identifier: Apache-2.0
"""Operators that rearrange: padding, diagonals, blocks to depth, assignment to slices, ranges like an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import DType, bool_, f32, f64, i64, u8
from .elementwise import asked_cast
from .linalg import diagonal, matrix_of_diagonal
from .linear import need_float
from .params import Bool, Double, Enum, Float, Int, Ints, Param, Shape, Text, Values
from .precision import MIXED
from .record import operator, sample, shape_text
from .shape import axis_of
from .slicing import slice_bounds

__all__: list[str] = []


# -- padding


@operator(
    "Pad pad",
    params={
        "mode": Enum(doc="what to pad with", choices=("constant", "edge", "reflect")),
        "pad_width": Shape(doc="two numbers an axis, before and after; the first two axes take none"),
        "constant_value": Double(0.0, "of mode constant"),
    },
    method="pad",
    samples=(
        sample([(2, 2, 3, 4)], {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 0, 3), "constant_value": 1.5}),
        sample([(2, 2, 3, 4)], {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 0, 3)}),
        sample([(1, 2, 3, 4, 3)], {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 0, 3, 2, 0)}),
    ),
    named=True,
    output_names=("output",),
)
def pad(b: Builder, p: Values, data: Node) -> Node:
    """Surround the last axes of a 4-D or 5-D array with a constant, its edge, or its mirror image."""
    need_float(data)
    if data.ndim not in (4, 5):
        raise MXNetError("Current implementation only supports 4-D or 5-D input.")
    if any(p.pad_width[:4]):
        raise MXNetError("Current implementation expects padding on the first two axes to be zero.")
    if len(p.pad_width) != 2 * data.ndim:
        raise MXNetError("Input shape vs padding spec mismatch.")
    y = data
    for axis in range(2, data.ndim):
        low, high = p.pad_width[2 * axis : 2 * axis + 2]
        if p.mode == "reflect" and max(low, high) >= data.shape[axis]:
            raise MXNetError(
                "Current implementation of reflection padding only supports padding sizes smaller than the input size."
            )
        y = _padded(b, y, axis, low, high, p)
    return y


def _padded(b: Builder, x: Node, axis: int, low: int, high: int, p: Values) -> Node:
    extent = x.shape[axis]
    if low < 0 or high < 0:  # negative numbers cut
        if min(low, 0) + min(high, 0) + extent <= 0:
            raise MXNetError(f"Check failed: padding of ({low}, {high}) leaves nothing of an axis of {extent}")
        x = b.slice_axis(x, axis, max(-low, 0), extent - max(-high, 0))
        extent, low, high = x.shape[axis], max(low, 0), max(high, 0)
    if p.mode == "constant":
        sides = [tuple(n if k == axis else 0 for k in range(x.ndim)) for n in (low, high)]
        return b.pad(x, low=sides[0], high=sides[1], value=p.constant_value) if low or high else x
    parts = [x]
    if p.mode == "edge":
        if low:
            parts.insert(0, _repeated(b, b.slice_axis(x, axis, 0, 1), axis, low))
        if high:
            parts.append(_repeated(b, b.slice_axis(x, axis, extent - 1, extent), axis, high))
    else:
        if low:
            parts.insert(0, b.reverse(b.slice_axis(x, axis, 1, low + 1), axes=(axis,)))
        if high:
            parts.append(b.reverse(b.slice_axis(x, axis, extent - 1 - high, extent - 1), axes=(axis,)))
    return b.concat(parts, axis)


def _repeated(b: Builder, x: Node, axis: int, count: int) -> Node:
    return b.broadcast(x, tuple(count if k == axis else d for k, d in enumerate(x.shape)))


# -- diagonals, blocks


@operator(
    "diag",
    params={
        "k": Int(0, "which diagonal, above the main one if positive"),
        "axis1": Int(0, "rows, for more than one axis"),
        "axis2": Int(1, "columns"),
    },
    method="diag",
    samples=(
        sample([(4,)], {"k": -1}),
        sample([(3, 5)], {"k": 1}),
        sample([(2, 3, 4)], {"axis1": 2, "axis2": 0}),
    ),
    named=True,
)
def diag(b: Builder, p: Values, data: Node) -> Node:
    """The diagonal of two axes, as a new last axis; of a vector: the matrix with that diagonal."""
    if data.ndim == 1:
        return matrix_of_diagonal(b, data, p.k)
    if not data.ndim:
        raise MXNetError("Check failed: diag needs at least one axis")
    one, two = axis_of(p.axis1, data.ndim, "axis1"), axis_of(p.axis2, data.ndim, "axis2")
    if one == two:
        raise MXNetError(
            f"Check failed: x1 != x2 ({one} vs. {two}) : axis1 and axis2 cannot refer to the same axis {one}"
        )
    rest = [k for k in range(data.ndim) if k not in (one, two)]
    y = diagonal(b, b.transpose(data, [*rest, one, two]), p.k)
    if p.k > data.shape[two] or -p.k > data.shape[one]:
        raise MXNetError("Diagonal does not exist.")
    return y


def _block(p: Values, data: Node) -> int:
    if data.ndim != 4:
        raise MXNetError(
            f"Check failed: in_attrs->at(0).ndim() == 4 ({data.ndim} vs. 4) : Operation Depth To Space requires exactly 4D tensor"
        )
    if not data.size:
        raise MXNetError(f"Check failed: in_shape has an axis without elements: {shape_text(data.shape)}")
    if p.block_size < 1:
        raise MXNetError(
            f"Check failed: block != 0 ({p.block_size} vs. 0) : block_size must be a positive integer value"
        )
    return int(p.block_size)


_BLOCK: dict[str, Param] = {"block_size": Int(doc="extent of the blocks")}


@operator(
    "depth_to_space",
    params=dict(_BLOCK),
    method="depth_to_space",
    samples=(sample([(2, 8, 2, 3)], {"block_size": 2}),),
    named=True,
)
def depth_to_space(b: Builder, p: Values, data: Node) -> Node:
    """Channels laid out as blocks in the plane: (N, B*B*C, H, W) becomes (N, C, H*B, W*B)."""
    k = _block(p, data)
    n, c, h, w = data.shape
    if c % (k * k):
        raise MXNetError(
            f"Check failed: in_shape[1] % (block * block) == 0 ({c % (k * k)} vs. 0) : Cannot perform Depth To Space operation on the "
            "specified tensor. Dimension:1(depth dimension) should be a multiple of 'block^2'"
        )
    x = b.transpose(b.reshape(data, (n, k, k, c // (k * k), h, w)), (0, 3, 4, 1, 5, 2))
    return b.reshape(x, (n, c // (k * k), h * k, w * k))


@operator(
    "space_to_depth",
    params=dict(_BLOCK),
    method="space_to_depth",
    samples=(sample([(2, 2, 4, 6)], {"block_size": 2}),),
    named=True,
)
def space_to_depth(b: Builder, p: Values, data: Node) -> Node:
    """Blocks of the plane stacked as channels: (N, C, H*B, W*B) becomes (N, B*B*C, H, W)."""
    k = _block(p, data)
    n, c, h, w = data.shape
    for axis, what in ((2, "1st"), (3, "2nd")):
        if data.shape[axis] % k:
            raise MXNetError(
                f"Check failed: in_shape[{axis}] % block == 0 ({data.shape[axis] % k} vs. 0) : Cannot perform Depth To Space operation on "
                f"the specified tensor. Dimension:{axis}({what} Space dimension) should be a multiple of 'block' "
            )
    x = b.transpose(b.reshape(data, (n, c, h // k, k, w // k, k)), (0, 3, 5, 1, 2, 4))
    return b.reshape(x, (n, c * k * k, h // k, w // k))


# -- assignment to slices, as functions


_SLICE: dict[str, Param] = {
    "begin": Shape(doc="first positions, None for the start", holes=True),
    "end": Shape(doc="positions after the last, None for the end", holes=True),
    "step": Shape((), "steps; None or () for 1", holes=True),
}


def _parts(p: Values, x: Node) -> list[tuple[int, int, int]]:
    """(first, number, step) an axis."""
    if len(p.begin) > x.ndim or len(p.begin) != len(p.end):
        raise MXNetError(
            f"Check failed: slice begin {p.begin} and end {p.end} do not fit an array of {x.ndim} dimensions"
        )
    steps = p.step or (None,) * len(p.begin)
    parts = [slice_bounds(*t) for t in zip(p.begin, p.end, steps, x.shape, strict=False)]
    return parts + [(0, d, 1) for d in x.shape[len(parts) :]]


def _assigned(b: Builder, x: Node, parts: Sequence[tuple[int, int, int]], value: Node) -> Node:
    """``x`` with the elements of a slice taken from ``value``, of the slice's shape or a single element."""
    y, chosen = value, None
    if any(not count for _, count, _ in parts):
        return b.copy(x)
    whole = value.size != 1 or tuple(c for _, c, _ in parts) == value.shape
    for axis, (first, count, step) in enumerate(parts):
        extent = x.shape[axis]
        if step < 0:
            first, step = first + (count - 1) * step, -step
            y = b.reverse(y, axes=(axis,)) if whole else y
        if (first, count, step) == (0, extent, 1):
            continue
        line = b.iota((extent,), 0, i64)
        inside = b.logical_and(b.ge(line, first), b.le(line, first + (count - 1) * step))
        if step > 1:
            inside = b.logical_and(inside, b.eq(b.mod(line - first, step), 0))
        shape = tuple(extent if k == axis else 1 for k in range(x.ndim))
        inside = b.broadcast(b.reshape(inside, shape), x.shape)
        chosen = inside if chosen is None else b.logical_and(chosen, inside)
        if whole:
            # element k of the value goes to first + k * step: the positions in between repeat a neighbour
            at = b.max(b.min(b.cast(line - first, i64) / step, count - 1), 0)
            y = b.take(y, at, axis=axis)
    y = b.broadcast(y if whole else b.reshape(y, (1,) * x.ndim), x.shape)
    return y if chosen is None else b.select(chosen, y, x)


@operator(
    "_slice_assign _crop_assign _npi_slice_assign",
    "lhs rhs",
    params=dict(_SLICE),
    samples=(
        sample([(4, 5), (2, 3)], {"begin": (1, None), "end": (3, None), "step": (None, 2)}),
        sample([(4, 5), (4, 2)], {"begin": (None, 3), "end": (None, 0), "step": (1, -2)}),
        sample([(3,), (3,)], {"begin": (None,), "end": (None,)}),
    ),
)
def slice_assign(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
    """lhs with a slice of it replaced by rhs."""
    parts = _parts(p, lhs)
    shape = tuple(count for _, count, _ in parts)
    if rhs.shape != shape:
        raise MXNetError(f"Shape inconsistent, Provided = {shape_text(rhs.shape)}, inferred shape={shape_text(shape)}")
    return b.copy(_assigned(b, lhs, parts, rhs))


@operator(
    "_slice_assign_scalar _crop_assign_scalar _npi_slice_assign_scalar",
    params={"scalar": Double(0.0, "the value"), **_SLICE},
    samples=(
        sample([(4, 5)], {"scalar": 2, "begin": (1, None), "end": (3, None), "step": (None, 2)}),
        sample([(4, 5)], {"scalar": 1, "begin": (None,), "end": (None,)}),
    ),
)
def slice_assign_scalar(b: Builder, p: Values, data: Node) -> Node:
    """data with a slice of it replaced by one number."""
    return b.copy(_assigned(b, data, _parts(p, data), b.full((1,), p.scalar, data.dtype)))


# -- arrays like another


@operator(
    "_contrib_arange_like _npx_arange_like",
    params={
        "start": Double(0.0, "first value"),
        "step": Double(1.0, "distance"),
        "repeat": Int(1, "how often each value comes", low=1),
        "ctx": Text("", "accepted; the result lies where data does"),
        "axis": Int(None, "count along this axis only; None for all elements"),
    },
    differentiable=False,
    samples=(
        sample([(3, 4)]),
        sample([(3, 4)], {"axis": -1, "start": 2, "step": 2}),
        sample([(5, 2)], {"repeat": 3}),
    ),
)
def arange_like(b: Builder, p: Values, data: Node) -> Node:
    """Values at equal distances, as many as the array (or one axis of it) has elements."""
    shape = data.shape if p.axis is None else (data.shape[axis_of(p.axis, data.ndim)],)
    count = 1
    for d in shape:
        count *= d
    line = b.iota((count,), 0, i64)
    line = line / p.repeat if p.repeat > 1 else line
    start, step = (p.start, p.step) if data.dtype.is_float else (int(p.start), int(p.step))
    return b.reshape(b.cast(b.cast(line, f64) * step + start, data.dtype), shape)


@operator(
    "_contrib_index_array",
    params={"axes": Ints(None, "which indices, in this order; None for all", optional=True)},
    samples=(
        sample([(3, 4)]),
        sample([(2, 3, 4)], {"axes": (2, 0)}),
    ),
    named=True,
    output_names=("output",),
)
def index_array(b: Builder, p: Values, data: Node) -> Node:
    """The index of every element, as a new last axis of int64."""
    axes = range(data.ndim) if p.axes is None else [axis_of(a, data.ndim) for a in p.axes]
    if not axes:
        return b.full((*data.shape, 0), 0, i64)
    return b.concat([b.iota((*data.shape, 1), a, i64) for a in axes], data.ndim)


@operator(
    "_contrib_allclose",
    "a b",
    params={
        "rtol": Float(1e-5, "relative tolerance"),
        "atol": Float(1e-8, "absolute tolerance"),
        "equal_nan": Bool(True, "NaN is close to NaN"),
    },
    differentiable=False,
    result_dtype=lambda p, d: u8,
    samples=(
        sample([(3, 4), (3, 4)]),
        sample([(3, 4), (3, 4)], {"rtol": 10, "atol": 10}),
    ),
)
def allclose(b: Builder, p: Values, x: Node, y: Node) -> Node:
    """1 if everywhere |a - b| <= atol + rtol * |b|, else 0: uint8 of shape ()."""
    if x.shape != y.shape:
        raise MXNetError(
            f"Incompatible attr in node  at 1-th input: expected {shape_text(x.shape)}, got {shape_text(y.shape)}"
        )
    left, right = b.cast(x, f64), b.cast(y, f64)
    close = b.le(b.abs(left - right), b.abs(right) * p.rtol + p.atol)
    finite = b.logical_and(b.isfinite(left), b.isfinite(right))
    close = b.logical_or(b.logical_and(finite, close), b.eq(left, right))
    if p.equal_nan:
        close = b.logical_or(close, b.logical_and(b.isnan(left), b.isnan(right)))
    flags = b.cast(close, u8)
    return b.reduce("amin", flags, tuple(range(x.ndim))) if x.ndim else flags


def _like_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    shape = shapes[0] or shapes[1]
    return [shapes[0] or shape, shapes[1] or shape]


@operator(
    "_identity_with_attr_like_rhs",
    "lhs rhs",
    infer_inputs=_like_shapes,
    infer_from_results=lambda p, shapes, results: [results[0], results[0]],
    no_gradient=("rhs",),
    samples=(sample([(3, 4), (3, 4)]),),
)
def identity_like(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
    """lhs, whose shape and type are those of rhs."""
    return b.copy(lhs)


@operator(
    "khatri_rao",
    "*args",
    params={"num_args": Int(1, "Number of input matrices.", low=1)},
    count_param="num_args",
    samples=(sample([(2, 3), (4, 3), (1, 3)], {"num_args": 3}),),
)
def khatri_rao(b: Builder, p: Values, *args: Node) -> Node:
    """Column by column Kronecker product of matrices."""
    y = args[0]
    for x in args:
        if x.ndim != 2 or x.shape[1] != y.shape[1]:
            raise MXNetError(
                "Check failed: (num_columns) == (static_cast<int>(attr_shape[1])): khatri_rao needs matrices with one number "
                f"of columns, not {shape_text(y.shape)} and {shape_text(x.shape)}"
            )
    for x in args[1:]:
        m, n, columns = y.shape[0], x.shape[0], x.shape[1]
        y = b.reshape(b.reshape(y, (m, 1, columns)) * b.reshape(x, (1, n, columns)), (m * n, columns))
    return b.copy(y) if len(args) == 1 else y


@operator(
    "cast_storage",
    params={"stype": Enum(doc="storage type", choices=("csr", "default", "row_sparse"))},
    samples=(sample([(3, 4)], {"stype": "default"}),),
)
def cast_storage(b: Builder, p: Values, data: Node) -> Node:
    """A copy; all arrays here are dense."""
    if p.stype != "default":
        raise MXNetError(f"cast_storage to {p.stype}: there are only dense arrays\nUse stype='default'.")
    return b.copy(data)


# -- gradients of their own


@gradient_rule("straight_through", exact=False)
def _straight_through(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> list[Node | None]:
    return [g]


@operator("_contrib_round_ste", same_shape=True)
def round_ste(b: Builder, p: Values, data: Node) -> Node:
    """round, with the gradient of identity."""
    y = b.round_away(data) if data.dtype.is_float else b.copy(data)
    return b.custom_gradient(y, data, rule="straight_through")


@operator("_contrib_sign_ste", same_shape=True)
def sign_ste(b: Builder, p: Values, data: Node) -> Node:
    """sign, with the gradient of identity."""
    if data.dtype is bool_:
        raise MXNetError("Unknown type enum 7")
    return b.custom_gradient(b.sign(data), data, rule="straight_through")


@gradient_rule("multiplied", exact=False)
def _multiplied(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> list[Node | None]:
    return [g * static[0]]


@operator(
    "_contrib_gradientmultiplier",
    same_shape=True,
    params={"scalar": Double(1.0, "factor of the gradient"), "is_int": Bool(True, "written by newer versions")},
)
def gradient_multiplier(b: Builder, p: Values, data: Node) -> Node:
    """Identity whose gradient is multiplied by a number."""
    return b.custom_gradient(b.copy(data), data, rule="multiplied", static=(p.scalar,))


def _multicast_dtype(dtypes: Sequence[DType | None], narrow: bool) -> DType | None:
    """The common type of those inputs that automatic mixed precision casts, None if there are none."""
    mixed = {d for d in dtypes if d in MIXED}
    if narrow and (halves := mixed - {f32}):
        return next(d for d in dtypes if d in halves)
    return f32 if len(mixed) > 1 else next(iter(mixed), None)  # of float16 and bfloat16 neither holds the other


@operator(
    "amp_multicast",
    "*data",
    params={
        "num_outputs": Int(doc="number of arrays"),
        "cast_narrow": Bool(False, "to the narrowest type instead of the widest"),
    },
    dtypes="*",
    outputs=lambda p: p.num_outputs,
    result_dtype=lambda p, d: tuple(_multicast_dtype(d, p.cast_narrow) if x in MIXED else x for x in d),
    infer_from_results=lambda p, shapes, results: [r if s is None else s for s, r in zip(shapes, results, strict=True)],
    samples=(sample([(3, 4), (2,), (5,)], {"num_outputs": 3}),),
)
def amp_multicast(b: Builder, p: Values, *data: Node) -> list[Node]:
    """All inputs of float32, float16 and bfloat16 in the widest (or narrowest) of their types; others stay."""
    if len(data) != p.num_outputs:
        raise MXNetError(f"Check failed: amp_multicast: num_outputs={p.num_outputs} for {len(data)} inputs")
    target = _multicast_dtype([x.dtype for x in data], p.cast_narrow)
    return [b.copy(x) if target is None or x.dtype not in MIXED else asked_cast(b, x, target) for x in data]

# SPDX-License-Identifier: Apache-2.0
"""Slicing operators: boxes, slices of an axis, splits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from .params import Bool, Int, Ints, Position, Shape, Values
from .record import operator, sample, shape_text
from .shape import axis_of

__all__ = ["slice_bounds"]


def slice_bounds(begin: int | None, end: int | None, step: int | None, extent: int) -> tuple[int, int, int]:
    """Python's slice as (first, number, step); bounds beyond the axis are cut as Python cuts them."""
    span = range(*slice(begin, end, step).indices(extent))
    return (span.start if span else 0), len(span), span.step


def take_slice(b: Builder, x: Node, parts: Sequence[tuple[int, int, int]]) -> Node:
    """(first, number, step) an axis; negative steps walk backwards."""
    begin, end, step, backwards = [], [], [], []
    for axis, (first, count, stride) in enumerate(parts):
        low = first if stride > 0 else first + (count - 1) * stride
        if count == 0:
            low = 0
        begin.append(low)
        end.append(low + (count - 1) * abs(stride) + 1 if count else low)
        step.append(abs(stride))
        if stride < 0 and count > 1:
            backwards.append(axis)
    y = b.slice(x, begin, end, step)
    return b.reverse(y, axes=tuple(backwards)) if backwards else y


@operator(
    "slice crop _npx_slice _npi_slice",
    params={
        "begin": Shape(doc="first positions, None for the start", holes=True),
        "end": Shape(doc="positions after the last, None for the end", holes=True),
        "step": Shape((), "steps; None or () for 1", optional=True, holes=True),
    },
    method="slice",
    samples=(
        sample([(4, 5)], {"begin": (1, 0), "end": (3, 4)}),
        sample([(4, 5)], {"begin": (None, -1), "end": (None, None), "step": (2, -2)}),
        sample([(4, 5, 2)], {"begin": (-3,), "end": (None,)}),
        sample([(4, 5)], {"begin": (1, 0), "end": (3, 4), "step": None}),
        sample([(1,)], {"begin": (0,), "end": (1,)}),
        sample([(0, 3)], {"begin": (None, 1), "end": (None, 3)}),
    ),
)
def slice_(b: Builder, p: Values, data: Node) -> Node:
    """A box of the array, as Python slices of the leading axes."""
    if len(p.begin) > data.ndim or len(p.begin) != len(p.end):
        raise MXNetError(
            f"Check failed: slice begin {p.begin} and end {p.end} do not fit an array of {data.ndim} dimensions"
        )
    steps = p.step or (None,) * len(p.begin)
    if 0 in steps:
        raise MXNetError(f"Check failed: s != 0 (0 vs. 0) : slice op step[{steps.index(0)}] cannot be 0")
    parts = [slice_bounds(*t) for t in zip(p.begin, p.end, steps, data.shape, strict=False)]
    parts += [(0, d, 1) for d in data.shape[len(parts) :]]
    return take_slice(b, data, parts)


@operator(
    "slice_axis",
    params={
        "axis": Int(doc="the axis"),
        "begin": Position(doc="first position"),
        "end": Position(doc="position after the last", optional=True),
    },
    method="slice_axis",
    unknown_axes=lambda p, ndim: [axis_of(p.axis, ndim)],
    samples=(
        sample([(4, 5)], {"axis": 1, "begin": 1, "end": 3}),
        sample([(4, 5)], {"axis": -2, "begin": -2, "end": None}),
        sample([(1,)], {"axis": 0, "begin": 0, "end": 1}),
        sample([(0, 3)], {"axis": 1, "begin": 0, "end": 2}),
    ),
)
def slice_axis(b: Builder, p: Values, data: Node) -> Node:
    """A slice of one axis."""
    axis = axis_of(p.axis, data.ndim)
    extent = data.shape[axis]
    begin = p.begin + extent if p.begin < 0 else p.begin
    end = extent if p.end is None else p.end + extent if p.end < 0 else p.end
    if not 0 <= begin < end <= extent:
        raise MXNetError(f"Check failed: Invalid begin, end, get begin={p.begin}, end={p.end} for an axis of {extent}")
    parts = [(begin, end - begin, 1) if k == axis else (0, d, 1) for k, d in enumerate(data.shape)]
    return take_slice(b, data, parts)


@operator(
    "slice_like",
    "data shape_like",
    params={"axes": Ints((), "axes to cut; () for all")},
    dtypes="**",
    method="slice_like",
    samples=(
        sample([(4, 5), (2, 3)]),
        sample([(4, 5), (3, 9)], {"axes": (0,)}),
        sample([(1,), (1,)]),
        sample([(3, 4), (0, 2)]),
    ),
)
def slice_like(b: Builder, p: Values, data: Node, shape_like: Node) -> Node:
    """The start of every axis, as long as the other array's."""
    axes = [axis_of(a, data.ndim) for a in p.axes] or list(range(data.ndim))
    if not p.axes and data.ndim != shape_like.ndim:
        raise MXNetError(f"Check failed: slice_like needs equal numbers of axes, got {data.ndim} and {shape_like.ndim}")
    end = list(data.shape)
    for a in axes:
        if shape_like.shape[a] > data.shape[a]:
            raise MXNetError(
                f"Check failed: Slice axis: {a} exceeds the extent {data.shape[a]} of the first input with {shape_like.shape[a]}"
            )
        end[a] = shape_like.shape[a]
    return b.slice(data, (0,) * data.ndim, end)


def _split_parts(p: Values) -> int:
    return int(p.num_outputs)


@operator(
    "SliceChannel split",
    params={
        "num_outputs": Int(doc="number of parts", low=1),
        "axis": Int(1, "the axis to cut"),
        "squeeze_axis": Bool(False, "drop the axis (parts must have extent 1)"),
    },
    outputs=_split_parts,
    output_names="output{}".format,  # one part has a number, too
    method="split",
    samples=(
        sample([(2, 6)], {"num_outputs": 3}),
        sample([(4, 2, 3)], {"num_outputs": 4, "axis": 0, "squeeze_axis": True}),
        sample([(2, 3)], {"num_outputs": 1}),
        sample([(0, 4)], {"num_outputs": 2}),
    ),
    named=True,
)
def split(b: Builder, p: Values, data: Node) -> list[Node]:
    """Equal parts along an axis."""
    axis = axis_of(p.axis, data.ndim)
    extent, n = data.shape[axis], p.num_outputs
    if extent % n:
        raise MXNetError(
            f"Check failed: dshape[real_axis] % param_.num_outputs == 0U ({extent % n} vs. 0) : You are trying to split the {axis}-th axis "
            f"of input tensor with shape {shape_text(data.shape)} into num_outputs={n} evenly sized chunks, but this is not possible because {n} does not evenly divide {extent}"
        )
    return cut(b, data, axis, [k * (extent // n) for k in range(n + 1)], p.squeeze_axis)


def cut_positions(indices: Sequence[int], sections: int, extent: int) -> list[int]:
    """Where an axis is cut, both ends included; of unequal parts the first ones are longer by one.

    Raises:
        MXNetError: a position behind the end.
    """
    if sections:
        short, longer = divmod(extent, sections)
        return [k * short + min(k, longer) for k in range(sections + 1)]
    if not extent:
        return [0] * (len(indices) + 1)
    for k, (start, end) in enumerate(pairwise(indices)):
        if start > end:
            raise MXNetError(
                f"Check failed: start <= end: start {start} is not less than end {end} for subarray {k}\n"
                "Positions of cuts must ascend."
            )
    for end in indices:
        if end > extent:
            raise MXNetError(
                f"Check failed: end <= ishape[real_axis]: end {end} is no less than the size of the axis {extent}"
            )
    return [*indices, extent]


def cut(b: Builder, data: Node, axis: int, at: Sequence[int], squeeze_axis: bool) -> list[Node]:
    """Pieces between consecutive positions of ``at``."""
    b.reserve(len(at))
    out = []
    for begin, end in pairwise(at):
        piece = b.slice_axis(data, axis, begin, end)
        if squeeze_axis:
            if end - begin != 1:
                raise MXNetError(f"Check failed: squeeze_axis needs parts of extent 1, got {end - begin}")
            piece = b.reshape(piece, (*data.shape[:axis], *data.shape[axis + 1 :]))
        out.append(piece)
    return out


@operator(
    "_split_v2 _npi_split",
    params={
        "indices": Shape((), "positions of the cuts, 0 first"),
        "axis": Int(1, "the axis to cut"),
        "squeeze_axis": Bool(False, "drop the axis"),
        "sections": Int(0, "number of equal parts, 0 to use indices"),
    },
    outputs=lambda p: p.sections or len(p.indices),
    samples=(
        sample([(4, 6)], {"indices": (0, 2, 5)}),
        sample([(4, 6)], {"axis": 0, "sections": 2}),
        sample([(3, 1)], {"axis": 0, "sections": 3, "squeeze_axis": True}),
        sample([(0, 4)], {"sections": 2}),
    ),
    named=True,
)
def split_v2(b: Builder, p: Values, data: Node) -> list[Node]:
    """Parts along an axis, as many as asked for or cut at positions."""
    axis = axis_of(p.axis, data.ndim)
    return cut(b, data, axis, cut_positions(p.indices, p.sections, data.shape[axis]), p.squeeze_axis)

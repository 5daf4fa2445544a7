# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose windows are bent by offsets that are data, and correlations of two images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import i64
from .conv import steps_of
from .linear import need_float
from .params import Bool, Enum, Int, Param, Shape, Unsigned, UnsignedLong, Values
from .precision import wide
from .record import operator, sample, shape_text, tuple_text
from .resize import need_4d

__all__: list[str] = []


def _counts(kind: type[Int]) -> dict[str, Param]:
    """Numbers of channels; their C type differs between the operators."""
    return {
        "num_filter": kind(doc="channels of the result", low=1),
        "num_group": kind(1, "groups of channels that do not see each other", low=1),
        "num_deformable_group": kind(1, "groups of channels with offsets of their own", low=1),
    }


_CONV: dict[str, Param] = {
    "kernel": Shape(doc="extents of the window: (h, w)"),
    "stride": Shape((), "step between windows; () means 1"),
    "dilate": Shape((), "step between the elements of a window; () means 1"),
    "pad": Shape((), "zeros added at both ends; () means 0"),
    **_counts(Int),
    "workspace": UnsignedLong(1024, "accepted"),
    "no_bias": Bool(False, "there is no bias"),
    "layout": Enum(None, "order of the axes", choices=("NCDHW", "NCHW", "NCW")),
}


def _inputs(*lead: str) -> Any:
    return lambda p: [*lead, "weight"] if p.no_bias else [*lead, "weight", "bias"]


def _shapes(lead: int) -> Any:
    """Weight and bias from data; the other leading inputs depend on strides and must be given."""

    def fill(p: Values, shapes: list[Any]) -> list[Any]:
        weight = shapes[lead]
        if shapes[0] is not None and len(p.kernel) == 2:
            weight = (p.num_filter, shapes[0][1] // p.num_group, *p.kernel)
        return [*shapes[:lead], weight, (p.num_filter,)][: len(shapes)]

    return fill


def _need(x: Node, expected: Sequence[int]) -> None:
    if x.shape != tuple(expected):
        raise MXNetError(f"Shape inconsistent, Provided = {shape_text(x.shape)}, inferred shape={tuple_text(expected)}")


def _taken(b: Builder, p: Values, data: Node, offset: Node, zeros_around: bool) -> Node:
    """The elements of every window, interpolated: (N, deformable groups, channels, window, rows * columns).

    Outside of the image lie zeros: beyond its edge elements, or ``zeros_around`` one step from them, to which
    interpolation leads.
    """
    data, offset = wide(b, data), wide(b, offset)
    n, channels, height, width = need_4d(data)
    need_4d(offset, "offset")
    if len(p.kernel) != 2 or min(p.kernel) < 1:
        raise MXNetError(
            f"Check failed: kernel {shape_text(p.kernel)}: deformable convolution of two axes needs (h, w)"
        )
    groups, window = p.num_deformable_group, prod(p.kernel)
    for what, count in (("group", p.num_group), ("deformable group", groups)):
        if channels % count:
            raise MXNetError(f"Check failed: dshape[1] % {count} == 0U : input num_filter must divide {what} size")
    if p.num_filter % p.num_group:
        raise MXNetError(
            "Check failed: param_.num_filter % param_.num_group == 0U : output num_filter must divide group size"
        )
    stride, dilate, pad = steps_of(p, "stride", 1), steps_of(p, "dilate", 1), steps_of(p, "pad", 0)
    extents = (height, width)
    out = [(extents[k] + 2 * pad[k] - dilate[k] * (p.kernel[k] - 1) - 1) // stride[k] + 1 for k in (0, 1)]
    if min(out) < 1:
        raise MXNetError("Check failed: ksize_y <= dshape[2] + 2 * param_.pad[0] : kernel size exceed input")
    _need(offset, (n, 2 * groups * window, *out))
    grid = (n, groups, 1, window, *out)
    moved = b.reshape(offset, (n, groups, window, 2, *out))
    places = []
    for k in (0, 1):
        step = b.iota((window,), 0, i64)
        step = step / p.kernel[1] if k == 0 else b.mod(step, p.kernel[1])
        step = b.reshape(b.cast(step, offset.dtype) * dilate[k] - pad[k], (1, 1, 1, window, 1, 1))
        start = b.iota((1, 1, 1, 1, *out), 4 + k, offset.dtype) * stride[k]
        at = b.reshape(b.slice_axis(moved, 3, k, k + 1), grid) + step + start
        size = extents[k]
        if zeros_around:
            live = b.logical_and(b.gt(at, -1), b.lt(at, size))
        else:
            live = b.logical_and(b.ge(at, 0), b.lt(at, size))
        at = b.select(live, at, b.full_like(at, 0))
        if not zeros_around:
            at = b.min(at, size - 1)
        before = b.floor(at)
        part = at - before
        places.append([(b.cast(before, i64), 1 - part, live), (b.cast(before, i64) + 1, part, live)])
    rows = b.reshape(data, (n, groups, channels // groups, height * width))
    flat = (n, groups, 1, window * prod(out))
    total = None
    for y, vertical, live_y in places[0]:
        for x, horizontal, live_x in places[1]:
            inside = b.logical_and(
                b.logical_and(b.ge(y, 0), b.lt(y, height)), b.logical_and(b.ge(x, 0), b.lt(x, width))
            )
            inside = b.logical_and(inside, b.logical_and(live_y, live_x))
            at = b.max(b.min(y, height - 1), 0) * width + b.max(b.min(x, width - 1), 0)
            at = b.broadcast(b.reshape(at, flat), (*rows.shape[:3], flat[3]))
            share = vertical * horizontal
            share = b.reshape(b.select(inside, share, b.full_like(share, 0)), flat)
            value = b.take_along(rows, at, axis=3) * share
            total = value if total is None else total + value
    assert total is not None
    return b.reshape(total, (*rows.shape[:3], window, prod(out)))


def _filtered(b: Builder, p: Values, taken: Node, out: Sequence[int], weight: Node, bias: Node | None) -> Node:
    n, groups, each, window, count = taken.shape
    channels = groups * each
    _need(weight, (p.num_filter, channels // p.num_group, *p.kernel))
    depth = channels // p.num_group * window
    columns = b.reshape(taken, (n, p.num_group, depth, count))
    filters = b.reshape(wide(b, weight), (1, p.num_group, p.num_filter // p.num_group, depth))
    y = b.dot(b.broadcast(filters, (n, *filters.shape[1:])), columns)
    y = b.cast(b.reshape(y, (n, p.num_filter, *out)), weight.dtype)
    if bias is not None:
        _need(bias, (p.num_filter,))
        y = y + b.reshape(bias, (1, p.num_filter, 1, 1))
    return y


@operator(
    "_contrib_DeformableConvolution",
    "data offset weight bias",
    params=dict(_CONV),
    optional=_inputs("data", "offset"),
    infer_inputs=_shapes(2),
    samples=(
        sample([(1, 2, 4, 5), (1, 8, 3, 4), (3, 2, 2, 2), (3,)], {"kernel": (2, 2), "num_filter": 3}),
        sample(
            [(2, 4, 5, 5), (2, 36, 3, 3), (2, 2, 3, 3)],
            {
                "kernel": (3, 3),
                "num_filter": 2,
                "stride": (2, 2),
                "pad": (1, 1),
                "num_group": 2,
                "num_deformable_group": 2,
                "no_bias": True,
            },
        ),
    ),
    output_names=("output",),
)
def deformable_convolution(
    b: Builder, p: Values, data: Node, offset: Node, weight: Node, bias: Node | None = None
) -> Node:
    """Convolution of (N, C, H, W) whose windows' elements are moved by offsets (N, 2 * groups * window, H', W').

    Of each element of a window an offset along y is followed by one along x. Values are interpolated;
    beyond the image's edge elements lie zeros.
    """
    need_float(data)
    return _filtered(b, p, _taken(b, p, data, offset, False), offset.shape[2:], weight, bias)


@operator(
    "_contrib_ModulatedDeformableConvolution",
    "data offset mask weight bias",
    params={
        **{k: v for k, v in _CONV.items() if k != "layout"},
        **_counts(Unsigned),
        "im2col_step": Unsigned(64, "accepted"),
        "layout": _CONV["layout"],
    },
    optional=_inputs("data", "offset", "mask"),
    infer_inputs=_shapes(3),
    samples=(
        sample([(1, 2, 4, 5), (1, 8, 3, 4), (1, 4, 3, 4), (3, 2, 2, 2), (3,)], {"kernel": (2, 2), "num_filter": 3}),
        sample(
            [(2, 4, 3, 3), (2, 36, 3, 3), (2, 18, 3, 3), (2, 4, 3, 3)],
            {"kernel": (3, 3), "num_filter": 2, "pad": (1, 1), "num_deformable_group": 2, "no_bias": True},
        ),
    ),
    output_names=("output",),
)
def modulated_deformable_convolution(
    b: Builder, p: Values, data: Node, offset: Node, mask: Node, weight: Node, bias: Node | None = None
) -> Node:
    """Deformable convolution whose windows' elements are multiplied by a mask (N, groups * window, H', W')."""
    need_float(data)
    taken = _taken(b, p, data, offset, True)
    n, groups, _, window, count = taken.shape
    _need(mask, (n, groups * window, *offset.shape[2:]))
    taken = taken * b.reshape(wide(b, mask), (n, groups, 1, window, count))
    return _filtered(b, p, taken, offset.shape[2:], weight, bias)


# -- correlation


@operator(
    "Correlation",
    "data1 data2",
    params={
        "kernel_size": Unsigned(1, "extent of the windows that are compared, odd", low=0),
        "max_displacement": Unsigned(1, "how far windows are moved", low=0),
        "stride1": Unsigned(1, "step between windows of the first image", low=1),
        "stride2": Unsigned(1, "step between displacements", low=1),
        "pad_size": Unsigned(0, "zeros added around both images", low=0),
        "is_multiply": Bool(True, "mean product; else mean absolute difference"),
    },
    outputs=1,
    kept=2,
    output_names=("output", "tmp1", "tmp2"),
    samples=(
        sample([(1, 2, 5, 6), (1, 2, 5, 6)], {"max_displacement": 1}),
        sample(
            [(2, 1, 5, 5), (2, 1, 5, 5)],
            {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "pad_size": 3, "is_multiply": False},
        ),
    ),
)
def correlation(b: Builder, p: Values, data1: Node, data2: Node) -> Node:
    """Compare windows of one image with windows of another, at every displacement in a square: one channel each."""
    need_float(data1)
    for x in (data1, data2):
        if x.ndim != 4:
            raise MXNetError(f"Check failed: dshape1.ndim() == 4U ({x.ndim} vs. 4) : data should be a 4D tensor")
    if data1.shape != data2.shape:
        raise MXNetError(f"Check failed: Correlation compares {shape_text(data1.shape)} with {shape_text(data2.shape)}")
    if p.kernel_size % 2 == 0:
        raise MXNetError("Check failed: param_.kernel_size % 2 != 0 (0 vs. 0) : kernel size should be odd number")
    border = p.max_displacement + (p.kernel_size - 1) // 2
    out = [-(-(d + 2 * p.pad_size - 2 * border) // p.stride1) for d in data1.shape[2:]]
    if min(out) < 1:
        raise MXNetError(
            "Check failed: top_width_ >= 1U : Correlation cannot be done with current settings."
            "Neighborhood and kernel don't fit in blob"
        )
    return b.correlation(
        data1,
        data2,
        out=tuple(out),
        kernel=p.kernel_size,
        reach=p.max_displacement,
        stride=p.stride1,
        step=p.stride2,
        pad=p.pad_size,
        multiply=p.is_multiply,
    )

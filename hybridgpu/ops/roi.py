# SPDX-License-Identifier: Apache-2.0
"""Region-of-interest operators: position-sensitive pooling, and rotated regions."""

from __future__ import annotations

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import f32, i32, i64
from .linear import need_float
from .params import Bool, Float, Int, Shape, Values
from .record import operator, sample
from .resize import need_4d

__all__: list[str] = []

_SCALE = Float(doc="from the coordinates of regions to those of the data, up to 1", within=(0, 1))


def _check(p: Values, data: Node, rois: Node, width: int) -> None:
    need_float(data)
    need_4d(data)
    if rois.ndim != 2 or rois.shape[1] != width:
        shown = rois.shape[1] if rois.ndim == 2 else rois.ndim
        raise MXNetError(
            f"Check failed: bshape[1] == {width}U ({shown} vs. {width}) : bbox should be a 2D tensor of shape [batch, {width}]"
        )
    if not 0 <= p.spatial_scale <= 1:
        raise MXNetError(f"value {p.spatial_scale:g} for Parameter spatial_scale exceed bound [0,1]")


@operator(
    "_contrib_PSROIPooling",
    "data rois",
    dtypes="T*",
    params={
        "spatial_scale": _SCALE,
        "output_dim": Int(doc="channels of the result", low=1),
        "pooled_size": Int(doc="bins of a region along each axis", low=1),
        "group_size": Int(0, "groups of bins along each axis with channels of their own; 0: every bin", low=0),
    },
    samples=(
        sample([(2, 8, 6, 7), (3, 5)], {"spatial_scale": 1.0, "output_dim": 2, "pooled_size": 2}, {1: (0, 5)}),
        sample(
            [(1, 8, 6, 6), (3, 5)],
            {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3, "group_size": 2},
            {1: (-1, 8)},
        ),
    ),
    output_names=("output",),
)
def psroi_pooling(b: Builder, p: Values, data: Node, rois: Node) -> Node:
    """Means over the bins of regions (batch index, x1, y1, x2, y2); each group of bins reads its own channels."""
    _check(p, data, rois, 5)
    size, group = p.pooled_size, p.group_size or p.pooled_size
    if data.shape[1] != p.output_dim * group * group:
        raise MXNetError(
            f"Check failed: {data.shape[1]} channels are not output_dim * group_size * group_size = "
            f"{p.output_dim * group * group}"
        )
    y = b.roi_align(data, rois, pooled=(size, size), scale=p.spatial_scale, whole=True)
    parts = b.reshape(y, (rois.shape[0], p.output_dim, group, group, size, size))
    # of each bin's channels, those of its group
    own = b.logical_and(
        *(
            b.eq(b.iota(parts.shape, k, i32), b.iota(parts.shape, k + 2, i32) * group / size)  # whole numbers
            for k in (2, 3)
        )
    )
    return b.sum(b.select(own, parts, b.full_like(parts, 0)), (2, 3))


@operator(
    "_contrib_RROIAlign",
    "data rois",
    dtypes="T*",
    params={
        "pooled_size": Shape(doc="bins of a region: height, width"),
        "spatial_scale": _SCALE,
        "sampling_ratio": Int(-1, "samples along each axis of a bin; not positive: as many as it has elements"),
    },
    samples=(
        sample([(2, 2, 6, 7), (3, 6)], {"pooled_size": (2, 3), "spatial_scale": 1.0, "sampling_ratio": 2}, {1: (0, 1)}),
        sample([(1, 2, 6, 7), (3, 6)], {"pooled_size": (2, 2), "spatial_scale": 0.5}, {1: (0, 6)}),
    ),
    output_names=("output",),
)
def rroi_align(b: Builder, p: Values, data: Node, rois: Node) -> Node:
    """Means of interpolated samples in the bins of turned regions (batch index, x, y, width, height, degrees).

    As in MXNet, asking for its gradient is an error.
    """
    _check(p, data, rois, 6)
    if len(p.pooled_size) != 2 or min(p.pooled_size) < 1:
        raise MXNetError(f"Check failed: pooled_size {p.pooled_size} must be two positive numbers")
    return b.roi_align_turned(data, rois, pooled=p.pooled_size, scale=p.spatial_scale, ratio=p.sampling_ratio)


def _spread(b: Builder, x: Node, axis: int, count: int) -> Node:
    """``count`` entries along an axis, each from where it lies relatively."""
    extent = x.shape[axis]
    return x if extent == count else b.take(x, b.iota((count,), 0, i64) * extent / count, axis=axis)


def _moved_inputs(p: Values) -> list[str]:
    return ["data", "rois"] if p.no_trans else ["data", "rois", "trans"]


@operator(
    "_contrib_DeformablePSROIPooling",
    "data rois trans",
    dtypes="T*T",
    params={
        "spatial_scale": _SCALE,
        "output_dim": Int(doc="channels of the result", low=1),
        "group_size": Int(doc="groups of bins along each axis with channels of their own", low=1),
        "pooled_size": Int(doc="bins of a region along each axis", low=1),
        "part_size": Int(0, "offsets of a region along each axis; 0: one a bin", low=0),
        "sample_per_part": Int(1, "samples along each axis of a bin", low=1),
        "trans_std": Float(0.0, "factor of the offsets, up to 1", within=(0, 1)),
        "no_trans": Bool(False, "there are no offsets"),
    },
    optional=_moved_inputs,
    kept=1,
    output_names=("output", "top_count"),
    samples=(
        sample(
            [(2, 8, 6, 7), (3, 5), (3, 4, 2, 2)],
            {
                "spatial_scale": 1.0,
                "output_dim": 2,
                "group_size": 2,
                "pooled_size": 2,
                "sample_per_part": 2,
                "trans_std": 0.1,
            },
            {1: (0, 5)},
        ),
        sample(
            [(1, 4, 6, 6), (3, 5)],
            {"spatial_scale": 0.5, "output_dim": 1, "group_size": 2, "pooled_size": 3, "no_trans": True},
            {1: (0, 8)},
        ),
    ),
)
def deformable_psroi_pooling(b: Builder, p: Values, data: Node, rois: Node, trans: Node | None = None) -> Node:
    """As PSROIPooling, of interpolated samples in bins that offsets (R, 2 * classes, parts, parts) move.

    An offset along x, in widths of the region, comes before one along y; each class has its own.
    """
    _check(p, data, rois, 5)
    channels, height, width = data.shape[1:]
    size, group, samples, kinds = p.pooled_size, p.group_size, p.sample_per_part, p.output_dim
    if channels != kinds * group * group:
        raise MXNetError(
            f"Check failed: {channels} channels are not output_dim * group_size * group_size = {kinds * group * group}"
        )
    wide = f32 if data.dtype.is_half else data.dtype
    x = b.cast(data, wide)
    count = rois.shape[0]
    shape = (count, kinds, size, size, samples, samples)
    corners = b.cast(b.stop_gradient(rois), wide)
    parts = [b.reshape(b.slice_axis(corners, 1, k, k + 1), (count, 1, 1, 1, 1, 1)) for k in range(5)]
    moves: list[Node | float] = [0.0, 0.0]
    if trans is not None:
        part = p.part_size or size
        classes = trans.shape[1] // 2
        if trans.shape != (count, 2 * classes, part, part) or not classes or kinds % classes:
            raise MXNetError(
                f"Check failed: offsets of shape {trans.shape} for {count} regions, {kinds} channels and {part} parts"
            )
        offsets = b.reshape(b.cast(trans, wide), (count, classes, 2, part, part)) * p.trans_std
        offsets = _spread(b, _spread(b, _spread(b, offsets, 3, size), 4, size), 1, kinds)
        for k in (0, 1):
            moves[k] = b.reshape(b.slice_axis(offsets, 2, k, k + 1), (count, kinds, size, size, 1, 1))
    at, live = [], None
    for k, extent in ((0, width), (1, height)):
        first, last = (
            b.select(b.lt(v, 0), -b.floor(0.5 - v), b.floor(v + 0.5))  # halves away from zero
            for v in (parts[1 + k], parts[3 + k])
        )
        start = first * p.spatial_scale - 0.5
        length = b.max((last + 1) * p.spatial_scale - 0.5 - start, 0.1)
        step = b.iota(shape, 3 - k, wide) + b.iota(shape, 5 - k, wide) * (1 / samples)
        place = step * (length / size) + start + length * moves[k]
        inside = b.logical_and(b.ge(place, -0.5), b.le(place, extent - 0.5))
        live = inside if live is None else b.logical_and(live, inside)
        at.append(b.max(b.min(place, extent - 1), 0))
    assert live is not None
    sample_ = b.max(b.min(b.cast(parts[0], i64), data.shape[0] - 1), 0)
    channel = b.iota(shape, 1, i64)
    for k in (2, 3):
        channel = channel * group + b.iota(shape, k, i64) * group / size
    plane = (sample_ * channels + channel) * (height * width)
    flat = b.reshape(x, (data.size,))
    total = None
    lows = [b.floor(v) for v in at]
    for down in (0, 1):
        for across in (0, 1):
            share, index = None, plane
            for k, high, stride, extent in ((0, across, 1, width), (1, down, width, height)):
                part_ = at[k] - lows[k]
                weight = part_ if high else 1 - part_
                share = weight if share is None else share * weight
                index = index + b.max(b.min(b.cast(lows[k], i64) + high, extent - 1), 0) * stride  # of NaN, too
            assert share is not None
            value = b.take(flat, index, axis=0) * share
            total = value if total is None else total + value
    assert total is not None
    taken = b.sum(b.select(live, total, b.full_like(total, 0)), (4, 5))
    number = b.max(b.sum(b.cast(live, wide), (4, 5)), 1)
    return b.cast(taken / number, data.dtype)

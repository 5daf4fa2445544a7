# SPDX-License-Identifier: Apache-2.0
"""Resizing images: by whole factors, by interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import DType, f32, i32, i64
from .linear import need_float
from .params import Bool, Enum, Float, Int, UnsignedLong, Values
from .record import operator, sample, shape_text, tuple_text

__all__ = ["need_4d"]


def need_4d(data: Node, name: str = "data") -> tuple[int, int, int, int]:
    """The extents of an array of images; MXNet's error for anything else."""
    if data.ndim != 4:
        raise MXNetError(
            f"Check failed: {name}.ndim() == 4U ({data.ndim} vs. 4) : input data should be 4D in batch-num_filter-y-x"
        )
    return data.shape  # type: ignore[return-value]


def _upsampling_inputs(p: Values) -> list[str]:
    return ["data", "weight"] if p.sample_type == "bilinear" else []


def _upsampling_kernel(scale: int) -> int:
    return 2 * scale - scale % 2


def _upsampling_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    if p.sample_type != "bilinear" or shapes[0] is None:
        return shapes
    k = _upsampling_kernel(p.scale)
    return [shapes[0], (shapes[0][1], 1, k, k)]


@operator(
    "UpSampling",
    "*data",
    params={
        "scale": Int(doc="factor by which the first input grows", low=1),
        "num_filter": Int(0, "channels, of the bilinear kind"),
        "sample_type": Enum(doc="how new elements come about", choices=("bilinear", "nearest")),
        "multi_input_mode": Enum("concat", "what becomes of several inputs", choices=("concat", "sum")),
        "num_args": Int(1, "number of inputs", low=1),
        "workspace": UnsignedLong(512, "accepted"),
    },
    count_param="num_args",
    optional=_upsampling_inputs,
    infer_inputs=_upsampling_shapes,
    initial={"weight": '["bilinear", {}]', "arg1": '["bilinear", {}]'},  # the second input, of whatever kind
    samples=(
        sample([(1, 2, 3, 4)], {"scale": 2, "sample_type": "nearest"}),
        sample([(1, 2, 3, 4), (1, 3, 6, 2)], {"scale": 4, "sample_type": "nearest"}),
        sample([(1, 2, 3, 4), (1, 2, 6, 8)], {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"}),
        sample([(1, 2, 3, 4), (2, 1, 4, 4)], {"scale": 2, "sample_type": "bilinear", "num_filter": 2}),
        sample([(1, 2, 3, 2), (2, 1, 5, 5)], {"scale": 3, "sample_type": "bilinear", "num_filter": 2}),
    ),
    output_names=("output",),
)
def upsampling(b: Builder, p: Values, *inputs: Node) -> Node:
    """Enlarge images by a whole factor: by repetition, or by a transposed convolution with a weight.

    Several inputs of the nearest kind are all brought to the size of the enlarged first one, then
    joined along the channels or added up.
    """
    _, _, h, w = need_4d(inputs[0])
    if p.sample_type == "bilinear":
        return _upsampled_by_weight(b, p, *inputs)
    height, width = h * p.scale, w * p.scale
    grown = []
    for x in inputs:
        _, _, y, z = need_4d(x)
        for what, whole, extent in (("height", height, y), ("width", width, z)):
            if extent == 0 or whole % extent:
                raise MXNetError(
                    f"Check failed: o{what[0]}%shape[{2 if what == 'height' else 3}] == 0U : "
                    f"input {what} of {extent}does not divide output {what} of {whole}"
                )
        parts = b.reshape(x, (*x.shape[:2], y, 1, z, 1))
        parts = b.broadcast(parts, (*x.shape[:2], y, height // y, z, width // z))
        grown.append(b.reshape(parts, (*x.shape[:2], height, width)))
    if p.multi_input_mode == "concat":
        return b.concat(grown, 1)
    total = grown[0]
    for x in grown[1:]:
        if x.shape != total.shape:
            raise MXNetError(
                "Check failed: Number of channels when mode==sum should be the same: "
                f"{shape_text(total.shape)} and {shape_text(x.shape)}"
            )
        total = total + x
    return total if len(grown) > 1 else b.copy(total)


def _upsampled_by_weight(b: Builder, p: Values, data: Node, weight: Node | None = None) -> Node:
    if weight is None:
        raise MXNetError("Check failed: in_data.size() == 2 (1 vs. 2) : [data, weight]")
    need_float(data)
    c, k = data.shape[1], _upsampling_kernel(p.scale)
    if p.num_filter != c:
        raise MXNetError(f"Check failed: num_filter == channels ({p.num_filter} vs. {c}) : give num_filter={c}")
    if weight.shape != (c, 1, k, k):
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(weight.shape)}, inferred shape={tuple_text((c, 1, k, k))}"
        )
    pad = k - 1 - p.scale // 2  # MXNet's deconvolution pads by ceil((scale - 1) / 2)
    return b.conv(
        data,
        b.reverse(weight, axes=(2, 3)),
        stride=(1, 1),
        low=(pad, pad),
        high=(pad, pad),
        dilate=(1, 1),
        base_dilate=(p.scale, p.scale),
        groups=c,
    )


_MODES = ("like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")


def _resized(p: Values, extent: int, size: int, scale: float | None, like: int | None) -> int:
    """The new extent of an axis."""
    if p.mode == "like":
        assert like is not None
        return like
    if p.mode == "size":
        return size if scale is None else int(scale * extent)
    if p.mode == "odd_scale":
        if scale is None:
            raise MXNetError(
                "Check failed: param.scale_height.has_value(): mode odd_scale needs scale_height and scale_width"
            )
        return int(extent * scale) if extent % 2 == 0 else int((extent - 1) * scale) + 1
    odd, up = "odd" in p.mode, p.mode.endswith("up")
    return extent if extent % 2 == odd else extent + (1 if up else -1)


@operator(
    "_contrib_BilinearResize2D",
    "data like",
    params={
        "height": Int(1, "of the result, without scale_height in mode size", low=1),
        "width": Int(1, "of the result, without scale_width in mode size", low=1),
        "scale_height": Float(None, "factor"),
        "scale_width": Float(None, "factor"),
        "mode": Enum("size", "how the size follows", choices=_MODES),
        "align_corners": Bool(True, "corner elements keep their places; else corners of pixels do"),
    },
    optional=lambda p: ["data", "like"] if p.mode == "like" else ["data"],
    samples=(
        sample([(1, 2, 4, 5)], {"height": 7, "width": 9}),
        sample([(2, 2, 5, 4)], {"height": 3, "width": 8, "align_corners": False}),
        sample([(1, 1, 5, 6)], {"mode": "odd_scale", "scale_height": 2.0, "scale_width": 0.5}),
        sample([(1, 1, 5, 6), (1, 3, 3, 8)], {"mode": "like"}),
        sample([(1, 1, 4, 5)], {"mode": "to_even_up"}),
        sample([(1, 2, 4, 4)], {"scale_height": 0.5, "scale_width": 0.5}),
        sample([(1, 2, 4, 4)]),
    ),
)
def bilinear_resize(b: Builder, p: Values, data: Node, like: Node | None = None) -> Node:
    """Resize images by linear interpolation along both axes."""
    need_float(data)
    _, _, h, w = need_4d(data)
    other = like.shape[2:] if like is not None else (None, None)
    height = _resized(p, h, p.height, p.scale_height, other[0])
    width = _resized(p, w, p.width, p.scale_width, other[1])
    if min(height, width, h, w) < 1:
        raise MXNetError(f"Check failed: cannot resize {shape_text(data.shape)} to {shape_text((height, width))}")
    x = b.cast(data, f32) if data.dtype.is_half else data
    for axis, extent in ((2, height), (3, width)):
        if x.shape[axis] != extent:
            x = _interpolated(b, x, axis, extent, p.align_corners)
    return b.cast(x, data.dtype) if x is not data else b.copy(data)


def _places(b: Builder, extent: int, size: int, corners: bool, dtype: DType) -> tuple[Node, Node]:
    """For each of ``size`` results along an axis of ``extent``: the element before it, and how far past that it lies.

    In whole numbers, so that both are exact.
    """
    i = b.iota((size,), 0, i64)
    if corners or size == 1:
        place, by = i * (extent - 1), max(size - 1, 1)
        if size == 1:
            place = place * 0
    else:
        place, by = b.max((i * 2 + 1) * extent - size, 0), 2 * size
    before = place / by
    return b.cast(before, i32), b.cast(place - before * by, dtype) / by


def _interpolated(b: Builder, x: Node, axis: int, size: int, corners: bool) -> Node:
    extent = x.shape[axis]
    before, part = _places(b, extent, size, corners, x.dtype)
    after = b.min(before + 1, extent - 1)
    part = b.reshape(part, (size, *(1,) * (x.ndim - axis - 1)))
    low, high = b.take(x, before, axis=axis), b.take(x, after, axis=axis)
    # the derivative as a matrix product: adding up where results came from would be far slower
    return b.custom_gradient(low + (high - low) * part, x, rule="interpolation", static=(axis, size, corners))


@gradient_rule("interpolation")
def _interpolation_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[int, int, bool]
) -> Sequence[Node]:
    axis, size, corners = static
    x = inputs[0]
    extent = x.shape[axis]
    before, part = _places(b, extent, size, corners, x.dtype)
    shape = (size, extent)
    at, here = b.iota(shape, 1, i32), b.broadcast(b.reshape(before, (size, 1)), shape)
    share = b.broadcast(b.reshape(part, (size, 1)), shape)
    zero = b.full(shape, 0, x.dtype)
    matrix = b.select(b.eq(at, here), 1 - share, zero)
    matrix = matrix + b.select(b.eq(at, b.min(here + 1, extent - 1)), share, zero)
    order = [k for k in range(x.ndim) if k != axis] + [axis]
    last = b.transpose(g, order)
    product = b.dot(b.reshape(last, (last.size // size, size)), matrix)
    back = b.reshape(product, (*last.shape[:-1], extent))
    return [b.transpose(back, [order.index(k) for k in range(x.ndim)])]

# SPDX-License-Identifier: Apache-2.0
"""Image operators: (height, width, channels) or batches of it; after ``to_tensor`` channels come first."""

from __future__ import annotations

import math
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.graph import broadcast_shapes
from ..core.dtypes import DType, f32, f64, i32, i64, u8
from .create import _uniform01
from .params import REQUIRED, Bool, Float, Floats, Int, Ints, Param, Values
from .record import operator, sample, shape_text

_GREY = (0.299, 0.587, 0.114)  # weights of red, green and blue in the luminance
_PICTURE = (sample([(5, 4, 3)]), sample([(2, 5, 4, 3)]))


def _need_image(data: Node) -> None:
    if data.ndim not in (3, 4):
        raise MXNetError(
            f"Check failed: an image has 3 axes (height, width, channels), a batch 4; got {shape_text(data.shape)}"
        )


def _work(b: Builder, x: Node) -> Node:
    """The picture in the type that it is computed in."""
    return x if x.dtype.size == 8 and x.dtype.is_float else b.cast(x, f32)


def _saturated(b: Builder, x: Node, dtype: DType) -> Node:
    """Back to the type of the picture: integers are clipped to their range."""
    if dtype.is_float:
        return b.cast(x, dtype)
    return b.cast(b.min(b.max(x, 0), 255), dtype)


@operator("_image_to_tensor _npx__image_to_tensor", samples=_PICTURE, result_dtype=lambda p, d: f32, named=True)
def to_tensor(b: Builder, p: Values, data: Node) -> Node:
    """Channels first, float32, divided by 255."""
    _need_image(data)
    x = b.cast(data, f32) / 255
    return b.transpose(x, (2, 0, 1) if data.ndim == 3 else (0, 3, 1, 2))


def _per_channel(b: Builder, values: tuple[float, ...], data: Node, axis: int) -> Node:
    channels = data.shape[axis]
    if len(values) not in (1, channels) and len(values) < channels:
        raise MXNetError(f"Check failed: {len(values)} values for {channels} channels")
    parts = [b.full((1,), values[k if len(values) > 1 else 0], data.dtype) for k in range(channels)]
    line = b.concat(parts, 0)
    return b.reshape(line, tuple(channels if k == axis else 1 for k in range(data.ndim)))


@operator(
    "_image_normalize _npx__image_normalize",
    params={
        "mean": Floats((0.0,), "of every channel, or one for all"),
        "std": Floats((1.0,), "of every channel, or one for all"),
    },
    same_shape=True,
    samples=(sample([(3, 4, 5)]), sample([(2, 3, 4, 5)], {"mean": (0.1, 0.2, 0.3), "std": (2.0, 3.0, 4.0)})),
    named=True,
)
def normalize(b: Builder, p: Values, data: Node) -> Node:
    """(x - mean) / std, channels first."""
    if data.ndim not in (3, 4) or not data.dtype.is_float:
        raise MXNetError(
            f"Check failed: normalize takes floating point tensors (channels, height, width), not {data.type!r}"
        )
    axis = data.ndim - 3
    return (data - _per_channel(b, p.mean, data, axis)) / _per_channel(b, p.std, data, axis)


def _flip(word: str, axis: int, doc: str, random: bool) -> None:
    def lower(b: Builder, p: Values, data: Node) -> Node:
        _need_image(data)
        flipped = b.reverse(data, axes=(data.ndim + axis,))
        if not random:
            return flipped
        heads = b.lt(_uniform01(b, (1,) * data.ndim), 0.5)
        return b.select(b.broadcast(heads, data.shape), flipped, data)

    operator(f"_image_{word} _npx__image_{word}", doc=doc, same_shape=True, samples=_PICTURE)(lower)


_flip("flip_left_right", -2, "Mirrored.", random=False)
_flip("flip_top_bottom", -3, "Upside down.", random=False)
_flip("random_flip_left_right", -2, "Mirrored in half of the calls.", random=True)
_flip("random_flip_top_bottom", -3, "Upside down in half of the calls.", random=True)


@operator(
    "_image_crop _npx__image_crop",
    params={
        "x": Int(REQUIRED, "left edge"),
        "y": Int(REQUIRED, "upper edge"),
        "width": Int(REQUIRED),
        "height": Int(REQUIRED),
    },
    samples=(sample([(5, 6, 3)], {"x": 1, "y": 2, "width": 3, "height": 2}),),
)
def crop(b: Builder, p: Values, data: Node) -> Node:
    """A rectangle of the picture."""
    _need_image(data)
    height, width = data.shape[-3], data.shape[-2]
    if p.x < 0 or p.y < 0 or p.width < 1 or p.height < 1 or p.x + p.width > width or p.y + p.height > height:
        raise MXNetError(
            f"Check failed: the crop x={p.x} y={p.y} width={p.width} height={p.height} does not lie in a picture of "
            f"{width}x{height}"
        )
    lead = data.ndim - 3
    begin = (*(0,) * lead, p.y, p.x, 0)
    end = (*data.shape[:lead], p.y + p.height, p.x + p.width, data.shape[-1])
    return b.slice(data, begin, end)


@operator(
    "_image_resize _npx__image_resize",
    params={
        "size": Ints((), "(width, height), or one number for both"),
        "keep_ratio": Bool(False, "one number is the shorter side's new length"),
        "interp": Int(1, "0: nearest, 1: bilinear, 2: bicubic, 3: area, 4: Lanczos"),
    },
    samples=(
        sample([(5, 6, 3)], {"size": (3, 4)}),
        sample([(2, 5, 6, 3)], {"size": 10, "keep_ratio": True, "interp": 0}),
        sample([(5, 6, 3)], {"size": (8, 3), "interp": 2}),
        sample([(5, 6, 3)], {"size": (4, 3), "interp": 3}),
        sample([(40, 2, 3)], {"size": (2, 2), "interp": 3}),
        sample([(5, 6, 3)], {"size": (8, 3), "interp": 3}),
        sample([(5, 6, 3)], {"size": (8, 3), "interp": 4}),
    ),
)
def resize(b: Builder, p: Values, data: Node) -> Node:
    """Another size, in one of OpenCV's ways: pixel centres are at halves; bytes are right to the last bit bilinearly, else to one."""
    _need_image(data)
    height, width = data.shape[-3], data.shape[-2]
    if len(p.size) not in (1, 2) or min(p.size) < 1:
        raise MXNetError(f"Check failed: size must be one or two positive numbers, not {tuple(p.size)}")
    if len(p.size) == 2:
        new_width, new_height = p.size
    elif not p.keep_ratio:
        new_width = new_height = p.size[0]
    elif width < height:
        new_width, new_height = p.size[0], int(height * p.size[0] / width)
    else:
        new_width, new_height = int(width * p.size[0] / height), p.size[0]
    if p.interp not in range(5):
        raise MXNetError(f"Check failed: interp must be one of 0, 1, 2, 3 and 4, not {p.interp}")
    if data.dtype is u8 and p.interp == 1 and (new_height, new_width) != (height, width):
        return _bilinear_bytes(b, data, new_height, new_width)
    x = _work(b, data)
    interp = p.interp
    if interp == _AREA and (new_height > height or new_width > width):  # of what grows there is no average
        interp = _STEEP
    for axis, new in ((data.ndim - 3, new_height), (data.ndim - 2, new_width)):
        x = _resampled(b, x, axis, new, interp)
    if not data.dtype.is_float:
        x = b.round_away(x)
    return _saturated(b, x, data.dtype)


#: ways of resizing; the last is what becomes of areas where a picture grows
_CUBIC, _AREA, _LANCZOS, _STEEP = 2, 3, 4, 5


def _resampled(b: Builder, x: Node, axis: int, new: int, interp: int) -> Node:
    old = x.shape[axis]
    if old == new:
        return x
    if interp == 0:  # in OpenCV's order and precision, which decide where a place lies between two pixels
        at = b.min(b.floor(b.iota((new,), 0, f64) * (1 / (new / old))), old - 1)
        return _taken(b, x, at, axis)
    if interp == _AREA:
        return _averaged(b, x, axis, new)
    position = b.iota((new,), 0, x.dtype)
    place = (position + 0.5) * (old / new) - 0.5
    shape = tuple(new if k == axis else 1 for k in range(x.ndim))
    if interp in (_CUBIC, _LANCZOS):
        low = b.floor(place)
        weights = _cubic(place - low) if interp == _CUBIC else _lanczos(b, place - low)
        total = None
        for k, w in enumerate(weights, 1 - len(weights) // 2):
            tap = _taken(b, x, b.min(b.max(low + k, 0), old - 1), axis) * b.reshape(w, shape)
            total = tap if total is None else total + tap
        assert total is not None
        return total
    if interp == _STEEP:
        low = b.floor(position * (old / new))
        part = position + 1 - (low + 1) * (new / old)
        place = low + b.select(b.le(part, 0), 0, part - b.floor(part))
    place = b.min(b.max(place, 0), old - 1)
    low = b.floor(place)
    weight = b.reshape(place - low, shape)
    first, second = _taken(b, x, low, axis), _taken(b, x, b.min(low + 1, old - 1), axis)
    return first + (second - first) * weight


def _averaged(b: Builder, x: Node, axis: int, new: int) -> Node:
    """Means of the pixels that each new one covers, those at its ends in part."""
    old = x.shape[axis]
    width = old / new
    first = b.iota((new, 1), 0, x.dtype) * width
    pixel = b.iota((new, old), 1, x.dtype)
    first = b.broadcast(first, (new, old))
    covered = b.max(b.min(first + width, pixel + 1) - b.max(first, pixel), 0) * (1 / width)
    last = (*(k for k in range(x.ndim) if k != axis), axis)
    line = b.transpose(x, last)
    flat = b.reshape(line, (x.size // old, old))
    means = b.reshape(b.dot(flat, b.transpose(covered, (1, 0))), (*line.shape[:-1], new))
    return b.transpose(means, tuple(last.index(k) for k in range(x.ndim)))


def _lanczos(b: Builder, t: Node) -> list[Node]:
    """Weights of the eight pixels around a place ``t`` behind the fourth: Lanczos' kernel of four lobes, their sum 1."""

    def lobe(d: Node) -> Node:
        angle = d * math.pi
        wave = b.sin(angle) * b.sin(angle / 4) * 4 / b.select(b.eq(d, 0), 1, angle * angle)
        return b.select(b.eq(d, 0), 1, wave)

    parts = [lobe(t + (3 - k)) for k in range(8)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return [part / total for part in parts]


def _bilinear_bytes(b: Builder, data: Node, height: int, width: int) -> Node:
    """Pictures of bytes as OpenCV resizes them, to the last bit: weights have 11 bits, and sums of a row lose four."""
    rows, columns = data.ndim - 3, data.ndim - 2
    parts = []
    for y, down in _byte_taps(b, data, rows, height, False):
        line = _taken(b, data, y, rows)
        a, c = (b.cast(_taken(b, line, x, columns), i32) * w for x, w in _byte_taps(b, data, columns, width, True))
        parts.append(b.div(b.div(a + c, 1 << 4) * down, 1 << 16))
    return b.cast(b.div(parts[0] + parts[1] + 2, 4), u8)


def _byte_taps(b: Builder, data: Node, axis: int, new: int, ends: bool) -> list[tuple[Node, Node]]:
    """The two places along ``axis`` that each new one lies between, and their weights times 2048.

    ``ends``: where one of them is outside, the other has all the weight; otherwise the last place counts twice.
    """
    old = data.shape[axis]
    place = b.cast((b.iota((new,), 0, f64) + 0.5) * (1 / (new / old)) - 0.5, f32)
    low = b.floor(place)
    part = place - low
    if ends:
        part = b.select(b.ge(low, 0), b.select(b.lt(low, old - 1), part, 0), 0)
    shape = tuple(new if k == axis else 1 for k in range(data.ndim))
    taps = ((low, 1 - part), (low + 1, part))
    return [(b.min(b.max(at, 0), old - 1), b.reshape(b.cast(b.rint(w * 2048), i32), shape)) for at, w in taps]


def _cubic(t: Node) -> list[Node]:
    """Weights of the four pixels around a place ``t`` behind the second: Keys' kernel with -0.75, as OpenCV has it."""
    a = -0.75

    def near(d: Node) -> Node:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Node) -> Node:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _taken(b: Builder, x: Node, at: Node, axis: int) -> Node:
    return b.take(x, b.cast(at, i64), axis=axis)


# -- colours


def _blend(b: Builder, x: Node, other: Node, factor: Node) -> Node:
    shape = broadcast_shapes([x.shape, factor.shape])
    factor = b.broadcast(b.reshape(factor, (1,) * x.ndim), shape)
    return x * factor + b.broadcast(other, x.shape) * (1 - factor)


def _luminance(b: Builder, x: Node) -> Node:
    """Grey values, one channel."""
    if x.shape[-1] != 3:
        return x
    return b.sum(x * _per_channel(b, _GREY, x, x.ndim - 1), (-1,), keepdims=True)


def _brightness(b: Builder, x: Node, factor: Node) -> Node:
    return _blend(b, x, b.full_like(x, 0), factor)


def _contrast(b: Builder, x: Node, factor: Node) -> Node:
    mean = b.mean(_luminance(b, x), (-3, -2, -1), keepdims=True)
    return _blend(b, x, mean, factor)


def _saturation(b: Builder, x: Node, factor: Node) -> Node:
    return _blend(b, x, _luminance(b, x), factor)


def _hue(b: Builder, x: Node, factor: Node) -> Node:
    """A turn about the grey axis of the YIQ colour space (factor 1 changes nothing)."""
    if x.shape[-1] != 3:
        return x
    angle = (b.reshape(factor, ()) - 1) * 3.141592653589793
    u, w = b.cos(angle), b.sin(angle)
    to_yiq = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.321), (0.211, -0.523, 0.311))
    to_rgb = ((1.0, 0.956, 0.621), (1.0, -0.272, -0.647), (1.0, -1.107, 1.705))
    channel = [b.slice_axis(x, -1, k, k + 1) for k in range(3)]
    y, i, q = (sum((channel[k] * row[k] for k in range(1, 3)), channel[0] * row[0]) for row in to_yiq)
    u, w = (b.broadcast(b.reshape(v, (1,) * x.ndim), y.shape) for v in (u, w))
    i, q = i * u - q * w, i * w + q * u
    return b.concat([y * row[0] + i * row[1] + q * row[2] for row in to_rgb], x.ndim - 1)


_RANGE: dict[str, Param] = {"min_factor": Float(doc="at least"), "max_factor": Float(doc="at most")}


def _drawn(b: Builder, low: float, high: float, like: Node) -> Node:
    return b.cast(_uniform01(b, (1,)), _work(b, like).dtype) * (high - low) + low


def _random(name: str, change: Any, doc: str) -> None:
    def lower(b: Builder, p: Values, data: Node) -> Node:
        _need_image(data)
        return _saturated(b, change(b, _work(b, data), _drawn(b, p.min_factor, p.max_factor, data)), data.dtype)

    samples = (sample([(5, 4, 3)], {"min_factor": 0.5, "max_factor": 1.5}),)
    names = f"_image_random_{name} _npx__image_random_{name}"
    operator(names, params=dict(_RANGE), doc=doc, same_shape=True, samples=samples)(lower)


_random("brightness", _brightness, "Multiplied by a random factor.")
_random("contrast", _contrast, "Drawn towards or away from the mean grey by a random factor.")
_random("saturation", _saturation, "Drawn towards or away from its greys by a random factor.")
_random("hue", _hue, "Colours turned by a random factor.")


@operator(
    "_image_random_color_jitter _npx__image_random_color_jitter",
    params={k: Float(doc="largest change") for k in ("brightness", "contrast", "saturation", "hue")},
    same_shape=True,
    samples=(sample([(5, 4, 3)], {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.1}),),
)
def color_jitter(b: Builder, p: Values, data: Node) -> Node:
    """Brightness, contrast, saturation and hue changed by random factors in 1 +- the given ones."""
    _need_image(data)
    x = _work(b, data)
    for change, width in (
        (_brightness, p.brightness),
        (_contrast, p.contrast),
        (_saturation, p.saturation),
        (_hue, p.hue),
    ):
        if width > 0:
            x = change(b, x, _drawn(b, max(0.0, 1 - width), 1 + width, data))
    return _saturated(b, x, data.dtype)


#: principal components of the colours of ImageNet (Krizhevsky et al., 2012), scaled by their eigenvalues
_LIGHTING = (
    (55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009),
    (55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140),
    (55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203),
)


def _lit(b: Builder, data: Node, alpha: list[Node]) -> Node:
    _need_image(data)
    if data.shape[-1] == 1:
        return b.copy(data)
    x = _work(b, data)
    alpha = [b.cast(a, x.dtype) for a in alpha]
    parts = [sum((alpha[k] * row[k] for k in range(1, 3)), alpha[0] * row[0]) for row in _LIGHTING]
    shift = b.reshape(b.concat(parts, 0), (*(1,) * (x.ndim - 1), 3))
    return _saturated(b, x + shift, data.dtype)


@operator(
    "_image_adjust_lighting _npx__image_adjust_lighting",
    params={"alpha": Floats(REQUIRED, "of the three components")},
    same_shape=True,
    samples=(sample([(5, 4, 3)], {"alpha": (0.1, 0.2, 0.3)}),),
)
def adjust_lighting(b: Builder, p: Values, data: Node) -> Node:
    """Light of the principal components added (AlexNet style)."""
    return _lit(b, data, [b.full((1,), a, f64) for a in p.alpha])


@operator(
    "_image_random_lighting _npx__image_random_lighting",
    params={"alpha_std": Float(0.05, "standard deviation of the components")},
    same_shape=True,
    samples=(sample([(5, 4, 3)]),),
)
def random_lighting(b: Builder, p: Values, data: Node) -> Node:
    """Light of normally distributed strength added."""
    draws = [
        b.sqrt(b.log(1 - _uniform01(b, (1,))) * -2) * b.cos(_uniform01(b, (1,)) * 6.283185307179586) for _ in range(3)
    ]
    return _lit(b, data, [d * p.alpha_std for d in draws])

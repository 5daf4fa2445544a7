# SPDX-License-Identifier: Apache-2.0
"""Images, (height, width, channels): decoding, resizing, cropping, rotation, borders.

The way of resizing (``interp``) is 0 for nearest pixels, 1 for bilinear, 2 for bicubic, 3 for the mean of an area, 4 for
Lanczos; 9 chooses bicubic for larger images, areas for smaller ones, else bilinear, and 10 one of the five by chance.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError
from ..io.images import decode_picture, read_picture
from ..ndarray import NDArray, array
from ..ndarray import image as operators
from ..ndarray.mode import follows_mode

__all__ = [
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

Place = tuple[int, int, int, int]  #: left edge, upper edge, width, height


@follows_mode
def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool = True) -> NDArray:
    """The image in a file, uint8. Formats other than NumPy's need the package Pillow.

    Args:
        flag: 1 for three colours, 0 for grey.
        to_rgb: colours in the order red, green, blue; otherwise blue, green, red.

    Raises:
        MXNetError: there is no such file, it is no image, or Pillow is missing.
    """
    return _ordered(read_picture(os.fspath(filename), flag), to_rgb)


@follows_mode
def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """The image in the bytes of a file, or in an array of them; see :func:`imread`.

    Raises:
        ValueError: neither of them.
    """
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if not isinstance(buf, (bytes, bytearray, np.ndarray)):
        raise ValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray,if you would like to input type str, please convert to bytes"
        )
    return _ordered(decode_picture(bytes(buf), flag), to_rgb)


def _ordered(picture: Any, to_rgb: bool) -> NDArray:
    return array(picture if to_rgb else picture[..., ::-1], dtype=np.uint8)


@follows_mode
def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """The image in another size, written to ``out`` if there is one.

    Raises:
        MXNetError: sizes below 1, an unknown ``interp``.
    """
    resized: NDArray = operators.resize(src, (w, h), False, interp)
    return _given(resized, out)


def _given(value: NDArray, out: NDArray | None) -> NDArray:
    if out is None:
        return value
    out[:] = value
    return out


def _get_interp_method(interp: int, sizes: Sequence[int] = ()) -> int:
    """The way of resizing, 0 to 4.

    Args:
        interp: one of them, or 9 for one that suits the sizes, or 10 for any.
        sizes: height and width before and after; without them 9 is 2.

    Raises:
        ValueError: an unknown ``interp``.
    """
    if interp == 9:
        if not sizes:
            return 2
        assert len(sizes) == 4
        old_height, old_width, height, width = sizes
        if height > old_height and width > old_width:
            return 2
        return 3 if height < old_height and width < old_width else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise ValueError(f"Unknown interp method {interp}")
    return interp


def method_of(interp: int, old: tuple[int, int], new: tuple[int, int]) -> int:
    """The way of resizing from one (width, height) to another; see :func:`_get_interp_method`."""
    return _get_interp_method(interp, (old[1], old[0], new[1], new[0]))


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """``size`` (width, height), made smaller where that is needed to lie in ``src_size``; its shape stays."""
    (width, height), (w, h) = src_size, (float(size[0]), float(size[1]))
    if height < h:
        w, h = w * height / h, height
    if width < w:
        w, h = width, h * width / w
    return int(w), int(h)


@follows_mode
def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """The image with ``size`` as its shorter side."""
    h, w = src.shape[:2]
    new_w, new_h = (size, size * h // w) if h > w else (size * w // h, size)
    return imresize(src, new_w, new_h, method_of(interp, (w, h), (new_w, new_h)))


@follows_mode
def fixed_crop(
    src: NDArray, x0: int, y0: int, w: int, h: int, size: tuple[int, int] | None = None, interp: int = 2
) -> NDArray:
    """A part of the image, resized to ``size`` (width, height) if there is one.

    Raises:
        MXNetError: the part has no pixels.
    """
    if w < 1 or h < 1:
        raise MXNetError(
            f"Check failed: src_idx < dshape_len: a part of {w} x {h} pixels cannot be cut out\n"
            "Ask for a size of at least one pixel each way, and for random parts for a larger area."
        )
    part: NDArray = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, *size, method_of(interp, (w, h), size))


@follows_mode
def center_crop(src: NDArray, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Place]:
    """The middle of the image, enlarged if the image is smaller than ``size`` (width, height), and its place."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    place = ((w - new_w) // 2, (h - new_h) // 2, new_w, new_h)
    return fixed_crop(src, *place, size, interp), place


@follows_mode
def random_crop(src: NDArray, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Place]:
    """As :func:`center_crop`, somewhere in the image."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    place = (random.randint(0, w - new_w), random.randint(0, h - new_h), new_w, new_h)
    return fixed_crop(src, *place, size, interp), place


@follows_mode
def random_size_crop(
    src: NDArray, size: tuple[int, int], area: float | tuple[float, float], ratio: tuple[float, float], interp: int = 2
) -> tuple[NDArray, Place]:
    """A part of random size and shape, resized to ``size``; the middle, if ten attempts do not fit.

    Args:
        area: bounds of its share of the image; a number is the lower one.
        ratio: bounds of width / height.

    Raises:
        ValueError: bounds that are not positive.
        MXNetError: a part without pixels.
    """
    if min(ratio) <= 0:
        raise ValueError(f"ratio has to be two positive numbers, bounds of width / height, not {tuple(ratio)}")
    h, w = src.shape[:2]
    low, high = (area, 1.0) if isinstance(area, (int, float)) else area
    for _ in range(10):
        pixels = random.uniform(low, high) * h * w
        shape = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        new_w, new_h = round(math.sqrt(pixels * shape)), round(math.sqrt(pixels / shape))
        if new_w <= w and new_h <= h:
            place = (random.randint(0, w - new_w), random.randint(0, h - new_h), new_w, new_h)
            return fixed_crop(src, *place, size, interp), place
    return center_crop(src, size, interp)


@follows_mode
def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """``(src - mean) / std``, in place; None leaves a step out."""
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src


_BORDERS = ("constant", "edge", "symmetric", "wrap", "reflect")  #: by OpenCV's numbers


@follows_mode
def copyMakeBorder(
    src: NDArray,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,
    values: Any = (),
    out: NDArray | None = None,
) -> NDArray:
    """The image in a frame of so many pixels on each side.

    Args:
        type: 0 for one colour, 1 for the nearest pixel, 2 for a mirror that repeats the edge (``cba|abc``), 3 for the
            other side's pixels, 4 for a mirror that does not (``cb|abc``).
        value, values: of type 0: one number for all channels, or one for each.
        out: where the result goes.

    Raises:
        MXNetError: an unknown type.
    """
    type &= ~16  # OpenCV: pixels beyond a part do not count
    if not 0 <= type < len(_BORDERS):
        raise MXNetError(f"border type {type} is not there\nTake a number from 0 to {len(_BORDERS) - 1}.")
    picture, width = src.asnumpy(), ((top, bot), (left, right), (0, 0))
    if type:
        framed = np.pad(picture, width, mode=_BORDERS[type])  # type: ignore[call-overload]
    else:
        colour = np.broadcast_to(np.asarray(values if len(values) else value), picture.shape[2:])
        framed = np.pad(picture, width)
        framed[:] = colour.astype(picture.dtype)
        framed[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return _given(array(framed, ctx=src.context, dtype=src.dtype), out)


@follows_mode
def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Images turned counterclockwise about their middles, by bilinear sampling; outside is 0.

    Args:
        src: float32, (channels, height, width), or (N, channels, height, width).
        rotation_degrees: a number; for several images also one for each, an array.
        zoom_in: so large that nothing outside is seen.
        zoom_out: so small that everything is seen.

    Raises:
        ValueError: both zooms, another number of dimensions or of angles.
        TypeError: another element type, or several angles for one image.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if np.dtype(src.dtype) != np.float32:
        raise TypeError("Only `float32` images are supported by this function")
    if src.ndim == 3:
        if not isinstance(rotation_degrees, Number):
            raise TypeError("When a single image is passed the rotation angle is required to be a scalar.")
        turned: NDArray = imrotate(src.expand_dims(axis=0), rotation_degrees, zoom_in, zoom_out)[0]
        return turned
    if src.ndim != 4:
        raise ValueError("Only 3D and 4D are supported by this function")
    if not isinstance(rotation_degrees, Number) and len(rotation_degrees) != len(src):
        raise ValueError("The number of images must be equal to the number of rotation angles")
    if isinstance(rotation_degrees, NDArray):
        rotation_degrees = rotation_degrees.asnumpy()
    angle = np.broadcast_to(np.radians(np.asarray(rotation_degrees, np.float32)), (len(src),))[:, None, None]
    height, width = src.shape[2:]
    # where each pixel comes from, in pixels from the middle
    down, right = np.arange(height)[:, None] - (height - 1) / 2, np.arange(width) - (width - 1) / 2
    across = (right * np.cos(angle) - down * np.sin(angle)) / ((width - 1) / 2)
    along = (right * np.sin(angle) + down * np.cos(angle)) / ((height - 1) / 2)
    scale = _zoom(np.abs(angle), height, width, zoom_in) if zoom_in or zoom_out else 1.0
    places = (np.stack([across, along], axis=1) * scale).astype(np.float32)
    sampled: NDArray = nd.BilinearSampler(src, array(places, ctx=src.context))
    return sampled


def _zoom(angle: Any, height: int, width: int, zoom_in: bool) -> Any:
    """How far the corners of turned images lie outside; or how near, for ``zoom_in``."""
    radius, corner = math.hypot(height, width), math.atan(height / width)
    x = np.maximum(np.abs(radius * np.cos(corner + angle)), np.abs(radius * np.cos(corner - angle))) / width
    y = np.maximum(np.abs(radius * np.sin(corner + angle)), np.abs(radius * np.sin(corner - angle))) / height
    return (np.minimum(1 / x, 1 / y) if zoom_in else np.maximum(x, y))[:, None]


@follows_mode
def random_rotate(
    src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """:func:`imrotate` by random angles between two limits, one for each image."""
    size = None if src.ndim == 3 else len(src)
    return imrotate(src, np.random.uniform(*angle_limits, size=size), zoom_in, zoom_out)

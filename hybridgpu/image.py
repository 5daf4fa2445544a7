# SPDX-License-Identifier: Apache-2.0
"""``mx.image``: pictures, (height, width, channels), from files, in other sizes and in part.

The way of resizing (``interp``) is 0 for nearest pixels, 1 for bilinear, 2 for bicubic; 9 chooses bicubic, or bilinear
for smaller pictures, and 10 one of the three by chance.
"""

from __future__ import annotations

import math
import os
import random
from typing import Any

import numpy as np

from .base import MXNetError
from .io.pictures import decode_picture, read_picture
from .ndarray import NDArray, array
from .ndarray import image as operators

__all__ = [
    "center_crop",
    "color_normalize",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "random_crop",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

Place = tuple[int, int, int, int]  #: left edge, upper edge, width, height


def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool = True) -> NDArray:
    """The picture in a file, uint8. Formats other than NumPy's need the package Pillow.

    Args:
        flag: 1 for three colours, 0 for grey.
        to_rgb: colours in the order red, green, blue; otherwise blue, green, red.

    Raises:
        MXNetError: there is no such file, it is no picture, or Pillow is missing.
    """
    return _ordered(read_picture(os.fspath(filename), flag), to_rgb)


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """The picture in the bytes of a file, or in an array of them; see :func:`imread`.

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


def imresize(src: NDArray, w: int, h: int, interp: int = 1) -> NDArray:
    """The picture in another size.

    Raises:
        MXNetError: sizes below 1, an unknown ``interp``.
    """
    resized: NDArray = operators.resize(src, (w, h), False, interp)
    return resized


def _method(interp: int, old: tuple[int, int], new: tuple[int, int]) -> int:
    """Raises: ValueError: an unknown number."""
    if interp == 9:
        return 2 if new[0] > old[0] and new[1] > old[1] else 1
    if interp == 10:
        return random.randint(0, 2)
    if interp not in (0, 1, 2, 3, 4):
        raise ValueError(f"Unknown interp method {interp}")
    if interp > 2:
        raise MXNetError(f"interp {interp} is not there\nTake 0 (nearest), 1 (bilinear) or 2 (bicubic).")
    return interp


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """``size`` (width, height), made smaller where that is needed to lie in ``src_size``; its shape stays."""
    (width, height), (w, h) = src_size, (float(size[0]), float(size[1]))
    if height < h:
        w, h = w * height / h, height
    if width < w:
        w, h = width, h * width / w
    return int(w), int(h)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """The picture with ``size`` as its shorter side."""
    h, w = src.shape[:2]
    new_w, new_h = (size, size * h // w) if h > w else (size * w // h, size)
    return imresize(src, new_w, new_h, _method(interp, (w, h), (new_w, new_h)))


def fixed_crop(
    src: NDArray, x0: int, y0: int, w: int, h: int, size: tuple[int, int] | None = None, interp: int = 2
) -> NDArray:
    """A part of the picture, resized to ``size`` (width, height) if there is one."""
    part: NDArray = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, *size, _method(interp, (w, h), size))


def center_crop(src: NDArray, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Place]:
    """The middle of the picture, enlarged if the picture is smaller than ``size`` (width, height), and its place."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    place = ((w - new_w) // 2, (h - new_h) // 2, new_w, new_h)
    return fixed_crop(src, *place, size, interp), place


def random_crop(src: NDArray, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Place]:
    """As :func:`center_crop`, somewhere in the picture."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    place = (random.randint(0, w - new_w), random.randint(0, h - new_h), new_w, new_h)
    return fixed_crop(src, *place, size, interp), place


def random_size_crop(
    src: NDArray, size: tuple[int, int], area: float | tuple[float, float], ratio: tuple[float, float], interp: int = 2
) -> tuple[NDArray, Place]:
    """A part of random size and shape, resized to ``size``; the middle, if ten attempts do not fit.

    Args:
        area: bounds of its share of the picture; a number is the lower one.
        ratio: bounds of width / height.
    """
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


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """``(src - mean) / std``, in place; None leaves a step out."""
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src

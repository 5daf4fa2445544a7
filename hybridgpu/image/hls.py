# SPDX-License-Identifier: Apache-2.0
"""Random hue, lightness and saturation of images, as ``ImageRecordIter`` changes them."""

from __future__ import annotations

import random

import numpy as np

from ..ndarray import NDArray, array
from .augment import Augmenter

__all__ = ["HLSJitterAug"]


class HLSJitterAug(Augmenter):
    """Hue, lightness and saturation, each moved by up to so much either way and kept within its range.

    Args:
        hue: in steps of two degrees, as OpenCV counts it in bytes.
        lightness, saturation: of 255.
    """

    def __init__(self, hue: float, lightness: float, saturation: float) -> None:
        super().__init__(hue=hue, lightness=lightness, saturation=saturation)
        self.reach = (hue, lightness, saturation)

    def __call__(self, src: NDArray) -> NDArray:
        parts = to_hls(src.asnumpy() / 255)
        for part, reach, unit in zip(parts, self.reach, (180, 255, 255), strict=True):
            np.clip(part + random.uniform(-reach, reach) / unit, 0, 1, out=part)
        return array(from_hls(*parts) * 255, ctx=src.context, dtype=src.dtype)


def to_hls(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue, lightness and saturation, from 0 to 1, of colours from 0 to 1 in the last axis."""
    rgb = np.clip(rgb, 0, 1)
    high, low = rgb.max(-1), rgb.min(-1)
    spread, total = high - low, high + low
    grey = spread == 0
    red, green, blue = np.moveaxis((high[..., None] - rgb) / np.where(grey, 1, spread)[..., None], -1, 0)
    is_red, is_green = rgb[..., 0] == high, rgb[..., 1] == high
    sixths = np.select([is_red, is_green], [blue - green, 2 + red - blue], 4 + green - red)
    hue = np.where(grey, 0, sixths / 6 % 1)
    saturation = np.where(grey, 0, spread / np.where(grey, 1, np.where(total <= 1, total, 2 - total)))
    return hue, total / 2, saturation


def from_hls(hue: np.ndarray, lightness: np.ndarray, saturation: np.ndarray) -> np.ndarray:
    """Colours from 0 to 1 in a new last axis."""
    reach = saturation * np.minimum(lightness, 1 - lightness)
    turns = (np.array([0, 8, 4]) / 12 + hue[..., None]) * 12 % 12  # red, green and blue along the circle
    distance = np.clip(np.minimum(turns - 3, 9 - turns), -1, 1)
    return np.asarray(lightness[..., None] - reach[..., None] * distance)

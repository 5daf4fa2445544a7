# SPDX-License-Identifier: Apache-2.0
"""Transforms of images, as blocks. Sizes are (width, height)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from ....ndarray import image
from ....ndarray.creation import array
from ....ndarray.mode import follows_mode
from ....ndarray.ndarray import NDArray
from ...block import Block
from ...hybrid import HybridBlock
from ...nn import HybridSequential, Sequential

__all__ = [
    "Cast",
    "CenterCrop",
    "Compose",
    "CropResize",
    "HybridCompose",
    "HybridRandomApply",
    "Normalize",
    "RandomApply",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomHue",
    "RandomLighting",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSaturation",
    "Resize",
    "Rotate",
    "ToTensor",
]


class Compose(Sequential):
    """Transforms one after the other; runs of hybrid ones are hybridized together."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__()
        run: list[Any] = []

        def close() -> None:
            if len(run) == 1:
                self.add(run[0])
            elif run:
                together = HybridSequential()
                together.add(*run)
                together.hybridize()
                self.add(together)
            run.clear()

        for t in transforms:
            if isinstance(t, HybridBlock):
                run.append(t)
            else:
                close()
                self.add(t)
        close()


class HybridCompose(HybridSequential):
    """Hybrid transforms one after the other, hybridized."""

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for t in transforms:
            if not isinstance(t, HybridBlock):
                raise ValueError(f"{t} is not a HybridBlock, try use `Compose` instead")
            self.add(t)
        self.hybridize()


class Cast(HybridBlock):
    """Another element type."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, self._dtype)


class RandomApply(Sequential):
    """Apply transforms with probability ``p``."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, x: Any, *args: Any) -> Any:
        if self.p < random.random():
            return x
        return self.transforms(x, *args)


class HybridRandomApply(HybridSequential):
    """Apply a hybrid transform with probability ``p``."""

    def __init__(self, transforms: HybridBlock, p: float = 0.5) -> None:
        super().__init__()
        assert isinstance(transforms, HybridBlock)
        self.transforms, self.p = transforms, p

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        chosen = F.random.uniform(shape=(1,)) < self.p
        y = self.transforms(x)
        return F.where(F.broadcast_like(F.reshape(chosen, (1, 1, 1)), y), y, F.cast(x, "float32"))


class ToTensor(HybridBlock):
    """uint8 (H, W, C) in 0 … 255 to float32 (C, H, W) in 0 … 1; batches too."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """(x - mean) / std of every channel of (C, H, W)."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean, self._std = mean, std

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.normalize(x, self._mean, self._std)


class Resize(HybridBlock):
    """Another size: (width, height), or one number for both (the shorter side's with ``keep_ratio``)."""

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._keep, self._interpolation = size, keep_ratio, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class CropResize(HybridBlock):
    """A rectangle of the image, resized if ``size`` is given."""

    def __init__(
        self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None
    ) -> None:
        super().__init__()
        self._hg_crop = (x, y, width, height)
        self._size, self._interpolation = size, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        y = F.image.crop(x, *self._hg_crop)
        if self._size:
            y = F.image.resize(y, self._size, False, 1 if self._interpolation is None else self._interpolation)
        return y


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _cut(
    x: NDArray, left: int, top: int, width: int, height: int, size: tuple[int, int], interpolation: int
) -> NDArray:
    y: NDArray = image.crop(x, left, top, width, height)
    return y if (width, height) == size else image.resize(y, size, False, interpolation)


class CenterCrop(Block):
    """The middle of the image; smaller images are enlarged."""

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._hg_size, self._hg_interpolation = _pair(size), interpolation

    @follows_mode
    def forward(self, x: NDArray) -> NDArray:
        height, width = x.shape[-3], x.shape[-2]
        w, h = self._hg_size
        # what is too small gives its largest part of the same proportions
        scale = min(1.0, width / w, height / h)
        cw, ch = max(int(w * scale), 1), max(int(h * scale), 1)
        return _cut(x, (width - cw) // 2, (height - ch) // 2, cw, ch, self._hg_size, self._hg_interpolation)


class RandomCrop(Block):
    """A random rectangle of a size, after padding.

    Args:
        size: (width, height) or one number.
        pad: pixels added on every side, or ((before, after), …) for height and width.
        pad_value: what they hold.
    """

    def __init__(self, size: Any, pad: Any = None, pad_value: int = 0, interpolation: int = 1) -> None:
        super().__init__()
        self._hg_size, self._hg_pad, self._hg_value, self._hg_interpolation = _pair(size), pad, pad_value, interpolation

    @follows_mode
    def forward(self, x: NDArray) -> NDArray:
        if self._hg_pad:
            sides = ((self._hg_pad, self._hg_pad),) * 2 if isinstance(self._hg_pad, int) else tuple(self._hg_pad)
            x = array(
                np.pad(x.asnumpy(), (*sides, (0, 0)), constant_values=self._hg_value), dtype=x.dtype, ctx=x.context
            )
        height, width = x.shape[0], x.shape[1]
        w, h = min(self._hg_size[0], width), min(self._hg_size[1], height)
        left, top = random.randint(0, width - w), random.randint(0, height - h)
        return _cut(x, left, top, w, h, self._hg_size, self._hg_interpolation)


class RandomResizedCrop(Block):
    """A random rectangle of random area and proportions, resized.

    Args:
        size: of the result.
        scale: least and largest share of the area.
        ratio: least and largest width / height.
    """

    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1
    ) -> None:
        super().__init__()
        self._hg_size, self._hg_interpolation = _pair(size), interpolation
        self._hg_scale = (scale, 1.0) if isinstance(scale, float) else tuple(scale)
        self._hg_ratio = tuple(ratio)

    @follows_mode
    def forward(self, x: NDArray) -> NDArray:
        height, width = x.shape[-3], x.shape[-2]
        for _ in range(10):
            area = random.uniform(*self._hg_scale) * width * height
            ratio = np.exp(random.uniform(*np.log(self._hg_ratio)))
            w, h = round(sqrt(area * ratio)), round(sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left, top = random.randint(0, width - w), random.randint(0, height - h)
                return _cut(x, left, top, w, h, self._hg_size, self._hg_interpolation)
        side = min(width, height)  # no rectangle fitted: the middle
        return _cut(x, (width - side) // 2, (height - side) // 2, side, side, self._hg_size, self._hg_interpolation)


class RandomFlipLeftRight(HybridBlock):
    """Mirrored in half of the calls."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Upside down in half of the calls."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_top_bottom(x)


class _RandomFactor(HybridBlock):
    """A change by a random factor in 1 +- ``width``."""

    _hg_change = ""

    def __init__(self, width: float) -> None:
        super().__init__()
        self._hg_range = (max(0.0, 1.0 - width), 1.0 + width)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return getattr(F.image, f"random_{self._hg_change}")(x, *self._hg_range)


class RandomBrightness(_RandomFactor):
    """Brightness times a random factor in 1 +- ``brightness``."""

    _hg_change = "brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_RandomFactor):
    """Contrast times a random factor in 1 +- ``contrast``."""

    _hg_change = "contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_RandomFactor):
    """Saturation times a random factor in 1 +- ``saturation``."""

    _hg_change = "saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_RandomFactor):
    """Hue turned by a random factor in 1 +- ``hue``."""

    _hg_change = "hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(HybridBlock):
    """Brightness, contrast, saturation and hue, each changed at random."""

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(HybridBlock):
    """AlexNet's light of random strength."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_lighting(x, self._alpha)


def _rotated(x: NDArray, degrees: float, zoom_in: bool, zoom_out: bool) -> NDArray:
    """(C, H, W) or (N, C, H, W) float32 turned about its centre, bilinearly; outside lie zeros."""
    from .... import ndarray as nd

    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if x.dtype != np.float32:
        raise TypeError("Only `float32` dtype is supported for this operation")
    single = x.ndim == 3
    if single:
        x = x.expand_dims(0)
    if x.ndim != 4:
        raise ValueError("Only 3D and 4D are supported")
    count, _, height, width = x.shape
    angle = np.deg2rad(degrees)
    c, s = float(np.cos(angle)), float(np.sin(angle))
    scale = 1.0
    if zoom_in or zoom_out:
        # how far the turned rectangle reaches, in units of its own half sides
        reach = max(abs(c) + abs(s) * height / width, abs(c) + abs(s) * width / height)
        scale = reach if zoom_out else 1.0 / reach
    ys, xs = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    cx, cy = (width - 1) / 2, (height - 1) / 2
    dx, dy = (xs - cx) * scale, (ys - cy) * scale
    source = np.stack([(c * dx - s * dy) / max(cx, 0.5), (s * dx + c * dy) / max(cy, 0.5)])
    grid = np.broadcast_to(source[None], (count, *source.shape))
    y: NDArray = nd.BilinearSampler(x, nd.array(grid, ctx=x.context))
    return y[0] if single else y


class Rotate(Block):
    """Turned by degrees, counter-clockwise; float32 (C, H, W) or batches.

    Args:
        zoom_in: no empty corners.
        zoom_out: nothing cut off.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    @follows_mode
    def forward(self, x: NDArray) -> NDArray:
        return _rotated(x, *self._args)


class RandomRotation(Block):
    """Turned by a random angle between limits, with a probability."""

    def __init__(
        self, angle_limits: Any, zoom_in: bool = False, zoom_out: bool = False, rotate_with_proba: float = 1.0
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._hg_limits, self._hg_zoom, self._hg_p = (lower, upper), (zoom_in, zoom_out), rotate_with_proba

    @follows_mode
    def forward(self, x: NDArray) -> NDArray:
        if np.random.random() > self._hg_p:
            return x
        return _rotated(x, np.random.uniform(*self._hg_limits), *self._hg_zoom)

# SPDX-License-Identifier: Apache-2.0
"""Augmenters: callable random changes to images, (height, width, 3) -> (height', width', 3)."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..ndarray import NDArray, array
from .images import center_crop, color_normalize, imresize, method_of, random_crop, random_size_crop, resize_short

__all__ = [
    "Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
    "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "LightingAug",
    "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug",
    "SequentialAug",
]  # fmt: skip

Size = tuple[int, int]  #: width, height


class Augmenter:
    """Base of augmenters; subclasses define ``__call__``.

    Args:
        kwargs: what ``dumps`` shows.
    """

    def __init__(self, **kwargs: Any) -> None:
        arrays = {k: v.asnumpy() for k, v in kwargs.items() if isinstance(v, NDArray)}
        self._kwargs = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in {**kwargs, **arrays}.items()}

    def dumps(self) -> Any:
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray) -> NDArray:
        """The changed image."""
        raise NotImplementedError("Must override implementation.")


class SequentialAug(Augmenter):
    """Several augmenters, one after the other."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Name and the augmenters' descriptions, as a list."""
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]

    def __call__(self, src: NDArray) -> NDArray:
        for t in self.ts:
            src = t(src)
        return src


class RandomOrderAug(SequentialAug):
    """Several augmenters in a random order."""

    def __call__(self, src: NDArray) -> NDArray:
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """:func:`resize_short`."""

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """:func:`imresize` to (width, height)."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        old = (src.shape[1], src.shape[0])
        return imresize(src, *self.size, method_of(self.interp, old, self.size))


class RandomCropAug(Augmenter):
    """:func:`random_crop`."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(RandomCropAug):
    """:func:`center_crop`."""

    def __call__(self, src: NDArray) -> NDArray:
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """:func:`random_size_crop`."""

    def __init__(
        self, size: Size, area: float | tuple[float, float], ratio: tuple[float, float], interp: int = 2
    ) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: NDArray) -> NDArray:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


_GREY = np.array([0.299, 0.587, 0.114], np.float32)  #: how bright red, green and blue are


def _factor(reach: float) -> float:
    return 1.0 + random.uniform(-reach, reach)


class BrightnessJitterAug(Augmenter):
    """All values times 1 - ``brightness`` … 1 + ``brightness``, in place."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        src *= _factor(self.brightness)
        return src


class ContrastJitterAug(Augmenter):
    """Distances from the image's mean grey times 1 - ``contrast`` … 1 + ``contrast``, in place."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: NDArray) -> NDArray:
        alpha = _factor(self.contrast)
        grey = src * array(_GREY, ctx=src.context)
        grey = (3.0 * (1.0 - alpha) / grey.size) * nd.sum(grey)
        src *= alpha
        src += grey
        return src


class SaturationJitterAug(Augmenter):
    """Distances from each pixel's grey times 1 - ``saturation`` … 1 + ``saturation``, in place."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: NDArray) -> NDArray:
        alpha = _factor(self.saturation)
        grey = nd.sum(src * array(_GREY, ctx=src.context), axis=2, keepdims=True) * (1.0 - alpha)
        src *= alpha
        src += grey
        return src


class HueJitterAug(Augmenter):
    """Colours turned by up to ``hue`` half circles either way, in NTSC's colour space."""

    _hg_to = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    _hg_back = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        u, w = np.cos(angle), np.sin(angle)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
        out: NDArray = nd.dot(src, array((self._hg_back @ turn @ self._hg_to).T, ctx=src.context))
        return out


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in a random order; those that are 0 are left out."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds = (
            (BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation),
        )  # fmt: skip
        super().__init__([kind(reach) for kind, reach in kinds if reach > 0])


class LightingAug(Augmenter):
    """Add a random colour along the principal axes of colours, in place.

    Args:
        alphastd: standard deviation.
        eigval, eigvec: of the covariance of colours, (3,) and (3, 3).
    """

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        src += array(np.dot(self.eigvec * alpha, self.eigval), ctx=src.context)
        return src


class ColorNormalizeAug(Augmenter):
    """:func:`color_normalize`, in place."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = mean if mean is None or isinstance(mean, NDArray) else array(mean)
        self.std = std if std is None or isinstance(std, NDArray) else array(std)

    def __call__(self, src: NDArray) -> NDArray:
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Grey, in three equal channels, with probability ``p``."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() < self.p:
            src = nd.dot(src, array(np.repeat([[0.21], [0.72], [0.07]], 3, axis=1), ctx=src.context))
        return src


class HorizontalFlipAug(Augmenter):
    """Left and right exchanged, with probability ``p``."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() < self.p:
            src = nd.flip(src, axis=1)
        return src


class CastAug(Augmenter):
    """Another element type."""

    def __init__(self, typ: Any = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        return src.astype(self.typ)


def color_augmenters(
    brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float, rand_gray: float
) -> list[Augmenter]:
    """Those of colours whose reach is not 0."""
    augmenters: list[Augmenter] = []
    if brightness or contrast or saturation:
        augmenters.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        augmenters.append(HueJitterAug(hue))
    if pca_noise > 0:
        values = np.array([55.46, 4.794, 1.148])
        vectors = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
        augmenters.append(LightingAug(pca_noise, values, vectors))
    if rand_gray > 0:
        augmenters.append(RandomGrayAug(rand_gray))
    return augmenters


def normalizers(mean: Any, std: Any) -> list[Augmenter]:
    """The normalisation, if there is any; True takes ImageNet's numbers."""
    mean = np.array([123.68, 116.28, 103.53]) if mean is True else mean
    std = np.array([58.395, 57.12, 57.375]) if std is True else std
    for value in (mean, std):
        if value is not None:
            assert isinstance(value, (np.ndarray, NDArray)) and value.shape[0] in (1, 3), (
                "mean and std must be arrays of 1 or 3 numbers, or True"
            )
    return [] if mean is None and std is None else [ColorNormalizeAug(mean, std)]


def CreateAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """The usual list of augmenters, whose results are float32.

    Args:
        data_shape: (channels, height, width) of the results.
        resize: the shorter side before cropping; 0 leaves it.
        rand_crop: crop somewhere instead of the middle.
        rand_resize: crop parts of random size and shape; needs ``rand_crop``.
        rand_mirror: flip half of the images.
        mean, std: arrays of 1 or 3 numbers; True takes ImageNet's.
        brightness, contrast, saturation, hue, pca_noise: reach of random changes, 0 for none.
        rand_gray: probability of a grey image.
        inter_method: how to resize.

    Raises:
        AssertionError: ``rand_resize`` without ``rand_crop``; another ``mean`` or ``std``.
    """
    augmenters: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        assert rand_crop, "rand_resize needs rand_crop"
        augmenters.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    elif rand_crop:
        augmenters.append(RandomCropAug(size, inter_method))
    else:
        augmenters.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        augmenters.append(HorizontalFlipAug(0.5))
    augmenters.append(CastAug())
    augmenters += color_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray)
    return augmenters + normalizers(mean, std)

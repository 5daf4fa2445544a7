# SPDX-License-Identifier: Apache-2.0
"""Detection augmenters: random changes to images with boxes, (image, boxes) -> (image, boxes).

Boxes are a NumPy array with a row for each object: class, left, top, right, bottom as shares of width and height, and
anything that follows.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..core.source_location import user_frame
from ..ndarray import NDArray
from .augment import Augmenter, CastAug, ForceResizeAug, ResizeAug, color_augmenters, normalizers
from .images import copyMakeBorder, fixed_crop

__all__ = [
    "CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug", "DetHorizontalFlipAug",
    "DetRandomCropAug", "DetRandomPadAug", "DetRandomSelectAug",
]  # fmt: skip

Both = tuple[NDArray, Any]


class DetAugmenter:
    """Base of augmenters; subclasses define ``__call__``.

    Args:
        kwargs: what ``dumps`` shows.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = Augmenter(**kwargs)._kwargs

    def dumps(self) -> Any:
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray, label: Any) -> Both:
        """The changed image and its boxes."""
        raise NotImplementedError("Must override implementation.")


class DetBorrowAug(DetAugmenter):
    """An augmenter that leaves boxes where they are.

    Raises:
        TypeError: no Augmenter.
    """

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError("Borrowing from invalid Augmenter")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """Name and the augmenter's description, as a list."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: Any) -> Both:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters by chance, or none with probability ``skip_prob``.

    Raises:
        ValueError: one that is no DetAugmenter.
    """

    def __init__(self, aug_list: Any, skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        if not all(isinstance(a, DetAugmenter) for a in self.aug_list):
            raise ValueError("Allow DetAugmenter in list only")
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        """Name and the augmenters' descriptions, as a list."""
        return [type(self).__name__.lower(), [a.dumps() for a in self.aug_list]]

    def __call__(self, src: NDArray, label: Any) -> Both:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        chosen: Both = self.aug_list[0](src, label)
        return chosen


class DetHorizontalFlipAug(DetAugmenter):
    """Left and right exchanged, with probability ``p``; the boxes in place."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray, label: Any) -> Both:
        if random.random() < self.p:
            src = nd.flip(src, axis=1)
            label[:, (1, 3)] = 1.0 - label[:, (3, 1)]
        return src, label


def _areas(boxes: Any) -> Any:
    """Of boxes without their classes."""
    return np.maximum(0, boxes[:, 3] - boxes[:, 1]) * np.maximum(0, boxes[:, 2] - boxes[:, 0])


def _pair(value: Any) -> tuple[float, float]:
    return (value, value) if isinstance(value, Number) else tuple(value)


class DetRandomCropAug(DetAugmenter):
    """A random part of the image and the boxes in it; the image itself, if no attempt fits.

    Args:
        min_object_covered: more than this share of each box that is touched must lie within.
        aspect_ratio_range: bounds of width / height.
        area_range: bounds of the part's share of the image.
        min_eject_coverage: boxes of which no more than this share lies within are left out.
        max_attempts: how many are made.

    Bounds that allow nothing give a warning, and an augmenter that does nothing.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        ratios, shares = _pair(aspect_ratio_range), _pair(area_range)
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=ratios,
            area_range=shares,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.aspect_ratio_range, self.area_range, self.max_attempts = ratios, shares, max_attempts
        self.enabled = _possible(type(self).__name__, ratios, shares, shares[1] > 0)

    def __call__(self, src: NDArray, label: Any) -> Both:
        height, width = src.shape[:2]
        for _ in range(self.max_attempts if self.enabled and height and width else 0):
            size = self._hg_size(height, width)
            if size is None:
                continue
            h, w = size
            y, x = random.randint(0, height - h), random.randint(0, width - w)
            part = (x / width, y / height, (x + w) / width, (y + h) / height)
            if w * h >= 2 and self._hg_fits(label, part, height * width):
                inside = self._hg_inside(label, part)
                if len(inside):
                    return fixed_crop(src, x, y, w, h), inside
        return src, label

    def _hg_size(self, height: int, width: int) -> tuple[int, int] | None:
        """A random height and width within the bounds, None if this attempt has none."""
        least, most = (share * height * width for share in self.area_range)
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        highest = round(math.sqrt(most / ratio))
        if round(highest * ratio) > width:
            highest = int((width + 0.4999999) / ratio)
        highest = min(highest, height)
        h = min(round(math.sqrt(least / ratio)), highest)
        if h < highest:
            h = random.randint(h, highest)
        w = round(h * ratio)
        if w * h < least:  # rounding may have gone beyond a bound
            h += 1
            w = round(h * ratio)
        if w * h > most:
            h -= 1
            w = round(h * ratio)
        return (h, w) if least <= w * h <= most and 0 <= w <= width and 0 <= h <= height else None

    def _hg_fits(self, label: Any, part: tuple[float, ...], pixels: int) -> bool:
        """Whether enough lies within of each box that is touched; and one is."""
        areas = _areas(label[:, 1:])
        visible = areas * pixels > 2
        boxes = label[visible, 1:5]
        shared = np.hstack([np.maximum(boxes[:, :2], part[:2]), np.minimum(boxes[:, 2:], part[2:])])
        covered = _areas(shared) / areas[visible]
        covered = covered[covered > 0]
        return bool(covered.size and covered.min() > self.min_object_covered)

    def _hg_inside(self, label: Any, part: tuple[float, ...]) -> Any:
        """Boxes as shares of the part."""
        left, top, right, bottom = part
        w, h = right - left, bottom - top
        out = label.copy()
        out[:, (1, 3)] = (out[:, (1, 3)] - left) / w
        out[:, (2, 4)] = (out[:, (2, 4)] - top) / h
        out[:, 1:5] = np.clip(out[:, 1:5], 0, 1)
        coverage = _areas(out[:, 1:]) * w * h / _areas(label[:, 1:])
        return out[(out[:, 3] > out[:, 1]) & (out[:, 4] > out[:, 2]) & (coverage > self.min_eject_coverage)]


class DetRandomPadAug(DetAugmenter):
    """The image somewhere in a larger one of one colour; the image itself, if no attempt fits.

    Args:
        aspect_ratio_range: bounds of width / height.
        area_range: bounds of the larger image's size, in images.
        max_attempts: how many are made.
        pad_val: the colour.

    Bounds that allow nothing give a warning, and an augmenter that does nothing.
    """

    def __init__(
        self,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ) -> None:
        ratios, shares = _pair(aspect_ratio_range), _pair(area_range)
        self.pad_val = pad_val if isinstance(pad_val, (list, tuple)) else (pad_val,)
        super().__init__(aspect_ratio_range=ratios, area_range=shares, max_attempts=max_attempts, pad_val=self.pad_val)
        self.aspect_ratio_range, self.area_range, self.max_attempts = ratios, shares, max_attempts
        self.enabled = _possible(type(self).__name__, ratios, shares, shares[1] > 1)

    def __call__(self, src: NDArray, label: Any) -> Both:
        height, width = src.shape[:2]
        for _ in range(self.max_attempts if self.enabled and height and width else 0):
            size = self._hg_size(height, width)
            if size is None:
                continue
            h, w = size
            y, x = random.randint(0, max(0, h - height)), random.randint(0, max(0, w - width))
            out = label.copy()
            out[:, (1, 3)] = (out[:, (1, 3)] * width + x) / w
            out[:, (2, 4)] = (out[:, (2, 4)] * height + y) / h
            return copyMakeBorder(src, y, h - y - height, x, w - x - width, values=self.pad_val), out
        return src, label

    def _hg_size(self, height: int, width: int) -> tuple[int, int] | None:
        """A random height and width within the bounds, None if this attempt has none."""
        least, most = (share * height * width for share in self.area_range)
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        highest, h = round(math.sqrt(most / ratio)), round(math.sqrt(least / ratio))
        if round(h * ratio) < width:
            h = int((width + 0.499999) / ratio)
        h = min(max(h, height), highest)
        if h < highest:
            h = random.randint(h, highest)
        w = round(h * ratio)
        return (h, w) if h - height >= 2 and w - width >= 2 else None


def _possible(name: str, ratios: tuple[float, float], shares: tuple[float, float], large: bool) -> bool:
    """Whether bounds allow anything; a warning if they do not."""
    for argument, (low, high), right in (("area_range", shares, large), ("aspect_ratio_range", ratios, ratios[0] > 0)):
        if not right or low > high:
            warnings.warn(f"Skip {name} due to invalid {argument}: {(low, high)}", stacklevel=user_frame())
            return False
    return True


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """One of several :class:`DetRandomCropAug` by chance; arguments that are lists have an entry for each of them.

    Raises:
        AssertionError: lists of different lengths.
    """
    arguments = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    lists = [a if isinstance(a, list) else [a] for a in arguments]
    count = max(map(len, lists))
    assert all(len(a) in (1, count) for a in lists), "lists must have the same length"
    rows = zip(*(a * count if len(a) == 1 else a for a in lists), strict=True)
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in rows], skip_prob)


def CreateDetAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:
    """The usual list of augmenters for detection, whose results are float32.

    Args:
        data_shape: (channels, height, width) of the results.
        resize: the shorter side at first; 0 leaves it.
        rand_crop, rand_pad: probabilities of :class:`DetRandomCropAug` and :class:`DetRandomPadAug`, which the last six
            arguments belong to.

    The others as for :func:`CreateAugmenter`.
    """
    augmenters: list[DetAugmenter] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        augmenters.append(
            CreateMultiRandCropAugmenter(
                min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts, 1 - rand_crop
            )
        )
    if rand_mirror:
        augmenters.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        augmenters.append(DetRandomSelectAug([pad], 1 - rand_pad))
    plain = [ForceResizeAug((data_shape[2], data_shape[1]), inter_method), CastAug()]
    plain += color_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray)
    return augmenters + [DetBorrowAug(a) for a in plain + normalizers(mean, std)]

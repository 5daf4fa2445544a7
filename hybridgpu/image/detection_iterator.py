# SPDX-License-Identifier: Apache-2.0
"""ImageDetIter: batches of images with boxes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..hints.absent_member import AbsentMember
from ..io.iterators import DataDesc
from ..ndarray import NDArray
from .boxes import CreateDetAugmenter
from .iterator import ImageIter

__all__ = ["ImageDetIter"]


class ImageDetIter(ImageIter):
    """Batches (N, 3, height, width) of images, with labels (N, most objects, width of an object); -1 fills these up.

    An image's label is: width of the header (2 or more), width of an object (5 or more), the rest of the header, then
    for each object class, left, top, right, bottom as shares of the image, and anything that follows. Images
    without a valid box after the changes are left out.

    Args:
        aug_list: augmenters; by default ``CreateDetAugmenter(data_shape, **kwargs)``.

    The others as for :class:`ImageIter`.

    Raises:
        RuntimeError: a label of another form.
    """

    draw_next = AbsentMember("image.detection.ImageDetIter")

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: list[Any] | None = None,
        imglist: list[Any] | None = None,
        data_name: str = "data",
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size, data_shape, 1, path_imgrec, path_imglist, path_root, path_imgidx, shuffle, part_index, num_parts,
            [], imglist, data_name, label_name, last_batch_handle=last_batch_handle,
        )  # fmt: skip
        self.auglist = CreateDetAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape = self._hg_largest_label()
        self.provide_label = [DataDesc(label_name, (batch_size, *self.label_shape))]

    def _hg_largest_label(self) -> tuple[int, int]:
        self.reset()
        shape = (0, 5)
        try:
            while True:
                label = self._parse_label(self.next_sample()[0])
                shape = max(shape[0], label.shape[0]), label.shape[1]
        except StopIteration:
            pass
        self.reset()
        return shape

    def _parse_label(self, label: Any) -> Any:
        """The objects of an image's label, without boxes that are empty.

        Raises:
            RuntimeError: it has another form, or no box is left.
        """
        raw = np.ravel(label.asnumpy() if isinstance(label, NDArray) else label)
        if raw.size < 7:
            raise RuntimeError(f"Label shape is invalid: {raw.shape}")
        header, width = int(raw[0]), int(raw[1])
        if width < 5 or (raw.size - header) % width:
            raise RuntimeError(f"Label shape {raw.shape} inconsistent with annotation width {width}.")
        objects = raw[header:].reshape(-1, width)
        objects = objects[(objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])]
        if not len(objects):
            raise RuntimeError("Encounter sample with no valid label.")
        return objects

    def _hg_changed(self, picture: NDArray, label: Any) -> tuple[NDArray, Any]:
        self.check_valid_image(picture)
        picture, boxes = self.augmentation_transform(picture, self._parse_label(label))
        if boxes.ndim != 2 or boxes.shape[1] < 5:
            raise RuntimeError(f"Label with shape (1+, 5+) required, {boxes} received.")
        if not ((boxes[:, 0] >= 0) & (boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])).any():
            raise RuntimeError("Invalid label occurs.")
        filled = np.full(self.label_shape, -1, np.float32)
        filled[: len(boxes)] = boxes
        return picture, filled

    def augmentation_transform(self, data: NDArray, label: Any) -> tuple[NDArray, Any]:  # type: ignore[override]
        """The image and its boxes after all augmenters."""
        for change in self.auglist:
            data, label = change(data, label)
        return data, label

    def reshape(self, data_shape: Sequence[int] | None = None, label_shape: Sequence[int] | None = None) -> None:
        """Other shapes from the next batch on.

        Raises:
            ValueError: fewer objects, or another width of an object.
        """
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.data_shape = tuple(data_shape)
            self.provide_data = [DataDesc(self.provide_data[0].name, (self.batch_size, *data_shape))]
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.label_shape = (label_shape[0], label_shape[1])
            self.provide_label = [DataDesc(self.provide_label[0].name, (self.batch_size, *self.label_shape))]

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Raises: ValueError: fewer objects, or another width of an object."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        if label_shape[0] < self.label_shape[0]:
            raise ValueError(
                f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not allowed."
            )
        if label_shape[1] != self.label_shape[1]:
            raise ValueError(f"label_shape object width inconsistent: {self.label_shape[1]} vs {label_shape[1]}.")

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give both iterators the larger number of objects; returns the other one.

        Raises:
            AssertionError: no ImageDetIter, or another width of an object.
        """
        assert isinstance(it, ImageDetIter), "Synchronize with invalid iterator."
        (ours, width), (theirs, other) = self.label_shape, it.label_shape
        assert width == other, "object width mismatch."
        for each in (self, it):
            each.reshape(None, (max(ours, theirs), width))
        if verbose and ours != theirs:
            logging.info("Resized label_shape to (%d, %d).", max(ours, theirs), width)
        return it

# SPDX-License-Identifier: Apache-2.0
"""``mx.io.ImageRecordIter``: batches of images from a record file, decoded as they are needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..core.dtypes import dtype_of
from ..io.formats.recordio import read_record, record_offsets
from ..io.images import decode_picture
from ..io.iterators import MXDataIter
from ..ndarray import NDArray, array
from ..recordio import unpack
from .augment import Augmenter, HorizontalFlipAug, RandomSizedCropAug, ResizeAug, color_augmenters
from .hls import HLSJitterAug
from .images import center_crop, copyMakeBorder, imresize, random_crop
from .iterator import listed

__all__ = ["ImageRecordIter"]

#: arguments of MXNet whose changes are not there, with the values that change nothing
_NEUTRAL: dict[str, Any] = {
    "max_rotate_angle": 0, "rotate": -1, "max_shear_ratio": 0.0, "max_crop_size": -1, "min_crop_size": -1,
    "max_random_scale": 1.0, "min_random_scale": 1.0, "max_img_size": 1e10, "min_img_size": 0.0,
    "mean_img": "", "max_random_contrast": 0.0, "max_random_illumination": 0.0,
}  # fmt: skip
#: arguments about threads and reports
_IGNORED = {
    "preprocess_threads", "prefetch_buffer", "verbose", "device_id", "ctx", "shuffle_chunk_size", "shuffle_chunk_seed",
    "aug_seq", "seed_aug",
}  # fmt: skip


class _Records:
    """Records of a file by number, in an order that may change."""

    def __init__(self, path: str, part_index: int, num_parts: int) -> None:
        try:
            self._file = open(path, "rb")
        except OSError as e:
            raise MXNetError(f'Open "{path}": {e.strerror}') from None
        self._path, self._size = path, os.fstat(self._file.fileno()).st_size
        offsets = record_offsets(self._file, self._size, path)
        if not offsets:
            raise MXNetError(
                "Check failed: files_.size() != 0U (0 vs. 0) : Cannot find any files that matches the URI pattern "
                f"{path}\nThe file is empty: write records into it with mx.recordio.MXRecordIO, and close that."
            )
        self._offsets = offsets[len(offsets) * part_index // num_parts : len(offsets) * (part_index + 1) // num_parts]
        self.order = np.arange(len(self._offsets))

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, rows: slice) -> list[tuple[Any, bytes]]:
        """(header, file) of each image."""
        offsets = [self._offsets[k] for k in self.order[rows]]
        return [unpack(read_record(self._file, at, self._size, self._path)) for at in offsets]


class _Table:
    """What ``MXDataIter`` takes rows of: made when they are asked for."""

    def __init__(self, records: _Records, shape: tuple[int, ...], dtype: Any, make: Any) -> None:
        self._records, self._make = records, make
        self.shape, self.dtype = (len(records), *shape), np.dtype(dtype)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, rows: slice) -> Any:
        samples = [self._make(header, data) for header, data in self._records[rows]]
        return np.array(samples, self.dtype).reshape(len(samples), *self.shape[1:])


class _FrameAug(Augmenter):
    """A frame of one colour."""

    def __init__(self, width: int, value: float) -> None:
        super().__init__(width=width, value=value)
        self.width, self.value = width, value

    def __call__(self, src: NDArray) -> NDArray:
        return copyMakeBorder(src, self.width, self.width, self.width, self.width, value=self.value)


class ImageRecordIter(MXDataIter):
    """Batches (N, channels, height, width) of images, with labels.

    Args:
        path_imgrec: the file of records, as ``mx.recordio.pack_img`` makes them.
        data_shape: (channels, height, width); one channel reads grey images.
        batch_size: images a batch.
        label_width: labels an image; one gives labels (N,).
        path_imglist: labels by the records' numbers, instead of those in the records.
        shuffle, seed: a new random order every epoch (not MXNet's).
        part_index, num_parts: only one of several equal parts.
        round_batch: fill a last batch from the start, and begin the next epoch behind that.
        dtype: 'float32', 'uint8' or 'int8'.
        resize: the shorter side before cropping; 0 or less leaves it. Images that are too small are enlarged.
        pad: a frame of so many pixels of ``fill_value`` before cropping.
        rand_crop: crop somewhere instead of the middle.
        random_resized_crop: crop parts whose share lies between ``min_random_area`` and ``max_random_area``, and
            whose width / height between ``min_aspect_ratio`` and ``max_aspect_ratio``.
        rand_mirror, mirror: flip half of the images, or all.
        brightness, contrast, saturation, pca_noise: reach of random changes, 0 for none.
        random_h, random_s, random_l: reach of random changes of hue (180 is the circle), saturation and lightness (255).
        inter_method: how to resize.
        mean_r …, std_r …, scale: values become (value - mean) * scale / std.

    MXNet's other arguments are accepted where they change nothing; random numbers are Python's and NumPy's.

    Raises:
        MXNetError: the file is missing or holds no records; another change is asked for.
    """

    def __init__(
        self,
        path_imgrec: str,
        data_shape: Sequence[int],
        batch_size: int,
        label_width: int = 1,
        path_imglist: str = "",
        path_imgidx: str = "",
        shuffle: bool = False,
        seed: int = 0,
        part_index: int = 0,
        num_parts: int = 1,
        round_batch: bool = True,
        dtype: Any = None,
        resize: int = -1,
        pad: int = 0,
        fill_value: int = 255,
        rand_crop: bool = False,
        random_resized_crop: bool = False,
        max_random_area: float = 1.0,
        min_random_area: float = 1.0,
        max_aspect_ratio: float = 0.0,
        min_aspect_ratio: float | None = None,
        rand_mirror: bool = False,
        mirror: bool = False,
        brightness: float = 0.0,
        contrast: float = 0.0,
        saturation: float = 0.0,
        pca_noise: float = 0.0,
        random_h: int = 0,
        random_s: int = 0,
        random_l: int = 0,
        inter_method: int = 1,
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        mean_a: float = 0.0,
        std_r: float = 1.0,
        std_g: float = 1.0,
        std_b: float = 1.0,
        std_a: float = 1.0,
        scale: float = 1.0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        for name, value in kwargs.items():
            if name not in _IGNORED and (name not in _NEUTRAL or value != _NEUTRAL[name]):
                raise MXNetError(
                    f"ImageRecordIter: the argument {name}={value!r} is not there\nWrite the change as an augmenter of "
                    "mx.image.ImageIter, or as a transform of gluon.data.vision.ImageRecordDataset."
                )
        kind = dtype_of(dtype or "float32").np
        if kind.name not in ("float32", "uint8", "int8"):
            raise MXNetError(f"ImageRecordIter makes float32, uint8 and int8, not {kind.name}")
        channels, height, width = data_shape
        if channels not in (1, 3):
            raise MXNetError(f"data_shape must have 1 or 3 channels, not {channels}")
        if channels == 1 and (random_h or random_s or random_l):
            raise MXNetError("random_h, random_s and random_l change colours: data_shape must have 3 channels")
        if not 0 <= part_index < num_parts:
            raise MXNetError(f"part_index must be between 0 and {num_parts - 1}, got {part_index}")
        self._hg_grey, self._hg_size, self._hg_crop_at_random = channels == 1, (width, height), rand_crop
        self._hg_interp, self._hg_label_width = inter_method, label_width
        self._hg_before: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
        if pad > 0:
            self._hg_before.append(_FrameAug(pad, fill_value))
        if random_resized_crop:
            ratios = (min_aspect_ratio or 3 / 4, max_aspect_ratio or 4 / 3)
            area = (min_random_area, max_random_area)
            self._hg_before.append(RandomSizedCropAug(self._hg_size, area, ratios, inter_method))
        self._hg_after: list[Augmenter] = [HorizontalFlipAug(1.0 if mirror else 0.5)] if rand_mirror or mirror else []
        self._hg_after += color_augmenters(brightness, contrast, saturation, 0, 0, 0)
        if random_h or random_s or random_l:
            self._hg_after.append(HLSJitterAug(random_h, random_l, random_s))
        self._hg_after += color_augmenters(0, 0, 0, 0, pca_noise, 0)
        means, stds = [mean_r, mean_g, mean_b], [std_r, std_g, std_b]
        self._hg_mean = np.array(means[:channels], np.float32).reshape(-1, 1, 1)
        self._hg_factor = scale / np.array(stds[:channels], np.float32).reshape(-1, 1, 1)
        self._hg_labels = {number: labels for number, labels, _ in listed(path_imglist)} if path_imglist else None
        self._hg_records = _Records(os.fspath(path_imgrec), part_index, num_parts)
        self._hg_random = np.random.default_rng(seed) if shuffle else None
        super().__init__(
            _Table(self._hg_records, (channels, height, width), kind, self._hg_picture),
            _Table(self._hg_records, (label_width,) if label_width > 1 else (), np.float32, self._hg_label_of),
            np.arange(len(self._hg_records), dtype=np.uint64),
            batch_size,
            data_name,
            label_name,
            round_batch,
        )
        self._hg_shuffle()

    def reset(self) -> None:
        """Begin again, in a new order if it is random."""
        super().reset()
        self._hg_shuffle()

    def _hg_shuffle(self) -> None:
        if self._hg_random is not None:
            self._hg_random.shuffle(self._hg_records.order)

    def _hg_label_of(self, header: Any, _: bytes) -> Any:
        if self._hg_labels is None:
            label = header.label
        elif header.id in self._hg_labels:
            label = self._hg_labels[header.id]
        else:
            raise MXNetError(f"Check failed: it != idx2label_.end(): fail to find imagelabel for id {header.id}")
        values = np.ravel(label)
        if values.size != self._hg_label_width:
            raise MXNetError(f"record {header.id} has {values.size} labels, not label_width={self._hg_label_width}")
        return values

    def _hg_picture(self, header: Any, data: bytes) -> Any:
        picture = array(decode_picture(data, 0 if self._hg_grey else 1, f"record {header.id}"), dtype="uint8")
        for change in self._hg_before:
            picture = change(picture)
        width, height = self._hg_size
        rows, columns = picture.shape[:2]
        if rows < height:
            rows, columns = height, columns * height // rows
        if columns < width:
            rows, columns = rows * width // columns, width
        if (rows, columns) != picture.shape[:2]:
            picture = imresize(picture, columns, rows, self._hg_interp)
        crop = random_crop if self._hg_crop_at_random else center_crop
        picture = crop(picture, self._hg_size, self._hg_interp)[0].astype("float32")
        for change in self._hg_after:
            picture = change(picture)
        values = (picture.asnumpy().transpose(2, 0, 1) - self._hg_mean) * self._hg_factor
        kind = self.provide_data[0].dtype
        if kind is not np.float32:
            bounds = np.iinfo(kind)
            values = np.clip(np.round(values), bounds.min, bounds.max)
        return values

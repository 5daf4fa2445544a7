# SPDX-License-Identifier: Apache-2.0
"""ImageIter: batches of augmented images from files or records."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError
from ..io.iterators import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray, array
from ..ndarray.mode import of_mode
from ..recordio import MXIndexedRecordIO, MXRecordIO, unpack
from .augment import CreateAugmenter
from .images import imdecode

__all__ = ["ImageIter"]


class ImageIter(DataIter):
    """Batches (N, 3, height, width) of images, with labels.

    Args:
        batch_size: images a batch.
        data_shape: (3, height, width).
        label_width: labels an image.
        path_imgrec: a file of records, as ``mx.recordio.pack_img`` makes them.
        path_imgidx: its index; needed to shuffle, or for parts.
        path_imglist: a list of files: lines of number, labels and path, with tabs between.
        imglist: the same as a Python list of [label, path] or [labels …, path].
        path_root: folder of the files.
        shuffle: a new order every pass.
        part_index, num_parts: only that part of the images.
        aug_list: augmenters; by default ``CreateAugmenter(data_shape, **kwargs)``.
        data_name, label_name: names in ``provide_data`` and ``provide_label``.
        dtype: of the labels in lists.
        last_batch_handle: what the last batch is if images are left over: 'pad' fills it from the beginning,
            'discard' leaves it out, 'roll_over' begins the next pass with it.

    Raises:
        AssertionError: no source, another ``dtype``, records without index where one is needed.
        ValueError: another ``data_shape``.
        RuntimeError: (while iterating) a file that is no image.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        label_width: int = 1,
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
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        assert path_imgrec or path_imglist or isinstance(imglist, list), (
            "one of path_imgrec, path_imglist and imglist must be given"
        )
        assert dtype in ("int32", "float32", "int64", "float64"), dtype + " label not supported"
        self.imgrec: Any = None
        self.imgidx: list[Any] | None = None
        if path_imgrec and path_imgidx:
            self.imgrec = MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
            self.imgidx = list(self.imgrec.keys)
        elif path_imgrec:
            self.imgrec = MXRecordIO(path_imgrec, "r")
        self.imglist: dict[Any, tuple[NDArray, str]] | None = None
        if path_imglist:
            self.imglist = _listed(path_imglist, dtype)
        elif isinstance(imglist, list):
            self.imglist = {str(k): (_label(entry, dtype), entry[-1]) for k, entry in enumerate(imglist, 1)}
        self.path_root = path_root
        self.check_data_shape(data_shape)
        self.data_shape, self.label_width = tuple(data_shape), label_width
        self.provide_data = [DataDesc(data_name, (batch_size, *self.data_shape))]
        labels = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_label = [DataDesc(label_name, labels)]
        self.shuffle = shuffle
        self.seq: list[Any] | None = None
        if self.imgrec is None:
            assert self.imglist is not None
            self.seq = list(self.imglist)
        elif shuffle or num_parts > 1 or path_imgidx:
            assert self.imgidx is not None, "path_imgidx must be given to shuffle records, or to take a part of them"
            self.seq = self.imgidx
        if num_parts > 1:
            assert part_index < num_parts and self.seq is not None, f"there are parts 0 to {num_parts - 1}"
            each = len(self.seq) // num_parts
            self.seq = self.seq[part_index * each : (part_index + 1) * each]
        self.auglist: list[Any] = CreateAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list
        self.cur = 0
        self.last_batch_handle = last_batch_handle
        self.num_image = None if self.seq is None else len(self.seq)
        self._hg_ended = False
        self._hg_rest: tuple[Any, Any, int] | None = None  # a batch that was begun: data, labels, number of images
        self.reset()

    def reset(self) -> None:
        """Begin a pass; with the images left over from the last one, if these roll over."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._hg_rest is None:
            self._hg_rewind()

    def hard_reset(self) -> None:
        """Begin anew, whatever was left over."""
        self._hg_rest = None
        self.reset()

    def _hg_rewind(self) -> None:
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur, self._hg_ended = 0, False

    def next_sample(self) -> tuple[Any, bytes]:
        """Label and file of the next image.

        Raises:
            StopIteration: there is none.
        """
        if self._hg_ended:
            raise StopIteration
        if self.seq is None:
            record = self.imgrec.read()
            if record is None:
                if self.last_batch_handle != "discard":
                    self.imgrec.reset()
                    self.cur = 0
                raise StopIteration
            self.cur += 1
            header, data = unpack(record)
            return header.label, data
        assert self.num_image is not None
        if self.cur >= self.num_image:
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            assert self.imglist is not None
            label, name = self.imglist[key]
            return label, self.read_image(name)
        header, data = unpack(self.imgrec.read_idx(key))
        return header.label if self.imglist is None else self.imglist[key][0], data

    def _hg_fill(self, data: Any, labels: Any, start: int = 0) -> int:
        """Put images in their places from ``start`` on; gives the number of places that are filled.

        Raises:
            StopIteration: none is.
        """
        i = start
        try:
            while i < self.batch_size:
                label, file = self.next_sample()
                picture = self.imdecode(file)
                try:
                    picture, value = self._hg_changed(picture, label)
                except RuntimeError as e:
                    logging.debug("Invalid image, skipping:  %s", e)
                    continue
                data[i] = self.postprocess_data(picture).asnumpy()
                labels[i] = value.reshape(labels.shape[1:]) if value.size == labels[i].size else value
                i += 1
        except StopIteration:
            if not i:
                raise
        return i

    def _hg_changed(self, picture: NDArray, label: Any) -> tuple[NDArray, Any]:
        """The image after all changes, and its label as a NumPy array.

        Raises:
            RuntimeError: it is to be left out.
        """
        self.check_valid_image(picture)
        value = label.asnumpy() if isinstance(label, NDArray) else np.asarray(label)
        return self.augmentation_transform(picture), value

    def next(self) -> DataBatch:
        """The next batch.

        Raises:
            StopIteration: there is none.
        """
        if self._hg_rest is not None:
            data, labels, count = self._hg_rest
        else:
            data = np.zeros(self.provide_data[0].shape, np.float32)
            labels = np.zeros(self.provide_label[0].shape, np.float32)
            count = self._hg_fill(data, labels)
        pad = self.batch_size - count
        if pad:
            if self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over" and self._hg_rest is None:
                self._hg_rest = data, labels, count
                raise StopIteration
            self._hg_fill(data, labels, count)
            if self.last_batch_handle == "pad":
                self._hg_ended = True
            else:
                self._hg_rest = None
        return DataBatch([of_mode(array(data))], [of_mode(array(labels))], pad=pad)

    # -- steps that subclasses may change

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Raises: ValueError: not (3, height, width)."""
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data: NDArray) -> None:
        """Raises: RuntimeError: no image; it is left out."""
        if data.ndim < 2:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """The image in a file's bytes.

        Raises:
            RuntimeError: there is none; the message names the file.
        """
        try:
            return imdecode(s)
        except (MXNetError, ValueError) as e:
            raise RuntimeError(f"Broken image {self._hg_place()}, {e}") from None

    def _hg_place(self) -> str:
        if self.seq is None:
            return f"index: {self.cur - 1}"
        key = self.seq[self.cur - 1]
        return f"index: {key}" if self.imglist is None else f"filename: {self.imglist[key][1]}"

    def read_image(self, fname: str) -> bytes:
        """The bytes of a file under ``path_root``."""
        with open(os.path.join(self.path_root or "", fname), "rb") as file:
            return file.read()

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """The image after all augmenters."""
        for change in self.auglist:
            data = change(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """(height, width, channels) -> (channels, height, width)."""
        turned: NDArray = nd.transpose(datum, axes=(2, 0, 1))
        return turned


def _label(entry: Sequence[Any], dtype: str) -> NDArray:
    """Labels of [label, path], [[labels …], path] or [labels …, path]."""
    if len(entry) > 2:
        return array(entry[:-1], dtype=dtype)
    return array([entry[0]] if isinstance(entry[0], Number) else entry[0], dtype=dtype)


def _listed(path: str, dtype: str) -> dict[Any, tuple[NDArray, str]]:
    """(labels, file) by number, from a list of files."""
    return {number: (array(labels, dtype=dtype), name) for number, labels, name in listed(path)}


def listed(path: str) -> Iterator[tuple[int, list[float], str]]:
    """Number, labels and file of each line of a list, with tabs between."""
    with open(path) as lines:
        for line in lines:
            number, *labels, name = line.strip().split("\t")
            yield int(number), [float(v) for v in labels], name

# SPDX-License-Identifier: Apache-2.0
"""CSVIter and MNISTIter: batches from files, which are read whole."""

from __future__ import annotations

import gzip
import logging
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.dtypes import dtype_of
from ...ndarray import NDArray
from ...ndarray import array as make_array
from .base import DataBatch, DataDesc, DataIter

__all__ = ["CSVIter", "MNISTIter", "MXDataIter"]


class MXDataIter(DataIter):
    """Base of iterators over files: two tables of samples, in batches.

    Args:
        data, label: samples along the first axis.
        indices: numbers of the samples.
        round_batch: fill a last batch from the start, and begin the next epoch behind that.
        partial: whether a last batch that is too short is handed out at all.
    """

    def __init__(
        self,
        data: Any,
        label: Any,
        indices: Any,
        batch_size: int,
        data_name: str,
        label_name: str,
        round_batch: bool = False,
        partial: bool = True,
    ) -> None:
        super().__init__(batch_size)
        if round_batch and len(data) < batch_size:
            raise MXNetError(
                "Check failed: base_->Next(): number of input must be bigger than batch size\n"
                f"There are {len(data)} samples for batches of {batch_size}; or pass round_batch=False."
            )
        self._hg_data, self._hg_label, self._hg_indices = data, label, indices
        self._hg_round, self._hg_partial = round_batch, partial
        self.provide_data = [DataDesc(data_name, (batch_size, *data.shape[1:]), data.dtype.type)]
        self.provide_label = [DataDesc(label_name, (batch_size, *label.shape[1:]), label.dtype.type)]
        self._hg_only_first = False
        self._hg_first = 0  # sample at which the epoch begins
        self._hg_at = -batch_size

    def reset(self) -> None:
        """Begin again, with ``round_batch`` behind the samples that filled the last batch."""
        self._hg_first = (
            max(0, self._hg_at + self.batch_size - len(self._hg_data)) if self._hg_round and self._hg_ended() else 0
        )
        self._hg_at = self._hg_first - self.batch_size

    def debug_skip_load(self) -> None:
        """Give the first batch again and again, to measure what does not load."""
        self._hg_only_first = True
        logging.info("Set debug_skip_load to be true, will simply return first batch")

    def _hg_ended(self) -> bool:
        return self._hg_at >= 0 and self._hg_at + self.batch_size >= len(self._hg_data)

    def iter_next(self) -> bool:
        """Go to the next batch; False at the end."""
        if self._hg_only_first and self._hg_at >= 0:
            return True
        following = self._hg_at + self.batch_size
        last = len(self._hg_data) - (0 if self._hg_partial else self.batch_size - 1)
        if following >= last:
            return False
        self._hg_at = following
        return True

    def next(self) -> DataBatch:
        """The next batch."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=[self.getdata()], label=[self.getlabel()], pad=self.getpad(), index=self.getindex())

    def _hg_rows(self, table: Any) -> Any:
        assert self._hg_at >= 0, "there is no batch before the first iter_next() or next()"
        rows = table[self._hg_at : self._hg_at + self.batch_size]
        missing = self.batch_size - len(rows)
        if not missing:
            return rows
        # without rounding, the rows of the batch before stay, as in MXNet
        before = self._hg_at - self.batch_size
        fill = table[:missing] if self._hg_round else table[before + len(rows) : before + self.batch_size]
        if not self._hg_round and before < 0:
            fill = np.zeros((missing, *table.shape[1:]), table.dtype)
        return np.concatenate([rows, fill])

    def getdata(self) -> NDArray:
        """Data of the batch."""
        rows = self._hg_rows(self._hg_data)
        return make_array(rows, dtype=rows.dtype)

    def getlabel(self) -> NDArray:
        """Labels of the batch."""
        rows = self._hg_rows(self._hg_label)
        return make_array(rows, dtype=rows.dtype)

    def getindex(self) -> Any:
        """Numbers of the samples, a NumPy array."""
        return self._hg_rows(self._hg_indices).copy()

    def getpad(self) -> int:
        """How many samples only fill the batch."""
        return max(0, self._hg_at + self.batch_size - len(self._hg_data))


def _read(fname: str) -> bytes:
    try:
        return Path(fname).read_bytes()
    except OSError as e:
        raise MXNetError(f'Open "{fname}": {e.strerror}') from None


def _table(fname: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """The rows of a file, or of all files of a folder, each of ``shape``."""
    path = Path(fname)
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    size, rows = prod(shape), []
    for file in files:
        for number, line in enumerate(_read(str(file)).decode("utf-8", "replace").splitlines(), 1):
            if not line.strip():
                continue
            entries = line.split(",")
            if len(entries) != size:
                raise MXNetError(
                    f"Check failed: row.length == shape.Size() ({len(entries)} vs. {size}) : The data size in CSV do not "
                    f"match size of shape: specified shape={list(shape)}, the csv row-length={len(entries)}\n"
                    f"Line {number} of {file}."
                )
            try:
                # whole numbers beyond 2**53 must not go through float64
                rows.append([_whole(e) if dtype.kind == "i" else float(e) for e in entries])
            except ValueError:
                raise MXNetError(f"Line {number} of {file} has an entry that is no number: {line[:80]!r}") from None
    try:
        return np.array(rows, dtype).reshape(len(rows), *shape)
    except OverflowError:
        raise MXNetError(f"{fname} has numbers that are too large for {dtype}") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


class CSVIter(MXDataIter):
    """Batches of comma-separated values.

    Args:
        data_csv, label_csv: files, or folders whose files are read; without ``label_csv`` labels are 0.
        data_shape, label_shape: of one sample, which is one line.
        batch_size: samples a batch.
        round_batch: fill a last batch from the start, and begin the next epoch behind that.
        dtype: 'float32', 'int32' or 'int64'.

    Raises:
        MXNetError: a file is missing, or a line does not fit.
    """

    def __init__(
        self,
        data_csv: str,
        data_shape: Sequence[int],
        batch_size: int,
        label_csv: str | None = None,
        label_shape: Sequence[int] = (1,),
        round_batch: bool = True,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **_: Any,
    ) -> None:
        kind = dtype_of(dtype or "float32").np
        if kind.name not in ("float32", "int32", "int64"):
            raise MXNetError(f"CSVIter reads float32, int32 and int64, not {kind.name}")
        data = _table(data_csv, tuple(data_shape), kind)
        labels = tuple(label_shape)
        if label_csv in (None, "NULL"):
            label = np.zeros((len(data), *labels), kind)
        else:
            label = _table(str(label_csv), labels, kind)
            if len(label) < len(data):
                raise MXNetError(f"{label_csv} has {len(label)} rows, but {data_csv} has {len(data)}")
        if labels == (1,):
            label = label.reshape(-1)
        numbers = np.arange(len(data), dtype=np.uint64)
        super().__init__(data, label[: len(data)], numbers, batch_size, data_name, label_name, round_batch)


def _idx(fname: str, dimensions: int) -> Any:
    """The bytes of a file of MNIST's format; compressed ones too."""
    data = _read(fname)
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as e:
            raise MXNetError(f"{fname} is no valid gzip file: {e}") from None
    head = 4 + 4 * dimensions
    if len(data) < head or struct.unpack(">I", data[:4])[0] != 0x800 + dimensions:
        raise MXNetError(f"{fname} is no file of MNIST's format with {dimensions} dimensions of bytes")
    shape = struct.unpack(f">{dimensions}I", data[4:head])
    if prod(shape) > len(data) - head:
        raise MXNetError(f"{fname} is cut short: shape {list(shape)}, but {len(data) - head} bytes")
    return np.frombuffer(data, np.uint8, prod(shape), head).reshape(shape)


class MNISTIter(MXDataIter):
    """Batches of MNIST's files, images as float32 from 0 to below 1; a last batch that is too short is left out.

    Args:
        image, label: files, which may be compressed (gzip).
        shuffle, seed: one random order for all epochs (not MXNet's: its generator is the C++ library's).
        flat: images as rows.
        silent: do not log how much was read.
        num_parts, part_index: read one of several equal parts.

    Raises:
        MXNetError: a file is missing or of another format.
    """

    def __init__(
        self,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **_: Any,
    ) -> None:
        pictures, labels = _idx(image, 3), _idx(label, 1)
        if len(pictures) != len(labels):
            raise MXNetError(f"{image} has {len(pictures)} pictures, but {label} has {len(labels)} labels")
        if not 0 <= part_index < num_parts:
            raise MXNetError(f"part_index must be between 0 and {num_parts - 1}, got {part_index}")
        part = slice(len(labels) * part_index // num_parts, len(labels) * (part_index + 1) // num_parts)
        data = pictures[part].astype(np.float32) / 256
        data = data.reshape(len(data), -1) if flat else data[:, None]
        numbers = labels[part].astype(np.float32)
        if shuffle:
            order = np.random.default_rng(seed).permutation(len(numbers))
            data, numbers = data[order], numbers[order]
        if not silent:
            # logging.info would give the root logger its handler, and the program's basicConfig would do nothing
            logging.getLogger(__name__).info(
                "MNISTIter: load %d images, shuffle=%d, shape=%s", len(data), shuffle, (batch_size, *data.shape[1:])
            )
        index = np.zeros(len(numbers), np.uint64)
        super().__init__(data, numbers, index, batch_size, data_name, label_name, partial=False)

# SPDX-License-Identifier: Apache-2.0
"""Datasets of images, read from files that are there; nothing is downloaded."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ....base import MXNetError, data_dir
from ....io.images import decode_picture, read_picture
from ....ndarray.creation import array
from ....ndarray.mode import of_mode
from ....util import is_np_array
from ..dataset import Dataset, RecordFileDataset

__all__ = ["CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset"]


class _Files(Dataset):
    """Images and labels from files of a folder.

    Args:
        root: the folder.
        transform: ``transform(image, label)`` of every sample.
    """

    def __init__(self, root: str | None, folder: str, transform: Callable[..., Any] | None) -> None:
        self._root = Path(root).expanduser() if root else Path(data_dir()) / "datasets" / folder
        self._transform = transform
        self._data, self._label = self._hg_read()

    def _hg_read(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def _hg_open(self, *names: str) -> Path:
        for name in names:
            if (self._root / name).exists():
                return self._root / name
        raise MXNetError(
            f"{type(self).__name__}: none of {', '.join(names)} is in {self._root}\n"
            "Nothing is downloaded: put the dataset's original files there, or give their folder as root."
        )

    def __getitem__(self, idx: Any) -> Any:
        picture, label = self._data[idx], self._label[idx]
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __len__(self) -> int:
        return len(self._label)


def _idx(path: Path) -> Any:
    """An array of an IDX file (LeCun's MNIST format), compressed or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as f:
        data = f.read()
    if len(data) < 4 or data[0] or data[1] or data[2] != 8:
        raise MXNetError(f"{path} is no IDX file of bytes")
    ndim = data[3]
    shape = struct.unpack_from(f">{ndim}I", data, 4) if len(data) >= 4 + 4 * ndim else ()
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * ndim)
    if values.size != int(np.prod(shape, dtype=np.int64)):
        raise MXNetError(f"{path} is cut short: it should hold {shape} bytes and holds {values.size}")
    return values.reshape(shape)


def _held(pictures: Any) -> Any:
    return of_mode(array(pictures, dtype=np.uint8))


def _labels(numbers: Any) -> Any:
    """int32: a NumPy array, or in np mode an array of np."""
    labels = numbers.astype(np.int32)
    return of_mode(array(labels, dtype=np.int32)) if is_np_array() else labels


class MNIST(_Files):
    """Handwritten digits: uint8 images of 28 x 28 x 1, int32 labels.

    Args:
        root: folder of the four IDX files, compressed or not; default ``~/.mxnet/datasets/mnist``.
        train: the 60,000 training samples, or the 10,000 test samples.
        transform: ``transform(image, label)``.
    """

    _hg_folder = "mnist"

    def __init__(
        self, root: str | None = None, train: bool = True, transform: Callable[..., Any] | None = None
    ) -> None:
        self._train = train
        super().__init__(root, self._hg_folder, transform)

    def _hg_read(self) -> tuple[Any, Any]:
        kind = "train" if self._train else "t10k"
        pictures = _idx(self._hg_open(f"{kind}-images-idx3-ubyte.gz", f"{kind}-images-idx3-ubyte"))
        labels = _idx(self._hg_open(f"{kind}-labels-idx1-ubyte.gz", f"{kind}-labels-idx1-ubyte"))
        return _held(pictures.reshape(-1, 28, 28, 1)), _labels(labels)


class FashionMNIST(MNIST):
    """Articles of clothing in MNIST's format; default root ``~/.mxnet/datasets/fashion-mnist``."""

    _hg_folder = "fashion-mnist"


class CIFAR10(_Files):
    """Small photographs: uint8 images of 32 x 32 x 3, int32 labels of 10 classes.

    Args:
        root: folder of the binary version (``data_batch_1.bin`` … or its tar.gz), or of the Python version.
        train: the 50,000 training samples, or the 10,000 test samples.
        transform: ``transform(image, label)``.
    """

    def __init__(
        self, root: str | None = None, train: bool = True, transform: Callable[..., Any] | None = None
    ) -> None:
        self._train, self._hg_skip = train, 1
        self._hg_archive = "cifar-10-binary.tar.gz"
        self._hg_names = [f"data_batch_{k}.bin" for k in range(1, 6)] if train else ["test_batch.bin"]
        super().__init__(root, "cifar10", transform)

    def _hg_bytes(self, name: str) -> bytes:
        if not (self._root / name).exists() and (self._root / self._hg_archive).exists():
            with tarfile.open(self._root / self._hg_archive) as tar:
                for member in tar.getmembers():
                    if os.path.basename(member.name) == name and member.isfile():
                        stream = tar.extractfile(member)
                        assert stream is not None
                        return stream.read()
        return self._hg_open(name).read_bytes()

    def _hg_read(self) -> tuple[Any, Any]:
        row = 3072 + self._hg_skip
        parts = []
        for name in self._hg_names:
            data = np.frombuffer(self._hg_bytes(name), np.uint8)
            if data.size % row:
                raise MXNetError(f"{name} in {self._root} is cut short: its size is no multiple of {row}")
            parts.append(data.reshape(-1, row))
        rows = np.concatenate(parts)
        pictures = rows[:, self._hg_skip :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return _held(pictures), _labels(rows[:, self._hg_label_column()])

    def _hg_label_column(self) -> int:
        return 0


class CIFAR100(CIFAR10):
    """As CIFAR10 with 100 classes (``fine_label``) or 20 superclasses; default root ``~/.mxnet/datasets/cifar100``."""

    def __init__(
        self,
        root: str | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self._train, self._hg_fine, self._hg_skip = train, fine_label, 2
        self._hg_archive = "cifar-100-binary.tar.gz"
        self._hg_names = ["train.bin" if train else "test.bin"]
        _Files.__init__(self, root, "cifar100", transform)

    def _hg_label_column(self) -> int:
        return int(self._hg_fine)


class ImageFolderDataset(Dataset):
    """Images in one folder a class: ``root/class/image``. ``.npy`` files always; others by the package Pillow.

    Args:
        root: the folder.
        flag: 1 for colours, 0 for grey.
        transform: ``transform(image, label)``.

    Attributes:
        synsets: names of the classes, sorted; a label is a position here.
        items: (file, label).
    """

    _hg_extensions = (".jpg", ".jpeg", ".png", ".npy")

    def __init__(self, root: str, flag: int = 1, transform: Callable[..., Any] | None = None) -> None:
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=2)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                if os.path.splitext(name)[1].lower() not in self._hg_extensions:
                    warnings.warn(
                        f"Ignoring {os.path.join(path, name)} of type {os.path.splitext(name)[1]}. "
                        f"Only support {', '.join(self._hg_extensions)}",
                        stacklevel=2,
                    )
                    continue
                self.items.append((os.path.join(path, name), label))

    def __getitem__(self, idx: int) -> Any:
        file, label = self.items[idx]
        picture = _held(read_picture(file, self._flag))
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __len__(self) -> int:
        return len(self.items)


class ImageRecordDataset(RecordFileDataset):
    """Images in a file of records (``name.rec`` with ``name.idx``), each packed with its label.

    Args:
        filename: the file of records; ``mx.recordio.pack`` makes what is in it.
        flag: 1 for colours, 0 for grey.
        transform: ``transform(image, label)``.

    Raises:
        MXNetError: a record that holds no image.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Callable[..., Any] | None = None) -> None:
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: int) -> Any:
        from ....recordio import unpack

        header, data = unpack(super().__getitem__(idx))
        picture = _held(decode_picture(data, self._flag, f"record {idx}"))
        return (picture, header.label) if self._transform is None else self._transform(picture, header.label)

# SPDX-License-Identifier: Apache-2.0
"""Datasets that older programs load by a function. Nothing is downloaded: the files must be there."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..base import MXNetError, data_dir
from ..gluon.data.vision import MNIST
from ..iterators import MNISTIter

__all__ = ["get_cifar10", "get_mnist", "get_mnist_iterator", "get_mnist_ubyte"]

_MNIST = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def get_mnist() -> dict[str, Any]:
    """MNIST as NumPy arrays: train_data and test_data, float32 from 0 to 1, (N, 1, 28, 28); train_label and test_label,
    int8.

    Its four IDX files, compressed or not, lie in the current folder, in ``data``, or in ``~/.mxnet/datasets/mnist``.

    Raises:
        MXNetError: they do not.
    """
    folders = [".", "data", os.path.join(data_dir(), "datasets", "mnist")]
    found = [f for f in folders if any(os.path.exists(os.path.join(f, _MNIST[0] + end)) for end in ("", ".gz"))]
    if not found:
        raise MXNetError(
            f"get_mnist: {_MNIST[0]}.gz is in none of the folders {', '.join(folders)}\n"
            "Nothing is downloaded: put the dataset's four original files into one of them."
        )
    arrays = {}
    for name, train in (("train", True), ("test", False)):
        pictures, labels = MNIST(found[0], train)[:]
        arrays[f"{name}_data"] = pictures.asnumpy().transpose(0, 3, 1, 2).astype(np.float32) / 255
        arrays[f"{name}_label"] = labels.astype(np.int8)
    return arrays


def _need(names: list[str], folder: str) -> None:
    missing = [name for name in names if not os.path.exists(os.path.join(folder, name))]
    if missing:
        raise MXNetError(
            f"{', '.join(missing)} not found in {folder}\nNothing is downloaded: put the dataset's files there."
        )


def get_mnist_ubyte() -> None:
    """Check that MNIST's four files are in ``data``, uncompressed.

    Raises:
        MXNetError: one is missing.
    """
    _need(_MNIST, "data")


def get_cifar10() -> None:
    """Check that ``data/cifar`` holds CIFAR-10 as records: train.rec, train.lst, test.rec and test.lst.

    Raises:
        MXNetError: one is missing.
    """
    _need(["train.rec", "test.rec", "train.lst", "test.lst"], os.path.join("data", "cifar"))


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[MNISTIter, MNISTIter]:
    """Iterators over MNIST's training and test pictures, from the files in ``data``.

    Args:
        input_shape: pictures are flat unless it has three numbers.
        num_parts, part_index: read one of several equal parts.

    Raises:
        MXNetError: a file is missing.
    """
    get_mnist_ubyte()
    train, test = (
        MNISTIter(
            image=f"data/{part}-images-idx3-ubyte",
            label=f"data/{part}-labels-idx1-ubyte",
            batch_size=batch_size,
            shuffle=part == "train",
            flat=len(input_shape) != 3,
            num_parts=num_parts,
            part_index=part_index,
        )
        for part in ("train", "t10k")
    )
    return train, test

# SPDX-License-Identifier: Apache-2.0
"""Datasets that older programs load by a function. Nothing is downloaded: the files must be there."""

from __future__ import annotations

import bz2
import os
import shutil
import zipfile
from typing import Any

import numpy as np

from ..base import MXNetError, data_dir
from ..gluon.data.vision import MNIST
from ..io.iterators import MNISTIter
from .files import download

__all__ = [
    "download_model",
    "get_bz2_data",
    "get_cifar10",
    "get_im2rec_path",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_zip_data",
]

_MNIST = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def get_mnist() -> dict[str, Any]:
    """MNIST as NumPy arrays: train_data and test_data, float32 from 0 to 1, (N, 1, 28, 28); train_label and test_label,
    int8.

    Its four IDX files, compressed or not, lie in the current folder, in ``data``, or in ``~/.mxnet/datasets/mnist``.

    Raises:
        MXNetError: they do not.
    """
    folders = [".", "data", os.path.join(data_dir(), "datasets", "mnist")]
    existing = [f for f in folders if any(os.path.exists(os.path.join(f, _MNIST[0] + end)) for end in ("", ".gz"))]
    if not existing:
        raise MXNetError(
            f"get_mnist: {_MNIST[0]}.gz is in none of the folders {', '.join(folders)}\n"
            "Nothing is downloaded: put the dataset's four original files into one of them."
        )
    arrays = {}
    for name, train in (("train", True), ("test", False)):
        pictures, labels = MNIST(existing[0], train)[:]
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


def get_mnist_pkl() -> None:
    """Check that ``data`` has MNIST as one pickled file.

    Raises:
        MXNetError: it has not.
    """
    _need(["mnist.pkl.gz"], "data")


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Fetch an archive into a folder and unpack it there, unless it is there."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, dirname=data_dir, overwrite=False)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Fetch a compressed file into a folder and unpack it as ``data_name``, unless that is there."""
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if not os.path.exists(target):
        download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
        with bz2.open(packed) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)
        os.remove(packed)


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """The program ``tools/im2rec.py`` of MXNet's sources, which $MXNET_HOME names; this package has none.

    Raises:
        OSError: it is not there.
    """
    path = os.path.join(os.environ.get(home_env, ""), "tools", "im2rec.py")
    if home_env not in os.environ or not os.path.isfile(path):
        raise OSError(
            f"Could not find path to tools/im2rec.py\nSet {home_env} to a folder with MXNet's sources, or write records "
            "with mx.recordio.MXIndexedRecordIO and mx.recordio.pack_img."
        )
    return path


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None) -> tuple[str | None, int]:
    """Fetch the files of a trained model.

    Args:
        model_name: its name.
        dst_dir: the folder for the files.
        meta_info: name -> addresses of its ``symbol`` and ``params``. Without it there is nothing to fetch: the server
            that MXNet means is gone.

    Returns:
        The prefix of the files and the epoch, for ``mx.model.load_checkpoint``; (None, 0) for an unknown name.
    """
    if meta_info is None:
        raise MXNetError(
            "download_model: MXNet's server data.mxnet.io is no longer there\n"
            "Give the addresses: meta_info={name: {'symbol': url, 'params': url}}."
        )
    if model_name not in meta_info:
        return None, 0
    os.makedirs(dst_dir, exist_ok=True)
    prefix = os.path.join(dst_dir, model_name)
    addresses = meta_info[model_name]
    assert "symbol" in addresses, "missing symbol url"
    download(addresses["symbol"], prefix + "-symbol.json")
    assert "params" in addresses, "mssing parameter file url"
    download(addresses["params"], prefix + "-0000.params")
    return prefix, 0

# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: datasets from files that are there; names where older programs look for them."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, test_utils
from hybridgpu.base import MXNetError


def write_mnist(folder, opener=open, end=""):
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 12), ("t10k", 5)):
        pictures, labels = np.full((n, 28, 28), 51, np.uint8), np.arange(n, dtype=np.uint8) % 10
        for kind, values in (("images-idx3", pictures), ("labels-idx1", labels)):
            head = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
            with opener(folder / f"{part}-{kind}-ubyte{end}", "wb") as file:
                file.write(head + values.tobytes())


@pytest.mark.parametrize(
    "place, opener, end", [(".", gzip.open, ".gz"), ("data", open, ""), ("home/datasets/mnist", gzip.open, ".gz")]
)
def test_get_mnist(tmp_path, monkeypatch, place, opener, end):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    with pytest.raises(MXNetError, match="get_mnist: .* is in none of the folders .*\nNothing is downloaded"):
        test_utils.get_mnist()
    write_mnist(tmp_path / place, opener, end)
    found = test_utils.get_mnist()
    assert {k: (v.shape, v.dtype.name) for k, v in found.items()} == {
        "train_data": ((12, 1, 28, 28), "float32"), "train_label": ((12,), "int8"),
        "test_data": ((5, 1, 28, 28), "float32"), "test_label": ((5,), "int8"),
    }  # fmt: skip
    assert (found["train_data"] == np.float32(0.2)).all() and found["test_label"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shape, batch", [((784,), (5, 784)), ((1, 28, 28), (5, 1, 28, 28))])
def test_get_mnist_iterator(tmp_path, monkeypatch, shape, batch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MXNetError, match="train-images-idx3-ubyte, .* not found in data\nNothing is downloaded"):
        test_utils.get_mnist_iterator(5, shape)
    write_mnist(tmp_path / "data")
    train, test = test_utils.get_mnist_iterator(5, shape)
    assert [b.data[0].shape for b in train] == [batch] * 2
    (only,) = test
    assert only.label[0].asnumpy().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(MXNetError, match="train.rec, test.rec, train.lst, test.lst not found in"):
        test_utils.get_cifar10()


def test_names():
    from hybridgpu.gluon.block import Block, HybridBlock, SymbolBlock

    assert (Block, HybridBlock, SymbolBlock) == (gluon.Block, gluon.HybridBlock, gluon.SymbolBlock)
    assert mx.rnd is mx.random
    assert isinstance(mx.nd.ones((1,)), gluon.tensor_types) and isinstance(mx.sym.var("x"), gluon.tensor_types)
    assert mx.image.det.ImageDetIter is mx.image.ImageDetIter and mx.image.image.imread is mx.image.imread
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        gluon.block.Nothing

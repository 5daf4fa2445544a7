# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.io.DataLoaderIter``: a Gluon data loader where Module wants an iterator."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon
from hybridgpu.contrib.io import DataLoaderIter

X = np.arange(10 * 6, dtype=np.float32).reshape(10, 2, 3)
Y = np.arange(10, dtype=np.float32)


def loader(size=4, **kwargs):
    return gluon.data.DataLoader(gluon.data.ArrayDataset(X, Y), size, **kwargs)


def test_batches_have_one_shape():
    """Expected values from MXNet 1.9.1, whose last rows of the last batch are undefined."""
    batches = DataLoaderIter(loader())
    assert batches.batch_size == 4 and batches.getindex() is None
    assert batches.provide_data == [("data", (4, 2, 3))] and batches.provide_label == [("softmax_label", (4,))]
    for _ in range(2):  # and again after a reset
        found = list(batches)
        assert [b.pad for b in found] == [0, 0, 2]
        for k, b in enumerate(found):
            assert b.data[0].shape == (4, 2, 3) and b.label[0].shape == (4,)
            n = 4 - b.pad
            np.testing.assert_array_equal(b.data[0].asnumpy()[:n], X[4 * k : 4 * k + n])
            np.testing.assert_array_equal(b.label[0].asnumpy()[:n], Y[4 * k : 4 * k + n])
        with pytest.raises(StopIteration):
            batches.next()
        batches.reset()


@pytest.mark.parametrize("last_batch", ["discard", "rollover"])
def test_nothing_is_filled_where_the_loader_has_no_short_batch(last_batch):
    assert [b.pad for b in DataLoaderIter(loader(last_batch=last_batch))] == [0, 0]


@pytest.mark.parametrize("dtype", ["float16", np.float64])
def test_names_and_type(dtype):
    batches = DataLoaderIter(loader(), "x", "y", dtype)
    assert [d.name for d in (*batches.provide_data, *batches.provide_label)] == ["x", "y"]
    assert batches.provide_data[0].dtype == dtype
    for b in batches:
        assert b.data[0].dtype == b.label[0].dtype == np.dtype(dtype)


def test_module_is_trained_with_it():
    data = mx.sym.var("data")
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(data, num_hidden=1), mx.sym.var("label"))
    module = mx.mod.Module(net, ["data"], ["label"])
    samples = gluon.data.ArrayDataset(X.reshape(10, 6) / 60, Y[:, None] / 10)
    batches = DataLoaderIter(gluon.data.DataLoader(samples, 5), label_name="label")
    module.fit(batches, eval_metric="mse", num_epoch=60, optimizer_params={"learning_rate": 0.2})
    assert dict(module.score(batches, "mse"))["mse"] < 0.01


def test_a_loader_without_batches():
    with pytest.raises(StopIteration):
        DataLoaderIter(loader(11, last_batch="discard"))

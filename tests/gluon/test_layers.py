# SPDX-License-Identifier: Apache-2.0
"""Layers beside what MXNet 1.9.1 gave (``recorded/``): texts, parameters, graphs, results, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from against_mxnet.recorded import layers
from against_mxnet.recorded.record import draw, recorded, same

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import nn

RECORDED = recorded("layers")


@pytest.mark.parametrize("name", layers.CASES)
def test_eager_and_graph(name):
    ours = layers.measure(mx, name)
    for key, theirs in RECORDED[name].items():
        assert same(ours[key], theirs), key


@pytest.mark.parametrize("name", [n for n in layers.CASES if "graph" in RECORDED[n]])
def test_hybridized(name):
    ours = layers.measure(mx, name, hybrid=True)
    for key, value in ours.items():
        assert same(value, RECORDED[name][key]), key


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2D(6, 3, groups=2, in_channels=4, padding=1), "Conv2D(2 -> 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)"),
        (lambda: nn.Conv2D(6, 3, dilation=2, use_bias=False), "Conv2D(None -> 6, kernel_size=(3, 3), stride=(1, 1), dilation=(2, 2), bias=False)"),
        (lambda: nn.Conv2D(6, 3, layout="NHWC", in_channels=4), "Conv2D(3 -> 6, kernel_size=(3, 3), stride=(1, 1))"),
        (lambda: nn.Conv2DTranspose(6, 3), "Conv2DTranspose(6 -> 0, kernel_size=(3, 3), stride=(1, 1))"),
        (lambda: nn.Conv2D(6, 3, strides=[1, 1], padding=[1, 1]), "Conv2D(None -> 6, kernel_size=(3, 3), stride=[1, 1], padding=[1, 1])"),
        (lambda: nn.MaxPool2D(ceil_mode=True, layout="NHWC"), "MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=True, global_pool=False, pool_type=max, layout=NHWC)"),
        (lambda: nn.Embedding(3, 4), "Embedding(3 -> 4, float32)"),
        (lambda: nn.BatchNorm(in_channels=3), "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, in_channels=3)"),
        (lambda: nn.InstanceNorm(), "InstanceNorm(eps=1e-05, axis=1, center=True, scale=False, in_channels=0)"),
        (lambda: nn.Dropout(0.5, axes=(1,)), "Dropout(p = 0.5, axes=(1,))"),
        (lambda: gluon.contrib.nn.PixelShuffle2D((2, 3)), "PixelShuffle2D((2, 3))"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_repr(make, text):
    assert repr(make()) == text


@pytest.mark.parametrize(
    ("layer", "weight"),
    [
        (lambda: nn.Conv1D(3, 2), (3, 0, 2)),
        (lambda: nn.Conv2D(6, 3, groups=2, in_channels=4), (6, 2, 3, 3)),
        (lambda: nn.Conv2D(6, 3, groups=2, in_channels=4, layout="NHWC"), (6, 3, 3, 2)),
        (lambda: nn.Conv3D(6, (1, 2, 3), layout="NDHWC", in_channels=5), (6, 1, 2, 3, 5)),
        (lambda: nn.Conv2DTranspose(6, 3, groups=2, in_channels=4), (4, 3, 3, 3)),
        (lambda: nn.Conv2DTranspose(6, 3, layout="NHWC", in_channels=4), (4, 3, 3, 6)),
        (lambda: nn.Conv1DTranspose(3, 2), (0, 3, 2)),
    ],
)
def test_shape_of_weights(layer, weight):
    net = layer()
    assert net.weight.shape == weight


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nn.Conv2D(6, (3,)), AssertionError, "kernel_size must be a number or a list of 2 ints"),
        (lambda: nn.Conv2D(6, 3, layout="NCW"), AssertionError, "Only supports 'NCHW' and 'NHWC' layout for now"),
        (lambda: nn.Conv1D(6, 3, layout="NWC"), AssertionError, "Only supports 'NCW' layout for now"),
        (lambda: nn.Conv2DTranspose(6, 3, output_padding=(1,)), AssertionError, "output_padding must be a number or a list of 2 ints"),
        (lambda: nn.Conv2D(5, 3, groups=2, in_channels=4), mx.MXNetError, "output num_filter must divide group size"),
        (lambda: nn.Conv2D(6, 3, groups=2, in_channels=5), mx.MXNetError, "input num_filter must divide group size"),
        (lambda: nn.MaxPool2D((2, 2, 2)), AssertionError, "pool_size must be a number or a list of 2 ints"),
        (lambda: nn.AvgPool1D(layout="NCHW"), AssertionError, "Only NCW and NWC layouts are valid for 1D Pooling"),
        (lambda: nn.LeakyReLU(-1), AssertionError, "Slope coefficient for LeakyReLU must be no less than 0."),
        (lambda: gluon.contrib.nn.PixelShuffle2D((1, 2, 3)), AssertionError, "wrong length 3"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_batch_norm_stays_single_when_cast_to_half():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3))
    net.initialize()
    net.cast("float16")
    assert net[0].weight.data().dtype == np.float16
    assert net[1].gamma.data().dtype == net[1].running_var.data().dtype == np.float32
    assert net(nd.ones((2, 2), dtype="float16")).dtype == np.float16


@pytest.mark.parametrize("hybrid", [False, True])
def test_running_averages_follow_the_batches(hybrid):
    net = nn.BatchNorm(momentum=0.5)
    net.initialize()
    if hybrid:
        net.hybridize()
    x = draw((16, 3), 0)
    mean, var = np.zeros(3), np.ones(3)
    for t in range(3):
        with mx.autograd.record():
            y = net(nd.array(x + t))
        y.backward()
        mean, var = 0.5 * mean + 0.5 * (x + t).mean(0), 0.5 * var + 0.5 * (x + t).var(0)
    np.testing.assert_allclose(net.running_mean.data().asnumpy(), mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.running_var.data().asnumpy(), var, rtol=1e-4)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("inside", [False, True], ids=["a call of its own", "in the block"])
def test_running_averages_follow_where_no_gradient_arrives(hybrid, inside):
    """As MXNet 1.9.1 has it: the backward pass goes through BlockGrad, with zeros."""

    class Blocked(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.norm, self.out = nn.BatchNorm(in_channels=3, momentum=0.5), nn.Dense(2, in_units=3)

        def hybrid_forward(self, F, x):
            return self.out(F.BlockGrad(self.norm(x)))

    net = Blocked()
    net.initialize()
    if hybrid:
        (net if inside else net.norm).hybridize()
    x = nd.array(draw((16, 3), 0))
    with mx.autograd.record():
        y = net(x)
    mean = net.norm.running_mean.data
    assert not mean().asnumpy().any()
    y.backward()
    np.testing.assert_allclose(mean().asnumpy(), 0.5 * x.asnumpy().mean(0), rtol=1e-4, atol=1e-5)


def test_embedding_learns_only_rows_that_it_saw():
    net = nn.Embedding(5, 3)
    net.initialize()
    with mx.autograd.record():
        y = net(nd.array([[1, 3], [3, 1]])).sum()
    y.backward()
    np.testing.assert_array_equal(net.weight.grad().asnumpy()[:, 0], [0, 2, 0, 2, 0])


def test_sync_batch_norm_says_that_devices_are_guessed():
    with pytest.warns(UserWarning, match="mannually set num_devices"):
        gluon.contrib.nn.SyncBatchNorm()

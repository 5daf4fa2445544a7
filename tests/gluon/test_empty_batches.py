# SPDX-License-Identifier: Apache-2.0
"""Batches without rows: shapes as they would be, gradients of parameters zero, the same when hybridized."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import loss, nn, rnn


@pytest.fixture(autouse=True)
def zero_extents():
    """0 is an extent, not an unknown one."""
    with mx.util.np_shape(True):
        yield


LAYERS = {
    "dense": (lambda: nn.Dense(4, activation="relu", in_units=3), (0, 3), (0, 4)),
    "dense, inner axis": (lambda: nn.Dense(4, flatten=False, in_units=3), (2, 0, 3), (2, 0, 4)),
    "convolution 1d": (lambda: nn.Conv1D(4, 3, in_channels=2), (0, 2, 6), (0, 4, 4)),
    "convolution 2d": (lambda: nn.Conv2D(4, 3, in_channels=2), (0, 2, 6, 5), (0, 4, 4, 3)),
    "convolution 3d": (lambda: nn.Conv3D(4, 3, in_channels=2), (0, 2, 6, 5, 4), (0, 4, 4, 3, 2)),
    "transposed": (lambda: nn.Conv2DTranspose(4, 3, in_channels=2), (0, 2, 6, 6), (0, 4, 8, 8)),
    "max pooling": (lambda: nn.MaxPool2D(), (0, 2, 6, 6), (0, 2, 3, 3)),
    "average pooling": (lambda: nn.AvgPool2D(3, 2, 1), (0, 2, 6, 6), (0, 2, 3, 3)),
    "global pooling": (lambda: nn.GlobalAvgPool2D(), (0, 2, 6, 6), (0, 2, 1, 1)),
    "layer norm": (lambda: nn.LayerNorm(in_channels=3), (0, 3), (0, 3)),
    "instance norm": (lambda: nn.InstanceNorm(in_channels=3), (0, 3, 4), (0, 3, 4)),
    "group norm": (lambda: nn.GroupNorm(num_groups=2), (0, 4, 4), (0, 4, 4)),
    "gelu": (lambda: nn.GELU(), (0, 3), (0, 3)),
    "prelu": (lambda: nn.PReLU(), (0, 3), (0, 3)),
    "dropout": (lambda: nn.Dropout(0.5), (0, 3), (0, 3)),
    "flatten": (lambda: nn.Flatten(), (0, 3, 4), (0, 12)),
    "embedding": (lambda: nn.Embedding(5, 3), (0, 4), (0, 4, 3)),
    "padding": (lambda: nn.ReflectionPad2D(1), (0, 2, 4, 4), (0, 2, 6, 6)),
    "lstm, no sequences": (lambda: rnn.LSTM(4, input_size=3), (5, 0, 3), (5, 0, 4)),
    "gru, no steps": (lambda: rnn.GRU(4, input_size=3), (0, 2, 3), (0, 2, 4)),
}


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, hybridized, compiler):
    make, shape, wanted = LAYERS[name]
    net = make()
    net.initialize()
    net.hybridize(hybridized)
    x = nd.zeros(shape)
    assert net(x).asnumpy().shape == wanted
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert y.shape == wanted and x.grad.asnumpy().shape == shape
    for parameter in net.collect_params().values():
        if parameter.grad_req != "null":
            assert not parameter.grad().asnumpy().any(), parameter.name


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_batch_norm_keeps_its_averages_in_prediction(hybridized, compiler):
    net = nn.BatchNorm(in_channels=3)
    net.initialize()
    net.hybridize(hybridized)
    assert net(nd.zeros((0, 3, 4))).shape == (0, 3, 4)
    assert net.running_var.data().asnumpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("make", [loss.L2Loss, loss.SoftmaxCELoss, loss.SigmoidBCELoss, loss.HuberLoss])
def test_losses(make, hybridized, compiler):
    net = make()
    net.hybridize(hybridized)
    x = nd.zeros((0, 3))
    x.attach_grad()
    with autograd.record():
        found = net(x, nd.zeros((0,) if make is loss.SoftmaxCELoss else (0, 3)))
    found.backward()
    assert found.shape == (0,) and x.grad.shape == (0, 3)


def test_a_net_before_and_after_an_empty_batch(compiler):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh", in_units=3), nn.Dense(2, in_units=8))
    net.initialize()
    x = nd.array(np.linspace(-1, 1, 12).reshape(4, 3))
    want = net(x).asnumpy()
    net.hybridize()
    for rows in (4, 0, 4, 0):
        np.testing.assert_allclose(
            net(x[:rows] if rows else nd.zeros((0, 3))).asnumpy(), want[:rows], rtol=1e-5, atol=1e-7
        )

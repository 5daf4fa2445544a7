# SPDX-License-Identifier: Apache-2.0
"""np mode on a GPU: calls, recorded calls and steps of nets written with np give what they give on the host."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon
from hybridgpu.gluon import HybridBlock, nn

VALUES = np.random.RandomState(0).normal(size=(4, 6)).astype("float32")
PICTURES = np.random.RandomState(1).normal(size=(2, 1, 12, 12)).astype("float32")


@pytest.fixture(autouse=True)
def np_mode():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


class Chain(HybridBlock):
    def hybrid_forward(self, F, x):
        return F.np.tanh(1.25 * x - 0.3) * F.npx.sigmoid(x) + F.np.exp(-x * x).sum(axis=1, keepdims=True)


class Several(HybridBlock):
    def hybrid_forward(self, F, x):
        return x.mean(), [x[1], F.npx.softmax(x)]


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 3, activation="relu"), nn.MaxPool2D(), nn.BatchNorm(), nn.Flatten(), nn.Dense(4))
    return net


NETS = {"chain": (Chain, VALUES), "several": (Several, VALUES), "lenet": (lenet, PICTURES)}


def flat(y):
    return [a for v in y for a in flat(v)] if isinstance(y, (list, tuple)) else [y]


def run(name, ctx, flags, steps):
    """Results of three calls, then of steps: losses, gradients and parameters."""
    make, values = NETS[name]
    mx.random.seed(3)
    net = make()
    net.initialize(mx.init.Xavier(), ctx=mx.cpu())
    x = mx.np.array(values)
    net(x)
    for k, p in enumerate(net.collect_params().values()):
        p.set_data(mx.np.array(np.random.RandomState(k).uniform(0.1, 0.5, p.shape).astype("float32")))
    net.collect_params().reset_ctx(ctx)
    net.hybridize(**flags)
    x = x.as_in_context(ctx)
    found = []
    for _ in range(3):
        y = flat(net(x))
        assert all(type(v) is mx.np.ndarray and v.ctx == ctx for v in y)
        found += [v.asnumpy() for v in y]
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    x.attach_grad()
    for _ in range(steps):
        with mx.autograd.record():
            y = flat(net(x))[-1]
            loss = (y * y).mean()
        loss.backward()
        assert loss.shape == () and type(x.grad) is mx.np.ndarray
        found += [loss.asnumpy(), x.grad.asnumpy()]
        if net.collect_params().keys():
            trainer.step(1)
    return [*found, *(p.data().asnumpy() for p in net.collect_params().values())]


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=["plain", "static"])
@pytest.mark.parametrize("name", NETS)
def test_as_on_the_host(gpu, name, flags):
    for a, b in zip(run(name, gpu.ctx, flags, 3), run(name, mx.cpu(), flags, 3), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)

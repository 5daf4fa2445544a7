# SPDX-License-Identifier: Apache-2.0
"""Nets that fold parameters, and a check of their results against programs that fold nothing."""

from __future__ import annotations

import numpy as np

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.gluon import nn
from hybridgpu.runtime.compilation import compiled

CPU, GPU = mx.cpu(), mx.gpu(0)


class Normalised(nn.HybridBlock):
    """A dense layer whose rows of weights have the lengths ``g``."""

    def __init__(self, units, inputs, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.v = self.params.get("v", shape=(units, inputs))
            self.g = self.params.get("g", shape=(units, 1), init="ones")
            self.b = self.params.get("b", shape=(units,), init="zeros")

    def hybrid_forward(self, F, x, v, g, b):
        weight = F.broadcast_mul(v, g / F.sqrt(F.sum(v * v, axis=1, keepdims=True)))
        return F.FullyConnected(x, weight, b, num_hidden=self.g.shape[0])


class Sized(nn.HybridBlock):
    """A weight that comes out of a function of another one, as large as it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.w = self.params.get("w", shape=(5, 7))

    def hybrid_forward(self, F, x, w):
        return F.broadcast_mul(x, F.exp(F.tanh(w)) + 1)


def sequence(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


#: name -> (net, shape of its argument, the parameter that is written; what it keeps depends on it)
NETS = {
    "BatchNorm": (
        lambda: sequence(nn.Conv2D(4, 3, in_channels=2), nn.BatchNorm(in_channels=4), nn.Activation("relu")),
        (2, 2, 6, 6),
        "running_var",
    ),
    "a normalised weight": (lambda: Normalised(6, 8), (4, 8), "_v"),
    "a transposed weight": (lambda: nn.Conv2DTranspose(3, 4, strides=2, in_channels=2), (1, 2, 4, 4), "weight"),
    "an expression": (lambda: Sized(), (5, 7), "_w"),
}


def filled(name, ctx=CPU, **flags):
    make, shape, written = NETS[name]
    net = make()
    net.initialize(ctx=ctx)
    rng = np.random.RandomState(3)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.uniform(0.5, 1.5, p.shape)))
    net.hybridize(**flags)
    (parameter,) = [p for k, p in net.collect_params().items() if k.endswith(written)]
    return net, parameter, nd.array(rng.standard_normal(shape), ctx=ctx[0] if isinstance(ctx, list) else ctx)


def unfolded(net, x):
    """The result by a program that keeps nothing."""
    op = net._cached_op
    inputs = op.inputs([x], x.context)
    types = [a._type.tensor for a in inputs]
    made = compiled(op.symbol, types, False, x.context, op.fixed, structure=op._structure)
    assert made.prelude is None
    return made.run(inputs, x.context)[0].asnumpy()


def runs(net):
    return sum(k.runs for k in net._cached_op._folded.values())


def check(net, x):
    """Several calls agree with one that keeps nothing."""
    results = [net(x).asnumpy() for _ in range(3)]
    want = unfolded(net, x)
    for y in results:
        np.testing.assert_allclose(y, want, rtol=2e-6, atol=2e-6)
    return want

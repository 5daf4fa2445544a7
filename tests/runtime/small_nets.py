# SPDX-License-Identifier: Apache-2.0
"""Small hybridized nets that several files call."""

from __future__ import annotations

import numpy as np

import hybridgpu as mx

nd, nn = mx.nd, mx.gluon.nn


def chain(n=1000):
    net = nn.HybridLambda(lambda F, x: F.sin(x) * 2 + x)
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.array(np.linspace(-1, 1, n))
    for _ in range(3):
        net(x)
    return net, x


def deep():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=8), nn.Dense(4, in_units=16), nn.HybridLambda("softmax"))
    net.initialize(mx.init.Normal(0.5))
    return net

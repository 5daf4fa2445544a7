# SPDX-License-Identifier: Apache-2.0
"""The small net of tests of blocks."""

from __future__ import annotations

import hybridgpu as mx

nd, nn = mx.nd, mx.gluon.nn


def mlp(prefix=None):
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    return net


def ready(prefix=None, **flags):
    net = mlp(prefix)
    net.initialize()
    if flags:
        net.hybridize(**flags)
    net(nd.ones((1, 3)))
    return net

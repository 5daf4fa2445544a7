# SPDX-License-Identifier: Apache-2.0
"""A small net that is trained and called, eagerly and hybridized; it prints what computed it, as JSON."""

from __future__ import annotations

import json

import numpy as np

import hybridgpu as mx


def results(hybridize):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(3, activation="relu", in_units=4), mx.gluon.nn.BatchNorm(in_channels=3))
    net.initialize(mx.init.One())
    if hybridize:
        net.hybridize()
    x = mx.nd.array(np.arange(8).reshape(2, 4))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with mx.autograd.record():
        loss = (net(x) * net(x)).sum()
    loss.backward()
    trainer.step(1)
    return [net(x).asnumpy(), *(p.data().asnumpy() for p in net.collect_params().values())]


same = all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(results(False), results(True), strict=True))
targets = sorted({e.target for e in mx.compile_report().events})
print(json.dumps({"result": "as eager" if same else "another one", "targets": targets}))

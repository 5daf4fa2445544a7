# SPDX-License-Identifier: Apache-2.0
"""LeNet as the hybrid tutorial writes it: a weight of ``params.get``, a reshape with 0 and -1, flags, export."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import autograd, gluon, nd, sym
from hybridgpu.gluon import nn


class LeNet(gluon.HybridBlock):
    """Counts how often its Python runs."""

    runs = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv1 = nn.Conv2D(6, kernel_size=5)
            self.pool1 = nn.MaxPool2D(pool_size=(2, 2), strides=(2, 2))
            self.conv2 = nn.Conv2D(16, kernel_size=5)
            self.pool2 = nn.MaxPool2D(pool_size=(2, 2), strides=(2, 2))
            self.fc1 = nn.Dense(120)
            self.fc2 = nn.Dense(84)
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        LeNet.runs += 1
        x = self.pool1(F.tanh(self.conv1(x)))
        x = self.pool2(F.tanh(self.conv2(x)))
        x = x.reshape((0, -1))
        x = F.tanh(self.fc1(x))
        x = F.tanh(self.fc2(x))
        return F.FullyConnected(x, fc3_weight, no_bias=True, num_hidden=10)


def made():
    net = LeNet(prefix="lenet_")
    net.initialize()
    net(nd.zeros((1, 1, 28, 28)))
    rng = np.random.default_rng(0)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.normal(0, 0.2, p.shape)))
    return net


def numpy_lenet(x, p):
    """The same in float64; ``p``: parameters in their order in the class."""

    def conv(x, w, b):
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None]

    def pool(x):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

    x = pool(np.tanh(conv(x, p["conv0_weight"], p["conv0_bias"])))
    x = pool(np.tanh(conv(x, p["conv1_weight"], p["conv1_bias"])))
    x = np.tanh(x.reshape(len(x), -1) @ p["dense0_weight"].T + p["dense0_bias"])
    return np.tanh(x @ p["dense1_weight"].T + p["dense1_bias"]) @ p["fc3_weight"].T


FLAGS = [{}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}]


@pytest.mark.parametrize("flags", FLAGS, ids=["plain", "alloc", "alloc-shape"])
def test_results_gradients_and_files(flags, tmp_path):
    net = made()
    x = nd.array(np.random.default_rng(1).normal(size=(3, 1, 28, 28)))
    numbers = {k.removeprefix("lenet_"): p.data().asnumpy().astype("float64") for k, p in net.collect_params().items()}
    expected = numpy_lenet(x.asnumpy().astype("float64"), numbers)
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-4, atol=1e-5)

    def gradients():
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        return {k: p.grad().asnumpy().copy() for k, p in net.collect_params().items()}

    eager = gradients()
    net.hybridize(**flags)
    LeNet.runs = 0
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-4, atol=1e-5)
    for batch in (1, 2):  # 0 in the reshape: the graph serves every batch
        np.testing.assert_allclose(net(x[:batch]).asnumpy(), expected[:batch], rtol=1e-4, atol=1e-5)
    for name, value in gradients().items():
        np.testing.assert_allclose(value, eager[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert LeNet.runs == 1

    net.export(str(tmp_path / "model"), epoch=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model-0001.params", "model-symbol.json"]
    graph = sym.load(str(tmp_path / "model-symbol.json"))
    saved = nd.load(str(tmp_path / "model-0001.params"))
    assert list(saved) == [f"arg:{n}" for n in graph.list_arguments() if n != "data"]
    assert '"shape": "(0, -1)"' in graph.tojson()
    again = gluon.SymbolBlock.imports(
        str(tmp_path / "model-symbol.json"), ["data"], str(tmp_path / "model-0001.params")
    )
    again.hybridize(**flags)
    np.testing.assert_allclose(again(x).asnumpy(), expected, rtol=1e-4, atol=1e-5)

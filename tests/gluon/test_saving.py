# SPDX-License-Identifier: Apache-2.0
"""Block.save and Block.load: structure, graphs and parameters of a model in two files."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import nn


class Pair(nn.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(4, activation="relu"), nn.Dense(3))
            self.head = nn.Dense(2)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("hybrid", [False, True])
def test_save_and_load(tmp_path, hybrid):
    first = Pair()
    first.initialize()
    if hybrid:
        first.hybridize()
    x = nd.array(np.random.RandomState(0).normal(size=(2, 5)))
    expected = first(x).asnumpy()
    first.save(str(tmp_path / "pair"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pair-model.json", "pair-model.params"]
    second = Pair()
    traced = []
    original = gluon.nn.Dense.hybrid_forward

    class Counting(nn.Dense):
        def hybrid_forward(self, *args, **kwargs):
            traced.append(self)
            return original(self, *args, **kwargs)

    for dense in (second.head, *second.body):
        dense.__class__ = type("Dense", (Counting,), {})
    second.load(str(tmp_path / "pair"))
    np.testing.assert_allclose(second(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert bool(traced) is not hybrid  # loaded graphs are not traced again
    assert second.body.name == first.body.name


def test_other_structure_is_refused(tmp_path):
    net = Pair()
    net.initialize()
    net(nd.ones((1, 2)))
    net.save(str(tmp_path / "pair"))
    with pytest.raises(KeyError):
        nn.Dense(3).load(str(tmp_path / "pair"))


@pytest.mark.parametrize("numpy_mode", [False, True])
def test_what_differs_between_contexts_is_saved_as_its_mean(tmp_path, numpy_mode):
    file, devices = str(tmp_path / "norm.params"), [mx.cpu(0), mx.cpu(1), mx.cpu(2)]
    with mx.util.np_array(numpy_mode):
        net = gluon.nn.BatchNorm(in_channels=2)
        net.initialize(ctx=devices)
        for x, value in zip(net.running_mean.list_data(), (1, 3, 8), strict=True):
            x[:] = value
        net.save_parameters(file)
        net.hybridize()
        net((mx.np if numpy_mode else nd).ones((1, 2)))
        net.export(str(tmp_path / "norm"))
        net.running_mean.reset_ctx(devices[:2])
        found = [x.asnumpy().tolist() for x in net.running_mean.list_data()]
        kinds = {type(x) for x in net.running_mean.list_data()}
    assert found == [[4, 4], [4, 4]]
    assert kinds == {mx.np.ndarray if numpy_mode else nd.NDArray}
    assert nd.load(file)["running_mean"].asnumpy().tolist() == [4, 4]
    exported = nd.load(str(tmp_path / "norm-0000.params"))
    assert [v.asnumpy().tolist() for k, v in exported.items() if "running_mean" in k] == [[4, 4]]


@pytest.mark.parametrize("call", ["block(x)", "block.collect_params()['dense_weight'].data()"])
def test_an_imported_graph_without_its_parameters_says_what_to_give(call, tmp_path):
    net = gluon.nn.Dense(2, in_units=3, prefix="dense_")
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 3))
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    with pytest.raises(RuntimeError, match="'dense_weight' has not been initialized") as raised:
        eval(call, {"block": block, "x": x})
    hint = str(raised.value).split("\n")[-1]
    assert hint.startswith(
        "Give the file of parameters: SymbolBlock.imports(symbol_file, input_names, param_file), or net.load_"
    )
    assert "If dense_weight is an argument of calls, it belongs in input_names." in hint and "in a list" not in hint
    block.load_parameters(str(tmp_path / "net-0000.params"))
    np.testing.assert_array_equal(block(x).asnumpy(), expected)

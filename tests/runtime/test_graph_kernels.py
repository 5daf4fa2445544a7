# SPDX-License-Identifier: Apache-2.0
"""Small nets whose kernels are one kernel on a GPU, emulated: launches, CUDA graphs, streams, devices."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import EmulatedStream, drivers, install, uninstall

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.devices import device_of
from hybridgpu.base import MXNetError
from hybridgpu.compiler.schedule.persistent import cost as persistent_cost
from hybridgpu.core.settings import GRAPH_KERNELS, graph_kernels
from hybridgpu.gluon import nn, rnn

FLAGS = {
    "fresh": {},
    "kept": {"static_alloc": True},
    "graph": {"static_alloc": True, "static_shape": True},
}
CTX = mx.gpu(0)


@pytest.fixture
def driver(cuda_driver, monkeypatch):
    """An emulated GPU with cooperative launches."""
    monkeypatch.setattr(cuda_driver, "cooperative", True)
    monkeypatch.setenv("HYBRIDGPU_GRAPH_KERNELS", "auto")
    return cuda_driver


@pytest.fixture
def grid(monkeypatch):
    """No clusters in place of cooperative grids, whatever they cost."""
    monkeypatch.setattr(persistent_cost, "possible_clusters", lambda *_: [0])


def filled(net, *shapes):
    """The net with random parameters on the CPU and on the GPU, and arguments."""
    net.initialize(ctx=[mx.cpu(), CTX])
    rng = np.random.RandomState(0)
    net(*(nd.zeros(s) for s in shapes))
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape) * 0.3))
    return net, [rng.standard_normal(s).astype("float32") for s in shapes]


def perceptron(batch):
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu"), nn.Dense(16, activation="relu"), nn.Dense(10))
    return filled(net, (batch, 20))


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(6, 3, activation="tanh"))
    net.add(nn.MaxPool2D(2, 2), nn.Dense(12, activation="tanh"), nn.Dense(10))
    return filled(net, (2, 1, 16, 16))


class Cell(nn.HybridBlock):
    """One step of a recurrent cell."""

    def __init__(self, cell):
        super().__init__()
        with self.name_scope():
            self.cell = cell

    def hybrid_forward(self, F, x, *states):
        y, states = self.cell(x, list(states))
        return [y, *states[1:]]


class Language(nn.HybridBlock):
    """Words, a recurrent layer, and what the next words may be."""

    def __init__(self, layer):
        super().__init__()
        with self.name_scope():
            self.words, self.layer, self.next = nn.Embedding(20, 8), layer, nn.Dense(20, flatten=False)

    def hybrid_forward(self, F, x):
        return self.next(self.layer(self.words(x * 3)))


NETS = {
    "language_lstm": lambda: filled(Language(rnn.LSTM(12)), (5, 4)),
    "language_gru": lambda: filled(Language(rnn.GRU(16, layout="NTC")), (4, 3)),
    "language_rnn": lambda: filled(Language(rnn.RNN(8, bidirectional=True)), (3, 4)),
    "mlp_1": lambda: perceptron(1),
    "mlp_16": lambda: perceptron(16),
    "lenet": lenet,
    "rnn": lambda: filled(Cell(rnn.RNNCell(12, input_size=8)), (3, 8), (3, 12)),
    "lstm": lambda: filled(Cell(rnn.LSTMCell(12, input_size=8)), (3, 8), (3, 12), (3, 12)),
    "gru": lambda: filled(Cell(rnn.GRUCell(12, input_size=8)), (3, 8), (3, 12)),
}


def listed(y):
    return y if isinstance(y, list) else [y]


def on_gpu(arrays):
    return [nd.array(a, ctx=CTX) for a in arrays]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", NETS)
def test_one_launch_a_call(name, flags, driver):
    net, arrays = NETS[name]()
    want = [y.asnumpy() for y in listed(net(*map(nd.array, arrays)))]
    net.hybridize(**FLAGS[flags])
    xs = on_gpu(arrays)
    net(*xs)
    driver.forget()
    for k in range(4):
        for y, w in zip(listed(net(*xs)), want, strict=True):
            np.testing.assert_allclose(y.asnumpy(), w, rtol=1e-4, atol=1e-5)
        assert len(driver.launches) == k + 1 and driver.made == 0
    report = net.explain(*xs)
    assert [k.kind for k in report.kernels] == ["graph"]
    assert "kernels are one: " in str(report) and "1 launch a call" in str(report)
    moved = driver.launches[-1].read + driver.launches[-1].written
    # of a table not every row is read, and what a loop has read is counted again where another step reads it
    assert report.bytes_moved >= moved if name.startswith("language") else report.bytes_moved == moved


@pytest.mark.long_table
@pytest.mark.parametrize("name", ["mlp_16", "language_lstm", "language_gru", "language_rnn"])
def test_gradients(name, driver, grid):
    net, (x,) = NETS[name]()
    gradients = {}
    for ctx in (mx.cpu(), CTX):
        if ctx == CTX:
            net.hybridize()
        with autograd.record():
            loss = (net(nd.array(x, ctx=ctx)) ** 2).sum()
        loss.backward()
        gradients[ctx] = [p.grad(ctx).asnumpy() for p in net.collect_params().values()]
    for a, b in zip(*gradients.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert any(s.report.atomics for s in driver.launches)  # of barriers: there are no others


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", NETS)
def test_cooperative_grids(name, flags, driver, grid):
    """As above, where clusters and single blocks are left out of account."""
    net, arrays = NETS[name]()
    want = [y.asnumpy() for y in listed(net(*map(nd.array, arrays)))]
    net.hybridize(**FLAGS[flags])
    for _ in range(3):
        for y, w in zip(listed(net(*on_gpu(arrays))), want, strict=True):
            np.testing.assert_allclose(y.asnumpy(), w, rtol=1e-4, atol=1e-5)
    if flags != "graph":  # in which two kernels may be cheaper than a barrier
        assert driver.launches[-1].report.atomics


def test_a_node_of_a_graph_costs_less_than_a_launch(driver, grid):
    """Two kernels are worth a barrier of the grid where each is a launch, and not where they are nodes of a graph."""
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu"), nn.Dense(16))
    net, arrays = filled(net, (2, 20))
    want = net(*map(nd.array, arrays)).asnumpy()
    xs, said = on_gpu(arrays), {}
    for flags in ("fresh", "graph", "kept"):
        net.hybridize(**FLAGS[flags])
        for _ in range(3):
            np.testing.assert_allclose(net(*xs).asnumpy(), want, rtol=1e-4, atol=1e-5)
        report = net.explain(*xs)
        said[flags] = [k.kind for k in report.kernels], str(report)
    assert said["fresh"][0] == said["kept"][0] == ["graph"] and said["graph"][0] == ["matmul", "matmul"]
    assert "2 kernels are one: one launch instead of 2 saves about 2.0 us; 1 barrier of the grid" in said["fresh"][1]
    assert (
        "2 kernels stay apart: one node of a CUDA graph instead of 2 saves about 1.2 us; 1 barrier" in said["graph"][1]
    )
    assert "2 kernels a call in 1 CUDA graph" in said["graph"][1]


@pytest.mark.parametrize("how", ["always", "never"])
def test_what_is_asked_for_does_not_depend_on_graphs(how, driver, monkeypatch):
    """No program is compiled a second time for graphs where nothing depends on them."""
    monkeypatch.setenv("HYBRIDGPU_GRAPH_KERNELS", how)
    net, arrays = perceptron(2)
    xs, kinds = on_gpu(arrays), []
    for flags in ("fresh", "graph"):
        net.hybridize(**FLAGS[flags])
        net(*xs)
        kinds.append([k.kind for k in net.explain(*xs).kernels])
        if flags == "fresh":
            events = mx.compile_report().signatures
    assert kinds == [["graph"] if how == "always" else ["matmul"] * 3] * 2
    assert mx.compile_report().signatures == events


def test_a_graph_kernel_among_others_is_a_node(driver, monkeypatch):
    """A library call splits the kernels; those on one side that are no step of a graph kernel follow as nodes."""
    from hybridgpu.compiler.schedule.persistent import kernel as persistent_kernel

    monkeypatch.setattr(persistent_kernel, "_MAX_STEPS", 2)
    net, arrays = perceptron(2)
    want = net(*map(nd.array, arrays)).asnumpy()
    net.hybridize(**FLAGS["graph"])
    xs = on_gpu(arrays)
    for _ in range(3):
        np.testing.assert_allclose(net(*xs).asnumpy(), want, rtol=1e-4, atol=1e-5)
    kinds = [k.kind for k in net.explain(*xs).kernels]
    assert kinds == ["graph", "matmul"] and driver.made >= 1
    assert {s.graph for s in driver.launches[-2:]} == {True}


def test_streams_have_barriers_of_their_own(driver, grid):
    net, arrays = perceptron(2)
    net.hybridize()
    xs = on_gpu(arrays)
    want = net(*xs).asnumpy()
    words = {driver.launches[-1].arguments[-1 - numbers(driver)]}
    for k in range(2):
        with driver.using(EmulatedStream(1000 + k)):
            for _ in range(2):
                np.testing.assert_array_equal(net(*xs).asnumpy(), want)
                words.add(driver.launches[-1].arguments[-1 - numbers(driver)])
    assert len(words) == 3


def numbers(driver):
    """Run-time extents of the last launch: its arguments that are no addresses."""
    return sum(a < 1 << 20 for a in driver.launches[-1].arguments)


@pytest.mark.parametrize("lone", [False, True])
def test_several_devices(lone, monkeypatch):
    if not lone:
        monkeypatch.setattr(persistent_cost, "possible_clusters", lambda *_: [0])
    install(2)
    try:
        for d in drivers():
            monkeypatch.setattr(d, "cooperative", True)
            d.forget()
        net = nn.HybridSequential()
        net.add(nn.Dense(6, activation="relu", in_units=8), nn.Dense(5, in_units=6))
        contexts = [mx.gpu(0), mx.gpu(1)]
        net.initialize(ctx=contexts)
        net.hybridize()
        x = np.random.RandomState(1).standard_normal((4, 8)).astype("float32")
        first, second = (net(nd.array(x, ctx=c)).asnumpy() for c in contexts)
        np.testing.assert_array_equal(first, second)
        assert [len(d.launches) for d in drivers()[:2]] == [1, 1]
    finally:
        uninstall()


def test_without_cooperative_launches_kernels_stay_apart(cuda_driver):
    net, arrays = perceptron(1)
    net.hybridize()
    net(*on_gpu(arrays))
    report = net.explain(*on_gpu(arrays))
    assert len(report.kernels) == 3 and "are one" not in str(report)


@pytest.mark.parametrize("word", [*GRAPH_KERNELS, "perhaps", ""])
def test_the_setting(word, driver, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_GRAPH_KERNELS", word)
    if word == "perhaps":
        with pytest.raises(MXNetError, match="'perhaps', valid values are: .*'always', 'auto', 'never'"):
            graph_kernels()
        return
    assert graph_kernels() == (word or "auto")
    from hybridgpu.backends.cuda.backend import CudaBackend

    backend = CudaBackend(driver, np, device_of(CTX).address)
    assert backend.target.resident == (word or "auto") and backend.key().endswith(word or "auto")

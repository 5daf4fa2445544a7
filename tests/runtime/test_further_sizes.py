# SPDX-License-Identifier: Apache-2.0
"""Sizes after the second: nothing is planned anew for them, unless something would be decided otherwise."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.compiler import pipeline
from hybridgpu.gluon import nn
from hybridgpu.runtime import compilation


@pytest.fixture
def planned(monkeypatch):
    """The names of graphs that were planned, also those that an earlier run has left on disk."""
    names, plan = [], pipeline.compile_graph
    monkeypatch.setattr(compilation, "_stored", lambda data: None)

    def counted(graph, *args, **named):
        names.append(graph.name)
        return plan(graph, *args, **named)

    monkeypatch.setattr(pipeline, "compile_graph", counted)
    return names


def make_net():
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu"), nn.BatchNorm(), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    return net


def gradients(net, x):
    """The result of a recorded call, and the gradients of its sum of squares."""
    x = nd.array(x)
    x.attach_grad()
    with autograd.record():
        y = net(x)
        loss = nd.square(y).sum()
    loss.backward()
    weights = [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    return [y.asnumpy(), x.grad.asnumpy(), *weights]


def test_a_third_size_is_not_planned(planned, compiler):
    net, rng = make_net(), np.random.default_rng(0)
    data = {n: rng.standard_normal((n, 17)).astype(np.float32) for n in (8, 6, 7, 11, 1, 5)}
    want = {n: gradients(net, x) for n, x in data.items()}
    net.hybridize()
    for n, x in data.items():
        planned.clear()
        found = gradients(net, x)
        assert bool(planned) == (n in (8, 6, 1)), n  # the first two; of one example the loops vanish
        for a, b in zip(found, want[n], strict=True):
            np.testing.assert_allclose(a, b, 2e-4, 2e-4)


def test_a_size_at_which_something_is_decided_otherwise(planned, compiler):
    """Products of few rows have kernels of their own."""
    net = nn.Dense(96, in_units=64)
    net.initialize(mx.init.Xavier())
    data = {n: np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32) for n in (40, 30, 31, 3, 2, 29)}
    want = {n: net(nd.array(x)).asnumpy() for n, x in data.items()}
    net.hybridize()
    for n, x in data.items():
        planned.clear()
        found = net(nd.array(x)).asnumpy()
        assert bool(planned) == (n in (40, 30, 3)), n
        np.testing.assert_allclose(found, want[n], 1e-4, 1e-4)


def test_executors_plan_no_third_size(planned, compiler):
    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(data, num_hidden=5, name="fc")
    executor = net.simple_bind(mx.cpu(), data=(8, 19))
    rng = np.random.default_rng(0)
    weight, bias = (rng.standard_normal(s).astype(np.float32) for s in ((5, 19), (5,)))
    for n in (8, 6, 7, 12):
        executor = executor.reshape(data=(n, 19), allow_up_sizing=True) if n != 8 else executor
        executor.copy_params_from({"fc_weight": nd.array(weight), "fc_bias": nd.array(bias)})
        x = rng.standard_normal((n, 19)).astype(np.float32)
        planned.clear()
        (y,) = executor.forward(is_train=True, data=nd.array(x))
        np.testing.assert_allclose(y.asnumpy(), x @ weight.T + bias, 1e-4, 1e-4)
        assert not planned or n in (8, 6), n


def test_dumps_have_the_numbers_of_their_size(planned, compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_DUMP", str(tmp_path))
    net = make_net()
    net.hybridize()
    for n in (8, 6, 7):
        gradients(net, np.ones((n, 17), np.float32))
        for folder in tmp_path.iterdir():
            texts = {p.name: p.read_text() for p in folder.iterdir()}
            assert "\x02" not in "".join(texts.values())
            assert f"f32[{n}," in texts["01_lowered.txt"] and json.loads(texts["plan.json"])["steps"]
            for p in folder.iterdir():
                p.unlink()
            folder.rmdir()


@pytest.mark.parametrize("first", [(1, 4, 11, 6), (33, 4, 11, 6), (4, 4, 32, 32)])
def test_bits_of_narrow_images_do_not_depend_on_earlier_sizes(first, compiler):
    """Who computes a convolution whose vectors are mostly empty follows from its own size."""
    rng = np.random.default_rng(0)
    x, weight = (nd.array(rng.standard_normal(s).astype(np.float32)) for s in ((33, 4, 3, 4), (4, 4, 3, 3)))

    def result(*sizes):
        net = nn.Conv2D(4, 3, dilation=2, padding=2, in_channels=4, use_bias=False)
        net.initialize()
        net.weight.set_data(weight)
        net.hybridize()
        for size in sizes:
            net(nd.ones(size))
        return net(x).asnumpy()

    np.testing.assert_array_equal(result(first), result())

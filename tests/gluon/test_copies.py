# SPDX-License-Identifier: Apache-2.0
"""Nets that are copied or pickled, compiled ones too: as the original, with parameters and gradients of their own."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import SymbolBlock, Trainer, nn, rnn

pytestmark = pytest.mark.usefixtures("compiler")
X = nd.array(np.linspace(-1, 1, 60, dtype="float32").reshape(3, 4, 5))


def layers():
    net = nn.HybridSequential()
    net.add(
        nn.Dense(4, activation="relu", in_units=20), nn.BatchNorm(in_channels=4), nn.HybridLambda("tanh"), nn.Dense(3)
    )
    return net


def symbols():
    x = mx.sym.var("data")
    return SymbolBlock(mx.sym.FullyConnected(x, num_hidden=3, name="fc"), x)


NETS = {"layers": layers, "recurrent": lambda: rnn.GRU(6, layout="NTC", input_size=5), "symbols": symbols}
WAYS = {"deepcopy": copy.deepcopy, "pickle": lambda net: pickle.loads(pickle.dumps(net))}
FLAGS = {"eager": None, "hybridized": {}, "background": {"background": True}}


def step(net):
    with autograd.record():
        loss = (net(X) ** 2).sum()
    loss.backward()
    return {n: p.grad().asnumpy() for n, p in net.collect_params().items() if p.grad_req != "null"}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NETS)
def test_a_copy_is_a_net_of_its_own(name, way, flags):
    net = NETS[name]()
    net.initialize(mx.init.Uniform(0.5))
    if FLAGS[flags] is not None:
        net.hybridize(**FLAGS[flags])
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step(net)
    trainer.step(1)
    net(X)
    other = WAYS[way](net)
    want = net(X).asnumpy()
    np.testing.assert_allclose(other(X).asnumpy(), want, rtol=1e-5, atol=1e-6)
    slopes = step(other)
    for n, g in step(net).items():
        np.testing.assert_allclose(slopes[n], g, rtol=1e-4, atol=1e-5)
    if FLAGS[flags]:
        net.explain(X)  # which waits for the program that is made in the background: its results have other bits
    want = net(X).asnumpy()
    step(other)
    Trainer(other.collect_params(), "sgd", {"learning_rate": 0.1}).step(1)
    assert not np.array_equal(other(X).asnumpy(), want)
    assert np.array_equal(net(X).asnumpy(), want)
    before = {n: p.data().asnumpy() for n, p in other.collect_params().items()}
    step(net)
    trainer.step(1)
    assert all(np.array_equal(p.data().asnumpy(), before[n]) for n, p in other.collect_params().items())


@pytest.mark.usefixtures("compiler")
def test_a_copy_compiles_nothing_again():
    net = layers()
    net.initialize()
    net.hybridize()
    net(X)
    other = copy.deepcopy(net)
    before = len(mx.compile_report().events)
    other(X)
    assert sum(e.compiled_modules for e in mx.compile_report().events[before:]) == 0

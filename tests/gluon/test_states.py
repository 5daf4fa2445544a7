# SPDX-License-Identifier: Apache-2.0
"""When layers and executors change their states: as MXNet does, however the net is run.

The programs and what MXNet gave stand in tests/against_mxnet/recorded (states.py). A running average is written by the backward pass of
its operator, which is run only for a gradient that somebody wants: those of frozen layers stay.
"""

from __future__ import annotations

import numpy as np
import pytest
from against_mxnet.recorded import states
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.executor import executor
from hybridgpu.gluon import nn

RECORDED = recorded("states")
FLAGS = {**states.WAYS, "background": {"background": True}, "without a compiler": {}}


@pytest.fixture
def way(request):
    """How a net is hybridized (None: it is not)."""
    if request.param != "eager":
        request.getfixturevalue("no_compiler" if request.param == "without a compiler" else "compiler")
    return FLAGS[request.param]


def expect(ours, theirs):
    wrong = [(a, b) for a, b in zip(ours, theirs, strict=True) if not same(a, b)]
    assert not wrong, "after (step, states) in MXNet"


@pytest.mark.long_table
@pytest.mark.parametrize("way", FLAGS, indirect=True)
@pytest.mark.parametrize("name", states.PROGRAMS)
def test_programs(name, way):
    theirs = RECORDED[name]["eager" if way is None else "hybridized"]
    expect(states.follow(mx, name, way), theirs)


@pytest.mark.parametrize("way", FLAGS, indirect=True)
@pytest.mark.parametrize("name", states.RECOMPUTED)
def test_calls_that_are_recorded_in_a_backward_pass(name, way):
    """They take memory that calls release; what those write has to be written by then."""
    expect(states.recomputed(mx, name, way), RECORDED[name])


@pytest.mark.parametrize("name", ["chain below the head", "shared", "fixed"])
def test_programs_on_a_gpu(name, cuda_driver):
    expect(states.follow(mx, name, {}, mx.gpu(0)), RECORDED[name]["hybridized"])


@pytest.mark.parametrize("after", [0, 99], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", states.EXECUTORS)
def test_executors(name, after, monkeypatch):
    monkeypatch.setattr(executor, "_COMPILE_AFTER", after)
    expect(states.bound(mx, name), RECORDED[name])


@pytest.mark.parametrize("after", [0, 99], ids=["compiled", "interpreted"])
def test_an_average_that_is_no_running_statistic(after, monkeypatch):
    monkeypatch.setattr(executor, "_COMPILE_AFTER", after)
    expect(states.sparseness(mx), RECORDED["sparseness"])


def averages(net):
    return [p.data().asnumpy() for n, p in net.collect_params().items() if "running" in n]


@pytest.mark.parametrize("way", ["eager", "hybridized", "static"], indirect=True)
def test_frozen_features_of_a_trained_head(way):
    """The first layer of resnet*_v2 has neither scale nor shift to train; the others are frozen here. Prepared calls too."""
    features = nn.HybridSequential()
    features.add(nn.BatchNorm(scale=False, center=False, in_channels=3), nn.Dense(4, in_units=3))
    features.add(nn.BatchNorm(in_channels=4), nn.Activation("relu"))
    net = nn.HybridSequential()
    net.add(features, nn.Dense(2, in_units=4))
    net.initialize(mx.init.Normal(0.5))
    features.collect_params().setattr("grad_req", "null")
    if way is not None:
        net.hybridize(**way)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    before, head = averages(net), net[1].weight.data().asnumpy()
    for k in range(6):
        with autograd.record():
            loss = (net(nd.array(np.random.default_rng(k).normal(5, 3, (8, 3)))) ** 2).sum()
        loss.backward()
        trainer.step(8)
    assert not np.array_equal(head, net[1].weight.data().asnumpy())
    for a, b in zip(before, averages(net), strict=True):
        np.testing.assert_array_equal(a, b)
    features[1].bias.grad_req = "write"  # now gradients flow through the second one
    with autograd.record():
        loss = net(nd.array(np.random.default_rng(7).normal(5, 3, (8, 3)))).sum()
    loss.backward()
    moved = [not np.array_equal(a, b) for a, b in zip(before, averages(net), strict=True)]
    assert moved == [False, False, True, True]


@pytest.mark.parametrize("way", ["eager", "hybridized", "static"], indirect=True)
def test_every_backward_pass_of_one_call_counts(way):
    """Prepared backward passes included, which begin at the second call."""
    net = nn.HybridSequential()
    net.add(nn.BatchNorm(in_channels=3, momentum=0.5), nn.Dense(2, in_units=3))
    net.initialize()
    if way is not None:
        net.hybridize(**way)
    x = np.random.default_rng(0).normal(2, 3, (8, 3)).astype("float32")
    mean = np.zeros(3)
    for _ in range(3):
        with autograd.record():
            y = net(nd.array(x)).sum()
        for keep in (True, True, False):
            y.backward(retain_graph=keep)
            mean = 0.5 * mean + 0.5 * x.mean(0)
            np.testing.assert_allclose(net[0].running_mean.data().asnumpy(), mean, rtol=1e-5)


@pytest.mark.parametrize("fixed", [[], ["f_weight", "f_bias"], ["f_weight", "f_bias", "n_gamma", "n_beta"]])
def test_fixed_parameters_of_a_module(fixed):
    h = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="f")
    h = mx.sym.BatchNorm(h, name="n", fix_gamma=False)
    h = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(h, num_hidden=2, name="h"), name="softmax")
    module = mx.mod.Module(h, fixed_param_names=fixed)
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params(mx.init.Normal(0.5))
    module.init_optimizer()
    batch = mx.io.DataBatch([nd.array(np.random.default_rng(0).normal(2, 3, (4, 3)))], [nd.array([0, 1, 0, 1])])
    for _ in range(executor._COMPILE_AFTER + 3):  # interpreted, then compiled
        module.forward_backward(batch)
        module.update()
    assert (module.get_params()[1]["n_moving_mean"].asnumpy() == 0).all() == (len(fixed) == 4)


def _eight(F, x, bn):
    u = bn(bn(bn(x))) + F.BlockGrad(bn(x))
    return u * (bn(bn(F.tanh(bn(u)))) + bn(u))


def _seven(F, x, bn):
    u = bn(bn(x)) + F.BlockGrad(bn(x))
    return u * (bn(bn(F.tanh(bn(u)))) + bn(u))


class Several(nn.HybridBlock):
    """One BatchNorm, called several times."""

    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self._body = body
        with self.name_scope():
            self.norm = nn.BatchNorm(momentum=0.5, epsilon=1e-3, in_channels=1)

    def hybrid_forward(self, F, x):
        return self._body(F, x, self.norm)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize(
    ("body", "theirs"),
    [(_eight, (1.4987124, 2.1596231)), (_seven, (1.3490164, 2.3484535))],
    ids=["eight calls", "seven calls"],
)
def test_order_of_writes_of_one_norm(compiler, body, theirs, hybridized):
    """MXNet 1.9.1's averages: from eight gradients of one gamma on each waits for those before it."""
    net = Several(body)
    net.initialize()
    net.hybridize(hybridized)
    x = nd.array([[1.0], [2.0], [5.0]])
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(nd.array([[1.0], [-2.0], [3.0]]))
    found = net.norm.running_mean.data().asscalar(), net.norm.running_var.data().asscalar()
    np.testing.assert_allclose(found, theirs, rtol=1e-5)

# SPDX-License-Identifier: Apache-2.0
"""Prepared backward passes: the gradients of the general way, and every sweep that has to take that way."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn
from hybridgpu.runtime import recorded_program
from hybridgpu.runtime.dispatch import backward

pytestmark = pytest.mark.usefixtures("compiler")


class Stopped(mx.gluon.HybridBlock):
    """One parameter is not reached."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(8,))
            self.v = self.params.get("v", shape=(8,))

    def hybrid_forward(self, F, x, w, v):
        return F.broadcast_mul(x, w) + F.broadcast_mul(x, F.BlockGrad(v))


class Sorted(mx.gluon.HybridBlock):
    """A library call between kernels."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(8,))

    def hybrid_forward(self, F, x, w):
        return F.sort(F.broadcast_mul(x, w)) + 1


def layers(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


#: name -> makes a net of one result, whose input has 8 columns
NETS = {
    "dense": lambda: layers(nn.Dense(6, activation="tanh", in_units=8), nn.Dense(5, in_units=6)),
    "running averages": lambda: layers(nn.Dense(6, in_units=8), nn.BatchNorm(in_channels=6)),
    "random numbers": lambda: layers(nn.Dense(6, in_units=8), nn.Dropout(0.5), nn.Dense(4, in_units=6)),
    "library call": Sorted,
    "unreached": Stopped,
    "convolution": lambda: layers(
        nn.HybridLambda(lambda F, x: F.reshape(x, (-1, 1, 2, 4))), nn.Conv2D(3, (1, 3), in_channels=1), nn.Flatten()
    ),
}


class Square(gluon.loss.Loss):
    def __init__(self):
        super().__init__(1.0, 0)

    def hybrid_forward(self, F, x):
        return F.mean(F.square(x + 0.5), axis=0, exclude=True)


def made(name):
    mx.random.seed(3)
    net, loss = NETS[name](), Square()
    net.initialize(mx.init.Uniform(1))
    for block in (net, loss):
        block.hybridize()
    return net, loss


@pytest.fixture
def swept(monkeypatch):
    """How many sweeps were prepared."""
    found: list[int] = []
    monkeypatch.setattr(backward, "_run", _counting(found))
    return found


def draw(seed, shape=(4, 8)):
    return nd.array(np.random.default_rng(seed).standard_normal(shape))


def gradients(name, request, retain, prepared, monkeypatch, dtype="float32"):
    """Gradients and states after each of five steps."""
    if not prepared:
        monkeypatch.setattr(recorded_program, "sweep", lambda node, retain: False)
    net, loss = made(name)
    net.cast(dtype)
    params = list(net.collect_params().values())
    for k, p in enumerate(params):
        if p.grad_req != "null":
            p.grad_req = request[k % len(request)]
    mx.random.seed(5)
    found = []
    for t in range(5):
        with autograd.record():
            value = loss(net(draw(t).astype(dtype)))
        value.backward(retain_graph=retain)
        if retain:
            value.backward()
        found.append([p.grad().asnumpy() for p in params if p.grad_req != "null"])
        found.append([p.data().asnumpy() for p in params])
        for p in params:
            assert p.grad_req == "null" or p.data()._fresh_grad
            p.data()._fresh_grad = False
    monkeypatch.undo()
    return found


@pytest.mark.long_table
@pytest.mark.parametrize("retain", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("request_", [("write",), ("add",), ("write", "null", "add")], ids=lambda r: " ".join(r))
@pytest.mark.parametrize("name", NETS)
def test_gradients_are_those_of_the_general_way(name, request_, retain, monkeypatch, swept):
    expected = gradients(name, request_, retain, False, monkeypatch)
    assert not swept
    monkeypatch.setattr(backward, "_run", _counting(swept))
    found = gradients(name, request_, retain, True, monkeypatch)
    assert swept.count(2) >= 3 * (1 + retain)
    for a, b in zip(expected, found, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype and x.tobytes() == y.tobytes()


def _counting(found, run=backward._run):
    def counting(plan, nodes):
        found.append(len(nodes))
        run(plan, nodes)

    return counting


def test_half_precision(monkeypatch, swept):
    expected = gradients("dense", ("write",), False, False, monkeypatch, "float16")
    assert not swept
    monkeypatch.setattr(backward, "_run", _counting(swept))
    found = gradients("dense", ("write",), False, True, monkeypatch, "float16")
    assert swept.count(2) >= 3
    for a, b in zip(expected, found, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == np.float16 and x.tobytes() == y.tobytes()


def test_three_blocks(swept):
    first, second, loss = nn.Dense(6, in_units=8), nn.Dense(3, in_units=6), Square()
    for block in (first, second, loss):
        block.initialize(mx.init.One())
        block.hybridize()
    for t in range(4):
        with autograd.record():
            value = loss(second(first(draw(t))))
        value.backward()
    assert swept[-1] == 3
    x = draw(3).asnumpy().astype(np.float64)
    y = x.sum(1, keepdims=True) * 6
    expected = np.broadcast_to((2 * (y + 0.5) * x).sum(0), (6, 8))
    np.testing.assert_allclose(first.weight.grad().asnumpy(), expected, rtol=1e-4)


def steps(net, loss, count=4, backward=None, inputs=draw):
    """The weight gradients of the last step."""
    for t in range(count):
        x = inputs(t)
        with autograd.record():
            value = loss(net(x))
        (backward or (lambda v, t: v.backward()))(value, t)
    return [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]


def attached(t):
    x = draw(t)
    x.attach_grad()
    return x


#: sweeps of another kind: (how to go back, inputs)
OTHERS = {
    "a head gradient": (lambda v, t: v.backward(nd.ones((4,)) * 2), draw),
    "a list of heads": (lambda v, t: autograd.backward([v, v]), draw),
    "an input with a gradient": (lambda v, t: v.backward(), attached),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_sweeps_take_the_general_way(what, swept):
    net, loss = made("dense")
    backward, inputs = OTHERS[what]
    found = steps(net, loss, 4, backward, inputs)
    assert not swept
    plain = steps(*made("dense"))
    factor = 1 if what == "an input with a gradient" else 2
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, factor * b, rtol=1e-5, atol=1e-6)


def test_a_value_that_is_read_twice(swept):
    net, loss = made("dense")
    total = gluon.loss.L2Loss()
    total.hybridize()
    for t in range(4):
        with autograd.record():
            y = net(draw(t))
            value = total(y, y * 0) if t % 2 else total(y, net(draw(t + 10)))
        value.backward()
        assert all(np.isfinite(p.grad().asnumpy()).all() for p in net.collect_params().values())
    assert not swept
    assert loss is not None


def test_an_argument_in_a_gradient(swept):
    """What a program reads while it writes gradients is not their memory."""
    net, loss = made("dense")
    steps(net, loss)
    whole = net[0].weight.grad()
    grad = whole[:4]
    assert np.shares_memory(grad._data, whole._data)
    x = grad.asnumpy()
    before = len(swept)
    with autograd.record():
        value = loss(net(grad))
    value.backward()
    assert len(swept) == before
    found = [p.grad().asnumpy() for p in net.collect_params().values()]
    other, loss = made("dense")
    expected = steps(other, loss, 1, inputs=lambda t: nd.array(x))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_graph_is_used_once(swept):
    net, loss = made("dense")
    steps(net, loss)
    with autograd.record():
        value = loss(net(draw(9)))
    value.backward()
    assert swept[-1] == 2
    with pytest.raises(mx.MXNetError, match="Cannot differentiate node because it is not in a computational graph"):
        value.backward()


def test_gradients_of_gradients_and_grad(swept):
    net, loss = made("dense")
    steps(net, loss)
    before = len(swept)
    with autograd.record():
        value = loss(net(draw(1)))
        (g,) = autograd.grad(value, [net[0].weight.data()], create_graph=True)
        total = (g * g).sum()
    total.backward()
    assert len(swept) == before
    assert np.abs(net[0].weight.grad().asnumpy()).sum() > 0


def test_what_changes_between_steps(monkeypatch):
    """Requests, buffers and parameters."""
    swept: list[int] = []

    def run(prepared):
        if prepared:
            monkeypatch.setattr(backward, "_run", _counting(swept))
        else:
            monkeypatch.setattr(recorded_program, "sweep", lambda node, retain: False)
        net, loss = made("dense")
        found = []
        for t in range(9):
            if t == 3:
                net[0].weight.grad_req = "add"
            if t == 5:
                net[1].bias.grad_req = "null"
            if t == 6:
                net[0].bias.data().attach_grad()
            if t == 7:
                net[1].weight.initialize(mx.init.One(), force_reinit=True)
            found.append(steps(net, loss, 1, inputs=lambda _, t=t: draw(t)))
        monkeypatch.undo()
        return found

    for a, b in zip(run(False), run(True), strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.tobytes() == y.tobytes()
    assert swept, "no sweep between the changes was prepared"


def test_a_net_that_is_dropped_is_forgotten():
    net, loss = made("dense")
    steps(net, loss)
    gradient = weakref.ref(net[0].weight.grad())
    del net
    gc.collect()
    assert gradient() is None
    assert np.isfinite(loss(draw(0)).asnumpy()).all()

# SPDX-License-Identifier: Apache-2.0
"""Prepared calls of graphs with several results, random numbers, written states and library calls, and recorded calls.

Each is compared with the general way, on the CPU and on an emulated GPU.
"""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import nn
from hybridgpu.runtime.dispatch.call_cache import CallCache

GPU = mx.gpu(0)


@pytest.fixture(params=["cpu", "kept", "graph"])
def place(request, compiler):
    """(device, flags of hybridize)."""
    if request.param == "cpu":
        return mx.cpu(), {}
    request.getfixturevalue("cuda_driver")
    return GPU, {"static_alloc": True, "static_shape": request.param == "graph"}


def lambda_net(function):
    return lambda: nn.HybridLambda(function)


def dense_net():
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="tanh", in_units=8), nn.Dense(5, in_units=6))
    return net


def normalised():
    net = nn.HybridSequential()
    net.add(nn.Dense(6, in_units=8), nn.BatchNorm(in_channels=6), nn.HybridLambda(lambda F, x: [F.relu(x), x * 2]))
    return net


class Sorted(mx.gluon.HybridBlock):
    """A library call between kernels."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(8,))

    def hybrid_forward(self, F, x, w):
        y = F.sort(F.broadcast_mul(x, w))
        return y + 1, F.softmax(y)


NETS = {
    "two results": lambda_net(lambda F, x: [x * 2, F.exp(x)]),
    "one in a list": lambda_net(lambda F, x: [x * 2]),
    "nested": lambda_net(lambda F, x: [x * 2, [x + 1, [x - 1]]]),
    "several of one operator": lambda_net(lambda F, x: F.split(x * 2, num_outputs=2, axis=1)),
    "library call": Sorted,
    "parameters": dense_net,
}
RECORDED = {**NETS, "normalised": normalised}
LEARNED = ("library call", "parameters", "normalised")  #: nets with parameters


def flat(values):
    if isinstance(values, mx.nd.NDArray):
        return [values]
    return [a for v in values for a in flat(v)]


def shape_of(values):
    return "x" if isinstance(values, mx.nd.NDArray) else [shape_of(v) for v in values]


def made(name, ctx):
    net = RECORDED[name]()
    net.initialize(ctx=ctx)
    rng = np.random.RandomState(0)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.uniform(0.5, 1.5, p.shape)))
    return net


def inputs(ctx, count=3):
    rng = np.random.RandomState(1)
    return [nd.array(rng.standard_normal((4, 8)), ctx=ctx) for _ in range(count)]


def same(got, want):
    assert shape_of(got) == shape_of(want)
    for a, b in zip(flat(got), flat(want), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy() if hasattr(b, "asnumpy") else b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_the_prepared_call_is_the_plain_call(name, place):
    ctx, flags = place
    net = made(name, ctx)
    xs = inputs(ctx)
    want = [net(x) for x in xs]
    net.hybridize(**flags)
    for _ in range(3):
        for x, w in zip(xs, want):
            same(net(x), w)
    assert net._hg_fast.__name__ == "call_prepared"
    same(net(nd.ones((2, 8), ctx=ctx)), net(nd.ones((2, 8), ctx=ctx)))  # another signature
    same(net(xs[0]), want[0])


def test_results_stay_the_callers(place):
    ctx, flags = place
    net = made("two results", ctx)
    net.hybridize(**flags)
    xs = inputs(ctx, 6)
    net(xs[0])
    kept = [net(x) for x in xs]
    assert len({a.address for pair in kept for a in pair}) == 12
    halves = [net(x)[1][1:3] for x in xs]  # only the memory is held
    for _ in range(4):
        net(xs[0])
    for x, (a, b), half in zip(xs, kept, halves):
        np.testing.assert_allclose(a.asnumpy(), 2 * x.asnumpy())
        np.testing.assert_allclose(b.asnumpy(), np.exp(x.asnumpy()), rtol=1e-5)
        np.testing.assert_allclose(half.asnumpy(), np.exp(x.asnumpy()[1:3]), rtol=1e-5)
    del kept, halves, a, b, half
    assert len({a.address for _ in range(9) for a in net(xs[0])}) <= 8


def test_random_numbers_are_those_of_the_general_way(place):
    ctx, flags = place
    net = nn.HybridLambda(lambda F, x: F.random.uniform(shape=(4, 8)) + x)
    net.hybridize(**flags)
    x = nd.zeros((4, 8), ctx=ctx)

    def drawn(count):
        mx.random.seed(7)
        return [net(x).asnumpy() for _ in range(count)]

    net(x)
    assert net._hg_fast.__name__ == "call_prepared"
    fast = drawn(4)
    net._hg_changed()
    mx.random.seed(7)
    slow = []
    for _ in range(4):
        slow.append(net(x).asnumpy())
        net._hg_changed()  # the next call is a general one again
    np.testing.assert_array_equal(fast, slow)
    assert len({a.tobytes() for a in fast}) == 4


def test_states_are_written(place):
    ctx, flags = place

    class Momentum(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.m = self.params.get("m", shape=(4, 8), init="zeros", grad_req="null")

        def hybrid_forward(self, F, x, g, m):
            return F.sgd_mom_update(x, g, m, lr=0.5, momentum=0.5)

    net = Momentum()
    net.initialize(ctx=ctx)
    net.hybridize(**flags)
    x, g = nd.ones((4, 8), ctx=ctx), nd.ones((4, 8), ctx=ctx)
    state, seen = 0.0, []
    for _ in range(4):
        y = net(x, g)
        state = 0.5 * state - 0.5
        np.testing.assert_allclose(net.m.data(ctx).asnumpy(), state)
        np.testing.assert_allclose(y.asnumpy(), 1 + state)
        seen.append(net._hg_fast.__name__)
    assert set(seen) == {"call_prepared"}


# -- recorded calls


def gradients(net, x, **kwargs):
    """Of the inputs and the parameters, for the sum of squares of all results."""
    with autograd.record():
        loss = sum((y * y).sum() for y in flat(net(x)))
    loss.backward(**kwargs)
    found = [x.grad] if x.grad is not None else []
    return [
        g.asnumpy()
        for g in (*found, *(p.grad(x.context) for p in net.collect_params().values() if p.grad_req != "null"))
    ]


@pytest.mark.long_table
@pytest.mark.parametrize(
    ("name", "wanted"), [*((name, True) for name in RECORDED), *((name, False) for name in LEARNED)]
)
def test_gradients_are_those_of_the_general_way(name, wanted, place):
    ctx, flags = place
    net = made(name, ctx)
    xs = inputs(ctx)
    if wanted:
        for x in xs:
            x.attach_grad()
    want = [gradients(net, x) for x in xs]
    net.hybridize(**flags)
    for _ in range(3):
        for x, w in zip(xs, want):
            for a, b in zip(gradients(net, x), w, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
    assert net._hg_fast.__name__ == "call_recorded"


def test_running_averages_change_as_in_the_general_way(place):
    ctx, flags = place
    averages = []
    for hybrid in (False, True):
        net = made("normalised", ctx)
        if hybrid:
            net.hybridize(**flags)
        for x in inputs(ctx, 4):
            gradients(net, x)
        averages.append([p.data(ctx).asnumpy() for n, p in net.collect_params().items() if "running" in n])
    for a, b in zip(*averages, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_what_has_gradients_may_change(compiler):
    net = made("parameters", mx.cpu())
    net.hybridize()
    x, y = inputs(mx.cpu(), 2)
    y.attach_grad()
    plain = made("parameters", mx.cpu())

    def both():
        for z in (x, y, x, y):
            for a, b in zip(gradients(net, z), gradients(plain, z), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

    both()
    for n in (net, plain):
        next(iter(n.collect_params().values())).grad_req = "null"
    both()
    for n in (net, plain):
        next(iter(n.collect_params().values())).grad_req = "add"
        n.collect_params().zero_grad()
    both()


def test_predictions_and_records_take_turns(compiler):
    net = made("two results", mx.cpu())
    net.hybridize()
    (x,) = inputs(mx.cpu(), 1)
    x.attach_grad()
    want = [nd.array(2 * x.asnumpy()), nd.array(np.exp(x.asnumpy()))]
    for _ in range(3):
        same(net(x), want)
        (grad,) = gradients(net, x)
        np.testing.assert_allclose(grad, 8 * x.asnumpy() + 2 * np.exp(2 * x.asnumpy()), rtol=1e-5)


def test_second_order_and_a_graph_that_stays(compiler):
    net = nn.HybridLambda(lambda F, x: F.exp(x))
    net.hybridize()
    (x,) = inputs(mx.cpu(), 1)
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            y = net(x)
            (g,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
            total = (g * g).sum()
        total.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.exp(2 * x.asnumpy()), rtol=1e-5)
        with autograd.record():
            y = net(x)
        for _ in range(2):
            y.backward(retain_graph=True)
            np.testing.assert_allclose(x.grad.asnumpy(), np.exp(x.asnumpy()), rtol=1e-5)
    assert net._hg_fast.__name__ == "call_recorded"


def test_kept_values_are_not_given_out_before_the_backward_pass(compiler):
    net = nn.HybridLambda(lambda F, x: F.exp(x))
    net.hybridize()
    xs = inputs(mx.cpu(), 8)
    for x in xs:
        x.attach_grad()
    for _ in range(2):
        with autograd.record():
            ys = [net(x) for x in xs]
        sums = [y.sum() for y in ys]
        del sums
        autograd.backward(ys)
        for x in xs:
            np.testing.assert_allclose(x.grad.asnumpy(), np.exp(x.asnumpy()), rtol=1e-5)


def test_a_record_that_nobody_holds_is_forgotten(compiler):
    net = made("parameters", mx.cpu())
    net.hybridize()
    (x,) = inputs(mx.cpu(), 1)
    for _ in range(3):
        with autograd.record():
            y = net(x)
        node = weakref.ref(y._autograd.node)
        assert node() is not None
        del y
        gc.collect()
        assert node() is None
    assert net._hg_fast.__name__ == "call_recorded"


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_in_training(rate, place):
    ctx, flags = place
    net = nn.HybridSequential()
    net.add(nn.Dense(16, in_units=8), nn.Dropout(rate))
    net.initialize(mx.init.One(), ctx=ctx)
    net.hybridize(**flags)
    x = nd.ones((4, 8), ctx=ctx)
    x.attach_grad()
    masks = set()
    for _ in range(4):
        with autograd.record():
            y = net(x)
        y.backward()
        kept = y.asnumpy() != 0
        masks.add(kept.tobytes())
        scale = 1 / (1 - rate)
        np.testing.assert_allclose(x.grad.asnumpy(), np.tile(kept.sum(1, keepdims=True) * scale, (1, 8)), rtol=1e-6)
    assert len(masks) == (4 if rate else 1) and net._hg_fast.__name__ == "call_recorded"


def test_a_call_in_the_other_mode_while_one_is_prepared(place):
    """Another thread's: the prepared call is for the mode of the call that it repeats."""
    ctx, flags = place
    net = nn.Dropout(0.5)
    net.hybridize(**flags)
    x = nd.ones((64,), ctx=ctx)
    net(x)
    op = net._cached_op
    predicting, seen = op.last_call, []
    with autograd.train_mode():
        net(x)
    training = op.last_call

    class Meanwhile(CallCache):
        def find(self, kind, program):
            seen.append(program)
            op.last_call = training
            return super().find(kind, program)

    op.last_call, op._calls = predicting, Meanwhile()
    call = op.prepared(net._hg_call, [x], [0], net._out_format, lambda call: None)
    assert seen == [predicting[2]]
    np.testing.assert_array_equal(call(x).asnumpy(), 1)
    with autograd.train_mode():
        assert set(np.unique(call(x).asnumpy())) == {0, 2}, "the mode is checked"

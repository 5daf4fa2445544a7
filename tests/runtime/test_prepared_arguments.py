# SPDX-License-Identifier: Apache-2.0
"""Prepared calls with lists among the arguments, and of blocks whose ``forward`` is a user's."""

from __future__ import annotations

import types
from contextlib import nullcontext

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.base import MXNetError
from hybridgpu.gluon import HybridBlock, SymbolBlock, nn, rnn
from hybridgpu.runtime.cached_op import CachedOp

X, H, C = (np.arange(k, k + 6, dtype=np.float32).reshape(2, 3) for k in range(3))


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [] if value is None else [value]


class Weighed(HybridBlock):
    """1, 10, 100, …: every argument has a place of its own in the result."""

    def hybrid_forward(self, F, *args):
        found, factor = [], 1.0
        for a in args:
            for v in leaves(a):
                found.append(v * factor)
                factor *= 10
        return F.add_n(*found)


def arrays(*values):
    return [nd.array(v) for v in values]


def prepared(net):
    return net.__dict__.get("_hg_fast") or net.__dict__.get("_hg_inner")


#: arguments made of three arrays
ARGUMENTS = {
    "one by one": lambda x, h, c: (x, h, c),
    "a list": lambda x, h, c: (x, [h, c]),
    "a tuple": lambda x, h, c: (x, (h, c)),
    "a list alone": lambda x, h, c: ([x, h, c],),
    "lists first": lambda x, h, c: ([x], [h], c),
    "None last": lambda x, h, c: (x, [h, c], None),
    "None between": lambda x, h, c: (x, None, [h, c]),
    "lists in lists": lambda x, h, c: ([x, [h, (c,)]],),
    "nothing in lists": lambda x, h, c: ([[x], None, []], [[None, h], c]),
}


@pytest.mark.parametrize("what", ARGUMENTS)
def test_lists_among_the_arguments(what, compiler):
    arguments = ARGUMENTS[what]
    net = Weighed()
    net.hybridize()
    for k in range(4):
        x, h, c = X + k, H * k, C - k
        y = net(*arguments(*arrays(x, h, c)))
        np.testing.assert_allclose(y.asnumpy(), x + 10 * h + 100 * c)
        assert prepared(net)
    y = net(*arguments(*arrays(X[:1], H[:1], C[:1])))  # another signature
    np.testing.assert_allclose(y.asnumpy(), (X + 10 * H + 100 * C)[:1])


#: what does not fit a call with (array, [array, array]) before it, and the error
WRONG = {
    "fewer in the list": (lambda x, h, c: (x, [h]), ValueError),
    "more in the list": (lambda x, h, c: (x, [h, c, c]), ValueError),
    "no list": (lambda x, h, c: (x, h, c), ValueError),
    "a list for an array": (lambda x, h, c: ([x], [h, c]), ValueError),
    "a list in the list": (lambda x, h, c: (x, [h, [c]]), ValueError),
    "no array": (lambda x, h, c: (x, [h, 1.0]), ValueError),
    "a string of that length": (lambda x, h, c: (x, "hc"), ValueError),
    "a list for nothing": (lambda x, h, c: (x, [h, None]), ValueError),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_arguments_are_refused_as_ever(what, compiler):
    arguments, error = WRONG[what]
    messages = []
    for calls in (1, 3):
        net = Weighed()
        net.hybridize()
        for _ in range(calls):
            net(*ARGUMENTS["a list"](*arrays(X, H, C)))
        with pytest.raises(error) as caught:
            net(*arguments(*arrays(X, H, C)))
        messages.append(str(caught.value).split(" at 0x")[0])
    assert messages[0] == messages[1]


@pytest.mark.parametrize("cell", [rnn.RNNCell, rnn.GRUCell, rnn.LSTMCell])
@pytest.mark.parametrize("recording", [False, True])
def test_recurrent_cells_have_prepared_calls(cell, recording, compiler):
    def run(hybrid):
        mx.random.seed(3)
        net = cell(4, input_size=3, prefix="cell_")
        net.initialize()
        if hybrid:
            net.hybridize()
        states, results = net.begin_state(2), []
        for k in range(4):
            x = nd.array(X + k)
            x.attach_grad()
            with autograd.record() if recording else autograd.pause():
                y, states = net(x, states)
            if recording:
                y.backward()
                results.append(x.grad.asnumpy())
                states = [s.detach() for s in states]
            results.append(y.asnumpy())
        assert net._counter == 3 and bool(prepared(net)) is hybrid
        return results

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# -- calls in turn


def shape(k):
    return lambda net: net(nd.ones((k, 3)), [nd.ones((k, 3)), nd.ones((k, 3)) * 2])


def in_mode(mode, call):
    def run(net):
        with mode():
            return call(net)

    return run


def wanting(call):
    def run(net):
        x = nd.ones((2, 3))
        x.attach_grad()
        with autograd.record():
            y = net(x, [x, x])
        y.backward()
        return x.grad

    return run


#: calls of one net in turn
TURNS = {
    "two shapes": [shape(2), shape(3)],
    "shapes up and down": [shape(k) for k in (1, 2, 3, 4, 3, 2)],
    "more than are kept": [shape(k) for k in range(1, 12)],
    "training and not": [shape(2), in_mode(autograd.train_mode, shape(2))],
    "recording and not": [in_mode(autograd.record, shape(2)), shape(2), shape(3)],
    "gradients and none": [wanting(shape(2)), in_mode(autograd.record, shape(2))],
    "a tuple": [shape(2), lambda net: net(nd.ones((2, 3)), (nd.ones((2, 3)), nd.ones((2, 3)) * 2))],
    "devices": [
        shape(2),
        lambda net: net(*[f(nd.ones((2, 3), mx.cpu(1))) for f in (lambda x: x, lambda x: [x, x * 2])]),
    ],
}


class Scaled(Weighed):
    """With a parameter, on two devices."""

    def __init__(self):
        super().__init__()
        self.scale = self.params.get("scale", shape=(1,), init=mx.init.One())

    def hybrid_forward(self, F, *args, scale):
        return F.broadcast_mul(super().hybrid_forward(F, *args), scale)


def general_calls(net):
    """Counts calls that go the general way."""
    count = []
    op, real = net._cached_op, type(net._cached_op).__call__

    class Counted(type(op)):
        def __call__(self, arrays):
            count.append(1)
            return real(self, arrays)

    op.__class__ = Counted
    return count


@pytest.mark.parametrize("what", TURNS)
def test_calls_in_turn_stay_prepared(what, compiler):
    calls, nets = TURNS[what], [Scaled(), Scaled()]
    for net in nets:
        net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    nets[0].hybridize()
    for _ in range(2):
        for call in calls:
            call(nets[0])
    count = general_calls(nets[0])
    for _ in range(3):
        for call in calls:
            one, two = (call(net) for net in nets)
            assert one.context == two.context
            np.testing.assert_allclose(one.asnumpy(), two.asnumpy())
    if what != "more than are kept":
        assert not count


def test_a_frozen_net_is_prepared_where_others_are_recorded(compiler):
    """None of its arrays is of the recorded graph: the call is no part of it, until one is."""
    net = Scaled()
    net.initialize()
    net.collect_params().setattr("grad_req", "null")
    net.hybridize()
    for _ in range(2):
        with autograd.record():
            shape(2)(net)
    count = general_calls(net)
    for _ in range(3):
        with autograd.record():
            y = shape(2)(net)
        assert y._autograd is None
        np.testing.assert_allclose(y.asnumpy(), 211)
    assert not count
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        released = x * 1
        released.backward()  # a constant from then on
        y = net(released, [x, x])
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 110)
    with autograd.record():
        assert net(released, [released, released])._autograd is None
    net.scale.grad_req = "write"
    with autograd.record():
        y = shape(2)(net)
    y.backward()
    np.testing.assert_allclose(net.scale.grad().asnumpy(), 6 * 211)


def test_calls_in_turn_see_new_parameters(compiler):
    net = Scaled()
    net.initialize()
    net.hybridize()
    one, two = shape(1), shape(2)
    for _ in range(2):
        one(net), two(net)
    net.scale.set_data(nd.array([2.0]))
    np.testing.assert_allclose([one(net).asnumpy()[0, 0], two(net).asnumpy()[0, 0]], [2 * 211, 2 * 211])
    net.cast("float64")
    with pytest.raises(mx.MXNetError):
        one(net)
    net.cast("float32")
    net.scale.reset_ctx(mx.cpu(1))
    with pytest.raises(RuntimeError):
        two(net)


def test_calls_in_turn_see_hooks(compiler):
    net, seen = Scaled(), []
    net.initialize()
    net.hybridize()
    one, two = shape(1), shape(2)
    for _ in range(3):
        one(net), two(net)
    with net.register_forward_hook(lambda *_: seen.append(1)):
        for _ in range(2):
            one(net), two(net)
    one(net), two(net)
    assert len(seen) == 4


# -- a forward of one's own


class Doubled(HybridBlock):
    def forward(self, x, *args):
        return super().forward(x * 2, *args)

    def hybrid_forward(self, F, x):
        return x + 1


class Called(HybridBlock):
    def __call__(self, x):
        return super().__call__(x * 2)

    def hybrid_forward(self, F, x):
        return x + 1


class Last(Doubled):
    def forward(self, x):
        return super().forward(x) - 1

    def hybrid_forward(self, F, x):
        return [x + 1, x][0] + 1


def assigned():
    net = nn.HybridLambda(lambda F, x: x + 1)
    net.hybridize()
    net(nd.ones((2, 3)))
    net(nd.ones((2, 3)))
    plain = net.forward
    net.forward = types.MethodType(lambda self, x: plain(x * 2), net)
    return net


def imported():
    class Twice(SymbolBlock):
        def forward(self, x):
            return super().forward(x * 2)

    x = mx.sym.var("x")
    return Twice(x + 1, [x])


class Added(HybridBlock):
    def hybrid_forward(self, F, x):
        return x + 1


def _of_instance(net, name, function):
    setattr(net, name, types.MethodType(function, net))


def _of_class_and_hybridized(net, name, function):
    setattr(type(net), name, function)
    net.hybridize()


@pytest.mark.parametrize("assign", [_of_instance, _of_class_and_hybridized], ids=lambda f: f.__name__[1:])
@pytest.mark.parametrize("name", ["forward", "hybrid_forward"])
def test_a_function_assigned_after_calls_runs_at_the_next(name, assign, compiler):
    """And what it stood for, when it is deleted."""

    class Net(Added):
        """With attributes of its own."""

    others = {"forward": lambda self, x: x * 3, "hybrid_forward": lambda self, F, x: x * 3}
    net, x = Net(), nd.array(X)
    net.hybridize()
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), X + 1)
    assign(net, name, others[name])
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), X * 3)
    if assign is _of_instance:
        delattr(net, name)
        for _ in range(3):
            np.testing.assert_allclose(net(x).asnumpy(), X + 1)


@pytest.mark.parametrize("make", [Doubled, Called, Last, assigned, imported], ids=lambda f: f.__name__)
def test_a_forward_of_ones_own_runs_at_every_call(make, compiler):
    net = make()
    net.hybridize()
    for k in range(4):
        np.testing.assert_allclose(net(nd.array(X + k)).asnumpy(), (X + k) * 2 + 1)
    count = general_calls(net)
    np.testing.assert_allclose(net(nd.array(X)).asnumpy(), X * 2 + 1)
    assert not count, "what it calls is prepared"
    np.testing.assert_allclose(net(nd.array(X[:1])).asnumpy(), X[:1] * 2 + 1)  # another signature
    with autograd.record():
        y = net(nd.array(X))
    np.testing.assert_allclose(y.asnumpy(), X * 2 + 1)


def test_a_forward_of_ones_own_inside_another_block(compiler):
    net = nn.HybridSequential()
    net.add(Doubled(), Doubled())
    net.hybridize()
    for _ in range(3):
        np.testing.assert_allclose(net(nd.array(X)).asnumpy(), (X * 2 + 1) * 2 + 1)
    np.testing.assert_allclose(net[0](nd.array(X)).asnumpy(), X * 2 + 1)


@pytest.mark.parametrize("recording", [False, True])
def test_a_cast_by_another_thread_while_a_call_is_prepared(recording, monkeypatch, compiler):
    """The prepared call would read float64 weights as float32, or beyond them the other way round."""
    net = nn.HybridSequential()
    net.add(nn.Dense(64, in_units=64), nn.Dense(3, in_units=64))
    net.initialize()
    net.hybridize()
    x, original, casts = nd.ones((2, 64)), CachedOp.prepared, iter([True])

    def prepared(*args):
        if next(casts, False):
            net.cast("float64")
        return original(*args)

    monkeypatch.setattr(CachedOp, "prepared", prepared)
    for expected in (False, True):
        with autograd.record() if recording else nullcontext():
            if not expected:
                net(x)
                continue
            with pytest.raises(MXNetError, match="float32"):
                net(x)

# SPDX-License-Identifier: Apache-2.0
"""Prepared calls with lists among the arguments, and of blocks whose ``forward`` is a user's."""

from __future__ import annotations

import types

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import HybridBlock, SymbolBlock, nn, rnn

X, H, C = (np.arange(k, k + 6, dtype=np.float32).reshape(2, 3) for k in range(3))


class Weighed(HybridBlock):
    """1, 10, 100, …: every argument has a place of its own in the result."""

    def hybrid_forward(self, F, *args):
        found, factor = [], 1.0
        for a in args:
            for v in a if isinstance(a, list) else [a]:
                if v is not None:
                    found.append(v * factor)
                    factor *= 10
        return F.add_n(*found)


def arrays(*values):
    return [nd.array(v) for v in values]


def prepared(net):
    return net.__dict__.get("_fast") or net.__dict__.get("_inner")


#: arguments made of three arrays
ARGUMENTS = {
    "one by one": lambda x, h, c: (x, h, c),
    "a list": lambda x, h, c: (x, [h, c]),
    "a tuple": lambda x, h, c: (x, (h, c)),
    "a list alone": lambda x, h, c: ([x, h, c],),
    "lists first": lambda x, h, c: ([x], [h], c),
    "None last": lambda x, h, c: (x, [h, c], None),
    "None between": lambda x, h, c: (x, None, [h, c]),
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


def test_deeper_lists_are_called_in_the_general_way(compiler):
    net = nn.HybridLambda(lambda F, x: x[0] + x[1][0] * 10)
    net.hybridize()
    for _ in range(3):
        np.testing.assert_allclose(net([nd.array(X), [nd.array(H)]]).asnumpy(), X + 10 * H)
    assert not prepared(net)


#: what does not fit a call with (array, [array, array]) before it, and the error
WRONG = {
    "fewer in the list": (lambda x, h, c: (x, [h]), ValueError),
    "more in the list": (lambda x, h, c: (x, [h, c, c]), ValueError),
    "no list": (lambda x, h, c: (x, h, c), ValueError),
    "a list for an array": (lambda x, h, c: ([x], [h, c]), ValueError),
    "a list in the list": (lambda x, h, c: (x, [h, [c]]), ValueError),
    "no array": (lambda x, h, c: (x, [h, 1.0]), ValueError),
    "a string of that length": (lambda x, h, c: (x, "hc"), ValueError),
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


@pytest.mark.parametrize("make", [Doubled, Called, Last, assigned, imported], ids=lambda f: f.__name__)
def test_a_forward_of_ones_own_runs_at_every_call(make, compiler):
    net = make()
    net.hybridize()
    for k in range(4):
        np.testing.assert_allclose(net(nd.array(X + k)).asnumpy(), (X + k) * 2 + 1)
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

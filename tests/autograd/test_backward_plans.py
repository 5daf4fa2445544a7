# SPDX-License-Identifier: Apache-2.0
"""Backward plans: the Python that repeats backward passes gives what the first ones gave."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import autograd, nd
from hybridgpu.base import MXNetError
from hybridgpu.context import cpu
from hybridgpu.ndarray import tape
from hybridgpu.ndarray.apply import forget_graphs
from hybridgpu.ndarray.backward_pass import recorded

pytestmark = pytest.mark.usefixtures("no_compiler")

_TIMES = 6
_VALUES = np.random.default_rng(0).normal(size=(_TIMES, 3, 4, 6)).astype("float32")


def _softmax_loss(x, w, y):
    return -nd.pick(nd.log_softmax(nd.FullyConnected(x, w, num_hidden=5, no_bias=True)), y)


#: a function of arrays -> what it is called with: shapes, or numbers
CASES = {
    "one operand": (lambda x: nd.relu(x), [(4, 6)]),
    "broadcast operands": (lambda x, y: x * y - y, [(4, 1), (1, 6)]),
    "operands that are equal": (lambda x: x * x + x, [(4, 6)]),
    "a result that is read twice": (lambda x, y: nd.exp(x) * y + nd.exp(x), [(4, 6), (4, 6)]),
    "a dense layer with its loss": (_softmax_loss, [(4, 6), (5, 6), [0, 1, 2, 4]]),
    "an input without gradient": (lambda x, y: nd.take(x, y), [(4, 6), [3, 1, 3]]),
    "one of several results": (lambda x: nd.split(x, 3)[1] * 2, [(4, 6)]),
    "all of several results": (lambda x: nd.concat(*nd.split(x, 2), dim=0), [(4, 6)]),
    "hidden results": (lambda x, g, b: nd.LayerNorm(x, g, b), [(4, 6), (6,), (6,)]),
    "a scalar": (lambda x: nd.sum(x) / nd.norm(x), [(4, 6)]),
    "views": (lambda x: x.T.reshape(-1)[3:9], [(4, 6)]),
    "nothing": (lambda x: nd.sum(x, axis=1), [(4, 0)]),
    "float16": (lambda x: nd.tanh(x.astype("float16")), [(4, 6)]),
    "no derivative": (lambda x: x * nd.BlockGrad(nd.sign(x)), [(4, 6)]),
}


def _arguments(given, k):
    def argument(n, what):
        if isinstance(what, list):
            return nd.array(what)
        return nd.array(np.resize(_VALUES[k, n], what) if 0 not in what else np.zeros(what))

    return [argument(n, what) for n, what in enumerate(given)]


def _gradients(function, arguments, req="write", head=None):
    for x in arguments:
        x.attach_grad(req)
    with autograd.record():
        out = function(*arguments)
    nodes = recorded([out._autograd])
    out.backward(head)
    return [x.grad.asnumpy() for x in arguments], nodes


@pytest.mark.parametrize("name", CASES)
def test_repeated_passes_give_the_same_bits(name, monkeypatch):
    function, given = CASES[name]
    first = []
    for k in range(_TIMES):
        forget_graphs()
        first.append(_gradients(function, _arguments(given, k))[0])
    forget_graphs()
    general, backward = [], tape.StatefulCall.backward
    monkeypatch.setattr(tape.StatefulCall, "backward", lambda *given: general.append(given[0]) or backward(*given))
    for k in range(_TIMES):
        found, nodes = _gradients(function, _arguments(given, k))
        for x, y in zip(first[k], found, strict=True):
            assert x.dtype == y.dtype and x.tobytes() == y.tobytes()
    # from the fourth pass of a function on every one is a plan's
    functions = {n.function for n in nodes if type(n) is tape.FunctionCall}
    assert len(general) == 3 * sum(len(f.backward_plans) for f in functions) > 0


def test_arrays_that_are_wanted_change():
    x, w = nd.array(_VALUES[0, 0]), nd.array(_VALUES[1, 0])
    for k in range(4 * _TIMES):
        wanted = [(x, w), (x,), (w,)][k % 3]
        for a in (x, w):
            a._autograd = None
        for a in wanted:
            a.attach_grad()
        with autograd.record():
            y = x * w
        y.backward()
        for a in wanted:
            np.testing.assert_array_equal(a.grad.asnumpy(), (w if a is x else x).asnumpy())


def test_gradients_of_other_types_and_contexts():
    x = nd.array(_VALUES[0, 0])
    for _ in range(_TIMES):
        _gradients(nd.exp, [x])
    with pytest.raises(MXNetError, match="type"):
        _gradients(nd.exp, [x], head=nd.ones(x.shape, dtype="float64"))
    assert _gradients(nd.exp, [nd.array(_VALUES[0, 0], ctx=cpu(1))])[0][0].tobytes() == np.exp(_VALUES[0, 0]).tobytes()
    z = nd.array(_VALUES[0, 0], ctx=cpu(1))
    _gradients(nd.exp, [z])
    assert z.grad.context == cpu(1)


def test_written_operands_and_added_gradients():
    total = np.zeros((4, 6), "float32")
    x = nd.zeros((4, 6))
    x.attach_grad("add")
    for k in range(_TIMES):
        x[:] = nd.array(_VALUES[k, 0])
        with autograd.record():
            y = nd.square(x)
        y.backward()
        total += 2 * _VALUES[k, 0]
    np.testing.assert_allclose(x.grad.asnumpy(), total, rtol=1e-6)


def test_gradients_share_no_memory():
    x, w = nd.array(_VALUES[0, 0]), nd.array(_VALUES[1, 0])
    for _ in range(_TIMES):
        for a in (x, w):
            a.attach_grad()
        with autograd.record():
            y = x + w
        of_x, of_w = autograd.grad([y], [x, w])
        of_x[:] = 7
        assert (of_w.asnumpy() == 1).all()


def test_second_derivatives_between_repeated_passes():
    x = nd.array(_VALUES[0, 0])
    x.attach_grad()
    for _ in range(_TIMES):
        with autograd.record():
            y = x * x * x
            (g,) = autograd.grad([y], [x], create_graph=True, retain_graph=True)
        g.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 6 * _VALUES[0, 0], rtol=1e-5)


@pytest.mark.parametrize(("error", "tries"), [(MXNetError, 3), (KeyError, 1)])
def test_derivatives_that_are_missing_are_the_passes_to_tell(error, tries, monkeypatch):
    """What a pass may run is prepared at once; other errors than that there is no derivative are faults, and raised there."""
    calls = []

    def refuse(node, given, wanted):
        calls.append(node)
        raise error("no derivative")

    forget_graphs()
    x = nd.array(_VALUES[0, 0])
    x.attach_grad()
    with autograd.record():
        y = nd.sin(nd.cos(x))
    with monkeypatch.context() as m:
        m.setattr(tape.FunctionCall, "_derivative", refuse)
        with pytest.raises(error, match="no derivative"):
            y.backward()
    assert len(calls) == tries

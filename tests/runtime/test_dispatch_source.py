# SPDX-License-Identifier: Apache-2.0
"""Prepared calls that are written out (runtime/dispatch/prepare.py): what they give, which frames they need, what they hold."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from hybridgpu import autograd, gluon, nd, random
from hybridgpu.gluon import nn, rnn

pytestmark = pytest.mark.usefixtures("compiler")


class Lambda(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


def row(value=1.0):
    return nd.full((1, 4), value)


#: name -> (block, arguments)
CALLS = {
    "two arguments": (lambda: Lambda(lambda F, x, y: x * 2 + y), lambda: [row(), row(2)]),
    "a list of one": (lambda: Lambda(lambda F, xs: xs[0] + 1), lambda: [[row(3)]]),
    "an argument between lists": (
        lambda: Lambda(lambda F, a, x, b: a[0] * x + b[0] - b[1]),
        lambda: [[row()], row(5), [row(2), row(3)]],
    ),
    "nothing between arguments": (lambda: Lambda(lambda F, x, n, y: x - y), lambda: [row(), None, row(2)]),
    "ten results": (lambda: Lambda(lambda F, x: [x * k for k in range(10)]), lambda: [row()]),
    "nested results": (lambda: Lambda(lambda F, x: [x * 2, [x + 1, [x - 1]], x / 2]), lambda: [row(7)]),
    "results of one operator": (lambda: Lambda(lambda F, x: F.split(x, num_outputs=2, axis=1)), lambda: [row(7)]),
    "random numbers": (lambda: nn.Dropout(0.5), lambda: [nd.ones((4, 8))]),
    "recurrent cell": (lambda: rnn.LSTMCell(4, input_size=4), lambda: [row(), [row(2), row(3)]]),
}


def made(name, prepared=True):
    block, arguments = CALLS[name]
    net = block()
    net.initialize()
    if prepared:
        net.hybridize(static_alloc=True, static_shape=True)
    return net, arguments()


def values(result):
    return [values(r) for r in result] if isinstance(result, (list, tuple)) else result.asnumpy().tolist()


def structure(result):
    return [structure(r) for r in result] if isinstance(result, (list, tuple)) else type(result)


def written(net):
    """The prepared call of a block, whose text it is."""
    call = net._hg_fast or net._hg_inner
    assert call.__code__.co_filename.endswith(", prepared call")
    return call


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_results_and_their_structure(name, recorded):
    net, args = made(name)
    for a in args:
        for x in a if isinstance(a, list) else [] if a is None else [a]:
            x.attach_grad()
    results = []
    with autograd.record() if recorded else autograd.train_mode():
        for _ in range(4):
            random.seed(3)
            results.append(net(*args))
    written(net)
    for result in results[1:]:
        assert structure(result) == structure(results[0])
        np.testing.assert_equal(values(result), values(results[0]))


#: name -> Python frames of a call from the block's ``__call__`` on, of which each result has one for its memory
FRAMES = {
    "two arguments": 2 + 1,
    "nested results": 2 + 4,
    "ten results": 2 + 10,
    "recurrent cell": 7 + 3,  # whose own ``forward`` counts steps, so that each call asks which way it goes
    "random numbers": 2 + 1 + 2,  # memory for the random state, and the generator
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name):
    net, args = made(name)
    with autograd.train_mode():
        for _ in range(3):
            net(*args)
        frames = []
        sys.setprofile(lambda frame, event, _: frames.append(frame.f_code.co_name) if event == "call" else None)
        try:
            net(*args)
        finally:
            sys.setprofile(None)
    assert len(frames) == FRAMES[name], frames


def test_recorded_results_that_are_free_again_are_taken_without_asking_a_pool():
    net, (x,) = made("ten results")
    x.attach_grad()

    def call(value):
        """(results, how often a pool was asked for memory)"""
        x[:] = value
        frames = []
        with autograd.record():
            sys.setprofile(lambda frame, event, _: frames.append(frame.f_code.co_name) if event == "call" else None)
            try:
                results = net(x)
            finally:
                sys.setprofile(None)
        return results, frames.count("take")

    for value in range(3):
        call(value)
    held = [call(value) for value in range(1, 7)]  # more than a pool keeps
    assert [asked for _, asked in held] == [0, 10, 10, 10, 10, 10]
    for value, (results, _) in enumerate(held, 1):
        for k, y in enumerate(results):
            np.testing.assert_array_equal(y.asnumpy(), np.full((1, 4), value * k))
    del held, results, y
    assert call(9)[1] == 0


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("two arguments", lambda x, y: (nd.ones((2, 4)), nd.ones((2, 4)))),
        ("two arguments", lambda x, y: (y.astype("float64"), x.astype("float64"))),
        ("a list of one", lambda a: ((a[0] * 2,),)),
        ("nothing between arguments", lambda x, n, y: (nd.ones((3, 4)), None, nd.ones((3, 4)))),
        ("recurrent cell", lambda x, s: (nd.ones((2, 4)), [nd.ones((2, 4))] * 2)),
    ],
)
def test_other_calls_go_the_general_way(name, other):
    net, args = made(name)
    plain, _ = made(name, prepared=False)
    for p, q in zip(plain.collect_params().values(), net.collect_params().values(), strict=True):
        p.set_data(q.data())
    net(*args), net(*args)
    written(net)
    args = other(*args)
    np.testing.assert_allclose(
        np.concatenate([np.ravel(v) for v in flattened(values(net(*args)))]),
        np.concatenate([np.ravel(v) for v in flattened(values(plain(*args)))]),
        rtol=1e-6,
    )


def nets_with_rooms():
    """Name -> (block, argument): its recorded calls keep values, or random words, that nobody sees."""
    batch = nn.HybridSequential()
    batch.add(nn.Dense(3, in_units=4), nn.BatchNorm(in_channels=3), nn.Dropout(0.5), nn.Dense(2, in_units=3))
    return {
        "kept values": (lambda: Lambda(lambda F, x: F.broadcast_mul(F.exp(F.dot(x, x)), F.sum(x)))),
        "random numbers": (lambda: nn.Dropout(0.5)),
        "moving averages": (lambda: batch),
    }


@pytest.mark.parametrize("name", list(nets_with_rooms()))
def test_calls_that_wait_for_their_backward_pass_keep_what_is_theirs(name):
    """Six recorded calls at once: more than a pool keeps, and each has its own values."""
    net = nets_with_rooms()[name]()
    net.initialize()
    net.hybridize()
    xs = [nd.array(np.random.default_rng(k).normal(size=(4, 4)) / 4) for k in range(6)]

    def gradients(at_once):
        for p in net.collect_params().values():
            p.set_data(nd.ones(p.shape) * (nd.arange(p.data().size).reshape(p.shape) + 1) / 10)
        random.seed(7)
        found, waiting = [], []
        for k, x in enumerate(xs):
            x.attach_grad()
            with autograd.record():
                waiting.append((x, (net(x) * (k + 1)).sum()))
            if not at_once:
                waiting.pop()[1].backward()
                found.append(x.grad.asnumpy())
        for x, y in waiting:
            y.backward()
            found.append(x.grad.asnumpy())
        return found

    for _ in range(2):
        net(xs[0])
    apart = gradients(False)
    np.testing.assert_array_equal(gradients(True), apart)
    np.testing.assert_array_equal(gradients(False), apart)


def test_a_second_derivative_keeps_the_random_state_of_its_call():
    net = Lambda(lambda F, x: F.Dropout(x, p=0.5) ** 3)
    net.hybridize()
    x, others = nd.ones((64,)), nd.ones((64,))
    x.attach_grad()
    others.attach_grad()

    def step(array):
        with autograd.record():
            y = net(array)
            (first,) = autograd.grad(y.sum(), array, create_graph=True)
            return y.asnumpy() > 0, first.sum()

    for _ in range(3):
        kept, slope = step(x)
        for _ in range(5):  # take the state's memory if it is thought to be free
            step(others)
        slope.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), np.where(kept, 3 * 2 * 8, 0))


def test_threads_take_arenas_from_one_list():
    """Of one net, whose intermediate results need one; each has an arena of its own, made where none waits."""
    net = Lambda(lambda F, x: F.dot(F.softmax(F.dot(x, x)), F.sigmoid(x)) + x)
    net.hybridize()
    xs = [nd.array(np.random.default_rng(k).normal(size=(24, 24))) for k in range(4)]
    wanted = [net(x).asnumpy() for x in xs]
    op = net._cached_op
    free = op.last_call[-1].loaded.free
    assert op.last_call[-1].program.arena_bytes and free is written(net).__globals__["free"]
    wrong = []

    def work(x, want):
        for _ in range(300):
            free.clear()  # as another program does whose arenas are too many
            if not np.array_equal(net(x).asnumpy(), want):
                wrong.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=a) for a in zip(xs, wanted, strict=True)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def flattened(values):
    return [x for v in values for x in flattened(v)] if isinstance(values, list) else [values]


def test_calls_of_one_shape_are_one_code_object():
    nets = [Lambda(function) for function in (lambda F, x, y: x + y, lambda F, x, y: F.exp(x) * y)]
    for net in nets:
        net.hybridize()
        net(row(), row()), net(row(), row())
    one, two = map(written, nets)
    assert one.__code__ is two.__code__ and one is not two


def test_a_call_that_is_forgotten_holds_nothing():
    """No cycle through its names: what they hold is free at once."""
    net, args = made("ten results")
    net(*args), net(*args)
    held = weakref.ref(written(net).__globals__["take0"].__self__)
    net.hybridize(False)
    gc.disable()
    try:
        net(*args)
        assert held() is None
    finally:
        gc.enable()

# SPDX-License-Identifier: Apache-2.0
"""Parameters, inputs and results that are written between a recorded call and its backward pass.

The pass takes arguments as they are when it runs, and what operators have computed as it was, however the net is run.
Nets, writes and what MXNet gave stand in tests/against_mxnet/recorded (between.py, second_order.py).
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from against_mxnet.recorded import between, second_order
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.core import rng
from hybridgpu.gluon import nn
from hybridgpu.ndarray import versions

RECORDED = recorded("between")
WAYS = {
    "eager": None,
    "hybridized": {},
    "static": {"static_alloc": True, "static_shape": True},
    "fast": {"numeric": "fast"},
    "background": {"background": True},
    "without a compiler": {},
}


@pytest.fixture
def way(request):
    """How a net is hybridized (None: it is not)."""
    if request.param != "eager":
        request.getfixturevalue("no_compiler" if request.param == "without a compiler" else "compiler")
    return WAYS[request.param]


def expect(name, flags, ctx=None):
    wrong = {}
    for write in between.WRITES:
        case = f"{name}: {write}"
        if case not in between.CASES:
            continue
        found = between.follow(mx, case, flags, ctx)
        if not same(found, RECORDED[case]):
            wrong[write] = [(a, b) for a, b in zip(found, RECORDED[case], strict=True) if not same(a, b)]
    assert not wrong, "write: (found, MXNet)"


@pytest.mark.long_table
@pytest.mark.parametrize("way", WAYS, indirect=True)
@pytest.mark.parametrize("name", between.NETS)
def test_gradients(name, way):
    expect(name, way)


@pytest.mark.long_table
@pytest.mark.parametrize("way", WAYS, indirect=True)
@pytest.mark.parametrize("name", second_order.NETS)
def test_derivatives_of_gradients(name, way):
    numbers, wrong = recorded("second_order"), {}
    for case in second_order.CASES:
        if case.startswith(f"{name}:"):
            found = second_order.follow(mx, case, way)
            if not same(found, numbers[case]):
                wrong[case] = found, numbers[case]
    assert not wrong, "case: (found, MXNet)"


@pytest.mark.parametrize("updates", ["never", "always"])
def test_steps_of_operators_and_compiled_ones(compiler, updates, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_FUSED_UPDATES", updates)
    expect("dense", {})


@pytest.mark.parametrize("name", ["dense", "shared"])
def test_gradients_on_a_gpu(name, cuda_driver):
    expect(name, {"static_alloc": True, "static_shape": True}, mx.gpu(0))


# -- what MXNet's numbers do not show


class Scaled(nn.HybridBlock):
    """A parameter behind random numbers and a function whose derivatives are not constant."""

    def __init__(self, rate=0.0, **kwargs):
        super().__init__(**kwargs)
        self._rate = rate
        with self.name_scope():
            self.w = self.params.get("w", shape=(64,), init="ones")

    def hybrid_forward(self, F, x, w):
        dropped = F.Dropout(x, self._rate) if self._rate else x
        return F.broadcast_mul(F.tanh(F.broadcast_mul(dropped, w)), w)


def ready(flags, net=None):
    if net is None:
        net = Scaled()
        net.initialize()
    if flags is not None:
        net.hybridize(**flags)
    x = nd.array(np.linspace(-1, 1, 128).reshape(2, 64))
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
    return net, x


def test_random_numbers_are_those_of_the_call(compiler):
    net = Scaled(rate=0.5)
    net.initialize()
    net, x = ready({}, net)
    with autograd.record():
        y = net(x)
    dropped = y.asnumpy() == 0
    net.w.set_data(nd.full((64,), 3))
    position = rng.position(mx.cpu())
    y.backward()
    assert rng.position(mx.cpu()) == position
    assert 0 < dropped.sum() < dropped.size
    assert (x.grad.asnumpy() == 0).tolist() == dropped.tolist()


@pytest.mark.parametrize("way", WAYS, indirect=True)
@pytest.mark.parametrize("retain", [False, True])
def test_gradients_behind_random_numbers(way, retain):
    """Numbers that a call drew show in its result; what operators take of them and of the new values is written out."""
    net = Scaled(rate=0.25)
    net.initialize()
    net.w.set_data(nd.array(np.linspace(0.5, 2, 64)))
    net, x = ready(way, net)
    with autograd.record():
        y = net(x)
    y.backward(retain_graph=True)
    kept, w = y.asnumpy() != 0, net.w.data().asnumpy()
    assert 0 < kept.sum() < kept.size
    d = x.asnumpy() * kept / 0.75
    t = np.tanh(d * w)
    np.testing.assert_allclose(y.asnumpy(), t * w, rtol=1e-4, atol=1e-6)
    for k in range(1 + retain):
        new = np.linspace(-3, 3, 64).astype("float32") + k
        net.w.set_data(nd.array(new))
        y.backward(retain_graph=k < retain)
        slope = new * (1 - t * t)
        np.testing.assert_allclose(x.grad.asnumpy(), slope * new * kept / 0.75, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.w.grad().asnumpy(), (t + slope * d).sum(0), rtol=1e-4, atol=1e-5)


def gradients_of_a_gradient(flags):
    net, x = ready(flags)
    with autograd.record():
        y = net(x)
    net.w.data()[:] = 2
    with autograd.record():
        (first,) = autograd.grad([y], [x], create_graph=True, retain_graph=True)
        loss = (first * first).sum()
    loss.backward()
    return [a.asnumpy() for a in (first, x.grad, net.w.grad())]


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=["hybridized", "static"])
def test_derivatives_of_derivatives(compiler, flags):
    for ours, eager in zip(gradients_of_a_gradient(flags), gradients_of_a_gradient(None), strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-6)


def test_an_imported_net(compiler, tmp_path):
    net, x = ready({})
    net.export(str(tmp_path / "net"))
    other = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    grads = []
    for block in (None, other):
        block, x = ready(None, block)
        (parameter,) = block.collect_params().values()
        with autograd.record():
            y = block(x)
        parameter.data()[:] = 2
        y.backward()
        grads.append((x.grad.asnumpy(), parameter.grad().asnumpy()))
    for ours, eager in zip(grads[1], grads[0], strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-6)


# -- what is copied


def addresses(net):
    return [p.data().address for p in net.collect_params().values()]


@pytest.fixture(autouse=True)
def no_other_marks(monkeypatch):
    """Recorded calls that tests before left alive are not looked after: a copy for them would be counted here."""
    monkeypatch.setattr(versions, "_marks", {})


def copies():
    """How often a copy was left to recorded calls that may still be differentiated."""
    gc.collect()
    return sum(len(mark.overwritten) for reference in list(versions._marks.values()) if (mark := reference()))


def copied(*arrays):
    """Whether writing each array in place leaves a copy of what was there."""
    found = []
    for a in arrays:
        before = copies()
        a[:] = 1
        found.append(copies() > before)
    return found


def written(net):
    return copied(*[p.data() for p in net.collect_params().values()])


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=["hybridized", "static"])
def test_the_usual_loop_copies_nothing(compiler, flags, monkeypatch):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize(**flags)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    loss = gluon.loss.L2Loss()
    loss.hybridize()
    batch, total, before = nd.ones((2, 3)), nd.zeros((2,)), addresses(net)
    made = []
    monkeypatch.setattr(versions, "copy", lambda *args: made.append(args))
    for k in range(120):  # steps are compiled by then
        with autograd.record():
            kept = loss(net(batch), nd.ones((2, 2)))
        total += kept
        kept.backward()
        trainer.step(2)
        batch[:] = k
        if k % 3 == 0:
            net(nd.ones((2, 3)))
            for p in net.collect_params().values():
                p.data()[:] = 0.5
    assert addresses(net) == before and not made


def test_a_call_that_is_kept_has_each_value_once_and_only_of_memory_that_is_alive():
    net, x = ready({})
    with autograd.record():
        logged = net(x)
    before, rows = copies(), nd.zeros((50, 4))
    for k in range(200):
        rows[k % 50][:] = k
        nd.zeros((2, 4))[1][:] = k
    assert copies() == before + 50
    del rows
    assert copies() == before
    assert logged.shape == (2, 64)


def test_only_what_a_call_reads_that_may_be_differentiated_is_copied(compiler):
    net, x = ready({})
    other, _ = ready({})
    assert written(net) == [False]
    for _ in range(2):  # prepared or not
        with autograd.record():
            y = net(x)
        assert written(other) == [False]
        assert written(net) == [True]
        assert written(net) == [False]  # the call reads what was there before
        y.backward(retain_graph=True)
        assert written(net) == [False]
    with autograd.record():
        y = net(x)
    y.backward(retain_graph=True)
    assert written(net) == [True]
    with autograd.record():
        y = net(x)
    y.backward()
    assert written(net) == [False]
    with autograd.record():
        y = net(x)
    del y
    assert written(net) == [False]


def test_only_what_somebody_else_holds_is_copied(compiler):
    """Who reads an argument shows in its references: another array, in which nobody has an interest, is just written."""
    net, x = ready({})
    other, view = nd.ones((2, 64)), nd.ones((2, 64))
    part = view[0:1]
    assert copied(x, other) == [False, False]
    for _ in range(2):
        with autograd.record():
            y = net(x)
        assert copied(other, x, x, part) == [False, True, False, True]
        y.backward()
        assert copied(other, x, view) == [False, False, False]
    with autograd.record():
        net(x * 1)
    assert copied(x) == [False]


#: what writes into an array in place
IN_PLACE = {
    "slice": "x[:] = v",
    "elements": "x[0:1] = v[0:1]; x[1] = v[1]",
    "operator": "x *= 0; x += v",
    "out": "nd.identity(v, out=x)",
    "random numbers": "nd.random.uniform(5, 5.0001, shape=(2, 64), out=x)",
    "copy": "v.copyto(x)",
    "view": "x.reshape((-1,))[:] = 5",
    "detached": "x.detach()[:] = 5",
    "view of a part": "x[0:1][:] = 5; x[1][:] = v[1]",
    "update": "nd.sgd_update(x, x - v, lr=1, out=x)",
    "state of an update": "nd.sgd_mom_update(nd.zeros((2, 64)), v - x, x, lr=-1, momentum=1)",
    "fill": "x[:] = 3; x[:] = 5",
}


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("statement", IN_PLACE.values(), ids=IN_PLACE)
def test_each_way_to_write_an_input(compiler, statement, hybridized):
    """y = w * tanh(x * w): the derivative of w has the new x, and the old tanh."""
    net, x = ready({} if hybridized else None)
    for plain in (False, True):
        x = nd.array(np.linspace(-1, 1, 128).reshape(2, 64))
        if not plain:
            x.attach_grad()
        for _ in range(2):
            x[:] = nd.array(np.linspace(-1, 1, 128).reshape(2, 64))
            t = np.tanh(x.asnumpy())
            with autograd.record():
                y = net(x)
            exec(statement, {"x": x, "nd": nd, "v": nd.full((2, 64), 5)})
            np.testing.assert_allclose(x.asnumpy(), 5, rtol=1e-4)
            y.backward()
            np.testing.assert_allclose(net.w.grad().asnumpy(), (t + (1 - t * t) * 5).sum(0), rtol=1e-4, atol=1e-5)


def test_inputs_in_memory_of_one_array(compiler):
    """Two inputs that overlap, written as a whole and in parts."""

    def gradients(hybridized):
        net = nn.HybridLambda(lambda F, x, y: F.exp(x) * F.tanh(y) * x)
        net.hybridize(hybridized)
        whole = nd.array(np.linspace(-1, 1, 12))
        x, y = whole[0:8], whole[4:12]
        for a in (x, y):
            a.attach_grad()
        found = []
        for k in range(3):
            with autograd.record():
                z = net(x, y)
            whole[6] = 3
            x[5:7] = nd.array([-2, 0.5])
            whole[2:9] *= 0.5
            y[:] = 0.1 * k
            z.backward()
            found += [x.grad.asnumpy(), y.grad.asnumpy()]
        return found

    for ours, eager in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-6)


def test_a_call_that_outlives_what_prepared_it(compiler):
    net, x = ready({})
    with autograd.record():
        y = net(x)
    net.hybridize(clear=True)
    assert written(net) == [True]
    del y
    assert written(net) == [False]


def test_memory_that_others_see_stays(compiler):
    net, x = ready({})
    seen = np.array(net.w.data(), copy=False)
    with autograd.record():
        y = net(x)
    net.w.data()[:] = 7
    assert (seen == 7).all()
    y.backward()


#: how all elements of a parameter are made three times as large, by arrays that nobody holds afterwards
SHORT_LIVED = {
    "slice": "p.data()[:] *= 3",
    "slice of a slice": "p.data()[:][:] *= 3",
    "reshaped": "p.data().reshape((-1,))[:] = 3",
    "out": "nd.broadcast_mul(p.data(), nd.full((1, 1), 3), out=p.data()[:])",
    "copy": "nd.full((1, 1), 3).copyto(p.data()[:])",
}


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("statement", SHORT_LIVED.values(), ids=SHORT_LIVED)
def test_views_that_are_gone_when_the_backward_pass_runs(compiler, statement, hybridized):
    net = nn.Dense(1, in_units=1, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize(hybridized)
    x = nd.ones((1, 1))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    exec(statement, {"p": net.weight, "nd": nd})
    y.backward()
    assert x.grad.asscalar() == 3


#: what gives a parameter another array behind ``set_data``
REPLACED = {
    "cast": lambda net: (net.cast("float64"), net.cast("float32")),
    "reset_ctx": lambda net: net.collect_params().reset_ctx(mx.cpu(0)),
    "reinitialized": lambda net: net.initialize(mx.init.One(), force_reinit=True),
}


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
def test_arrays_that_are_gone_when_the_backward_pass_runs(compiler, replace, hybridized):
    """MXNet 1.9.1: the new value times the slope at the old one."""
    net = nn.HybridSequential()
    net.add(nn.Dense(1, in_units=1, use_bias=False), nn.HybridLambda("tanh"))
    net.initialize(mx.init.One())
    net.hybridize(hybridized)
    x = nd.ones((1, 1))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    net[0].weight.set_data(nd.full((1, 1), 3))
    replace(net)
    y.backward()
    assert abs(x.grad.asscalar() - 1.2599) < 1e-4

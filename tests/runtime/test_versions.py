# SPDX-License-Identifier: Apache-2.0
"""New values of parameters while other threads call: each call sees one version, what is written together is seen
together, and arrays that shared a parameter's memory still do."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import time
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
from emulated import install, uninstall

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.gluon import nn
from hybridgpu.ndarray import versions
from hybridgpu.runtime.cached_op import CachedOp

SIDE = 1024  #: of a square of 4 MB, which takes long enough to copy that a call in between is no rare event
SECONDS = 0.5
VALUES = 8


class Shown(nn.HybridBlock):
    """Parameters as the results of a call."""

    def __init__(self, names="w", side=SIDE, function=lambda F, w: w, **kwargs):
        super().__init__(**kwargs)
        self._function = function
        with self.name_scope():
            for name in names:
                setattr(self, name, self.params.get(name, shape=(side, side), init="zeros"))

    def hybrid_forward(self, F, x, **params):
        found = [F.broadcast_add(self._function(F, params[name]), x) for name in sorted(params)]
        return found[0] if len(found) == 1 else found


def ready(net, side=SIDE, ctx=None, **flags):
    """(net, argument) after the first calls, hybridized with ``flags`` unless they are {'eager': True}."""
    net.initialize(mx.init.Zero(), ctx=ctx)
    if not flags.pop("eager", False):
        net.hybridize(**flags)
    x = nd.zeros((1, side), ctx=ctx)
    for _ in range(3):
        net(x)
    return net, x


def numbers_of(results):
    """The number that fills each result; it is a mixture if there are several."""
    found = []
    for y in results if isinstance(results, (list, tuple)) else [results]:
        values = y.asnumpy()
        low, high = values.min(), values.max()
        assert low == high, f"a mixture of {low} and {high}"
        found.append(float(low))
    return found


@contextmanager
def switching_often():
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(old)


def while_written(write, call, readers=2, seconds=SECONDS, together=True, values=None):
    """Call in some threads while another one writes the numbers 0, 1, 2 … one after the other.

    Every result is of one number, those of a call are of the same one if they are written ``together``, and a thread
    never sees an older number after a newer one (unless they go round: there are ``values`` of them).
    """
    stop, errors, counts = threading.Event(), [], [0] * (readers + 1)

    def guarded(work):
        def body():
            try:
                while not stop.is_set():
                    work()
            except BaseException as e:
                errors.append(e)
                stop.set()

        return threading.Thread(target=body)

    def writer():
        write(counts[0])
        counts[0] += 1

    def reader(k):
        seen = []

        def work():
            found = numbers_of(call())
            counts[k] += 1
            assert not together or len(set(found)) == 1, f"one call saw {found}"
            assert values or all(a <= b for a, b in zip(seen, found)), f"{found} after {seen}"
            seen[:] = found

        return work

    threads = [guarded(writer), *(guarded(reader(k + 1)) for k in range(readers))]
    with switching_often():
        for t in threads:
            t.start()
        stop.wait(seconds)
        until = time.monotonic() + 60  # each does something, on a busy machine too
        while not all(counts) and time.monotonic() < until and not stop.wait(0.01):
            pass
        stop.set()
        for t in threads:
            t.join(60)
    assert not errors, errors[0]
    assert all(counts), counts
    # what was written last is what the next call sees
    last = counts[0] - 1
    assert set(numbers_of(call())) == {last % values if values else last}


def full(k, side=SIDE, ctx=None):
    return nd.full((side, side), k, ctx=ctx)


# -- one parameter

WAYS = {
    "eager": {"eager": True},
    "hybridized": {},
    "static": {"static_alloc": True, "static_shape": True},
    "numeric fast": {"numeric": "fast"},
}


@pytest.mark.parametrize("flags", WAYS.values(), ids=WAYS)
def test_a_call_sees_one_version_of_a_parameter(flags):
    net, x = ready(Shown(), **flags)
    while_written(lambda k: net.w.set_data(full(k)), lambda: net(x))


def test_what_is_kept_of_parameters_is_of_one_version():
    """It is computed again at each write, and other calls may still read what it was."""
    net, x = ready(Shown(function=lambda F, w: F.log(F.exp(w * 0)) + w))
    assert net.explain(x).folded_values
    while_written(lambda k: net.w.set_data(full(k)), lambda: net(x))


def test_weights_in_the_order_of_a_product_are_of_one_version():
    net = nn.Dense(SIDE, in_units=SIDE, use_bias=False)
    net.initialize(mx.init.Zero())
    net.hybridize()
    x = nd.full((8, SIDE), 1 / SIDE)
    copied = bool(net.explain(x).folded_values)
    assert copied == (cpu_backend().target.panels), "narrower vectors read weights as they lie"
    while_written(lambda k: net.weight.set_data(full(k)), lambda: net(x))


def test_statistics_that_are_folded_into_a_convolution_are_of_one_version():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(256, 1, in_channels=512, use_bias=False), nn.BatchNorm(in_channels=256, epsilon=0, scale=False))
    net.initialize(mx.init.Zero())
    net[1].running_var.set_data(nd.full((256,), 4))
    net.hybridize()
    x = nd.full((1, 512, 8, 8), 2 / 512)
    net(x)
    while_written(lambda k: net[0].weight.set_data(nd.full((256, 512, 1, 1), k)), lambda: net(x))


def test_a_symbol_block_sees_one_version(tmp_path):
    net, x = ready(Shown())
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    (parameter,) = block.collect_params().values()
    while_written(lambda k: parameter.set_data(full(k)), lambda: block(x))


def test_a_recorded_call_sees_one_version():
    net, x = ready(Shown())

    def call():
        with autograd.record():
            return net(x)

    while_written(lambda k: net.w.set_data(full(k)), call)


def test_a_parameter_as_an_argument_is_of_one_version():
    net, _ = ready(Shown(side=1), side=1)
    p = gluon.Parameter("p", shape=(SIDE, SIDE))
    p.initialize(mx.init.Zero())
    argument = p.data()
    while_written(lambda k: p.set_data(full(k)), lambda: net(argument))


def test_a_parameter_as_an_argument_of_a_prepared_call(monkeypatch):
    net, _ = ready(Shown(side=4), 4)
    p = gluon.Parameter("p", shape=(1, 4))
    p.initialize(mx.init.One())
    net(p.data()), net(p.data())
    monkeypatch.setattr(CachedOp, "__call__", None)  # the general way
    for k in range(3):
        p.data()[:] = k
        assert numbers_of(net(p.data())) == numbers_of(net(p.data()[0:1])) == [k]
    x = nd.full((1, 4), 7)
    assert numbers_of(net(x)) == [7]


@pytest.mark.parametrize("copy", ["asnumpy", "copy", "astype", "slice", "pickle"])
def test_a_copy_of_a_parameter_is_of_one_version(copy):
    p = gluon.Parameter("p", shape=(SIDE, SIDE))
    p.initialize(mx.init.Zero())
    w = p.data()
    copies = {
        "asnumpy": lambda: nd.array(w.asnumpy()),
        "copy": lambda: w.copy(),
        "astype": lambda: w.astype("float64"),
        "slice": lambda: w[::2],
        "pickle": lambda: pickle.loads(pickle.dumps(p)).data(),
    }
    while_written(lambda k: p.set_data(full(k)), copies[copy], seconds=SECONDS / 2)


@pytest.mark.parametrize("first", ["in general", "eager"])
def test_a_prepared_call_after_one_that_saw_new_values(first, monkeypatch):
    """While they are exchanged, a thread makes a call of another kind and then a prepared one."""
    net, x = ready(Shown(side=4), 4)
    seen, threads, bump = [], [], versions.invalidate_bindings

    def calls():
        if first == "eager":
            found = numbers_of(net.w.data())
        else:
            other = Shown(side=4, params=net.collect_params(), prefix=net.prefix)
            other.hybridize()
            found = numbers_of(other(x))
        seen.append(found + numbers_of(net(x)))

    def while_others_call():
        threads.append(threading.Thread(target=calls))
        threads[-1].start()
        threads[-1].join(0.2)  # it may wait for us
        bump()

    net(x)
    monkeypatch.setattr(versions, "invalidate_bindings", while_others_call)
    net.w.set_data(full(1, 4))
    for t in threads:
        t.join(60)
    assert seen
    assert all(a <= b for a, b in seen), seen
    assert numbers_of(net(x)) == [1]


# -- several parameters


@pytest.mark.parametrize("flags", [WAYS["hybridized"], WAYS["static"]], ids=["hybridized", "static"])
def test_a_dictionary_is_seen_as_a_whole(flags):
    net, x = ready(Shown("uv"), **flags)
    params = net.collect_params()
    while_written(lambda k: params.load_dict({name: full(k) for name in params}), lambda: net(x))


def test_files_are_seen_as_a_whole(tmp_path):
    net, x = ready(Shown("uv"))
    for k in range(VALUES):
        net.collect_params().load_dict({name: full(k) for name in net.collect_params()})
        net.save_parameters(str(tmp_path / f"{k}.params"))
    net.load_parameters(str(tmp_path / "0.params"))
    load = lambda k: net.load_parameters(str(tmp_path / f"{k % VALUES}.params"))  # noqa: E731
    while_written(load, lambda: net(x), values=VALUES)


def test_parameters_that_are_set_one_by_one_are_of_one_version_each():
    net, x = ready(Shown("uv"))

    def write(k):
        net.u.set_data(full(k))
        net.v.set_data(full(k))

    while_written(write, lambda: net(x), together=False)


def test_an_operator_cuts_a_graph_whose_call_still_sees_one_version():
    """What runs between two programs, here because its shape depends on values, and the program after it."""

    class Cut(Shown):
        def hybrid_forward(self, F, x, u, v):
            rows = F.contrib.boolean_mask(u, F.ones((SIDE,)))
            return [F.broadcast_add(rows, x), F.broadcast_add(v, x)]

    net, x = ready(Cut("uv"))
    params = net.collect_params()
    while_written(lambda k: params.load_dict({name: full(k) for name in params}), lambda: net(x))


def test_a_net_is_trained_while_its_copy_is_called():
    """What docs/settings.md recommends: a step writes where the values are, and its results are given to a copy."""
    net, x = ready(Shown("uv"))
    served, _ = ready(Shown("uv"))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})

    def step(k):
        if k:
            with autograd.record():
                loss = sum(-y.sum() for y in net(x))
            loss.backward()
            trainer.step(1)
        names = zip(served.collect_params(), net.collect_params().values(), strict=True)
        served.collect_params().load_dict({name: p.data() for name, p in names})

    while_written(step, lambda: served(x))


def test_calls_on_a_gpu_see_one_version():
    """The emulated GPU: a call is several kernels, and a writer may come between them."""
    install(1)
    try:
        ctx, side = mx.gpu(0), 24
        net, x = ready(Shown("uv", side, lambda F, w: F.broadcast_sub(w * 2, w.mean(axis=0, keepdims=True))), side, ctx)
        params = net.collect_params()
        write = lambda k: params.load_dict({name: full(k, side, ctx) for name in params})  # noqa: E731
        while_written(write, lambda: net(x), seconds=2 * SECONDS)
    finally:
        uninstall()


# -- what shared a parameter's memory

#: name -> (view of a 4x3 array, whether it shares the memory: in MXNet, too)
VIEWS = {
    "itself": (lambda w: w, True),
    "rows": (lambda w: w[0:2], True),
    "a row": (lambda w: w[1], True),
    "rows of rows": (lambda w: w[0:3][1:2], True),
    "another shape": (lambda w: w.reshape((3, 4)), True),
    "rows of another shape": (lambda w: w.reshape((6, 2))[1:5], True),
    "detached": (lambda w: w.detach(), True),
    "an element": (lambda w: w[1, 2], True),
    "a column": (lambda w: w[:, 1], False),
    "every other row": (lambda w: w[::2], False),
    "an operator": (lambda w: nd.reshape(w, (3, 4)), False),
    "expanded": (lambda w: w.expand_dims(0), False),
    "a copy": (lambda w: w.copy(), False),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("times", [1, 2])
def test_views_see_new_values(view, times):
    p = gluon.Parameter("p", shape=(4, 3))
    p.initialize(mx.init.One())
    make, shares = VIEWS[view]
    w = p.data()
    seen = make(w)
    for k in range(times):
        values = nd.arange(12).reshape((4, 3)) + 10 * k + 5
        p.set_data(values)
    assert p.data() is w
    if shares:
        np.testing.assert_array_equal(seen.asnumpy(), make(values).asnumpy())
        seen[:] = -1  # and it is the same memory, not a copy of the values
        assert (make(w).asnumpy() == -1).all()
    else:
        assert (seen.asnumpy() == 1).all()


def test_views_of_memory_that_no_array_has_as_a_whole():
    """The parameter has other memory; a recorded call reads one view and the other one, which overlaps it, is written."""
    net = Shown(side=3, function=lambda F, w: w)
    net.hybrid_forward = lambda F, x, w: F.broadcast_mul(F.slice_axis(w, axis=0, begin=0, end=3), x)
    net, _ = ready(net, 3)
    p = gluon.Parameter("p", shape=(4, 3))
    p.initialize(mx.init.One())
    upper, lower = p.data()[0:3], p.data()[2:4]
    p.cast("float64")
    with autograd.record():
        y = net(upper)
    lower[:] = 7
    assert upper.asnumpy()[:, 0].tolist() == [1, 1, 7]
    assert lower.asnumpy()[:, 0].tolist() == [7, 7]
    upper[:] = 3  # they still share it
    assert lower.asnumpy()[:, 0].tolist() == [3, 7]
    y.backward()
    assert net.w.grad().asnumpy()[:, 0].tolist() == [3, 3, 3]


def test_an_exchange_that_fails_changes_nothing(monkeypatch):
    net, x = ready(Shown("uv", side=4), 4)
    view, number, part = net.v.data()[1:3], [0], versions._part

    def failing(*args):
        number[0] += 1
        if number[0] == 3:
            raise MemoryError
        return part(*args)

    with monkeypatch.context() as m:
        m.setattr(versions, "_part", failing)
        with pytest.raises(MemoryError):
            net.collect_params().load_dict({name: full(1, 4) for name in net.collect_params()})
    assert numbers_of([net.u.data(), net.v.data(), view, *net(x)]) == [0] * 5


def test_recorded_calls_are_noted_as_long_as_they_may_be_differentiated(monkeypatch):
    monkeypatch.setattr(versions, "_marks", {})  # without those that tests before left alive
    net, x = ready(Shown(side=4), 4)
    gc.collect()
    kept = []
    for shape in ((1, 4), (4, 1), (4, 4)):
        with autograd.record():
            kept.append(net(nd.zeros(shape)))
    assert len(versions._marks) >= 3
    assert versions._live_marks()
    for y in kept:
        y.backward()
    assert not versions._live_marks()
    for _ in range(3):  # a write gives the reader another mark
        with autograd.record():
            kept.append(net(x))
        net.w.data()[:] = 1
    assert len(versions._live_marks()) == 3
    net.hybridize(clear=True)
    kept.clear()
    gc.collect()
    assert not versions._marks


def test_views_cost_nothing_once_they_are_gone():
    p = gluon.Parameter("p", shape=(4, 3))
    p.initialize(mx.init.One())
    w = p.data()
    for _ in range(1000):
        w[0:2], w.reshape((3, 4))[1]
    held = [w[k % 4] for k in range(100)]
    assert len(w._type.family.members) == 101
    p.set_data(nd.full((4, 3), 2))
    assert all((row.asnumpy() == 2).all() for row in held)
    del held
    assert len(w._type.family.members) == 1


def test_memory_that_was_given_away_is_written_where_it_is():
    p = gluon.Parameter("p", shape=(4, 3))
    p.initialize(mx.init.One())
    seen = np.from_dlpack(p.data())
    address = p.data().handle
    p.set_data(nd.full((4, 3), 7))
    assert (seen == 7).all()
    assert p.data().handle == address


def test_old_versions_are_freed():
    """Prepared calls hold the memory that they read: at most until the next call of the net."""
    net, x = ready(Shown(side=64), 64)
    other = nd.zeros((64, 64))
    net(other), net(other), net(x)
    with autograd.record():
        net(x), net(x)
    versions = []
    for k in range(5):
        versions.append(weakref.ref(net.w.data()._data))
        net.w.set_data(full(k, 64))
        net(x), net(x)
        with autograd.record():
            net(x), net(x)
    gc.collect()
    assert [v() is not None for v in versions[:-1]] == [False] * 4


# -- new values between a recorded call and its backward pass: MXNet's numbers


@pytest.mark.parametrize("flags", WAYS.values(), ids=WAYS)
def test_a_backward_pass_takes_the_new_values(flags):
    net = nn.Dense(2, in_units=3, use_bias=False)
    net, _ = ready(net, 3, **flags)
    x = nd.array([[1, 2, 3]])
    x.attach_grad()
    for _ in range(3):
        net.weight.set_data(nd.ones((2, 3)))
        with autograd.record():
            y = (net(x) * 2).sum()
        net.weight.set_data(nd.full((2, 3), 5))
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), [[20, 20, 20]])
        np.testing.assert_array_equal(net.weight.grad().asnumpy(), [[2, 4, 6]] * 2)


def test_a_backward_pass_takes_the_new_values_of_a_view():
    p = gluon.Parameter("p", shape=(4, 3))
    p.initialize(mx.init.One())
    x = nd.array([[1, 2, 3]])
    x.attach_grad()
    with autograd.record():
        y = (p.data()[1:2] * x).sum()
    p.set_data(nd.full((4, 3), 5))
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[5, 5, 5]])


@pytest.mark.parametrize("flags", WAYS.values(), ids=WAYS)
def test_statistics_that_a_backward_pass_writes(flags):
    net = nn.BatchNorm(in_channels=2)
    net, _ = ready(net, 2, **flags)
    for _ in range(3):
        with autograd.record():
            y = net(nd.array([[1, 2], [3, 6]])).sum()
        net.running_mean.set_data(nd.full((2,), 10))
        y.backward()
        np.testing.assert_allclose(net.running_mean.data().asnumpy(), [9.2, 9.4], rtol=1e-6)


@pytest.mark.parametrize("mode", ["never", "always"])
def test_steps_go_on_from_new_values(mode, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_FUSED_UPDATES", mode)
    net, x = ready(Shown(side=4), 4)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    want, momentum = 0.0, 0.0
    for k in range(6):
        if k % 2:
            want = 100.0 * k
            net.w.set_data(full(want, 4))
        with autograd.record():
            net(x).sum().backward()
        trainer.step(1)
        momentum = momentum * 0.5 - 1
        want += momentum
        assert numbers_of(net.w.data()) == [want]


def test_new_values_while_the_trainer_binds_its_program(monkeypatch):
    """A program that was bound to the memory of before is not used for the next step."""
    from hybridgpu.gluon import compiled_step

    monkeypatch.setenv("HYBRIDGPU_FUSED_UPDATES", "always")
    net, x = ready(Shown(side=4), 4)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    pending, original = [True], compiled_step.Update.__init__

    def bound(self, *args):
        original(self, *args)
        if pending:
            pending.pop()
            net.w.set_data(full(100, 4))

    monkeypatch.setattr(compiled_step.Update, "__init__", bound)
    for want in (100, 99, 98):  # the first step comes before the new values
        with autograd.record():
            net(x).sum().backward()
        trainer.step(1)
        assert numbers_of(net.w.data()) == [want]

# SPDX-License-Identifier: Apache-2.0
"""What is computed from parameters once: that every way of writing into a parameter counts, and that nothing else does."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import pytest
from emulated import install, uninstall
from runtime.folded_nets import CPU, GPU, NETS, check, filled, runs, unfolded

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends import write_tracking
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.program import Program
from hybridgpu.gluon import nn
from hybridgpu.ndarray.binding_version import binding_version

# -- ways of writing into a parameter


def set_data(net, p, x):
    p.set_data(nd.full(p.shape, 0.75))


def assign_all(net, p, x):
    p.data(x.context)[:] = 0.7


def assign_part(net, p, x):
    p.data(x.context)[0] = 1.9


def assign_by_array(net, p, x):
    p.data(x.context)[nd.array([1, 0], ctx=x.context, dtype="int32")] = 1.3


def add_in_place(net, p, x):
    w = p.data(x.context)
    w += 0.25


def out_argument(net, p, x):
    nd.broadcast_add(p.data(x.context), nd.ones((1,) * len(p.shape), ctx=x.context), out=p.data(x.context))


def view_of_rows(net, p, x):
    w = p.data(x.context)[0:1]
    w.reshape((-1,))[0:1] *= 3
    w += 0.5


def view_of_a_view(net, p, x):
    p.data(x.context).reshape((-1,))[1:][0:1][:] = 2


def reshaped_view(net, p, x):
    p.data(x.context).reshape((-1,))[:] = 0.6


def detached(net, p, x):
    p.data(x.context).detach()[:] = 0.9


def copy_into(net, p, x):
    nd.full(p.shape, 1.25, ctx=x.context).copyto(p.data(x.context))


def sampler(net, p, x):
    nd.random.uniform(0.5, 1.5, out=p.data(x.context), ctx=x.context)


def initializer(net, p, x):
    mx.init.Constant(0.8)(mx.init.InitDesc("weight"), p.data(x.context))


def update_operator(net, p, x):
    nd.sgd_update(p.data(x.context), nd.ones(p.shape, ctx=x.context), lr=0.25, out=p.data(x.context))


def updater(net, p, x):
    update = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=0.1))
    update(0, nd.ones(p.shape, ctx=x.context), p.data(x.context))


def state_of_an_operator(net, p, x):
    """An optimizer's state, which its operator changes in place."""
    w = nd.ones(p.shape, ctx=x.context)
    nd.sgd_mom_update(w, w, p.data(x.context), lr=0.5, momentum=0.5, out=w)


def trainer(net, p, x):
    step = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    with autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    step.step(1)


def running_averages(net, p, x):
    """Those of a compiled BatchNorm; nets without one have none."""
    with autograd.record():
        y = net(x)
    y.backward()
    if "running" not in p.name:
        assign_part(net, p, x)


def eager_training(net, p, x):
    gamma, beta, mean = (nd.ones(p.shape[:1], ctx=x.context) for _ in range(3))
    var = p.data(x.context)
    if len(p.shape) > 1:
        var = var.reshape((-1,))[: p.shape[0]]
    data = nd.array(np.random.RandomState(1).standard_normal((3, p.shape[0])), ctx=x.context)
    data.attach_grad()
    with autograd.record():
        y = nd.BatchNorm(data, gamma, beta, mean, var)
    y.backward()


def gradient_into_it(net, p, x):
    """A gradient that somebody wants in a parameter's memory."""
    v = nd.ones(p.shape, ctx=x.context)
    autograd.mark_variables([v], [p.data(x.context).detach()])
    with autograd.record():
        y = v * 1.125
    y.backward()


def added_gradient(net, p, x):
    v = nd.ones(p.shape, ctx=x.context)
    autograd.mark_variables([v], [p.data(x.context).detach()], "add")
    with autograd.record():
        y = v * 0.5
    y.backward()


def kvstore(net, p, x):
    store = mx.kv.create("local")
    store.init("w", nd.full(p.shape, 0.65, ctx=x.context))
    store.pull("w", out=p.data(x.context))


def executor_argument(net, p, x):
    data = mx.sym.var("data")
    executor = (data * 2).bind(x.context, {"data": p.data(x.context)})
    executor.forward(data=nd.full(p.shape, 0.85, ctx=x.context))


def graph_function(net, p, x):
    op = mx.nd.CachedOp(mx.sym.var("data") + 0.5)
    op(p.data(x.context), out=p.data(x.context))


def custom_operator(net, p, x):
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0])
            aux[0][:] = 1.5 - aux[0] / 2

    class Properties(mx.operator.CustomOpProp):
        def list_auxiliary_states(self):
            return ["state"]

        def infer_shape(self, shapes):
            return shapes, [shapes[0]], [shapes[0]]

        def create_operator(self, ctx, shapes, types):
            return Twice()

    mx.operator.register("kept_twice")(Properties)
    nd.Custom(nd.ones(p.shape, ctx=x.context), p.data(x.context), op_type="kept_twice")


def from_file(net, p, x, folder="."):
    values = {k: v.data(x.context) * 1.1 for k, v in net._collect_params_with_prefix().items()}
    nd.save(f"{folder}/values.params", values)
    net.load_parameters(f"{folder}/values.params", ctx=x.context)


def initialized_again(net, p, x):
    p.initialize(mx.init.Constant(0.55), ctx=x.context, force_reinit=True)


def moved(net, p, x):
    p.data(x.context)[:] = 1.05
    p.reset_ctx(x.context)


def without_gradient(net, p, x):
    p.grad_req = "null"
    p.data(x.context)[:] = 0.95


def in_another_thread(net, p, x):
    thread = threading.Thread(target=assign_all, args=(net, p, x))
    thread.start()
    thread.join()


WAYS = [
    set_data, assign_all, assign_part, assign_by_array, add_in_place, out_argument, view_of_rows, view_of_a_view,
    reshaped_view, detached, copy_into, sampler, initializer, update_operator, updater, state_of_an_operator, trainer,
    running_averages, eager_training, gradient_into_it, added_gradient, kvstore, executor_argument, graph_function,
    custom_operator, from_file, initialized_again, moved, without_gradient, in_another_thread,
]  # fmt: skip


@pytest.fixture(params=["compiled", "interpreted", "emulated GPU"])
def ctx(request, monkeypatch):
    """Where nets run: by compiled kernels, by NumPy where there is no compiler, on a GPU."""
    if request.param == "compiled":
        request.getfixturevalue("compiler")
        yield CPU
    elif request.param == "interpreted":
        monkeypatch.setattr("hybridgpu.backends.devices.HostDevice.backend", lambda self: None)
        monkeypatch.setattr("hybridgpu.runtime.compilation._warned", True)
        yield CPU
    else:
        install().forget()
        yield GPU
        uninstall()


@pytest.mark.long_table
@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", NETS)
def test_every_way_of_writing_counts(name, way, ctx, tmp_path):
    net, p, x = filled(name, ctx)
    before = check(net, x)
    assert runs(net) == 1, "several calls, one computation"
    if way is from_file:
        way(net, p, x, tmp_path)
    else:
        way(net, p, x)
    after = check(net, x)
    assert not np.array_equal(before, after), "the write changed nothing: the test proves nothing"
    assert runs(net) == 2, "computed again, once"


@pytest.mark.parametrize("way", [set_data, view_of_rows, trainer, from_file], ids=lambda f: f.__name__)
def test_packed_weights(compiler, way, tmp_path):
    """Of a dense layer on the CPU."""
    if not cpu_backend().target.panels:
        pytest.skip("this processor gains nothing by panels")
    NETS["packed"] = lambda: nn.Dense(128, in_units=12, activation="relu"), (16, 12), "weight"
    try:
        net, p, x = filled("packed")
    finally:
        del NETS["packed"]
    want = np.maximum(x.asnumpy() @ p.data().asnumpy().T + net.bias.data().asnumpy(), 0)
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-5)
    way(net, p, x, tmp_path) if way is from_file else way(net, p, x)
    after = np.maximum(x.asnumpy() @ p.data().asnumpy().T + net.bias.data().asnumpy(), 0)
    assert not np.allclose(after, want)
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), after, rtol=1e-5, atol=1e-5)
    assert runs(net) == 2
    assert net.explain(x).folded_bytes == 128 * 12 * 4
    net(x[:3])
    assert runs(net) == 2, "another number of rows takes the same panels"


# -- how often


def test_other_arrays_do_not_count(ctx):
    net, p, x = filled("BatchNorm", ctx)
    other = nd.ones((4,), ctx=ctx)
    net(x)
    start = binding_version[0]
    other[:] = 3
    other += 1
    net.collect_params(".*weight").values()
    net[0].weight.data(ctx)[:] = 1  # nothing is kept that depends on it
    check(net, x)
    assert (runs(net), binding_version[0]) == (1, start)


def test_writes_in_a_row_cost_once(ctx):
    net, p, x = filled("BatchNorm", ctx)
    net(x)
    start = binding_version[0]
    for k in range(20):
        p.data(ctx)[:] = 0.5 + k
    assert binding_version[0] == start + 1
    check(net, x)
    for k in range(20):
        p.set_data(nd.full(p.shape, 0.5 + k))
    check(net, x)
    assert runs(net) == 3


def test_signatures_share_what_is_kept(ctx):
    net, p, x = filled("a normalised weight", ctx)
    for batch in (1, 2, 4, 3):
        check(net, nd.ones((batch, 8), ctx=ctx))
    assert (len(net._cached_op._folded), runs(net)) == (1, 1)


@pytest.mark.parametrize("name", NETS)
def test_nothing_is_kept_in_training(name, ctx):
    net, p, x = filled(name, ctx)
    with autograd.record():
        net(x)
    with autograd.train_mode():
        net(x)
    assert not net._cached_op._folded


@pytest.mark.parametrize("write", [set_data, assign_all])
def test_what_another_call_may_still_read_stays(write, ctx):
    net, p, x = filled("BatchNorm", ctx, static_alloc=True, static_shape=True)
    for _ in range(3):
        net(x)
    (kept,) = net._cached_op._folded.values()
    held = kept._values
    before = [np.array(v) for v in held]
    write(net, p, x)
    check(net, x)
    for a, b in zip(held, before, strict=True):
        np.testing.assert_array_equal(np.array(a), b)


def test_each_device_has_its_own():
    install(2)
    try:
        devices = [mx.gpu(0), mx.gpu(1), CPU]
        net, p, _ = filled("BatchNorm", devices)
        x = np.random.RandomState(5).standard_normal((2, 2, 6, 6))
        arrays = [nd.array(x, ctx=c) for c in devices]
        for a in arrays:
            check(net, a)
        assert [k.runs for k in net._cached_op._folded.values()] == [1, 1, 1]
        p.data(devices[1])[:] = 2
        results = [check(net, a) for a in arrays]
        assert [k.runs for k in net._cached_op._folded.values()] == [1, 2, 1]
        np.testing.assert_allclose(results[0], results[2], rtol=1e-5)
        assert np.abs(results[0] - results[1]).max() > 0.01
    finally:
        uninstall()


# -- memory that others may write


def memory(address, w):
    """What lies at an address, to be written as other libraries write."""
    return np.ctypeslib.as_array((ctypes.c_float * w.size).from_address(address)).reshape(w.shape)


def dlpack(w):
    return memory(np.from_dlpack(w).ctypes.data, w)


def capsule(w):
    return nd.from_dlpack(w.to_dlpack_for_write())


def numpy_view(w):
    return np.array(w, copy=False)


def of_a_view(w):
    return np.array(w.reshape((-1,)), copy=False).reshape(w.shape)


def by_address(w):
    return memory(w.handle, w)


@pytest.mark.parametrize("when", ["before the first call", "between calls"])
@pytest.mark.parametrize("give", [dlpack, capsule, numpy_view, of_a_view, by_address], ids=lambda f: f.__name__)
def test_nothing_is_kept_of_memory_that_was_given_away(compiler, give, when):
    net, p, x = filled("a normalised weight")
    if when == "between calls":
        check(net, x)
    foreign = give(p.data())
    check(net, x)
    for k in range(3):
        foreign[k] = np.arange(3, 11) * (k + 1) ** np.arange(8)
        check(net, x)
    assert net._cached_op.exported_params, "the weight cannot be watched"
    assert not net.explain(x).folded_values


def test_other_parameters_are_still_kept_of(compiler):
    net, p, x = filled("BatchNorm")
    foreign = np.array(net[1].beta.data(), copy=False)
    check(net, x)
    foreign[:] = 5
    check(net, x)
    name = f"{net[1].name}_fwd"
    assert [k.computes for k in net.explain(x).folded_values] == [f"add, rsqrt, mul of {name}", f"mul of {name}"]
    p.set_data(nd.full(p.shape, 3))
    check(net, x)


def test_foreign_memory_is_no_longer_noted_when_it_is_gone():
    gc.collect()
    before = len(write_tracking._exported)
    a = nd.from_numpy(np.ones(7, "float32"))
    assert (
        write_tracking.is_exported(a._data)
        and write_tracking.is_exported(a[2:3]._data)
        and len(write_tracking._exported) == before + 1
    )
    del a
    gc.collect()
    assert len(write_tracking._exported) == before


def test_a_net_that_is_gone_watches_nothing(compiler):
    before = dict(write_tracking._watchers)
    net, p, x = filled("BatchNorm")
    net(x)
    assert len(write_tracking._watchers) == len(before) + 4
    del net, p
    gc.collect()
    assert write_tracking._watchers == before


# -- threads


def test_a_write_during_a_computation_does_not_survive(ctx, monkeypatch):
    """The prelude reads a parameter that is being written: the next call sees the write."""
    from hybridgpu.runtime.folded_parameters import FoldedParameters

    net, p, x = filled("BatchNorm", ctx)
    net(x)
    p.set_data(nd.full(p.shape, 4))
    compute = FoldedParameters._compute

    def interrupted(self, arrays):
        compute(self, arrays)
        monkeypatch.setattr(FoldedParameters, "_compute", compute)
        in_another_thread(net, p, x)

    monkeypatch.setattr(FoldedParameters, "_compute", interrupted)
    net(x)
    check(net, x)
    assert runs(net) == 3


def test_threads_that_call_and_one_that_writes(compiler):
    net, p, x = filled("BatchNorm")
    net(x)
    values = [nd.full(p.shape, v) for v in (0.5, 1, 2)]
    stop, errors = threading.Event(), []

    def call():
        try:
            while not stop.is_set():
                assert np.isfinite(net(x).asnumpy()).all()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    for k in range(60):
        p.set_data(values[k % 3])
        want = unfolded(net, x)
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=2e-6, atol=2e-6)
    stop.set()
    for t in threads:
        t.join()
    assert not errors


@pytest.mark.parametrize("name", NETS)
def test_writes_while_a_program_is_made_in_the_background(compiler, name):
    net, p, x = filled(name, background=True)
    results = []
    for k in range(4):
        p.set_data(nd.full(p.shape, 0.5 + k / 8))
        results.append((net(x).asnumpy(), unfolded(net, x)))
        if k == 1:
            for later in [e.pending[0] for e in list(net._cached_op.entries.values()) if e.pending]:
                later._finished.wait()
    for got, want in results:
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    assert runs(net) >= 2, "the program was there for the last two calls"


# -- what is said of it


def test_explained(ctx):
    net, p, x = filled("BatchNorm", ctx)
    told = net.explain(x)
    if told.program is None:
        assert not told.folded_values
        return
    name = f"{net[1].name}_fwd"
    assert [(k.computes, k.nbytes) for k in told.folded_values] == [
        (f"add, rsqrt, mul of {name}", 16),
        (f"mul, sub of {name}", 16),
    ]
    assert told.folded_bytes == 32
    assert "computed once, until a parameter is written; 32 B are kept:" in str(told)
    assert len(told.kernels) == 1, "the scale and the shift are no kernels of a call"


def test_what_is_kept_comes_from_disk_as_well(compiler):
    net, p, x = filled("BatchNorm")
    net(x)
    (made,) = [e.program for e in net._cached_op.entries.values()]
    again = Program.from_bytes(made.program.to_bytes())
    assert (again.prelude.graph, again.folded_values) == (made.program.prelude.graph, made.program.folded_values)
    assert again.prelude_inputs == list(made.prelude.takes)

# SPDX-License-Identifier: Apache-2.0
"""Trainer and key-value stores: training beside what MXNet 1.9.1 gave (``recorded/``), files, errors."""

from __future__ import annotations

import numpy as np
import pytest
from against_mxnet.recorded import training
from against_mxnet.recorded.record import draw, recorded, same

import hybridgpu as mx
from hybridgpu import autograd, gluon, kvstore, nd
from hybridgpu.gluon import nn

RECORDED = recorded("training")


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("name", training.CASES)
def test_training(name, hybrid):
    ours = training.measure(mx, name, hybrid)
    for key, theirs in RECORDED[name].items():
        assert same(ours[key], theirs, 1e-3, 1e-4), key
    assert ours["losses"][-1] < ours["losses"][0]


@pytest.mark.parametrize("store", [None, "local", "device", "nccl", "teststore"])
@pytest.mark.parametrize("updates", [None, False])
def test_stores_give_the_same(store, updates):
    """Whoever sums and updates: two devices with half a batch each are one device with the whole."""

    def run(contexts, **options):
        net = nn.Dense(2, in_units=3)
        net.initialize(mx.init.One(), ctx=contexts)
        trainer = gluon.Trainer(net.collect_params(), "adagrad", {"learning_rate": 0.1}, **options)
        for t in range(3):
            with autograd.record():
                values = [net(x).tanh().sum() for x in gluon.utils.split_and_load(draw((4, 3), t), contexts)]
            autograd.backward(values)
            trainer.step(4)
        return [p.list_data() for p in net.collect_params().values()]

    two = run([mx.cpu(0), mx.cpu(1)], kvstore=store, update_on_kvstore=updates)
    if store is None:  # nothing is summed: the copies part
        assert any((a.asnumpy() != b.asnumpy()).any() for a, b in two)
        return
    for (one,), (first, second) in zip(run([mx.cpu()]), two, strict=True):
        np.testing.assert_allclose(first.asnumpy(), one.asnumpy(), rtol=1e-5)
        np.testing.assert_array_equal(first.asnumpy(), second.asnumpy())


def dense(units=2, in_units=3, ctx=None):
    net = nn.Dense(units, in_units=in_units)
    net.initialize(ctx=ctx)
    return net


def backward(net):
    with autograd.record():
        value = net(nd.ones((2, 3))).sum()
    value.backward()


def test_sum_clip_and_update_one_by_one():
    net = dense(ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer(net.collect_params(), "adagrad", update_on_kvstore=False)
    with autograd.record():
        values = [net(nd.ones((2, 3), ctx=c)).sum() for c in (mx.cpu(0), mx.cpu(1))]
    autograd.backward(values)
    trainer.allreduce_grads()
    for g in net.weight.list_grad():
        np.testing.assert_array_equal(g.asnumpy(), np.full((2, 3), 4))
    before = net.weight.list_data()[0].asnumpy()
    trainer.update(2)
    after = [d.asnumpy() for d in net.weight.list_data()]
    np.testing.assert_array_equal(after[0], after[1])
    assert (after[0] != before).any()


def test_stale_gradients():
    used, unused = dense(), dense()
    trainer = gluon.Trainer([*used.collect_params().values(), *unused.collect_params().values()], "adagrad")
    backward(used)
    with pytest.raises(
        UserWarning,
        match=f"Gradient of Parameter `{unused.weight.name}` on context cpu\\(0\\) has not been updated by backward",
    ):
        trainer.step(1)
    old_used, old_unused = used.weight.data().asnumpy(), unused.weight.data().asnumpy()
    trainer.step(1, ignore_stale_grad=True)
    assert (used.weight.data().asnumpy() != old_used).all()
    np.testing.assert_array_equal(unused.weight.data().asnumpy(), old_unused)
    with pytest.raises(UserWarning):  # nothing is fresh any more
        trainer.step(1)


def test_parameters_without_gradients_stay():
    net = dense()
    net.bias.grad_req = "null"
    trainer = gluon.Trainer(net.collect_params(), "adagrad")
    backward(net)
    trainer.step(1)
    assert not net.bias.data().asnumpy().any()


def test_multipliers_of_parameters_count():
    net = dense()
    net.weight.lr_mult = 0
    trainer = gluon.Trainer(net.collect_params(), "adagrad")
    old = net.weight.data().asnumpy()
    backward(net)
    trainer.step(1)
    np.testing.assert_array_equal(net.weight.data().asnumpy(), old)
    assert net.bias.data().asnumpy().all()


def test_learning_rate():
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "adagrad", {"learning_rate": 0.5})
    assert trainer.learning_rate == 0.5 and trainer.optimizer.lr == 0.5
    trainer.set_learning_rate(0.25)
    assert trainer.learning_rate == 0.25
    schedule = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=1)
    trainer = gluon.Trainer(net.collect_params(), "adagrad", {"lr_scheduler": schedule})
    for expected in (1, 1, 0.5, 0.25):
        assert trainer.learning_rate == expected
        backward(net)
        trainer.step(1)
    with pytest.raises(UserWarning, match="LRScheduler of the optimizer has already been defined"):
        trainer.set_learning_rate(1)


@pytest.mark.parametrize("contexts", [[mx.cpu()], [mx.cpu(0), mx.cpu(1)]], ids=["one", "two"])
def test_states_in_files(tmp_path, contexts):
    def run(net, trainer, steps):
        for t in range(steps):
            with autograd.record():
                values = [net(nd.array(draw((2, 3), t), ctx=c)).tanh().sum() for c in contexts]
            autograd.backward(values)
            trainer.step(2)

    net = dense(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "nadam")
    run(net, trainer, 3)
    net.save_parameters(str(tmp_path / "net"))
    trainer.save_states(str(tmp_path / "states"))
    run(net, trainer, 2)
    again = dense(ctx=contexts)
    again.load_parameters(str(tmp_path / "net"), ctx=contexts)
    later = gluon.Trainer(again.collect_params(), "nadam")
    later.load_states(str(tmp_path / "states"))
    assert later.optimizer.num_update == 3
    run(again, later, 2)
    np.testing.assert_array_equal(again.weight.list_data()[-1].asnumpy(), net.weight.list_data()[-1].asnumpy())


def uninitialised():
    return gluon.Trainer(nn.Dense(2).collect_params(), "sgd")


def deferred():
    net = nn.Dense(2)
    net.initialize()
    gluon.Trainer(net.collect_params(), "adagrad").step(1)


def on_different_devices():
    gluon.Trainer([dense().weight, dense(ctx=[mx.cpu(0), mx.cpu(1)]).weight], "sgd")


def updated_by_the_store(method):
    trainer = gluon.Trainer(dense(ctx=[mx.cpu(0), mx.cpu(1)]).collect_params(), "adagrad")
    getattr(trainer, method)(*([1] if method == "update" else []))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: gluon.Trainer(3, "sgd"), ValueError, "First argument must be a list or dict of Parameters, got <class 'int'>."),
        (lambda: gluon.Trainer([3], "sgd"), ValueError, "First argument must be a list or dict of Parameters, got list of <class 'int'>."),
        (lambda: gluon.Trainer(dense().collect_params(), "foo"), ValueError, "Cannot find optimizer foo"),
        (lambda: gluon.Trainer(dense().collect_params(), mx.optimizer.SGD(), {"wd": 1}), AssertionError, "optimizer_params must be None if optimizer is an instance of Optimizer instead of str"),
        (uninitialised, RuntimeError, "has not been initialized"),
        (deferred, gluon.DeferredInitializationError, "initialization was deferred"),
        (on_different_devices, AssertionError, "All Parameters must be initialized on the same set of contexts"),
        (lambda: gluon.Trainer(dense().collect_params(), "sgd", kvstore=3).step(1), TypeError, "kvstore must be KVStore, str or None"),
        (lambda: updated_by_the_store("update"), AssertionError, "update\\(\\) when parameters are updated on kvstore is not supported"),
        (lambda: updated_by_the_store("allreduce_grads"), AssertionError, "allreduce_grads\\(\\) when parameters are updated on kvstore"),
        (lambda: gluon.Trainer(dense().collect_params(), "sgd", kvstore=kvstore.TestStore(), update_on_kvstore=True).step(1), ValueError, "Please set update_on_kvstore=False when training with"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# -- stores by themselves


@pytest.mark.parametrize("kind", ["local", "device"])
def test_store(kind):
    store = kvstore.create(kind)
    assert (store.type, store.rank, store.num_workers, store.is_capable("optimizer")) == (kind, 0, 1, True)
    store.init(3, nd.full((2,), 2.0))
    out = [nd.zeros((2,)), nd.zeros((2,), mx.cpu(1))]

    def pulled():
        store.pull(3, out=out)
        np.testing.assert_array_equal(out[0].asnumpy(), out[1].asnumpy())
        return out[0].asnumpy().tolist()

    assert pulled() == [2, 2]
    store.push(3, nd.full((2,), 8.0))
    assert pulled() == [8, 8]
    store.push(3, [nd.ones((2,)), nd.full((2,), 2.0, mx.cpu(1))])
    assert pulled() == [3, 3]
    store.pushpull(3, [nd.full((2,), 5.0), nd.full((2,), 5.0, mx.cpu(1))], out=out)
    assert out[1].asnumpy().tolist() == [10, 10] == pulled()
    seen = []

    def update(key, gradient, weight):
        seen.append(key)
        weight += gradient * 2

    store.set_updater(update)
    store.push(3, nd.ones((2,)))
    assert pulled() == [12, 12] and seen == [3]
    store.broadcast(4, nd.full((2,), 7.0), out=out)
    assert out[1].asnumpy().tolist() == [7, 7]
    store.init([5, 6], [nd.ones((2,))] * 2)
    store.push([5, 6], [nd.ones((2,))] * 2)
    store.pull([5, 6], out=out)
    assert out[1].asnumpy().tolist() == [3, 3]


def test_store_with_optimizer(tmp_path):
    store = kvstore.create("local")
    store.init("w", nd.ones((2,)))
    store.set_optimizer(mx.optimizer.create("test"))
    store.push("w", [nd.ones((2,)), nd.ones((2,))])
    out = nd.zeros((2,))
    store.pull("w", out=out)
    assert out.asnumpy().tolist() == [3, 3]
    store.save_optimizer_states(str(tmp_path / "states"))
    other = kvstore.create("local")
    other.set_optimizer(mx.optimizer.create("test"))
    other.load_optimizer_states(str(tmp_path / "states"))
    assert other._updater.states["w"].asnumpy().tolist() == [3, 3]


def initialised(keys=3):
    store = kvstore.create()
    store.init(keys, nd.ones((2,)))
    return store


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: initialised().init(3, nd.ones((2,))), mx.MXNetError, "duplicate init of key 3. Please double check"),
        (lambda: initialised().push(4, nd.ones((2,))), mx.MXNetError, "key 4 has not been inited"),
        (lambda: initialised().pull(4, nd.ones((2,))), mx.MXNetError, "key 4 has not been inited"),
        (lambda: initialised().init("a", nd.ones((2,))), mx.MXNetError, "Mixed key types are not allowed"),
        (lambda: initialised().init(["5", 6], [nd.ones((2,))] * 2), AssertionError, "inconsistent types of keys detected."),
        (lambda: initialised().init(1.5, nd.ones((2,))), AssertionError, "unexpected type for keys: <class 'float'>"),
        (lambda: initialised().is_capable("foo"), ValueError, "Unknown capability: foo"),
        (lambda: initialised().save_optimizer_states("x"), AssertionError, "Cannot save states for distributed training"),
        (lambda: initialised().row_sparse_pull(3), mx.MXNetError, "row_sparse arrays are not supported"),
        (lambda: initialised().set_gradient_compression({"type": "2bit"}), mx.MXNetError, "Gradient compression is not supported"),
        (lambda: kvstore.create(3), TypeError, "name must be a string"),
        (lambda: kvstore.create("dist_sync"), mx.MXNetError, "for several processes, which are not supported"),
        (lambda: kvstore.create("horovod"), mx.MXNetError, "for several processes, which are not supported"),
    ],
)  # fmt: skip
def test_store_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_own_stores_are_registered():
    @kvstore.KVStoreBase.register
    class Doubling(kvstore.TestStore):
        def pushpull(self, key, value, out=None, priority=0):
            for v in value:
                v *= 2

    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "test", kvstore=kvstore.create("doubling"))
    net.weight.set_data(nd.zeros((2, 3)))
    backward(net)
    trainer.step(1)
    np.testing.assert_array_equal(net.weight.data().asnumpy(), np.full((2, 3), 4))


def test_loaded_values_reach_the_store(tmp_path):
    """A store that updates holds a copy of the weights: new values from a file drop it."""
    params = gluon.ParameterDict()
    x = params.get("x", shape=(3,))
    params.initialize(ctx=[mx.cpu(0), mx.cpu(1)], init="zeros")
    trainer = gluon.Trainer(params, "test", kvstore="local")
    params.save(str(tmp_path / "params"))

    def step():
        with autograd.record():
            values = [w + 1 for w in x.list_data()]
        autograd.backward(values)
        trainer.step(1)
        return x.data(mx.cpu()).asnumpy().tolist()

    assert step() == [2, 2, 2]
    assert step() == [4, 4, 4]
    params.load(str(tmp_path / "params"))
    assert trainer._kvstore is None
    assert step() == [2, 2, 2]


#: what a Trainer goes on with, where it has nothing but weights; MXNet 1.9.1: MXNetError, AssertionError, TypeError, ValueError
CASTS = {
    ("sgd", ()): {("float16", "float32"), ("float32", "float64")},
    ("sgd", (("momentum", 0.9),)): set(),
    ("nag", (("momentum", 0.9),)): set(),
    ("adam", ()): set(),
    ("rmsprop", ()): set(),
    ("lamb", ()): set(),
}


@pytest.mark.parametrize("updates", ["never", "always"])
@pytest.mark.parametrize("optimizer", CASTS, ids=lambda o: o[0] + "".join(name for name, _ in o[1]))
def test_a_cast_under_a_living_trainer(compiler, optimizer, updates, monkeypatch):
    """Goes on where MXNet does; elsewhere an error that says what to write."""
    monkeypatch.setenv("HYBRIDGPU_FUSED_UPDATES", updates)
    name, options = optimizer
    for before, after in [
        ("float32", "float16"),
        ("float16", "float32"),
        ("float32", "float64"),
        ("float64", "float16"),
    ]:
        net = gluon.nn.LayerNorm(in_channels=3)
        net.initialize()
        trainer = gluon.Trainer(
            net.collect_params(), name, {"learning_rate": 0.1, "multi_precision": True, **dict(options)}
        )

        def step(dtype, net=net, trainer=trainer):
            net.cast(dtype)
            with autograd.record():
                y = net(nd.array([[1, 2, 4]], dtype=dtype)) ** 3
            y.backward()
            trainer.step(1)

        step(before)
        if (before, after) in CASTS[optimizer]:
            step(after)
            np.testing.assert_allclose(net.gamma.data().asnumpy(), [2.409, 1.0126, 0.2743], rtol=2e-3)
        else:
            with pytest.raises(
                mx.MXNetError, match=f"was made for {before}: cast the net before its first step, or make a new"
            ):
                step(after)


def test_parameters_of_one_name_and_of_a_new_name_on_two_devices():
    """The store knows each by its place: two may be called 'weight', and an attribute's name comes later."""
    contexts = [mx.cpu(0), mx.cpu(1)]
    parameters = [gluon.Parameter("weight", shape=(2,), init=mx.init.Constant(k + 1)) for k in range(2)]
    for p in parameters:
        p.initialize(ctx=contexts)
    trainer = gluon.Trainer(parameters, "sgd", {"learning_rate": 1.0})
    block = gluon.Block(prefix="block_")
    block.scale = parameters[0]
    assert trainer._param2idx == {"block_scale": 0, "weight": 1}
    with autograd.record():
        losses = [(parameters[0].data(c) * 3 + parameters[1].data(c) * 5).sum() for c in contexts]
    autograd.backward(losses)
    trainer.step(1)
    for k, (p, slope) in enumerate(zip(parameters, (3, 5), strict=True)):
        for c in contexts:
            np.testing.assert_array_equal(p.data(c).asnumpy(), [k + 1 - 2 * slope] * 2)

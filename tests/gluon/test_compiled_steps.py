# SPDX-License-Identifier: Apache-2.0
"""Steps of a Trainer compiled into one program: the bits of eager steps, when they are compiled, and when not."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd, optimizer
from hybridgpu.cache.disk_cache import reset_default_store
from hybridgpu.gluon import compiled_step, nn
from hybridgpu.runtime import optimizer_programs
from hybridgpu.runtime.reports.events import compile_report

pytestmark = pytest.mark.usefixtures("compiler")
MODE = "HYBRIDGPU_FUSED_UPDATES"
SHAPES = [(3, 4), (7,), (2, 3, 5)]

#: optimizers whose step is one operator of each weight
OPTIMIZERS = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "wd": 0.1}),
    ("sgd", {"momentum": 0.9, "wd": 0.01, "clip_gradient": 0.3}),
    ("nag", {"wd": 0.1}),
    ("nag", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3}),
    ("signum", {"wd": 0.1, "wd_lh": 0.01}),
    ("signum", {"momentum": 0, "clip_gradient": 0.3}),
    ("adam", {"wd": 0.1}),
    ("adam", {"clip_gradient": 0.1, "beta1": 0.8}),
    ("rmsprop", {"wd": 0.1}),
    ("rmsprop", {"centered": True, "clip_weights": 0.5, "clip_gradient": 0.2}),
    ("ftrl", {"wd": 0.1, "clip_gradient": 0.3}),
    ("ftml", {"wd": 0.1, "clip_gradient": 0.2}),
]


def parameters(dtype="float32", ctx=None, shapes=SHAPES):
    found = []
    for k, shape in enumerate(shapes):
        p = gluon.Parameter(f"p{k}_weight", shape=shape, dtype=dtype)
        p.initialize(mx.init.Constant(nd.array(draw(shape, k))), ctx=ctx)
        found.append(p)
    return found


def draw(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape)


def backward(params, t=0, ctx=None):
    with autograd.record():
        parts = [
            (p.data(ctx) * nd.array(draw(p.shape, 10 * t + k), ctx=ctx, dtype=p.dtype)).sum().astype("float32")
            for k, p in enumerate(params)
        ]
        value = sum(x * x * 0.1 for x in parts)
    value.backward()


def flat(state):
    if isinstance(state, (tuple, list)):
        return [x for s in state for x in flat(s)]
    return [] if state is None else [state.asnumpy()]


def values(params, trainer):
    states = trainer._updaters[0].states
    return [p.data().asnumpy() for p in params] + [a for k in sorted(states) for a in flat(states[k])]


def train(monkeypatch, mode, name, options, dtype="float32", count=4, ctx=None, change=None):
    """Steps with gradients, batch sizes and multipliers that change; all weights and states, and the Trainer."""
    monkeypatch.setenv(MODE, mode)
    params = parameters(dtype, ctx)
    params[1].lr_mult, params[2].wd_mult, params[2].grad_req = 0.5, 0.3, "add"
    trainer = gluon.Trainer(params, name, dict(options))
    for t in range(count):
        if change is not None:
            change(t, params, trainer)
        backward(params, t, ctx)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of half precision
            trainer.step(2 + t)
    return values(params, trainer), trainer


def same_bits(monkeypatch, *args, **kwargs):
    eager, first = train(monkeypatch, "never", *args, **kwargs)
    compiled, second = train(monkeypatch, "always", *args, **kwargs)
    assert not first.explain().fused and second.explain().fused, second.explain()
    assert len(eager) == len(compiled)
    for a, b in zip(eager, compiled, strict=True):
        assert np.isfinite(a.astype(np.float64)).all()
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return second


@pytest.mark.long_table
@pytest.mark.parametrize(
    ("dtype", "extra"),
    [("float32", {}), ("float64", {}), ("float16", {"multi_precision": True})],
    ids=["float32", "float64", "mixed"],
)
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=lambda v: str(v))
def test_same_bits(monkeypatch, name, options, dtype, extra):
    same_bits(monkeypatch, name, {**options, **extra}, dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "extra"),
    [
        ("sgd", "float16", {}),
        ("adam", "bfloat16", {}),
        ("adam", "bfloat16", {"multi_precision": True}),
        ("sgd", "bfloat16", {"multi_precision": True}),
    ],
)
def test_same_bits_in_half(monkeypatch, name, dtype, extra):
    same_bits(monkeypatch, name, {"wd": 0.1, **extra}, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lamb_sums(monkeypatch, dtype):
    """Norms are sums, which round in another order."""
    options = {"wd": 0.1, "multi_precision": dtype == "float16"}
    eager, _ = train(monkeypatch, "never", "lamb", options, dtype)
    compiled, trainer = train(monkeypatch, "always", "lamb", options, dtype)
    assert trainer.explain().fused
    for a, b in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5 if a.dtype == np.float32 else 1e-3, atol=1e-7)


def test_element_types_side_by_side(monkeypatch):
    def run(mode):
        monkeypatch.setenv(MODE, mode)
        params = [*parameters("float32"), *parameters("float64")]
        trainer = gluon.Trainer(
            params, "adam", {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5, 0, 0.1)}
        )
        for t in range(5):
            backward(params[:3], t)
            backward(params[3:], t)
            trainer.step(1)
        return values(params, trainer), trainer

    (eager, _), (compiled, trainer) = run("never"), run("always")
    assert len(trainer.explain().programs) == 2
    for a, b in zip(eager, compiled, strict=True):
        assert a.tobytes() == b.tobytes()


def test_numbers_change_without_another_program(monkeypatch):
    """Rates, decays, batch sizes and the number of the step are arguments."""

    def change(t, params, trainer):
        if t == 1:
            events.append(len(compile_report().events))
        trainer.set_learning_rate(0.1 / (t + 1))
        trainer.optimizer.wd = 0.01 * t
        params[0].lr_mult = 1 + t

    for name, options in (("sgd", {"momentum": 0.9}), ("ftml", {})):
        events: list[int] = []
        same_bits(monkeypatch, name, options, count=6, change=change)
        assert len(compile_report().events) == events[-1]


CHANGES = {
    "momentum": lambda params, trainer: setattr(trainer.optimizer, "momentum", 0.5),
    "a bound of gradients": lambda params, trainer: setattr(trainer.optimizer, "clip_gradient", 0.1),
    "new values": lambda params, trainer: params[0].set_data(nd.ones(SHAPES[0])),
    "other arrays": lambda params, trainer: params[0].initialize(mx.init.One(), force_reinit=True),
    "another element type": lambda params, trainer: (params[1].cast("float64"), trainer._updaters[0].states.pop(1)),
    "a parameter that stays": lambda params, trainer: setattr(params[0], "grad_req", "null"),
    "a gradient that adds up": lambda params, trainer: setattr(params[0], "grad_req", "add"),
    "a state that starts again": lambda params, trainer: trainer._updaters[0].states.update({0: nd.zeros(SHAPES[0])}),
    "states from a file": lambda params, trainer: trainer._updaters[0].set_states(trainer._updaters[0].get_states()),
    "a gradient buffer of the user": lambda params, trainer: params[0].data().attach_grad(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_changes_between_steps(monkeypatch, what):
    def change(t, params, trainer):
        if t == 2:
            CHANGES[what](params, trainer)

    def run(mode):
        return train(monkeypatch, mode, "sgd", {"momentum": 0.9, "wd": 0.1}, change=change)[0]

    for a, b in zip(run("never"), run("always"), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


# -- when


def hybrid(units=4, ctx=None):
    net = nn.Dense(units, in_units=3)
    net.initialize(ctx=ctx)
    net.hybridize()
    return net


def learn(net, trainer, count, batch=2, ctx=None):
    for _ in range(count):
        with autograd.record():
            value = net(nd.ones((batch, 3), ctx=ctx)).sum()
        value.backward()
        trainer.step(batch)


@pytest.fixture
def nothing_compiled(monkeypatch, tmp_path):
    """No program is in memory or on disk."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(optimizer_programs, "_memory", {})
    reset_default_store()
    yield
    reset_default_store()


def test_when_it_is_compiled(monkeypatch, nothing_compiled):
    monkeypatch.setenv(MODE, "auto")
    monkeypatch.setattr(compiled_step, "AFTER", 3)
    net = hybrid()

    def trainer():
        return gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})

    first = trainer()
    assert first.explain().reasons == ["there was no step yet"]
    learn(net, first, 2)
    assert first.explain().reasons == ["they are compiled at step 3"]
    learn(net, first, 1)
    (program,) = first.explain().programs
    assert [k.kind for k in program.kernels] == ["map", "map"] and program.in_place_results == 4
    assert program.bytes_moved == program.bytes_min + 4  # both kernels read the gradients' factor
    assert all(k.bytes_moved == k.bytes_min for k in program.kernels)
    assert str(first.explain()).startswith("multi_sgd_mom_update of 2 weights on cpu: 2 kernels, 0 library calls")
    event = compile_report().events[-1]
    assert (event.name, event.compiled_modules) == ("multi_sgd_mom_update of 2 weights", 1)
    learn(net, second := trainer(), 1)  # it is in memory now
    assert second.explain().fused and compile_report().events[-1] is event
    optimizer_programs._memory.clear()
    learn(net, third := trainer(), 1)  # and on disk
    assert third.explain().fused and compile_report().events[-1].cache == "disk"
    for change in range(3, 6):  # a net whose arrays change is not compiled at every step
        learn(net, third, 1)
        net.weight.initialize(force_reinit=True)
        assert third.explain().fused, change


@pytest.mark.parametrize(
    ("ctx", "large", "step"), [(mx.cpu(), False, 100), (mx.cpu(), True, 1), (mx.gpu(0), False, 3)], ids=str
)
def test_at_which_step_it_is_compiled(monkeypatch, nothing_compiled, cuda_driver, ctx, large, step):
    monkeypatch.setenv(MODE, "auto")
    net = hybrid(ctx=ctx)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    if large:
        monkeypatch.setattr(compiled_step, "LARGE", sum(p.data().size for p in net.collect_params().values()))
    learn(net, trainer, step - 1, ctx=ctx)
    waits = "there was no step yet" if step == 1 else f"they are compiled at step {step}"
    assert trainer.explain().reasons == [waits]
    learn(net, trainer, 1, ctx=ctx)
    assert trainer.explain().fused and len(trainer.explain().programs[0].kernels)


def test_lamb_is_compiled_at_once(monkeypatch, nothing_compiled):
    """When it is compiled would show in the numbers."""
    monkeypatch.setenv(MODE, "auto")
    net = hybrid()
    trainer = gluon.Trainer(net.collect_params(), "lamb")
    learn(net, trainer, 1)
    assert trainer.explain().fused


@pytest.mark.parametrize(("name", "compiled"), [("sgd", True), ("adam", True), ("lamb", False)])
def test_of_blocks_that_are_not_hybridized(monkeypatch, name, compiled, compiler):
    """Where that makes no difference to the numbers."""
    monkeypatch.setenv(MODE, "auto")
    monkeypatch.setattr(compiled_step, "AFTER", 2)
    params = parameters()
    trainer = gluon.Trainer(params, name)
    for t in range(3):
        backward(params, t)
        trainer.step(1)
    reasons = trainer.explain().reasons
    assert not reasons if compiled else reasons[0].startswith("its sums round in another order")


class Own(optimizer.SGD):
    def update_multi_precision(self, index, weight, grad, state):
        super().update_multi_precision(index, weight, grad, state)


class Halved(optimizer.Adam):
    def _get_lrs(self, indices):
        return [lr / 2 for lr in super()._get_lrs(indices)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Own(), "Own overrides update_multi_precision"),
        (lambda: optimizer.LARS(), "LARS computes its steps with several operators"),
        (lambda: optimizer.AdaGrad(), "AdaGrad computes its steps with several operators"),
        (lambda: optimizer.SGLD(), "SGLD computes its steps with several operators"),
    ],
)
def test_reasons(monkeypatch, make, reason):
    monkeypatch.setenv(MODE, "always")
    params = parameters()
    trainer = gluon.Trainer(params, make())
    backward(params)
    trainer.step(1)
    assert trainer.explain().reasons == [reason]
    assert str(trainer.explain()) == f"steps run operator by operator: {reason}"


def test_rates_of_ones_own(monkeypatch):
    """A subclass that only chooses rates is compiled with them."""
    ends = []
    for mode in ("never", "always"):
        monkeypatch.setenv(MODE, mode)
        params = parameters()
        trainer = gluon.Trainer(params, Halved(learning_rate=0.1))
        for t in range(3):
            backward(params, t)
            trainer.step(1)
        ends.append(values(params, trainer))
    assert trainer.explain().fused
    for a, b in zip(*ends, strict=True):
        assert a.tobytes() == b.tobytes()


def test_weights_one_by_one(monkeypatch):
    monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "0")
    _, trainer = train(monkeypatch, "always", "sgd", {})
    assert trainer.explain().reasons == ["aggregate_num is 0"]


def test_a_program_that_cannot_be_made_is_tried_once(monkeypatch):
    monkeypatch.setenv(MODE, "always")
    tried = []
    monkeypatch.setattr(compiled_step, "update_program", lambda *a: tried.append(a))
    params = parameters()
    trainer = gluon.Trainer(params, "sgd", kvstore=None)
    for t in range(3):
        backward(params, t)
        trainer.step(1)
    assert len(tried) == 1 and "there is no compiler that works" in str(trainer.explain())


def test_arrays_that_share_memory(monkeypatch):
    monkeypatch.setenv(MODE, "always")
    params = parameters(shapes=[(4,), (4,)])
    params[1]._data = [params[0].data().reshape((4,))]
    params[1]._init_grad()
    trainer = gluon.Trainer(params, "sgd")
    backward(params)
    trainer.step(1)
    assert trainer.explain().reasons == ["two of the arrays share memory"]


def test_a_store_that_updates(monkeypatch):
    monkeypatch.setenv(MODE, "always")
    where = [mx.cpu(0), mx.cpu(1)]
    ends = []
    for by_store in (True, False):
        params = parameters(ctx=where)
        trainer = gluon.Trainer(params, "adam", update_on_kvstore=by_store)
        for t in range(2):
            for ctx in where:
                backward(params, t, ctx)
            trainer.step(2)
        ends.append([d.asnumpy() for p in params for d in p.list_data()])
        explanation = trainer.explain()
        assert explanation.fused is not by_store and len(explanation.programs) == 2 * (not by_store)
    assert explanation.reasons == []
    for a, b in zip(*ends, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_word_that_is_none(monkeypatch):
    monkeypatch.setenv(MODE, "sometimes")
    with pytest.raises(
        mx.MXNetError, match="valid values are: {'always', 'auto', 'never'}, in HYBRIDGPU_FUSED_UPDATES"
    ):
        gluon.Trainer(parameters(), "sgd")


# -- what must not be forgotten


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rate_that_is_an_array_is_refused(dtype, mode, monkeypatch):
    monkeypatch.setenv(MODE, mode)
    params = parameters(dtype)
    trainer = gluon.Trainer(params, "adam", {"learning_rate": 0.1})
    backward(params)
    trainer.step(1)
    backward(params)
    trainer.set_learning_rate(nd.array([[0.1, 0.2]]))
    with pytest.raises(mx.MXNetError, match="lr expect float but value=|trailing characters could not be parsed"):
        trainer.step(1)


@pytest.mark.parametrize("mode", ["never", "always"])
def test_a_step_that_left_a_parameter_out_is_not_repeated(mode, monkeypatch):
    monkeypatch.setenv(MODE, mode)
    params = parameters(shapes=[(2,), (3,)])
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0})
    start = [p.data().asnumpy() for p in params]
    ones = [0, 0]
    for count, ignore in ((2, False), (1, True), (2, False), (1, True), (2, True)):
        with autograd.record():
            sum(p.data().sum() for p in params[:count]).backward()
        trainer.step(1, ignore_stale_grad=ignore)
        assert trainer.explain().fused is (mode == "always"), trainer.explain()
        ones = [n + (k < count) for k, n in enumerate(ones)]
        for p, first, n in zip(params, start, ones, strict=True):
            expected = first
            for _ in range(n):
                expected = expected - np.float32(1)
            np.testing.assert_array_equal(p.data().asnumpy(), expected)
    with autograd.record():
        params[0].data().sum().backward()
    with pytest.raises(UserWarning, match="p1_weight"):
        trainer.step(1)


def test_stale_gradients(monkeypatch):
    monkeypatch.setenv(MODE, "always")
    params = parameters()
    trainer = gluon.Trainer(params, "sgd", {"momentum": 0.9})
    for t in range(2):
        backward(params, t)
        trainer.step(1)
    assert trainer.explain().fused
    before = [p.data().asnumpy() for p in params]
    backward(params[:2])
    with pytest.raises(
        UserWarning, match="Gradient of Parameter `p2_weight` on context cpu\\(0\\) has not been updated"
    ):
        trainer.step(1)
    for p, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.data().asnumpy(), old)
    trainer.step(1, ignore_stale_grad=True)
    changed = [bool((p.data().asnumpy() != old).any()) for p, old in zip(params, before, strict=True)]
    assert changed == [True, True, False]
    assert trainer._optimizer._index_update_count == {0: 3, 1: 3, 2: 2}


def test_what_is_kept_of_weights_is_computed_again(monkeypatch):
    """Packed weights of the next prediction are those of the new values."""
    monkeypatch.setenv(MODE, "always")
    net = nn.HybridSequential()
    net.add(nn.Dense(64, in_units=32), nn.Dense(16, in_units=64))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x = nd.array(draw((16, 32), 0))
    old = None
    for _ in range(3):
        for _ in range(3):
            y = net(x).asnumpy()  # prepared, and what is kept of the weights computed
        weights = [p.data().asnumpy().astype(np.float64) for p in net.collect_params().values()]
        expected = (x.asnumpy() @ weights[0].T + weights[1]) @ weights[2].T + weights[3]
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
        assert old is None or (y != old).any()
        old = y
        with autograd.record():
            value = net(x).sum()
        value.backward()
        trainer.step(16)
    assert trainer.explain().fused


def test_states_in_files(monkeypatch, tmp_path):
    """A file of either way to make steps is that of the other."""
    files = []
    for mode in ("never", "always"):
        monkeypatch.setenv(MODE, mode)
        params = parameters()
        trainer = gluon.Trainer(params, "adam", {"wd": 0.1})
        for t in range(3):
            backward(params, t)
            trainer.step(1)
        trainer.save_states(str(tmp_path / mode))
        files.append((tmp_path / mode).read_bytes())
        trainer.load_states(str(tmp_path / "never"))
        for t in range(3, 5):
            backward(params, t)
            trainer.step(1)
        files.append(values(params, trainer))
    assert files[0] == files[2]
    for a, b in zip(files[1], files[3], strict=True):
        assert a.tobytes() == b.tobytes()


def test_under_record(monkeypatch):
    monkeypatch.setenv(MODE, "always")
    params = parameters()
    trainer = gluon.Trainer(params, "sgd")
    for t in range(2):
        backward(params, t)
        trainer.step(1)
    backward(params)
    with (
        autograd.record(),
        pytest.raises(mx.MXNetError, match="Assigning to NDArrays that are already in a computational"),
    ):
        trainer.step(1)


def test_threads(monkeypatch):
    """Trainers in several threads share a program, but no numbers."""
    expected, _ = train(monkeypatch, "never", "adam", {"wd": 0.1}, count=30)
    monkeypatch.setenv(MODE, "always")
    trainers = []
    for _ in range(4):
        params = parameters()
        params[1].lr_mult, params[2].wd_mult, params[2].grad_req = 0.5, 0.3, "add"
        trainers.append((params, gluon.Trainer(params, "adam", {"wd": 0.1})))

    def work(params, trainer):
        for t in range(30):
            backward(params, t)
            trainer.step(2 + t)

    threads = [threading.Thread(target=work, args=pair) for pair in trainers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for params, trainer in trainers:
        assert trainer.explain().fused
        for a, b in zip(expected, values(params, trainer), strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("name", "options", "dtype", "launches"),
    [
        ("sgd", {"momentum": 0.9, "wd": 0.1}, "float32", 1),
        ("adam", {"clip_gradient": 0.5}, "float32", 1),
        ("adam", {"multi_precision": True}, "float16", 1),
        ("lamb", {"wd": 0.1}, "float32", None),
    ],
)
def test_on_a_gpu(monkeypatch, cuda_driver, name, options, dtype, launches):
    """One launch for all weights."""
    counted = []

    def change(t, params, trainer):
        counted.append(len(cuda_driver.launches))

    eager, _ = train(monkeypatch, "never", name, options, dtype, ctx=mx.gpu(0))
    compiled, trainer = train(monkeypatch, "always", name, options, dtype, ctx=mx.gpu(0), change=change)
    assert trainer.explain().fused
    for a, b in zip(eager, compiled, strict=True):
        if launches is None:
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-7)
        else:
            assert a.tobytes() == b.tobytes()
    if launches is not None:
        assert np.diff(counted).tolist() == [launches] * (len(counted) - 1)


def test_explain_names_the_weights(monkeypatch):
    """Also where the program was made for weights of the same shapes and other names."""
    monkeypatch.setenv(MODE, "always")
    for prefix in ("first_", "second_"):
        net = nn.Dense(3, in_units=4, prefix=prefix)
        net.initialize()
        trainer = gluon.Trainer(net.collect_params(), "adam")
        with autograd.record():
            loss = net(nd.ones((2, 4)))
        loss.backward()
        trainer.step(2)
        (program,) = trainer.explain().programs
        named = {name for kernel in program.kernels for name in kernel.operators}
        assert named == {f"adam_update of {prefix}weight, (3, 4)", f"adam_update of {prefix}bias, (3,)"}
        assert f"adam_update of {prefix}bias" in program.source()

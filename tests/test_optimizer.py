# SPDX-License-Identifier: Apache-2.0
"""Optimizers beside what MXNet 1.9.1 gave (``recorded/``), learning rates, multipliers, states."""

from __future__ import annotations

import base64
import math
import pickle
import warnings

import numpy as np
import pytest
from against_mxnet.recorded import optimizers, updates
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx
from hybridgpu import lr_scheduler, nd, optimizer

RECORDED, UPDATES = recorded("optimizers"), recorded("updates")


@pytest.mark.parametrize("name", optimizers.CASES)
def test_steps(name):
    ours = optimizers.measure(mx, name)
    # weights of half precision; differences of large numbers in FTML
    rtol, atol = (2e-3, 4e-3) if "multi_precision" in name else (1e-5, 1e-5 if "ftml" in name else 2e-6)
    for key, theirs in RECORDED[name].items():
        assert same(ours[key], theirs, rtol, atol), key


@pytest.mark.parametrize("case", updates.CASES)
def test_operators(case):
    ours, theirs = updates.measure(mx, case), UPDATES[case]
    if case.split()[0] in updates.DEFECTS:  # which shows after the first result
        where = 1 if "beside" in case else 0
        ours, theirs = ([found[0][: where + 1]] for found in (ours, theirs))
    assert same(ours, theirs, *((2e-3, 2e-3) if "float16" in case else (1e-5, 2e-6)))


#: operator, attributes, weight, gradient and states; what MXNet 1.9.1 makes of the weight and the states
BITS = [
    ("sgd_update", {}, [[-0.21, -0.05], [-1.34, -1.76]], [[-0.16958999633789062, 0.0028500035405158997]]),
    (
        "sgd_mom_update",
        {"momentum": 0.9},
        [[-1.18, 1.34], [-1.22, 1.4], [-0.17, 0.26]],
        [[-1.295219898223877, 1.5306600332260132], [-0.11522000283002853, 0.19065998494625092]],
    ),
    (
        "multi_sgd_update",
        {"clip_gradient": 0.2, "num_weights": 1},
        [[-2, -0.62], [1.52, -0.4]],
        [[-2.0179998874664307, -0.6073800325393677]],
    ),
    (
        "ftrl_update",
        {"rescale_grad": 1.0},
        [[0.88, -1.41], [0.17, 1.33], [-1.83, -1.41], [1.66, 1.77]],
        [
            [0.07599268108606339, -0.26632606983184814],
            [-1.758270025253296, 7.686040878295898],
            [1.6888999938964844, 3.538900136947632],
        ],
    ),
    # what is not finite is seen in the weight, and overflows where it does in MXNet
    ("ftrl_update", {"wd": 0.0}, [[1.0], [np.nan], [0.0], [0.0]], [[np.nan], [np.nan], [np.nan]]),
    ("multi_sgd_update", {"wd": 0.0, "num_weights": 1}, [[np.inf, -np.inf], [1, 0]], [[np.nan, np.nan]]),
    (
        "ftml_update",
        {"t": 1, "rescale_grad": 1.0},
        [[1], [1e20], [0], [0], [0]],
        [[np.nan], [np.inf], [np.inf], [-np.inf]],
    ),
]


@pytest.mark.parametrize(("name", "attributes", "arrays", "expected"), BITS)
def test_bits_of_operators(name, attributes, arrays, expected):
    """Products and sums in MXNet's order, so that weights are MXNet's to the last bit."""
    given = [nd.array(a) for a in arrays]
    attributes = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.3} | attributes
    if many := name.startswith("multi"):
        attributes |= {"lrs": [attributes.pop("lr")], "wds": [attributes.pop("wd")]}
    getattr(nd, name)(*given, out=[given[0]] if many else given[0], **attributes)
    for found, wanted in zip((given[0], *given[2:]), expected, strict=True):
        np.testing.assert_array_equal(found.asnumpy(), np.array(wanted, np.float32))


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("sgd", [0.995, -2.0025], [0.99, -2.005]),
        ("adam", [0.999, -2.001], [0.998, -2.002]),
        ("nag", [0.995, -2.0025], [0.99, -2.005]),
        ("signum", [0.99, -2.01], [0.98, -2.02]),
        ("adamax", [0.998, -2.002], [0.996, -2.004]),
    ],
)
def test_two_steps_by_hand(name, first, second):
    o = optimizer.create(name)
    w, g = nd.array([1.0, -2.0]), nd.array([0.5, 0.25])
    state = o.create_state(0, w)
    for expected in (first, second):
        o.update(0, w, g, state)
        np.testing.assert_allclose(w.asnumpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("where", ["in place", "a view of it", "beside"])
def test_decay_under_nesterov(where):
    """MXNet's momentum takes the decay from the weight that it has just overwritten, if it has."""
    w, m = np.array([1.0, -2.0]), np.array([0.3, -0.1])
    g, weight, state = np.array([0.5, 0.25]), nd.array(w), nd.array(m)
    out = {"in place": weight, "a view of it": weight[:], "beside": nd.zeros(2)}[where]
    for _ in range(3):
        nd.nag_mom_update(weight, nd.array(g), state, out=out, lr=0.1, momentum=0.9, wd=0.2)
        old = 0.9 * m
        new = w - old + 1.9 * (old - 0.1 * (g + 0.2 * w))
        m = old - 0.1 * (g + 0.2 * (w if where == "beside" else new))
        np.testing.assert_allclose(out.asnumpy(), new, rtol=1e-5)
        np.testing.assert_allclose(state.asnumpy(), m, rtol=1e-5)
        if where != "beside":
            w = new


def rates(scheduler, n):
    return [scheduler(t) for t in range(n)]


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        (lr_scheduler.FactorScheduler(2, 0.5, base_lr=1), [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]),
        (lr_scheduler.FactorScheduler(1, 0.1, stop_factor_lr=0.05, base_lr=1), [1, 1, 0.1, 0.05, 0.05]),
        (lr_scheduler.MultiFactorScheduler([2, 4], 0.1, base_lr=1), [1, 1, 1, 0.1, 0.1, 0.01]),
        (lr_scheduler.PolyScheduler(5, base_lr=1), [1, 0.64, 0.36, 0.16, 0.04, 0, 0]),
        (lr_scheduler.PolyScheduler(4, base_lr=1, pwr=1, final_lr=0.2), [1, 0.8, 0.6, 0.4, 0.2]),
        (lr_scheduler.CosineScheduler(5, base_lr=1), [(1 + math.cos(math.pi * t / 5)) / 2 for t in range(6)]),
        (lr_scheduler.FactorScheduler(2, 0.5, base_lr=1, warmup_steps=4, warmup_begin_lr=0.2), [0.2, 0.4, 0.6, 0.8, 0.5]),
        (lr_scheduler.CosineScheduler(6, base_lr=1, warmup_steps=2, warmup_begin_lr=0.5, warmup_mode="constant"), [0.5, 0.5, 1, 0.853553, 0.5]),
    ],
)  # fmt: skip
def test_schedules(scheduler, expected):
    np.testing.assert_allclose(rates(scheduler, len(expected)), expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: lr_scheduler.FactorScheduler(0), ValueError, "Schedule step must be greater or equal than 1 round"),
        (lambda: lr_scheduler.FactorScheduler(1, 2), ValueError, "Factor must be no more than 1 to make lr reduce"),
        (lambda: lr_scheduler.MultiFactorScheduler([3, 2]), ValueError, "Schedule step must be an increasing integer list"),
        (lambda: lr_scheduler.MultiFactorScheduler([0]), ValueError, "Schedule step must be greater or equal than 1 round"),
        (lambda: lr_scheduler.PolyScheduler(0), ValueError, "maximum number of updates must be strictly positive"),
        (lambda: lr_scheduler.LRScheduler(warmup_begin_lr=1), ValueError, "Base lr has to be higher than warmup_begin_lr"),
        (lambda: lr_scheduler.LRScheduler(warmup_steps=-1), ValueError, "Warmup steps has to be positive or 0"),
        (lambda: lr_scheduler.LRScheduler(warmup_mode="x"), ValueError, "Supports only linear and constant modes of warmup"),
        (lambda: lr_scheduler.LRScheduler()(0), NotImplementedError, "must override this"),
        (lambda: optimizer.create("foo"), ValueError, "Cannot find optimizer foo"),
        (lambda: optimizer.create("sgd", lr_scheduler=lr_scheduler.PolyScheduler(3)).set_learning_rate(1), UserWarning, "LRScheduler of the optimizer has already been defined"),
        (lambda: optimizer.SGD(param_idx2name=[1]), AssertionError, "param_idx2name should be a dict of param indexes to names."),
        (lambda: optimizer.SGD().set_lr_scale({}), DeprecationWarning, ""),
        (lambda: optimizer.GroupAdaGrad().create_state(0, nd.ones((3,))), AssertionError, ""),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text or None):
        call()


def test_learning_rate_of_the_optimizer_overrules_that_of_the_schedule():
    schedule = lr_scheduler.FactorScheduler(10, base_lr=1)
    with pytest.warns(UserWarning, match="overwritten by ``learning_rate``"):
        o = optimizer.create("sgd", learning_rate=0.5, lr_scheduler=schedule)
    assert o.learning_rate == 0.5


def test_multipliers_by_name_index_symbol_and_parameter():
    names = {0: "a_weight", 1: "a_bias", 2: "b_gamma"}
    o = optimizer.SGD(learning_rate=1, wd=0.5, param_idx2name=names)
    assert o._get_wds([0, 1, 2]) == [0.5, 0, 0.5]
    o.set_lr_mult({"a_bias": 2.0, 2: 3.0})
    assert o._get_lrs([0, 1, 2, 7]) == [1, 2, 3, 1]
    o.set_wd_mult({"a_bias": 1.0})
    assert o._get_wds([0, 1, 2]) == [0.5, 0.5, 0.5]
    a = mx.sym.var("a_weight", lr_mult=4.0, wd_mult=0.25)
    o = optimizer.SGD(learning_rate=1, wd=1, param_idx2name=names, sym=a * mx.sym.var("a_bias"))
    assert (o._get_lr(0), o._get_wd(0), o._get_wd(1)) == (4.0, 0.25, 0.0)
    p = mx.gluon.Parameter("p", shape=(1,), lr_mult=5, wd_mult=0.5)
    o = optimizer.SGD(learning_rate=1, wd=1, param_dict={0: p})
    assert (o._get_lr(0), o._get_wd(0)) == (5, 0.5)
    p.lr_mult = 7
    assert o._get_lr(0) == 7


def test_lars_decays_weights_only():
    assert optimizer.LARS(wd=1, param_idx2name={0: "a_weight", 1: "a_gamma"})._get_wds([0, 1]) == [1, 0]


def test_schedule_counts_updates_of_each_weight():
    o = optimizer.create("sgd", lr_scheduler=lr_scheduler.FactorScheduler(1, 0.5, base_lr=1))
    u = optimizer.get_updater(o)
    ws = [nd.zeros((1,)) for _ in range(2)]
    for _ in range(3):
        u([0, 1], [nd.ones((1,))] * 2, ws)
    assert o.num_update == 3
    np.testing.assert_allclose([w.asscalar() for w in ws], [-1.75, -1.75])


def test_half_precision_without_a_copy_warns():
    with pytest.warns(UserWarning, match="Accumulating with float16 in optimizer can lead to poor accuracy"):
        optimizer.Adam().create_state_multi_precision(0, nd.ones((2,), dtype="float16"))


def trained(updater, steps, seed=0):
    draw = np.random.RandomState(seed)
    w = [nd.array([1.0, 2.0]), nd.array([3.0])]
    for _ in range(steps):
        updater([0, 1], [nd.array(draw.normal(size=x.shape)) for x in w], w)
    return [x.asnumpy() for x in w]


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop", "nadam", "lamb"])
@pytest.mark.parametrize("whole", [False, True])
def test_states_survive_bytes(name, whole):
    arguments = {"momentum": 0.9} if name == "sgd" else {}
    first, second = (optimizer.get_updater(optimizer.create(name, **arguments)) for _ in range(2))
    trained(first, 3)
    second.set_states(first.get_states(dump_optimizer=whole))
    if not whole:
        second.optimizer = pickle.loads(pickle.dumps(first.optimizer))
    for ours, theirs in zip(trained(second, 2, seed=1), trained(first, 2, seed=1), strict=True):
        np.testing.assert_array_equal(ours, theirs)


#: Updater.get_states of MXNet 1.9.1: Adam, one weight [1, 2], one step along [0.5, -1]
MXNET_STATES = (
    "gASVVgIAAAAAAAB9lEsAjBVteG5ldC5uZGFycmF5Lm5kYXJyYXmUjAdOREFycmF5lJOUToWUUpR9lIwGaGFuZGxllIwIYnVpbHRpbnOUjAlieXRl"
    "YXJyYXmUk5RDKMn6k/kAAAAAAQAAAAIAAAAAAAAAAQAAAAAAAAAAAAAA0MxMPdDMzL2UhZRSlHNiaANoBFKUfZRoB2gKQyjJ+pP5AAAAAAEAAAAC"
    "AAAAAAAAAAEAAAAAAAAAAAAAAAASgzkAEoM6lIWUUpRzYoaUc4wZbXhuZXQub3B0aW1pemVyLm9wdGltaXplcpSMBEFkYW2Uk5QpgZR9lCiMDHJl"
    "c2NhbGVfZ3JhZJRHP/AAAAAAAACMDGxyX3NjaGVkdWxlcpROjAJscpRHP9AAAAAAAACMAndklEcAAAAAAAAAAIwHbHJfbXVsdJR9lIwHd2RfbXVs"
    "dJR9lIwQYmVnaW5fbnVtX3VwZGF0ZZRLAIwKbnVtX3VwZGF0ZZRLAYwYX2FsbF9pbmRleF91cGRhdGVfY291bnRzlH2USwB9lEsASwFzc4wTX2lu"
    "ZGV4X3VwZGF0ZV9jb3VudJRoJYwNY2xpcF9ncmFkaWVudJROjA9tdWx0aV9wcmVjaXNpb26UiYwNYWdncmVnYXRlX251bZRLAIwIaWR4Mm5hbWWU"
    "fZSMCHN5bV9pbmZvlCmMDmFsbG93X25wX2FycmF5lImMBWJldGExlEc/7MzMzMzMzYwFYmV0YTKURz/v987ZFocrjAdlcHNpbG9ulEc+RXmO4jCM"
    "OowLbGF6eV91cGRhdGWUiHVihpQu"
)


def test_states_of_mxnet():
    updater = optimizer.get_updater(optimizer.create("adam"))
    updater.set_states(base64.b64decode(MXNET_STATES))
    mean, square = updater.states[0]
    np.testing.assert_allclose(mean.asnumpy(), [0.05, -0.1], rtol=1e-6)
    np.testing.assert_allclose(square.asnumpy(), [0.00025, 0.001], rtol=1e-4)
    assert type(updater.optimizer) is optimizer.Adam and updater.optimizer.lr == 0.25
    w = nd.array([1.0, 2.0])
    updater(0, nd.array([0.5, -1.0]), w)
    np.testing.assert_allclose(w.asnumpy(), [0.75, 2.25], rtol=1e-4)
    assert updater.optimizer.num_update == 2


def test_own_optimizers_are_registered():
    @optimizer.register
    class Drop(optimizer.Optimizer):
        def update(self, index, weight, grad, state):
            weight[:] = 0

    updater = optimizer.get_updater(optimizer.create("DROP"))
    w = nd.ones((2,))
    updater(0, w, w)
    assert not w.asnumpy().any()
    with pytest.warns(UserWarning, match="is overriding existing optimizer"):
        optimizer.register(Drop)


def test_sgld_adds_noise_of_the_rate():
    mx.random.seed(1)
    o = optimizer.SGLD(learning_rate=0.25)
    w = nd.zeros((100, 100))
    o.update(0, w, nd.ones((100, 100)) * 2, None)
    np.testing.assert_allclose([w.asnumpy().mean(), w.asnumpy().std()], [-0.25, 0.5], atol=0.02)


def test_aggregation_size_from_the_environment(monkeypatch):
    monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (optimizer.SGD().aggregate_num, optimizer.LAMB().aggregate_num) == (2, 2)

# SPDX-License-Identifier: Apache-2.0
"""mx.mod and what mx.rnn adds to it. Numbers and wordings were recorded from MXNet 1.9.1."""

from __future__ import annotations

import logging
import warnings
from collections import namedtuple

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym
from hybridgpu.base import MXNetError

Batch = mx.io.DataBatch
TWO = [mx.cpu(0), mx.cpu(1)]


def classifier(hidden=2, norm=True):
    x = sym.FullyConnected(sym.var("data"), num_hidden=hidden, name="fc")
    if norm:
        x = sym.BatchNorm(x, name="bn", fix_gamma=False)
    return sym.SoftmaxOutput(x, name="softmax")


def values(*dicts):
    return {k: v.asnumpy() for d in dicts for k, v in d.items()}


def bound(symbol=None, data=(4, 2), label=(4,), init=True, **options):
    how = {k: options.pop(k) for k in ("for_training", "inputs_need_grad", "grad_req") if k in options}
    module = mx.mod.Module(classifier() if symbol is None else symbol, **options)
    module.bind([("data", data)], [("softmax_label", label)] if label else None, **how)
    if init:
        module.init_params()
    return module


# -- training gives MXNet's numbers

FITS = {
    "momentum": (
        {}, "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01},
        {
            "fc_weight": [[1.2111, -0.1611], [0.8115, -0.7796]], "fc_bias": [0, 0], "bn_gamma": [0.1938, 0.0435],
            "bn_beta": [0.0983, -0.0983], "bn_moving_mean": [1.4936, -0.5165], "bn_moving_var": [2.045, 1.6768],
        },
        [0.5655, 0.4345], 0.7065750,
    ),
    "adam on two devices": (  # no fc_bias: its gradient is 0 before a normalisation, and Adam makes rounding large
        {"context": TWO}, "adam", {"learning_rate": 0.1},
        {
            "fc_weight": [[1.5773, -0.2139], [0.471, -0.8114]], "bn_gamma": [0.1797, 0.2886],
            "bn_beta": [0.1076, -0.1076], "bn_moving_var": [2.1660, 1.3915],
        },
        None, 0.7403,
    ),
    "a fixed weight": (
        {"fixed_param_names": ["fc_weight"]}, "sgd", {"learning_rate": 0.1},
        {
            "fc_weight": [[1, 0.5], [0.2, -1]], "bn_gamma": [0.7278, 0.6818], "bn_beta": [0.0346, -0.0346],
            "bn_moving_mean": [1.7021, -0.9078],
        },
        [0.8747, 0.1253], 1.0998049,
    ),
    "two devices with different loads": (
        {"context": TWO, "work_load_list": [1, 2]}, "sgd", {"learning_rate": 0.1},
        {
            "fc_weight": [[1.0629, 0.3519], [0.2967, -0.9769]], "bn_gamma": [0.6932, 0.6529],
            "bn_beta": [0.0336, -0.0336], "bn_moving_mean": [1.5678, -0.8830], "bn_moving_var": [1.6308, 1.3724],
        },
        [0.8523, 0.1477], 1.0522872,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("kvstore", ["local", "device", "none", "an object"])
def test_fit(name, kvstore, monkeypatch):
    options, optimizer, parameters, expected, last, entropy = FITS[name]
    if kvstore == "none" and "context" in options:
        pytest.skip("two devices need a store")
    kvstore = {"none": None, "an object": mx.kv.create("local")}.get(kvstore, kvstore)
    module = mx.mod.Module(classifier(), **options)
    data = mx.io.NDArrayIter(np.arange(24).reshape(12, 2) % 5, np.arange(12) % 2, 5)
    module.fit(
        data,
        num_epoch=3,
        kvstore=kvstore,
        optimizer=optimizer,
        optimizer_params=parameters,
        initializer=None,
        arg_params={
            "fc_weight": nd.array([[1, 0.5], [0.2, -1]]),
            "fc_bias": nd.zeros(2),
            "bn_gamma": nd.ones(2),
            "bn_beta": nd.zeros(2),
        },
        aux_params={"bn_moving_mean": nd.zeros(2), "bn_moving_var": nd.ones(2)},
    )
    found = values(*module.get_params())
    assert set(found) == {"fc_weight", "fc_bias", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"}
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=6e-5, err_msg=key)
    predicted = module.predict(data).asnumpy()
    assert predicted.shape == (12, 2)
    if last is not None:
        np.testing.assert_allclose(predicted[-1], last, atol=6e-5)
    scores = dict(module.score(data, ["acc", "ce"]))
    assert scores["accuracy"] == pytest.approx(0.4) and scores["cross-entropy"] == pytest.approx(entropy, abs=2e-4)


@pytest.mark.parametrize("on_store", ["0", "1"])
def test_devices_together_are_one(on_store, monkeypatch):
    """Without batch statistics, slices of a batch add up to the batch."""
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", on_store)
    rng = np.random.default_rng(0)
    weights = {"fc_weight": nd.array(rng.normal(size=(3, 2))), "fc_bias": nd.zeros(3)}
    data = mx.io.NDArrayIter(rng.normal(size=(14, 2)), rng.integers(0, 3, 14), 7)
    found = []
    for context in (mx.cpu(), TWO, [mx.cpu(k) for k in range(3)]):
        module = mx.mod.Module(classifier(3, norm=False), context=context)
        data.reset()
        module.fit(data, num_epoch=2, arg_params=weights, optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
        assert (module._kvstore is None) == (context == mx.cpu()) and module._update_on_kvstore == (
            on_store == "1" and context != mx.cpu()
        )
        found.append(values(module.get_params()[0]))
    for other in found[1:]:
        for key in other:
            np.testing.assert_allclose(other[key], found[0][key], rtol=1e-5, atol=1e-6)


def test_callbacks_of_fit(caplog):
    caplog.set_level(logging.INFO)
    seen = []
    data = mx.io.NDArrayIter(np.arange(20).reshape(10, 2), np.arange(10) % 2, 4)
    mx.mod.Module(classifier()).fit(
        data,
        eval_data=data,
        eval_metric=["acc", "ce"],
        num_epoch=2,
        begin_epoch=1,
        epoch_end_callback=lambda epoch, symbol, arg, aux: seen.append(("epoch", epoch, len(arg), len(aux))),
        batch_end_callback=[lambda p: seen.append(("batch", p.epoch, p.nbatch, type(p.locals["self"]).__name__))],
        eval_end_callback=lambda p: seen.append(("eval", p.epoch, p.nbatch)),
        eval_batch_end_callback=lambda p: seen.append(("eval batch", p.epoch, p.nbatch)),
    )
    assert seen == [
        *[("batch", 1, k, "Module") for k in range(3)],
        ("epoch", 1, 4, 2),
        *[("eval batch", 1, k) for k in range(3)],
        ("eval", 1, 3),
    ]
    heads = [r.getMessage().partition("=")[0] for r in caplog.records]
    assert heads == ["Epoch[1] Train-accuracy", "Epoch[1] Train-cross-entropy", "Epoch[1] Time cost"] + [
        "Epoch[1] Validation-accuracy",
        "Epoch[1] Validation-cross-entropy",
    ]


def test_metrics_of_an_epoch_are_all_of_it(caplog):
    """A callback that starts the metric anew does not change what is logged."""
    caplog.set_level(logging.INFO)
    data = mx.io.NDArrayIter(np.arange(20).reshape(10, 2), np.arange(10) % 2, 5)
    module = mx.mod.Module(classifier())
    module.fit(
        data,
        num_epoch=1,
        optimizer_params={"learning_rate": 0},
        batch_end_callback=lambda p: p.eval_metric.reset_local(),
    )
    (logged,) = [r.getMessage() for r in caplog.records if "Train-accuracy" in r.getMessage()]
    assert logged.partition("=")[2] != "nan"


def test_fit_needs_a_number_of_epochs():
    with pytest.raises(AssertionError, match="please specify number of epochs"):
        mx.mod.Module(classifier()).fit(mx.io.NDArrayIter(np.ones((4, 2)), np.ones(4), 2))


# -- predictions


def test_predictions():
    module = bound(classifier(norm=False))
    data = mx.io.NDArrayIter(np.arange(20).reshape(10, 2), np.arange(10) % 2, 4)
    whole = module.predict(data)
    assert whole.shape == (10, 2) and module.predict(data, num_batch=1).shape == (4, 2)
    assert [len(x) for x in module.predict(data, merge_batches=False)] == [1, 1, 1]
    assert type(module.predict(data, always_output_list=True)) is list
    parts = [(o[0].copy(), n, b.pad) for o, n, b in module.iter_predict(data)]
    assert [(o.shape, n, pad) for o, n, pad in parts] == [((4, 2), 0, 0), ((4, 2), 1, 0), ((2, 2), 2, 2)]
    found = [np.concatenate([o.asnumpy() for o, _, _ in parts]), module.predict(np.arange(8).reshape(4, 2)).asnumpy()]
    for rows in found:  # an executor's first calls are interpreted, later ones compiled: the last bit may differ
        np.testing.assert_allclose(rows, whole.asnumpy()[: len(rows)], rtol=1e-6)
    assert len(module.score(data, "acc", num_batch=1)) == 1
    with pytest.raises(ValueError, match="eval_data must be of type NDArray or DataIter"):
        module.predict(3)


@pytest.mark.parametrize("for_training", [True, False])
def test_an_array_is_predicted_in_the_mode_it_was_bound_for(for_training):
    """As in MXNet: it goes through ``forward`` as it is, and so is normalised by its own statistics in training."""
    x = np.arange(8).reshape(4, 2)
    module = bound(for_training=for_training, init=False)
    module.init_params(arg_params={"fc_weight": nd.array([[1, 0], [0, -2]])}, allow_missing=True)
    by_iterator = module.predict(mx.io.NDArrayIter(x, np.zeros(4), 4)).asnumpy()
    assert np.allclose(module.predict(x).asnumpy(), by_iterator, atol=1e-4) == (not for_training)


def test_other_batches_than_lists_of_arrays():
    only_data = namedtuple("only_data", ["data"])
    module = mx.mod.Module(sym.var("data") * 2, label_names=None)
    module.bind([("data", (1, 10))])
    module.init_params()
    for shape in ((1, 10), (3, 5)):
        module.forward(only_data([nd.ones(shape)]))
        assert module.get_outputs()[0].asnumpy().tolist() == np.full(shape, 2.0).tolist()


# -- several devices

SPLITS = [
    (5, [1, 1], [(0, 2), (2, 5)]),
    (8, [1, 3], [(0, 2), (2, 8)]),
    (7, [1, 1, 1], [(0, 2), (2, 4), (4, 7)]),
    (3, [1], [(0, 3)]),
]


@pytest.mark.parametrize(("size", "load", "expected"), SPLITS)
def test_slices(size, load, expected):
    module = bound(
        data=(size, 2), label=(size,), context=[mx.cpu(k) for k in range(len(load))], work_load_list=load,
        inputs_need_grad=True,
    )  # fmt: skip
    assert [(s.start, s.stop) for s in module._exec_group.slices] == expected
    x = nd.array(np.arange(2 * size).reshape(size, 2))
    module.forward_backward(Batch([x], [nd.zeros(size)]))
    assert [[p.shape[0] for p in parts] for parts in module.get_outputs(False)] == [[b - a for a, b in expected]]
    assert module.output_shapes == [("softmax_output", (size, 2))]
    assert module.get_outputs()[0].shape == (size, 2) and module.get_input_grads()[0].shape == (size, 2)


def test_too_many_devices():
    with pytest.raises(ValueError, match="Too many slices. Some splits are empty."):
        bound(data=(1, 2), label=(1,), context=TWO)


def test_the_batch_is_along_the_axis_called_n():
    x = sym.Activation(data=sym.var("data"), act_type="relu", __layout__="TNC")
    module = mx.mod.Module(x, label_names=None, context=TWO)
    module.bind([mx.io.DataDesc("data", (3, 8, 7), np.float16, layout="TNC")])
    module.init_params()
    data = nd.array(np.arange(168).reshape(3, 8, 7), dtype="float16")
    module.forward(Batch([data]))
    assert [p.shape for p in module.get_outputs(merge_multi_context=False)[0]] == [(3, 4, 7)] * 2
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), data.asnumpy())
    module.backward([nd.ones((3, 8, 7), dtype="float16")])
    assert module.get_outputs()[0].dtype is np.float16


def test_a_batch_for_each_device():
    module = bound(context=TWO)
    halves = [Batch([nd.ones((2, 2)) * k], [nd.ones(2) * k]) for k in range(2)]
    whole = Batch([nd.concat(*[b.data[0] for b in halves], dim=0)], [nd.array([0, 0, 1, 1])])
    results = []
    for batch in (halves, whole):
        module.forward(batch, is_train=False)
        metric = mx.metric.create("ce")
        if batch is halves:
            module.update_metric(metric, [b.label for b in batch], pre_sliced=True)
        else:
            module.update_metric(metric, batch.label)
        results.append((module.get_outputs()[0].asnumpy().tolist(), metric.get()[1]))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [[0, 0], [1, 1]]),
        ({"u": mx.cpu(2), "v": mx.cpu(3)}, [[2, 3], [2, 3]]),
        ({"u": [mx.cpu(2)], "v": [mx.cpu(3), mx.cpu(4)]}, [[2, 3], [2, 4]]),
        ([{"u": mx.cpu(2), "v": mx.cpu(3)}, {"u": mx.cpu(4), "v": mx.cpu(5)}], [[2, 3], [4, 5]]),
    ],
)
def test_devices_of_groups(given, expected):
    with mx.AttrScope(ctx_group="u"):
        a = sym.var("a") * 2
    with mx.AttrScope(ctx_group="v"):
        total = a + sym.var("b")
    module = mx.mod.Module(total, ["a", "b"], None, context=TWO, group2ctxs=given)
    module.bind([("a", (4, 5)), ("b", (4, 5))], inputs_need_grad=True)
    module.init_params()
    module.forward(Batch([nd.ones((4, 5))] * 2))
    module.backward([nd.ones((4, 5))])
    parts = list(zip(*module.get_input_grads(merge_multi_context=False), strict=True))
    assert [[g.context.device_id for g in part] for part in parts] == expected
    assert [np.unique(g.asnumpy()).tolist() for g in module.get_input_grads()] == [[2], [1]]


@pytest.mark.parametrize(
    ("given", "message"),
    [([{}], "a dict for each of the 2 contexts"), ({"u": [mx.cpu()] * 3}, "group 'u'"), ("u", "a list of dicts or")],
)
def test_devices_of_groups_that_do_not_fit(given, message):
    with pytest.raises(ValueError, match=message):
        bound(context=TWO, group2ctxs=given)


# -- gradients


def test_gradients_of_inputs():
    a, b, c = (sym.var(n, __layout__="NC") for n in "abc")
    module = mx.mod.Module(a + 2 * b + 3 * c, data_names=["b", "c", "a"], label_names=None, context=TWO)
    module.bind([(n, (5, 5)) for n in "bca"], inputs_need_grad=True)
    module.init_params()
    module.forward(Batch([nd.ones((5, 5))] * 3))
    module.backward([nd.ones((5, 5))])
    assert [np.unique(g.asnumpy()).tolist() for g in module.get_input_grads()] == [[2], [3], [1]]


@pytest.mark.parametrize(
    ("grad_req", "expected"),
    [("write", 3), ("add", 6), ({"w": "add"}, 6), (["null", "add"], 6), (["null", "null"], None)],
)
def test_what_is_done_with_gradients(grad_req, expected):
    weight = sym.var("w", shape=(1,), init=mx.init.One())
    module = mx.mod.Module(sym.make_loss(sym.broadcast_mul(sym.var("data"), weight)), label_names=None)
    module.bind([("data", (3,))], grad_req=grad_req)
    module.init_params()
    for _ in range(2):
        module.forward_backward(Batch([nd.ones(3)]))
    (found,) = module._exec_group.grad_arrays[0]
    assert (found if found is None else found.asscalar()) == expected


# -- other shapes


def test_reshape():
    x = sym.FullyConnected(sym.var("data"), num_hidden=20, name="fc")
    module = mx.mod.Module(x, label_names=None, context=TWO)
    module.bind([("data", (7, 20))])
    module.init_params()
    module.init_optimizer(optimizer_params={"learning_rate": 1})
    for size, bias in ((7, -1), (14, -3), (7, -4)):
        module.reshape([("data", (size, 20))])
        module.forward(Batch([nd.ones((size, 20))]))
        module.backward([nd.ones((size, 20))])
        module.update()
        assert module.get_outputs()[0].shape == (size, 20)
        assert np.unique(module.get_params()[0]["fc_bias"].asnumpy()).tolist() == [bias]


def test_batches_of_other_sizes_reshape_and_come_back():
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0})
    first = module._exec_group.execs
    outputs = {}
    for size in (4, 3, 8, 4, 3, 8):
        x = nd.array(np.arange(2 * size).reshape(size, 2) % 3)
        module.forward(Batch([x], [nd.zeros(size)]), is_train=False)
        found = module.get_outputs()[0].asnumpy()
        np.testing.assert_array_equal(outputs.setdefault(size, found), found)
        assert module.data_shapes == [("data", (size, 2))] and module.label_shapes == [("softmax_label", (size,))]
    assert len(module._exec_group._by_shapes) == 3
    for size in range(5, 40):  # what is kept is bounded
        module.forward(Batch([nd.ones((size, 2))], [nd.zeros(size)]), is_train=False)
    assert len(module._exec_group._by_shapes) <= 16 and first in module._exec_group._by_shapes.values()


# -- parameters


def test_a_variable_whose_name_says_nothing_needs_its_own_initializer():
    module = mx.mod.Module(sym.broadcast_mul(sym.var("data"), sym.var("w", shape=(1,))), label_names=None)
    module.bind([("data", (3,))])
    with pytest.raises(ValueError, match="Unknown initialization pattern for w"):
        module.init_params(mx.init.One())


def test_parameters():
    module = bound(init=False)
    with pytest.raises(AssertionError, match="call init_params first"):
        module.get_params()
    with pytest.raises(RuntimeError, match="bn_beta is not presented"):
        module.init_params(arg_params={"fc_weight": nd.ones((2, 2))})
    module.init_params(arg_params={"fc_weight": nd.ones((2, 2)), "other": nd.ones(3)}, allow_missing=True)
    arguments, states = module.get_params()
    assert sorted(arguments) == ["bn_beta", "bn_gamma", "fc_bias", "fc_weight"]
    assert sorted(states) == ["bn_moving_mean", "bn_moving_var"]
    assert arguments["fc_weight"].asnumpy().tolist() == [[1, 1], [1, 1]]
    one, other = {"fc_weight": nd.zeros((2, 2))}, {"other": nd.ones(3)}
    with pytest.raises(RuntimeError, match="bn_beta is not presented"):
        module.set_params(one, {})
    with pytest.raises(ValueError, match='Find name "other" that is not in the arguments'):
        module.set_params({**one, **other}, {}, allow_missing=True)
    module.set_params({**one, **other}, {}, allow_missing=True, allow_extra=True)
    assert not module.get_params()[0]["fc_weight"].asnumpy().any()
    for call in ("init_params", "set_params"):
        arguments = {"arg_params": {}, "aux_params": {}, "force_init": False, "allow_missing": True}
        with pytest.warns(UserWarning, match=f"already initialized and force_init=False. {call} call ignored."):
            getattr(module, call)(**arguments)


def test_initialisers_of_variables():
    x = sym.FullyConnected(sym.var("data"), sym.var("w", init=mx.init.Constant(3)), num_hidden=2, name="fc")
    module = mx.mod.Module(x, label_names=None)
    module.bind([("data", (1, 2))])
    module.init_params(mx.init.One())
    assert {k: np.unique(v).tolist() for k, v in values(module.get_params()[0]).items()} == {"w": [3], "fc_bias": [0]}


def test_states():
    cell = mx.rnn.LSTMCell(4, prefix="l_")
    begin = cell.begin_state(func=sym.var)
    _, states = cell.unroll(3, begin_state=begin, inputs=sym.var("data"))
    module = mx.mod.Module(sym.Group(states), context=TWO, label_names=None, state_names=[s.name for s in begin])
    module.bind([("data", (5, 3, 2))], for_training=False)
    module.init_params(mx.init.One())
    module.set_states(value=1)
    assert [[x.shape for x in s] for s in module.get_states(False)] == [[(2, 4), (3, 4)]] * 2
    batch = Batch([nd.zeros((5, 3, 2))])
    module.forward(batch)
    first = [x.asnumpy() for x in module.get_outputs()]
    module.set_states(states=module.get_outputs(merge_multi_context=False))
    module.forward(batch)
    assert not np.allclose(first[0], module.get_outputs()[0].asnumpy())
    with pytest.raises(AssertionError, match="merge_multi_context=True is not supported for get_states yet."):
        module.get_states()


# -- files


@pytest.mark.parametrize("context", [mx.cpu(), TWO], ids=["one", "two"])
def test_checkpoints(context, tmp_path):
    prefix = str(tmp_path / "net")
    module = bound(context=context)
    options = {"optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}}
    module.init_optimizer(**options)
    batch = Batch([nd.array(np.arange(8).reshape(4, 2))], [nd.array([0, 1, 0, 1])])
    module.forward_backward(batch)
    module.update()
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0003.params", "net-0003.states", "net-symbol.json"]
    again = mx.mod.Module.load(prefix, 3, load_optimizer_states=True, context=context)
    again.bind(module.data_shapes, module.label_shapes)
    again.init_optimizer(**options)
    assert again.symbol.tojson() == module.symbol.tojson()
    for m in (module, again):
        m.forward_backward(batch)
        m.update()
    expected, found = values(*module.get_params()), values(*again.get_params())
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-6, atol=1e-7, err_msg=key)
    other = bound(context=context)
    other.load_params(f"{prefix}-0003.params")
    assert values(*other.get_params()).keys() == found.keys()
    nd.save(str(tmp_path / "bad"), {"q:x": nd.ones(1)})
    with pytest.raises(ValueError, match="Invalid param file"):
        other.load_params(str(tmp_path / "bad"))


# -- wrong use

NAMES = (
    "\033\\[91mYou created Module with Module\\(..., {}_names=\\['q'\\]\\) but input with name 'q' is not found in "
    + ("symbol.list_arguments\\(\\). Did you mean one of:\n\tdata\n\tsoftmax_label")
)


@pytest.mark.parametrize("kind", ["data", "fixed_param", "state"])
def test_unknown_names(kind):
    with pytest.raises(ValueError, match=NAMES.format(kind)):
        mx.mod.Module(classifier(), **{f"{kind}_names": ["q"]})


def test_unknown_labels_are_warned_of():
    with pytest.warns(UserWarning, match=NAMES.format("label")):
        mx.mod.Module(classifier(), label_names=["q"])


BINDS = [
    ([("x", (4, 2))], None, ValueError, "Data provided by data_shapes don't match names specified by data_names"),
    ([("data", nd.ones(2))], None, TypeError, "shape of 'data' must be a tuple of integers"),
    ([("data", (4, 2))], [("softmax_label", (5,))], AssertionError, "all data must have the same batch size: batch_size = 4"),
    ([("data", (4,))], [("softmax_label", (4, 3, 3))], RuntimeError, "simple_bind error"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "label", "error", "text"), BINDS, ids=range(len(BINDS)))
def test_shapes_that_do_not_fit(data, label, error, text):
    module = mx.mod.Module(classifier())
    with warnings.catch_warnings(), pytest.raises(error, match=text):
        warnings.filterwarnings("ignore", "Data provided by label_shapes")
        module.bind(data, label)
    assert not module.binded


def test_the_order_of_calls(caplog):
    module = mx.mod.Module(classifier())
    for call in (lambda: module.data_shapes, module.init_params, module.update, lambda: module.forward(None)):
        with pytest.raises(AssertionError):
            call()
    module = bound(init=False)
    with pytest.raises(AssertionError, match="bind and init_params"):
        module.init_optimizer()
    module.init_params()
    with pytest.raises(AssertionError, match="init_optimizer"):
        module.update()
    with pytest.raises(AssertionError, match="inputs_need_grad=True"):
        module.get_input_grads()
    module.bind([("data", (9, 2))])
    module.init_optimizer()
    module.init_optimizer()
    assert [r.getMessage() for r in caplog.records] == [
        "Already bound, ignoring bind()",
        "optimizer already initialized, ignoring...",
    ]
    predicting = bound(for_training=False)
    predicting.forward(Batch([nd.ones((4, 2))]))
    with pytest.raises(AssertionError, match="re-bind with for_training=True to run backward"):
        predicting.backward()


def test_an_optimizer_with_another_scale():
    module = bound()
    with pytest.warns(UserWarning, match=r"not normalized to 1.0/batch_size/num_workers \(1.0 vs. 0.25\)"):
        module.init_optimizer(optimizer=mx.optimizer.SGD())
    assert module._optimizer.idx2name == dict(enumerate(["fc_weight", "fc_bias", "bn_gamma", "bn_beta"]))


def test_rebinding_keeps_parameters():
    module = bound()
    before = values(*module.get_params())
    module.bind([("data", (2, 2))], [("softmax_label", (2,))], for_training=False, force_rebind=True)
    module.forward(Batch([nd.ones((2, 2))]))
    after = values(*module.get_params())
    for key in before:
        np.testing.assert_array_equal(before[key], after[key])


def test_a_monitor_sees_other_shapes_too():
    module = bound()
    seen = mx.mon.Monitor(1, pattern=".*output|fc_weight")
    module.install_monitor(seen)
    for size in (4, 2):
        seen.tic()
        module.forward(Batch([nd.ones((size, 2))], [nd.ones(size)]), is_train=False)
        names = {name for _, name, _ in seen.toc()}
        assert {"fc_output", "bn_output", "softmax_output", "fc_weight"} <= names


# -- executors that share arrays


def test_shared_arguments_of_executors():
    x = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    buffer = {}
    names = ["fc_weight", "fc_bias"]
    first = x.simple_bind(mx.cpu(), shared_arg_names=names, shared_buffer=buffer, data=(4, 3))
    assert list(buffer) == ["data"]
    second = x.simple_bind(mx.cpu(), shared_arg_names=names, shared_exec=first, shared_buffer=buffer, data=(2, 3))
    for name in names:
        assert second.arg_dict[name] is first.arg_dict[name] and second.grad_dict[name] is first.grad_dict[name]
    second.arg_dict["data"][:] = 7
    assert (first.arg_dict["data"].asnumpy() == 7).sum() == 6
    third = x.simple_bind(mx.cpu(), shared_arg_names=["fc_bias"], shared_exec=first, data=(2, 3))
    assert third.arg_dict["fc_weight"] is not first.arg_dict["fc_weight"]
    with pytest.raises(MXNetError, match="shape of the shared argument fc_weight"):
        x.simple_bind(mx.cpu(), shared_arg_names=names, shared_exec=first, data=(2, 9))

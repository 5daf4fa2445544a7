# SPDX-License-Identifier: Apache-2.0
"""mx.model.FeedForward. Numbers and the order of calls were recorded from MXNet 1.9.1."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym

pytestmark = pytest.mark.filterwarnings("ignore:FeedForward is deprecated")
_random = np.random.RandomState(7)
X = _random.normal(size=(10, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float32)
ARGUMENTS = {
    "fc_weight": _random.normal(size=(3, 4)), "fc_bias": np.zeros(3), "bn_gamma": np.ones(3), "bn_beta": np.zeros(3),
    "out_weight": _random.normal(size=(2, 3)), "out_bias": np.zeros(2),
}  # fmt: skip
STATES = {"bn_moving_mean": np.zeros(3), "bn_moving_var": np.ones(3)}


def net():
    x = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    x = sym.Activation(sym.BatchNorm(x, name="bn", fix_gamma=False), act_type="tanh")
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=2, name="out"), name="softmax")


def model(symbol=None, batch=4, **options):
    given = {"arg_params": ARGUMENTS, "aux_params": STATES}
    arrays = {which: {k: nd.array(v) for k, v in values.items()} for which, values in given.items()}
    return mx.model.FeedForward(net() if symbol is None else symbol, numpy_batch_size=batch, **arrays | options)


def batches(rows=10, batch=4):
    return mx.io.NDArrayIter(X[:rows], Y[:rows], batch)


#: name -> options, batch size, metric, calls of callbacks, weights and means afterwards, predictions, score.
#: Calls: b(atch) and (end of an) e(poch), with the metric or the sum of a weight; v(alidation), vb for its batches
FITS = {
    "with an evaluation": (
        {"num_epoch": 3, "learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}, 4, "acc",
        [
            ("b", 0, 1, 0.75), ("b", 0, 2, 0.5), ("b", 0, 3, 0.5833), ("e", 0, 1.3329),
            ("vb", 0, 0), ("vb", 0, 1), ("v", 0, 2, 0.5),
            ("b", 1, 1, 0.75), ("b", 1, 2, 0.75), ("b", 1, 3, 0.6667), ("e", 1, 0.9656),
            ("vb", 1, 0), ("vb", 1, 1), ("v", 1, 2, 0.75),
            ("b", 2, 1, 1.0), ("b", 2, 2, 1.0), ("b", 2, 3, 0.8333), ("e", 2, 0.5814),
            ("vb", 2, 0), ("vb", 2, 1), ("v", 2, 2, 1.0),
        ],
        [[0.2797, -0.0243, -0.4342], [-0.4806, -1.1172, 0.7907]], [0.326, -0.9621, -0.3063],
        [0.0785, 0.732, 0.209, 0.4295], 0.9167,
    ),
    "on two devices": (
        {"num_epoch": 2, "learning_rate": 0.05, "ctx": [mx.cpu(0), mx.cpu(1)]}, 4, "acc",
        [
            ("b", 0, 1, 0.25), ("b", 0, 2, 0.25), ("b", 0, 3, 0.25), ("e", 0, 1.6034),
            ("b", 1, 1, 0.25), ("b", 1, 2, 0.25), ("b", 1, 3, 0.25), ("e", 1, 1.6255),
        ],
        [[0.1013, 0.1442, -0.1594], [-0.3094, -1.3266, 0.5286]], [0.2297, -0.7723, -0.2048],
        [0.3575, 0.2979, 0.2938, 0.2886], 0.5,
    ),
    "epochs that end within the data": (
        {"num_epoch": 3, "epoch_size": 2, "learning_rate": 0.1}, 4, "acc",
        [
            ("b", 0, 1, 0.75), ("b", 0, 2, 0.5), ("e", 0, 1.4635), ("b", 1, 1, 0.75), ("b", 1, 2, 0.75), ("e", 1, 1.3368),
            ("b", 2, 1, 0.5), ("b", 2, 2, 0.625), ("e", 2, 1.3414),
        ],
        [[0.1309, 0.1778, -0.1854], [-0.3389, -1.3601, 0.5547]], [0.2333, -0.7689, -0.2054],
        [0.2584, 0.3238, 0.2659, 0.2811], 0.5,
    ),
    "epochs that begin the data again": (
        {"num_epoch": 2, "epoch_size": 5, "begin_epoch": 1, "learning_rate": 0.1}, 4, "ce",
        [
            ("b", 1, 1, 0.7058), ("b", 1, 2, 0.7927), ("b", 1, 3, 0.7721), ("b", 1, 4, 0.7329), ("b", 1, 5, 0.7401),
            ("e", 1, 1.3632),
        ],
        [[0.1297, 0.1811, -0.1831], [-0.3378, -1.3635, 0.5524]], [0.2609, -0.7355, -0.1516],
        [0.2484, 0.3167, 0.2669, 0.2809], 0.7044,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_fits(name):
    options, batch, metric, calls, weight, mean, predictions, score = FITS[name]
    found, made = [], model(batch=batch, **options)

    def at(kind, *value):
        return lambda p: found.append((kind, p.epoch, p.nbatch, *[f(p.eval_metric) for f in value]))

    def value(measured):
        return round(float(measured.get()[1]), 4)

    made.fit(
        batches(batch=batch),
        eval_data=batches(8) if any(call[0] == "v" for call in calls) else None,
        eval_metric=metric,
        batch_end_callback=at("b", value),
        epoch_end_callback=lambda e, s, a, x: found.append(("e", e, round(float(a["fc_weight"].sum().asscalar()), 4))),
        eval_batch_end_callback=at("vb"),
        eval_end_callback=at("v", value),
    )
    assert [call[:3] if call[0] != "e" else call[:2] for call in found] == [
        call[:3] if call[0] != "e" else call[:2] for call in calls
    ]
    np.testing.assert_allclose([c[-1] for c in found], [c[-1] for c in calls], atol=2e-4)
    np.testing.assert_allclose(made.arg_params["out_weight"].asnumpy(), weight, atol=2e-4)
    np.testing.assert_allclose(made.aux_params["bn_moving_mean"].asnumpy(), mean, atol=2e-4)
    found = made.predict(X)
    assert isinstance(found, np.ndarray) and found.shape == (10, 2)
    np.testing.assert_allclose(found[:4, 0], predictions, atol=2e-4)
    assert made.score(batches(), metric) == pytest.approx(score, abs=2e-4)


def test_lines_of_a_fit(caplog):
    caplog.set_level("INFO")
    model(num_epoch=1, ctx=[mx.cpu(0), mx.cpu(1)]).fit(batches())
    lines = [re.sub(r"[\d.]+$", "0", r.getMessage()) for r in caplog.records]
    assert lines == [
        "Start training with [cpu(0), cpu(1)]",
        "Epoch[0] Resetting Data Iterator",
        "Epoch[0] Time cost=0",
    ]


def test_predictions_of_some_batches():
    made, data = model(), batches()
    outputs, inputs, labels = made.predict(data, return_data=True)
    np.testing.assert_allclose(outputs[:5, 0], [0.1887, 0.2539, 0.2799, 0.2672, 0.1894], atol=1e-4)
    np.testing.assert_array_equal(inputs, X)
    np.testing.assert_array_equal(labels, Y)
    np.testing.assert_array_equal(made.predict(data, num_batch=1), outputs[:4])
    np.testing.assert_array_equal(made.predict(data, num_batch=1, reset=False), outputs[4:8])
    assert isinstance(made.predict(X[:4], num_batch=1), np.ndarray)


def test_a_net_of_several_outputs_gives_a_list():
    symbol = net()
    made = model(sym.Group([symbol, symbol.get_internals()["fc_output"]]))
    first, second = made.predict(nd.array(X))
    assert first.shape == (10, 2)
    np.testing.assert_allclose(second, X @ ARGUMENTS["fc_weight"].T, rtol=1e-5)


def test_predictions_are_those_of_the_last_fit():
    made = model(num_epoch=1, learning_rate=0.1)
    before = made.predict(X)
    made.fit(X, Y.reshape(10, 1), eval_data=(X.tolist(), Y.tolist()))
    assert abs(made.predict(X) - before).max() > 1e-3


def test_created_saved_loaded_and_pickled(tmp_path):
    made = mx.model.FeedForward.create(net(), X, Y, num_epoch=2, learning_rate=0.1, numpy_batch_size=5)
    expected, prefix = made.predict(X), str(tmp_path / "net")
    made.save(prefix)
    loaded = mx.model.FeedForward.load(prefix, 2, mx.cpu(), num_epoch=3)
    assert (loaded.begin_epoch, loaded.num_epoch) == (2, 3)
    for other in (loaded, pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(other.predict(X), expected)


def test_a_function_that_makes_nets_by_bucket():
    class Buckets(mx.io.NDArrayIter):
        default_bucket_key = 7

        def next(self):
            batch = super().next()
            batch.bucket_key, batch.provide_data, batch.provide_label = 7, self.provide_data, self.provide_label
            return batch

    keys, made = [], model(num_epoch=2, epoch_size=2, learning_rate=0.1)
    plain = model(num_epoch=2, epoch_size=2, learning_rate=0.1)
    made.sym_gen, made.symbol = lambda key: (keys.append(key), net())[1], None
    made.fit(Buckets(X, Y, 4))
    plain.fit(batches())
    assert set(keys) == {7}
    np.testing.assert_array_equal(made.predict(X), plain.predict(X))


def test_parameters_of_other_names():
    extra = {k: nd.array(v) for k, v in {**ARGUMENTS, "other": np.ones(2)}.items()}
    assert "other" not in model(arg_params=extra, allow_extra_params=True).arg_params
    assert "other" in model(arg_params=extra).arg_params


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (lambda m: m.fit(X), ValueError, "y must be specified when X is numpy.ndarray"),
        (lambda m: m.fit(X, list(Y)), TypeError, "y must be ndarray when X is numpy.ndarray"),
        (lambda m: m.fit(X, Y[:3]), ValueError, "The numbers of data points and labels not equal"),
        (lambda m: m.fit(X, X), ValueError, "Label must be 1D or 2D"),
        (lambda m: m.fit(X.tolist(), Y), TypeError, "X must be DataIter, NDArray or numpy.ndarray"),
        (lambda m: m.fit(X, Y, eval_data=X), TypeError, "Eval data must be DataIter, or NDArray"),
        (lambda m: m.fit(X, Y, eval_data=(None, Y)), ValueError, "Eval data is NONE"),
        (lambda m: model().fit(X, Y), AssertionError, "please specify number of epochs"),
        (lambda m: model().save("net"), AssertionError, "please specify the epoch"),
        (lambda m: model(symbol=3), AssertionError, "symbol must be a Symbol"),
        (lambda m: model(sym.var("a") + sym.var("a")), ValueError, "Find duplicated name 'a' among the arguments"),
        (lambda m: mx.model.FeedForward(net()).predict(X), AssertionError, "train the net first"),
    ],
)
def test_what_is_refused(wrong, kind, text):
    with pytest.raises(kind, match=text):
        wrong(model(num_epoch=1))


def test_it_is_deprecated():
    with pytest.warns(DeprecationWarning, match=r"write mx\.mod\.Module"):
        model()
    assert "FeedForward" in dir(mx.model) and not hasattr(mx.model, "Nope")

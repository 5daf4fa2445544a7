# SPDX-License-Identifier: Apache-2.0
"""Initializers: what they fill, for which names, and how they are called and printed."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, init, nd


def filled(initializer, name="a_weight", shape=(2, 3), attrs=None):
    array = nd.full(shape, -9.0)
    init.create(initializer)(init.InitDesc(name, attrs), array)
    return array.asnumpy()


@pytest.mark.parametrize(
    ("name", "value"),
    [("a_weight", 5), ("a_bias", 0), ("a_gamma", 1), ("a_beta", 0), ("a_min", 0), ("a_max", 1)],
)
def test_end_of_name_decides(name, value):
    assert (filled(init.Constant(5), name) == value).all()


@pytest.mark.parametrize("name", ["a_foo", "a_running_mean", "moving_var"])
def test_names_that_say_nothing(name):
    with pytest.raises(ValueError, match=f"Unknown initialization pattern for {name}"):
        filled(init.One(), name)


def test_own_initializer_comes_first():
    assert (filled(init.One(), "a_bias", attrs={"__init__": init.Constant(3)}) == 3).all()
    assert (filled(init.One(), "a_foo", attrs={"__init__": "zeros"}) == 0).all()
    assert (filled(init.One(), "a_foo", attrs={"__init__": '["constant", {"value": 2}]'}) == 2).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("a_weight", 7), ("moving_mean", 0), ("moving_var", 1), ("moving_inv_var", 0), ("a_moving_avg", 0), ("stn_loc_weight", 0)],
)  # fmt: skip
def test_plain_names_are_deprecated(name, value):
    array = nd.full((2,), -9.0)
    with pytest.warns(DeprecationWarning, match="has been deprecated"):
        init.Constant(7)(name, array)
    assert (array.asnumpy() == value).all()


def test_plain_names_of_transformer_networks():
    array = nd.zeros((6,))
    with pytest.warns(DeprecationWarning):
        init.One()("stn_loc_bias", array)
    np.testing.assert_array_equal(array.asnumpy(), [1, 0, 0, 0, 1, 0])


@pytest.mark.parametrize(
    ("initializer", "shape", "low", "high", "std"),
    [
        (init.Uniform(), (200, 100), -0.07, 0.07, 0.07 / 3**0.5),
        (init.Uniform(2), (200, 100), -2, 2, 2 / 3**0.5),
        (init.Normal(0.3), (200, 100), -2, 2, 0.3),
        (init.Xavier(), (60, 40, 3, 3), -((3 / 450) ** 0.5), (3 / 450) ** 0.5, (1 / 450) ** 0.5),
        (init.Xavier("gaussian", "in", 2), (60, 40, 3, 3), -1, 1, (2 / 360) ** 0.5),
        (init.Xavier("uniform", "out", 6), (60, 40, 3, 3), -((6 / 540) ** 0.5), (6 / 540) ** 0.5, (2 / 540) ** 0.5),
        (init.MSRAPrelu(), (100, 50), -1, 1, (2 / (1 + 0.25**2) / 75) ** 0.5),
        (init.MSRAPrelu("in", 0), (100, 50), -2, 2, (2 / 50) ** 0.5),
    ],
    ids=repr,
)
def test_random_ones(initializer, shape, low, high, std):
    mx.random.seed(3)
    x = filled(initializer, shape=shape)
    assert low <= x.min() < x.max() <= high
    assert abs(x.mean()) < 4 * std / x.size**0.5
    np.testing.assert_allclose(x.std(), std, rtol=0.05)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 2)])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_orthogonal(shape, kind):
    x = filled(init.Orthogonal(2, kind), shape=shape).reshape(shape[0], -1)
    product = x @ x.T if shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-4)


def test_bilinear():
    row = np.array([1, 3, 3, 1]) / 4
    np.testing.assert_allclose(filled(init.Bilinear(), shape=(2, 3, 4, 4))[1, 2], np.outer(row, row))
    np.testing.assert_allclose(
        filled(init.Bilinear(), shape=(1, 1, 3, 5))[0, 0], np.outer([1, 2, 3], [1, 2, 3, 2, 1]) / 9, rtol=1e-6
    )


def test_lstm_bias():
    np.testing.assert_array_equal(
        filled(init.LSTMBias(2.0), "l0_bias", (8,), {"__init__": init.LSTMBias(2.0)}), [0, 0, 2, 2, 0, 0, 0, 0]
    )


class ByName(init.Initializer):
    """A number that depends on the name."""

    def _init_weight(self, name, arr):
        arr[:] = sum(map(ord, name)) % 97

    def _init_bias(self, name, arr):
        arr[:] = -(sum(map(ord, name)) % 89)


# recorded with MXNet 1.9.1: projections on cos(0, 1, 2 …)
@pytest.mark.parametrize(
    ("mode", "layers", "bidirectional", "size", "projection"),
    [
        ("lstm", 2, True, 432, -63.43278312474595),
        ("gru", 1, False, 63, 37.24084319948151),
        ("rnn_relu", 2, False, 45, 142.42654450032305),
        ("lstm", 1, False, 84, 144.8985951734448),
    ],
)
def test_fused_rnn(mode, layers, bidirectional, size, projection):
    for own, given in ((ByName(), None), (None, ByName())):
        array = nd.zeros((size,))
        init.FusedRNN(own, 3, layers, mode, bidirectional, 1.5)(init.InitDesc("x_weight", global_init=given), array)
        np.testing.assert_allclose(array.asnumpy() @ np.cos(np.arange(size)), projection, rtol=1e-9)


def test_mixed_and_load_choose(caplog):
    mixed = init.Mixed([".*_weight", ".*"], [init.One(), "zeros"])
    assert filled(mixed, "a_weight").all() and not filled(mixed, "a_bias").any()
    with pytest.raises(ValueError, match="Parameter name b did not match any pattern"):
        filled(init.Mixed(["a"], [init.One()]), "b")
    load = init.Load({"arg:a_weight": nd.full((2, 3), 4.0)}, default_init=init.One(), verbose=True)
    with caplog.at_level(logging.INFO):
        assert (filled(load) == 4).all() and (filled(load, "b_weight") == 1).all()
    assert caplog.messages == ["Initialized a_weight by loading", "Initialized b_weight by default"]
    with pytest.raises(AssertionError, match="Shape mismatch"):
        filled(load, shape=(1, 3))
    with pytest.raises(AssertionError, match="Cannot Initialize b. Not found in loaded param"):
        filled(init.Load({}), "b")


def test_mixed_and_load_for_blocks():
    """MXNet refuses these two for Gluon's parameters; here they choose for those without an initializer of their own."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(2, in_units=3), gluon.nn.Dense(2, in_units=2, bias_initializer="ones"))
    net.initialize(init.Mixed([".*"], [init.Constant(3)]))
    assert (net[0].weight.data().asnumpy() == 3).all() and (net[1].bias.data().asnumpy() == 1).all()
    net.initialize(init.Load({net[0].weight.name: nd.full((2, 3), 8.0)}, default_init=init.One()), force_reinit=True)
    assert (net[0].weight.data().asnumpy() == 8).all() and (net[1].weight.data().asnumpy() == 1).all()


@pytest.mark.parametrize(
    ("initializer", "text"),
    [
        (init.Xavier(), '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]'),
        (init.MSRAPrelu(), '["msraprelu", {"factor_type": "avg", "slope": 0.25}]'),
        (init.Constant(3), '["constant", {"value": 3}]'),
        (init.Constant(np.array([1.0, 2.0])), '["constant", {"value": [1.0, 2.0]}]'),
        (init.Zero(), '["zero", {}]'),
        (init.FusedRNN(init.One(), 3, 2, "lstm", True), '["fusedrnn", {"init": "[\\"one\\", {}]", "num_hidden": 3, "num_layers": 2, "mode": "lstm", "bidirectional": true, "forget_bias": 1.0}]'),
    ],
    ids=lambda v: v.split('"')[1] if isinstance(v, str) else "",
)  # fmt: skip
def test_dumps_and_back(initializer, text):
    assert initializer.dumps() == text
    assert type(init.create(text)) is type(initializer)
    assert init.create(text).dumps() == text
    json.loads(text)


@pytest.mark.parametrize("name", ["zeros", "zero", "ones", "one", "uniform", "normal", "xavier", "msraprelu", "orthogonal", "lstmbias", "bilinear", "Xavier"])  # fmt: skip
def test_by_name(name):
    assert isinstance(init.create(name), init.Initializer)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: init.create("foo"), AssertionError, "foo is not registered. Please register with initializer.register first"),
        (lambda: init.create(3), AssertionError, "initializer must be of string type"),
        (lambda: init.create("constant"), TypeError, "value"),
        (lambda: filled(init.Xavier(), shape=(3,)), ValueError, "Xavier initializer cannot be applied to vector a_weight. It requires at least 2D."),
        (lambda: filled(init.Xavier("foo")), ValueError, "Unknown random type"),
        (lambda: filled(init.Xavier(factor_type="foo")), ValueError, "Incorrect factor type"),
        (lambda: filled(init.Initializer()), NotImplementedError, "Must override it"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_verbose(caplog):
    net = gluon.nn.Dense(2, in_units=3)
    with caplog.at_level(logging.INFO):
        net.initialize(init.One(), verbose=True)
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith(f"Initialized {net.weight.name} as ") and caplog.messages[0].endswith(": 1.0")


def test_own_initializers_are_registered():
    @init.register
    class Sevens(init.Initializer):
        def _init_weight(self, name, arr):
            arr[:] = 7

    assert (filled("sevens") == 7).all()
    assert init.Uniform(2) == init.Uniform(2) != init.Uniform(3)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_bounds_are_arguments_of_what_draws_weights(kind, dtype):
    """Else each layer's would be compiled for it. Numbers are those of a traced graph, of which bounds are constants."""
    for bounds, shape in (((-0.1, 0.3), (307, 101)), ((-1.7, 2.1), (61, 31, 3, 5)), ((0.2, 0.25), (50, 4003))):
        mx.random.seed(7)
        before = len(mx.compile_report().events)
        drawn = getattr(nd.random, kind)(*bounds, shape=shape, dtype=dtype)
        found = [e.signature for e in mx.compile_report().events[before:]]
        short = {"float32": "f32", "float64": "f64"}[dtype]
        assert found and all(s == f"{short}[], {short}[]" for s in found)
        net = gluon.nn.HybridLambda(
            lambda F, x: F.broadcast_add(x, getattr(F.random, kind)(*bounds, shape=shape, dtype=dtype))  # noqa: B023
        )
        net.hybridize()
        mx.random.seed(7)
        whole = net(nd.zeros((1,) * len(shape), dtype=dtype))
        np.testing.assert_array_equal(whole.asnumpy(), drawn.asnumpy())

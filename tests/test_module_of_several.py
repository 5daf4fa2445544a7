# SPDX-License-Identifier: Apache-2.0
"""Modules made of several: buckets of lengths, modules in a row, modules in Python. Numbers and wordings were recorded
from MXNet 1.9.1."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym
from hybridgpu.base import MXNetError

Batch = mx.io.DataBatch


def values(*dicts):
    return {k: v.asnumpy() for d in dicts for k, v in d.items()}


# -- buckets


def by_length(key):
    x = sym.sum(sym.var("data"), axis=1, keepdims=True)
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=3), name="softmax"), ("data",), ("softmax_label",)


def bucket_batch(key, size=2):
    return Batch(
        [nd.ones((size, key))], [nd.ones(size)], bucket_key=key,
        provide_data=[("data", (size, key))], provide_label=[("softmax_label", (size,))],
    )  # fmt: skip


def bucketing(**options):
    module = mx.mod.BucketingModule(by_length, default_bucket_key=5, **options)
    module.bind([("data", (2, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.Zero())
    return module


def test_buckets_share_parameters_and_optimizer():
    module = bucketing()
    module.init_optimizer(optimizer_params={"learning_rate": 0.3, "momentum": 0.5})
    weight, bias, momentum = np.zeros((3, 1)), np.zeros(3), [np.zeros((3, 1)), np.zeros(3)]
    for key in (5, 3, 7, 3):
        module.prepare(bucket_batch(key))
        module.forward_backward(bucket_batch(key))
        module.update()
        scores = np.exp(weight[:, 0] * key + bias)
        gradient = scores / scores.sum() - np.eye(3)[1]  # of two equal samples, halved
        for k, g in enumerate((gradient[:, None] * key, gradient)):
            momentum[k] = 0.5 * momentum[k] - 0.3 * g
        weight, bias = weight + momentum[0], bias + momentum[1]
        found = values(module.get_params()[0])
        np.testing.assert_allclose(found["fullyconnected0_weight"], weight, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["fullyconnected0_bias"], bias, rtol=1e-5, atol=1e-6)
    assert sorted(module._buckets) == [3, 5, 7]
    arrays = {id(m._exec_group.execs[0].arg_dict["fullyconnected0_bias"]._data) for m in module._buckets.values()}
    assert len(arrays) == 1
    buffers = {
        m._exec_group.shared_data_arrays[0]["softmax_label"]._data.__array_interface__["data"]
        for m in module._buckets.values()
    }
    assert len(buffers) == 1


def test_files_of_buckets(tmp_path):
    module = bucketing()
    module.switch_bucket(3, [("data", (2, 3))], [("softmax_label", (2,))])
    prefix = str(tmp_path / "b")
    module.save_checkpoint(prefix, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "b-0002.params", "b-3-symbol.json", "b-5-symbol.json", "b.buckets",
    ]  # fmt: skip
    assert nd.load(f"{prefix}.buckets")[0].asnumpy().tolist() == [5, 3]
    again = mx.mod.BucketingModule.load(prefix, 2, sym_gen=by_length, default_bucket_key=5)
    again.bind([("data", (2, 5))], [("softmax_label", (2,))])
    again.save_checkpoint(str(tmp_path / "c"), 3)  # before a batch of the other bucket came
    assert sorted(p.name for p in tmp_path.glob("c*")) == [
        "c-0003.params", "c-3-symbol.json", "c-5-symbol.json", "c.buckets",
    ]  # fmt: skip
    assert nd.load(str(tmp_path / "c.buckets"))[0].asnumpy().tolist() == [5, 3]
    for m in (module, again):
        m.forward(bucket_batch(3), is_train=False)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), again.get_outputs()[0].asnumpy())
    arguments, states = module.get_params()
    third = mx.mod.BucketingModule.load_dict(None, by_length, 5, arguments, states)
    third.bind([("data", (2, 5))], [("softmax_label", (2,))])
    assert third.get_params()[0].keys() == arguments.keys()
    with pytest.raises(AssertionError, match="sym_gen is required"):
        mx.mod.BucketingModule.load(prefix, 2)


def test_buckets_with_different_parameters():
    def generate(key):
        return sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"), ("data",), None

    module = mx.mod.BucketingModule(generate, 5)
    module.bind([("data", (2, 5))])
    module.init_params()
    with pytest.raises(
        MXNetError, match=r"shape of the shared argument fc_weight is \(2, 5\), but this graph needs \(2, 3\)"
    ):
        module.switch_bucket(3, [("data", (2, 3))])
    with pytest.raises(AssertionError, match="default_bucket_key"):
        mx.mod.BucketingModule(generate)


SENTENCES = [[1, 2], [3, 4, 5], [6], [7, 8, 9, 1], [2, 3], [4, 5], [1] * 9, [1, 2, 3]]
BATCHES = [
    (2, [[2, 3], [4, 5]], [[3, 0], [5, 0]]),
    (3, [[3, 4, 5], [1, 2, 3]], [[4, 5, 0], [2, 3, 0]]),
    (2, [[6, 0], [1, 2]], [[0, 0], [2, 0]]),
]


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_sentences_in_buckets(layout, caplog):
    random.seed(0)
    np.random.seed(0)
    source = mx.rnn.BucketSentenceIter(SENTENCES, 2, buckets=[5, 2, 3], invalid_label=0, layout=layout)
    assert "discarded 1 sentences longer than the largest bucket." in caplog.text
    assert source.buckets == [2, 3, 5] and source.default_bucket_key == 5
    shapes = [("data", (2, 5) if layout == "NT" else (5, 2))]
    assert source.provide_data == shapes and source.provide_data[0].layout == layout
    found = [(b.bucket_key, b.data[0].asnumpy(), b.label[0].asnumpy()) for b in source]
    turn = np.transpose if layout == "TN" else np.asarray
    assert [(k, turn(x).tolist(), turn(y).tolist()) for k, x, y in found] == BATCHES
    source.reset()
    assert len(list(source)) == 3


def test_sentences_that_fill_no_batch():
    assert mx.rnn.BucketSentenceIter(SENTENCES, 2).buckets == [2, 3]
    with pytest.raises(ValueError, match="no length has 20 sentences"):
        mx.rnn.BucketSentenceIter(SENTENCES, 20)
    with pytest.raises(ValueError, match="Invalid layout XX"):
        mx.rnn.BucketSentenceIter(SENTENCES, 2, layout="XX")


def test_a_language_model_learns():
    """Sentences count upwards: the next token is known."""
    random.seed(1)
    np.random.seed(1)
    mx.random.seed(1)
    sentences = [[k % 5 + 1 for k in range(first, first + 3 + first % 2 * 2)] for first in range(40)]
    data = mx.rnn.BucketSentenceIter(sentences, 8, buckets=[3, 5], invalid_label=0)
    cell = mx.rnn.GRUCell(8, prefix="g_")

    def generate(length):
        embedded = sym.Embedding(sym.var("data"), input_dim=6, output_dim=4, name="embed")
        cell.reset()
        outputs, _ = cell.unroll(length, inputs=embedded, merge_outputs=True)
        x = sym.FullyConnected(sym.reshape(outputs, shape=(-1, 8)), num_hidden=6, name="out")
        label = sym.reshape(sym.var("softmax_label"), shape=(-1,))
        return sym.SoftmaxOutput(x, label, name="softmax"), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(generate, default_bucket_key=data.default_bucket_key)
    metric = mx.metric.Perplexity(ignore_label=0)
    module.fit(
        data, eval_metric=metric, num_epoch=12, optimizer="adam", optimizer_params={"learning_rate": 0.05},
        initializer=mx.init.Xavier(),
    )  # fmt: skip
    assert module.score(data, metric)[0][1] < 1.5


def test_checkpoints_of_cells(tmp_path):
    cell = mx.rnn.LSTMCell(2, prefix="l_")
    outputs, _ = cell.unroll(2, inputs=sym.var("data"), merge_outputs=True)
    shapes = {"l_i2h_weight": (8, 3), "l_i2h_bias": (8,), "l_h2h_weight": (8, 2), "l_h2h_bias": (8,)}
    arguments = {k: nd.array(np.random.default_rng(0).normal(size=s)) for k, s in shapes.items()}
    prefix = str(tmp_path / "r")
    mx.rnn.do_rnn_checkpoint(cell, prefix, period=2)(1, outputs, arguments, {})
    mx.rnn.do_rnn_checkpoint(cell, prefix, period=2)(2, outputs, arguments, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r-0002.params", "r-symbol.json"]
    expected = {f"arg:l_{a}2h_{g}_{p}" for a in "ih" for g in "ifco" for p in ("weight", "bias")}
    assert set(nd.load(f"{prefix}-0002.params")) == expected
    _, found, states = mx.rnn.load_rnn_checkpoint([cell], prefix, 2)
    assert not states and found.keys() == arguments.keys()
    for key in arguments:
        np.testing.assert_array_equal(found[key].asnumpy(), arguments[key].asnumpy())


# -- modules in a row, modules in Python


def test_modules_in_a_row():
    first = mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=4, name="a"), label_names=None)
    x = sym.SoftmaxOutput(sym.FullyConnected(sym.var("x"), num_hidden=2, name="b"), name="softmax")
    second = mx.mod.Module(x, data_names=["x"])
    row = mx.mod.SequentialModule().add(first).add(second, take_labels=True, auto_wiring=True)
    data = mx.io.NDArrayIter(np.eye(6, 2), np.array([0, 1, 0, 0, 1, 1]), 2)
    row.fit(data, num_epoch=2, initializer=mx.init.One())
    assert (row.data_names, row.output_names) == (["data"], ["softmax_output"])
    assert row.output_shapes == [("softmax_output", (2, 2))] and row.label_shapes == [("softmax_label", (2,))]
    found = values(row.get_params()[0])
    assert sorted(found) == ["a_bias", "a_weight", "b_bias", "b_weight"]
    np.testing.assert_allclose(found["b_bias"], [-4.9627386e-05, 4.962599e-05], rtol=1e-3)
    assert len(row.score(data, "acc")) == 1 and row.predict(data).shape == (6, 2)
    whole = sym.SoftmaxOutput(
        sym.FullyConnected(sym.FullyConnected(sym.var("data"), num_hidden=4, name="a"), num_hidden=2, name="b"),
        name="softmax",
    )
    one = mx.mod.Module(whole)
    data.reset()
    one.fit(data, num_epoch=2, initializer=mx.init.One())
    for key, value in values(one.get_params()[0]).items():
        np.testing.assert_allclose(found[key], value, rtol=1e-6, atol=1e-7)
    with pytest.raises(AssertionError, match='Unknown meta "foo", a typo?'):
        row.add(first, foo=1)
    with pytest.raises(AssertionError, match="Attempting to bind an empty SequentialModule"):
        mx.mod.SequentialModule().bind([("data", (1, 2))])


def test_a_loss_in_python():
    first = mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=2, name="a"), label_names=None)
    loss = mx.mod.PythonLossModule(data_names=["a_output"], grad_func=lambda x, label: x.asnumpy() - 1)
    row = mx.mod.SequentialModule().add(first).add(loss, take_labels=True, auto_wiring=True)
    data = mx.io.NDArrayIter(np.eye(6, 2), np.array([0, 1, 0, 0, 1, 1]), 2)
    row.bind(data.provide_data, data.provide_label)
    row.init_params(mx.init.One())
    row.init_optimizer()
    for batch in data:
        row.forward_backward(batch)
        row.update()
    assert row.output_names == ["pyloss_output"]
    np.testing.assert_allclose(values(row.get_params()[0])["a_bias"], [0.0199, 0.0199], rtol=1e-4)

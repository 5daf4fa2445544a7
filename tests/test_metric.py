# SPDX-License-Identifier: Apache-2.0
"""Metrics beside what MXNet 1.9.1 gave (``recorded/``)."""

from __future__ import annotations

import numpy as np
import pytest
from against_mxnet.recorded import metrics
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx
from hybridgpu import metric, nd

RECORDED = recorded("metrics")


@pytest.mark.parametrize("name", metrics.CASES)
def test_values(name):
    ours = metrics.measure(mx, name)
    for key, theirs in RECORDED[name].items():
        assert same(ours[key], theirs, 1e-5, 1e-6), key


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: metric.create("zz"), AssertionError, "zz is not registered. Please register with metric.register first"),
        (lambda: metric.create(3), AssertionError, "metric must be of string type"),
        (lambda: metric.create(metric.Accuracy(), 1), AssertionError, "metric is already an instance. Additional arguments are invalid"),
        (lambda: metric.create("top_k_accuracy"), AssertionError, "Please use Accuracy if top_k is no more than 1"),
        (lambda: metric.create("acc").update([nd.ones((2,))], [nd.ones((2, 2))] * 2), ValueError, "Shape of labels 1 does not match shape of predictions 2"),
        (lambda: metric.create("acc").update([nd.ones((2,))], [nd.ones((3, 2))]), ValueError, "Shape of labels 2 does not match shape of predictions 3"),
        (lambda: metric.create("f1").update([nd.array([0, 1, 2])], [nd.ones((3, 2))]), ValueError, "currently only supports binary classification."),
        (lambda: metric.np(lambda a, b: 0).get_config(), NotImplementedError, "CustomMetric cannot be serialized"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_functions_as_metrics():
    labels, preds = [nd.array([1, 2])], [nd.array([3, 5])]
    m = metric.np(lambda label, pred: float((pred - label).sum()))
    m.update(labels, preds)
    assert m.get() == ("custom(<lambda>)", 5.0)
    pair = metric.create(lambda label, pred: (6.0, 4))
    pair.update(labels, preds)
    assert pair.get()[1] == 1.5
    assert metric.CompositeEvalMetric(["acc"]).get_metric(3).args == ("Metric index 3 is out of range 0 and 1",)


@pytest.mark.parametrize(
    "name", ["acc", "f1", "mcc", "pcc", "ce", "nll_loss", "perplexity", "top_k_accuracy", "mae", "mse", "rmse", "loss", "pearsonr"]
)  # fmt: skip
def test_values_are_numbers_of_python(name):
    """NumPy 2 would print, and log, a NumPy scalar with its type."""
    options = {"top_k_accuracy": {"top_k": 2}, "perplexity": {"ignore_label": None}}.get(name, {})
    values = [{"average": "micro"}, {}] if name == "pearsonr" else [options]
    for how in values:
        m = metric.create(name, **how)
        regression = name in ("mae", "mse", "rmse", "pearsonr")
        labels = nd.array([[0.1, 0.7], [0.5, 0.5], [1, 0]] if regression else [0, 1, 1])
        m.update([labels], [nd.array([[0.3, 0.7], [0.2, 0.8], [0.6, 0.4]])])
        assert type(m.get()[1]) is type(m.get_global()[1]) is float
        assert str(m) == f"EvalMetric: {{'{m.name}': {m.get()[1]}}}"


def test_names_and_configurations():
    m = metric.create("acc")
    assert str(m) == "EvalMetric: {'accuracy': nan}"
    assert metric.create(m) is m
    assert metric.create({"metric": "acc", "axis": 0}).axis == 0
    assert metric.create('["acc", {"axis": 2}]').axis == 2
    copy = metric.create(metric.TopKAccuracy(top_k=3, name="top").get_config())
    assert (copy.top_k, copy.name) == (3, "top_3_3")


def test_update_dict_chooses_by_name():
    labels, outputs = {"l": nd.array([0, 1])}, {"o": nd.array([[1, 0], [1, 0]]), "other": nd.zeros((5, 5))}
    m = metric.Accuracy(output_names=["o"], label_names=["l"])
    m.update_dict(labels, outputs)
    assert m.get()[1] == 0.5
    many = metric.CompositeEvalMetric(["acc"], output_names=["o"])
    many.update_dict(labels, outputs)
    assert many.get() == (["accuracy"], [0.5])


def test_own_metrics_are_registered():
    @metric.register
    @metric.alias("spread")
    class PeakToPeak(metric.EvalMetric):
        def update(self, labels, preds):
            self.sum_metric += float(np.ptp(preds[0].asnumpy()))
            self.num_inst += 1

    m = metric.create("spread", name="ptp")
    m.update(None, [nd.array([1, 4])])
    assert m.get() == ("ptp", 3.0) == m.get_global()
    assert type(metric.create("peaktopeak", name="x")) is PeakToPeak

# SPDX-License-Identifier: Apache-2.0
"""Metrics: after two batches, after reset_local, and after one more."""

import numpy as np
from against_mxnet.recorded.record import array, draw


def _distributions(seed, n, classes):
    p = draw((n, classes), seed, 0.05, 1)
    return p / p.sum(1, keepdims=True)


SCORES, LABELS = _distributions(0, 6, 3), np.array([0, 1, 2, 1, 0, 2], "float32")
TWO, BINARY = _distributions(1, 6, 2), np.array([0, 1, 1, 1, 0, 0], "float32")
P, Y = draw((5, 2), 2), draw((5, 2), 3)
BATCHES = [(LABELS, SCORES), (LABELS, SCORES[::-1].copy())]
BINARY_BATCHES = [(BINARY, TWO), (BINARY, TWO[::-1].copy())]
VALUES = [(Y, P), (Y, 2 * P + Y)]

#: name -> (registered name, arguments, batches)
CASES = {
    "accuracy": ("acc", {}, BATCHES),
    "accuracy axis 0": ("acc", {"axis": 0}, [(np.array([0, 1, 2], "float32"), SCORES)]),
    "accuracy of classes": ("acc", {"name": "z"}, [(LABELS, BINARY)]),
    "top 2": ("top_k_accuracy", {"top_k": 2}, BATCHES),
    "f1": ("f1", {}, BINARY_BATCHES),
    "f1 micro": ("f1", {"average": "micro"}, BINARY_BATCHES),
    "mcc": ("mcc", {}, BINARY_BATCHES),
    "mcc micro": ("mcc", {"average": "micro"}, BINARY_BATCHES),
    "pcc": ("pcc", {}, BATCHES),
    "pcc binary": ("pcc", {}, BINARY_BATCHES),
    "perplexity": ("perplexity", {"ignore_label": None}, BATCHES),
    "perplexity ignore": ("perplexity", {"ignore_label": 1}, BATCHES),
    "mae": ("mae", {}, VALUES),
    "mae 1d": ("mae", {}, [(Y[:, 0], P[:, 0])]),
    "mse": ("mse", {}, VALUES),
    "mse columns": ("mse", {}, [(Y[:, 0], P[:, :1])]),
    "rmse": ("rmse", {}, VALUES),
    "cross entropy": ("ce", {}, BATCHES),
    "negative log likelihood": ("nll_loss", {}, BATCHES),
    "correlation": ("pearsonr", {}, VALUES),
    "correlation micro": ("pearsonr", {"average": "micro"}, VALUES),
    "loss": ("loss", {}, [(None, P), (None, Y)]),
    "torch": ("torch", {}, [(None, P)]),
    "caffe": ("caffe", {}, [(None, P)]),
    "composite": ("composite", {"metrics": ["acc", "ce"]}, BATCHES),
    "list": (["acc", "mse"], {}, [(SCORES, SCORES)]),
}


def _floats(value):
    return [float(v) for v in value] if isinstance(value, list) else float(value)


def measure(mx, name):
    kind, arguments, batches = CASES[name]
    metric = mx.metric.create(kind, **arguments)

    def update(label, pred):
        metric.update([None if label is None else array(mx, label)], [array(mx, pred)])

    found = {"before": repr(metric.get())}
    for batch in batches:
        update(*batch)
    found["name"] = metric.get()[0]
    found["value"], found["global"] = _floats(metric.get()[1]), _floats(metric.get_global()[1])
    metric.reset_local()
    found["after reset_local"] = repr(metric.get())
    found["global after reset_local"] = _floats(metric.get_global()[1])
    update(*batches[0])
    found["value again"], found["global again"] = _floats(metric.get()[1]), _floats(metric.get_global()[1])
    found["config"] = repr(sorted(metric.get_config().items(), key=str))
    metric.reset()
    found["after reset"] = repr(metric.get_global())
    return found

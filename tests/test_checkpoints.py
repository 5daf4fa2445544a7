# SPDX-License-Identifier: Apache-2.0
"""mx.model, mx.callback and mx.monitor."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym
from hybridgpu.model import BatchEndParam


def test_checkpoint_and_back(tmp_path):
    out = sym.BatchNorm(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), name="bn")
    arguments = {
        "fc_weight": nd.ones((3, 2)),
        "fc_bias": nd.zeros((3,)),
        "bn_gamma": nd.ones((3,)),
        "bn_beta": nd.zeros((3,)),
    }
    states = {"bn_moving_mean": nd.zeros((3,)), "bn_moving_var": nd.ones((3,))}
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 7, out, arguments, states)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0007.params", "net-symbol.json"]
    loaded, arg, aux = mx.model.load_checkpoint(prefix, 7)
    assert loaded.tojson() == out.tojson()
    assert (set(arg), set(aux)) == (set(arguments), set(states))
    np.testing.assert_array_equal(arg["fc_weight"].asnumpy(), np.ones((3, 2)))
    assert mx.model.load_params(prefix, 7)[1].keys() == states.keys()


def test_parameters_alone(tmp_path, caplog):
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 0, None, {}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["net-0000.params"]
    assert mx.model.load_params(prefix, 0) == ({}, {})
    assert "is empty" in caplog.text


def test_do_checkpoint(tmp_path):
    callback = mx.callback.do_checkpoint(str(tmp_path / "net"), period=2)
    for epoch in range(4):
        callback(epoch, sym.var("x"), {}, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0002.params", "net-0004.params", "net-symbol.json"]


class Module:
    def __init__(self):
        self.saved = []

    def save_checkpoint(self, *arguments):
        self.saved.append(arguments)


def test_module_checkpoint():
    module = Module()
    callback = mx.callback.module_checkpoint(module, "p", period=2, save_optimizer_states=True)
    for epoch in range(4):
        callback(epoch)
    assert module.saved == [("p", 2, True), ("p", 4, True)]


def accuracy():
    m = mx.metric.create("acc")
    m.update([nd.array([0, 1])], [nd.array([[1, 0], [1, 0]])])
    return m


def logged(callback, batches, metric, caplog):
    caplog.clear()
    with caplog.at_level(logging.INFO):
        for n in batches:
            callback(BatchEndParam(epoch=1, nbatch=n, eval_metric=metric, locals=None))
    return caplog.messages


def test_speedometer(caplog, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(mx.callback.time, "time", lambda: float(next(clock)))
    metric = accuracy()
    lines = logged(mx.callback.Speedometer(10, frequent=2), range(5), metric, caplog)
    assert lines[0] == "Epoch[1] Batch [0-2]\tSpeed: 20.00 samples/sec\taccuracy=0.500000"
    assert lines[1].startswith("Epoch[1] Batch [2-4]") and lines[1].endswith("accuracy=nan")
    assert metric.get_global()[1] == 0.5
    lines = logged(mx.callback.Speedometer(10, 2, auto_reset=False), range(5), accuracy(), caplog)
    assert [line.split("\t")[0] for line in lines] == ["Epoch[1] Batch [0-2]", "Epoch[1] Batch [0-4]"]
    lines = logged(mx.callback.Speedometer(10, 2), [0, 1, 2, 0, 1, 2], None, caplog)
    assert lines == ["Iter[1] Batch [2]\tSpeed: 20.00 samples/sec"] * 2


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (lambda: mx.callback.ProgressBar(4, length=4), ["[=---] 25%\r", "[==--] 50%\r"]),
        (lambda: mx.callback.LogValidationMetricsCallback(), ["Epoch[1] Validation-accuracy=0.500000"] * 2),
        (lambda: mx.callback.log_train_metric(2), ["Iter[1] Batch[2] Train-accuracy=0.500000"]),
    ],
)
def test_lines(make, lines, caplog):
    assert logged(make(), [1, 2], accuracy(), caplog) == lines


def test_monitor(caplog):
    out = sym.tanh(sym.var("x") * 2, name="t")
    executor = out.simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = [0.0, 2.0]
    monitor = mx.monitor.Monitor(2, stat_func=nd.max, pattern="t_output|x", sort=True)
    monitor.install(executor)
    seen = []
    for _ in range(3):
        monitor.tic()
        executor.forward()
        seen.append(monitor.toc())
    assert seen[1] == []  # every second batch
    for batch, entries in ((1, seen[0]), (3, seen[2])):
        assert [(n, name) for n, name, _ in entries] == [(batch, "t_output"), (batch, "x")]
        assert float(entries[1][2]) == 2 and abs(float(entries[0][2]) - np.tanh(4)) < 1e-5
    monitor.tic()
    monitor.tic()
    executor.forward()
    with caplog.at_level(logging.INFO):
        monitor.toc_print()
    assert caplog.messages[1].split() == ["Batch:", "5", "x", "2.0"]

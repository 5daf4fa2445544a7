# SPDX-License-Identifier: Apache-2.0
"""mx.contrib.tensorboard, with packages that stand in for those with a SummaryWriter."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import hybridgpu as mx
from hybridgpu import nd

WRITERS = ("mxboard", "tensorboardX", "torch.utils.tensorboard")


class Writer:
    def __init__(self, folder):
        self.folder, self.written = folder, []

    def add_scalar(self, tag, value, global_step=None):
        self.written.append((tag, value, global_step))


@pytest.fixture
def installed(monkeypatch):
    """A function that leaves only one of the packages, or none."""

    def leave(one=None):
        for name in (*WRITERS, "torch", "torch.utils"):
            monkeypatch.setitem(sys.modules, name, None)
        parts = one.split(".") if one else []
        for k in range(len(parts)):
            made = ModuleType(".".join(parts[: k + 1]))
            made.__path__ = []
            monkeypatch.setitem(sys.modules, made.__name__, made)
            made.SummaryWriter = Writer

    return leave


@pytest.mark.parametrize("package", WRITERS)
def test_values_are_written_with_the_epoch(installed, package):
    installed(package)
    metric = mx.metric.create(["acc", "ce"])
    metric.update([nd.array([0, 1])], [nd.array([[0.5, 0.5], [0.5, 0.5]])])
    for prefix, names in ((None, ["accuracy", "cross-entropy"]), ("train", ["train-accuracy", "train-cross-entropy"])):
        callback = mx.contrib.tensorboard.LogMetricsCallback("logs", prefix)
        callback(mx.model.BatchEndParam(3, 1, None, {}))
        callback(mx.model.BatchEndParam(3, 1, metric, {}))
        written = callback.summary_writer.written
        assert callback.summary_writer.folder == "logs" and [w[0] for w in written] == names
        assert [w[1:] for w in written] == [(0.5, 3), (pytest.approx(0.6931, abs=1e-4), 3)]


def test_without_a_package_the_error_names_some(installed):
    installed()
    with pytest.raises(ImportError, match="Install one of mxboard, tensorboardX"):
        mx.contrib.tensorboard.LogMetricsCallback("logs")

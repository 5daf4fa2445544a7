# SPDX-License-Identifier: Apache-2.0
"""CheckpointHandler: which files it writes and keeps, the best model, training that goes on. As MXNet 1.9.1."""

from __future__ import annotations

import io
import logging

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.contrib import estimator as est


def loader():
    draw = np.random.RandomState(0)
    x, y = nd.array(draw.rand(20, 3)), nd.array(draw.randint(0, 4, 20))
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=8)  # three batches


def make(hybrid=False, optimizer="adam"):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=3))
    net.initialize(mx.init.Constant(0.1))
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})
    made = est.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, context=mx.cpu())
    made.stream = io.StringIO()
    made.logger.handlers[:] = [logging.StreamHandler(made.stream)]
    return made


def fit(made, folder, asked, **kwargs):
    handler = est.CheckpointHandler(folder, **kwargs)
    made.fit(loader(), event_handlers=[handler], **asked)
    return handler


def checkpoints(folder):
    """Names of checkpoints in a folder, each with both its files."""
    params = {file.stem for file in folder.glob("*.params")}
    assert params == {file.stem for file in folder.glob("*.states")}
    return sorted(name.removeprefix("model-") for name in params)


BY_BATCH = {"epoch_period": None, "batch_period": 2}


@pytest.mark.parametrize(
    "asked, kwargs, names",
    [
        ({"epochs": 2}, {}, ["epoch0batch3", "epoch1batch6"]),
        ({"epochs": 4}, {"max_checkpoints": 2}, ["epoch2batch9", "epoch3batch12"]),
        ({"epochs": 5}, {"epoch_period": 2}, ["epoch1batch6", "epoch3batch12"]),
        ({"batches": 7}, BY_BATCH, ["epoch0batch1", "epoch1batch3", "epoch1batch5"]),
        ({"epochs": 2}, {"epoch_period": None}, []),
        (
            {"epochs": 2},
            {"batch_period": 2},
            ["epoch0batch1", "epoch0batch3", "epoch1batch3", "epoch1batch5", "epoch1batch6"],
        ),
        # eleven after the first twelve: the first goes, and not the tenth with it, whose name begins alike
        (
            {"batches": 12},
            {"epoch_period": None, "batch_period": 1, "max_checkpoints": 11},
            sorted(f"epoch{b // 3}batch{b}" for b in range(1, 12)),
        ),
    ],
)
def test_files(tmp_path, asked, kwargs, names):
    folder = tmp_path / "a" / "b"
    handler = fit(make(), folder, asked, **kwargs)
    assert checkpoints(folder) == names
    assert sorted(n.removeprefix("model-") for n in handler.saved_checkpoints) == names


@pytest.mark.parametrize("hybrid", [False, True])
def test_symbol(tmp_path, hybrid):
    made = make(hybrid)
    fit(made, tmp_path, {"epochs": 1}, model_prefix="my", verbose=1)
    assert (tmp_path / "my-symbol.json").exists() == hybrid
    assert ("Model architecture(symbol file) is not saved" in made.stream.getvalue()) == (not hybrid)
    assert "trained total 4 batches, saving model at" in made.stream.getvalue()
    if hybrid:
        graph, x = mx.sym.load(str(tmp_path / "my-symbol.json")), nd.ones((2, 3))
        values = {name: p.data() for name, p in made.net.collect_params().items()}
        (out,) = graph.eval(data=x, **values)
        np.testing.assert_allclose(out.asnumpy(), made.net(x).asnumpy(), rtol=1e-6)


# the loss falls and the accuracy rises once
@pytest.mark.parametrize(
    "mode, metric, improved",
    [("min", 1, [0, 1, 2]), ("max", 1, [0]), ("max", 0, [0, 1]), ("min", 0, [0]), ("auto", 1, [0]), ("odd", 1, [0])],
)
@pytest.mark.filterwarnings("ignore:.*operator will be used", "ignore:ModelCheckpoint mode odd is unknown")
def test_best(tmp_path, mode, metric, improved):
    made = make(optimizer="sgd")
    monitor = made.train_metrics[metric]
    fit(made, tmp_path, {"epochs": 3}, save_best=True, monitor=monitor, mode=mode, verbose=1)
    assert "best" in checkpoints(tmp_path)
    said = [line for line in made.stream.getvalue().splitlines() if monitor.name + " improved" in line]
    assert [int(line[7]) for line in said] == improved
    best, last = (tmp_path / f"model-{n}.params" for n in ("best", f"epoch{improved[-1]}batch{improved[-1] * 3 + 3}"))
    assert best.read_bytes() == last.read_bytes()


def test_best_arguments(tmp_path):
    with pytest.raises(ValueError, match="To save best model only, please provide one of the metric objects"):
        est.CheckpointHandler(tmp_path, save_best=True)
    with pytest.warns(UserWarning, match="`greater` operator will be used to determine if loss has improved"):
        est.CheckpointHandler(tmp_path, save_best=True, monitor=mx.metric.Loss())
    made = make()
    with pytest.warns(RuntimeWarning, match="validation accuracy is not updated"):
        fit(made, tmp_path, {"epochs": 1}, save_best=True, monitor=made.val_metrics[0], mode="max")
    assert checkpoints(tmp_path) == ["epoch0batch3"]


@pytest.mark.parametrize(
    "first, whole, kwargs, left, names",
    [
        (
            {"epochs": 2},
            {"epochs": 4},
            {},
            (2, None),
            ["epoch0batch3", "epoch1batch6", "epoch2batch9", "epoch3batch12"],
        ),
        (
            {"batches": 4},
            {"batches": 10},
            BY_BATCH,
            (None, 6),
            ["epoch0batch1", "epoch1batch3", "epoch2batch5", "epoch3batch7", "epoch3batch9"],
        ),
        (None, {"epochs": 2}, {}, (2, None), ["epoch0batch2", "epoch1batch5"]),
        (None, {"batches": 4}, BY_BATCH, (None, 4), ["epoch0batch1", "epoch1batch3"]),
    ],
)
def test_resuming(tmp_path, first, whole, kwargs, left, names):
    """Training that was interrupted gives what uninterrupted training gives, Adam's moments included."""
    if first:
        fit(make(), tmp_path, first, **kwargs)
    made = make()
    fit(made, tmp_path, whole, resume_from_checkpoint=True, **kwargs)
    assert (made.max_epoch, made.max_batch) == left
    assert checkpoints(tmp_path) == names
    said = "Checkpoint resumed from epoch" if first else "No checkpoint found, training from scratch for"
    assert f"CheckpointHandler: {said}" in made.stream.getvalue()
    if "epochs" in whole:  # by batches, MXNet begins a new epoch where another was cut short
        straight = make()
        straight.fit(loader(), **whole)
        for ours, theirs in zip(
            made.net.collect_params().values(), straight.net.collect_params().values(), strict=True
        ):
            np.testing.assert_array_equal(ours.data().asnumpy(), theirs.data().asnumpy())


@pytest.mark.parametrize(
    "asked, kwargs, error, text",
    [
        ({"epochs": 2}, {}, ValueError, "Found checkpoint with maximum number of epoch 2 reached"),
        ({"batches": 3}, BY_BATCH, ValueError, "Found checkpoint with maximum number of batch 3 reached"),
        ({"epochs": 5}, {"batch_period": 2}, AssertionError, "you must only specify the same type of period"),
        ({"batches": 5}, {}, AssertionError, "you must only specify the same type of period"),
    ],
)
def test_errors_of_resuming(tmp_path, asked, kwargs, error, text):
    fit(make(), tmp_path, {"epochs": 2})
    with pytest.raises(error, match=text):
        fit(make(), tmp_path, asked, resume_from_checkpoint=True, **kwargs)


@pytest.mark.parametrize(
    "files, error, text",
    [
        (
            ["model-epoch1batch6.params"],
            AssertionError,
            "Failed to load checkpoint, .*epoch1batch6.states does not exist",
        ),
        (["model-epochXbatch6.params"], ValueError, "Error parsing checkpoint file.*\n.*model-epochXbatch6.params"),
        (["other-epoch1batch6.params", "model-best.params"], None, ""),
    ],
)
def test_folders_of_others(tmp_path, files, error, text):
    for name in files:
        (tmp_path / name).write_bytes(b"")
    made = make()
    if error is None:
        fit(made, tmp_path, {"epochs": 1}, resume_from_checkpoint=True)
        assert "No checkpoint found" in made.stream.getvalue()
    else:
        with pytest.raises(error, match=text):
            fit(made, tmp_path, {"epochs": 4}, resume_from_checkpoint=True)


def test_prefixes_may_hold_the_words(tmp_path):
    fit(make(), tmp_path, {"epochs": 1}, model_prefix="epoch_of_batch")
    made = make()
    handler = fit(made, tmp_path, {"epochs": 3}, model_prefix="epoch_of_batch", resume_from_checkpoint=True)
    assert (handler.trained_epoch, handler.trained_batch, made.max_epoch) == (0, 3, 2)


def test_a_checkpoint_that_was_cut_off_is_none(tmp_path, monkeypatch):
    """A process that ends between the two files of an epoch: training goes on from the epoch before."""

    first, written = make(), []

    def cut_off(write):
        def writes(file):
            if len(written) == 3:
                raise KeyboardInterrupt
            written.append(file)
            write(file)

        return writes

    monkeypatch.setattr(first.net, "save_parameters", cut_off(first.net.save_parameters))
    monkeypatch.setattr(first.trainer, "save_states", cut_off(first.trainer.save_states))
    with pytest.raises(KeyboardInterrupt):
        fit(first, tmp_path, {"epochs": 3})
    second = make()
    fit(second, tmp_path, {"epochs": 3}, resume_from_checkpoint=True)
    whole = make()
    fit(whole, tmp_path / "whole", {"epochs": 3})
    for a, b in zip(second.net.collect_params().values(), whole.net.collect_params().values(), strict=True):
        np.testing.assert_allclose(a.data().asnumpy(), b.data().asnumpy(), rtol=1e-5)

# SPDX-License-Identifier: Apache-2.0
"""Hybridized nets in the processes and threads of a data loader, compiled there or before."""

from __future__ import annotations

import os
import sys
import traceback

import numpy as np
import pytest

from hybridgpu import nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.data import ArrayDataset, BatchSampler, DataLoader, SequentialSampler, SimpleDataset
from hybridgpu.gluon.data.dataloader import default_mp_batchify_fn
from hybridgpu.gluon.data.worker_queues import MultiWorkerIterV1

X = np.linspace(-1, 1, 120, dtype="float32").reshape(20, 6)


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"num_workers": 2, "thread_pool": True}, {}], ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["compiled by workers", "compiled before"])
def test_a_net_as_transform(options, compiled, compiler):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu", in_units=6), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=4))
    net.initialize()
    want = net(nd.array(X)).asnumpy()
    net.hybridize()
    if compiled:
        net(nd.array(X[:1]))

    def features(x, y):
        return net(nd.array(x).reshape((1, -1))).asnumpy()[0], y

    loader = DataLoader(ArrayDataset(X, np.arange(20)).transform(features), batch_size=8, **options)
    for _ in range(2):
        batches = [(a.asnumpy(), b.asnumpy()) for a, b in loader]
        np.testing.assert_allclose(np.concatenate([a for a, _ in batches]), want, rtol=1e-5, atol=1e-7)
        assert np.concatenate([b for _, b in batches]).tolist() == list(range(20))
    np.testing.assert_allclose(net(nd.array(X)).asnumpy(), want, rtol=1e-5, atol=1e-7)  # here, too


class ReadError(Exception):
    """Cannot be made again of its text, as errors of many libraries."""

    def __init__(self, place, number):
        super().__init__(f"cannot read {place} {number}")


class Samples:
    """Sample 3 is none."""

    def __init__(self, fail):
        self._fail = fail

    def __len__(self):
        return 8

    def __getitem__(self, k):
        return self._fail() if k == 3 else k


def refuse():
    raise ReadError("picture", 3)


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"num_workers": 1, "thread_pool": True}, {}], ids=str)
def test_an_error_in_a_sample_is_told(options):
    loader = DataLoader(Samples(refuse), batch_size=2, **options)
    for _ in range(2):  # the loader goes on
        batches = iter(loader)
        assert next(batches).asnumpy().tolist() == [0, 1]
        with pytest.raises(Exception, match="cannot read picture 3") as raised:
            next(batches)
        assert "ReadError" in raised.exconly()


class TextOnly(ValueError):
    """Arrives as it is."""


class Doubled:
    """A transform that fails at one value."""

    def __call__(self, x, *rest):
        if x == 3:
            raise TextOnly("no double of 3")
        return 2 * x


def halves(samples):
    raise TextOnly("no batch")


def sevens_fail(x):
    return {7: 1}[x] if x > 6 else x


WAYS = [{}, {"num_workers": 1}, {"num_workers": 1, "thread_pool": True}]
NUMBERS = SimpleDataset(list(range(9)))
#: dataset, batchify_fn, the error's class, what its note says
FAILING = {
    "transform": (NUMBERS.transform(Doubled()), None, TextOnly, "sample 3 of SimpleDataset with transform(Doubled)."),
    "function": (
        NUMBERS.transform(sevens_fail),
        None,
        KeyError,
        "sample 8 of SimpleDataset with transform(sevens_fail).",
    ),
    "first": (
        ArrayDataset(list(range(9)), list(range(9))).transform_first(Doubled()),
        None,
        TextOnly,
        "sample 3 of ArrayDataset with transform_first(Doubled).",
    ),
    "selection": (
        NUMBERS.take(5).transform(Doubled()).shard(2, 1),
        None,
        TextOnly,
        "sample 0 of a selection from a selection from SimpleDataset with transform(Doubled).",
    ),
    "dataset": (Samples(refuse), None, ReadError, "sample 3 of Samples."),
    "batch": (NUMBERS, halves, TextOnly, "halves for the batch of samples [0, 1] of SimpleDataset."),
}


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("what", FAILING)
def test_errors_name_the_sample(what, options):
    """And keep their class, and the worker's traceback; one that cannot be pickled is a RuntimeError with its text."""
    dataset, batchify, kind, note = FAILING[what]
    in_process = options == {"num_workers": 1}
    lost = kind is ReadError and in_process
    with pytest.raises(RuntimeError if lost else kind) as raised:
        list(DataLoader(dataset, 2, batchify_fn=batchify, **options))
    text = "".join(traceback.format_exception(raised.value))
    notes = str(raised.value) if lost else "\n".join(raised.value.__notes__)
    if lost and sys.version_info < (3, 11):
        notes = note  # where tracebacks do not show it
    assert note in notes
    assert ("in worker process" in notes) == in_process
    assert text.count(", in batch_of") >= 1 and kind.__name__ in text


@pytest.mark.parametrize("what", FAILING)
def test_errors_of_older_workers(what):
    dataset, batchify, kind, note = FAILING[what]
    batches = MultiWorkerIterV1(1, dataset, batchify or default_mp_batchify_fn, BatchSampler(SequentialSampler(9), 2))
    with pytest.raises(RuntimeError if kind is ReadError else kind) as raised:
        list(batches)
    text = "".join(traceback.format_exception(raised.value))
    assert ", in batch_of" in text and (note in text or sys.version_info < (3, 11))


def _ends():
    raise StopIteration


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_that_ends_in_a_sample_ends_no_epoch(workers):
    if workers:
        batches = MultiWorkerIterV1(1, Samples(_ends), default_mp_batchify_fn, BatchSampler(SequentialSampler(8), 2))
    else:
        batches = DataLoader(Samples(_ends), batch_size=2)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(batches)


@pytest.mark.parametrize("workers", [1, 2])
def test_older_workers_that_end(workers):
    batches = MultiWorkerIterV1(
        workers, Samples(lambda: os._exit(3)), default_mp_batchify_fn, BatchSampler(SequentialSampler(8), 2)
    )
    with pytest.raises(RuntimeError, match="A worker ended before its batch was made"):
        list(batches)


def test_a_worker_that_is_killed():
    loader = DataLoader(Samples(lambda: os._exit(3)), batch_size=2, num_workers=1, prefetch=1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="A worker of the DataLoader ended"):
            list(loader)

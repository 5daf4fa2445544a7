# SPDX-License-Identifier: Apache-2.0
"""Hybridized nets in the processes and threads of a data loader, compiled there or before."""

from __future__ import annotations

import os

import numpy as np
import pytest

from hybridgpu import nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.data import ArrayDataset, DataLoader

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


def test_a_worker_that_is_killed():
    loader = DataLoader(Samples(lambda: os._exit(3)), batch_size=2, num_workers=1, prefetch=1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="A worker of the DataLoader ended"):
            list(loader)

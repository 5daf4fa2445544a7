# SPDX-License-Identifier: Apache-2.0
"""Sentences of any length through attention on the CPU: as eagerly, gradients too, and mostly without a compiler."""

from __future__ import annotations

import numpy as np
import pytest
from gluon.test_batch_sizes import Attention, step
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd, nd, runtime
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.target import CPU
from hybridgpu.store import reset_default_store

FIRST, LONGER = 23, 101  #: of rows that are turned in tiles, and of rows that lanes share


@pytest.mark.parametrize("length", [17, 20, 31, 50, 63])
def test_training_of_another_length_compiles_nothing(length):
    known, found = (
        step("attention", Attention, {"data": (16, n, 16), "label": (16, n, 16)}, CPU) for n in (FIRST, length)
    )
    assert not found - known


@pytest.mark.parametrize("length", [67, 125, 199])
def test_longer_sentences(length):
    """Some rows are kept and some computed again, by a class of lengths."""
    known, found = (
        step("attention", Attention, {"data": (16, n, 16), "label": (16, n, 16)}, CPU) for n in (LONGER, length)
    )
    assert not found - known


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """An eager block, the same one hybridized, and an empty cache."""
    if cpu_backend() is None:
        pytest.skip("no C++ compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        reset_default_store()
        mx.random.seed(3)
        eager, hybrid = Attention(), Attention()
        for n in (eager, hybrid):
            n.initialize()
            n(nd.ones((1, 4, 16)))
        for a, b in zip(eager.collect_params().values(), hybrid.collect_params().values(), strict=True):
            b.set_data(a.data())
        hybrid.hybridize()
        yield eager, hybrid
    reset_default_store()


def agree(nets, batch: int, length: int) -> int:
    """Compare results and gradients of both; how many modules were compiled for that."""
    rng = np.random.default_rng(length)
    x = nd.array(rng.normal(size=(batch, length, 16)).astype(np.float32))
    weight = nd.array(rng.normal(size=(batch, length, 16)).astype(np.float32))
    before, results = runtime.compile_report().compiled_modules, []
    for n in nets:
        x.attach_grad()
        with autograd.record():
            y = n(x)
            total = (y * weight).sum()
        total.backward()
        results.append([y, x.grad.copy(), *(p.grad().copy() for p in n.collect_params().values())])
    for a, b in zip(*results, strict=True):
        a, b = a.asnumpy(), b.asnumpy()
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5 * max(1, np.abs(a).max()))
    return runtime.compile_report().compiled_modules - before


def test_lengths_of_one_kind_compile_once(nets):
    assert agree(nets, 5, FIRST) > 0
    for length in (17, 29, 61, 63):
        assert agree(nets, 5, length) == 0, length
    agree(nets, 5, LONGER)
    for length in (97, 127):
        assert agree(nets, 5, length) == 0, length


@settings(max_examples=4, deadline=None)
@given(length=st.sampled_from([1, 2, 7, 13, 16, 37, 48, 64, 65, 150, 211]), batch=st.integers(1, 6))
def test_every_length(nets, length, batch):
    agree(nets, batch, length)


def test_the_longest(nets):
    agree(nets, 1, 1000)

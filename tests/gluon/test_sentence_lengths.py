# SPDX-License-Identifier: Apache-2.0
"""Sentences of any length through attention on the CPU: as eagerly, gradients too, and mostly without a compiler."""

from __future__ import annotations

import numpy as np
import pytest
from gluon.test_batch_sizes import Attention, empty_store, step  # noqa: F401  (a fixture)
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd, nd, runtime
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.cache.disk_cache import reset_default_store
from hybridgpu.compiler.target import CPU
from hybridgpu.gluon import nn, rnn

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


class Reader(nn.HybridBlock):
    """Numbers of words, 0 behind the end of a sentence, and what is made of them: ``kind``, a function below."""

    def __init__(self, kind, width=16, **kwargs):
        super().__init__(**kwargs)
        self.kind = kind
        with self.name_scope():
            self.words, self.norm, self.out = nn.Embedding(40, width), nn.LayerNorm(in_channels=width), nn.Dense(5)
            self.dense, self.score = nn.Dense(width, flatten=False), nn.Dense(1, flatten=False)
            self.joint = nn.Dense(3 * width, flatten=False)
            self.steps = rnn.LSTM(width, input_size=width)
            self.both = rnn.LSTM(width, layout="NTC", bidirectional=True, input_size=width)

    def hybrid_forward(self, F, x):
        return self.kind(self, F, x)


def last_word(net, F, x):
    h = net.steps(F.transpose(net.words(x), (1, 0, 2)))
    return net.out(F.SequenceLast(h, F.sum(F.BlockGrad(x) > 0, axis=1), use_sequence_length=True))


def every_word(net, F, x):
    return net.dense(net.both(net.words(x)))


def words_by_weight(net, F, x):
    h = net.both(net.words(x))
    weights = F.softmax(net.score(F.tanh(net.dense(h))), axis=1)
    return net.out(F.sum(F.broadcast_mul(h, weights), axis=1))


def mean_of_words(net, F, x):
    return net.out(F.mean(net.norm(net.dense(net.words(x))), axis=1))


def first_of_words(net, F, x):
    return net.out(F.slice_axis(net.norm(net.dense(net.words(x))), axis=1, begin=0, end=1))


def masked(net, F, x, mask):
    y = net.words(x)
    parts = F.split(net.joint(y), num_outputs=3, axis=2)
    q, k, v = (F.reshape(F.transpose(F.reshape(p, (0, 0, 2, -1)), (0, 2, 1, 3)), (-3, 0, 0)) for p in parts)
    scores = F.batch_dot(q, k, transpose_b=True) * 0.35
    scores = F.where(mask(F, x, scores), scores, F.ones_like(scores) * -1e4)
    seen = F.reshape(F.batch_dot(F.softmax(scores), v), (-4, -1, 2, 0, 0))
    return net.norm(y + net.dense(F.reshape(F.transpose(seen, (0, 2, 1, 3)), (0, 0, -1))))


def words_before(net, F, x):
    def mask(F, x, scores):
        row, column = (F.contrib.arange_like(scores, axis=a) for a in (1, 2))
        seen = F.broadcast_lesser_equal(F.reshape(column, (1, 1, -1)), F.reshape(row, (1, -1, 1)))
        return F.broadcast_like(seen, scores)

    return masked(net, F, x, mask)


def words_of_the_sentence(net, F, x):
    def mask(F, x, scores):
        place, length = F.contrib.arange_like(scores, axis=2), F.sum(F.BlockGrad(x) > 0, axis=1)
        seen = F.broadcast_lesser(F.reshape(place, (1, -1)), F.reshape(length, (-1, 1)))
        heads = F.reshape(scores, (-4, -1, 2, 0, 0))
        return F.reshape(F.broadcast_like(F.expand_dims(F.expand_dims(seen, 1), 1), heads), (-3, 0, 0))

    return masked(net, F, x, mask)


READERS = [last_word, every_word, words_by_weight, mean_of_words, first_of_words, words_before, words_of_the_sentence]
ALONE = {first_of_words: 1}  #: kernels that are compiled for each length: zeros behind the gradient of one word


def labels(kind, length: int) -> tuple[int, ...]:
    return (16, 5) if kind in (last_word, words_by_weight, mean_of_words, first_of_words) else (16, length, 16)


@pytest.mark.parametrize("kind", READERS, ids=lambda f: f.__name__)
def test_readers_of_another_length_compile_nothing(kind):
    """Masks that a net makes, the last word of each sentence, both directions, words added up by weights or all alike."""

    def texts(n: int) -> set[str]:
        return step(kind.__name__, lambda: Reader(kind), {"data": (16, n), "label": labels(kind, n)}, CPU)

    known = texts(FIRST)
    for length in (17, 31):
        assert len(texts(length) - known) <= ALONE.get(kind, 0), length


@pytest.mark.long_table
@pytest.mark.usefixtures("empty_store")
@pytest.mark.filterwarnings("ignore:Parameter reader")  # of layers that other kinds use
@pytest.mark.parametrize("kind", READERS, ids=lambda f: f.__name__)
def test_readers_of_many_lengths(kind):
    """As eagerly, whatever was compiled for another length."""
    mx.random.seed(4)
    eager, hybrid = Reader(kind), Reader(kind)
    for n in (eager, hybrid):
        n.initialize(mx.init.Uniform(0.3))
        n(nd.ones((2, 5)))
    of_eager, of_hybrid = ([p for p in n.collect_params().values() if not p._deferred_init] for n in (eager, hybrid))
    for a, b in zip(of_eager, of_hybrid, strict=True):
        b.set_data(a.data())
    hybrid.hybridize()
    rng = np.random.default_rng(5)
    for batch, length in ((5, 19), (5, 27), (6, 62), (5, 16), (2, 3), (7, 70)):
        words = np.where(
            np.arange(length) < rng.integers(1, length + 1, (batch, 1)), rng.integers(1, 40, (batch, length)), 0
        )
        results = []
        for n, params in ((eager, of_eager), (hybrid, of_hybrid)):
            with autograd.record():
                y = n(nd.array(words.astype(np.float32)))
                total = (y * nd.array(np.cos(np.arange(y.size)).reshape(y.shape), dtype="float32")).sum()
            total.backward()
            results.append([y.asnumpy(), *(p.grad().asnumpy() for p in params)])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(b, a, rtol=3e-4, atol=2e-5 * max(1, np.abs(a).max()))


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
    """Compare results and gradients of both; how many modules were compiled for the hybridized one."""
    rng = np.random.default_rng(length)
    x = nd.array(rng.normal(size=(batch, length, 16)).astype(np.float32))
    weight = nd.array(rng.normal(size=(batch, length, 16)).astype(np.float32))
    results = []
    for n in nets:
        before = runtime.compile_report().compiled_modules
        x.attach_grad()
        with autograd.record():
            y = n(x)
            total = (y * weight).sum()
        total.backward()
        results.append([y, x.grad.copy(), *(p.grad().copy() for p in n.collect_params().values())])
    compiled = runtime.compile_report().compiled_modules - before
    for a, b in zip(*results, strict=True):
        a, b = a.asnumpy(), b.asnumpy()
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5 * max(1, np.abs(a).max()))
    return compiled


@pytest.mark.usefixtures("compiler")
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

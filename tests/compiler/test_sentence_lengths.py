# SPDX-License-Identifier: Apache-2.0
"""The length of a sentence on the CPU: kernels that walk along it have one text for every length of no whole vectors."""

from __future__ import annotations

import pytest
from compiler.told import texts_and_values

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.schedule.numbers import told_lengths
from hybridgpu.compiler.target import CPU
from hybridgpu.dtypes import f32

SHORT, LONG = (17, 27, 31, 63), (65, 100, 197, 1000)  #: rows that are turned in tiles, and those that lanes share
WHOLE = (16, 64, 128)


def inputs(b, *shapes):
    return [b.input(tensor_type(s, f32)) for s in shapes]


def scores(b, n):
    """Rows of both operands as they lie."""
    q, k = inputs(b, (6, n, 24), (6, n, 24))
    return b.dot(q, b.transpose(k, (0, 2, 1))) * 0.5


def scores_of_copies(b, n):
    """… and of operands whose rows are turned first."""
    q, k = inputs(b, (6, n, 3, 8), (6, n, 3, 8))
    q, k = (b.reshape(b.transpose(x, (0, 2, 1, 3)), (18, n, 8)) for x in (q, k))
    return b.dot(q, b.copy(b.transpose(k, (0, 2, 1))))


def seen(b, n):
    w, v = inputs(b, (6, n, n), (6, n, 24))
    return b.dot(w, v)


def seen_by_one(b, n):
    """The word that is next."""
    w, v = inputs(b, (6, 1, n), (6, n, 24))
    return b.dot(w, v)


def seen_through_noise(b, n):
    """The left operand is computed, some rows at a time."""
    w, m, v = inputs(b, (6, n, n), (6, n, n), (6, n, 24))
    return b.dot(b.max(w, 0.0) * m, v)


def slopes_of_values(b, n):
    w, g = inputs(b, (6, n, n), (6, n, 24))
    return b.dot(b.transpose(w, (0, 2, 1)), g)


def columns_made(b, n):
    """The right operand is computed."""
    w, v, m = inputs(b, (6, n, n), (6, n, 24), (6, n, 24))
    return b.dot(w, b.tanh(v) * m)


def softmax(b, n):
    (x,) = inputs(b, (5, 70, n))
    e = b.exp(x - b.reduce("amax", x, (2,), keepdims=True))
    return e / b.sum(e, (2,), keepdims=True)


def masked_softmax(b, n):
    """A mask for all words of a sentence."""
    x, m = inputs(b, (3, 2, n, n), (3, 1, 1, n))
    x = x * 0.25 + (m - 1.0) * 100.0
    e = b.exp(x - b.reduce("amax", x, (3,), keepdims=True))
    return e / b.sum(e, (3,), keepdims=True)


def slope_of_softmax(b, n):
    y, g = inputs(b, (5, 70, n), (5, 70, n))
    return y * (g - b.sum(y * g, (2,), keepdims=True))


def place_of_the_most(b, n):
    (x,) = inputs(b, (80, n))
    return b.cast(b.reduce("argmax", x, (1,)), f32)


def lengths_of_sentences(b, n):
    (m,) = inputs(b, (80, n))
    return b.sum(m, (1,))


def masked_mean(b, n):
    x, m = inputs(b, (6, n, 32), (6, n, 1))
    return b.sum(x * m, (1,)) / (b.sum(b.abs(m), (1,)) + 1.0)


def largest_of_words(b, n):
    (x,) = inputs(b, (6, n, 32))
    return b.reduce("amax", x, (1,))


def turned(b, n):
    """Elements are moved, and nothing else."""
    (x,) = inputs(b, (6, n, 48))
    return b.copy(b.transpose(x, (0, 2, 1)))


def turned_back(b, n):
    (x,) = inputs(b, (6, 48, n))
    return b.copy(b.transpose(x, (0, 2, 1)))


def turned_with_a_bias(b, n):
    x, f = inputs(b, (6, n, 48), (48,))
    return b.transpose(b.tanh(x + f), (0, 2, 1))


def heads_together(b, n):
    """Slopes of queries, keys and values, one behind the other."""
    q, k, v = inputs(b, *[(6, 2, n, 8)] * 3)
    return b.transpose(b.concat([q, k, v], 1), (0, 2, 1, 3)) * 2.0


EVERY = [scores, scores_of_copies, seen, seen_by_one, slopes_of_values, turned, turned_back, turned_with_a_bias]
EVERY += [heads_together, masked_mean, largest_of_words, seen_through_noise, columns_made]
ROWS = [softmax, masked_softmax, slope_of_softmax, place_of_the_most, lengths_of_sentences]


@pytest.mark.parametrize("make", EVERY, ids=lambda f: f.__name__)
def test_one_text_whatever_the_length(make, compiler):
    assert len(texts_and_values(make, SHORT[1:], CPU, cpu_backend().load)) == 1


@pytest.mark.parametrize("lengths", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("make", ROWS, ids=lambda f: f.__name__)
def test_one_text_of_rows(make, lengths, compiler):
    assert len(texts_and_values(make, lengths, CPU, cpu_backend().load)) == 1


@pytest.mark.parametrize("make", [softmax, lengths_of_sentences], ids=lambda f: f.__name__)
def test_long_rows(make, compiler):
    """Sums of parts, and rows for which there is no room on chip: a text or two."""
    assert len(texts_and_values(make, (4099, 5000, 7001), CPU, cpu_backend().load)) <= 2


@pytest.mark.parametrize("length", WHOLE)
@pytest.mark.parametrize("make", [*EVERY, *ROWS], ids=lambda f: f.__name__)
def test_whole_vectors(make, length, compiler):
    assert len(texts_and_values(make, (length,), CPU, cpu_backend().load)) == 1


def text(make, n: int) -> str:
    b = builder()
    (kernel,) = compile_graph(b.finish([make(b, n)]), CPU).kernels
    return kernel.text


@pytest.mark.parametrize("length", [*WHOLE, 8])
def test_whole_vectors_and_short_rows_are_literals(length):
    assert f"i1 < {length};" in text(softmax, length) or f"at < {length};" in text(softmax, length)


@pytest.mark.parametrize(
    ("extents", "told"),
    [
        ((31, 31, 64), {31}),
        ((64, 64, 32), {64}),
        ((64, 32, 64), {64}),
        ((1, 40, 64), {40}),
        ((1, 64, 40), {40}),
        ((16, 16, 8), set()),
        ((7, 7, 8), set()),
        ((9, 9, 8), {9}),
        ((48, 33, 20), {48, 33, 20}),
        ((1, 64, 32), set()),
    ],
)
def test_which_extents_may_be_lengths(extents, told):
    """Rows, columns and terms of a product: those of no whole vectors, and those that occur twice."""
    assert told_lengths(*extents) == told

# SPDX-License-Identifier: Apache-2.0
"""The length of a sentence on the CPU: kernels that walk along it have one text for every length of no whole vectors."""

from __future__ import annotations

import pytest
from compiler.dynamic_sizes import texts_and_values

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.schedule.runtime_args import dynamic_lengths
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32, i32
from hybridgpu.ops.sequence import sequence_last

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


def both_directions(b, n):
    """Gradients of a bidirectional layer's steps, sentence by sentence."""
    x, y = inputs(b, (n, 6, 16), (n, 6, 16))
    return b.transpose(b.concat([x, y], 2), (1, 0, 2)) * 2.0


def weights_of_both_directions(b, n):
    """… and those of the weights by which such steps are added up."""
    g, x, y = inputs(b, (6, 32), (n, 6, 16), (n, 6, 16))
    return b.sum(b.transpose(b.concat([x, y], 2), (1, 0, 2)) * b.reshape(g, (6, 1, 32)), (2,))


def sum_of_both_directions(b, n):
    """Steps that are added up by weights."""
    x, y, w = inputs(b, (n, 6, 16), (n, 6, 16), (6, n))
    return b.sum(b.transpose(b.concat([x, y], 2), (1, 0, 2)) * b.reshape(w, (6, n, 1)), (1,))


def mask_of_lengths(b, n):
    """Made of positions, which are computed or an array, and of lengths."""
    lengths, places = inputs(b, (6,), (n,))
    lengths, shape = b.broadcast(b.reshape(lengths, (6, 1)), (6, n)), (6, n)
    seen = b.lt(b.cast(b.iota(shape, 1, i32), f32), lengths * 9.0)
    return b.cast(seen, f32) + b.cast(b.le(b.broadcast(places, shape), lengths), f32) * 2.0


def causal_mask(b, n):
    (x,) = inputs(b, (n,))
    return b.cast(b.le(b.broadcast(x, (n, n)), b.broadcast(b.reshape(x, (n, 1)), (n, n))), f32)


def slope_of_a_mean(b, n, width=16):
    """Of normalised features: the gradient is one for all words of a sentence."""
    x, g, most = inputs(b, (6, n, width), (6, 1, width), (6, n, 1))
    y = b.tanh(x) * (g * (1.0 / 9.0))
    return y - b.sum(y * x, (2,), keepdims=True) * most


def slope_of_a_mean_of_more(b, n):
    return slope_of_a_mean(b, n, 48)


def slope_of_a_scale(b, n):
    """… added up over sentences and words."""
    x, g, d = inputs(b, (6, n, 16), (6, 1, 16), (6, n, 1))
    return b.sum(x * d * g, (0, 1))


def slope_of_places(b, n):
    """… over sentences, for each place in them."""
    x, d = inputs(b, (6, n, 16), (6, n, 1))
    return b.sum(x * d, (0,))


def last_of_each(b, n):
    """The last word of each sentence, whose length is no more than that of the array."""
    x, lengths = inputs(b, (n, 6, 16), (6,))
    values = sequence_last.parse({"use_sequence_length": True})
    return sequence_last.build(b, values, [x, b.abs(lengths) * 30.0 + 1.0])[0]


def word(b, x, at=0):
    """One word of each sentence of ``x``."""
    return b.reshape(b.slice(x, (0, at, 0), (x.shape[0], at + 1, x.shape[2])), (x.shape[0], x.shape[2]))


def first_word(b, n):
    x, w = inputs(b, (6, n, 24), (5, 24))
    return b.dot(word(b, x), b.transpose(w, (1, 0))) * 0.5


def last_word(b, n):
    """… whose right operand lies the other way, with more rows."""
    x, w = inputs(b, (40, n, 24), (24, 32))
    return b.dot(word(b, x, n - 1), w)


def slope_of_the_first_word(b, n):
    """A weight's gradient."""
    x, g = inputs(b, (7, n, 24), (7, 5))
    return b.dot(b.transpose(g, (1, 0)), word(b, x))


def slope_by_the_first_word(b, n):
    """… transposed."""
    x, g = inputs(b, (7, n, 24), (7, 32))
    return b.dot(b.transpose(word(b, x), (1, 0)), g)


def slope_of_a_word(b, n):
    """Of features that are normalised: zero but for the first word's."""
    x, g = inputs(b, (6, n, 16), (6, 1, 16))
    y = b.tanh(x) + b.pad(g, low=(0, 0, 0), high=(0, n - 1, 0), value=0.0)
    return y - b.sum(y * x, (2,), keepdims=True)


EVERY = [scores, scores_of_copies, seen, seen_by_one, slopes_of_values, turned, turned_back, turned_with_a_bias]
EVERY += [heads_together, masked_mean, largest_of_words, seen_through_noise, columns_made]
EVERY += [both_directions, weights_of_both_directions, sum_of_both_directions, mask_of_lengths, causal_mask]
EVERY += [slope_of_a_mean, slope_of_a_mean_of_more, slope_of_a_scale, slope_of_places, last_of_each]
EVERY += [first_word, last_word, slope_of_the_first_word, slope_by_the_first_word, slope_of_a_word]
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
    assert dynamic_lengths(*extents) == told

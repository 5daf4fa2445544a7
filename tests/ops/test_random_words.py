# SPDX-License-Identifier: Apache-2.0
"""Random words of small arrays: the next calls' words, made together, are those that each call makes alone."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu.compiler.primitives import random

#: name -> how far a call is from the one before
DISTANCES = {
    "one loop": lambda k, rng: 1,
    "a loop of three": lambda k, rng: 3,
    "a loop that changes": lambda k, rng: 2 if k < 100 else 5,
    "by chance": lambda k, rng: int(rng.integers(1, 4)),
    "back and forth": lambda k, rng: -6 if k % 50 == 49 else 1,
}


@pytest.mark.parametrize("count", [0, 1, 7, 100, 1024])
@pytest.mark.parametrize("name", DISTANCES)
def test_words_are_those_of_each_call(name, count, monkeypatch):
    monkeypatch.setattr(random, "_calls", {})
    rng, call, made = np.random.default_rng(count), 1000, 0
    philox = random.philox

    def counted(*given):
        nonlocal made
        made += 1
        return philox(*given)

    for k in range(200):
        call += DISTANCES[name](k, rng)
        for stream in (0, 3):
            state = np.array([5, 6, call, 0], np.uint32)
            expected = random.words(np, state, np.arange(count, dtype=np.uint64), stream)
            with monkeypatch.context() as patch:
                patch.setattr(random, "philox", counted)
                got = random._small_words(state, stream, count)
            np.testing.assert_array_equal(got, expected)
            got[...] = 0  # which is the caller's
    assert name == "by chance" or made < 250  # of 400 calls


def test_the_last_numbers_of_calls(monkeypatch):
    monkeypatch.setattr(random, "_calls", {})
    for call in range(0xFFFFFFF0, 0x100000000):
        state = np.array([1, 2, call, 7], np.uint32)
        expected = random.words(np, state, np.arange(9, dtype=np.uint64), 1)
        np.testing.assert_array_equal(random._small_words(state, 1, 9), expected)


def test_few_tables_are_kept(monkeypatch):
    monkeypatch.setattr(random, "_calls", {})
    for seed in range(300):
        random._small_words(np.array([seed, 0, 1, 0], np.uint32), 0, 4)
    assert len(random._calls) <= random._SIZES

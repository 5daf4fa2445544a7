# SPDX-License-Identifier: Apache-2.0
"""Random words of small arrays: the next calls' words, made together, are those that each call makes alone."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu.compiler.primitives import random

#: name -> (how far a call is from the one before, how many of 200 may run Philox for 100 elements, whose tables have 40 rows)
DISTANCES = {
    "one draw a step": (lambda k, rng: 1, 8),
    "three draws a step": (lambda k, rng: 3, 8),
    "two equal ones and another": (lambda k, rng: (1, 2)[k % 2], 12),
    "again in the backward pass": (lambda k, rng: (0, 1)[k % 2], 8),
    "many draws a step": (lambda k, rng: 500, 8),
    "a loop that changes": (lambda k, rng: 2 if k < 100 else 5, 12),
    "by chance": (lambda k, rng: int(rng.integers(1, 4)), 16),
    "far apart by chance": (lambda k, rng: int(rng.integers(1, 1 << 20)), 200),
    "back and forth": (lambda k, rng: -6 if k % 50 == 49 else 1, 24),
}


@pytest.mark.parametrize("count", [0, 1, 7, 100, 1024])
@pytest.mark.parametrize("name", DISTANCES)
def test_words_are_those_of_each_call(name, count, monkeypatch):
    monkeypatch.setattr(random, "_calls", {})
    distance, most = DISTANCES[name]
    philox, runs = random.philox, []
    rng, call = np.random.default_rng(count), 1000
    for k in range(200):
        call += distance(k, rng)
        for stream in (0, 3):
            state = np.array([5, 6, call, 0], np.uint32)
            expected = random.words(np, state, np.arange(count, dtype=np.uint64), stream)
            with monkeypatch.context() as patch:
                patch.setattr(random, "philox", lambda *given, at=stream: runs.append(at) or philox(*given))
                got = random._small_words(state, stream, count)
            np.testing.assert_array_equal(got, expected)
            got[...] = 0  # which is the caller's
    if count == 100:
        assert runs.count(0) == runs.count(3) <= most


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
    assert len(random._calls) <= random._MOST_TABLES

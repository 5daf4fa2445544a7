# SPDX-License-Identifier: Apache-2.0
"""Values of memory before it was written, against a copy of the whole memory, and when they are let go."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from hybridgpu.ndarray.values_before import ValuesBefore


def address(array):
    return array.__array_interface__["data"][0]


def write(before, array, value):
    missing = before.missing(array, address(array))
    if missing:
        before.keep(array, address(array), array.copy(), missing)
    array[...] = value


@pytest.mark.parametrize("seed", range(30))
def test_the_first_write_to_each_byte_counts(seed):
    numbers = np.random.default_rng(seed)
    memory, other = numbers.random(40).astype(np.float32), numbers.random(8).astype(np.float32)
    was, before = memory.copy(), ValuesBefore()
    for k in range(12):
        first = int(numbers.integers(0, 40))
        write(before, memory[first : first + int(numbers.integers(0, 12))], -k)
        write(before, other, -k)
        first = int(numbers.integers(0, 40))
        part = memory[first : first + 9]
        found = part.copy()
        before.put_back(part, address(part), found.view(np.uint8))
        np.testing.assert_array_equal(found, was[first : first + 9])
        assert before.has(part, address(part)) or np.array_equal(part, was[first : first + 9])
        assert not before.missing(other, address(other))
    written = int((memory < 0).sum() + (memory == 0).sum())
    assert sum(v.nbytes for p in before._pieces.values() for _, v in p.found) == 4 * written + other.nbytes


def test_values_go_with_the_memory():
    before = ValuesBefore()
    kept, gone = np.zeros(4), np.zeros((2, 4))
    for array in (kept, gone[0], gone[1]):
        write(before, array, 1)
    assert len(before) == 3
    del array, gone
    gc.collect()
    assert before and len(before) == 1
    del kept
    assert not before

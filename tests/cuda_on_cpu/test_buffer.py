# SPDX-License-Identifier: Apache-2.0
"""Buffers: contents, what is written and what is not, memory in place, lifetime."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import Buffer, OutOfBounds, UninitialisedRead
from .native import runtime
from .support import launch, normal

STORE = "__global__ void k(float* o, int n) { if (threadIdx.x < n) o[threadIdx.x] = threadIdx.x; }"
LOAD = """__global__ void k(const float* a, float* o, int n) {
  if (threadIdx.x < n) o[threadIdx.x] = a[threadIdx.x];
}"""


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (4, 0, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f2", "u1", "i8", "?", "c16"])
def test_round_trip(shape, dtype):
    array = (normal(*shape) * 4 if shape else normal(1)[0] * 4).astype(dtype)
    buffer = Buffer(array)
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == (array.shape, array.dtype, array.nbytes)
    np.testing.assert_array_equal(buffer.get(), array)
    assert buffer.get().dtype == array.dtype
    assert buffer.unwritten() == 0


def test_strided_arrays_are_copied_whole():
    array = np.arange(24).reshape(4, 6)[::2, ::-1]
    np.testing.assert_array_equal(Buffer(array).get(), array)


def test_what_one_launch_writes_the_next_may_read():
    middle, result = Buffer.empty(32, np.float32, name="middle"), Buffer.empty(32, np.float32)
    launch(STORE, middle, np.int32(16))
    launch(LOAD, middle, result, np.int32(16))
    with pytest.raises(UninitialisedRead, match="'middle' byte 64"):
        launch(LOAD, middle, result, np.int32(17))
    assert middle.initialised().tolist() == [True] * 16 + [False] * 16
    assert middle.unwritten() == 64
    assert middle.unwritten(0, 64) == 0


def test_host_writes_count_as_written():
    middle, result = Buffer.empty(32, np.float32, name="middle"), Buffer.empty(32, np.float32)
    middle.set(np.ones(20, np.float32), offset=4)
    assert middle.unwritten() == 48
    with pytest.raises(UninitialisedRead, match="byte 0,"):
        launch(LOAD, middle, result, np.int32(21))
    middle.set(np.ones(1, np.float32))
    launch(LOAD, middle, result, np.int32(21))
    with pytest.raises(UninitialisedRead, match="byte 84"):
        launch(LOAD, middle, result, np.int32(22))
    with pytest.raises(ValueError, match="do not fit"):
        middle.set(np.ones(20, np.float32), offset=60)


def test_forgetting():
    middle, result = Buffer(normal(32), name="middle"), Buffer.empty(32, np.float32)
    middle.forget(40, 8)
    assert middle.unwritten() == 8
    with pytest.raises(UninitialisedRead, match="byte 40"):
        launch(LOAD, middle, result, np.int32(32))
    middle.forget()
    assert middle.unwritten() == 128
    launch(STORE, middle, np.int32(32))
    assert middle.unwritten() == 0


def test_copying_keeps_what_is_not_written():
    source = Buffer.empty(32, np.float32, name="source")
    launch(STORE, source, np.int32(10))
    target = Buffer(np.zeros(32, np.float32))
    target.copy_from(source, 64, offset=32, other_offset=16)
    assert target.get()[8:14].tolist() == [4, 5, 6, 7, 8, 9]
    assert target.unwritten() == 40
    assert target.unwritten(0, 56) == 0
    with pytest.raises(ValueError, match="do not fit"):
        target.copy_from(source, 128, offset=4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 70),
    st.lists(
        st.tuples(st.sampled_from(["set", "forget", "copy"]), st.integers(0, 70), st.integers(0, 70)),
        max_size=12,
    ),
)
def test_bookkeeping_agrees_with_a_model(size, steps):
    buffer, known = Buffer.empty(size, np.uint8), np.zeros(size, bool)
    other = Buffer(np.zeros(size, np.uint8))
    other.forget(size // 3, size // 4)
    other_known = other.initialised()
    for kind, at, count in steps:
        at = min(at, size)
        count = min(count, size - at)
        if kind == "set":
            buffer.set(np.zeros(count, np.uint8), at)
            known[at : at + count] = True
        elif kind == "forget":
            buffer.forget(at, count)
            known[at : at + count] = False
        else:
            buffer.copy_from(other, count, offset=at, other_offset=at)
            known[at : at + count] = other_known[at : at + count]
        assert buffer.initialised().tolist() == known.tolist()
        assert buffer.unwritten() == size - known.sum()


def test_memory_in_place():
    array = np.zeros(32, np.float32)
    buffer = Buffer.over(array, name="mine")
    launch(STORE, buffer, np.int32(32))
    assert (array == np.arange(32)).all()
    array[0] = 99
    assert buffer.get()[0] == 99
    with pytest.raises(OutOfBounds, match="buffer 'mine'"):
        launch(STORE, buffer, np.int32(64), block=64)
    with pytest.raises(ValueError, match="overlaps"):
        Buffer.over(array[4:])
    with pytest.raises(ValueError, match="contiguous"):
        Buffer.over(array[::2])
    del buffer
    gc.collect()
    Buffer.over(array[4:])


def test_parts_of_host_memory_in_place():
    array = np.zeros(100, np.float32)
    part = Buffer.over(array[1:33], name="part")
    launch(STORE, part, np.int32(32))
    assert (array[1:33] == np.arange(32)).all()
    assert array[33:].sum() == 0


def test_an_access_to_a_buffer_of_another_launch_is_a_fault():
    text = "__global__ void k(float* o, unsigned long long p) { *(float*)p = 1; }"
    stranger, result = Buffer(normal(4), name="stranger"), Buffer.empty(4, np.float32)
    with pytest.raises(OutOfBounds, match="'stranger', to which no argument"):
        launch(text, result, np.uint64(stranger.ptr))


def test_memory_is_given_back():
    gc.collect()
    before = runtime().coc_live_regions()
    buffers = [Buffer(normal(10)) for _ in range(100)]
    assert runtime().coc_live_regions() == before + 100
    buffers[0].free()
    buffers[0].free()
    with pytest.raises(ValueError, match="freed"):
        buffers[0].get()
    del buffers
    gc.collect()
    assert runtime().coc_live_regions() == before


def test_reused_memory_counts_as_unwritten():
    for _ in range(3):
        buffer = Buffer.empty(32, np.float32, name="again")
        with pytest.raises(UninitialisedRead):
            launch(LOAD, buffer, Buffer.empty(32, np.float32), np.int32(1))
        launch(STORE, buffer, np.int32(32))
        buffer.free()


def test_unwritten_memory_has_a_pattern():
    assert (Buffer.empty(8, np.uint8).get() == 0xA5).all()


def test_buffers_are_aligned_as_promised_and_no_better():
    for size in (1, 100, 5000):
        assert Buffer.empty(size, np.uint8).ptr % 512 == 256


def test_a_large_buffer_costs_little_until_used():
    buffer = Buffer.empty(1 << 20, np.float64)
    launch(STORE, buffer, np.int32(4))
    assert buffer.unwritten() == (1 << 23) - 16

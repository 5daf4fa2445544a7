# SPDX-License-Identifier: Apache-2.0
"""Bytes moved, per buffer: in all and distinct, exact for every width and order."""

from __future__ import annotations

import numpy as np
import pytest

from . import Buffer, Traffic
from .support import launch, normal, out

ORDERS = ["forward", "reverse", "shuffle"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 31, 1000])
def test_an_elementwise_kernel_moves_each_byte_once(n, order):
    text = """__global__ void k(const float* a, float* o, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) o[i] = a[i] * 2;
    }"""
    report = launch(text, Buffer(normal(n), name="a"), out(n), np.int32(n), grid=32, block=32, order=order)
    assert report.traffic == {
        "a": Traffic(read=4 * n, read_unique=4 * n),
        "out": Traffic(written=4 * n, written_unique=4 * n),
    }


@pytest.mark.parametrize("order", ORDERS)
def test_repeated_accesses_count_in_all_but_not_as_distinct(order):
    text = """__global__ void k(const float* a, float* o) {
      float v = 0;
      for (int i = 0; i < 100; i++) v += a[i];
      o[threadIdx.x % 8] = v * 0 + threadIdx.x / 8 * 0;
      atomicAdd(o + 8, v);
    }"""
    report = launch(
        text.replace("o[threadIdx.x % 8] =", "if (threadIdx.x < 8) o[threadIdx.x] ="),
        Buffer(normal(128), name="a"),
        Buffer(np.zeros(16, np.float32), name="out"),
        grid=1,
        block=64,
        order=order,
    )
    assert report.traffic["a"] == Traffic(read=64 * 400, read_unique=400)
    assert report.traffic["out"] == Traffic(written=32, atomic=64 * 4, written_unique=36)
    assert report.global_written == 32 + 256


def test_wide_and_narrow_accesses_of_one_buffer():
    """The shadow starts with the widest granule and is split where a narrower access comes."""
    text = """__global__ void k(char* p) {
      const int t = threadIdx.x;
      if (t < 2) reinterpret_cast<float4*>(p)[t] = make_float4(1, 2, 3, 4);
      __syncthreads();
      if (t < 4) reinterpret_cast<float*>(p)[t] += 1;
      __syncthreads();
      if (t < 2) reinterpret_cast<short*>(p)[t] = 5;
      __syncthreads();
      if (t == 0) p[33] = p[3];
    }"""
    buffer = Buffer.empty(40, np.uint8, name="p")
    report = launch(text, buffer)
    assert report.traffic["p"] == Traffic(read=16 + 1, written=32 + 16 + 4 + 1, read_unique=16, written_unique=33)
    assert buffer.unwritten() == 7
    assert np.flatnonzero(buffer.written()).tolist() == [*range(32), 33]


def test_loads_with_small_vectors_of_halves():
    text = """struct alignas(8) H4 { unsigned short v[4]; };
    __global__ void k(const unsigned short* a, unsigned short* o, int n) {
      for (int i = threadIdx.x; i < n / 4; i += blockDim.x)
        reinterpret_cast<H4*>(o)[i] = reinterpret_cast<const H4*>(a)[i];
      for (int i = n / 4 * 4 + threadIdx.x; i < n; i += blockDim.x) o[i] = a[i];
    }"""
    a = np.arange(1003, dtype=np.uint16)
    result = out(1003, np.uint16)
    report = launch(text, Buffer(a, name="a"), result, np.int32(1003))
    assert (result.get() == a).all()
    assert report.traffic["a"] == Traffic(read=2006, read_unique=2006)
    assert report.traffic["out"] == Traffic(written=2006, written_unique=2006)
    assert report.global_loads == 250 + 3


def test_each_launch_counts_anew():
    text = "__global__ void k(float* o) { o[threadIdx.x + 32 * blockIdx.x] = 1; }"
    buffer = out(64)
    for grid in (2, 1, 2):
        assert launch(text, buffer, grid=grid).traffic["out"].written_unique == 128 * grid
    launch(text, buffer, grid=1)
    assert buffer.written().tolist() == [True] * 32 + [False] * 32
    assert buffer.initialised().all()


def test_same_names_are_told_apart_and_untouched_buffers_listed():
    text = "__global__ void k(const float* a, const float* b, float* o) { o[0] = a[0]; }"
    report = launch(text, Buffer(normal(4), name="x"), Buffer(normal(4), name="x"), out(), block=1)
    assert set(report.traffic) == {"x", "x#2", "out"}
    assert report.traffic["x#2"] == Traffic()


def test_one_buffer_for_two_parameters_counts_once():
    text = "__global__ void k(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] + 1; }"
    buffer = Buffer(np.zeros(32, np.float32), name="x")
    report = launch(text, buffer, buffer)
    assert report.traffic == {"x": Traffic(read=128, written=128, read_unique=128, written_unique=128)}

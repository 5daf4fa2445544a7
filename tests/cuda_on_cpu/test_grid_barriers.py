# SPDX-License-Identifier: Apache-2.0
"""Blocks that live at once: cooperative launches, barriers of the grid and of a part of a block, waiting by flags."""

from __future__ import annotations

import numpy as np
import pytest

from . import (
    BadLaunch,
    BarrierFault,
    Buffer,
    Hang,
    Race,
    UninitialisedRead,
)
from .support import GROUPS, ORDERS, launch, normal, out

# Sum of all elements: blocks leave partial sums, a grid barrier, every block adds them all up.
GRID_SUM = (
    GROUPS
    + """
__global__ void k(const float* x, float* part, float* o, int n) {
  __shared__ float s[64];
  cg::grid_group grid = cg::this_grid();
  float v = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) v += x[i];
  s[threadIdx.x] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0;
    for (int i = 0; i < 64; i++) t += s[i];
    part[blockIdx.x] = t;
  }
  grid.sync();
  float total = 0;
  for (int b = 0; b < gridDim.x; b++) total += part[b];
  if (threadIdx.x == 0) o[blockIdx.x] = total;
}"""
)


def grid_sum(text: str = GRID_SUM, blocks: int = 6, **how):
    x = np.arange(1000, dtype=np.float32)
    part, result = Buffer.empty(blocks, np.float32, name="part"), out(blocks)
    how.setdefault("cooperative", True)
    report = launch(text, Buffer(x, name="x"), part, result, np.int32(x.size), grid=blocks, block=64, **how)
    assert (result.get() == x.sum()).all()
    return report


@pytest.mark.parametrize("order", ORDERS)
def test_a_grid_barrier_orders_all_blocks(order):
    assert grid_sum(order=order).grid_barriers == 1
    grid_sum(order=order, check=False)


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_grid_barrier_is_a_race(order):
    with pytest.raises((Race, UninitialisedRead), match="'part'"):
        grid_sum(GRID_SUM.replace("grid.sync();", "__syncthreads();"), order=order)


def test_grid_barriers_need_a_cooperative_launch():
    with pytest.raises(BarrierFault, match="not cooperative"):
        grid_sum(cooperative=False)


def test_a_grid_barrier_that_a_block_misses():
    text = GROUPS + "__global__ void k() { if (blockIdx.x == 2) return; cg::this_grid().sync(); }"
    with pytest.raises(BarrierFault, match=r"grid barrier not reached by all blocks.*block \(2,0,0\)"):
        launch(text, grid=4, cooperative=True)
    text = GROUPS + "__global__ void k() { if (threadIdx.x == 2) return; cg::this_grid().sync(); }"
    with pytest.raises(BarrierFault, match="grid barrier not reached by all threads"):
        launch(text, grid=4, cooperative=True)
    text = (
        GROUPS
        + """__global__ void k() {
      if (threadIdx.x < 16) cg::this_grid().sync();
      else __syncthreads();
    }"""
    )
    with pytest.raises(BarrierFault, match="divergent barrier"):
        launch(text, grid=4, cooperative=True)
    text = (
        GROUPS
        + """__global__ void k() {
      if (blockIdx.x == 0) cg::this_grid().sync();
      else
        cg::this_grid().sync();
    }"""
    )
    with pytest.raises(BarrierFault, match="divergent grid barrier"):
        launch(text, grid=4, cooperative=True)


def test_each_live_block_has_its_own_shared_memory():
    text = (
        GROUPS
        + """__global__ void k(int* o) {
      __shared__ int a[32];
      extern __shared__ int d[];
      a[threadIdx.x] = blockIdx.x; d[threadIdx.x] = -(int)blockIdx.x;
      for (int i = 0; i < 3; i++) cg::this_grid().sync();
      o[blockIdx.x * 32 + threadIdx.x] = a[31 - threadIdx.x] * 1000 + d[31 - threadIdx.x];
    }"""
    )
    result = out((20, 32), np.int32)
    report = launch(text, result, grid=20, shared_mem=128, cooperative=True)
    assert (result.get() == np.arange(20)[:, None] * 999).all()
    assert report.grid_barriers == 3


def test_writes_after_a_grid_barrier_may_reuse_what_was_read_before_it():
    text = (
        GROUPS
        + """__global__ void k(float* a) {
      const int i = blockIdx.x * 32 + threadIdx.x, n = gridDim.x * 32;
      for (int step = 0; step < 4; step++) {
        float v = a[(i + 1) % n];
        cg::this_grid().sync();
        a[i] = v;
        SECOND
      }
    }"""
    )
    x = normal(96)
    buffer = Buffer(x, name="a")
    sync = "cg::this_grid().sync();"
    for order in ORDERS:
        launch(text.replace("SECOND", sync), buffer, grid=3, cooperative=True, order=order)
    assert (buffer.get() == np.roll(x, -12)).all()
    with pytest.raises(Race):
        launch(text.replace("SECOND", ""), buffer, grid=3, cooperative=True)


# ------------------------------------------------------------------------------------- clusters
# Each block of a cluster of 4 adds up all blocks' values through distributed shared memory.
# ------------------------------------------------------------------- waiting by atomics and flags
SPIN_BARRIER = """
__device__ void barrier(unsigned* count, unsigned target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(count, 1u);
    WAIT
    __threadfence();
  }
  __syncthreads();
}
__global__ void k(float* a, unsigned* count, float* o) {
  const int i = blockIdx.x * 32 + threadIdx.x, n = gridDim.x * 32;
  a[i] = i;
  barrier(count, gridDim.x);
  float v = a[(i + 32) % n];
  barrier(count, 2 * gridDim.x);
  a[i] = v;
  o[i] = v;
}"""
WAITS = {
    "atomic": "while (atomicAdd(count, 0u) < target);",
    "volatile": "while (*(volatile unsigned*)count < target);",
    "sleep": "while (*(volatile unsigned*)count < target) __nanosleep(20);",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("wait", WAITS)
def test_a_hand_written_grid_barrier(wait, order):
    count = Buffer(np.zeros(1, np.uint32), name="count")
    result = out(128)
    text = SPIN_BARRIER.replace("WAIT", WAITS[wait])
    launch(
        text,
        Buffer.empty(128, np.float32, name="a"),
        count,
        result,
        grid=4,
        cooperative=True,
        order=order,
    )
    assert (result.get() == np.roll(np.arange(128), -32)).all()


def test_a_hand_written_grid_barrier_without_its_fence_is_a_race():
    text = SPIN_BARRIER.replace("WAIT", WAITS["atomic"]).replace("__threadfence();\n    atomicAdd", "atomicAdd")
    with pytest.raises(Race, match="global memory 'a'"):
        launch(
            text,
            Buffer.empty(128, np.float32, name="a"),
            Buffer(np.zeros(1, np.uint32)),
            out(128),
            grid=4,
            cooperative=True,
        )


def test_waiting_for_another_block_needs_a_cooperative_launch():
    text = SPIN_BARRIER.replace("WAIT", WAITS["atomic"])
    with pytest.raises(Hang, match="not cooperative"):
        launch(
            text,
            Buffer.empty(128, np.float32, name="a"),
            Buffer(np.zeros(1, np.uint32)),
            out(128),
            grid=4,
            timeout=0.2,
        )


def test_a_spin_lock():
    text = """__global__ void k(int* lock, int* total) {
      bool done = false;
      while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
          __threadfence();
          *total = *total + 1;
          __threadfence();
          atomicExch(lock, 0);
          done = true;
        }
      }
    }"""
    for order in ORDERS:
        total = Buffer(np.zeros(1, np.int32), name="total")
        launch(
            text,
            Buffer(np.zeros(1, np.int32)),
            total,
            grid=3,
            block=64,
            cooperative=True,
            order=order,
        )
        assert total.get()[0] == 192


def test_many_live_threads():
    text = (
        GROUPS
        + """__global__ void k(int* o) {
      cg::this_grid().sync();
      o[cg::this_grid().thread_rank()] = 1;
    }"""
    )
    result = out(65536, np.int32)
    launch(text, result, grid=256, block=256, cooperative=True)
    assert (result.get() == 1).all()
    with pytest.raises(BadLaunch, match="live at once"):
        launch(text, result, grid=257, block=256, cooperative=True)


# ---------------------------------------------------------------------------- barriers of a part
# The first 64 of 128 threads pass values on to each other; the others have nothing to do with it.
PART = """
__global__ void k(float* o) {
  __shared__ float s[64];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = threadIdx.x;
    asm volatile("bar.sync 1, %0;" : : "n"(64) : "memory");
    o[threadIdx.x] = s[63 - threadIdx.x];
  }
  __syncthreads();
  if (threadIdx.x >= 64) o[threadIdx.x] = s[threadIdx.x - 64];
}"""


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_of_the_first_threads(order):
    result = out(128)
    assert launch(PART, result, block=128, order=order).barriers == 2
    assert (result.get() == [*range(63, -1, -1), *range(64)]).all()
    launch(PART, out(128), block=128, order=order, check=False)


PART_DEFECTS = {
    'asm volatile("bar.sync 1, %0;" : : "n"(64) : "memory");': ("", (Race, UninitialisedRead), "shared memory 's'"),
    "__syncthreads();": ("", (Race, UninitialisedRead), "shared memory 's'"),
    '"n"(64)': ('"n"(32)', BarrierFault, "barrier 1 of 32 threads in a block of 128"),
    '"n"(64) ': ('"n"(48)', BarrierFault, "whole warps"),
    '"n"(64) : ': ('"n"(96) : ', BarrierFault, "divergent barrier: .* at a barrier .* of a part of the block"),
    "  if (threadIdx.x < 64) {": ("if (threadIdx.x < 32) {", BarrierFault, "divergent barrier"),
    "    o[threadIdx.x] = s[63": ("s[(threadIdx.x + 1) % 64] = 0; o[threadIdx.x] = s[63", Race, "shared memory 's'"),
}


@pytest.mark.parametrize("line", PART_DEFECTS)
@pytest.mark.parametrize("order", ORDERS)
def test_defects_around_a_barrier_of_the_first_threads(line, order):
    new, fault, words = PART_DEFECTS[line]
    with pytest.raises(fault, match=words):
        launch(PART.replace(line, new), out(128), block=128, order=order)


def test_a_barrier_that_some_of_the_first_threads_leave_out():
    text = PART.replace("s[threadIdx.x] = threadIdx.x;", "if (threadIdx.x == 5) return; s[threadIdx.x] = 1;")
    with pytest.raises(BarrierFault, match="not reached by all threads|divergent barrier"):
        launch(text, out(128), block=128)


def test_barriers_of_different_parts_do_not_meet():
    text = """__global__ void k() {
      if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;" ::: "memory");
      else asm volatile("bar.sync 1, 64;" ::: "memory");
    }"""
    with pytest.raises(BarrierFault, match="barrier of a part of the block not reached by all threads"):
        launch(text, block=64)
    text = text.replace("1, 32;", "2, 64;")
    with pytest.raises(BarrierFault, match="divergent barrier of a part of the block: .* line 2, .* line 3"):
        launch(text, block=64)


def test_bar_sync_of_all_threads_is_syncthreads():
    text = PART.replace("__syncthreads();", 'asm volatile("bar.sync 0;" ::: "memory");')
    assert launch(text, out(128), block=128).barriers == 2

# SPDX-License-Identifier: Apache-2.0
"""Blocks that live at once: cooperative launches with grid barriers, and clusters."""

from __future__ import annotations

import re

import numpy as np
import pytest

from . import (
    BadLaunch,
    BarrierFault,
    Buffer,
    Hang,
    OutOfBounds,
    Race,
    SharedLifetime,
    UninitialisedRead,
)
from .support import launch, normal, out

ORDERS = ["forward", "reverse", "shuffle"]
GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"

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
CLUSTER_SUM = (
    GROUPS
    + """
__global__ void k(const float* x, float* o) {
  __shared__ float mine[32];
  auto cluster = cg::this_cluster();
  mine[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  cluster.sync();  // first
  float v = 0;
  for (unsigned r = 0; r < cluster.num_blocks(); r++)
    v += cluster.map_shared_rank(mine, r)[threadIdx.x];
  o[blockIdx.x * 32 + threadIdx.x] = v + 1000 * cluster.block_rank();
  cluster.sync();  // second
}"""
)


def cluster_sum(text: str = CLUSTER_SUM, **how):
    x = np.round(normal(8, 32) * 8)
    result = out((8, 32))
    how.setdefault("cluster", 4)
    report = launch(text, Buffer(x, name="x"), result, grid=8, **how)
    sums = x.reshape(2, 4, 32).sum(1, keepdims=True) + np.arange(4)[None, :, None] * 1000
    assert (result.get() == np.broadcast_to(sums, (2, 4, 32)).reshape(8, 32)).all()
    return report


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cooperative", [False, True])
def test_distributed_shared_memory(order, cooperative):
    report = cluster_sum(order=order, cooperative=cooperative)
    assert report.cluster_barriers == 4
    assert report.shared_read == 8 * 32 * 4 * 4
    cluster_sum(order=order, cooperative=cooperative, check=False)


@pytest.mark.parametrize("order", ORDERS)
def test_access_before_the_other_block_has_started(order):
    with pytest.raises((SharedLifetime, Race, UninitialisedRead)) as caught:
        cluster_sum(CLUSTER_SUM.replace("cluster.sync();  // first", "__syncthreads();"), order=order)
    if order == "forward":
        assert isinstance(caught.value, SharedLifetime)
        assert "may not have started" in str(caught.value)


@pytest.mark.parametrize("order", ORDERS)
def test_access_that_the_other_block_may_not_outlive(order):
    message = "exits with no cluster barrier after the access|which has exited"
    with pytest.raises(SharedLifetime, match=message):
        cluster_sum(CLUSTER_SUM.replace("cluster.sync();  // second", ""), order=order)


def test_a_missing_barrier_between_uses_of_distributed_shared_memory_is_a_race():
    text = CLUSTER_SUM.replace("cluster.sync();  // second", "mine[threadIdx.x] = 0; cluster.sync();")
    for order in ORDERS:
        with pytest.raises(Race, match="shared memory 'mine'"):
            cluster_sum(text, order=order)


def test_distributed_accesses_are_bounds_checked():
    with pytest.raises(OutOfBounds, match="overrun|past"):
        cluster_sum(CLUSTER_SUM.replace("(mine, r)[threadIdx.x]", "(mine, r)[threadIdx.x + 1]"))
    with pytest.raises(OutOfBounds, match="rank 4 of a cluster of 4"):
        cluster_sum(CLUSTER_SUM.replace("r < cluster", "r <= cluster"))
    text = CLUSTER_SUM.replace("map_shared_rank(mine, r)", "map_shared_rank((float*)x, r)")
    with pytest.raises(OutOfBounds, match="not the block's shared memory"):
        cluster_sum(text)


def test_shared_memory_of_another_cluster_is_out_of_reach():
    text = (
        GROUPS
        + """__global__ void k(float** p, float* o) {
      __shared__ float s[32];
      s[threadIdx.x] = 1;
      if (blockIdx.x == 0 && threadIdx.x == 0) *p = s;
      cg::this_grid().sync();
      o[blockIdx.x * 32 + threadIdx.x] = (*p)[threadIdx.x];
      cg::this_grid().sync();
    }"""
    )
    with pytest.raises(OutOfBounds, match="not in its cluster"):
        launch(text, Buffer.empty(1, np.uint64), out(), grid=2, cooperative=True)


def test_cluster_dimensions():
    text = (
        GROUPS
        + """__global__ void __cluster_dims__(2, 2, 1) k(unsigned* o) {
      auto c = cg::this_cluster();
      if (threadIdx.x) return;
      unsigned* row = o + 4 * (blockIdx.x + gridDim.x * blockIdx.y);
      row[0] = c.block_rank(); row[1] = c.num_blocks(); row[2] = c.block_index().x;
      row[3] = c.block_index().y * 10 + c.dim_blocks().y;
    }"""
    )
    result = Buffer.empty((4, 4, 4), np.uint32)
    launch(text, result, grid=(4, 4))
    y, x = np.mgrid[:4, :4]
    assert (result.get()[..., 0] == y % 2 * 2 + x % 2).all()
    assert (result.get()[..., 1] == 4).all()
    assert (result.get()[..., 2] == x % 2).all()
    assert (result.get()[..., 3] == y % 2 * 10 + 2).all()
    with pytest.raises(BadLaunch, match="no multiple of the cluster"):
        launch(text, result, grid=(3, 4))


def test_a_cluster_barrier_that_a_block_misses():
    text = GROUPS + "__global__ void k() { if (blockIdx.x == 3) return; cg::this_cluster().sync(); }"
    with pytest.raises(BarrierFault, match=r"cluster barrier not reached by all blocks.*\(3,0,0\)"):
        launch(text, grid=8, cluster=2)


# The same by instructions: the barrier's two halves at once, and the address in another block.
PTX_CLUSTER_SUM = """
__device__ void together() {
  asm volatile("barrier.cluster.arrive.aligned;\\n\\tbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ const float* in_block(const float* p, unsigned rank) {
  unsigned long long at;
  asm("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"(p), "r"(rank));
  return (const float*)at;
}
__global__ void __launch_bounds__(32) __cluster_dims__(4, 1, 1) k(const float* x, float* o) {
  __shared__ float mine[32];
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  mine[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  together();  // first
  float v = 0;
  for (unsigned r = 0; r < 4; r++) v += in_block(mine, r)[threadIdx.x];
  o[blockIdx.x * 32 + threadIdx.x] = v + 1000 * rank;
  together();  // second
}"""


@pytest.mark.parametrize("order", ORDERS)
def test_clusters_by_instructions(order):
    report = cluster_sum(PTX_CLUSTER_SUM, order=order, cluster=None)
    assert report.cluster_barriers == 4
    with pytest.raises((SharedLifetime, Race, UninitialisedRead)):
        cluster_sum(PTX_CLUSTER_SUM.replace("together();  // first", "__syncthreads();"), order=order, cluster=None)
    with pytest.raises(SharedLifetime):
        cluster_sum(PTX_CLUSTER_SUM.replace("together();  // second", ""), order=order, cluster=None)
    with pytest.raises(OutOfBounds, match="rank 4 of a cluster of 4"):
        cluster_sum(PTX_CLUSTER_SUM.replace("r < 4", "r <= 4"), order=order, cluster=None)


# The two halves apart: work that concerns nobody else lies between them, and the last waits for no store.
SPLIT_CLUSTER_SUM = PTX_CLUSTER_SUM.replace(
    "  together();  // first",
    """  ARRIVE("barrier.cluster.arrive.release.aligned;")  // first
  o[blockIdx.x * 32 + threadIdx.x] = 0;
  WAIT  // first""",
).replace(
    """  o[blockIdx.x * 32 + threadIdx.x] = v + 1000 * rank;
  together();  // second""",
    """  ARRIVE("barrier.cluster.arrive.relaxed.aligned;")  // second
  o[blockIdx.x * 32 + threadIdx.x] = v + 1000 * rank;
  WAIT  // second""",
)


def split_cluster_sum(*changes, **how):
    text = SPLIT_CLUSTER_SUM
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    text = text.replace("WAIT", 'asm volatile("barrier.cluster.wait.aligned;" ::: "memory");')
    return cluster_sum(re.sub(r'ARRIVE\((".*?")\)', r'asm volatile(\1 ::: "memory");', text), cluster=None, **how)


@pytest.mark.parametrize("order", ORDERS)
def test_a_cluster_barrier_in_two_halves(order):
    assert split_cluster_sum(order=order).cluster_barriers == 4
    assert split_cluster_sum(order=order, check=False).cluster_barriers == 4


FIRST_ARRIVAL = 'ARRIVE("barrier.cluster.arrive.release.aligned;")  // first'
SECOND_ARRIVAL = '  ARRIVE("barrier.cluster.arrive.relaxed.aligned;")  // second\n'
SUM = "  for (unsigned r = 0; r < 4; r++)"
UNORDERED = (Race, UninitialisedRead)
SPLIT_DEFECTS = {
    "an arrival that releases nothing": ([("release", "relaxed")], UNORDERED, "'mine'"),
    "a write behind the arrival": (
        [("  o[blockIdx.x * 32 + threadIdx.x] = 0;", "  mine[threadIdx.x] = 1;")],
        Race,
        "'mine'",
    ),
    "a read before the wait": (
        [("o[blockIdx.x * 32 + threadIdx.x] = 0;", "o[0] = in_block(mine, rank ^ 1)[threadIdx.x];")],
        (SharedLifetime, *UNORDERED),
        "'mine'|may not have started",
    ),
    "a read behind the last arrival": (
        [(SECOND_ARRIVAL, ""), (SUM, SECOND_ARRIVAL + SUM)],
        SharedLifetime,
        "exits with no cluster barrier after the access|which has exited",
    ),
    "a relaxed arrival orders no later write": (
        [("  WAIT  // second", "  WAIT mine[threadIdx.x] = 0; together();")],
        Race,
        "'mine'",
    ),
    "no arrival": ([(SECOND_ARRIVAL, "")], BarrierFault, "waits at the cluster barrier without having arrived"),
    "no wait": ([("  WAIT  // second", "")], BarrierFault, "returns without waiting at the cluster barrier"),
    "two arrivals": ([("  WAIT  // first", "")], (BarrierFault, SharedLifetime, *UNORDERED), "."),
    "two arrivals at once": (
        [(FIRST_ARRIVAL, FIRST_ARRIVAL + "\n" + SECOND_ARRIVAL)],
        BarrierFault,
        "arrives at the cluster barrier again without having waited",
    ),
    "a block that does not arrive": (
        [(FIRST_ARRIVAL, "if (rank == 2) return; " + FIRST_ARRIVAL)],
        BarrierFault,
        r"cluster barrier not reached by all blocks.*but block \([26],0,0\) has already returned",
    ),
    "a thread that does not arrive": (
        [(FIRST_ARRIVAL, "if (threadIdx.x == 9) return; " + FIRST_ARRIVAL)],
        BarrierFault,
        "cluster barrier not reached by all threads: 31 of 32",
    ),
    "threads that arrive elsewhere": (
        [(FIRST_ARRIVAL, "if (threadIdx.x == 9)\n" + FIRST_ARRIVAL + "\nelse " + FIRST_ARRIVAL)],
        BarrierFault,
        "divergent cluster barrier: .* arrives at line",
    ),
    "threads that wait elsewhere": (
        [("  WAIT  // first", "if (threadIdx.x == 9)\n WAIT\n else WAIT")],
        BarrierFault,
        "divergent cluster barrier: .* waits at line",
    ),
    "a barrier of the block that some wait for": (
        [("  WAIT  // first", "if (rank == 2) __syncthreads(); if (rank == 2 && threadIdx.x == 9) return; WAIT")],
        BarrierFault,
        "returns without waiting|not reached",
    ),
}


@pytest.mark.parametrize("what", SPLIT_DEFECTS)
@pytest.mark.parametrize("order", ORDERS)
def test_defects_around_a_cluster_barrier_in_two_halves(what, order):
    changes, faults, words = SPLIT_DEFECTS[what]
    with pytest.raises(faults, match=words):
        split_cluster_sum(*changes, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_warps_may_be_at_different_halves(order):
    """A warp passes the wait while another one still works behind its arrival."""
    text = """
    __global__ void __launch_bounds__(64) __cluster_dims__(2, 1, 1) k(float* o) {
      __shared__ float s[64];
      asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
      if (threadIdx.x < 32) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
      s[threadIdx.x] = threadIdx.x;
      __syncthreads();
      o[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
      if (threadIdx.x >= 32) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    }"""
    result = out(128)
    assert launch(text, result, grid=2, block=64, order=order).cluster_barriers == 1
    assert (result.get() == [*range(63, -1, -1)] * 2).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_cluster_barrier_orders_global_memory(order):
    """That of its blocks' threads; of other clusters nothing is known."""
    text = """
    __global__ void __launch_bounds__(32) __cluster_dims__(2, 1, 1) k(float* a, float* o) {
      a[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
      asm volatile("barrier.cluster.arrive.ORDER.aligned;" ::: "memory");
      asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
      o[blockIdx.x * 32 + threadIdx.x] = a[(blockIdx.x ^ OTHER) * 32 + threadIdx.x];
    }"""
    for arrival, other, ordered in (("release", 1, True), ("relaxed", 1, False), ("release", 2, False)):
        result = out(128)
        changed = text.replace("ORDER", arrival).replace("OTHER", str(other))
        how = {"grid": 4, "cooperative": True, "order": order}
        if ordered:
            launch(changed, Buffer.empty(128, np.float32, name="a"), result, **how)
            assert (result.get() == np.repeat([1, 0, 3, 2], 32)).all()
            continue
        with pytest.raises(UNORDERED, match="'a'"):
            launch(changed, Buffer.empty(128, np.float32, name="a"), result, **how)


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

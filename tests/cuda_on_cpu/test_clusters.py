# SPDX-License-Identifier: Apache-2.0
"""Clusters of blocks: distributed shared memory and barriers, whole and in halves."""

from __future__ import annotations

import re

import numpy as np
import pytest

from . import (
    BadLaunch,
    BarrierFault,
    Buffer,
    OutOfBounds,
    Race,
    SharedLifetime,
    UninitialisedRead,
)
from .support import GROUPS, ORDERS, launch, normal, out

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

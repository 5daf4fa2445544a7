# SPDX-License-Identifier: Apache-2.0
"""Random programs of accesses and barriers: a race is reported exactly where a model says so.

The kernel interprets a table of accesses. Four threads take part, two in each of two warps or two
in each of two blocks; the model knows which barriers lie between two accesses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import Buffer, Module, Race

CELLS = 3
KERNEL = """
#include <cooperative_groups.h>
__global__ void k(const int* program, float* global_cells, int* barriers, int steps, float* sink) {
  __shared__ float shared_cells[3];
  float* const cells = WHERE;
  const int actor = ACTOR;
  float sum = 0;
  for (int s = 0; s < steps; s++) {
    for (int k = 0; k < 2 && actor >= 0; k++) {
      const int op = program[(s * 4 + actor) * 2 + k];
      if (op < 0) continue;
      if (op % 2) cells[op / 2] = s;
      else sum += cells[op / 2];
    }
    if (barriers[s] == 0) __syncwarp();
    if (barriers[s] == 1) __syncthreads();
    if (barriers[s] == 2) cooperative_groups::this_grid().sync();
  }
  sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
# two lanes of each of two warps; the first lane of each of two warps of two blocks
IN_BLOCK = "(threadIdx.x % 32 < 2 ? threadIdx.x / 32 * 2 + threadIdx.x % 32 : -1)"
IN_GRID = "(threadIdx.x % 32 == 0 ? blockIdx.x * 2 + threadIdx.x / 32 : -1)"
NONE, WARP, BLOCK, GRID = -1, 0, 1, 2


@dataclass(frozen=True)
class Step:
    """What the four actors access (cell * 2 + writes, -1 for nothing), and the barrier after it."""

    ops: tuple[tuple[int, int], ...]
    barrier: int


def steps(barriers: list[int]) -> st.SearchStrategy[list[Step]]:
    op = st.integers(-4, 2 * CELLS - 1).map(lambda v: max(v, -1))
    ops = st.tuples(*[st.tuples(op, op)] * 4)
    return st.lists(st.builds(Step, ops, st.sampled_from(barriers)), min_size=1, max_size=5)


def has_race(program: list[Step], needed: np.ndarray) -> bool:
    """needed[a, b]: the least barrier that orders accesses of actors a and b."""
    accesses = [
        (s, actor, op) for s, step in enumerate(program) for actor, ops in enumerate(step.ops) for op in ops if op >= 0
    ]
    for (s, a, x), (t, b, y) in itertools.combinations(accesses, 2):
        if a == b or x // 2 != y // 2 or not (x % 2 or y % 2):
            continue
        between = [step.barrier for step in program[s:t]]
        if max(between, default=NONE) < needed[a, b]:
            return True
    return False


def reports_race(module: Module, program: list[Step], blocks: int, order: str, cooperative: bool | None = None) -> bool:
    table = Buffer(np.array([s.ops for s in program], np.int32), name="program")
    barriers = Buffer(np.array([s.barrier for s in program], np.int32), name="barriers")
    cells = Buffer(np.zeros(CELLS, np.float32), name="cells")
    sink = Buffer.empty(64 * blocks, np.float32, name="sink")
    args = (table, cells, barriers, np.int32(len(program)), sink)
    try:
        module["k"](
            blocks,
            64,
            args,
            order=order,
            seed=1,
            cooperative=blocks > 1 if cooperative is None else cooperative,
            uninit=False,
        )
    except Race:
        return True
    return False


@pytest.mark.parametrize("where", ["shared_cells", "global_cells"])
@settings(max_examples=150, deadline=None)
@given(program=steps([NONE, WARP, BLOCK]))
def test_races_within_a_block(where, program):
    module = Module(KERNEL.replace("WHERE", where).replace("ACTOR", IN_BLOCK))
    needed = np.full((4, 4), BLOCK)
    needed[0, 1] = needed[1, 0] = needed[2, 3] = needed[3, 2] = WARP
    expected = has_race(program, needed)
    for order in ("forward", "reverse", "shuffle"):
        assert reports_race(module, program, 1, order) == expected


@settings(max_examples=150, deadline=None)
@given(program=steps([NONE, WARP, BLOCK, GRID]))
def test_races_between_blocks(program):
    module = Module(KERNEL.replace("WHERE", "global_cells").replace("ACTOR", IN_GRID))
    needed = np.full((4, 4), GRID)
    needed[0, 1] = needed[1, 0] = needed[2, 3] = needed[3, 2] = BLOCK
    expected = has_race(program, needed)
    for order in ("forward", "reverse", "shuffle"):
        assert reports_race(module, program, 2, order) == expected


# The two halves of a cluster's barrier, whose arrival may release or not. Steps end with an arrival and a wait; each
# actor accesses something before the arrival, between it and the wait, and the next step's first accesses lie behind.
SPLIT_KERNEL = """
__global__ void __cluster_dims__(2, 1, 1) k(const int* program, float* cells, const int* releases, int steps, float* sink) {
  const int actor = threadIdx.x % 32 == 0 ? blockIdx.x * 2 + threadIdx.x / 32 : -1;
  float sum = 0;
  for (int s = 0; s < steps; s++) {
    for (int k = 0; k < 2; k++) {
      const int op = actor < 0 ? -1 : program[(s * 4 + actor) * 2 + k];
      if (op >= 0 && op % 2) cells[op / 2] = s;
      else if (op >= 0) sum += cells[op / 2];
      if (k == 0) {
        if (releases[s]) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        else asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
      } else {
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
      }
    }
  }
  sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def has_split_race(program: list[Step]) -> bool:
    """Accesses of step s before its arrival lie before the wait of s, those behind it before that of the next release."""
    accesses = [
        (s, k, actor, op)
        for s, step in enumerate(program)
        for actor, ops in enumerate(step.ops)
        for k, op in enumerate(ops)
    ]
    for (s, i, a, x), (t, j, b, y) in itertools.permutations(accesses, 2):
        if a >= b or min(x, y) < 0 or x // 2 != y // 2 or not (x % 2 or y % 2):
            continue
        (first, half), last = ((s, i), t) if (s, i) <= (t, j) else ((t, j), s)
        if not any(program[p].barrier for p in range(first + half, last)):
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(program=steps([0, 1]))
def test_races_around_a_cluster_barrier_in_two_halves(program):
    module = Module(SPLIT_KERNEL)
    expected = has_split_race(program)
    for order in ("forward", "reverse", "shuffle"):
        assert reports_race(module, program, 2, order, cooperative=False) == expected

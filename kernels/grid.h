// SPDX-License-Identifier: Apache-2.0
// Several steps in one kernel: all blocks wait for each other, and steps take turns with shared memory.
#pragma once

namespace hg {

// Wait until every block of a cooperative launch is here. What was written before is seen behind, by ordinary loads.
//
// `arrived` counts in its lower bits and turns its top bit when the last block arrives, which brings the count back to
// zero: the next barrier, of this launch or another one with any number of blocks, finds it ready. Launches that use the
// same word run one after the other. It is zero before the first.
HG_DEVICE void grid_sync(unsigned int* const arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned int turn = 0x80000000u;
    __threadfence();  // the block's writes are seen before its arrival
    const unsigned int before = atomicAdd(arrived, blockIdx.x == 0 ? turn - (gridDim.x - 1) : 1u);
    while (((before ^ *(volatile unsigned int*)arrived) & turn) == 0) {
    }
    __threadfence();  // the others' arrivals are seen before their writes are read
  }
  __syncthreads();
}

// Wait for the first N threads of the block, which are whole warps or part of one: others are not in this step.
template <int N>
HG_DEVICE void sync_first() {
  if constexpr (N < 32) {
    __syncwarp((1u << N) - 1);
  } else {
    asm volatile("bar.sync 1, %0;" : : "n"(N) : "memory");
  }
}

// The largest of some sizes.
constexpr unsigned int largest(unsigned int a) { return a; }
template <typename... Sizes>
constexpr unsigned int largest(unsigned int a, Sizes... sizes) {
  return a > largest(sizes...) ? a : largest(sizes...);
}

}  // namespace hg

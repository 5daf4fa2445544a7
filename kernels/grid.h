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
  const unsigned int turn = 0x80000000u;
  unsigned int before = 0, now;
  // (the top bit cannot turn while this block is missing, so it is read early: nothing waits for an atomic's answer)
  if (threadIdx.x == 0) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(before) : "l"(arrived) : "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    // the release makes the block's writes seen before its arrival, the acquire others' arrivals before their writes are read
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" : : "l"(arrived), "r"(blockIdx.x == 0 ? turn - (gridDim.x - 1) : 1u) : "memory");
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    } while (((before ^ now) & turn) == 0);
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

// Fetch what lies from `p` on into the second-level cache, each line by one thread of the grid.
HG_DEVICE void prefetch(const void* const p, const long long bytes) {
  const long long line = 128;
  for (long long at = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * line; at < bytes; at += gridDim.x * (long long)blockDim.x * line)
    asm volatile("prefetch.global.L2 [%0];" : : "l"((const unsigned char*)p + at));
}

// Start copying into shared memory, by the first THREADS threads of the block. Both ends are multiples of 16 bytes.
template <int THREADS>
HG_DEVICE void copy_async(unsigned char* const to, const void* const from, const int bytes) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  if (THREADS < blockDim.x && threadIdx.x >= THREADS) return;
  for (int at = threadIdx.x * 16; at < bytes; at += THREADS * 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(place + at), "l"((const unsigned char*)from + at) : "memory");
}
// What the caller has started has arrived; other threads see it behind a barrier.
HG_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_all;" : : : "memory");
}

// The largest of some sizes.
constexpr unsigned int largest(unsigned int a) { return a; }
template <typename... Sizes>
constexpr unsigned int largest(unsigned int a, Sizes... sizes) {
  return a > largest(sizes...) ? a : largest(sizes...);
}

}  // namespace hg

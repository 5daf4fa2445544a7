// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks (sm_90 and later), which wait for each other and read each other's shared memory.
#pragma once

namespace hg {

HG_DEVICE int cluster_rank() {
  unsigned int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
// Arrival releases what was written before, waiting acquires it.
HG_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.aligned;" : : : "memory");
}
// An arrival that orders no memory, and so waits for no store. Where it says that the caller has read what it needs of other
// blocks, stores of what came of that have to stand before it: ptxas issues it while loads are under way, whose block may
// end then. (The releasing one waits for loads.)
HG_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}
HG_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
}
HG_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
// Where `p`, which lies in the caller's shared memory, is in the block of that rank.
template <typename T>
HG_DEVICE const T* in_block(const T* p, const int rank) {
  unsigned long long at;
  asm("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"(p), "r"(rank));
  return reinterpret_cast<const T*>(at);
}

}  // namespace hg

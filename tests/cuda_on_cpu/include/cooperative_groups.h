// SPDX-License-Identifier: Apache-2.0
// The commonly used part of cooperative groups: thread_block, tiles of 1 to 32 threads, reduce, the
// grid, the cluster with its distributed shared memory.
#pragma once

namespace cooperative_groups {

struct thread_block {
  static void sync(COC_LINE) { coc_barrier(0, 0, line); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
static inline thread_block this_thread_block() { return {}; }

struct grid_group {
  static void sync(COC_LINE) { coc_grid_barrier(line); }
  static bool is_valid() { return true; }
  static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  static unsigned long long size() { return num_blocks() * thread_block::size(); }
  static unsigned long long num_threads() { return size(); }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static dim3 block_index() { return dim3(blockIdx); }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
};
static inline grid_group this_grid() { return {}; }

struct cluster_group {
  static void sync(COC_LINE) { coc_cluster_barrier(line); }
  static void barrier_arrive(COC_LINE) { coc_cluster_arrive(1, line); }
  static void barrier_wait(COC_LINE) { coc_cluster_wait(line); }
  static dim3 dim_blocks() { return coc::to_dim3(coc_cluster_dim()); }
  static unsigned num_blocks() { return coc::ptx::cluster_blocks(); }
  static unsigned block_rank() { return coc_cluster_rank(); }
  static dim3 block_index() {
    const dim3 n = dim_blocks();
    return dim3(blockIdx.x % n.x, blockIdx.y % n.y, blockIdx.z % n.z);
  }
  static unsigned num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned size() { return num_threads(); }
  static unsigned thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  template <class T>
  static T* map_shared_rank(T* p, unsigned rank, COC_LINE) {
    return (T*)coc_map_shared((const void*)p, rank, line);
  }
};
static inline cluster_group this_cluster() { return {}; }

template <unsigned N, class P = void>
struct thread_block_tile {
  static_assert(N && N <= 32 && !(N & (N - 1)), "tiles of up to 32 threads");
  static unsigned lane() { return thread_block::thread_rank() & 31; }
  static unsigned mask() {
    return N == 32 ? 0xffffffffu : ((1u << (N & 31)) - 1) << (lane() & ~(N - 1));
  }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static unsigned thread_rank() { return lane() & (N - 1); }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  static void sync(COC_LINE) { coc_warp(coc::W_SYNC, mask(), 0, 0, 32, line); }
  template <class T>
  T shfl(T v, int source, COC_LINE) const {
    return __shfl_sync(mask(), v, source, (int)N, line);
  }
  template <class T>
  T shfl_down(T v, unsigned by, COC_LINE) const {
    return __shfl_down_sync(mask(), v, by, (int)N, line);
  }
  template <class T>
  T shfl_up(T v, unsigned by, COC_LINE) const {
    return __shfl_up_sync(mask(), v, by, (int)N, line);
  }
  template <class T>
  T shfl_xor(T v, int by, COC_LINE) const {
    return __shfl_xor_sync(mask(), v, by, (int)N, line);
  }
  bool any(int p, COC_LINE) const { return __any_sync(mask(), p, line); }
  bool all(int p, COC_LINE) const { return __all_sync(mask(), p, line); }
  unsigned ballot(int p, COC_LINE) const {
    return __ballot_sync(mask(), p, line) >> (lane() & ~(N - 1));
  }
};
template <unsigned N, class G>
static inline thread_block_tile<N, G> tiled_partition(const G&) {
  return {};
}

template <class G>
static inline void sync(const G& group, COC_LINE) {
  group.sync(line);
}

template <class T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class T>
struct less {
  T operator()(T a, T b) const { return a < b ? a : b; }
};
template <unsigned N, class P, class T, class Op>
static inline T reduce(const thread_block_tile<N, P>& group, T v, Op op, COC_LINE) {
  for (unsigned by = N / 2; by; by /= 2) v = op(v, group.shfl_xor(v, (int)by, line));
  return v;
}

}  // namespace cooperative_groups

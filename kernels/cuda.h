// SPDX-License-Identifier: Apache-2.0
// The CUDA target: macros that generated kernels are written in, wide memory access, grid loops.
#pragma once

#define HG_CUDA 1
#define HG_DEVICE static __device__ __forceinline__
#define HG_RESTRICT __restrict__
#define HG_METHOD __device__ __forceinline__
#define HG_UNROLL _Pragma("unroll")
// Without a number of blocks ptxas prefers to park a value in memory to a register more that costs a block, …
#define HG_BOUNDS(threads) __launch_bounds__(threads)
// … with a number it does not (backends/cuda/nvrtc.py asks for one where it did). …
#define HG_BOUNDS_FOR(threads, blocks) __launch_bounds__(threads, blocks)
// … One block for double precision, whose functions keep much at hand for rare operands.
#define HG_BOUNDS_WIDE(threads) HG_BOUNDS_FOR(threads, 1)

// Each index below n once, shared out over the grid.
#define HG_GRID(i, n)                                                                   \
  for (Index i = (Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x; i < (n);   \
       i += (Index)gridDim.x * (Index)blockDim.x)

// The same for a step of a kernel that holds several, which plays block ``block_at`` of ``block_count``.
#define HG_PART(i, n)                                                                  \
  for (Index i = (Index)block_at * (Index)blockDim.x + (Index)threadIdx.x; i < (n);    \
       i += (Index)block_count * (Index)blockDim.x)

// The same for several loops that share one grid; ``block`` of ``blocks`` is the one that begins the loop.
// Most blocks take one step: unrolling would only cost registers.
#define HG_SHARE(i, n)                                                            \
  _Pragma("unroll 1")                                                             \
  for (Index i = block * (Index)blockDim.x + (Index)threadIdx.x; i < (n);         \
       i += blocks * (Index)blockDim.x)

#include "core.h"

namespace hg {

// W neighbours that travel in one access of sizeof(T) * W bytes.
template <typename T, int W>
struct alignas(sizeof(T) * W) pack {
  T v[W];
};

template <int W, typename T>
HG_DEVICE pack<T, W> load(const T* p) {
  return *reinterpret_cast<const pack<T, W>*>(p);
}

template <typename T, int W>
HG_DEVICE void store(T* p, const pack<T, W>& value) {
  *reinterpret_cast<pack<T, W>*>(p) = value;
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// Reduction by a team of threads (part of a warp, a warp, a block, a cluster of blocks), and wide access to rows.
#pragma once

#include "cluster.h"

namespace hg {

// -- states from thread to thread

template <typename T>
HG_DEVICE T from_lane(const T value, const int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
HG_DEVICE bool from_lane(const bool value, const int distance) {
  return __shfl_xor_sync(0xffffffffu, (int)value, distance) != 0;
}
HG_DEVICE signed char from_lane(const signed char value, const int distance) {
  return (signed char)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
HG_DEVICE unsigned char from_lane(const unsigned char value, const int distance) {
  return (unsigned char)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
HG_DEVICE short from_lane(const short value, const int distance) {
  return (short)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
HG_DEVICE unsigned short from_lane(const unsigned short value, const int distance) {
  return (unsigned short)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}
template <typename T>
HG_DEVICE Found<T> from_lane(const Found<T> f, const int distance) {
  return Found<T>{from_lane(f.value, distance), from_lane(f.at, distance)};
}

// The state of LANES neighbouring threads (a power of two up to 32) in each of them, or of those among them that are STEP
// apart. All threads of the warp call this together, also those whose row does not exist.
template <typename Op, int LANES, int STEP = 1>
HG_DEVICE typename Op::State lanes_merge(typename Op::State s) {
  HG_UNROLL
  for (int d = LANES / 2; d >= STEP; d >>= 1) s = Op::merge(s, from_lane(s, d));
  return s;
}

// The state of the caller's team of WARPS warps, each of which has left its own in `part`; one of TEAMS of the block.
template <typename Op, int WARPS, int TEAMS>
HG_DEVICE typename Op::State warps_merge(const typename Op::State* part) {
  const int team = TEAMS > 1 ? threadIdx.x / (32 * WARPS) : 0;
  return lanes_merge<Op, WARPS>(part[team * WARPS + threadIdx.x % WARPS]);
}

// n, of which the compiler knows nothing: what follows from it is neither computed ahead of a loop nor kept for later.
HG_DEVICE int opaque(int n) {
  asm volatile("" : "+r"(n));
  return n;
}

// -- clusters of blocks

// The state of a cluster of BLOCKS blocks, each of whose WARPS warps have left theirs in `part`.
template <typename Op, int WARPS, int BLOCKS>
HG_DEVICE typename Op::State cluster_merge(const typename Op::State* part) {
  typename Op::State s = Op::start();
  for (int k = threadIdx.x % 32; k < WARPS * BLOCKS; k += 32) s = Op::merge(s, *in_block(part + k % WARPS, k / WARPS));
  return lanes_merge<Op, 32>(s);
}

// -- rows that lie side by side, ACROSS of them along a warp, whose other threads have the same ones again (32: none have)

// The state of the caller's row from those of WAYS, which lie STRIDE apart.
template <typename Op, int WAYS, int STRIDE, int ACROSS>
HG_DEVICE typename Op::State ways_merge(const typename Op::State* part) {
  const int first = threadIdx.x % 32 / ACROSS;
  typename Op::State s = Op::start();
#pragma unroll 2
  for (int k = first; k < WAYS; k += 32 / ACROSS) s = Op::merge(s, part[k * STRIDE]);
  return lanes_merge<Op, 32, ACROSS>(s);
}
// The same of a cluster of BLOCKS blocks, each of which has left its own in `part`.
template <typename Op, int BLOCKS, int ACROSS>
HG_DEVICE typename Op::State blocks_merge(const typename Op::State* part) {
  const int first = threadIdx.x % 32 / ACROSS;
  typename Op::State s = Op::start();
  HG_UNROLL
  for (int k = first; k < BLOCKS; k += 32 / ACROSS) s = Op::merge(s, *in_block(part, k));
  return lanes_merge<Op, 32, ACROSS>(s);
}

// -- wide access

// V neighbours. They travel in accesses of at most 16 bytes, which is what pointers are aligned to.
template <typename T, int V>
struct span {
  static constexpr int WIDE = sizeof(T) * V > 16 ? 16 / sizeof(T) : V;
  T v[V];
};

template <int V, typename T>
HG_DEVICE span<T, V> read(const T* p) {
  span<T, V> s;
  HG_UNROLL
  for (int i = 0; i < V; i += s.WIDE) {
    const pack<T, span<T, V>::WIDE> q = load<span<T, V>::WIDE>(p + i);
    HG_UNROLL
    for (int j = 0; j < s.WIDE; ++j) s.v[i + j] = q.v[j];
  }
  return s;
}

template <typename T, int V>
HG_DEVICE void write(T* p, const span<T, V>& s) {
  HG_UNROLL
  for (int i = 0; i < V; i += s.WIDE) {
    pack<T, span<T, V>::WIDE> q;
    HG_UNROLL
    for (int j = 0; j < s.WIDE; ++j) q.v[j] = s.v[i + j];
    store(p + i, q);
  }
}

// Of the V elements from `at` of a row of `width`, those that exist: `row + at` is aligned, `row` may not be.
template <int V, typename Index, typename T>
HG_DEVICE span<T, V> read_inside(const T* row, const Index at, const Index width) {
  if (at >= 0 && at + V <= width) return read<V>(row + at);
  span<T, V> s;
  HG_UNROLL
  for (int j = 0; j < V; ++j) s.v[j] = at + j >= 0 && at + j < width ? row[at + j] : T();
  return s;
}

template <typename Index, typename T, int V>
HG_DEVICE void write_inside(T* row, const Index at, const Index width, const span<T, V>& s) {
  if (at >= 0 && at + V <= width) {
    write(row + at, s);
    return;
  }
  HG_UNROLL
  for (int j = 0; j < V; ++j) {
    if (at + j >= 0 && at + j < width) row[at + j] = s.v[j];
  }
}

}  // namespace hg

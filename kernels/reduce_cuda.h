// SPDX-License-Identifier: Apache-2.0
// Reduction by a team of threads: part of a warp, a warp, or a whole block.
#pragma once

namespace hg {

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

// The state of the whole team in every thread of it. TEAM is a power of two; all threads of the
// block call this together, also those whose row does not exist.
template <typename Op, int TEAM, int THREADS>
HG_DEVICE typename Op::State team_merge(typename Op::State s) {
  typedef typename Op::State State;
  HG_UNROLL
  for (int d = (TEAM < 32 ? TEAM : 32) / 2; d; d >>= 1) s = Op::merge(s, from_lane(s, d));
  if (TEAM > 32) {
    __shared__ State part[THREADS / 32];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    const int first = threadIdx.x / TEAM * (TEAM / 32);
    s = part[first];
    HG_UNROLL
    for (int w = 1; w < TEAM / 32; ++w) s = Op::merge(s, part[first + w]);
    __syncthreads();  // part is used again by the next reduction
  }
  return s;
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// One element of a matrix product: by a warp (both operands contiguous along the sum) or by a thread.
#pragma once

namespace hg {

// The element that this thread's warp works on.
HG_DEVICE long long dots_element() { return (long long)blockIdx.x * 8 + threadIdx.x / 32; }

// The element that this thread works on; neighbours work on neighbouring columns.
HG_DEVICE long long axpy_element() { return (long long)blockIdx.x * 128 + threadIdx.x; }

// Sum over k of a[k] * b[k], by the 32 threads of a warp; every thread gets the result.
template <typename C, int K, int SA, int SB, typename T>
HG_DEVICE C dots(const T* a, const T* b) {
  C sum = 0;
  for (int k = threadIdx.x % 32; k < K; k += 32) sum = plus(sum, times((C)a[k], (C)b[k]));
  HG_UNROLL
  for (int d = 16; d; d >>= 1) sum = plus(sum, __shfl_xor_sync(0xffffffffu, sum, d));
  return sum;
}

// Sum over k of a[k * SA] * b[k * SB], by one thread.
template <typename C, int K, int SA, int SB, typename T>
HG_DEVICE C axpy(const T* a, const T* b) {
  C sum = 0;
  for (int k = 0; k < K; ++k) sum = plus(sum, times((C)a[(long long)k * SA], (C)b[(long long)k * SB]));
  return sum;
}

}  // namespace hg

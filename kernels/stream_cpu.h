// SPDX-License-Identifier: Apache-2.0
// Stores of the host target that go past the caches. A plain store first fetches the line that it is going to overwrite,
// and throws another one out of the cache.
#pragma once

// What a kernel reads and writes that has left the caches by the time that somebody reads it again: somewhat less than
// half a last-level cache of 32 MiB, as there are other arrays, and results of the call before.
#define HG_CACHED (14 << 20)

namespace hg {

#if defined(__AVX512F__)
#define HG_STREAM 64
#elif defined(__AVX__)
#define HG_STREAM 32
#elif defined(__SSE2__)
#define HG_STREAM 16
#endif

// Whether a kernel that reads and writes so many bytes stores past the caches.
HG_DEVICE bool exceeds_caches(const Index bytes) {
#ifdef HG_STREAM
  return bytes > HG_CACHED;
#else
  return false;
#endif
}

// Whether lines of memory begin at p.
HG_DEVICE bool aligned(const void* const p) { return (unsigned long long)p % 64 == 0; }

// Elements from p to where a line begins, if the lines from there on are stored past the caches; p lies on an element.
template <typename T>
HG_DEVICE Index unaligned_prefix(const T* const p, const bool nontemporal) {
  return nontemporal ? (Index)(-(unsigned long long)p % 64 / sizeof(T)) : 0;
}

// to[i] = from[i] for i < N, whole lines of aligned arrays; past the caches if `nontemporal`. Both ways read `from` by vectors,
// so that compilers need no memory for it.
template <int N, typename T>
HG_DEVICE void store_block(T* const to, const T* const from, const bool nontemporal) {
#ifdef HG_STREAM
  typedef float V __attribute__((vector_size(HG_STREAM), may_alias));
  typedef float U __attribute__((vector_size(HG_STREAM), may_alias, aligned(1)));
  const int lanes = HG_STREAM / sizeof(T);
  if (nontemporal) {
#pragma GCC unroll 64
    for (int i = 0; i < N; i += lanes) {
      const V v = *(const V*)(from + i);
#if defined(__clang__)
      __builtin_nontemporal_store(v, (V*)(to + i));
#elif defined(__AVX512F__)
      __builtin_ia32_movntps512((float*)(to + i), v);
#elif defined(__AVX__)
      __builtin_ia32_movntps256((float*)(to + i), v);
#else
      __builtin_ia32_movntps((float*)(to + i), v);
#endif
    }
    return;
  }
#pragma GCC unroll 64
  for (int i = 0; i < N; i += lanes) *(U*)(to + i) = *(const V*)(from + i);
#else
  __builtin_memcpy(to, from, N * sizeof(T));
#endif
}

// What was streamed comes before what is stored from now on.
HG_DEVICE void streaming_fence() {
#ifdef HG_STREAM
  __builtin_ia32_sfence();
#endif
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// Stores of the host target that go past the caches. A plain store first fetches the line that it is going to overwrite,
// and throws another one out of the cache.
#pragma once

// What is larger has left the caches by the time that somebody reads it: a last-level cache, or a core's share of it.
#define HG_CACHED (32 << 20)

namespace hg {

#if defined(__AVX512F__)
#define HG_STREAM 64
#elif defined(__AVX__)
#define HG_STREAM 32
#elif defined(__SSE2__)
#define HG_STREAM 16
#endif

// Whether a kernel that reads and writes so many bytes stores past the caches.
HG_DEVICE bool streams(const Index bytes) {
#ifdef HG_STREAM
  return bytes > HG_CACHED;
#else
  return false;
#endif
}

// to[i] = from[i] for i < n: whole vectors past the caches, where `to` is aligned. `from` is.
template <typename T>
HG_DEVICE void stream(T* to, const T* from, const Index n) {
  Index done = 0;
#ifdef HG_STREAM
  typedef float V __attribute__((vector_size(HG_STREAM), may_alias));
  const Index lanes = HG_STREAM / sizeof(T);
  if ((unsigned long long)to % HG_STREAM == 0) {
    for (; done + lanes <= n; done += lanes) {
      const V v = *(const V*)(from + done);
#if defined(__clang__)
      __builtin_nontemporal_store(v, (V*)(to + done));
#elif defined(__AVX512F__)
      __builtin_ia32_movntps512((float*)(to + done), v);
#elif defined(__AVX__)
      __builtin_ia32_movntps256((float*)(to + done), v);
#else
      __builtin_ia32_movntps((float*)(to + done), v);
#endif
    }
  }
#endif
  __builtin_memcpy(to + done, from + done, (n - done) * sizeof(T));
}

// What was streamed comes before what is stored from now on.
HG_DEVICE void streamed() {
#ifdef HG_STREAM
  __builtin_ia32_sfence();
#endif
}

}  // namespace hg

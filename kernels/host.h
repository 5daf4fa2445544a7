// SPDX-License-Identifier: Apache-2.0
// What every unit of the host target begins with, whatever its kernels are: macros and scalars.
#pragma once

#define HG_DEVICE static inline __attribute__((always_inline))
// What kernels of a unit share: compiled once, of arguments of which nothing is known.
#if defined(__GNUC__) && !defined(__clang__)
#define HG_SHARED __attribute__((noipa))
#else
#define HG_SHARED __attribute__((noinline))
#endif
// What units of a program share, and those of other programs: one unit defines it for all.
#define HG_IN_LIBRARY HG_SHARED __attribute__((visibility("hidden")))
#define HG_RESTRICT __restrict__
#define HG_METHOD inline __attribute__((always_inline))
#define HG_SIMD _Pragma("omp simd")
#define HG_UNROLL
#define HG_EXPORT extern "C" __attribute__((visibility("default")))

// Compilers call these for copies and fills. Every process has them: looked up when the unit is loaded, they spare the
// linker a search in the C library, which takes longer than all the rest of linking.
#if defined(__ELF__)
__asm__(".weak memcpy\n.weak memmove\n.weak memset");
#endif

typedef long long Index;

namespace hg {

// n, of which the compiler knows nothing. With a mask that it knows, GCC 12 may turn a masked load into one of the
// whole vector, and read past the end of an array.
HG_DEVICE Index opaque(Index n) {
  asm("" : "+r"(n));
  return n;
}

// What is read soon: a hint, which may point behind the array. NEAR: into the first-level cache.
template <bool NEAR, typename T>
HG_DEVICE void prefetch_elements(const T* p, const Index n) {
  for (Index i = 0; i < n; i += 64 / sizeof(T)) __builtin_prefetch(p + i, 0, NEAR ? 3 : 2);
}

}  // namespace hg

#include "core.h"

// SPDX-License-Identifier: Apache-2.0
// The host target: macros that generated kernels are written in.
#pragma once

#define HG_DEVICE static inline __attribute__((always_inline))
#define HG_RESTRICT __restrict__
#define HG_METHOD inline __attribute__((always_inline))
#define HG_SIMD _Pragma("omp simd")
#define HG_UNROLL
#define HG_EXPORT extern "C" __attribute__((visibility("default")))
// Kernels stay functions of their own: inlined into one entry, a hundred of them take g++ three times as long.
#ifdef HG_UNITS
#define HG_KERNEL __attribute__((noinline)) void
#else
#define HG_KERNEL static __attribute__((noinline)) void
#endif

typedef long long Index;

#include "core.h"

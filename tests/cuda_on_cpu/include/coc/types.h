// SPDX-License-Identifier: Apache-2.0
// Vector types, and the qualifiers of the language: NVIDIA's own headers where their wheels are
// installed (cuda_fp16.h needs them anyway).
#pragma once

#if __has_include(<crt/host_defines.h>) && __has_include(<vector_functions.h>)
#include <vector_functions.h>
#include <vector_types.h>
#else
#define COC_VECTOR(T, B, align2, align4)                              \
  struct B##1 { T x; };                                               \
  struct alignas(align2) B##2 { T x, y; };                            \
  struct B##3 { T x, y, z; };                                         \
  struct alignas(align4) B##4 { T x, y, z, w; };                      \
  static inline B##1 make_##B##1(T x) { return {x}; }                 \
  static inline B##2 make_##B##2(T x, T y) { return {x, y}; }         \
  static inline B##3 make_##B##3(T x, T y, T z) { return {x, y, z}; } \
  static inline B##4 make_##B##4(T x, T y, T z, T w) { return {x, y, z, w}; }
COC_VECTOR(signed char, char, 2, 4)
COC_VECTOR(unsigned char, uchar, 2, 4)
COC_VECTOR(short, short, 4, 8)
COC_VECTOR(unsigned short, ushort, 4, 8)
COC_VECTOR(int, int, 8, 16)
COC_VECTOR(unsigned, uint, 8, 16)
COC_VECTOR(float, float, 8, 16)
COC_VECTOR(double, double, 16, 16)
COC_VECTOR(long long, longlong, 16, 16)
COC_VECTOR(unsigned long long, ulonglong, 16, 16)
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
#endif

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __maxnreg__
#undef __grid_constant__
#undef __align__
#define __device__
#define __host__
#define __constant__ static
#define __managed__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(x) ((void)0)
#define __assume(x) ((void)0)

// NVRTC has no C library headers: names it lacks stay undefined here too.
#define COC_INT_MAX 0x7fffffff
#undef INFINITY
#undef NAN
#undef HUGE_VAL
#undef HUGE_VALF
#undef M_PI
#undef M_SQRT1_2
#undef FLT_MAX
#undef FLT_MIN
#undef FLT_EPSILON
#undef INT_MAX
#undef INT_MIN
#undef UINT_MAX
#undef DBL_MAX

// Every operation that may fault passes the line it was called from.
#define COC_LINE int line = __builtin_LINE()
#define COC_INLINE static inline __attribute__((always_inline))
// Functions that ask the runtime themselves, by the address they return to, before they touch
// memory.
#define COC_UNTRACED __attribute__((no_sanitize("thread", "alignment"), noinline))
#define COC_RETURN __builtin_return_address(0)
#ifndef COC_CHECKED
#define COC_CHECKED 0
#endif
template <class T>
struct coc_same {
  typedef T type;
};

// SPDX-License-Identifier: Apache-2.0
// What most kernels need of math_cpu.h: bits, constants, classes of values, extrema, rounding, square roots.
// A compiler takes 10 ms to read the rest.
#pragma once

#ifndef HG_DEVICE
#define HG_DEVICE static inline __attribute__((always_inline))
#endif

// rint, floor, ceil and trunc are single instructions
#if defined(__SSE4_1__) || defined(__aarch64__)
#define HG_HAS_ROUND 1
#else
#define HG_HAS_ROUND 0
#endif

#include "math_fma.h"

namespace hg {

// -- bits and constants

HG_DEVICE unsigned to_bits(float x) {
  unsigned i;
  __builtin_memcpy(&i, &x, sizeof i);
  return i;
}
HG_DEVICE float from_bits(unsigned i) {
  float x;
  __builtin_memcpy(&x, &i, sizeof x);
  return x;
}
HG_DEVICE unsigned long long to_bits(double x) {
  unsigned long long i;
  __builtin_memcpy(&i, &x, sizeof i);
  return i;
}
HG_DEVICE double from_bits(unsigned long long i) {
  double x;
  __builtin_memcpy(&x, &i, sizeof x);
  return x;
}

// x + kRound puts rint(x) into the low bits of the sum (|x| < 2^22, 2^51); subtracting kRound gives it back
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
constexpr double kRound64 = 6755399441055744.0;  // 1.5 * 2^52
constexpr float kInf = __builtin_inff();
constexpr float kNan = __builtin_nanf("");
constexpr double kInf64 = __builtin_inf();
constexpr double kNan64 = __builtin_nan("");
// n * kLn2Hi is exact for |n| < 2^15 (float) and 2^20 (double)
// fit: ln2_f32
constexpr float kLog2E = 1.442695f, kLn2Hi = 0.6933594f, kLn2Lo = -0.00021219444f;
// fit: ln2_f64
constexpr double kLog2E64 = 1.4426950408889634, kLn2Hi64 = 0.6931471803691238, kLn2Lo64 = 1.9082149292705877e-10;

// -- classes of values

HG_DEVICE bool isnan(float x) { return x != x; }
HG_DEVICE bool isnan(double x) { return x != x; }
HG_DEVICE bool isinf(float x) { return __builtin_fabsf(x) == kInf; }
HG_DEVICE bool isinf(double x) { return __builtin_fabs(x) == kInf64; }
HG_DEVICE bool isfinite(float x) { return __builtin_fabsf(x) < kInf; }
HG_DEVICE bool isfinite(double x) { return __builtin_fabs(x) < kInf64; }

// -- signs, extrema: exact

HG_DEVICE float abs(float x) { return __builtin_fabsf(x); }
HG_DEVICE double abs(double x) { return __builtin_fabs(x); }
HG_DEVICE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
HG_DEVICE double copysign(double x, double y) { return __builtin_copysign(x, y); }
// 0 for NaN and both zeros
HG_DEVICE float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
HG_DEVICE double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

// NaN if either is NaN. Against a constant that is no NaN the second arm alone is right (and one instruction). A selection a
// statement: g++ takes nested ones apart into paths, and has no vectors for a minimum of a maximum.
HG_DEVICE float maximum(float a, float b) {
  if (__builtin_constant_p(b) && b == b) return b > a ? b : a;
  const float greater = a > b ? a : b;
  return a != a ? a : greater;
}
HG_DEVICE double maximum(double a, double b) {
  if (__builtin_constant_p(b) && b == b) return b > a ? b : a;
  const double greater = a > b ? a : b;
  return a != a ? a : greater;
}
HG_DEVICE float minimum(float a, float b) {
  if (__builtin_constant_p(b) && b == b) return b < a ? b : a;
  const float less = a < b ? a : b;
  return a != a ? a : less;
}
HG_DEVICE double minimum(double a, double b) {
  if (__builtin_constant_p(b) && b == b) return b < a ? b : a;
  const double less = a < b ? a : b;
  return a != a ? a : less;
}

// -- rounding to integers: exact, the sign of x kept

#if HG_HAS_ROUND
HG_DEVICE float rint(float x) { return __builtin_rintf(x); }
HG_DEVICE double rint(double x) { return __builtin_rint(x); }
HG_DEVICE float floor(float x) { return __builtin_floorf(x); }
HG_DEVICE double floor(double x) { return __builtin_floor(x); }
HG_DEVICE float ceil(float x) { return __builtin_ceilf(x); }
HG_DEVICE double ceil(double x) { return __builtin_ceil(x); }
HG_DEVICE float trunc(float x) { return __builtin_truncf(x); }
HG_DEVICE double trunc(double x) { return __builtin_trunc(x); }
#else
HG_DEVICE float rint(float x) {
  float a = abs(x), r = (a + 8388608.0f) - 8388608.0f;
  return a < 8388608.0f ? copysign(r, x) : x;
}
HG_DEVICE double rint(double x) {
  double a = abs(x), r = (a + 4503599627370496.0) - 4503599627370496.0;
  return a < 4503599627370496.0 ? copysign(r, x) : x;
}
HG_DEVICE float floor(float x) {
  float r = rint(x);
  return copysign(r > x ? r - 1.0f : r, x);
}
HG_DEVICE double floor(double x) {
  double r = rint(x);
  return copysign(r > x ? r - 1.0 : r, x);
}
HG_DEVICE float ceil(float x) {
  float r = rint(x);
  return copysign(r < x ? r + 1.0f : r, x);
}
HG_DEVICE double ceil(double x) {
  double r = rint(x);
  return copysign(r < x ? r + 1.0 : r, x);
}
HG_DEVICE float trunc(float x) { return copysign(floor(abs(x)), x); }
HG_DEVICE double trunc(double x) { return copysign(floor(abs(x)), x); }
#endif
// half away from zero: adding the number before 1/2 never reaches the next integer from below a half
HG_DEVICE float round_away(float x) { return trunc(x + copysign(0.49999997f, x)); }
HG_DEVICE double round_away(double x) { return trunc(x + copysign(0.49999999999999994, x)); }

// -- roots

HG_DEVICE float sqrt(float x) { return __builtin_sqrtf(x); }
HG_DEVICE double sqrt(double x) { return __builtin_sqrt(x); }
HG_DEVICE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
HG_DEVICE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

}  // namespace hg

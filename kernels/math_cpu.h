// SPDX-License-Identifier: Apache-2.0
// Mathematics for kernels on the host: the functions of math_cuda.h with the same names and meaning.
//
// Nothing is included and no library is linked beyond libm. Each float function is branch-free scalar
// code in 32-bit lanes (64-bit ones where said), so that a compiler turns a loop over it into vector code;
// choices are `?:` on finished values, because g++ builds a masked instruction from those, but copies the
// code before a choice whose constant arm it can fold. Assumed: IEEE arithmetic, rounding to nearest, no
// -ffast-math. Multiply-adds are written as fma (math_fma.h), where there is such an instruction and
// where there is none: constants that multiply an integer n are split so that the first product is exact.
//
// Errors are in units in the last place against the exact value. Those of float functions are maxima over
// all 2^32 arguments, in strict mode and with FMA (some 0.3 ulp more without), those of two arguments over random ones
// (tests/kernels/test_math.py, marker `exhaustive`). Coefficients after `// fit: NAME` are printed by
// fit/fit_math.py.
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

// NaN if either is NaN. Against a constant that is no NaN the second arm alone is right (and one instruction).
HG_DEVICE float maximum(float a, float b) {
  if (__builtin_constant_p(b) && b == b) return b > a ? b : a;
  return a != a ? a : a > b ? a : b;
}
HG_DEVICE double maximum(double a, double b) {
  if (__builtin_constant_p(b) && b == b) return b > a ? b : a;
  return a != a ? a : a > b ? a : b;
}
HG_DEVICE float minimum(float a, float b) {
  if (__builtin_constant_p(b) && b == b) return b < a ? b : a;
  return a != a ? a : a < b ? a : b;
}
HG_DEVICE double minimum(double a, double b) {
  if (__builtin_constant_p(b) && b == b) return b < a ? b : a;
  return a != a ? a : a < b ? a : b;
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

// Cube root: the exponent divided by 3 gives v = a^(-1/3) within 3.5 %, a series in h = 1 - a v^3 takes it to
// 2^-17, and Newton's step on c = a v^2, whose residual is 1 - c^2 v^2, ends it. Max error 0.9 ulp.
HG_DEVICE float cbrt(float x) {
  float a = abs(x);
  bool tiny = a < 1.17549435e-38f;
  float m = tiny ? a * 16777216.0f : a, back = tiny ? 0.00390625f : 1.0f;
  float v = from_bits(0x54a1f000u - (unsigned)(int)((float)(int)to_bits(m) * 0.33333333f));
  float h = fma(-(m * v), v * v, 1.0f);
  // fit: rcbrt_f32
  const float c0 = 0.33332565f, c1 = 0.22371785f, c2 = 0.17497621f;
  v = fma(v * h, horner(h, c0, c1, c2), v);
  float w = v * v, c = m * w;
  c = fma(fma(-(c * c), w, 1.0f), c * 0.33333333f, c) * back;
  return copysign(a > 0.0f && a < kInf ? c : a, x);
}
HG_DEVICE float rcbrt(float x) { return 1.0f / cbrt(x); }

// x = 2^(3k) m, 1 <= m < 8: the float function's c, whose square is exact, and Halley's step. Max error 0.5 ulp.
HG_DEVICE double cbrt(double x) {
  double a = abs(x);
  bool tiny = a < 2.2250738585072014e-308;
  double s = tiny ? a * 18014398509481984.0 : a, back = tiny ? 3.814697265625e-06 : 1.0;
  unsigned long long i = to_bits(s), e = i >> 52, k = (unsigned long long)((unsigned)e * 43691u >> 17);  // e / 3
  double m = from_bits(i - (3 * k << 52) + 0x3ff0000000000000ull), c = cbrt((float)m);
  double r = fma(-(c * c), c, m);
  c = c + c * r / fma(-2.0, r, 3.0 * m);
  c = c * from_bits((k + 682) << 52) * back;
  return copysign(a > 0.0 && a < kInf64 ? c : a, x);
}
HG_DEVICE double rcbrt(double x) { return 1.0 / cbrt(x); }

// sqrt(x^2 + y^2) in 64-bit lanes, where squares of floats neither overflow nor vanish. Max error 0.5 ulp.
HG_DEVICE float hypot(float x, float y) {
  float r = (float)__builtin_sqrt(fma((double)x, (double)x, (double)y * y));
  return isinf(x) || isinf(y) ? kInf : r;
}
HG_DEVICE double hypot(double x, double y) { return __builtin_hypot(x, y); }

}  // namespace hg

#include "math_cpu_exp.h"
#include "math_cpu_log.h"
#include "math_cpu_trig.h"
#include "math_cpu_special.h"
#ifdef HG_FAST_MATH
#include "math_cpu_fast.h"
#endif
#include "math_cpu_f64.h"
#include "math_special.h"

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

#include "math_cpu_basic.h"

namespace hg {

// -- further roots

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

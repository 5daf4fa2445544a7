// SPDX-License-Identifier: Apache-2.0
// Logarithms, inverse hyperbolic functions, power. Part of math_cpu.h.
#pragma once

#include "math_cpu_exp.h"

namespace hg {

// Method: x = 2^e m with sqrt(1/2) <= m < sqrt(2); log x = e ln2 + log(1 + f), f = m - 1;
// log(1 + f) = f + f^2 P(f), a minimax polynomial.

// e * 2^23 of a positive normal x, as an integer
HG_DEVICE unsigned exponent_field(float x) { return (to_bits(x) - 0x3f3504f3u) & 0xff800000u; }

// log(1 + f), sqrt(1/2) - 1 <= f <= sqrt(2) - 1, relative error 2^-27
HG_DEVICE float log1p_near_0(float f) {
  // fit: log_f32
  const float c2 = -0.49999988f, c3 = 0.33333325f, c4 = -0.2500161f, c5 = 0.20002005f, c6 = -0.1660841f,
      c7 = 0.14180848f, c8 = -0.1324808f, c9 = 0.12913027f, c10 = -0.07619165f;
  float z = f * f;
  float p = poly(f, z, c4, c5, c6, c7, c8, c9, c10);
  return fma(horner(f, c2, c3, p), z, f);
}

// e ln2 + y for e * 2^23 given as an integer
HG_DEVICE float add_exponent(unsigned k, float y) {
  float e = (float)(int)k;
  return fma(e, kLn2Hi * 1.1920929e-7f, fma(e, kLn2Lo * 1.1920929e-7f, y));
}

// What every logarithm gives for 0, negative numbers, inf and NaN
HG_DEVICE float log_special(float x, float y) {
  y = x < kInf ? y : x;
  return x > 0.0f ? y : x == 0.0f ? -kInf : kNan;
}

// x = 2^e (1 + f) with k = e * 2^23, subnormals included. Both choices stand together: apart, g++ copies what is
// between them.
HG_DEVICE void log_argument(float x, unsigned &k, float &f) {
  bool tiny = x < 1.17549435e-38f;
  float m = tiny ? x * 16777216.0f : x;
  unsigned shift = tiny ? 24u << 23 : 0;
  k = exponent_field(m);
  f = from_bits(to_bits(m) - k) - 1.0f;
  k -= shift;
}

#ifndef HG_FAST_MATH
// Max error 0.92 ulp.
HG_DEVICE float log(float x) {
  unsigned k;
  float f;
  log_argument(x, k, f);
  return log_special(x, add_exponent(k, log1p_near_0(f)));
}

// e + log(m) / ln2; exact at powers of two. Max error 1.69 ulp.
HG_DEVICE float log2(float x) {
  unsigned k;
  float f;
  log_argument(x, k, f);
  float y = log1p_near_0(f);
  return log_special(x, fma((float)(int)k, 1.1920929e-7f, y * kLog2E));
}

// e log10(2) + log(m) / ln10. Max error 1.89 ulp.
HG_DEVICE float log10(float x) {
  unsigned k;
  float f;
  log_argument(x, k, f);
  // fit: log10_f32
  const float high = 0.3010254f, low = 4.605039e-06f, scale = 0.4342945f;
  float e = (float)(int)k * 1.1920929e-7f;
  return log_special(x, fma(e, high, fma(e, low, log1p_near_0(f) * scale)));
}
#endif

// log of u + c for u >= 2^-25 and a correction |c| <= ulp(u), times 2^extra_exponent
HG_DEVICE float log_sum(float u, float c, unsigned extra) {
  unsigned k = exponent_field(u);
  float f = fma(c * from_bits(0x40000000u - k), 0.5f, from_bits(to_bits(u) - k) - 1.0f);  // 2^(1 - e): e may be 128
  return add_exponent(k + extra, log1p_near_0(f));
}

// log(u + c) with u = fl(1 + x) and c = 1 + x - u. Max error 1.46 ulp.
HG_DEVICE float log1p(float x) {
  float u = 1.0f + x, c = x - (u - 1.0f);
  float y = copysign(log_sum(u, c, 0), x);
  y = x < kInf ? y : x;
  return x > -1.0f ? y : x == -1.0f ? -kInf : kNan;
}

#ifndef HG_FAST_MATH
// max(x, 0) + log(1 + e), e = e^-|x| <= 1; 1 + e is halved where it exceeds sqrt(2). Max error 1.75 ulp.
HG_DEVICE float softplus(float x) {
  float a = abs(x), e = exp_in_range(-a);
  bool large = e > 0.41421356f;
  float f = large ? fma(0.5f, e, -0.5f) : e;
  float y = log1p_near_0(f) + (large ? 0.6931472f : 0.0f);
  return maximum(x, 0.0f) + (a > 104.0f ? 0.0f : y);
}
#endif

// log(1 + w), w = a + a^2 / (1 + sqrt(1 + a^2)); log(a) + ln2 where a^2 is beyond 2^60. Max error 1.88 ulp.
HG_DEVICE float asinh(float x) {
  float a = abs(x), z = a * a;
  float w = a + z / (1.0f + __builtin_sqrtf(1.0f + z));
  bool big = a > 1073741824.0f;
  float u = 1.0f + w, c = w - (u - 1.0f);
  float y = log_sum(big ? a : u, big ? 0.0f : c, big ? 1u << 23 : 0);
  return copysign(a < kInf ? y : a, x);
}

// log(1 + w), w = t + sqrt(2t + t^2), t = x - 1; log(x) + ln2 where x^2 is beyond 2^60. Max error 2.02 ulp.
HG_DEVICE float acosh(float x) {
  float t = x - 1.0f;
  float w = t + __builtin_sqrtf(fma(t, t, 2.0f * t));
  bool big = x > 1073741824.0f;
  float u = 1.0f + w, c = w - (u - 1.0f);
  float y = log_sum(big ? x : u, big ? 0.0f : c, big ? 1u << 23 : 0);
  y = x < kInf ? y : x;
  return x >= 1.0f ? y : kNan;
}

// log(1 + w) / 2, w = 2a / (1 - a). Max error 2.07 ulp.
HG_DEVICE float atanh(float x) {
  float a = abs(x), w = (a + a) / (1.0f - a);
  float u = 1.0f + w, c = w - (u - 1.0f);
  float y = 0.5f * log_sum(u, c, 0);
  y = a < 1.0f ? y : a == 1.0f ? kInf : kNan;
  return copysign(y, x);
}

// 2^(y log2|x|) in 64-bit lanes: log2(m) = s P(s^2) with s = (m - 1) / (m + 1); its error 2^-37 and that of 2^r,
// 2^-34, leave the rounding to float, which also overflows and underflows. Special cases as in C99, annex F.
// Max error 0.5 ulp (random arguments).
HG_DEVICE float pow(float x, float y) {
  float a = abs(x);
  unsigned k;
  float f;
  log_argument(a, k, f);
  double e = (float)(int)k * 1.1920929e-7f, b = f;
  double s = b / (b + 2.0), z = s * s;
  // fit: log2_quotient_f64
  const double l0 = 2.885390081790082, l1 = 0.9617966733491752, l2 = 0.5770835833571629, l3 = 0.4116728241359355,
      l4 = 0.3407280306694406;
  double z2 = z * z;
  double l = fma(s, poly(z, z2, l0, l1, l2, l3, l4), e);
  l = a == 0.0f ? -kInf64 : a < kInf ? l : (double)a;
  double p = l * y;
  p = p > 200.0 ? 200.0 : p;
  p = p < -200.0 ? -200.0 : p;
  double t = p + kRound64, r = p - (t - kRound64);
  // fit: exp2_f64_short
  const double c0 = 0.9999999999616916, c1 = 0.6931471807540779, c2 = 0.24022651187518404, c3 = 0.05550410204303407,
      c4 = 0.009618028745501288, c5 = 0.0013334054743015039, c6 = 0.00015468836020965637,
      c7 = 1.5171082282416892e-05;
  double r2 = r * r;
  double q = fma(poly(r, r2, c4, c5, c6, c7), r2 * r2, poly(r, r2, c0, c1, c2, c3));
  float v = (float)(q * from_bits((to_bits(t) + 1023) << 52));
  float half = 0.5f * y;
  bool whole = rint(y) == y, odd = whole && rint(half) != half;
  v = x < 0.0f && !whole && a < kInf ? kNan : v;
  v = to_bits(x) >> 31 && odd ? -v : v;
  v = x == -1.0f && isinf(y) ? 1.0f : v;
  return x == 1.0f || y == 0.0f ? 1.0f : v;
}

}  // namespace hg

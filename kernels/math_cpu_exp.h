// SPDX-License-Identifier: Apache-2.0
// Exponentials and what is made of them. Part of math_cpu.h.
#pragma once

#include "math_cpu_basic.h"

namespace hg {

// Method: x = n ln2 + r with |r| <= ln2 / 2 (Cody and Waite's two-part ln2), n from the rounding constant;
// e^r - 1 = r + r^2 Q(r), a minimax polynomial; e^x = 2^n + 2^n (e^r - 1). A constant added to kRound makes
// the low bits of t = kRound + bias + n the exponent field of the power of two that is wanted.

// e^r - 1, |r| <= ln2 / 2, error 2^-28 of e^r
HG_DEVICE float expm1_near_0(float r) {
  // fit: exp_f32
  const float c2 = 0.49999994f, c3 = 0.1666652f, c4 = 0.041668277f, c5 = 0.0083688805f, c6 = 0.0013820406f;
  float z = r * r;
  float q = fma(poly(r, z, c3, c4, c5, c6), r, c2);
  return fma(q, z, r);
}

// 2^n (1 + q), where the low 9 bits of i are 254 + n, |n| <= 254: two factors, so that overflow and gradual
// underflow happen in the last product, with its rounding
HG_DEVICE float exp_scale(float q, unsigned i) {
  unsigned half = i >> 1;
  float s = from_bits(half << 23);
  return fma(q, s, s) * from_bits((i - half) << 23);
}

// e^x for x >= -104. Above, n stops at 130 while r goes on to grow, and the product is inf.
HG_DEVICE float exp_in_range(float x) {
  const float bias = kRound + 254.0f;
  float t = fma(x, kLog2E, bias);
  int i = (int)to_bits(t), top = (int)to_bits(bias) + 130;
  i = i < top ? i : top;
  float n = from_bits((unsigned)i) - bias;
  float r = fma(-n, kLn2Lo, fma(-n, kLn2Hi, x));
  return exp_scale(expm1_near_0(r), (unsigned)i);
}

#ifndef HG_FAST_MATH
// Max error 1.02 ulp.
HG_DEVICE float exp(float x) {
  float y = exp_in_range(x);
  return x < -104.0f ? 0.0f : y;
}

// e^x for x <= 0, the same bits: 2^(n + 64) is a normal number, and only the last product rounds gradual underflow.
HG_DEVICE float exp_not_above_0(float x) {
  const float bias = kRound + 191.0f;
  float t = fma(x, kLog2E, bias), n = t - bias;
  float r = fma(-n, kLn2Lo, fma(-n, kLn2Hi, x));
  float s = from_bits(to_bits(t) << 23);
  float y = fma(expm1_near_0(r), s, s) * 5.42101086e-20f;
  return x < -104.0f ? 0.0f : y;
}
#endif

// e^r - 1, |r| <= ln2 / 2, relative error 2^-26
HG_DEVICE float expm1_relative(float r) {
  // fit: expm1_f32
  const float c2 = 0.49999997f, c3 = 0.16666546f, c4 = 0.041667446f, c5 = 0.008366248f, c6 = 0.0013869675f;
  float z = r * r;
  float q = fma(poly(r, z, c3, c4, c5, c6), r, c2);
  return fma(q, z, r);
}

// A quarter of e^x - 1, for x >= -18 and up to where e^x / 2 overflows (beyond, inf)
HG_DEVICE float quarter_expm1(float x) {
  const float bias = kRound + 125.0f;
  float t = fma(x, kLog2E, bias);
  int i = (int)to_bits(t), top = (int)to_bits(bias) + 129;
  i = i < top ? i : top;
  float n = from_bits((unsigned)i) - bias;
  float r = fma(-n, kLn2Lo, fma(-n, kLn2Hi, x));
  float s = from_bits((unsigned)i << 23);
  return fma(expm1_relative(r), s, s - 0.25f);
}

// e^x - 1 = 2^n (e^r - 1) + (2^n - 1). Max error 1.54 ulp.
HG_DEVICE float expm1(float x) {
  float y = 4.0f * quarter_expm1(x);
  y = x < -18.0f ? -1.0f : y;
  return abs(x) < 1e-9f ? x : y;
}

// (E + E / (E + 1)) / 2 with E = e^|x| - 1. Max error 2.26 ulp.
HG_DEVICE float sinh(float x) {
  float a = abs(x), e = quarter_expm1(a);
  float y = 2.0f * (e + e / fma(4.0f, e, 1.0f));
  y = a > 89.5f ? kInf : y;
  return copysign(a < 1e-9f ? a : y, x);
}

// e^|x| / 2 + e^-|x| / 2. Max error 1.54 ulp.
HG_DEVICE float cosh(float x) {
  float e = quarter_expm1(abs(x)) + 0.25f;
  return 2.0f * (e + 0.0625f / e);
}

#ifndef HG_FAST_MATH
// (1 - E) / (1 + E) with E = e^(-2|x|). One part of ln2 is enough: where n is large, E is small. Max error 1.96 ulp.
HG_DEVICE float tanh(float x) {
  const float bias = kRound + 127.0f;
  float a = abs(x);
  float t = fma(a, -2.0f * kLog2E, bias), n = t - bias;
  float q = expm1_relative(fma(n, -0.6931472f, -(a + a)));
  float s = from_bits(to_bits(t) << 23);
  float y = fma(-q, s, 1.0f - s) / fma(q, s, 1.0f + s);
  return copysign(a > 10.0f ? 1.0f : y, x);
}

// 1 / (1 + e^-x), computed as S / (S + S e^-x) with S = 2^-64 so that small results underflow gradually.
// Max error 2 ulp.
HG_DEVICE float sigmoid(float x) {
  const float small = 5.42101086e-20f, bias = kRound + 63.0f;
  float t = fma(x, -kLog2E, bias), n = t - bias;
  float r = fma(-n, kLn2Lo, fma(-n, kLn2Hi, -x));
  float s = from_bits(to_bits(t) << 23);
  float d = fma(expm1_near_0(r), s, small) + s;
  float y = small / (x > 25.0f ? small : d);
  return x < -104.0f ? 0.0f : y;
}
#endif

}  // namespace hg

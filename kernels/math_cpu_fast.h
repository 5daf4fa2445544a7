// SPDX-License-Identifier: Apache-2.0
// Fast mode on the host: shorter functions of float, in place of those of the same names in math_cpu_*.h. Part of
// math_cpu.h. Relative errors stay below 2^-18 where the processor has FMA (docs/numbers.md). Subnormal arguments of
// logarithms count as 0, subnormal results of exponentials may be 0, and e^x is infinite from 2^127.5 on. NaN,
// infinities and zeros are as in strict mode.
#pragma once

namespace hg {

HG_DEVICE float quotient(float a, float b) { return a / b; }

// n = t - (kRound + 127), no more than 128, and 2^n, which is infinite at 128
HG_DEVICE float power_of_two(float t, float &n) {
  const float bias = kRound + 127.0f;
  int i = (int)to_bits(t), top = (int)to_bits(bias) + 128;
  i = i < top ? i : top;
  n = from_bits((unsigned)i) - bias;
  return from_bits((unsigned)i << 23);
}

// (e^r - 1) / r, |r| <= ln2 / 2
HG_DEVICE float exp_short(float r) {
  // fit: exp_short_f32
  const float c1 = 0.99996686f, c2 = 0.5000303f, c3 = 0.16787441f, c4 = 0.041512553f;
  return horner(r, c1, c2, c3, c4);
}

// One part of ln2 is enough.
HG_DEVICE float exp(float x) {
  float n, s = power_of_two(fma(x, kLog2E, kRound + 127.0f), n), r = fma(n, -0.6931472f, x);
  float y = fma(exp_short(r), r, 1.0f) * s;
  return x < -87.5f ? 0.0f : y;
}

// For x <= 0, the same bits.
HG_DEVICE float exp_not_above_0(float x) {
  const float bias = kRound + 127.0f;
  float t = fma(x, kLog2E, bias), n = t - bias, r = fma(n, -0.6931472f, x);
  float s = from_bits(to_bits(t) << 23);
  float y = fma(exp_short(r), r, 1.0f) * s;
  return x < -87.5f ? 0.0f : y;
}

HG_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

HG_DEVICE float log1p_short(float f) {
  // fit: log_short_f32
  const float c2 = -0.50000846f, c3 = 0.33318904f, c4 = -0.24919255f, c5 = 0.20457293f, c6 = -0.18586217f,
      c7 = 0.11906466f;
  float z = f * f;
  return fma(poly(f, z, c2, c3, c4, c5, c6, c7), z, f);
}

HG_DEVICE float short_log_special(float x, float y) {
  y = x < kInf ? y : x;
  y = x < 0.0f ? kNan : y;
  return abs(x) < 1.17549435e-38f ? -kInf : y;
}

HG_DEVICE float log(float x) {
  unsigned k = exponent_field(x);
  float y = log1p_short(from_bits(to_bits(x) - k) - 1.0f);
  return short_log_special(x, fma((float)(int)k, 0.6931472f * 1.1920929e-7f, y));
}

HG_DEVICE float log2(float x) {
  unsigned k = exponent_field(x);
  float y = log1p_short(from_bits(to_bits(x) - k) - 1.0f);
  return short_log_special(x, fma((float)(int)k, 1.1920929e-7f, y * kLog2E));
}

HG_DEVICE float log10(float x) {
  unsigned k = exponent_field(x);
  float y = log1p_short(from_bits(to_bits(x) - k) - 1.0f);
  return short_log_special(x, fma((float)(int)k, 0.30103f * 1.1920929e-7f, y * 0.4342945f));
}

// max(x, 0) + log(1 + e), e = e^-|x|
HG_DEVICE float softplus(float x) {
  float e = exp(-abs(x));
  // fit: log1p_short_f32
  const float c0 = 0.9999998f, c1 = -0.49997464f, c2 = 0.3327611f, c3 = -0.24498461f, c4 = 0.1775255f,
      c5 = -0.10777715f, c6 = 0.044153113f, c7 = -0.008556105f;
  return fma(poly(e, e * e, c0, c1, c2, c3, c4, c5, c6, c7), e, maximum(x, 0.0f));
}

// Odd, z P(z^2) / Q(z^2); beyond 6.75 the limit. Max relative error 2^-18.
HG_DEVICE float tanh(float x) {
  // fit: tanh_quotient_f32
  const float d1 = 0.4570383f, d2 = 0.021357564f, d3 = 0.00014898065f, c0 = 1.0000001f, c1 = 0.12370949f,
      c2 = 0.0023380877f, c3 = 4.217889e-06f;
  float a = abs(x), z = a * a;
  float y = quotient(a * horner(z, c0, c1, c2, c3), horner(z, 1.0f, d1, d2, d3));
  return copysign(a > 6.75f ? 1.0f : y, x);
}

}  // namespace hg

#include "math_fast.h"

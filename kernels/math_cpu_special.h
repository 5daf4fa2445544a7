// SPDX-License-Identifier: Apache-2.0
// Error functions of float. Part of math_cpu.h.
#pragma once

#include "math_cpu_exp.h"

namespace hg {

#ifndef HG_FAST_MATH
// N / (N + D), where N = a P(a), and D(a) = N erfc(a) / erf(a) is what is left: it goes to 0, so that the error of
// either is of no consequence where the result is near 1, which with FMA it never exceeds. Fewer operations, and a
// shorter chain of them, than by way of an exponential. Max error 3.38 ulp.
HG_DEVICE float erf(float x) {
  // fit: erf_f32
  const float n0 = 0.83833027f, n1 = -0.41280133f, n2 = 0.18022884f, n3 = 0.0022122208f, n4 = 0.0028698333f,
      n5 = 0.00049464864f, n6 = 0.0012160386f, d0 = 0.74295086f, d1 = -1.2041663f, d2 = 0.8201885f, d3 = -0.3003334f,
      d4 = 0.062318202f, d5 = -0.0069429716f, d6 = 0.00032426373f;
  float a = abs(x);
  float n = horner(a, n0, n1, n2, n3, n4, n5, n6) * a;
  float y = n / (n + horner(a, d0, d1, d2, d3, d4, d5, d6));
  return copysign(a > 3.93f ? 1.0f : y, x);
}
#endif

// e^(-a^2) v P(w), v = 1 / (a + 2), w = 1 - 4v (the variable of Shepherd and Laframboise 1981). a^2, v P(w) and the
// reduction by n ln2 are done in 64-bit lanes. Max error 2.16 ulp.
HG_DEVICE float erfc(float x) {
  const float bias = kRound + 254.0f;
  float a = abs(x);
  double b = a, b2 = b * b;
  double v = 1.0 / (b + 2.0), w = fma(-4.0, v, 1.0), w2 = w * w, w4 = w2 * w2;
  // fit: erfc_f64_short
  const double c0 = 1.0215827144869454, c1 = -0.6871609206395798, c2 = 0.2794714858757883,
      c3 = -0.036435976350983106, c4 = -0.021502503675283516, c5 = 0.006435581970250911, c6 = 0.003041876819051256,
      c7 = -0.0007272735018151601, c8 = -0.0005279820417317195, c9 = -4.577681322585497e-05;
  double p = fma(fma(c9, w, c8), w4, poly(w, w2, c4, c5, c6, c7));
  p = fma(p, w4, poly(w, w2, c0, c1, c2, c3));
  float m = (float)(p * v);
  float t = fma((float)b2, -kLog2E, bias);
  float r = (float)fma((double)(t - bias), -0.6931471805599453, -b2);
  unsigned i = to_bits(t), half = i >> 1;
  m *= from_bits(half << 23);
  float y = fma(expm1_near_0(r), m, m) * from_bits((i - half) << 23);
  y = a > 10.2f ? 0.0f : y;
  return x < 0.0f ? 2.0f - y : y;
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// Error functions of float. Part of math_cpu.h.
#pragma once

namespace hg {

#ifndef HG_FAST_MATH
// 1 - e^-g(a), where g = -log(erfc(a)) = a c + a^2 P(a), c = 2 / sqrt(pi) in two parts: e^-g - 1 as in tanh, so
// small results keep their relative accuracy and there is no division. Max error 1.81 ulp.
HG_DEVICE float erf(float x) {
  const float bias = kRound + 127.0f;
  float a = abs(x), a2 = a * a;
  // fit: erf_f32
  const float high = 1.1283792f, low = -5.8635383e-08f, c2 = 0.6366195f, c3 = 0.10277688f, c4 = -0.019149981f,
      c5 = -0.00016548007f, c6 = 0.0016716124f, c7 = -0.00063510885f, c8 = 0.00011821765f, c9 = -9.314326e-06f;
  float p = poly(a, a2, c2, c3, c4, c5, c6, c7, c8, c9);
  float g = fma(a, high, fma(p, a2, a * low));
  float t = fma(g, -kLog2E, bias), n = t - bias;
  float q = expm1_relative(fma(n, -0.69314718f, -g));
  float s = from_bits(to_bits(t) << 23);
  float y = fma(-q, s, 1.0f - s);
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

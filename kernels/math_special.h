// SPDX-License-Identifier: Apache-2.0
// Functions that neither libm nor CUDA has in the form wanted, written on the other functions of hg: one text for
// both targets. Included at the end of math_cpu.h and math_cuda.h.
#pragma once

namespace hg {

// x P(w), w = -log(1 - x^2), with one polynomial in w - 2.5 below 5 and one in sqrt(w) - 3 beyond (the split of
// Giles, "Approximating the erfinv function", 2010). Branch-free. Max error 3.28 ulp
// (every seventh float).
HG_DEVICE float erfinv(float x) {
  float a = abs(x), w = -log((1.0f - a) * (1.0f + a));
  // fit: erfinv_central_f32
  const float c0 = 1.5014094f, c1 = 0.24664028f, c2 = -0.004177669f, c3 = -0.0012527556f, c4 = 0.00021857762f,
      c5 = -4.943661e-06f, c6 = -3.5236326e-06f, c7 = 4.600541e-07f, c8 = 2.8174219e-08f, c9 = -8.250198e-09f;
  float t = w - 2.5f, t2 = t * t;
  float p = poly(t, t2, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9);
  // fit: erfinv_tail_f32
  const float d0 = 2.8329768f, d1 = 1.0016752f, d2 = 0.009445346f, d3 = -0.0076411446f, d4 = 0.0056847213f,
      d5 = -0.0035815707f, d6 = 0.0014928052f, d7 = -8.2596474e-05f, d8 = -0.0003164663f, d9 = 0.00013066811f;
  float u = sqrt(w) - 3.0f, u2 = u * u;
  float q = poly(u, u2, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9);
  float y = x * (w < 5.0f ? p : q);
  return a == 1.0f ? x * w : y;
}

// A guess with error 0.3 % (Winitzki 2008) or the first two terms of the series, then Halley's step twice, on erfc
// where erf has no digits left. Max error 2.2 ulp (random arguments). Not for vectors.
HG_DEVICE double erfinv(double x) {
  double a = abs(x), l = log((1.0 - a) * (1.0 + a)), b = fma(0.5, l, 4.3307467508);
  double y = a < 0.1 ? a * fma(0.23201366653465450 * a, a, 0.88622692545275801)
                     : sqrt(sqrt(fma(b, b, -l * 6.8027210884)) - b);
  for (int i = 0; i < 2; i++) {
    double e = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
    double s = e * exp(y * y) * 0.88622692545275801;
    y = y - s / fma(s, y, 1.0);
  }
  y = a < 1e-8 ? a * 0.88622692545275801 : y;
  return copysign(a < 1.0 ? y : -l, x);  // inf at 1, NaN beyond
}

// Reflection below 0, a polynomial between 1 and 2 as a factor of x minus the root, the recurrence up to 10,
// the asymptotic series beyond. Max error 4.2 ulp for x > 0; below 0 the error is relative to the larger term
// of the reflection. Not for vectors.
HG_DEVICE double digamma(double x) {
  double rest = 0.0;
  if (x <= 0.0) {
    double f = x - rint(x);
    if (f == 0.0) return x == 0.0 ? -1.0 / x : 0.0 / f;
    rest = -3.1415926535897932 * cospi(f) / sinpi(f);
    x = 1.0 - x;
  }
  if (x >= 10.0) {
    double z = 1.0 / (x * x);
    double s = z * horner(-z, 1.0 / 12.0, 1.0 / 120.0, 1.0 / 252.0, 1.0 / 240.0, 1.0 / 132.0, 691.0 / 32760.0,
                          1.0 / 12.0, 3617.0 / 8160.0);
    return rest + (log(x) - 0.5 / x - s);
  }
  if (x < 1.0) {
    rest -= 1.0 / x;
    x += 1.0;
  }
  while (x > 2.0) {
    x -= 1.0;
    rest += 1.0 / x;
  }
  // fit: digamma_f64
  const double high = 1.4616321449683622, low = 9.549995429965697e-17, c0 = 0.9510558760318328,
      c1 = -0.4236274212814584, c2 = 0.2405424842407892, c3 = -0.1484049230546867, c4 = 0.09498872445359058,
      c5 = -0.061922133199772245, c6 = 0.04076083387000959, c7 = -0.02697579979219982, c8 = 0.01790725108826482,
      c9 = -0.01190815006751332, c10 = 0.007926963555484234, c11 = -0.005280870603630422,
      c12 = 0.0035188421780813868, c13 = -0.0023377369269564933, c14 = 0.0015575246986692176,
      c15 = -0.001077050102452199, c16 = 0.0007203664962938885, c17 = -0.0003559899357458089,
      c18 = 0.00023271061349751265, c19 = -0.00037737716574289746, c20 = 0.0002553421054598142;
  double p = horner(x - 1.5, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19,
                    c20);
  return fma((x - high) - low, p, rest);
}
HG_DEVICE float digamma(float x) { return (float)digamma((double)x); }

// the derivative of digamma: reflection, recurrence up to 16, then the asymptotic series
HG_DEVICE double trigamma(double x) {
  double rest = 0.0, sign = 1.0;
  if (x <= 0.0) {
    double f = x - rint(x);
    if (f == 0.0) return 1.0 / (f * f);
    double s = sinpi(f);
    rest = 9.8696044010893586 / (s * s);
    sign = -1.0;
    x = 1.0 - x;
  }
  double sum = 0.0;
  while (x < 16.0) {
    sum += 1.0 / (x * x);
    x += 1.0;
  }
  double z = 1.0 / (x * x);
  double s = horner(-z, 1.0 / 6.0, 1.0 / 30.0, 1.0 / 42.0, 1.0 / 30.0, 5.0 / 66.0, 691.0 / 2730.0);
  return fma(sign, sum + fma(0.5, z, fma(s, z, 1.0) / x), rest);
}
HG_DEVICE float trigamma(float x) { return (float)trigamma((double)x); }

}  // namespace hg

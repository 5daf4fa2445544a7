// SPDX-License-Identifier: Apache-2.0
// Circular functions and their inverses. Part of math_cpu.h.
#pragma once

#include "math_cpu_basic.h"
#include "math_trig.h"

namespace hg {

// x as a multiple of a right angle: x = (quadrant + g) pi/2 with |g| <= 1/2; returns g pi/2.
// Payne and Hanek's idea with doubles: 1 / (2 pi) is cut into parts of 29 bits, so that each product with x is
// exact, and only fractions of a turn are kept. The parts begin at 2^-3, or at 2^-58 for |x| >= 2^80, whose
// products with earlier bits are whole turns: right for every float, in 64-bit lanes and without a branch.
HG_DEVICE float to_quadrant(float x, unsigned &quadrant) {
  bool huge = abs(x) >= 1.20892582e24f;  // 2^80
  // fit: turns
  const double a0 = 0.15915494272485375, a1 = 3.6704158115630214e-10, a2 = 5.690025167992954e-19,
      a3 = 1.470303687279978e-27, b0 = 4.038449463906148e-18, b1 = 6.31706507132483e-27, b2 = 1.7633044837708364e-35,
      b3 = 2.897178338357036e-44;
  double v = x;
  double p0 = v * (huge ? b0 : a0), p1 = v * (huge ? b1 : a1), p2 = v * (huge ? b2 : a2), p3 = v * (huge ? b3 : a3);
  double turns = (((p0 - rint(p0)) + (p1 - rint(p1))) + (p2 - rint(p2))) + p3;
  double t = fma(turns, 4.0, kRound64);
  quadrant = (unsigned)to_bits(t);
  return (float)(fma(turns, 4.0, -(t - kRound64)) * 1.5707963267948966);
}

// Max error 1.68 ulp.
HG_DEVICE float sin(float x) {
  unsigned quadrant;
  float r = to_quadrant(x, quadrant), z = r * r;
  float y = quadrant & 1 ? cos_near_0(z) : sin_near_0(r, z);
  y = from_bits(to_bits(y) ^ (quadrant & 2) << 30);
  return x == 0.0f ? x : y;
}

// Max error 1.58 ulp.
HG_DEVICE float cos(float x) {
  unsigned quadrant;
  float r = to_quadrant(x, quadrant), z = r * r;
  float y = quadrant & 1 ? sin_near_0(r, z) : cos_near_0(z);
  return from_bits(to_bits(y) ^ ((quadrant + 1) & 2) << 30);
}

// Max error 3.75 ulp.
HG_DEVICE float tan(float x) {
  unsigned quadrant;
  float r = to_quadrant(x, quadrant), z = r * r;
  float s = sin_near_0(r, z), c = cos_near_0(z);
  bool odd = quadrant & 1;
  float y = (odd ? -c : s) / (odd ? s : c);
  return x == 0.0f ? x : y;
}

// arctan(t) = t + t^3 P(t^2), 0 <= t <= 1, relative error 2^-25
HG_DEVICE float atan_to_1(float t) {
  // fit: atan_f32
  const float c3 = -0.33333153f, c5 = 0.19993767f, c7 = -0.14211002f, c9 = 0.10665769f, c11 = -0.0755166f,
      c13 = 0.043204706f, c15 = -0.016363163f, c17 = 0.0029194115f;
  float z = t * t, z2 = z * z;
  return fma(poly(z, z2, c3, c5, c7, c9, c11, c13, c15, c17), z * t, t);
}

// pi/2 - arctan(1 / |x|) beyond 1. Max error 1.55 ulp.
HG_DEVICE float atan(float x) {
  float a = abs(x);
  bool inverted = a > 1.0f;
  float p = atan_to_1((inverted ? 1.0f : a) / (inverted ? a : 1.0f));
  return copysign(inverted ? 1.5707964f - (p + 4.3711388e-8f) : p, x);
}

// Max error 1.75 ulp.
HG_DEVICE float atan2(float y, float x) {
  float b = abs(y), a = abs(x);
  bool swap = b > a;
  float low = swap ? a : b, high = swap ? b : a;
  float t = low == high ? 1.0f : low / high;
  t = high == 0.0f ? 0.0f : t;
  float p = atan_to_1(t);
  p = swap ? 1.5707964f - (p + 4.3711388e-8f) : p;
  p = to_bits(x) >> 31 ? 3.1415927f - (p + 8.7422777e-8f) : p;
  p = copysign(p, y);
  return isnan(x) || isnan(y) ? kNan : p;
}

// arcsin(s) - s over s^3, as a polynomial in z = s^2 <= 1/4, relative error 2^-27
HG_DEVICE float asin_tail(float z) {
  // fit: asin_f32
  const float c3 = 0.16666752f, c5 = 0.074953094f, c7 = 0.045469154f, c9 = 0.024184745f, c11 = 0.04215838f;
  return fma(fma(c11, z, c9), z * z * z, horner(z, c3, c5, c7));
}

// pi/2 - 2 arcsin(sqrt((1 - |x|) / 2)) beyond 1/2. Max error 2.36 ulp.
HG_DEVICE float asin(float x) {
  float a = abs(x);
  bool large = a > 0.5f;
  float z = large ? fma(-0.5f, a, 0.5f) : a * a;
  float s = large ? __builtin_sqrtf(z) : a;
  float p = fma(asin_tail(z), z * s, s);
  return copysign(large ? 1.5707964f - fma(2.0f, p, 4.3711388e-8f) : p, x);
}

// 2 arcsin(sqrt((1 - x) / 2)), pi minus that of -x, or pi/2 - arcsin(x) below 1/2. Max error 1.14 ulp.
HG_DEVICE float acos(float x) {
  float a = abs(x);
  bool large = a > 0.5f;
  float z = large ? fma(-0.5f, a, 0.5f) : a * a;
  float s = large ? __builtin_sqrtf(z) : x;
  float tail = asin_tail(z) * (z * s);
  float p = 2.0f * (tail + s);
  p = x < 0.0f ? 3.1415927f - (p + 8.7422777e-8f) : p;
  return large ? p : 1.5707964f - (s + (tail + 4.3711388e-8f));
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// sin, cos and tan without local memory, in which CUDA's own reduce large angles (32 and 40 bytes a thread).
// Part of math_cuda.h.
#pragma once

#include "math_trig.h"

namespace hg {

// 64 bits of zero, then 2 / pi
static __device__ const unsigned long long kTwoOverPi[] = {
    0x0000000000000000ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull,
    0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull,
    0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull,
    0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
    0xf0cfbc209af4361dull};

// A large x (from 2^31 on) as a multiple of a right angle, by Payne and Hanek's idea with integers: x is a mantissa of
// 64 bits times a power of two. Bits of 2 / pi before those that begin at bit s make whole turns; the next 192 are
// enough, for no double is nearer to a multiple of a right angle than 2^-62 of one, or of half a right angle than 2^-64.
HG_DEVICE double large_to_quadrant(double x, unsigned &quadrant) {
  typedef unsigned long long Word;
  const Word bits = (Word)__double_as_longlong(x), m = (bits << 11) | 1ull << 63;
  const int s = (int)(bits >> 52 & 0x7ff) - 1024, skip = s & 63;
  const Word *t = kTwoOverPi + (s >> 6);
  Word f2 = t[0], f1 = t[1], f0 = t[2];
  if (skip) {
    f2 = f2 << skip | f1 >> (64 - skip);
    f1 = f1 << skip | f0 >> (64 - skip);
    f0 = f0 << skip | t[3] >> (64 - skip);
  }
  // the highest 128 bits of the lowest 192: two of the quadrant, then a fraction of a right angle
  const Word low = __umul64hi(m, f0), middle = m * f1;
  Word lo = low + middle, hi = __umul64hi(m, f1) + m * f2 + (lo < low ? 1 : 0);
  quadrant = (unsigned)(hi >> 62);
  hi = hi << 2 | lo >> 62, lo <<= 2;
  const bool above = hi >> 63;  // half a right angle or more: what lacks to the next one
  if (above) {
    quadrant += 1;
    hi = ~hi, lo = ~lo;  // but for the last of 126 bits
  }
  const int zeros = __clzll((long long)hi);  // 1 to 61
  hi = hi << zeros | lo >> (64 - zeros);
  const double r = (double)__umul64hi(hi, 0xc90fdaa22168c235ull) * __longlong_as_double((1023ll - 63 - zeros) << 52);
  const bool negative = bits >> 63;
  quadrant = negative ? 0u - quadrant : quadrant;
  return above != negative ? -r : r;
}

// x = quadrant pi/2 + r with |r| <= pi/4, nearly; returns r. NaN for what is not finite.
HG_DEVICE double to_quadrant(double x, unsigned &quadrant) {
  if (::fabs(x) < 2147483648.0) {
    const double k = ::rint(x * 0.6366197723675814);
    quadrant = (unsigned)(long long)k;
    return fma(-k, -1.4973849048591698e-33, fma(-k, 6.123233995736766e-17, fma(-k, 1.5707963267948966, x)));
  }
  quadrant = 0;
  return ::fabs(x) < __longlong_as_double(0x7ff0000000000000ll) ? large_to_quadrant(x, quadrant) : x - x;
}

// The same of floats (from 2^17 on): a mantissa of 32 bits, and 128 of 2 / pi, of whose product those from the weight 2
// on are kept. No float is nearer to a multiple of a right angle than 2^-30, so that 32 bits of it are left.
HG_DEVICE float large_to_quadrant(float x, unsigned &quadrant) {
  typedef unsigned long long Word;
  const unsigned bits = (unsigned)__float_as_int(x), m = bits << 8 | 1u << 31;
  const int s = (int)(bits >> 23 & 0xff) - 96, skip = s & 63;
  const Word *t = kTwoOverPi + (s >> 6);
  Word f1 = t[0], f0 = t[1];
  if (skip) {
    f1 = f1 << skip | f0 >> (64 - skip);
    f0 = f0 << skip | t[2] >> (64 - skip);
  }
  Word turn = m * f1 + __umul64hi(m, f0);
  quadrant = (unsigned)(turn >> 62);
  turn <<= 2;
  const bool above = turn >> 63;
  quadrant += above ? 1 : 0;
  const float r = (float)__umul64hi(above ? 0 - turn : turn, 0xc90fdaa22168c235ull) * 1.08420217e-19f;  // 2^-63
  const bool negative = bits >> 31;
  quadrant = negative ? 0u - quadrant : quadrant;
  return above != negative ? -r : r;
}

HG_DEVICE float to_quadrant(float x, unsigned &quadrant) {
  if (::fabsf(x) < 131072.0f) {
    const float k = ::rintf(x * 0.636619747f);
    quadrant = (unsigned)(int)k;
    return fma(-k, -1.71512451e-15f, fma(-k, -4.37113883e-08f, fma(-k, 1.57079637f, x)));
  }
  quadrant = 0;
  return ::fabsf(x) < __int_as_float(0x7f800000) ? large_to_quadrant(x, quadrant) : x - x;
}

// |r| <= pi/4, with the coefficients of FreeBSD's msun (k_sin.c, k_cos.c)
HG_DEVICE double sin_near_0(double r, double z) {
  const double p = horner(z, -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
                          2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10);
  return fma(p, z * r, r);
}
HG_DEVICE double cos_near_0(double z) {
  const double p = horner(z, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
                          -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11);
  const double half = 0.5 * z, w = 1.0 - half;
  return w + fma(p, z * z, (1.0 - w) - half);
}

// Max error 1.5 ulp.
HG_DEVICE double sin(double x) {
  unsigned quadrant;
  const double r = to_quadrant(x, quadrant), z = r * r;
  const double y = quadrant & 1 ? cos_near_0(z) : sin_near_0(r, z);
  return x == 0.0 ? x : quadrant & 2 ? -y : y;
}
// Max error 1.6 ulp.
HG_DEVICE float sin(float x) {
  unsigned quadrant;
  const float r = to_quadrant(x, quadrant), z = r * r;
  const float y = quadrant & 1 ? cos_near_0(z) : sin_near_0(r, z);
  return x == 0.0f ? x : quadrant & 2 ? -y : y;
}
// Max error 1.5 ulp.
HG_DEVICE double cos(double x) {
  unsigned quadrant;
  const double r = to_quadrant(x, quadrant), z = r * r;
  const double y = quadrant & 1 ? sin_near_0(r, z) : cos_near_0(z);
  return (quadrant + 1) & 2 ? -y : y;
}
// Max error 1.6 ulp.
HG_DEVICE float cos(float x) {
  unsigned quadrant;
  const float r = to_quadrant(x, quadrant), z = r * r;
  const float y = quadrant & 1 ? sin_near_0(r, z) : cos_near_0(z);
  return (quadrant + 1) & 2 ? -y : y;
}
// Max error 3 ulp.
HG_DEVICE double tan(double x) {
  unsigned quadrant;
  const double r = to_quadrant(x, quadrant), z = r * r;
  const double s = sin_near_0(r, z), c = cos_near_0(z);
  return x == 0.0 ? x : quadrant & 1 ? -c / s : s / c;
}
// Max error 3.6 ulp (of every 61st float).
HG_DEVICE float tan(float x) {
  unsigned quadrant;
  const float r = to_quadrant(x, quadrant), z = r * r;
  const float s = sin_near_0(r, z), c = cos_near_0(z);
  return x == 0.0f ? x : quadrant & 1 ? -c / s : s / c;
}

}  // namespace hg

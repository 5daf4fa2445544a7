// SPDX-License-Identifier: Apache-2.0
// Mathematics for kernels under CUDA: the functions of math_cpu.h with the same names and meaning.
//
// NVRTC provides the single- and double-precision functions without headers; their errors are in the CUDA C++
// programming guide (exp 1 ulp, log 1, erf 2, pow 4, ...). tanh and sigmoid of floats are ours: without a division, whose
// rare cases would be a call that each element waits for. -ftz and -prec-div stay at their defaults, so subnormals
// count. HG_FAST_MATH selects approximations for float: those of the hardware for exp, log, log2, log10,
// tanh, sigmoid and softplus, a quotient of polynomials for erf (docs/numbers.md); -ftz goes with it.
#pragma once

// what a kernel does not use is no mistake
#pragma nv_diag_suppress 177

#ifndef HG_DEVICE
#define HG_DEVICE static __device__ __forceinline__
#endif

#include "math_fma.h"
#include "math_cuda_basic.h"

namespace hg {

// -- float and double functions that differ only in their CUDA names

#define HG_MATH_ONE(name, of_float, of_double)                  \
  HG_DEVICE float name(float x) { return ::of_float(x); }       \
  HG_DEVICE double name(double x) { return ::of_double(x); }
#define HG_MATH_TWO(name, of_float, of_double)                             \
  HG_DEVICE float name(float x, float y) { return ::of_float(x, y); }      \
  HG_DEVICE double name(double x, double y) { return ::of_double(x, y); }

HG_MATH_ONE(expm1, expm1f, expm1)
HG_MATH_ONE(log1p, log1pf, log1p)
HG_MATH_ONE(sqrt, sqrtf, sqrt)
HG_MATH_ONE(rsqrt, rsqrtf, rsqrt)
HG_MATH_ONE(cbrt, cbrtf, cbrt)
HG_MATH_ONE(asin, asinf, asin)
HG_MATH_ONE(acos, acosf, acos)
HG_MATH_ONE(atan, atanf, atan)
HG_MATH_ONE(sinh, sinhf, sinh)
HG_MATH_ONE(cosh, coshf, cosh)
HG_MATH_ONE(asinh, asinhf, asinh)
HG_MATH_ONE(acosh, acoshf, acosh)
HG_MATH_ONE(atanh, atanhf, atanh)
HG_MATH_ONE(erfc, erfcf, erfc)
HG_MATH_ONE(tgamma, tgammaf, tgamma)
HG_MATH_ONE(lgamma, lgammaf, lgamma)
HG_MATH_ONE(floor, floorf, floor)
HG_MATH_ONE(ceil, ceilf, ceil)
HG_MATH_ONE(trunc, truncf, trunc)
HG_MATH_ONE(rint, rintf, rint)
HG_MATH_ONE(round_away, roundf, round)
HG_MATH_ONE(abs, fabsf, fabs)
HG_MATH_TWO(pow, powf, pow)
HG_MATH_TWO(hypot, hypotf, hypot)
HG_MATH_TWO(atan2, atan2f, atan2)
HG_MATH_TWO(copysign, copysignf, copysign)

#undef HG_MATH_ONE
#undef HG_MATH_TWO

HG_DEVICE float rcbrt(float x) { return ::rcbrtf(x); }
HG_DEVICE double rcbrt(double x) { return 1.0 / ::cbrt(x); }
HG_DEVICE double sinpi(double x) { return ::sinpi(x); }
HG_DEVICE double cospi(double x) { return ::cospi(x); }

// -- classes of values, signs, extrema

HG_DEVICE bool isnan(float x) { return x != x; }
HG_DEVICE bool isnan(double x) { return x != x; }
HG_DEVICE bool isinf(float x) { return ::fabsf(x) == __int_as_float(0x7f800000); }
HG_DEVICE bool isinf(double x) { return ::fabs(x) == __longlong_as_double(0x7ff0000000000000ll); }
HG_DEVICE bool isfinite(float x) { return ::fabsf(x) < __int_as_float(0x7f800000); }
HG_DEVICE bool isfinite(double x) { return ::fabs(x) < __longlong_as_double(0x7ff0000000000000ll); }
// 0 for NaN and both zeros
HG_DEVICE float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
HG_DEVICE double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

// -- the hardware's approximations. Subnormal operands count as zeros, and subnormal results are zeros.

// 1 / x within 1 ulp
HG_DEVICE float rough_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 2^x within 2 ulp
HG_DEVICE float rough_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// -- exp, log, tanh, erf, sigmoid, softplus: exact or fast

HG_DEVICE double exp(double x) { return ::exp(x); }
HG_DEVICE double log(double x) { return ::log(x); }
HG_DEVICE double log2(double x) { return ::log2(x); }
HG_DEVICE double log10(double x) { return ::log10(x); }
HG_DEVICE double tanh(double x) { return ::tanh(x); }
HG_DEVICE double erf(double x) { return ::erf(x); }
// e = e^-|x| never overflows, and small results keep their relative accuracy
HG_DEVICE double sigmoid(double x) {
  const double e = ::exp(-::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
HG_DEVICE double softplus(double x) { return maximum(x, 0.0) + ::log1p(::exp(-::fabs(x))); }

#ifndef HG_FAST_MATH

HG_DEVICE float exp(float x) { return ::expf(x); }
HG_DEVICE float log(float x) { return ::logf(x); }
HG_DEVICE float log2(float x) { return ::log2f(x); }
HG_DEVICE float log10(float x) { return ::log10f(x); }
HG_DEVICE float erf(float x) { return ::erff(x); }

// x + x^3 P(x^2) below 0.6, 1 - 2 / (1 + e^2x) beyond, both at once: no branch. Max error 3 ulp where the approximations
// are off by as much as they may be.
HG_DEVICE float tanh(float x) {
  // fit: tanh_near_f32
  const float c0 = -0.33332598f, c1 = 0.13313127f, c2 = -0.052212235f, c3 = 0.015613213f;
  const float a = ::fabsf(x), z = x * x;
  const float near = ::fmaf(x, ::fmaf(z, horner(z, c0, c1, c2, c3), 0.0f), x);  // +0.0f keeps the sign of a zero
  const float far = ::fmaf(rough_reciprocal(rough_exp2(a * 2.88539f) + 1.0f), -2.0f, 1.0f);
  const float signed_far = ::copysignf(far, x);
  return a < 0.6f ? near : signed_far;
}

// 1 / (1 + e^-x), both terms times 2^-64, so that no intermediate result is too large or subnormal where the result is
// a number: e^-x = 2^(i + f), i from -62 to 190 by rounding to an integer in the low bits of j. Max error 6 ulp, as above.
HG_DEVICE float sigmoid(float x) {
  // fit: log2e_f32
  const float high = 1.442695f, low = 1.925963e-08f;
  const float j = ::fmaf(__saturatef(::fmaf(x, -high / 252.0f, 62.0f / 252.0f)), 252.0f, 12582913.0f);
  const float f = ::fmaf(x, -low, ::fmaf(x, -high, 12582975.0f - j));
  const float scale = __uint_as_float(__float_as_uint(j) << 23);  // 2^(i - 64)
  const float y = rough_reciprocal(::fmaf(rough_exp2(f), scale, 5.421010862427522e-20f));
  return minimum(y * 5.421010862427522e-20f, 1.0f);
}
HG_DEVICE float softplus(float x) { return maximum(x, 0.0f) + ::log1pf(::expf(-::fabsf(x))); }

#else

HG_DEVICE float exp(float x) { return rough_exp2(x * 1.442695f); }
HG_DEVICE float log(float x) { return __logf(x); }
HG_DEVICE float log2(float x) { return __log2f(x); }
HG_DEVICE float log10(float x) { return __log10f(x); }
HG_DEVICE float sigmoid(float x) { return rough_reciprocal(rough_exp2(x * -1.442695f) + 1.0f); }
// Its error is absolute, so that small results are the arguments: below 2^-7 these are off by 2^-15.6 of the result.
HG_DEVICE float tanh(float x) {
  const float y = ::fmaf(rough_reciprocal(rough_exp2(x * 2.88539f) + 1.0f), -2.0f, 1.0f);
  return ::fabsf(x) < 0.0078125f ? x : y;
}
HG_DEVICE float softplus(float x) { return maximum(x, 0.0f) + ::log1pf(exp(-::fabsf(x))); }
// 0 for divisors from 2^126 on
HG_DEVICE float quotient(float a, float b) { return a * rough_reciprocal(b); }

#endif

}  // namespace hg

#ifdef HG_FAST_MATH
#include "math_fast.h"
#endif
#include "math_cuda_trig.h"
#include "math_special.h"

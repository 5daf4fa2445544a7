// SPDX-License-Identifier: Apache-2.0
// Floating point. The fast intrinsics are the accurate functions here: test with a tolerance.
#pragma once

static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin(a, b); }
static inline double max(float a, double b) { return fmax(a, b); }
static inline double min(double a, float b) { return fmin(a, b); }
static inline double max(double a, float b) { return fmax(a, b); }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline double rcbrt(double x) { return 1.0 / cbrt(x); }
static inline float fdividef(float a, float b) { return a / b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) {
  return x != x ? 0.f : x < 0.f ? 0.f : x > 1.f ? 1.f : x;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frsqrt_rn(float a) { return (float)(1.0 / sqrt((double)a)); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __drcp_rn(double a) { return 1.0 / a; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline float normcdff(float x) { return (float)(0.5 * erfc(-x * 0.70710678118654752)); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
static inline float sinpif(float x) { return (float)sin((double)x * 3.14159265358979323846); }
static inline float cospif(float x) { return (float)cos((double)x * 3.14159265358979323846); }
static inline double sinpi(double x) { return sin(remainder(x, 2.0) * 3.14159265358979323846); }
static inline double cospi(double x) { return cos(remainder(x, 2.0) * 3.14159265358979323846); }

// A start by Winitzki's formula, then Newton steps on erfc, which keeps its accuracy near 1.
static inline double erfinv(double y) {
  const double z = fabs(y), rest = 1.0 - z;
  if (!(z < 1.0)) return z == 1.0 ? copysign(__builtin_inf(), y) : (double)__builtin_nan("");
  if (z == 0.0) return y;
  const double l = log1p(-z * z), a = 4.3307467508 + l / 2, b = l / 0.147;
  double x = sqrt(sqrt(a * a - b) - a);
  for (int i = 0; i < 4; i++) x += (erfc(x) - rest) * 0.88622692545275801 * exp(x * x);
  return copysign(x, y);
}
static inline float erfinvf(float y) { return (float)erfinv((double)y); }

// The C library knows nothing of the checks: results go through pointers here, in the kernel's
// sight.
COC_INLINE void coc_sincosf(float x, float* s, float* c) {
  *s = sinf(x);
  *c = cosf(x);
}
COC_INLINE void coc_sincos(double x, double* s, double* c) {
  *s = sin(x);
  *c = cos(x);
}
COC_INLINE void sincospif(float x, float* s, float* c) {
  *s = sinpif(x);
  *c = cospif(x);
}
COC_INLINE float coc_modff(float x, float* whole) {
  float w;
  const float r = modff(x, &w);
  *whole = w;
  return r;
}
COC_INLINE float coc_frexpf(float x, int* exponent) {
  int e;
  const float r = frexpf(x, &e);
  *exponent = e;
  return r;
}
static inline float coc_exp10f(float x) { return (float)pow(10.0, (double)x); }
#define sincosf(x, s, c) coc_sincosf(x, s, c)
#define sincos(x, s, c) coc_sincos(x, s, c)
#define modff(x, w) coc_modff(x, w)
#define frexpf(x, e) coc_frexpf(x, e)
#define exp10f(x) coc_exp10f(x)
#define __expf(x) expf(x)
#define __exp10f(x) coc_exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) coc_sincosf(x, s, c)

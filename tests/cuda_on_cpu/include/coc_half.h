// SPDX-License-Identifier: Apache-2.0
// Device-only parts of cuda_fp16.h and cuda_bf16.h, which NVIDIA's headers hide from host
// compilers. Part of the precompiled header when the kernel text includes one of the two.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

static inline __half __hfma(__half a, __half b, __half c) {
  const double product = (double)__half2float(a) * (double)__half2float(b);  // exact
  return __double2half(product + (double)__half2float(c));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(__hfma(__low2half(a), __low2half(b), __low2half(c)),
                        __hfma(__high2half(a), __high2half(b), __high2half(c)));
}
static inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  const double product = (double)__bfloat162float(a) * (double)__bfloat162float(b);
  return __double2bfloat16(product + (double)__bfloat162float(c));
}
#define COC_HALF_FUNCTION(name, expression)                           \
  static inline __half name(__half h) {                               \
    const float x = __half2float(h);                                  \
    return __float2half_rn(expression);                               \
  }                                                                   \
  static inline __half2 coc_2##name(__half2 h) {                      \
    return __halves2half2(name(__low2half(h)), name(__high2half(h))); \
  }                                                                   \
  static inline __nv_bfloat16 name(__nv_bfloat16 h) {                 \
    const float x = __bfloat162float(h);                              \
    return __float2bfloat16_rn(expression);                           \
  }
COC_HALF_FUNCTION(hexp, expf(x))
COC_HALF_FUNCTION(hexp2, exp2f(x))
COC_HALF_FUNCTION(hlog, logf(x))
COC_HALF_FUNCTION(hlog2, log2f(x))
COC_HALF_FUNCTION(hsqrt, sqrtf(x))
COC_HALF_FUNCTION(hrsqrt, rsqrtf(x))
COC_HALF_FUNCTION(hrcp, 1.0f / x)
COC_HALF_FUNCTION(hsin, sinf(x))
COC_HALF_FUNCTION(hcos, cosf(x))
COC_HALF_FUNCTION(hfloor, floorf(x))
COC_HALF_FUNCTION(hceil, ceilf(x))
COC_HALF_FUNCTION(htanh, tanhf(x))
static inline __half2 h2exp(__half2 h) { return coc_2hexp(h); }
static inline __half2 h2exp2(__half2 h) { return coc_2hexp2(h); }
static inline __half2 h2log(__half2 h) { return coc_2hlog(h); }
static inline __half2 h2sqrt(__half2 h) { return coc_2hsqrt(h); }
static inline __half2 h2rsqrt(__half2 h) { return coc_2hrsqrt(h); }
static inline __half2 h2rcp(__half2 h) { return coc_2hrcp(h); }
static inline __half2 h2tanh(__half2 h) { return coc_2htanh(h); }

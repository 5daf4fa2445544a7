// SPDX-License-Identifier: Apache-2.0
// Fused multiply-add and polynomials, for both targets.
//
// In strict mode compilers contract nothing, so that arithmetic written by users is rounded after every operation, as
// it is eagerly. What may be rounded once says so here. Where the processor has no such instruction (only old ones
// lack it), products are rounded too.
#pragma once

namespace hg {

// a * b + c
#if defined(HG_CUDA)
HG_DEVICE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
HG_DEVICE double fma(double a, double b, double c) { return ::fma(a, b, c); }
#elif defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMAF)
HG_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HG_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
HG_DEVICE float fma(float a, float b, float c) { return a * b + c; }
HG_DEVICE double fma(double a, double b, double c) { return a * b + c; }
#endif

// c0 + c1 x + c2 x^2 + ... by Horner's scheme in x2 = x^2 over pairs of terms, whose chain is half as long.
template <typename T>
HG_DEVICE T poly(T, T, T c0) { return c0; }
template <typename T>
HG_DEVICE T poly(T x, T, T c0, T c1) { return fma(c1, x, c0); }
template <typename T, typename... Rest>
HG_DEVICE T poly(T x, T x2, T c0, T c1, Rest... rest) { return fma(poly(x, x2, rest...), x2, fma(c1, x, c0)); }

// The same by Horner's scheme in x: the fewest operations.
template <typename T>
HG_DEVICE T horner(T, T c0) { return c0; }
template <typename T, typename... Rest>
HG_DEVICE T horner(T x, T c0, Rest... rest) { return fma(horner(x, rest...), x, c0); }

}  // namespace hg

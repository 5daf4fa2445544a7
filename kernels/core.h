// SPDX-License-Identifier: Apache-2.0
// Scalar helpers of both targets that every kernel may use.
#pragma once

#include "math_fma.h"

namespace hg {

#ifdef HG_CUDA
template <typename T>
HG_DEVICE T infinity() { return (T)__int_as_float(0x7f800000); }
template <typename T>
HG_DEVICE T nan() { return (T)__int_as_float(0x7fc00000); }
#else
template <typename T>
HG_DEVICE T infinity() { return (T)__builtin_inff(); }
template <typename T>
HG_DEVICE T nan() { return (T)__builtin_nanf(""); }
#endif

// Functions that integers share with floats (whose overloads are in math.h).
template <typename T>
HG_DEVICE T maximum(T a, T b) { return a > b ? a : b; }
template <typename T>
HG_DEVICE T minimum(T a, T b) { return a < b ? a : b; }

// Floats cut to integers. What does not fit gives what the machine's instruction gives (the least integer; on a
// GPU the nearest one, and 0 for NaN). C++ leaves it undefined, and g++ makes (float)(int)x a plain truncation.
#ifdef HG_CUDA
template <typename T>
HG_DEVICE int to_int(T x) { return (int)x; }
template <typename T>
HG_DEVICE long long to_long(T x) { return (long long)x; }
#else
template <typename T>
HG_DEVICE int to_int(T x) {
  return (x >= (T)-2147483648.0) & (x < (T)2147483648.0) ? (int)x : -2147483647 - 1;
}
template <typename T>
HG_DEVICE long long to_long(T x) {
  return (x >= (T)-9223372036854775808.0) & (x < (T)9223372036854775808.0) ? (long long)x
                                                                           : -9223372036854775807LL - 1;
}
#endif

// Integer arithmetic wraps around, which C++ leaves undefined where it happens in a signed type.
template <typename T>
HG_DEVICE T plus(T a, T b) { return (T)(a + b); }
template <typename T>
HG_DEVICE T minus(T a, T b) { return (T)(a - b); }
template <typename T>
HG_DEVICE T times(T a, T b) { return (T)(a * b); }
#define HG_WRAP(T, U)                                              \
  HG_DEVICE T plus(T a, T b) { return (T)((U)a + (U)b); }          \
  HG_DEVICE T minus(T a, T b) { return (T)((U)a - (U)b); }         \
  HG_DEVICE T times(T a, T b) { return (T)((U)a * (U)b); }         \
  HG_DEVICE T negative(T a) { return (T)(0 - (U)a); }
HG_WRAP(signed char, unsigned int)
HG_WRAP(unsigned char, unsigned int)
HG_WRAP(short, unsigned int)
HG_WRAP(unsigned short, unsigned int)
HG_WRAP(int, unsigned int)
HG_WRAP(unsigned int, unsigned int)
HG_WRAP(long long, unsigned long long)
HG_WRAP(unsigned long long, unsigned long long)
#undef HG_WRAP

// sum + a * b; of floats, fused.
template <typename T>
HG_DEVICE T plus_product(T sum, T a, T b) { return plus(sum, times(a, b)); }
HG_DEVICE float plus_product(float sum, float a, float b) { return fma(a, b, sum); }
HG_DEVICE double plus_product(double sum, double a, double b) { return fma(a, b, sum); }

// Signed integers. Division cuts towards zero and x / 0 is 0; the remainder has the sign of the
// divisor and x mod 0 is 0. Dividing by -1 is a negation, which cannot overflow here.
template <typename T>
HG_DEVICE T abs(T a) { return a < 0 ? (T)(0 - (unsigned long long)a) : a; }
template <typename T>
HG_DEVICE T sign(T a) { return (T)((a > 0) - (a < 0)); }
template <typename T>
HG_DEVICE T idiv(T a, T b) {
  return b == 0 ? (T)0 : (b == -1 ? (T)(0 - (unsigned long long)a) : (T)(a / b));
}
template <typename T>
HG_DEVICE T mod(T a, T b) {
  if (b == 0 || b == -1) return 0;
  const T r = (T)(a % b);
  return r != 0 && ((r < 0) != (b < 0)) ? (T)(r + b) : r;
}

// Unsigned integers.
#define HG_UNSIGNED(T)                                                   \
  HG_DEVICE T abs(T a) { return a; }                                     \
  HG_DEVICE T sign(T a) { return a != 0; }                               \
  HG_DEVICE T idiv(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }      \
  HG_DEVICE T mod(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }
HG_UNSIGNED(unsigned char)
HG_UNSIGNED(unsigned short)
HG_UNSIGNED(unsigned int)
HG_UNSIGNED(unsigned long long)
#undef HG_UNSIGNED

// Greatest common divisor, not negative; of 0 and 0 it is 0.
template <typename T>
HG_DEVICE T gcd(T a, T b) {
  while (b != 0) {
    const T r = mod(a, b);
    a = b;
    b = r;
  }
  return abs(a);
}

HG_DEVICE double mod(double a, double b) {
#ifdef HG_CUDA
  const double r = fmod(a, b);
#else
  const double r = __builtin_fmod(a, b);
#endif
  if (r == 0) return b < 0 ? -0.0 : 0.0;  // a zero has the divisor's sign, as any other remainder
  return b == 0 ? 0 : ((r < 0) != (b < 0) ? r + b : r);
}
HG_DEVICE float mod(float a, float b) {
#ifdef HG_CUDA
  const float r = fmodf(a, b);
#else
  const float r = __builtin_fmodf(a, b);
#endif
  if (r == 0) return b < 0 ? -0.0f : 0.0f;
  return b == 0 ? 0.0f : ((r < 0) != (b < 0) ? r + b : r);
}

// A float argument of kernels, whose arguments are integers: its bits.
template <typename T>
struct FloatArgument;
template <>
struct FloatArgument<float> {
  HG_DEVICE float from_bits(const long long bits) {
#ifdef HG_CUDA
    return __int_as_float((int)bits);
#else
    const int low = (int)bits;
    float value;
    __builtin_memcpy(&value, &low, sizeof value);
    return value;
#endif
  }
};
template <>
struct FloatArgument<double> {
  HG_DEVICE double from_bits(const long long bits) {
#ifdef HG_CUDA
    return __longlong_as_double(bits);
#else
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
#endif
  }
};

}  // namespace hg

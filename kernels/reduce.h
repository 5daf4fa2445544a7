// SPDX-License-Identifier: Apache-2.0
// Reductions: one struct a combiner, with the same three functions on every target.
//   start()             the state before the first element
//   add(s, value, at)   take one element in (`at`: its position, used by ArgMax and ArgMin)
//   merge(s, t)         put two states together
// NaN wins in Max and Min, as in NumPy.
#pragma once

#ifdef HG_CUDA
#include "math_cuda_basic.h"
#endif

namespace hg {

template <typename T> struct limits;
template <> struct limits<float> { HG_DEVICE float low() { return -infinity<float>(); } HG_DEVICE float high() { return infinity<float>(); } };
template <> struct limits<double> { HG_DEVICE double low() { return -infinity<double>(); } HG_DEVICE double high() { return infinity<double>(); } };
template <> struct limits<bool> { HG_DEVICE bool low() { return false; } HG_DEVICE bool high() { return true; } };
#define HG_LIMITS(T, LOW, HIGH) \
  template <> struct limits<T> { HG_DEVICE T low() { return (T)(LOW); } HG_DEVICE T high() { return (T)(HIGH); } };
HG_LIMITS(signed char, -128, 127)
HG_LIMITS(unsigned char, 0, 255)
HG_LIMITS(short, -32768, 32767)
HG_LIMITS(unsigned short, 0, 65535)
HG_LIMITS(int, -2147483647 - 1, 2147483647)
HG_LIMITS(unsigned int, 0, 4294967295u)
HG_LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll)
HG_LIMITS(unsigned long long, 0, 18446744073709551615ull)
#undef HG_LIMITS

template <typename T>
struct Sum {
  typedef T State;
  HG_DEVICE State start() { return (T)0; }
  HG_DEVICE State add(State s, T value, long long) { return plus(s, value); }
  HG_DEVICE State merge(State s, State t) { return plus(s, t); }
  HG_DEVICE T result(State s) { return s; }
};

template <typename T>
struct Prod {
  typedef T State;
  HG_DEVICE State start() { return (T)1; }
  HG_DEVICE State add(State s, T value, long long) { return times(s, value); }
  HG_DEVICE State merge(State s, State t) { return times(s, t); }
  HG_DEVICE T result(State s) { return s; }
};

template <typename T>
struct Max {
  typedef T State;
  HG_DEVICE State start() { return limits<T>::low(); }
#ifdef HG_CUDA
  HG_DEVICE State merge(State s, State t) { return maximum(s, t); }
#else
  HG_DEVICE State merge(State s, State t) {
    const T m = t > s ? t : s;  // two plain selections, which compilers vectorise
    return t != t ? t : m;
  }
#endif
  HG_DEVICE State add(State s, T value, long long) { return merge(s, value); }
  HG_DEVICE T result(State s) { return s; }
};

template <typename T>
struct Min {
  typedef T State;
  HG_DEVICE State start() { return limits<T>::high(); }
#ifdef HG_CUDA
  HG_DEVICE State merge(State s, State t) { return minimum(s, t); }
#else
  HG_DEVICE State merge(State s, State t) {
    const T m = t < s ? t : s;
    return t != t ? t : m;
  }
#endif
  HG_DEVICE State add(State s, T value, long long) { return merge(s, value); }
  HG_DEVICE T result(State s) { return s; }
};

template <typename T>
struct Found {
  T value;
  long long at;  // -1 before the first element
};

// True if (t, at) beats (s, before): NaN first, then the value, then the lower position.
template <bool LARGEST, typename T>
HG_DEVICE bool beats(const Found<T> t, const Found<T> s) {
  if (s.at < 0 || t.at < 0) return t.at >= 0;
  const bool t_nan = t.value != t.value, s_nan = s.value != s.value;
  if (t_nan != s_nan) return t_nan;
  if (t_nan || t.value == s.value) return t.at < s.at;
  return LARGEST ? t.value > s.value : t.value < s.value;
}

template <typename T, bool LARGEST>
struct ArgExtreme {
  typedef Found<T> State;
  HG_DEVICE State start() { return State{(T)0, -1}; }
  HG_DEVICE State merge(State s, State t) { return beats<LARGEST>(t, s) ? t : s; }
  HG_DEVICE State add(State s, T value, long long at) { return merge(s, State{value, at}); }
  HG_DEVICE long long result(State s) { return s.at < 0 ? 0 : s.at; }
};
template <typename T> struct ArgMax : ArgExtreme<T, true> {};
template <typename T> struct ArgMin : ArgExtreme<T, false> {};

}  // namespace hg

#ifdef HG_CUDA
#include "reduce_cuda.h"
#else
#include "reduce_cpu.h"
#endif

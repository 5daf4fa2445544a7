// SPDX-License-Identifier: Apache-2.0
// Folding a chunk of consecutive values into a reduction's state, vectorised.
#pragma once

namespace hg {

// Any combiner, one element after the other; `at` is the first position, `step` their distance.
template <typename Op, typename T>
struct Fold {
  HG_DEVICE typename Op::State of(typename Op::State s, const T* t, const Index n, const Index at, const Index step) {
    for (Index i = 0; i < n; ++i) s = Op::add(s, t[i], at + i * step);
    return s;
  }
};

#define HG_PRAGMA_(...) _Pragma(#__VA_ARGS__)
#define HG_PRAGMA(...) HG_PRAGMA_(__VA_ARGS__)

// Four independent partial results (of type U) hide the latency of an addition.
#define HG_FOLD(OP, T, U, SYMBOL, COMBINE)                                                 \
  template <>                                                                              \
  struct Fold<OP<T>, T> {                                                                  \
    HG_DEVICE T of(const T s, const T* HG_RESTRICT t, const Index n, const Index, const Index) { \
      U p0 = (U)OP<T>::start(), p1 = p0, p2 = p0, p3 = p0;                                 \
      const Index q = n / 4;                                                               \
      HG_PRAGMA(omp simd reduction(SYMBOL : p0, p1, p2, p3))                               \
      for (Index i = 0; i < q; ++i) {                                                      \
        COMBINE(p0, (U)t[i]);                                                              \
        COMBINE(p1, (U)t[i + q]);                                                          \
        COMBINE(p2, (U)t[i + 2 * q]);                                                      \
        COMBINE(p3, (U)t[i + 3 * q]);                                                      \
      }                                                                                    \
      for (Index i = 4 * q; i < n; ++i) COMBINE(p0, (U)t[i]);                              \
      COMBINE(p0, p1);                                                                     \
      COMBINE(p2, p3);                                                                     \
      COMBINE(p0, p2);                                                                     \
      COMBINE(p0, (U)s);                                                                   \
      return (T)p0;                                                                        \
    }                                                                                      \
  };
#define HG_PLUS(a, b) a += (b)
#define HG_TIMES(a, b) a *= (b)
#define HG_LARGER(a, b) a = (b) > a ? (b) : a
#define HG_SMALLER(a, b) a = (b) < a ? (b) : a

HG_FOLD(Sum, float, float, +, HG_PLUS)
HG_FOLD(Sum, double, double, +, HG_PLUS)
HG_FOLD(Sum, int, unsigned int, +, HG_PLUS)
HG_FOLD(Sum, long long, unsigned long long, +, HG_PLUS)
HG_FOLD(Prod, float, float, *, HG_TIMES)
HG_FOLD(Prod, double, double, *, HG_TIMES)
HG_FOLD(Max, int, int, max, HG_LARGER)
HG_FOLD(Min, int, int, min, HG_SMALLER)
#undef HG_FOLD

// Extremes of floats: the comparison loop ignores NaN, which is counted beside it.
#define HG_FOLD_EXTREME(OP, T, SYMBOL, COMBINE)                                            \
  template <>                                                                              \
  struct Fold<OP<T>, T> {                                                                  \
    HG_DEVICE T of(const T s, const T* HG_RESTRICT t, const Index n, const Index, const Index) { \
      T p0 = OP<T>::start(), p1 = p0;                                                      \
      int nans = 0;                                                                        \
      const Index q = n / 2;                                                               \
      HG_PRAGMA(omp simd reduction(SYMBOL : p0, p1) reduction(| : nans))                   \
      for (Index i = 0; i < q; ++i) {                                                      \
        COMBINE(p0, t[i]);                                                                 \
        COMBINE(p1, t[i + q]);                                                             \
        nans |= (t[i] != t[i]) | (t[i + q] != t[i + q]);                                   \
      }                                                                                    \
      if (n % 2) {                                                                         \
        COMBINE(p0, t[n - 1]);                                                             \
        nans |= t[n - 1] != t[n - 1];                                                      \
      }                                                                                    \
      COMBINE(p0, p1);                                                                     \
      return nans ? nan<T>() : OP<T>::merge(p0, s);                                        \
    }                                                                                      \
  };
HG_FOLD_EXTREME(Max, float, max, HG_LARGER)
HG_FOLD_EXTREME(Max, double, max, HG_LARGER)
HG_FOLD_EXTREME(Min, float, min, HG_SMALLER)
HG_FOLD_EXTREME(Min, double, min, HG_SMALLER)
#undef HG_FOLD_EXTREME
#undef HG_PLUS
#undef HG_TIMES
#undef HG_LARGER
#undef HG_SMALLER

template <typename Op, typename T>
HG_DEVICE typename Op::State fold(const typename Op::State s, const T* t, const Index n, const Index at, const Index step) {
  return Fold<Op, T>::of(s, t, n, at, step);
}

}  // namespace hg

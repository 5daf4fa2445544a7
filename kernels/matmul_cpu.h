// SPDX-License-Identifier: Apache-2.0
// Matrix products of the host target, written with vector types that g++ and clang share.
//
// K is the length of the sum, N the number of columns; AM and AK are the strides of the left operand
// along rows and sum, BK and BN those of the right one along sum and columns, in elements. They are
// template arguments so that what a shape does not need is never compiled. ONE: there is one row.
// `out(m, n, sum)` receives every element once.
#pragma once

#if defined(__AVX512F__)
#define HG_VECTOR_BYTES 64
#elif defined(__AVX__)
#define HG_VECTOR_BYTES 32
#else
#define HG_VECTOR_BYTES 16
#endif

namespace hg {

template <typename T>
struct vector_of {
  static const int lanes = HG_VECTOR_BYTES / sizeof(T);
  typedef T type __attribute__((vector_size(HG_VECTOR_BYTES)));
  typedef T loose __attribute__((vector_size(HG_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

// Sum of the lanes, halving the width each time.
template <typename T, int LANES>
HG_DEVICE T lane_sum(const T __attribute__((vector_size(LANES * sizeof(T)))) v) {
  if constexpr (LANES == 2) {
    return v[0] + v[1];
  } else {
    T __attribute__((vector_size(LANES * sizeof(T) / 2))) low, high;
    __builtin_memcpy(&low, &v, sizeof low);
    __builtin_memcpy(&high, (const char*)&v + sizeof low, sizeof high);
    return lane_sum<T, LANES / 2>(low + high);
  }
}

// Long sums are sums of partial ones, whose rounding errors do not pile up: terms of a part.
template <int K, int SIZE>
HG_DEVICE constexpr int part_of() {
  return K >= 4 * SIZE ? SIZE : K > 0 ? K : 1;
}

// MR x NR elements at once, both operands contiguous along the sum.
template <int MR, int NR, int K, Index AM, Index BN, typename T, typename F>
HG_DEVICE void dots_block(const T* a, const T* b, const Index m, const Index n, F out) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  const int whole = K / lanes * lanes, part = part_of<whole, 64 * lanes>();
  V sum[MR][NR] = {};
  for (int from = 0; from < whole; from += part) {
    const int to = whole - from < part ? whole : from + part;
    V some[MR][NR] = {};
    for (int k = from; k < to; k += lanes) {
      V left[MR];
      for (int i = 0; i < MR; ++i) left[i] = *(const L*)(a + i * AM + k);
      for (int j = 0; j < NR; ++j) {
        const V right = *(const L*)(b + j * BN + k);
        for (int i = 0; i < MR; ++i) some[i][j] += left[i] * right;
      }
    }
    for (int i = 0; i < MR; ++i)
      for (int j = 0; j < NR; ++j) sum[i][j] += some[i][j];
  }
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; ++j) {
      T total = lane_sum<T, lanes>(sum[i][j]);
      if constexpr (whole < K)
        for (int k = whole; k < K; ++k) total += a[i * AM + k] * b[j * BN + k];
      out(m + i, n + j, total);
    }
}

template <int MR, int N, int K, Index AM, Index BN, typename T, typename F>
HG_DEVICE void dots_rows(const T* a, const T* b, const Index m, F out) {
  const int NR = MR == 1 ? 8 : 4;
  Index n = 0;
  if constexpr (N >= NR)
    for (; n + NR <= N; n += NR) dots_block<MR, NR, K, AM, BN>(a + m * AM, b + n * BN, m, n, out);
  if constexpr (N % NR != 0)
    for (; n < N; ++n) dots_block<MR, 1, K, AM, BN>(a + m * AM, b + n * BN, m, n, out);
}

// sum over k of a[m * AM + k] * b[n * BN + k], for rows begin … end - 1.
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_dots(const T* a, const T* b, const Index begin, const Index end, F out) {
  Index m = begin;
  if constexpr (!ONE)
    for (; m + 4 <= end; m += 4) dots_rows<4, N, K, AM, BN>(a, b, m, out);
  for (; m < end; ++m) dots_rows<1, N, K, AM, BN>(a, b, m, out);
}

// MR rows and NV vectors of columns at once; the right operand is contiguous along the columns.
template <int MR, int NV, int K, Index AM, Index AK, Index BK, typename T, typename F>
HG_DEVICE void axpy_block(const T* a, const T* b, const Index m, const Index n, F out) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  const int part = part_of<K, 256>();
  V sum[MR][NV] = {};
  for (int from = 0; from < K; from += part) {
    const int to = K - from < part ? K : from + part;
    V some[MR][NV] = {};
    for (int k = from; k < to; ++k) {
      V right[NV];
      for (int j = 0; j < NV; ++j) right[j] = *(const L*)(b + k * BK + j * lanes);
      for (int i = 0; i < MR; ++i) {
        const T left = a[i * AM + k * AK];
        for (int j = 0; j < NV; ++j) some[i][j] += left * right[j];
      }
    }
    for (int i = 0; i < MR; ++i)
      for (int j = 0; j < NV; ++j) sum[i][j] += some[i][j];
  }
  T line[MR][NV * lanes];
  __builtin_memcpy(line, sum, sizeof line);
  for (int i = 0; i < MR; ++i) {
    HG_SIMD
    for (int j = 0; j < NV * lanes; ++j) out(m + i, n + j, line[i][j]);
  }
}

template <int MR, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void axpy_rows(const T* a, const T* b, const Index m, F out) {
  const int lanes = vector_of<T>::lanes, strip = 16;
  Index n = 0;
  if constexpr (BN == 1) {
    if constexpr (N >= 4 * lanes)
      for (; n + 4 * lanes <= N; n += 4 * lanes) axpy_block<MR, 4, K, AM, AK, BK>(a + m * AM, b + n, m, n, out);
    if constexpr (N % (4 * lanes) >= lanes)
      for (; n + lanes <= N; n += lanes) axpy_block<MR, 1, K, AM, AK, BK>(a + m * AM, b + n, m, n, out);
  }
  if constexpr (BN != 1 || N % lanes != 0)  // what is left of the columns, in strips of their own
    for (; n < N; n += strip) {
      const int width = N - n < strip ? (int)(N - n) : strip;
      for (int i = 0; i < MR; ++i) {
        T sum[strip] = {};
        const int part = part_of<K, 256>();
        for (int from = 0; from < K; from += part) {
          const int to = K - from < part ? K : from + part;
          T some[strip] = {};
          for (int k = from; k < to; ++k) {
            const T left = a[(m + i) * AM + k * AK];
            for (int j = 0; j < width; ++j) some[j] += left * b[k * BK + (n + j) * BN];
          }
          for (int j = 0; j < width; ++j) sum[j] += some[j];
        }
        for (int j = 0; j < width; ++j) out(m + i, n + j, sum[j]);
      }
    }
}

// sum over k of a[m * AM + k * AK] * b[k * BK + n * BN]; fastest where BN is 1.
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const T* b, const Index begin, const Index end, F out) {
  Index m = begin;
  if constexpr (!ONE)
    for (; m + 4 <= end; m += 4) axpy_rows<4, N, K, AM, AK, BK, BN>(a, b, m, out);
  for (; m < end; ++m) axpy_rows<1, N, K, AM, AK, BK, BN>(a, b, m, out);
}

// Types that vectors do not hold: products and sums in C, element by element.
template <typename C, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_plain(const T* a, const T* b, const Index begin, const Index end, F out) {
  for (Index m = begin; m < end; ++m)
    for (int n = 0; n < N; ++n) {
      C sum = 0;
      for (int k = 0; k < K; ++k) sum = plus(sum, times((C)a[m * AM + k * AK], (C)b[k * BK + n * BN]));
      out(m, n, sum);
    }
}

}  // namespace hg

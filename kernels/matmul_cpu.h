// SPDX-License-Identifier: Apache-2.0
// Matrix products of the host target, written with vector types that g++ and clang share.
// `out(m, n, sum)` receives every element once. Extents and strides are literals at the call.
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
struct lane_sum {
  typedef T whole __attribute__((vector_size(LANES * sizeof(T))));
  typedef T half_ __attribute__((vector_size(LANES * sizeof(T) / 2)));
  HG_DEVICE T of(const whole v) {
    half_ low, high;
    __builtin_memcpy(&low, &v, sizeof low);
    __builtin_memcpy(&high, (const char*)&v + sizeof low, sizeof high);
    return lane_sum<T, LANES / 2>::of(low + high);
  }
};
template <typename T>
struct lane_sum<T, 2> {
  typedef T whole __attribute__((vector_size(2 * sizeof(T))));
  HG_DEVICE T of(const whole v) { return v[0] + v[1]; }
};

// MR x NR elements at once, both operands contiguous along the sum.
template <int MR, int NR, typename T, typename F>
HG_DEVICE void dots_block(const T* a, const Index sa, const T* b, const Index sb, const Index m, const Index n,
                          const Index depth, F out) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  V sum[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) sum[i][j] = V{};
  Index k = 0;
  for (; k + lanes <= depth; k += lanes) {
    V left[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) left[i] = *(const L*)(a + (m + i) * sa + k);
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const V right = *(const L*)(b + (n + j) * sb + k);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) sum[i][j] += left[i] * right;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      T total = lane_sum<T, lanes>::of(sum[i][j]);
      for (Index t = k; t < depth; ++t) total += a[(m + i) * sa + t] * b[(n + j) * sb + t];
      out(m + i, n + j, total);
    }
}

template <int MR, typename T, typename F>
HG_DEVICE void dots_rows(const T* a, const Index sa, const T* b, const Index sb, const Index m, const Index columns,
                         const Index depth, F out) {
  const int NR = MR == 1 ? 8 : 4;
  Index n = 0;
  for (; n + NR <= columns; n += NR) dots_block<MR, NR>(a, sa, b, sb, m, n, depth, out);
  for (; n < columns; ++n) dots_block<MR, 1>(a, sa, b, sb, m, n, depth, out);
}

// sum over k of a[m * am + k] * b[n * bn + k]; ak and bk are 1.
template <typename T, typename F>
HG_DEVICE void matmul_dots(const T* a, const Index am, const Index ak, const T* b, const Index bk, const Index bn,
                           const Index begin, const Index end, const Index columns, const Index depth, F out) {
  (void)ak, (void)bk;
  Index m = begin;
  for (; m + 4 <= end; m += 4) dots_rows<4>(a, am, b, bn, m, columns, depth, out);
  for (; m < end; ++m) dots_rows<1>(a, am, b, bn, m, columns, depth, out);
}

// MR rows and NV vectors of columns at once; the right operand is contiguous along the columns.
template <int MR, int NV, typename T, typename F>
HG_DEVICE void axpy_block(const T* a, const Index am, const Index ak, const T* b, const Index bk, const Index m,
                          const Index n, const Index depth, F out) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  V sum[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) sum[i][j] = V{};
  for (Index k = 0; k < depth; ++k) {
    V right[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) right[j] = *(const L*)(b + k * bk + n + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const T left = a[(m + i) * am + k * ak];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) sum[i][j] += left * right[j];
    }
  }
  T line[MR][NV * lanes];
  __builtin_memcpy(line, sum, sizeof line);
  for (int i = 0; i < MR; ++i) {
    HG_SIMD
    for (int j = 0; j < NV * lanes; ++j) out(m + i, n + j, line[i][j]);
  }
}

template <int MR, typename T, typename F>
HG_DEVICE void axpy_rows(const T* a, const Index am, const Index ak, const T* b, const Index bk, const Index bn,
                         const Index m, const Index columns, const Index depth, F out) {
  const int lanes = vector_of<T>::lanes;
  Index n = 0;
  if (bn == 1) {
    for (; n + 4 * lanes <= columns; n += 4 * lanes) axpy_block<MR, 4>(a, am, ak, b, bk, m, n, depth, out);
    for (; n + lanes <= columns; n += lanes) axpy_block<MR, 1>(a, am, ak, b, bk, m, n, depth, out);
  }
  // what is left of the columns, in a strip of its own
  const int strip = 16;
  for (; n < columns; n += strip) {
    const Index width = columns - n < strip ? columns - n : strip;
    for (int i = 0; i < MR; ++i) {
      T sum[strip] = {};
      for (Index k = 0; k < depth; ++k) {
        const T left = a[(m + i) * am + k * ak];
        for (Index j = 0; j < width; ++j) sum[j] += left * b[k * bk + (n + j) * bn];
      }
      for (Index j = 0; j < width; ++j) out(m + i, n + j, sum[j]);
    }
  }
}

// sum over k of a[m * am + k * ak] * b[k * bk + n * bn]; fastest where bn is 1.
template <typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const Index am, const Index ak, const T* b, const Index bk, const Index bn,
                           const Index begin, const Index end, const Index columns, const Index depth, F out) {
  Index m = begin;
  for (; m + 4 <= end; m += 4) axpy_rows<4>(a, am, ak, b, bk, bn, m, columns, depth, out);
  for (; m < end; ++m) axpy_rows<1>(a, am, ak, b, bk, bn, m, columns, depth, out);
}

#ifdef HG_HALF
// Half precision: products and sums in float, element by element.
template <typename F>
HG_DEVICE void matmul_axpy(const half* a, const Index am, const Index ak, const half* b, const Index bk,
                           const Index bn, const Index begin, const Index end, const Index columns, const Index depth,
                           F out) {
  for (Index m = begin; m < end; ++m)
    for (Index n = 0; n < columns; ++n) {
      float sum = 0;
      for (Index k = 0; k < depth; ++k) sum += (float)a[m * am + k * ak] * (float)b[k * bk + n * bn];
      out(m, n, sum);
    }
}
template <typename F>
HG_DEVICE void matmul_dots(const half* a, const Index am, const Index ak, const half* b, const Index bk,
                           const Index bn, const Index begin, const Index end, const Index columns, const Index depth,
                           F out) {
  matmul_axpy(a, am, ak, b, bk, bn, begin, end, columns, depth, out);
}
#endif

}  // namespace hg

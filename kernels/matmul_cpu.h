// SPDX-License-Identifier: Apache-2.0
// Matrix products of the host target, written with vector types that g++ and clang share.
//
// K is the length of the sum, N the number of columns; AM and AK are the strides of the left operand
// along rows and sum, BK and BN those of the right one along sum and columns, in elements. They are
// template arguments so that what a shape does not need is never compiled. ONE: there is one row.
// `out(m, n, sum)` receives every element once. K is 0 where the length is an argument, `terms`: that of a gradient of a
// weight is the batch. The order of summation is the same.
#pragma once

#if defined(__AVX512F__)
#define HG_VECTOR_BYTES 64
#elif defined(__AVX__)
#define HG_VECTOR_BYTES 32
#else
#define HG_VECTOR_BYTES 16
#endif

// Rows and columns of a tile of dot products: sums, left operands and a right one fill the vector registers.
#if defined(__AVX512F__) || defined(__aarch64__)
#define HG_TILE_ROWS 4
#define HG_TILE_COLUMNS 6
#else
#define HG_TILE_ROWS 3
#define HG_TILE_COLUMNS 4
#endif
#define HG_LINED_UP (128 << 10)  // bytes of rows that are copied at a time: they stay in the second-level cache

namespace hg {

template <typename T>
struct vector_of {
  static const int lanes = HG_VECTOR_BYTES / sizeof(T);
  typedef T type __attribute__((vector_size(HG_VECTOR_BYTES)));
  typedef T loose __attribute__((vector_size(HG_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

#if defined(__clang__)
#define HG_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define HG_CONTRACT
#endif

// sum + a * b in every lane, a scalar or a vector: fused, where fma is. g++ 12 has a builtin of each instruction set
// for that, clang a pragma; of an instruction set without a case here each lane is a call of fma.
template <typename V, typename T>
HG_DEVICE V multiply_add(const T a, const V b, const V sum) {
  HG_CONTRACT
#if defined(__clang__) || !(defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMAF))
  return sum + a * b;
#else
  const V left = a - V{};  // a scalar in every lane
#if defined(__AVX512F__)
  if constexpr (sizeof left[0] == 4)
    return (V)__builtin_ia32_vfmaddps512_mask(left, b, sum, -1, 4);
  else
    return (V)__builtin_ia32_vfmaddpd512_mask(left, b, sum, -1, 4);
#elif defined(__FMA__)
  if constexpr (sizeof left[0] == 4)
    return (V)__builtin_ia32_vfmaddps256(left, b, sum);
  else
    return (V)__builtin_ia32_vfmaddpd256(left, b, sum);
#elif defined(__has_builtin) && __has_builtin(__builtin_aarch64_fmav4sf)
  if constexpr (sizeof left[0] == 4)
    return (V)__builtin_aarch64_fmav4sf(left, b, sum);
  else
    return (V)__builtin_aarch64_fmav2df(left, b, sum);
#else
  V result;
  for (int i = 0; i < (int)(sizeof(V) / sizeof left[0]); ++i) result[i] = fma(left[i], b[i], sum[i]);
  return result;
#endif
#endif
}

template <int... I>
struct integers {};
template <int N, int... I>
struct counted : counted<N - 1, N - 1, I...> {};
template <int... I>
struct counted<0, I...> {
  typedef integers<I...> type;
};

// In a and b every G lanes belong to one sum; in the result G / 2 do, first those of a's sums, then those of b's.
template <int G, typename V, int... I>
HG_DEVICE V fold_lanes(const V a, const V b, integers<I...>) {
  const int lanes = sizeof...(I), half = lanes / 2, part = G / 2;
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, (I / half * lanes + I % half / part * G + I % part)...) +
         __builtin_shufflevector(a, b, (I / half * lanes + I % half / part * G + I % part + part)...);
#else
  typedef decltype(a < b) Places;
  return __builtin_shuffle(a, b, Places{(I / half * lanes + I % half / part * G + I % part)...}) +
         __builtin_shuffle(a, b, Places{(I / half * lanes + I % half / part * G + I % part + part)...});
#endif
}

// N vectors from FIRST on, of which COUNT are there, as one vector with lanes / N lanes for each.
template <int N, int FIRST, int COUNT, typename V>
HG_DEVICE V folded(const V* v) {
  const int lanes = sizeof(V) / sizeof(V{}[0]);
  if constexpr (N == 1) {
    return v[FIRST];
  } else {
    const V a = folded<N / 2, FIRST, COUNT>(v);
    typedef typename counted<lanes>::type Order;
    if constexpr (FIRST + N / 2 < COUNT)
      return fold_lanes<2 * lanes / N>(a, folded<N / 2, FIRST + N / 2, COUNT>(v), Order());
    else
      return fold_lanes<2 * lanes / N>(a, a, Order());
  }
}

// The sum of the lanes of each of COUNT vectors. Together they take a sixth of what they take one by one.
template <int COUNT, int FIRST = 0, typename V, typename T>
HG_DEVICE void lane_sums(const V* v, T* sums) {
  const int lanes = sizeof(V) / sizeof(T), here = COUNT - FIRST < lanes ? COUNT - FIRST : lanes;
  const V found = folded<lanes, FIRST, COUNT>(v);
  __builtin_memcpy(sums + FIRST, &found, here * sizeof(T));
  if constexpr (FIRST + lanes < COUNT) lane_sums<COUNT, FIRST + lanes>(v, sums);
}

// Long sums are sums of partial ones, whose rounding errors do not pile up: terms of a part.
template <int K, int SIZE>
HG_DEVICE constexpr int part_of() {
  return K >= 4 * SIZE ? SIZE : K > 0 ? K : 1;
}

// The same where the length may be an argument.
template <int K, int SIZE>
HG_DEVICE int part_of(const int terms) {
  return K > 0 ? part_of<K, SIZE>() : terms >= 4 * SIZE ? SIZE : terms;
}

// The first COUNT lanes, zeros behind them.
template <int COUNT, typename T>
HG_DEVICE typename vector_of<T>::type some_lanes(const T* from) {
  typename vector_of<T>::type v = {};
  __builtin_memcpy(&v, from, COUNT * sizeof(T));
  return v;
}

// MR x NR elements at once, both operands contiguous along the sum. Every element is summed in the same order whatever
// the tile, and whether zeros stand behind the K elements or not.
template <int MR, int NR, int K, Index AM, Index BN, typename T>
HG_DEVICE void dots_block(const T* a, const T* b, T (&totals)[MR][NR]) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  const int whole = K / lanes * lanes, part = part_of<whole, 64 * lanes>();
  V sum[MR][NR] = {};
  const auto add = [&](V (&to)[MR][NR], const int begin, const int end) __attribute__((always_inline)) {
    for (int k = begin; k < end; k += lanes) {
      V left[MR];
      for (int i = 0; i < MR; ++i) left[i] = *(const L*)(a + i * AM + k);
      for (int j = 0; j < NR; ++j) {
        const V right = *(const L*)(b + j * BN + k);
        for (int i = 0; i < MR; ++i) to[i][j] = multiply_add(left[i], right, to[i][j]);
      }
    }
  };
  if constexpr (part >= whole) {
    add(sum, 0, whole);
  } else {
    for (int from = 0; from < whole; from += part) {
      V some[MR][NR] = {};
      add(some, from, whole - from < part ? whole : from + part);
      for (int i = 0; i < MR; ++i)
        for (int j = 0; j < NR; ++j) sum[i][j] += some[i][j];
    }
  }
  if constexpr (whole < K)
    for (int j = 0; j < NR; ++j) {
      const V right = some_lanes<K - whole>(b + j * BN + whole);
      for (int i = 0; i < MR; ++i) sum[i][j] = multiply_add(some_lanes<K - whole>(a + i * AM + whole), right, sum[i][j]);
    }
  lane_sums<MR * NR>(&sum[0][0], &totals[0][0]);
}

// NR columns of all rows, into lines WIDTH elements apart, from `column` on. Whole tiles are copied: picked element by
// element, they took half the time of short sums.
template <int MR, int NR, int K, Index AM, Index BN, int WIDTH, typename T>
HG_DEVICE void dots_columns(const T* a, const T* b, const int rows, T* lines, const int column) {
  for (int at = 0; at < rows;) {
    const int m = MR == 1 || at + MR <= rows ? at : rows - MR;  // the last tile overlaps the one before
    T totals[MR][NR];
    dots_block<MR, NR, K, AM, BN>(a + m * AM, b, totals);
    for (int i = 0; i < MR; ++i) __builtin_memcpy(lines + (m + i) * WIDTH + column, totals[i], sizeof totals[i]);
    at = m + MR;
  }
}

// Rows as tiles want them: a multiple of a vector long, zeros behind the K elements, and aligned.
template <int K, int PITCH, typename T>
HG_DEVICE void line_up(T* to, const T* from, const Index stride, const int rows) {
  for (int i = 0; i < rows; ++i) {
    __builtin_memcpy(to + i * PITCH, from + i * stride, K * sizeof(T));
    for (int k = K; k < PITCH; ++k) to[i * PITCH + k] = 0;
  }
}

// One row, or up to 64. Tiles of MR x NR run down the rows, so that NR rows of b stay in the first-level cache; `out`
// gets rows of GROUP tiles, which the compiler can make vectors of.
template <int MR, int NR, int GROUP, int N, int K, Index AM, Index BN, bool LINED, typename T, typename F>
HG_DEVICE void dots_rows(const T* a, const T* b, const Index m, const int rows, F out) {
  const int width = N < GROUP * NR ? N : GROUP * NR, most = MR == 1 ? 1 : 64;
  const int lanes = vector_of<T>::lanes, pitch = (K + lanes - 1) / lanes * lanes;
  T lines[most][NR + width] __attribute__((aligned(64)));  // in front: what the last tile computes once more
  T left[LINED ? most * pitch : 1] __attribute__((aligned(64))), right[LINED ? NR * pitch : 1] __attribute__((aligned(64)));
  if constexpr (LINED) line_up<K, pitch>(left, a, AM, rows);
  for (int first = 0; first < N; first += width) {
    const int last = N - first < width ? N : first + width;
    for (int n = first; n < last; n += NR) {
      const int skip = n + NR <= N ? 0 : n + NR - N;  // the last tile overlaps the one before
      const T* columns = b + (n - skip) * BN;
      if constexpr (LINED) {
        line_up<K, pitch>(right, columns, BN, NR);
        dots_columns<MR, NR, pitch, pitch, pitch, NR + width>(left, right, rows, &lines[0][0], NR + n - skip - first);
      } else {
        dots_columns<MR, NR, K, AM, BN, NR + width>(a, columns, rows, &lines[0][0], NR + n - skip - first);
      }
    }
    for (int i = 0; i < rows; ++i) {
      HG_SIMD
      for (int n = first; n < last; ++n) out(m + i, n, lines[i][NR + n - first]);
    }
  }
}

// sum over k of a[m * AM + k] * b[n * BN + k], for rows begin … end - 1. Where rows are no multiple of a vector long,
// most loads of theirs would touch two cache lines: beside several rows of the other operand a copy is worth it.
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_dots(const T* a, const T* b, const Index begin, const Index end, F out) {
  const int MR = HG_TILE_ROWS, NR = N < HG_TILE_COLUMNS ? N : HG_TILE_COLUMNS, lanes = vector_of<T>::lanes;
  if constexpr (ONE) {
    const int NR = N < 8 ? N : 8;
    for (Index n = 0; n < N; n += NR) {
      const Index skip = n + NR <= N ? 0 : n + NR - N;
      T totals[1][NR];
      dots_block<1, NR, K, AM, BN>(a, b + (n - skip) * BN, totals);
      for (Index j = skip; j < NR; ++j) out(0, n - skip + j, totals[0][j]);
    }
  } else {
    const bool lined = K % lanes != 0 && K >= 2 * lanes && sizeof(T) * 64 * (K + lanes) <= HG_LINED_UP;
    Index m = begin;
    while (end - m >= MR) {
      const int rows = end - m < 64 ? (int)(end - m) : 64;
      dots_rows<MR, NR, 8, N, K, AM, BN, lined>(a + m * AM, b, m, rows, out);
      m += rows;
    }
    for (; m < end; ++m) dots_rows<1, NR, 8, N, K, AM, BN, false>(a + m * AM, b, m, 1, out);
  }
}

// MR rows and COUNT columns (NV vectors) at once; the right operand is contiguous along the columns.
template <int MR, int NV, int COUNT, int K, Index AM, Index AK, Index BK, typename T, typename F>
HG_DEVICE void axpy_block(const T* a, const T* b, const Index m, const Index n, const int terms, F out) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  const int length = K > 0 ? K : terms, part = part_of<K, 256>(terms);
  V sum[MR][NV] = {};
  for (int from = 0; from < length; from += part) {
    const int to = length - from < part ? length : from + part;
    V some[MR][NV] = {};
    for (int k = from; k < to; ++k) {
      V right[NV];
      for (int j = 0; j < NV; ++j) right[j] = *(const L*)(b + k * BK + j * lanes);
      for (int i = 0; i < MR; ++i) {
        const T left = a[i * AM + k * AK];
        for (int j = 0; j < NV; ++j) some[i][j] = multiply_add(left, right[j], some[i][j]);
      }
    }
    for (int i = 0; i < MR; ++i)
      for (int j = 0; j < NV; ++j) sum[i][j] += some[i][j];
  }
  T line[MR][NV * lanes];
  __builtin_memcpy(line, sum, sizeof line);
  for (int i = 0; i < MR; ++i) {
    HG_SIMD
    for (int j = 0; j < COUNT; ++j) out(m + i, n + j, line[i][j]);
  }
}

template <bool ONE, int NV, int COUNT, int K, Index AM, Index AK, Index BK, typename T, typename F>
HG_DEVICE void axpy_columns(const T* a, const T* b, const Index begin, const Index end, const Index n, const int terms,
                            F out) {
  const int MR = ONE ? 1 : 4;
  Index m = begin;
  for (; m + MR <= end; m += MR) axpy_block<MR, NV, COUNT, K, AM, AK, BK>(a + m * AM, b, m, n, terms, out);
  if constexpr (!ONE)
    for (; m < end; ++m) axpy_block<1, NV, COUNT, K, AM, AK, BK>(a + m * AM, b, m, n, terms, out);
}

// COUNT columns of b one behind the other, aligned, zeros behind them.
template <int NV, int COUNT, int K, Index BK, Index BN, typename T>
HG_DEVICE void gather_columns(T* to, const T* b, const int terms) {
  const int width = NV * vector_of<T>::lanes, length = K > 0 ? K : terms;
  for (int k = 0; k < length; ++k) {
    for (int j = 0; j < COUNT; ++j) to[k * width + j] = b[k * BK + j * BN];
    for (int j = COUNT; j < width; ++j) to[k * width + j] = 0;
  }
}

// A few columns, element by element.
template <int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void strip(const T* a, const T* b, const Index begin, const Index end, const Index n, const int width,
                     const int terms, F out) {
  const int most = vector_of<T>::lanes, length = K > 0 ? K : terms, part = part_of<K, 256>(terms);
  for (Index m = begin; m < end; ++m) {
    T sum[most] = {};
    for (int from = 0; from < length; from += part) {
      const int to = length - from < part ? length : from + part;
      T some[most] = {};
      for (int k = from; k < to; ++k) {
        const T left = a[m * AM + k * AK];
        for (int j = 0; j < width; ++j) some[j] = fma(left, b[k * BK + (n + j) * BN], some[j]);
      }
      for (int j = 0; j < width; ++j) sum[j] += some[j];
    }
    for (int j = 0; j < width; ++j) out(m, n + j, sum[j]);
  }
}

// sum over k of a[m * AM + k * AK] * b[k * BK + n * BN], columns four vectors at a time. A copy of these columns is made
// beside many rows where they are no whole aligned vectors, or so far apart that they meet in a few sets of the cache.
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const T* b, const Index begin, const Index end, const int terms, F out) {
  const int NV = 4, lanes = vector_of<T>::lanes, width = NV * lanes, rest = N % width, some = (rest + lanes - 1) / lanes;
  const int most = HG_LINED_UP / (sizeof(T) * width);  // rows of these columns that a copy may have
  const bool fits = K <= most;
  const bool awkward = BN != 1 || BK % lanes != 0 || BK * sizeof(T) >= 2048;
  Index n = 0;
  if constexpr (fits && awkward && !ONE) {
    if (end - begin >= 16 && (K > 0 || terms <= most)) {
      T columns[(K > 0 ? K : most) * width] __attribute__((aligned(64)));
      for (; n + width <= N; n += width) {
        gather_columns<NV, width, K, BK, BN>(columns, b + n * BN, terms);
        axpy_columns<ONE, NV, width, K, AM, AK, width>(a, columns, begin, end, n, terms, out);
      }
      if constexpr (rest != 0) {
        gather_columns<some, rest, K, BK, BN>(columns, b + n * BN, terms);
        axpy_columns<ONE, some, rest, K, AM, AK, some * lanes>(a, columns, begin, end, n, terms, out);
      }
      return;
    }
  }
  if constexpr (BN == 1) {
    const bool twice = ONE && N >= 2 * width;
    if constexpr (twice)  // one row alone would wait for the sums of fewer vectors
      for (; n + 2 * width <= N; n += 2 * width)
        axpy_columns<ONE, 2 * NV, 2 * width, K, AM, AK, BK>(a, b + n, begin, end, n, terms, out);
    if constexpr (twice ? N % (2 * width) >= width : N >= width)
      for (; n + width <= N; n += width) axpy_columns<ONE, NV, width, K, AM, AK, BK>(a, b + n, begin, end, n, terms, out);
    if constexpr (rest >= lanes)
      for (; n + lanes <= N; n += lanes) axpy_columns<ONE, 1, lanes, K, AM, AK, BK>(a, b + n, begin, end, n, terms, out);
  }
  if constexpr (BN != 1 || N % lanes != 0)
    for (; n < N; n += lanes) strip<K, AM, AK, BK, BN>(a, b, begin, end, n, N - n < lanes ? (int)(N - n) : lanes, terms, out);
}
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const T* b, const Index begin, const Index end, F out) {
  matmul_axpy<ONE, N, K, AM, AK, BK, BN>(a, b, begin, end, K, out);
}

// Types that vectors do not hold: products and sums in C, element by element.
template <typename C, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_plain(const T* a, const T* b, const Index begin, const Index end, F out) {
  for (Index m = begin; m < end; ++m)
    for (int n = 0; n < N; ++n) {
      C sum = 0;
      for (int k = 0; k < K; ++k) sum = plus_product(sum, (C)a[m * AM + k * AK], (C)b[k * BK + n * BN]);
      out(m, n, sum);
    }
}

}  // namespace hg

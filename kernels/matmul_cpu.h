// SPDX-License-Identifier: Apache-2.0
// Matrix products of the host target, written with vector types that g++ and clang share.
//
// K is the length of the sum, N the number of columns; AM and AK are the strides of the left operand
// along rows and sum, BK and BN those of the right one along sum and columns, in elements. They are
// template arguments so that what a shape does not need is never compiled. ONE: there is one row.
// `out(m, n, sum)` receives every element once. K is 0 where the length is an argument, `terms`: that of a gradient of a
// weight is the batch. N is 0 where the number of columns is one, as in attention's products, whose extents are the length
// of a sentence; the strides that follow from these are DYNAMIC. The order of summation is the same.
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
// Rows of a tile whose sums are taken product by product, and vectors of its columns: as many as hide how long a sum takes,
// and fewer than there are vector registers.
#define HG_AXPY_ROWS 4
#if defined(__AVX512F__) || defined(__aarch64__)
#define HG_AXPY_VECTORS 4
#else
#define HG_AXPY_VECTORS 2
#endif
#define HG_LINED_UP (128 << 10)  // bytes of rows that are copied at a time: they stay in the second-level cache

namespace hg {

template <typename T>
struct vector_of {
  static const int lanes = HG_VECTOR_BYTES / sizeof(T);
  typedef T type __attribute__((vector_size(HG_VECTOR_BYTES)));
  typedef T loose __attribute__((vector_size(HG_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

// Some bytes are copied, or zeros where there is no `from`: mostly fewer than a call of memcpy is worth. What is no multiple
// of a vector is two that overlap.
template <int BYTES>
struct bytes_of {
  typedef unsigned char type __attribute__((vector_size(BYTES), aligned(1), may_alias));
};
template <int BYTES, bool CLEAR>
HG_DEVICE void put_bytes(const char* HG_RESTRICT from, char* HG_RESTRICT to, const Index count) {
  typedef typename bytes_of<BYTES>::type V;
  if (count >= BYTES) {
    const V last = CLEAR ? V{} : *(const V*)(from + count - BYTES);
    for (Index k = 0; k < count - BYTES; k += BYTES) *(V*)(to + k) = CLEAR ? V{} : *(const V*)(from + k);
    *(V*)(to + count - BYTES) = last;
  } else if constexpr (BYTES > 2) {
    put_bytes<BYTES / 2, CLEAR>(from, to, count);
  }
}
template <typename T>
HG_DEVICE void copy_elements(const T* HG_RESTRICT from, T* HG_RESTRICT to, const Index count) {
  put_bytes<HG_VECTOR_BYTES, false>((const char*)from, (char*)to, count * (Index)sizeof(T));
}
template <typename T>
HG_DEVICE void clear_elements(T* to, const Index count) {
  put_bytes<HG_VECTOR_BYTES, true>(0, (char*)to, count * (Index)sizeof(T));
}

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

// MR x NR elements at once, of the rows that `a` points to and of rows of b, both contiguous along the sum. Every element
// is summed in the same order whatever the tile, and whether zeros stand behind the K elements or not.
template <int MR, int NR, int K, typename T>
HG_DEVICE void dots_block(const T* const (&a)[MR], const T* b, const Index bn, T (&totals)[MR][NR]) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  const int whole = K / lanes * lanes, part = part_of<whole, 64 * lanes>();
  V sum[MR][NR] = {};
  const auto add = [&](V (&to)[MR][NR], const int begin, const int end) __attribute__((always_inline)) {
    for (int k = begin; k < end; k += lanes) {
      V left[MR];
      for (int i = 0; i < MR; ++i) left[i] = *(const L*)(a[i] + k);
      for (int j = 0; j < NR; ++j) {
        const V right = *(const L*)(b + j * bn + k);
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
      const V right = some_lanes<K - whole>(b + j * bn + whole);
      for (int i = 0; i < MR; ++i) sum[i][j] = multiply_add(some_lanes<K - whole>(a[i] + whole), right, sum[i][j]);
    }
  lane_sums<MR * NR>(&sum[0][0], &totals[0][0]);
}

// NR columns of all rows, into lines WIDTH elements apart, from `column` on. Whole tiles are copied: picked element by
// element, they took half the time of short sums. Of fewer rows than a tile has the last one fills it: a tile of one row
// for them would take the compiler as long as this one.
template <int MR, int NR, int K, int WIDTH, typename T>
HG_DEVICE void dots_columns(const T* a, const T* b, const Index am, const Index bn, const int rows, T* lines,
                            const int column) {
  Index row[MR];
  for (int i = 0; i < MR; ++i) row[i] = (i < rows ? i : rows - 1) * am;
  for (int at = 0; at < rows;) {
    const int m = at + MR <= rows || rows < MR ? at : rows - MR;  // the last tile overlaps the one before
    const T* tile[MR];
    for (int i = 0; i < MR; ++i) tile[i] = a + m * am + row[i];
    T totals[MR][NR];
    dots_block<MR, NR, K>(tile, b, bn, totals);
    for (int i = 0; i < MR; ++i) __builtin_memcpy(lines + (m + i) * WIDTH + column, totals[i], sizeof totals[i]);
    at = m + MR;
  }
}

// Rows as tiles want them: a multiple of a vector long, zeros behind the K elements, and aligned.
template <int K, int PITCH, typename T>
HG_DEVICE void line_up(T* to, const T* from, const Index stride, const int rows) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes, whole = K / lanes * lanes;
  static_assert(PITCH == (K + lanes - 1) / lanes * lanes, "no vectors between the last element and the next row");
  for (int i = 0; i < rows; ++i, to += PITCH, from += stride) {
    for (int k = 0; k < whole; k += lanes) *(V*)(to + k) = *(const L*)(from + k);
    if constexpr (whole < K) *(V*)(to + whole) = some_lanes<K - whole>(from + whole);
  }
}

// Up to ROWS rows. Tiles of MR x NR run down the rows, so that NR rows of b stay in the first-level cache; `out`
// gets rows of GROUP tiles, which the compiler can make vectors of. There are NR columns at least.
template <int ROWS, int MR, int NR, int GROUP, int N, int K, bool LINED, typename T, typename F>
HG_DEVICE void dots_rows(const T* a, const T* b, const Index am, const Index bn, const Index m, const int rows,
                         const int columns, F out) {
  const int width = 0 < N && N < GROUP * NR ? N : GROUP * NR;
  const int lanes = vector_of<T>::lanes, pitch = (K + lanes - 1) / lanes * lanes;
  T lines[ROWS][NR + width] __attribute__((aligned(64)));  // in front: what the last tile computes once more
  T left[LINED ? ROWS * pitch : 1] __attribute__((aligned(64))), right[LINED ? NR * pitch : 1] __attribute__((aligned(64)));
  if constexpr (LINED) line_up<K, pitch>(left, a, am, rows);
  for (int first = 0; first < columns; first += width) {
    const int last = columns - first < width ? columns : first + width;
    for (int n = first; n < last; n += NR) {
      const int skip = n + NR <= columns ? 0 : n + NR - columns;  // the last tile overlaps the one before
      const T* part = b + (n - skip) * bn;
      if constexpr (LINED) {
        line_up<K, pitch>(right, part, bn, NR);
        dots_columns<MR, NR, pitch, NR + width>(left, right, pitch, pitch, rows, &lines[0][0], NR + n - skip - first);
      } else {
        dots_columns<MR, NR, K, NR + width>(a, part, am, bn, rows, &lines[0][0], NR + n - skip - first);
      }
    }
    if (N == 0 && last - first == width) {  // no rest
      for (int i = 0; i < rows; ++i) {
        HG_SIMD
        for (int j = 0; j < width; ++j) out(m + i, first + j, lines[i][NR + j]);
      }
      continue;
    }
    for (int i = 0; i < rows; ++i) {
      HG_SIMD
      for (int n = first; n < last; ++n) out(m + i, n, lines[i][NR + n - first]);
    }
  }
}

// One row of products: its columns begin … end - 1, of which begin is a multiple of 8.
template <int N, int K, typename T, typename F>
HG_DEVICE void dots_row(const T* a, const T* b, const Index begin, const Index end, const int columns, const Index bn,
                        F out) {
  const int NR = 0 < N && N < 8 ? N : 8;
  for (Index n = begin; n < end; n += NR) {
    const Index skip = n + NR <= columns ? 0 : n + NR - columns;
    T totals[1][NR];
    dots_block<1, NR, K>({a}, b + (n - skip) * bn, bn, totals);
    for (Index j = skip; j < NR; ++j) out(0, n - skip + j, totals[0][j]);
  }
}
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_dots_row(const T* a, const T* b, const Index begin, const Index end, F out) {
  dots_row<N, K>(a, b, begin, end, N, BN, out);
}

// sum over k of a[m * AM + k] * b[n * BN + k], for rows begin … end - 1. Where rows are no multiple of a vector long,
// most loads of theirs would touch two cache lines: beside several rows of the other operand a copy is worth it.
template <bool ONE, int N, int K, typename T, typename F>
HG_DEVICE void matmul_dots(const T* a, const T* b, const Index begin, const Index end, const int columns, const Index am,
                           const Index bn, F out) {
  const int MR = HG_TILE_ROWS, NR = 0 < N && N < HG_TILE_COLUMNS ? N : HG_TILE_COLUMNS, lanes = vector_of<T>::lanes;
  if constexpr (ONE) {
    dots_row<N, K>(a, b, 0, columns, columns, bn, out);
  } else {
    const bool lined = K % lanes != 0 && K >= 2 * lanes && sizeof(T) * 64 * (K + lanes) <= HG_LINED_UP;
    const int some = 64, most = some + MR - 1;  // no rest is less than a tile
    for (Index m = begin; m < end;) {
      const int rows = end - m <= most ? (int)(end - m) : some;
      dots_rows<most, MR, NR, 8, N, K, lined>(a + m * am, b, am, bn, m, rows, columns, out);
      m += rows;
    }
  }
}
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_dots(const T* a, const T* b, const Index begin, const Index end, F out) {
  matmul_dots<ONE, N, K>(a, b, begin, end, N, AM, BN, out);
}

// Sums of MR rows and NV vectors of columns; the right operand is contiguous along the columns. Of MR rows those that are not
// there repeat the last one: to wait for their sums takes no longer. (What is given as an argument may be known: this is
// inlined.)
template <int MR, int NV, typename T>
HG_DEVICE void axpy_tile(const T* a, const T* b, const Index rows, const int terms, const int part, const Index am,
                         const Index ak, const Index bk, typename vector_of<T>::type (&sum)[MR][NV]) {
  typedef typename vector_of<T>::type V;
  typedef typename vector_of<T>::loose L;
  const int lanes = vector_of<T>::lanes;
  const T* row[MR];
  for (int i = 0; i < MR; ++i) {
    row[i] = a + (i < rows ? i : rows - 1) * am;
    for (int j = 0; j < NV; ++j) sum[i][j] = V{};
  }
  for (int from = 0; from < terms; from += part) {
    const int to = terms - from < part ? terms : from + part;
    V some[MR][NV] = {};
    for (int k = from; k < to; ++k) {
      V right[NV];
      for (int j = 0; j < NV; ++j) right[j] = *(const L*)(b + k * bk + j * lanes);
      for (int i = 0; i < MR; ++i) {
        const T left = row[i][k * ak];
        for (int j = 0; j < NV; ++j) some[i][j] = multiply_add(left, right[j], some[i][j]);
      }
    }
    for (int i = 0; i < MR; ++i)
      for (int j = 0; j < NV; ++j) sum[i][j] += some[i][j];
  }
}

// MR rows, or the `rows` that are there, and COUNT columns, of NV vectors.
template <int MR, int NV, int COUNT, typename T, typename F>
HG_DEVICE void axpy_block(const T* a, const T* b, const Index m, const Index rows, const Index n, const int terms,
                          const int part, const Index am, const Index ak, const Index bk, F out) {
  typename vector_of<T>::type sum[MR][NV];
  axpy_tile<MR, NV>(a, b, rows, terms, part, am, ak, bk, sum);
  T line[MR][NV * vector_of<T>::lanes];
  __builtin_memcpy(line, sum, sizeof line);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    if (i >= rows) break;
    HG_SIMD
    for (int j = 0; j < COUNT; ++j) out(m + i, n + j, line[i][j]);
  }
}

template <bool ONE, int NV, int COUNT, typename T, typename F>
HG_DEVICE void axpy_columns(const T* a, const T* b, const Index begin, const Index end, const Index n, const int terms,
                            const int part, const Index am, const Index ak, const Index bk, F out) {
  const int MR = ONE ? 1 : HG_AXPY_ROWS;
  for (Index m = begin; m < end;) {
    const Index rows = end - m;
    if (ONE || rows > MR / 2) {
      axpy_block<MR, NV, COUNT>(a + m * am, b, m, rows, n, terms, part, am, ak, bk, out);
      m += MR;
    } else if constexpr (!ONE) {
      axpy_block<MR / 2, NV, COUNT>(a + m * am, b, m, rows, n, terms, part, am, ak, bk, out);
      m += MR / 2;
    }
  }
}

// COUNT columns of b one behind the other, aligned, zeros behind them.
template <int NV, int COUNT, typename T>
HG_DEVICE void gather_columns(T* to, const T* b, const int terms, const Index bk, const Index bn) {
  const int width = NV * vector_of<T>::lanes;
  for (int k = 0; k < terms; ++k) {
    for (int j = 0; j < COUNT; ++j) to[k * width + j] = b[k * bk + j * bn];
    for (int j = COUNT; j < width; ++j) to[k * width + j] = 0;
  }
}

// A few columns, element by element.
template <typename T, typename F>
HG_DEVICE void strip(const T* a, const T* b, const Index begin, const Index end, const Index n, const int width,
                     const int terms, const int part, const Index am, const Index ak, const Index bk, const Index bn,
                     F out) {
  const int most = vector_of<T>::lanes;
  for (Index m = begin; m < end; ++m) {
    T sum[most] = {};
    for (int from = 0; from < terms; from += part) {
      const int to = terms - from < part ? terms : from + part;
      T some[most] = {};
      for (int k = from; k < to; ++k) {
        const T left = a[m * am + k * ak];
        for (int j = 0; j < width; ++j) some[j] = fma(left, b[k * bk + (n + j) * bn], some[j]);
      }
      for (int j = 0; j < width; ++j) sum[j] += some[j];
    }
    for (int j = 0; j < width; ++j) out(m, n + j, sum[j]);
  }
}

// sum over k of a[m * am + k * ak] * b[k * bk + n * bn], columns four vectors at a time. A copy of these columns is made
// beside many rows where they are no whole aligned vectors, or so far apart that they meet in a few sets of the cache.
template <bool ONE, int N, int K, typename T, typename F>
HG_DEVICE void axpy_known(const T* a, const T* b, const Index begin, const Index end, const int terms, const Index am,
                          const Index ak, const Index bk, const Index bn, F out) {
  const int NV = ONE ? 4 : HG_AXPY_VECTORS, lanes = vector_of<T>::lanes, width = NV * lanes, rest = N % width, some = (rest + lanes - 1) / lanes;
  const int most = HG_LINED_UP / (sizeof(T) * width);  // rows of these columns that a copy may have
  const int length = K > 0 ? K : terms, part = part_of<K, 256>(terms), whole = rest / lanes;
  const bool awkward = bn != 1 || bk % lanes != 0 || bk * (Index)sizeof(T) >= 2048;
  Index n = 0;
  if constexpr (K <= most && !ONE) {
    if (awkward && end - begin >= 16 && length <= most) {
      T columns[(K > 0 ? K : most) * width] __attribute__((aligned(64)));
      for (; n + width <= N; n += width) {
        gather_columns<NV, width>(columns, b + n * bn, length, bk, bn);
        axpy_columns<ONE, NV, width>(a, columns, begin, end, n, length, part, am, ak, width, out);
      }
      if constexpr (rest != 0) {
        gather_columns<some, rest>(columns, b + n * bn, length, bk, bn);
        axpy_columns<ONE, some, rest>(a, columns, begin, end, n, length, part, am, ak, some * lanes, out);
      }
      return;
    }
  }
  if (bn == 1) {
    const bool twice = ONE && N >= 2 * width;
    if constexpr (twice)  // one row alone would wait for the sums of fewer vectors
      for (; n + 2 * width <= N; n += 2 * width)
        axpy_columns<ONE, 2 * NV, 2 * width>(a, b + n, begin, end, n, length, part, am, ak, bk, out);
    if constexpr (twice ? N % (2 * width) >= width : N >= width)
      for (; n + width <= N; n += width)
        axpy_columns<ONE, NV, width>(a, b + n, begin, end, n, length, part, am, ak, bk, out);
    const int at_once = 0 < K && K < lanes ? 1 : whole;  // (short sums are written out: there registers are short)
    if constexpr (whole > 0)
      for (; n + at_once * lanes <= N; n += at_once * lanes)
        axpy_columns<ONE, at_once, at_once * lanes>(a, b + n, begin, end, n, length, part, am, ak, bk, out);
  }
  for (; n < N; n += lanes)
    strip(a, b, begin, end, n, N - n < lanes ? (int)(N - n) : lanes, length, part, am, ak, bk, bn, out);
}

// The same functions where the number of columns is an argument. They follow from the type alone.

// NV vectors of neighbouring columns of b one behind the other, `count` columns of which are there.
template <int NV, typename T>
HG_DEVICE void axpy_copy(T* HG_RESTRICT to, const T* HG_RESTRICT b, const int count, const int terms, const Index bk) {
  const int width = NV * vector_of<T>::lanes;
  for (int k = 0; k < terms; ++k) {
    HG_SIMD
    for (int j = 0; j < width; ++j) to[k * width + j] = j < count ? b[k * bk + j] : T(0);
  }
}
template <typename T>
HG_IN_LIBRARY void axpy_gather(T* HG_RESTRICT to, const T* HG_RESTRICT b, const int vectors, const int count, const int terms,
                               const Index bk, const Index bn) {
  if (bn == 1) switch (vectors) {
      case 1: return axpy_copy<1>(to, b, count, terms, bk);
      case 2: return axpy_copy<2>(to, b, count, terms, bk);
      case 3: return axpy_copy<3>(to, b, count, terms, bk);
      default: return axpy_copy<4>(to, b, count, terms, bk);
    }
  const int width = vectors * vector_of<T>::lanes;
  for (int k = 0; k < terms; ++k) {
    for (int j = 0; j < count; ++j) to[k * width + j] = b[k * bk + j * bn];
    for (int j = count; j < width; ++j) to[k * width + j] = 0;
  }
}

// MR rows, or the `rows` that are there, and NV vectors of lines that are `pitch` vectors apart.
template <int MR, int NV, typename T>
HG_DEVICE void axpy_store(const T* a, const T* b, const int rows, const int terms, const int part, const Index am,
                          const Index ak, const Index bk, const int pitch, T* sums) {
  typedef typename vector_of<T>::type V;
  V sum[MR][NV];
  axpy_tile<MR, NV>(a, b, rows, terms, part, am, ak, bk, sum);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    if (i >= rows) break;
    for (int j = 0; j < NV; ++j) ((V*)sums)[i * pitch + j] = sum[i][j];
  }
}

template <int NV, typename T>
HG_DEVICE void axpy_rows(const T* a, const T* b, const int rows, const int terms, const int part, const Index am,
                         const Index ak, const Index bk, const int pitch, T* sums) {
  const int MR = HG_AXPY_ROWS, width = pitch * vector_of<T>::lanes;
  for (int m = 0; m < rows;) {
    const int left = rows - m;
    if (left > MR / 2) {
      axpy_store<MR, NV>(a + m * am, b, left, terms, part, am, ak, bk, pitch, sums + m * width);
      m += MR;
    } else {
      axpy_store<MR / 2, NV>(a + m * am, b, left, terms, part, am, ak, bk, pitch, sums + m * width);
      m += MR / 2;
    }
  }
}

// Sums of rows and of one to four vectors of columns, or of one row and eight vectors.
template <typename T>
HG_IN_LIBRARY void axpy_sums(const T* a, const T* b, const int rows, const int vectors, const int terms, const int part,
                             const Index am, const Index ak, const Index bk, T* sums) {
  const int NV = HG_AXPY_VECTORS, lanes = vector_of<T>::lanes;
  if (rows == 1)  // which would wait for the sums of fewer vectors
    switch (vectors) {
      case 3: return axpy_store<1, 3>(a, b, 1, terms, part, am, ak, bk, 3, sums);
      case 4: return axpy_store<1, 4>(a, b, 1, terms, part, am, ak, bk, 4, sums);
      case 8: return axpy_store<1, 8>(a, b, 1, terms, part, am, ak, bk, 8, sums);
    }
  for (int v = 0; v < vectors; v += NV, b += NV * lanes, sums += NV * lanes) {
    const int some = vectors - v < NV ? vectors - v : NV;
    if (some == 1) axpy_rows<1>(a, b, rows, terms, part, am, ak, bk, vectors, sums);
    if (some == 2) axpy_rows<2>(a, b, rows, terms, part, am, ak, bk, vectors, sums);
    if constexpr (NV > 2) {
      if (some == 3) axpy_rows<3>(a, b, rows, terms, part, am, ak, bk, vectors, sums);
      if (some == 4) axpy_rows<4>(a, b, rows, terms, part, am, ak, bk, vectors, sums);
    }
  }
}

#define HG_AXPY(HOW, T)                                                                        \
  HOW void axpy_gather(T*, const T*, int, int, int, Index, Index);                             \
  HOW void axpy_sums(const T*, const T*, int, int, int, int, Index, Index, Index, T*);
#ifndef HG_NO_LIBRARY  // of a text that is compiled alone
HG_AXPY(extern template, float)
HG_AXPY(extern template, double)
#endif

// A rest of columns is always copied: vectors reach beyond.
template <bool ONE, int K, typename T, typename F>
HG_DEVICE void axpy_with_dynamic(const T* a, const T* b, const Index begin, const Index end, const int columns, const int terms,
                            const Index am, const Index ak, const Index bk, const Index bn, F out) {
  const int NV = 4, lanes = vector_of<T>::lanes, width = NV * lanes, most = HG_LINED_UP / (sizeof(T) * width);
  const int length = K > 0 ? K : terms, part = part_of<K, 256>(terms);
  const int together = ONE ? 1 : 4 * HG_AXPY_ROWS;
  const bool awkward = bn != 1 || bk % lanes != 0 || bk * (Index)sizeof(T) >= 2048, fits = length <= most;
  const bool copied = fits && awkward && (end - begin >= 16 || bn != 1);
  T copy[(0 < K && K < most ? K : most) * width] __attribute__((aligned(64)));
  T sums[ONE ? 2 * width : together * width] __attribute__((aligned(64)));
  int n = 0;
  while (n < columns && (fits || (bn == 1 && columns - n >= width))) {
    const int left = columns - n, count = ONE && bn == 1 && left >= 2 * width ? 2 * width : left < width ? left : width;
    const int vectors = (count + lanes - 1) / lanes;
    const bool gathers = copied ? count <= width : count < width;
    if (gathers) axpy_gather(copy, b + n * bn, vectors, count, length, bk, bn);
    for (Index m = begin; m < end; m += together) {
      const int rows = (int)minimum<Index>(together, end - m);
      axpy_sums(a + m * am, gathers ? copy : b + n, rows, vectors, length, part, am, ak, gathers ? vectors * lanes : bk, sums);
      for (int i = 0; i < rows; ++i) {
        HG_SIMD
        for (int j = 0; j < count; ++j) out(m + i, n + j, sums[i * vectors * lanes + j]);
      }
    }
    n += count;
  }
  for (; n < columns; n += lanes)
    strip(a, b, begin, end, n, columns - n < lanes ? columns - n : lanes, length, part, am, ak, bk, bn, out);
}

// What an argument says in the place of a number of the text.
const Index DYNAMIC = -((Index)1 << 62);  // which no stride is
struct Shape {
  Index columns, terms, am, ak, bk, bn;
};
template <Index KNOWN>
HG_DEVICE Index of_shape(const Index argument) {
  return KNOWN == DYNAMIC ? argument : KNOWN;
}

template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const T* b, const Index begin, const Index end, const Shape s, F out) {
  const Index am = of_shape<AM>(s.am), ak = of_shape<AK>(s.ak), bk = of_shape<BK>(s.bk), bn = of_shape<BN>(s.bn);
  if constexpr (N > 0)
    axpy_known<ONE, N, K>(a, b, begin, end, (int)s.terms, am, ak, bk, bn, out);
  else
    axpy_with_dynamic<ONE, K>(a, b, begin, end, (int)s.columns, (int)s.terms, am, ak, bk, bn, out);
}
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const T* b, const Index begin, const Index end, const int terms, F out) {
  matmul_axpy<ONE, N, K, AM, AK, BK, BN>(a, b, begin, end, Shape{N, terms, AM, AK, BK, BN}, out);
}
template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_axpy(const T* a, const T* b, const Index begin, const Index end, F out) {
  matmul_axpy<ONE, N, K, AM, AK, BK, BN>(a, b, begin, end, K, out);
}

template <bool ONE, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_dots(const T* a, const T* b, const Index begin, const Index end, const Shape s, F out) {
  matmul_dots<ONE, N, K>(a, b, begin, end, N > 0 ? N : (int)s.columns, of_shape<AM>(s.am), of_shape<BN>(s.bn), out);
}

// Types that vectors do not hold: products and sums in C, element by element.
template <typename C, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_plain(const T* a, const T* b, const Index begin, const Index end, const Shape s, F out) {
  const Index am = of_shape<AM>(s.am), ak = of_shape<AK>(s.ak), bk = of_shape<BK>(s.bk), bn = of_shape<BN>(s.bn);
  const int columns = N > 0 ? N : (int)s.columns, terms = K > 0 ? K : (int)s.terms;
  for (Index m = begin; m < end; ++m)
    for (int n = 0; n < columns; ++n) {
      C sum = 0;
      for (int k = 0; k < terms; ++k) sum = plus_product(sum, (C)a[m * am + k * ak], (C)b[k * bk + n * bn]);
      out(m, n, sum);
    }
}
template <typename C, int N, int K, Index AM, Index AK, Index BK, Index BN, typename T, typename F>
HG_DEVICE void matmul_plain(const T* a, const T* b, const Index begin, const Index end, F out) {
  matmul_plain<C, N, K, AM, AK, BK, BN>(a, b, begin, end, Shape{N, K, AM, AK, BK, BN}, out);
}

}  // namespace hg

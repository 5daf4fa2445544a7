// SPDX-License-Identifier: Apache-2.0
// Transposed copies between memory and a tile, in blocks that are turned in registers.
#pragma once

namespace hg {

template <int size>
struct unit;
template <>
struct unit<1> { typedef unsigned char type; };
template <>
struct unit<2> { typedef unsigned short type; };
template <>
struct unit<4> { typedef unsigned int type; };
template <>
struct unit<8> { typedef unsigned long long type; };

// One step: of the rows a and b, the halves (quarters, ...) off the diagonal change places.
#define HG_CROSS(name, low, high)                               \
  template <typename V>                                         \
  HG_DEVICE void name(V& a, V& b) {                             \
    const V first = __builtin_shufflevector(a, b, HG_LIST low); \
    b = __builtin_shufflevector(a, b, HG_LIST high);            \
    a = first;                                                  \
  }
#define HG_LIST(...) __VA_ARGS__

#if defined(__clang__) || __GNUC__ >= 12
HG_CROSS(cross16_8, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
         (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
HG_CROSS(cross16_4, (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
         (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
HG_CROSS(cross16_2, (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
         (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
HG_CROSS(cross16_1, (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
         (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
HG_CROSS(cross8_4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
HG_CROSS(cross8_2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
HG_CROSS(cross8_1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))

// A square block: to[c * columns + r] = from[r * rows + c].
template <typename U, int N>
struct block {
  typedef U V __attribute__((vector_size(sizeof(U) * N)));
  typedef U Loose __attribute__((vector_size(sizeof(U) * N), aligned(sizeof(U)), may_alias));

  static HG_SHARED void turn(const U* from, const Index rows, U* to, const Index columns) {
    V v[N];
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) v[k] = *(const Loose*)(from + k * rows);
    if constexpr (N == 16) {
#pragma GCC unroll 16
      for (int k = 0; k < 8; ++k) cross16_8(v[k], v[k + 8]);
#pragma GCC unroll 16
      for (int k = 0; k < 8; ++k) cross16_4(v[k / 4 * 8 + k % 4], v[k / 4 * 8 + k % 4 + 4]);
#pragma GCC unroll 16
      for (int k = 0; k < 8; ++k) cross16_2(v[k / 2 * 4 + k % 2], v[k / 2 * 4 + k % 2 + 2]);
#pragma GCC unroll 16
      for (int k = 0; k < 8; ++k) cross16_1(v[2 * k], v[2 * k + 1]);
    } else {
#pragma GCC unroll 16
      for (int k = 0; k < 4; ++k) cross8_4(v[k], v[k + 4]);
#pragma GCC unroll 16
      for (int k = 0; k < 4; ++k) cross8_2(v[k / 2 * 4 + k % 2], v[k / 2 * 4 + k % 2 + 2]);
#pragma GCC unroll 16
      for (int k = 0; k < 4; ++k) cross8_1(v[2 * k], v[2 * k + 1]);
    }
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) *(Loose*)(to + k * columns) = v[k];
  }
};

// All of a matrix of at least N rows and columns; blocks at the ends reach back over what is there already.
template <int N, typename U>
HG_DEVICE void turn_blocks(const U* from, const Index rows, U* to, const Index columns, const Index height,
                           const Index width) {
  for (Index i = 0; i < height; i += N) {
    const Index r = minimum<Index>(i, height - N);
    for (Index j = 0; j < width; j += N) {
      const Index c = minimum<Index>(j, width - N);
      block<U, N>::turn(from + r * rows + c, rows, to + c * columns + r, columns);
    }
  }
}
#define HG_TURNS 1
#endif

// to[c * columns + r] = from[r * rows + c] for r < height and c < width.
template <typename T>
static HG_SHARED void transpose(const T* from, const Index rows, T* to, const Index columns,
                                                const Index height, const Index width) {
#ifdef HG_TURNS
  typedef typename unit<sizeof(T)>::type U;
#ifdef __AVX512F__
  constexpr int N = sizeof(T) == 8 ? 8 : 16;
#else
  constexpr int N = sizeof(T) >= 4 ? 8 : 16;
#endif
  const Index least = minimum(height, width);
  if (least >= N) return turn_blocks<N>((const U*)from, rows, (U*)to, columns, height, width);
  if (least >= 8) return turn_blocks<8>((const U*)from, rows, (U*)to, columns, height, width);
#endif
  for (Index r = 0; r < height; ++r) {
    for (Index c = 0; c < width; ++c) to[c * columns + r] = from[r * rows + c];
  }
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// Large matrix products of the host target, of any size and any strides: in blocks that stay in the caches.
//
// A panel of the right operand, TERMS rows of as many columns as a tile has, is copied into lines that follow each other;
// tiles of the result run down the rows beside it, their sums in registers. What a panel's columns have so far is kept for
// at most ROWS rows. No number of a shape is in the text: the loops are compiled once, whatever is multiplied. Units of a
// program have them in one of their own, which all programs have in common.
// Every element is summed in the order of hg::matmul_axpy, so that both give the same bits.
#pragma once

#include "matmul_cpu.h"
#include "tile_cpu.h"

// Rows of a tile, and vectors of its columns: their sums, and a row of the panel, fill the vector registers.
#define HG_BLOCK_TILE_ROWS 6
#define HG_BLOCK_TILE_VECTORS HG_AXPY_VECTORS

namespace hg {

template <typename T>
struct blocked {
  static const int columns = HG_BLOCK_TILE_VECTORS * vector_of<T>::lanes;
  static const int rows = 512;   // whose results are kept between panels: 128 KiB of the second-level cache
  static const int terms = 256;  // of a panel: 64 KiB
  static const int most = rows + HG_BLOCK_TILE_ROWS;
  // rows of tiles and columns of panels where operands change places: about as many sums
  static const int turned_rows = 128, turned_most = turned_rows + HG_BLOCK_TILE_ROWS;
  static const int turned_columns = rows / turned_rows * columns;
};

// What becomes of the sums of a panel's products: they are the first ones; they go on from those that are there, product by
// product; or their totals are added to these.
enum Sums { FIRST, ON, ADDED };

// MR x NV vectors of `sums`, whose lines are blocked<T>::columns long.
template <int MR, int NV, Sums HOW, typename T>
static HG_SHARED void blocked_tile(const T* const* a, const Index ak, const T* panel, const int terms, T* sums) {
  typedef typename vector_of<T>::type V;
  const int lanes = vector_of<T>::lanes, width = blocked<T>::columns;
  const T* row[MR];
  V sum[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    row[i] = a[i];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) sum[i][j] = HOW == ON ? *(const V*)(sums + i * width + j * lanes) : V{};
  }
  for (Index k = 0, at = 0; k < terms; ++k, at += ak, panel += width) {
    V right[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) right[j] = *(const V*)(panel + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const T left = row[i][at];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) sum[i][j] = multiply_add(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      V* const to = (V*)(sums + i * width + j * lanes);
      *to = HOW == ADDED ? *to + sum[i][j] : sum[i][j];
    }
}

// All rows beside a panel. Of the last tile's rows those that are not there repeat the last one.
template <int NV, Sums HOW, typename T>
HG_DEVICE void blocked_rows(const T* a, const Index am, const Index ak, const int rows, const T* panel, const int terms,
                            T* sums) {
  const int MR = HG_BLOCK_TILE_ROWS;
  for (int m = 0; m < rows;) {
    const T* row[MR];
    for (int i = 0; i < MR; ++i) row[i] = a + minimum<Index>(m + i, rows - 1) * am;
    T* const to = sums + m * blocked<T>::columns;
    if (rows - m > MR / 2) {
      blocked_tile<MR, NV, HOW>(row, ak, panel, terms, to);
      m += MR;
    } else {
      blocked_tile<MR / 2, NV, HOW>(row, ak, panel, terms, to);
      m += MR / 2;
    }
  }
}

// COUNT columns of the right operand, row after row, zeros behind them.
template <typename T>
HG_DEVICE void blocked_panel(T* to, const T* b, const Index bk, const Index bn, const int terms, const int count) {
  const int width = blocked<T>::columns;
  if (count < width)
    for (int k = 0; k < terms; ++k)
      for (int j = count; j < width; ++j) to[k * width + j] = 0;
  if (bn == 1 && count == width) {
    typedef typename vector_of<T>::type V;
    typedef typename vector_of<T>::loose Loose;
    const int lanes = vector_of<T>::lanes;
    for (int k = 0; k < terms; ++k)
#pragma GCC unroll 8
      for (int j = 0; j < width; j += lanes) *(V*)(to + k * width + j) = *(const Loose*)(b + k * bk + j);
  } else if (bn == 1) {
    for (int k = 0; k < terms; ++k) {
      HG_SIMD
      for (int j = 0; j < count; ++j) to[k * width + j] = b[k * bk + j];
    }
  } else if (bk == 1) {
    transpose(b, bn, to, width, count, terms);
  } else {
    for (int k = 0; k < terms; ++k)
      for (int j = 0; j < count; ++j) to[k * width + j] = b[k * bk + j * bn];
  }
}

// All rows beside a panel of `count` columns.
template <Sums HOW, typename T>
HG_DEVICE void blocked_columns(const T* a, const Index am, const Index ak, const int rows, const T* panel, const int terms,
                               const int count, T* sums) {
  if (count <= blocked<T>::columns / 2)
    blocked_rows<HG_BLOCK_TILE_VECTORS / 2, HOW>(a, am, ak, rows, panel, terms, sums);
  else
    blocked_rows<HG_BLOCK_TILE_VECTORS, HOW>(a, am, ak, rows, panel, terms, sums);
}

// The sums of `rows` rows and `count` columns, at most blocked<T>::rows and blocked<T>::columns of them.
template <typename T>
HG_IN_LIBRARY void blocked_sums(const T* a, const T* b, const int rows, const int count, const int terms, const Index am,
                                const Index ak, const Index bk, const Index bn, T* sums) {
  typedef blocked<T> block;
  T panel[block::terms * block::columns] __attribute__((aligned(64)));
  const bool in_parts = part_of<0, block::terms>(terms) != terms;
  for (int k = 0; k < terms; k += block::terms) {
    const int some = terms - k < block::terms ? terms - k : block::terms;
    blocked_panel(panel, b + k * bk, bk, bn, some, count);
    const T* const left = a + k * ak;
    if (k == 0)
      blocked_columns<FIRST>(left, am, ak, rows, panel, some, count, sums);
    else if (in_parts)
      blocked_columns<ADDED>(left, am, ak, rows, panel, some, count, sums);
    else
      blocked_columns<ON>(left, am, ak, rows, panel, some, count, sums);
  }
}

// Rows of a product so few that a copied panel of its right operand, whose columns lie in the order of the sum, would be used
// a few times only: then that operand has the rows of tiles, and the left one, of a few columns now, the panels. Its rows
// have to fill the vectors of these by three quarters.
template <typename T>
HG_DEVICE bool blocked_turns(const Index rows, const Shape& s) {
  const Index half = blocked<T>::columns / 2, filled = (rows + half - 1) / half * half;
  return s.bk == 1 && rows <= blocked<T>::turned_columns && 4 * rows >= 3 * filled;
}

// The same sums for at most blocked<T>::turned_rows rows and blocked<T>::turned_columns columns: some terms of all panels
// after the others, so that the left operand, which is the large one, is read once.
template <typename T>
HG_IN_LIBRARY void blocked_turned(const T* a, const T* b, const int rows, const int columns, const int terms,
                                  const Index am, const Index ak, const Index bk, const Index bn, T* sums) {
  typedef blocked<T> block;
  T panel[block::terms * block::columns] __attribute__((aligned(64)));
  const bool in_parts = part_of<0, block::terms>(terms) != terms;
  for (int k = 0; k < terms; k += block::terms) {
    const int some = terms - k < block::terms ? terms - k : block::terms;
    const T* const left = a + k * ak;
    for (int n = 0; n < columns; n += block::columns) {
      const int count = columns - n < block::columns ? columns - n : block::columns;
      T* const to = sums + n * block::turned_most;
      blocked_panel(panel, b + k * bk + n * bn, bk, bn, some, count);
      if (k == 0)
        blocked_columns<FIRST>(left, am, ak, rows, panel, some, count, to);
      else if (in_parts)
        blocked_columns<ADDED>(left, am, ak, rows, panel, some, count, to);
      else
        blocked_columns<ON>(left, am, ak, rows, panel, some, count, to);
    }
  }
}

#define HG_BLOCKED(HOW, T)                                                                     \
  HOW void blocked_sums(const T*, const T*, int, int, int, Index, Index, Index, Index, T*);   \
  HOW void blocked_turned(const T*, const T*, int, int, int, Index, Index, Index, Index, T*);
#ifndef HG_NO_LIBRARY  // of a text that is compiled alone
HG_BLOCKED(extern template, float)
HG_BLOCKED(extern template, double)
#endif

// sum over k of a[m * am + k * ak] * b[k * bk + n * bn] for rows begin … end - 1 and columns first … last - 1.
template <typename T, typename F>
HG_DEVICE void matmul_blocked(const T* a, const T* b, const Index begin, const Index end, const Index first,
                              const Index last, const Shape s, F out) {
  typedef blocked<T> block;
  constexpr int kept = block::turned_columns / block::columns * block::turned_most;
  T sums[(block::most > kept ? block::most : kept) * block::columns] __attribute__((aligned(64)));
  T lines[block::turned_rows * block::columns] __attribute__((aligned(64)));
  const bool turns = blocked_turns<T>(end - begin, s);
  const Index most = turns ? end - begin : s.terms <= 64 ? block::rows / 4 : block::rows;  // few terms: sums stay in the first-level cache
  const Index each = turns ? block::turned_rows : block::columns;
  for (Index m = begin; m < end; m += most)
    for (Index n = first; n < last; n += each) {
      const int rows = (int)minimum<Index>(end - m, most), count = (int)minimum<Index>(last - n, each);
      if (turns)
        blocked_turned(b + n * s.bn, a + m * s.am, count, rows, (int)s.terms, s.bn, s.bk, s.ak, s.am, sums);
      else
        blocked_sums(a + m * s.am, b + n * s.bn, rows, count, (int)s.terms, s.am, s.ak, s.bk, s.bn, sums);
      const int step = turns ? block::columns : rows;
      for (int r = 0; r < rows; r += step) {
        const int some = turns ? minimum(step, rows - r) : rows;
        if (turns) transpose(sums + r * block::turned_most, (Index)block::columns, lines, each, (Index)count, (Index)some);
        const T* const from = turns ? lines : sums;
        for (int i = 0; i < some; ++i) {
          HG_SIMD
          for (int j = 0; j < count; ++j) out(m + r + i, n + j, from[i * each + j]);
        }
      }
    }
}

}  // namespace hg

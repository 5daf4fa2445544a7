// SPDX-License-Identifier: Apache-2.0
// Direct convolution of the host target: tiles of output channels times neighbouring pixels in registers.
//
// A kernel describes its shape as a struct S of constants (written by templates/cpu/conv.j2):
//   G, CG, OG            groups, and input and output channels of one; CG is 0 where a call says it: products of
//                        pixels differ in little else, and nets have dozens of them
//   D, H, W, OD, OH, OW  extents of the operand and the result (leading ones are 1 below three axes)
//   SD …, BD …, LD …     strides, base dilations, zeros in front, of each axis
//   KD, DD               extent and dilation of the window along the first axis
//   R, B                 rows and columns of the result computed together: a band
//   SLICES               parts of the output channels of a group, so that there are enough units for many threads
//   TAPS, taps[]         elements of a window, and where each lies from the window's first one
//   WP, XC               distance of rows and of channels in what the taps read
//   DIRECT               the taps read the operand itself; else a copy of the band, padded with zeros
//   PH, PW, RP, SCRATCH  of that copy: phases of the strides (so that neighbours stay neighbours), rows, elements
// The operand is a pointer, or a function: `fill(n, c, d, h, w, count, to)` computes `count` of its elements, SW apart
// from w on, of a row (only if not DIRECT, and where BD, BH and BW are 1).
// Pixels of a band count along its rows, the gaps between rows included: what lies in a gap is never
// stored. `out(n, o, d, h, w, line)` receives B results from w on.
#pragma once

#include "matmul_cpu.h"

namespace hg {

#if defined(__AVX512F__)
constexpr int conv_registers = 32;
#else
constexpr int conv_registers = 16;
#endif

constexpr int conv_terms = 128;  // of a partial sum, at least

template <typename S>
constexpr int conv_pixels = (S::R - 1) * S::WP + S::B;

template <typename S, typename T>
constexpr int conv_vectors = (conv_pixels<S> + vector_of<T>::lanes - 1) / vector_of<T>::lanes;

// Vectors of pixels that a tile of `channels` leaves registers for.
constexpr int conv_width(int channels, int vectors) {
  const int width = (conv_registers - 1) / (channels + 1);
  return width < vectors ? width : vectors;
}

// Steps of one tap of a tile: multiplications, or loads (which may cross cache lines), or waiting.
constexpr int conv_tile_cost(int channels, int width) {
  const int loads = 2 * width + channels, work = channels * width;
  const int most = loads > work ? loads : work;
  return most > 8 ? most : 8;
}

constexpr int conv_block_cost(int channels, int vectors) {
  const int width = conv_width(channels, vectors), rest = vectors % width;
  return vectors / width * conv_tile_cost(channels, width) + (rest ? conv_tile_cost(channels, rest) : 0);
}

// The number of output channels a tile computes at once. What is left over is another kind of tile, which takes the
// compiler as long as the first: worth it for more than a few hundredths.
constexpr int conv_channels(int all, int vectors) {
  int best = 1, least = 1 << 30;
  for (int n = 1; n <= 8 && n <= all; ++n) {
    const int rest = all % n;
    int cost = all / n * conv_block_cost(n, vectors);
    if (rest) cost += conv_block_cost(rest, vectors) + cost / 32 + 1;
    if (cost <= least) best = n, least = cost;
  }
  return best;
}

// N channels times V vectors; the last vector is BACK elements closer, so that it ends with the band.
template <typename S, int N, int V, int BACK, int PITCH, typename T>
static __attribute__((noinline)) void conv_tile(const T* HG_RESTRICT x, const T* HG_RESTRICT w, T* HG_RESTRICT line,
                                                const Index inputs) {
  typedef typename vector_of<T>::type Vector;
  typedef typename vector_of<T>::loose Loose;
  const int lanes = vector_of<T>::lanes;
  const Index cg = S::CG ? S::CG : inputs;
  // long sums are sums of partial ones, whose rounding errors do not pile up
  const Index part = cg * S::TAPS < 2 * conv_terms ? cg : (conv_terms + S::TAPS - 1) / S::TAPS;
  Vector sum[N][V] = {};
  for (Index from = 0; from < cg; from += part) {
    const Index to = cg - from < part ? cg : from + part;
    Vector some[N][V] = {};
    for (Index c = from; c < to; ++c) {
      const T* xc = x + c * S::XC;
      const T* wc = w + c * S::TAPS;
      for (int t = 0; t < S::TAPS; ++t) {
        const T* at = xc + S::taps[t];
        Vector value[V];
        for (int j = 0; j < V; ++j) value[j] = *(const Loose*)(at + j * lanes - (j == V - 1 ? BACK : 0));
        for (int i = 0; i < N; ++i) {
          const T weight = wc[t + i * cg * S::TAPS];
          for (int j = 0; j < V; ++j) some[i][j] = multiply_add(weight, value[j], some[i][j]);
        }
      }
    }
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < V; ++j) sum[i][j] += some[i][j];
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < V; ++j) *(Loose*)(line + i * PITCH + j * lanes - (j == V - 1 ? BACK : 0)) = sum[i][j];
}

// All pixels of a band for N channels from o on.
template <typename S, int N, typename T, typename F>
HG_DEVICE void conv_block(const T* x, const T* w, const Index n, const Index o, const Index d, const Index h,
                          const Index column, const Index inputs, F out) {
  constexpr int lanes = vector_of<T>::lanes, vectors = conv_vectors<S, T>, width = conv_width(N, vectors);
  constexpr int rest = vectors % width, pitch = vectors * lanes;
  // the operand itself ends with the last pixel; a copy has room behind
  constexpr int back = S::DIRECT ? pitch - conv_pixels<S> : 0;
  constexpr int whole = rest || back == 0 ? vectors / width : vectors / width - 1;
  constexpr int last = rest ? rest : width;
  T line[N * pitch] __attribute__((aligned(64)));
  for (int v = 0; v < whole; ++v)
    conv_tile<S, N, width, 0, pitch>(x + v * width * lanes, w, line + v * width * lanes, inputs);
  if constexpr (whole * width < vectors)
    conv_tile<S, N, last, back, pitch>(x + whole * width * lanes, w, line + whole * width * lanes, inputs);
  for (int i = 0; i < N; ++i)
    for (int r = 0; r < S::R; ++r) out(n, o + i, d, h + r, column, line + i * pitch + r * S::WP);
}

// One row of the padded copy: elements (column + k) * SW + phase - LW of a row, k = 0 …, zero outside and
// where there is no row. A function of its own: g++ 12 miscompiles the loops inside those of conv_copy.
template <typename S, typename T>
static __attribute__((noinline)) void conv_row(const T* HG_RESTRICT row, const Index column, const int phase,
                                               T* HG_RESTRICT to) {
  const Index first = column * S::SW + phase - S::LW;
  if constexpr (S::BW == 1) {
    Index begin = first < 0 ? (-first + S::SW - 1) / S::SW : 0;
    Index end = first >= S::W || !row ? 0 : (S::W - first + S::SW - 1) / S::SW;
    if (begin > S::WP) begin = S::WP;
    if (end > S::WP) end = S::WP;
    if (end < begin) end = begin;
    for (Index k = 0; k < begin; ++k) to[k] = 0;
    if constexpr (S::SW == 1) {
      if (end > begin) __builtin_memcpy(to + begin, row + first + begin, (end - begin) * sizeof(T));
    } else
      for (Index k = begin; k < end; ++k) to[k] = row[first + k * S::SW];
    for (Index k = end; k < S::WP; ++k) to[k] = 0;
  } else if constexpr (S::SW == 1) {
    for (Index k = 0; k < S::WP; ++k) to[k] = 0;
    const Index begin = first < 0 ? 0 : (first + S::BW - 1) / S::BW;
    Index end = row ? (first + S::WP + S::BW - 1) / S::BW : 0;
    if (end > S::W) end = S::W;
    for (Index q = begin; q < end; ++q) to[q * S::BW - first] = row[q];
  } else {
    for (Index k = 0; k < S::WP; ++k) {
      const Index q = first + k * S::SW;
      to[k] = row && q >= 0 && q % S::BW == 0 && q / S::BW < S::W ? row[q / S::BW] : (T)0;
    }
  }
}

// The same of an operand that is computed: row h of plane d of channel c of sample n.
template <typename S, typename F, typename T>
static __attribute__((noinline)) void conv_made_row(const F& fill, const Index n, const Index c, const Index d,
                                                    const Index h, const Index column, const int phase, T* to) {
  const Index first = column * S::SW + phase - S::LW;
  Index begin = first < 0 ? (-first + S::SW - 1) / S::SW : 0;
  Index end = first >= S::W ? 0 : (S::W - first + S::SW - 1) / S::SW;
  if (begin > S::WP) begin = S::WP;
  if (end > S::WP) end = S::WP;
  if (end < begin) end = begin;
  for (Index k = 0; k < begin; ++k) to[k] = 0;
  if (end > begin) fill(n, c, d, h, first + begin * S::SW, end - begin, to + begin);
  for (Index k = end; k < S::WP; ++k) to[k] = 0;
}

// The padded copy of what a band reads of the channels of one group of a computed operand.
template <typename S, typename F, typename T>
static __attribute__((noinline)) void conv_make(const F& fill, const Index n, const int g, const Index d, const Index h,
                                                const Index column, T* to) {
  for (int c = g * S::CG; c < (g + 1) * S::CG; ++c)
    for (int k = 0; k < S::KD; ++k) {
      const Index qd = d * S::SD + k * S::DD - S::LD;
      for (int ph = 0; ph < S::PH; ++ph)
        for (int pw = 0; pw < S::PW; ++pw)
          for (int r = 0; r < S::RP; ++r, to += S::WP) {
            const Index qh = (h + r) * S::SH + ph - S::LH;
            if (qd >= 0 && qd < S::D && qh >= 0 && qh < S::H) {
              conv_made_row<S>(fill, n, c, qd, qh, column, pw, to);
            } else {
              for (Index i = 0; i < S::WP; ++i) to[i] = 0;
            }
          }
    }
  for (int i = 0; i < vector_of<T>::lanes; ++i) to[i] = 0;
}

// The padded copy of what a band reads of the channels of one group.
template <typename S, typename T>
static __attribute__((noinline)) void conv_copy(const T* HG_RESTRICT x, const Index d, const Index h,
                                                const Index column, T* HG_RESTRICT to) {
  for (int c = 0; c < S::CG; ++c)
    for (int k = 0; k < S::KD; ++k) {
      const Index qd = d * S::SD + k * S::DD - S::LD;
      const bool within = qd >= 0 && qd % S::BD == 0 && qd / S::BD < S::D;
      for (int ph = 0; ph < S::PH; ++ph)
        for (int pw = 0; pw < S::PW; ++pw)
          for (int r = 0; r < S::RP; ++r, to += S::WP) {
            const Index qh = (h + r) * S::SH + ph - S::LH;
            const bool real = within && qh >= 0 && qh % S::BH == 0 && qh / S::BH < S::H;
            conv_row<S>(real ? x + ((c * S::D + qd / S::BD) * S::H + qh / S::BH) * S::W : (const T*)0, column, pw, to);
          }
    }
  for (int i = 0; i < vector_of<T>::lanes; ++i) to[i] = 0;
}

// What a band reads of one group: the operand itself, a copy, or what is computed of it.
template <typename S, typename T>
HG_DEVICE const T* conv_band(const T* x, const Index n, const int g, const Index cg, const Index d, const Index h,
                             const Index column, T* scratch) {
  const T* group = x + (n * S::G + g) * cg * S::D * S::H * S::W;
  if constexpr (S::DIRECT) {
    return group + ((Index)d * S::H + h) * S::W + column;
  } else {
    conv_copy<S>(group, d, h, column, scratch);
    return scratch;
  }
}
template <typename S, typename F, typename T>
HG_DEVICE const T* conv_band(const F& fill, const Index n, const int g, const Index, const Index d, const Index h,
                             const Index column, T* scratch) {
  conv_make<S>(fill, n, g, d, h, column, scratch);
  return scratch;
}

// Units begin … end - 1: a unit is a slice of the output channels of a group, for a band of a sample. Their number follows
// from S alone, and chunks of them are what threads share.
template <typename S, typename X, typename T, typename F>
HG_DEVICE void conv(const X& x, const T* w, const Index begin, const Index end, const Index inputs, F out) {
  const Index cg = S::CG ? S::CG : inputs;
  constexpr int channels = conv_channels(S::OG, conv_vectors<S, T>), rest = S::OG % channels;
  constexpr int whole = S::OG / channels, blocks = whole + (rest != 0);
  constexpr int columns = (S::OW + S::B - 1) / S::B, rows = (S::OH + S::R - 1) / S::R;
  T scratch[S::DIRECT ? 1 : S::SCRATCH] __attribute__((aligned(64)));
  Index unit = begin;
  while (unit < end) {
    const Index band = unit / S::SLICES, plane = band / columns / rows;
    const int column = band % columns * S::B, row = band / columns % rows * S::R, d = plane % S::OD;
    const Index g = plane / S::OD % S::G, n = plane / S::OD / S::G;
    const int h = row + S::R <= S::OH ? row : S::OH - S::R;
    const int at = column + S::B <= S::OW ? column : S::OW - S::B;
    const Index first = unit % S::SLICES, last = end - unit < S::SLICES - first ? first + end - unit : S::SLICES;
    const T* weight = w + g * S::OG * cg * S::TAPS;
    const T* source = conv_band<S>(x, n, g, cg, d, h, at, scratch);
    const Index stop = blocks * last / S::SLICES;
    for (Index b = blocks * first / S::SLICES; b < stop; ++b) {
      const Index o = b * channels;
      if (rest == 0 || b < whole) {
        conv_block<S, channels>(source, weight + o * cg * S::TAPS, n, g * S::OG + o, d, h, at, cg, out);
      } else if constexpr (rest != 0) {
        conv_block<S, rest>(source, weight + o * cg * S::TAPS, n, g * S::OG + o, d, h, at, cg, out);
      }
    }
    unit += last - first;
  }
}

}  // namespace hg

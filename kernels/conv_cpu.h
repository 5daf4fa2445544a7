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
//   WP, STEP, XC         distance of rows, columns and channels in what the taps read
//   FLAT, FILL_FLAT      the epilogue, and what computes the operand, see no end of a row
//   BLOCK                output channels whose weights lie side by side (conv_packed_tile): whole vectors of them, of which
//                        OG is a multiple; 0: they do not
//   DIRECT               the taps read the operand itself; else a copy of the band, padded with zeros
//   PH, PW, RP, SCRATCH  of that copy: phases of the strides (so that neighbours stay neighbours), rows, elements
// The operand is a pointer, or a function: `fill(n, c, d, h, w, count, to)` computes `count` of its elements, SW apart
// from w on, of a row (only if not DIRECT, and where BD, BH and BW are 1).
// Pixels of a band count along its rows, the gaps between rows included: what lies in a gap is never
// stored. `out(n, o, d, h, w, line)` receives B results from w on; if FLAT, all of a band, which lie in a row: h is 0, and w
// the first one's place in its plane.
#pragma once

#include "matmul_cpu.h"
#include "tile_cpu.h"

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

// The results of `channels`, `pitch` apart in `line`, whose rows are `step` apart: moved together, if the epilogue is to see
// no end of a row.
template <typename S, typename T, typename F>
HG_DEVICE void conv_out(const int channels, T* line, const int pitch, const int step, const Index n,
                        const Index o, const Index d, const Index h, const Index column, F out) {
  for (int i = 0; i < channels; ++i) {
    if constexpr (S::FLAT) {
      if (step != S::B) {
        T* const row = line + i * pitch;
        for (int r = 1; r < S::R; ++r) __builtin_memmove(row + r * S::B, row + r * step, S::B * sizeof(T));
      }
      out(n, o + i, d, 0, h * S::OW, line + i * pitch);
    } else {
      for (int r = 0; r < S::R; ++r) out(n, o + i, d, h + r, column, line + i * pitch + r * step);
    }
  }
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
  conv_out<S>(N, line, pitch, S::WP, n, o, d, h, column, out);
}

// Pixels of a packed tile, at most: sums, the weights of a tap, and one element of the operand fill the registers.
template <typename S, typename T>
constexpr int conv_packed_pixels = (conv_registers - 1) / (S::BLOCK / vector_of<T>::lanes) - 1;

// A tile of some rows of pixels, or of a part of one.
struct conv_packed_shape {
  int rows, columns;
};

// Steps of one tap of `pixels` (see conv_tile_cost): multiplications, or waiting for them, and loads of weights.
constexpr int conv_packed_cost(int pixels, int vectors) {
  const int work = pixels * vectors;
  return (work > 8 ? work : 8) + 2;
}

// The tile that takes the fewest steps for rows x columns of pixels; what is left over of either is a tile of its own.
constexpr conv_packed_shape conv_packed_tile_of(int rows, int columns, int most, int vectors) {
  conv_packed_shape best = {1, 1};
  int least = 1 << 30;
  for (int n = 1; n <= most; ++n) {
    const bool part = columns > most;
    const int all = part ? columns : rows, unit = part ? 1 : columns;
    if (n > all || n * unit > most) break;
    const int rest = all % n;
    int cost = all / n * conv_packed_cost(n * unit, vectors);
    if (rest) cost += conv_packed_cost(rest * unit, vectors) + cost / 32 + 1;
    if (cost <= least) least = cost, best = part ? conv_packed_shape{1, n} : conv_packed_shape{n, columns};
  }
  return best;
}

// ROWS x COLUMNS pixels times BLOCK channels whose weights lie side by side, tap after tap: a vector holds channels, and
// every pixel counts whatever the extents. Sums are added in the order of conv_tile.
template <typename S, int ROWS, int COLUMNS, int PITCH, typename T>
static __attribute__((noinline)) void conv_packed_tile(const T* HG_RESTRICT x, const T* HG_RESTRICT w,
                                                       T* HG_RESTRICT line, const Index inputs) {
  typedef typename vector_of<T>::type Vector;
  typedef typename vector_of<T>::loose Loose;
  constexpr int lanes = vector_of<T>::lanes, V = S::BLOCK / lanes, P = ROWS * COLUMNS;
  constexpr int filled = (P + lanes - 1) / lanes * lanes;
  const Index cg = S::CG ? S::CG : inputs;
  const Index part = cg * S::TAPS < 2 * conv_terms ? cg : (conv_terms + S::TAPS - 1) / S::TAPS;
  Vector sum[P][V] = {};
  for (Index from = 0; from < cg; from += part) {
    const Index to = cg - from < part ? cg : from + part;
    Vector some[P][V] = {};
    for (Index c = from; c < to; ++c) {
      const T* xc = x + c * S::XC;
      const T* wc = w + c * S::TAPS * S::BLOCK;
      for (int t = 0; t < S::TAPS; ++t) {
        const T* at = xc + S::taps[t];
        Vector weight[V];
        for (int j = 0; j < V; ++j) weight[j] = *(const Loose*)(wc + t * S::BLOCK + j * lanes);
        for (int i = 0; i < P; ++i) {
          const T value = at[i / COLUMNS * S::WP + i % COLUMNS * S::STEP];
          for (int j = 0; j < V; ++j) some[i][j] = multiply_add(value, weight[j], some[i][j]);
        }
      }
    }
    for (int i = 0; i < P; ++i)
      for (int j = 0; j < V; ++j) sum[i][j] += some[i][j];
  }
  T pixels[filled][S::BLOCK] __attribute__((aligned(64)));
  for (int i = 0; i < filled; ++i)
    for (int j = 0; j < V; ++j) *(Vector*)(pixels[i] + j * lanes) = i < P ? sum[i][j] : Vector{};
  transpose<T>(pixels[0], S::BLOCK, line, PITCH, filled, S::BLOCK);
}

// All pixels of a band for BLOCK channels from o on.
template <typename S, typename T, typename F>
HG_DEVICE void conv_packed_block(const T* x, const T* w, const Index n, const Index o, const Index d, const Index h,
                                 const Index column, const Index inputs, F out) {
  constexpr int lanes = vector_of<T>::lanes, most = conv_packed_pixels<S, T>;
  constexpr bool flat = S::STEP == 1 && S::WP == S::B;  // rows follow each other
  constexpr int rows = flat ? 1 : S::R, columns = flat ? S::R * S::B : S::B;
  constexpr conv_packed_shape tile = conv_packed_tile_of(rows, columns, most, S::BLOCK / lanes);
  constexpr int rest_rows = rows % tile.rows, rest_columns = columns % tile.columns;
  constexpr int pitch = (S::R * S::B + lanes - 1) / lanes * lanes + lanes;  // a tile is stored as whole vectors
  T line[S::BLOCK * pitch] __attribute__((aligned(64)));
  for (int r = 0; r + tile.rows <= rows; r += tile.rows) {
    const T* row = x + (Index)r * S::WP;
    for (int k = 0; k + tile.columns <= columns; k += tile.columns)
      conv_packed_tile<S, tile.rows, tile.columns, pitch>(row + k * S::STEP, w, line + r * S::B + k, inputs);
    if constexpr (rest_columns != 0) {
      constexpr int k = columns - rest_columns;
      conv_packed_tile<S, tile.rows, rest_columns, pitch>(row + k * S::STEP, w, line + r * S::B + k, inputs);
    }
  }
  if constexpr (rest_rows != 0) {
    constexpr int r = rows - rest_rows;
    conv_packed_tile<S, rest_rows, columns, pitch>(x + (Index)r * S::WP, w, line + r * S::B, inputs);
  }
  conv_out<S>(S::BLOCK, line, pitch, S::B, n, o, d, h, column, out);
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
  constexpr bool plain = S::TAPS == 1 && S::SD == 1 && S::SH == 1 && S::SW == 1 && S::WP == S::W &&
                         S::LD == 0 && S::LH == 0 && S::LW == 0 && S::OH <= S::H && S::OD <= S::D;
  for (int c = g * S::CG; c < (g + 1) * S::CG; ++c)
    for (int k = 0; k < S::KD; ++k) {
      const Index qd = d * S::SD + k * S::DD - S::LD;
      if constexpr (plain && S::FILL_FLAT) {  // whole rows, which follow each other
        fill(n, c, qd, 0, h * S::W, S::RP * S::WP, to);
        to += S::RP * S::WP;
        continue;
      }
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

// Rows of one phase of the strides of a plane (none: zeros) from row `top` on, where a band is as wide as the result: what is
// zero and what is copied of a row are constants.
template <typename S, int PHASE, typename T>
static __attribute__((noinline)) void conv_phase(const T* HG_RESTRICT plane, const Index top, T* HG_RESTRICT to) {
  constexpr int first = PHASE - S::LW, before = first < 0 ? (-first + S::SW - 1) / S::SW : 0;
  constexpr int reach = first < S::W ? (S::W - first + S::SW - 1) / S::SW : 0;
  constexpr int begin = before < S::WP ? before : S::WP;
  constexpr int end = reach < begin ? begin : reach < S::WP ? reach : S::WP;
  for (int r = 0; r < S::RP; ++r, to += S::WP) {
    __asm__ volatile("" ::: "memory");  // else g++ 12 vectorises over rows, and mixes up those that strides thin out
    const Index h = top + (Index)r * S::SH;
    if (plane && h >= 0 && h < S::H) {
      const T* row = plane + h * S::W + first;
      for (int k = 0; k < begin; ++k) to[k] = 0;
      if constexpr (S::SW == 1) {
        __builtin_memcpy(to + begin, row + begin, (end - begin) * sizeof(T));
      } else {
        for (int k = begin; k < end; ++k) to[k] = row[k * S::SW];
      }
      for (int k = end; k < S::WP; ++k) to[k] = 0;
    } else {
      for (int k = 0; k < S::WP; ++k) to[k] = 0;
    }
  }
}

// The phases from PHASE on, one behind another.
template <typename S, int PHASE, typename T>
HG_DEVICE void conv_phases(const T* plane, const Index top, T* to) {
  conv_phase<S, PHASE>(plane, top, to);
  if constexpr (PHASE + 1 < S::PW) conv_phases<S, PHASE + 1>(plane, top, to + S::RP * S::WP);
}

// The padded copy of what a band reads of the channels of one group.
template <typename S, typename T>
static __attribute__((noinline)) void conv_copy(const T* HG_RESTRICT x, const Index d, const Index h,
                                                const Index column, T* HG_RESTRICT to) {
  for (int c = 0; c < S::CG; ++c)
    for (int k = 0; k < S::KD; ++k) {
      const Index qd = d * S::SD + k * S::DD - S::LD;
      const bool within = qd >= 0 && qd % S::BD == 0 && qd / S::BD < S::D;
      if constexpr (S::B == S::OW && S::BD == 1 && S::BH == 1 && S::BW == 1 && S::PW <= 4) {
        const T* plane = within ? x + (Index)(c * S::D + qd) * S::H * S::W : (const T*)0;
        for (int ph = 0; ph < S::PH; ++ph, to += S::PW * S::RP * S::WP)
          conv_phases<S, 0>(plane, h * S::SH + ph - S::LH, to);
        continue;
      }
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
    return group + (d * S::SD * S::H + h * S::SH) * S::W + column * S::SW;
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
  constexpr int channels = S::BLOCK ? S::BLOCK : conv_channels(S::OG, conv_vectors<S, T>), rest = S::OG % channels;
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
      if constexpr (S::BLOCK > 0) {
        conv_packed_block<S>(source, weight + o * cg * S::TAPS, n, g * S::OG + o, d, h, at, cg, out);
      } else if (rest == 0 || b < whole) {
        conv_block<S, channels>(source, weight + o * cg * S::TAPS, n, g * S::OG + o, d, h, at, cg, out);
      } else if constexpr (rest != 0) {
        conv_block<S, rest>(source, weight + o * cg * S::TAPS, n, g * S::OG + o, d, h, at, cg, out);
      }
    }
    unit += last - first;
  }
}

}  // namespace hg

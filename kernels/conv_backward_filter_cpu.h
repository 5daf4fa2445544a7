// SPDX-License-Identifier: Apache-2.0
// Derivatives of convolutions by their weight on the host target: many positions are summed, few are results.
//
//   y[m, s, k] = sum over samples n and positions p of stationary[n, s, p] * shifted[n, m, p * STEP + k * MOVE + START]
//
// for the channels m of the shifted and s of the stationary operand of one group, where the shifted operand is zero outside
// its plane. Vectors run along the channels of the stationary operand, some hundred positions of which are copied so that
// channels are neighbours; sums of a tile of taps times channels stay in registers over these positions. ACROSS:
// vectors run along the groups instead (which have a channel or a few), those of the shifted operand as well.
//
// A kernel describes its shape as a struct S of constants (written by templates/cpu/conv_backward_filter.j2):
//   G, MC, SC            groups, channels of the shifted and of the stationary operand in one
//   OD, OH, OW           positions: the plane of the stationary operand; leading ones are 1 below three axes
//   D, H, W, KD, KH, KW  the plane of the shifted operand, and the taps
//   STEPD …, MOVED …, STARTD …   as above, of each axis
//   SN, SG, SS, MN, MG, MM       distances of samples, groups and channels of both operands
//   DIRECT               no tap leaves the plane: the shifted operand is read where it lies
// `out(g, m, s, d, h, line)` receives the KW results of a row of taps.
#pragma once

#include "matmul_cpu.h"
#include "tile_cpu.h"

namespace hg {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int filter_registers = 32;
#else
constexpr int filter_registers = 16;
#endif

constexpr int filter_positions = 128;       // of a partial sum, at most: their copy fits the first-level cache
constexpr int filter_parts = 32;            // partial sums of a longer one: rounding errors do not pile up
constexpr Index filter_totals = 192 << 10;  // bytes of sums, and of the padded copy: both fit the second-level cache
constexpr Index filter_copied = 160 << 10;

// Taps times channels of the shifted operand times vectors that one pass over the positions sums up.
struct filter_tile {
  int channels, rows, columns, vectors;
};

// Half cycles a position: multiplications, loads, or waiting for sums.
constexpr Index filter_tile_cost(bool across, int entries, int vectors) {
  const int work = entries * vectors, loads = across ? work + vectors : entries + vectors;
  const int most = work > loads ? work : loads;
  return (most > 8 ? most : 8) + 1;
}

constexpr Index filter_cost(bool across, int entries, int vectors, int all) {
  const int rest = all % vectors;
  return all / vectors * filter_tile_cost(across, entries, vectors) +
         (rest ? filter_tile_cost(across, entries, rest) : 0);
}

// A tile is several channels with all taps, or several rows of taps, or part of a row.
template <typename S, typename T>
constexpr filter_tile filter_tile_of() {
  const int lanes = vector_of<T>::lanes, all = ((S::ACROSS ? S::G : S::SC) + lanes - 1) / lanes;
  filter_tile best{1, 1, 1, 1};
  Index least = (Index)1 << 62;
  for (int v = 1; v <= 4 && v <= all; ++v)
    for (int form = 0; form < 3; ++form) {
      if (form == 2 && S::KD > 1) break;
      const int whole = form == 0 ? S::KW : form == 1 ? S::KH : S::MC;
      const int unit = form == 0 ? 1 : form == 1 ? S::KW : S::KH * S::KW;
      const Index others = (Index)(form == 2 ? 1 : S::MC) * S::KD * (form == 0 ? S::KH : 1);
      for (int n = 1; n <= whole && n * unit * v + v < filter_registers; ++n) {
        const int rest = whole % n;
        const Index cost = others * (whole / n * filter_cost(S::ACROSS, n * unit, v, all) +
                                     (rest ? filter_cost(S::ACROSS, rest * unit, v, all) : 0));
        if (cost <= least) {
          least = cost;
          best = form == 0   ? filter_tile{1, 1, n, v}
                 : form == 1 ? filter_tile{1, n, S::KW, v}
                             : filter_tile{n, S::KH, S::KW, v};
        }
      }
    }
  return best;
}

constexpr int filter_even(Index extent, Index most) {
  const Index count = most < 1 ? extent : (extent + most - 1) / most;
  return (int)((extent + count - 1) / count);
}

// How much is computed together, with V vectors.
template <typename S, int V, typename T>
struct filter_plan {
  static constexpr filter_tile tile = filter_tile_of<S, T>();
  static constexpr int width = V * vector_of<T>::lanes;
  static constexpr int taps = S::KD * S::KH * S::KW;
  static constexpr int unit = S::ACROSS ? width : 1;  // elements of the shifted operand at a place
  // positions of a partial sum: several samples, or some rows, or part of a row
  static constexpr bool whole = S::OD == 1 && (Index)S::OH * S::OW <= filter_positions;
  static constexpr int columns = S::OW <= filter_positions ? S::OW : filter_even(S::OW, filter_positions);
  static constexpr int rows = whole ? S::OH : columns < S::OW ? 1 : filter_even(S::OH, filter_positions / S::OW);
  static constexpr Index reach(int move, int taps) { return (Index)(move < 0 ? -move : move) * (taps - 1); }
  static constexpr int copied_rows(int rows) { return (int)((Index)(rows - 1) * S::STEPH + reach(S::MOVEH, S::KH) + 1); }
  static constexpr int copied_columns = (int)((Index)(columns - 1) * S::STEPW + reach(S::MOVEW, S::KW) + 1);
  static constexpr Index copy(int rows) {
    return (Index)S::KD * copied_rows(rows) * copied_columns * unit * (Index)sizeof(T);
  }
  // channels of the shifted operand whose sums, and copies, there is room for
  static constexpr Index most_sums = filter_totals / ((Index)taps * width * (Index)sizeof(T));
  static constexpr Index most_copies = S::DIRECT ? S::MC : filter_copied / copy(rows);
  static constexpr int channels = filter_even(S::MC, most_sums < most_copies ? most_sums : most_copies);
  static constexpr int samples_of() {
    if (!whole) return 1;
    const Index fit = filter_positions / ((Index)S::OH * S::OW);
    const Index room = S::DIRECT ? fit : filter_copied / (channels * copy(rows));
    return (int)(fit < room ? fit : room < 1 ? 1 : room);
  }
  static constexpr int samples = samples_of();
  static constexpr int band_of() {  // rows that are copied at once: several times those of a partial sum
    int band = rows;
    while (!whole && !S::DIRECT && band < S::OH && channels * copy(band + rows) <= filter_copied) band += rows;
    return band;
  }
  static constexpr int band = band_of();
  // distances in what the taps read
  static constexpr Index row = S::DIRECT ? S::W : (Index)copied_columns * unit;
  static constexpr Index plane = S::DIRECT ? (Index)S::H * S::W : copied_rows(band) * row;
  static constexpr Index channel = S::DIRECT ? (Index)S::MM : S::KD * plane;
  static constexpr Index sample = S::DIRECT ? (Index)S::MN : channels * channel;
  static constexpr Index depth = S::DIRECT ? S::MOVED * plane : plane;  // from one tap to the next along the first axis
};

// The sums of C channels x R rows x Q columns of taps over some positions.
template <typename S, int C, int R, int Q, int V, typename T>
static __attribute__((noinline)) void filter_sums(const T* HG_RESTRICT stationary, const T* HG_RESTRICT shifted,
                                                   const int samples, const int rows, const int columns,
                                                   T* HG_RESTRICT totals) {
  typedef typename vector_of<T>::type Vector;
  typedef filter_plan<S, V, T> Plan;
  const int lanes = vector_of<T>::lanes;
  Vector sum[C][R][Q][V] = {};
  for (int n = 0; n < samples; ++n)
    for (int r = 0; r < rows; ++r) {
      const T* at = shifted + n * Plan::sample + r * S::STEPH * Plan::row;
      for (int k = 0; k < columns; ++k, at += S::STEPW * Plan::unit, stationary += Plan::width) {
        Vector value[V];
        for (int v = 0; v < V; ++v) value[v] = *(const Vector*)(stationary + v * lanes);
        for (int c = 0; c < C; ++c)
          for (int i = 0; i < R; ++i)
            for (int j = 0; j < Q; ++j) {
              const T* tap = at + c * Plan::channel + i * S::MOVEH * Plan::row + j * S::MOVEW * Plan::unit;
              for (int v = 0; v < V; ++v) {
                if constexpr (S::ACROSS)
                  sum[c][i][j][v] = multiply_add(*(const Vector*)(tap + v * lanes), value[v], sum[c][i][j][v]);
                else
                  sum[c][i][j][v] = multiply_add(*tap, value[v], sum[c][i][j][v]);
              }
            }
      }
    }
  for (int c = 0; c < C; ++c)
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < Q; ++j)
        for (int v = 0; v < V; ++v)
          *(Vector*)(totals + ((c * S::KD * S::KH + i) * S::KW + j) * Plan::width + v * lanes) += sum[c][i][j][v];
}

// All taps of C channels; `shifted` is where the first tap of the first one lies.
template <typename S, int C, int V, typename T>
HG_DEVICE void filter_taps(const T* stationary, const T* shifted, const int samples, const int rows, const int columns,
                            T* totals) {
  typedef filter_plan<S, V, T> Plan;
  constexpr int R = Plan::tile.rows, Q = Plan::tile.columns, lower = S::KH % R, last = S::KW % Q;
  for (int d = 0; d < S::KD; ++d)
    for (int h = 0; h < S::KH; h += R)
      for (int w = 0; w < S::KW; w += Q) {
        const T* at = shifted + d * Plan::depth + h * S::MOVEH * Plan::row + w * S::MOVEW * Plan::unit;
        T* to = totals + ((d * S::KH + h) * S::KW + w) * Plan::width;
        if constexpr (last != 0)
          if (w + Q > S::KW) {
            filter_sums<S, C, R, last, V>(stationary, at, samples, rows, columns, to);
            continue;
          }
        if constexpr (lower != 0)
          if (h + R > S::KH) {
            filter_sums<S, C, lower, Q, V>(stationary, at, samples, rows, columns, to);
            continue;
          }
        filter_sums<S, C, R, Q, V>(stationary, at, samples, rows, columns, to);
      }
}

// As transpose, of which g++ would make a copy for each set of distances that it knows: a third of the time that it takes
// for a kernel, and none that the kernel gains.
template <typename T>
HG_DEVICE void filter_turned(const T* from, const Index rows, T* to, const Index columns, const Index height,
                              const Index width) {
  transpose(from, opaque(rows), to, opaque(columns), opaque(height), opaque(width));
}

// One channel's row of the padded copy: `count` elements from `first` on, `unit` apart, zeros outside 0 … W - 1 and
// where there is no row.
template <int W, int UNIT, typename A, typename T>
static __attribute__((noinline)) void filter_row(const A* HG_RESTRICT row, const Index first, const int count,
                                                  T* HG_RESTRICT to) {
  const Index begin = !row || first < -count ? count : first < 0 ? -first : 0;
  const Index end = !row || first >= W ? begin : W - first < count ? W - first : count;
  for (Index k = 0; k < begin; ++k) to[k * UNIT] = 0;
  for (Index k = begin; k < end; ++k) to[k * UNIT] = (T)row[first + k];
  for (Index k = end < begin ? begin : end; k < count; ++k) to[k * UNIT] = 0;
}

// Rows of `lanes` groups that lie `distance` apart, side by side.
template <int W, int UNIT, typename T>
static __attribute__((noinline)) void filter_rows(const T* HG_RESTRICT row, const Index distance, const int lanes,
                                                   const Index first, const int count, T* HG_RESTRICT to) {
  const Index begin = !row || first < -count ? count : first < 0 ? -first : 0;
  const Index end = !row || first >= W ? begin : W - first < count ? W - first : count;
  for (Index k = 0; k < begin * UNIT; ++k) to[k] = 0;
  if (end > begin) filter_turned(row + first + begin, distance, to + begin * UNIT, UNIT, lanes, end - begin);
  for (Index k = (end < begin ? begin : end) * UNIT; k < count * UNIT; ++k) to[k] = 0;
}

// The padded copy of what the taps of a band of positions read of some channels. `shifted` is the first sample's and
// channel's plane; of groups, if vectors run across them, there are `lanes`.
template <typename S, int V, typename A, typename T>
static __attribute__((noinline)) void filter_copy(const A* HG_RESTRICT shifted, const int lanes, const int samples,
                                                   const int channels, const Index d, const Index h, const Index w,
                                                   const int rows, const int columns, T* HG_RESTRICT copy) {
  typedef filter_plan<S, V, T> Plan;
  const int taken_rows = Plan::copied_rows(rows);
  const int taken = (int)((Index)(columns - 1) * S::STEPW + Plan::reach(S::MOVEW, S::KW) + 1);
  const Index top = h * S::STEPH + S::STARTH - (S::MOVEH < 0 ? Plan::reach(S::MOVEH, S::KH) : 0);
  const Index first = w * S::STEPW + S::STARTW - (S::MOVEW < 0 ? Plan::reach(S::MOVEW, S::KW) : 0);
  for (int n = 0; n < samples; ++n)
    for (int c = 0; c < channels; ++c)
      for (int k = 0; k < S::KD; ++k) {
        const Index qd = d * S::STEPD + S::STARTD + k * S::MOVED;
        for (int r = 0; r < taken_rows; ++r) {
          const Index qh = top + r;
          const bool real = qd >= 0 && qd < S::D && qh >= 0 && qh < S::H;
          const A* row = real ? shifted + n * (Index)S::MN + c * (Index)S::MM + (qd * S::H + qh) * S::W : (const A*)0;
          T* to = copy + n * Plan::sample + c * Plan::channel + k * Plan::plane + r * Plan::row;
          if constexpr (!S::ACROSS)
            filter_row<S::W, 1>(row, first, taken, to);
          else if constexpr (sizeof(A) == sizeof(T))
            filter_rows<S::W, Plan::unit>(row, (Index)S::MG, lanes, first, taken, to);
          else
            for (int i = 0; i < lanes; ++i) filter_row<S::W, Plan::unit>(row ? row + i * (Index)S::MG : row, first, taken, to + i);
        }
      }
}

// to[p * WIDTH + i] = from[i * distance + p]: some positions of some channels, channels side by side.
template <int WIDTH, typename A, typename T>
static __attribute__((noinline)) void filter_gather(const A* HG_RESTRICT from, const Index distance, const int channels,
                                                     const int positions, T* HG_RESTRICT to) {
  if constexpr (sizeof(A) == sizeof(T))
    filter_turned((const T*)from, distance, to, WIDTH, channels, positions);
  else
    for (int p = 0; p < positions; ++p)
      for (int i = 0; i < channels; ++i) to[p * WIDTH + i] = (T)from[i * distance + p];
}

// Some positions of all channels of the strip, tile by tile.
template <typename S, int V, typename T>
HG_DEVICE void filter_tiles(const T* stationary, const T* shifted, const int samples, const int rows, const int columns,
                             const int channels, T* totals) {
  typedef filter_plan<S, V, T> Plan;
  constexpr int C = Plan::tile.channels, rest = Plan::channels % C, last = S::MC % Plan::channels % C;
  int c = 0;
  for (; c + C <= channels; c += C)
    filter_taps<S, C, V>(stationary, shifted + c * Plan::channel, samples, rows, columns, totals + c * Plan::taps * Plan::width);
  if constexpr (rest != 0)
    if (c + rest == channels) {
      filter_taps<S, rest, V>(stationary, shifted + c * Plan::channel, samples, rows, columns,
                               totals + c * Plan::taps * Plan::width);
      return;
    }
  if constexpr (last != 0)
    for (; c < channels; ++c)
      filter_taps<S, 1, V>(stationary, shifted + c * Plan::channel, samples, rows, columns, totals + c * Plan::taps * Plan::width);
}

// Moves `count` sums to where longer ones are kept, which are none yet at first.
template <typename T>
static __attribute__((noinline, noclone)) void filter_move(T* HG_RESTRICT totals, T* HG_RESTRICT longer,
                                                            const Index count, const bool first) {
  for (Index k = 0; k < count; ++k) {
    longer[k] = first ? totals[k] : longer[k] + totals[k];
    totals[k] = 0;
  }
}

// Parts of the shifted operand's channels, each of which has room for its sums beside V vectors of the stationary one's.
template <typename S, int V, typename T>
constexpr int filter_parts_of = (S::MC + filter_plan<S, V, T>::channels - 1) / filter_plan<S, V, T>::channels;

// All results of `count` channels of the stationary operand from `s` on, in group g (or of groups from g on), for parts
// begin … end - 1 of the shifted one's channels.
template <typename S, int V, typename T, typename A, typename F>
HG_DEVICE void filter_block(const A* stationary, const A* shifted, const Index all_samples, const int begin, const int end,
                             const int g, const int s, const int count, F out) {
  typedef filter_plan<S, V, T> Plan;
  constexpr int width = Plan::width, taps = Plan::taps, positions = Plan::samples * Plan::rows * Plan::columns;
  constexpr int together = taps < 32 ? (32 + taps - 1) / taps : 1;  // channels of a line of results
  constexpr Index sums = (Index)Plan::channels * taps * width;
  T totals[sums] __attribute__((aligned(64)));
  T longer[sums] __attribute__((aligned(64)));
  T near[positions * width] __attribute__((aligned(64)));
  T copy[S::DIRECT ? 1 : Plan::samples * Plan::sample] __attribute__((aligned(64)));
  T lines[width * together * taps] __attribute__((aligned(64)));
  __builtin_memset(near, 0, sizeof near);  // lanes without a channel stay zero
  if constexpr (!S::DIRECT && S::ACROSS) __builtin_memset(copy, 0, sizeof copy);
  stationary += g * (Index)S::SG + s * (Index)S::SS;
  shifted += g * (Index)S::MG;
  const Index distance = S::ACROSS ? (Index)S::SG : (Index)S::SS;
  for (int first = begin * Plan::channels; first < S::MC && first < end * Plan::channels; first += Plan::channels) {
    const int channels = minimum(Plan::channels, S::MC - first);
    __builtin_memset(totals, 0, sizeof totals);
    Index parts = 0;
    for (Index n = 0; n < all_samples; n += Plan::samples) {
      const int samples = (int)minimum<Index>(Plan::samples, all_samples - n);
      for (int d = 0; d < S::OD; ++d)
        for (int h = 0; h < S::OH; h += Plan::band)
          for (int w = 0; w < S::OW; w += Plan::columns) {
            const int band = minimum(Plan::band, S::OH - h), columns = minimum(Plan::columns, S::OW - w);
            const A* plane = shifted + n * (Index)S::MN + first * (Index)S::MM;
            const T* taken = copy;
            if constexpr (S::DIRECT) {
              taken = (const T*)plane + ((Index)(d * S::STEPD + S::STARTD) * S::H + h * S::STEPH + S::STARTH) * S::W +
                      w * S::STEPW + S::STARTW;
            } else {
              filter_copy<S, V>(plane, count, samples, channels, d, h, w, band, columns, copy);
              if (S::MOVEH < 0) taken += Plan::reach(S::MOVEH, S::KH) * Plan::row;
              if (S::MOVEW < 0) taken += Plan::reach(S::MOVEW, S::KW) * Plan::unit;
            }
            for (int r = 0; r < band; r += Plan::rows) {
              const int rows = minimum(Plan::rows, band - r), here = rows * columns;
              for (int i = 0; i < samples; ++i)
                filter_gather<width>(stationary + (n + i) * (Index)S::SN + ((Index)d * S::OH + h + r) * S::OW + w, distance,
                                      count, here, near + i * here * width);
              filter_tiles<S, V>(near, taken + (Index)r * S::STEPH * Plan::row, samples, rows, columns, channels, totals);
              if (++parts % filter_parts == 0) filter_move(totals, longer, sums, parts == filter_parts);
            }
          }
    }
    if (parts >= filter_parts) {
      filter_move(totals, longer, sums, false);
      __builtin_memcpy(totals, longer, sizeof totals);
    }
    for (int c = 0; c < channels; c += together) {
      const int some = minimum(together, channels - c);
      filter_turned(totals + c * taps * width, (Index)width, lines, (Index)together * taps, (Index)some * taps, (Index)width);
      for (int i = 0; i < count; ++i)
        for (int m = 0; m < some; ++m)
          for (int d = 0; d < S::KD; ++d)
            for (int h = 0; h < S::KH; ++h)
              out(g + (S::ACROSS ? i : 0), first + c + m, s + (S::ACROSS ? 0 : i), d, h,
                  lines + ((i * together + m) * S::KD * S::KH + d * S::KH + h) * S::KW);
    }
  }
}

// Units begin … end - 1 of S::UNITS: a unit is a share of the blocks of results, some channels of one operand with some of the
// other. Each block adds up all samples. T is what is computed in.
template <typename S, typename T, typename A, typename F>
HG_DEVICE void conv_backward_filter(const A* stationary, const A* shifted, const Index begin, const Index end,
                                    const Index samples, F out) {
  constexpr int lanes = vector_of<T>::lanes, V = filter_tile_of<S, T>().vectors;
  constexpr int all = S::ACROSS ? S::G : S::SC, vectors = (all + lanes - 1) / lanes, rest = vectors % V;
  constexpr int others = S::ACROSS ? S::SC : S::G, whole = vectors / V, parts = filter_parts_of<S, V, T>;
  constexpr int last = rest ? filter_parts_of<S, rest ? rest : V, T> : 0, each = whole * parts + last;
  const Index stop = (Index)others * each * end / S::UNITS;
  for (Index b = (Index)others * each * begin / S::UNITS; b < stop;) {
    const int other = b / each, k = b % each;
    const bool whole_tile = k < whole * parts;
    const int tile = whole_tile ? k / parts : whole, at = tile * V * lanes, from = k - tile * parts;
    const int to = (int)minimum<Index>(whole_tile ? parts : last, from + (stop - b));
    const int g = S::ACROSS ? at : other, s = S::ACROSS ? other : at;
    if (whole_tile) {
      if constexpr (whole != 0)
        filter_block<S, V, T>(stationary, shifted, samples, from, to, g, s, minimum(V * lanes, all - at), out);
    } else {
      if constexpr (rest != 0) filter_block<S, rest, T>(stationary, shifted, samples, from, to, g, s, all - at, out);
    }
    b += to - from;
  }
}

}  // namespace hg

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
constexpr Index filter_near = 64 << 10;  // bytes of positions of the stationary operand beside them
constexpr int filter_strip_sums = 144;   // sums of a channel's taps in a strip that is worth a copy of these, at least
constexpr int filter_blocks = 8;         // blocks of results that threads share, where there are as many

// Taps times channels of the shifted operand times vectors that one pass over the positions sums up.
struct filter_tile {
  int channels, rows, columns, vectors;
};

// Half cycles a position: multiplications, loads, or waiting for sums; and the loop.
constexpr Index filter_tile_cost(bool across, int entries, int vectors) {
  const int work = entries * vectors, loads = across ? work + vectors : entries + vectors;
  const int most = work > loads ? work : loads;
  return (most > 8 ? most : 8) + 3;
}

constexpr Index filter_cost(bool across, int entries, int vectors, int all) {
  const int rest = all % vectors;
  return all / vectors * filter_tile_cost(across, entries, vectors) +
         (rest ? filter_tile_cost(across, entries, rest) : 0);
}

// A tile is several channels with all taps, several rows of taps, part of a row, or a row or a tap of several channels. What
// is left over is another kind of tile, which takes the compiler as long as the first: worth it for more than a few
// hundredths.
template <typename S, typename T>
constexpr filter_tile filter_tile_of() {
  const int lanes = vector_of<T>::lanes, all = ((S::ACROSS ? S::G : S::SC) + lanes - 1) / lanes;
  filter_tile best{1, 1, 1, 1};
  Index least = (Index)1 << 62;
  for (int v = 1; v <= 4 && v <= all; ++v)
    for (int form = 0; form < 5; ++form) {
      if (form == 2 && S::KD > 1) continue;
      const int whole = form == 0 ? S::KW : form == 1 ? S::KH : S::MC;
      const int rows = form == 2 ? S::KH : 1, columns = form == 0 || form == 4 ? 1 : S::KW, unit = rows * columns;
      const Index others = (Index)(form < 2 ? S::MC : 1) * S::KD * (form == 1 ? 1 : S::KH / rows) * (form == 0 ? 1 : S::KW / columns);
      for (int n = 1; n <= whole && n * unit * v + v < filter_registers; ++n) {
        const int rest = whole % n;
        Index cost = others * (whole / n * filter_cost(S::ACROSS, n * unit, v, all) +
                               (rest ? filter_cost(S::ACROSS, rest * unit, v, all) : 0));
        if (rest) cost += cost / 32;
        if (cost <= least) {
          least = cost;
          best = form == 0   ? filter_tile{1, 1, n, v}
                 : form == 1 ? filter_tile{1, n, S::KW, v}
                             : filter_tile{n, rows, columns, v};
        }
      }
    }
  return best;
}

constexpr Index filter_least(Index a, Index b) { return a < b ? a : b; }

constexpr int filter_even(Index extent, Index most) {
  const Index count = most < 1 ? extent : (extent + most - 1) / most;
  return (int)((extent + count - 1) / count);
}

// Distances in what a pass over some positions reads and sums up, in elements: from one position to the next, between
// channels, and from a tap to the one below; and how many taps a row and a channel have.
struct filter_steps {
  Index sample, row, column, channel, down;
  Index taps_of_row, taps;
};

// What is copied of the shifted operand, and where it goes: extents of its plane and taps along the first axis, distances
// of samples, channels and groups in it, and of samples, channels, planes and rows in the copy.
struct filter_image {
  int depth, height, width, taps, move;
  Index sample, channel, group;
  Index to_sample, to_channel, to_plane, to_row;
};

// What the passes over all positions know of a kernel. First the tile: columns of taps are MOVE apart; REST and LAST are
// channels left over of a strip and of the last one, LOWER and RIGHT rows and columns of taps.
template <bool ACROSS_, bool DIRECT_, int MOVE_, int C_, int REST_, int LAST_, int R_, int LOWER_, int Q_, int RIGHT_, int V_>
struct filter_form {
  static constexpr bool ACROSS = ACROSS_, DIRECT = DIRECT_;
  static constexpr int MOVE = MOVE_, C = C_, REST = REST_, LAST = LAST_, R = R_, LOWER = LOWER_, Q = Q_, RIGHT = RIGHT_, V = V_;
};
// Then numbers: taps; positions, and how many are copied and summed up at once; where taps begin and how far positions are
// apart in the shifted operand; distances in the stationary one, of samples, of planes and of channels or groups; distances
// of taps along the first axis, and where taps that move backwards begin in the copy.
struct filter_numbers {
  filter_steps steps;
  filter_image image;
  int kd, kh, kw;
  int od, oh, ow, samples, band, rows, columns;
  Index startd, starth, startw, stepd, steph, stepw, copyh, copyw, reach_rows, reach_columns;
  Index sample, distance, depth, back;
};

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
  static constexpr int columns_read(int columns) {
    return (int)((Index)(columns - 1) * S::STEPW + reach(S::MOVEW, S::KW) + 1);
  }
  static constexpr int copied_columns = columns_read(columns);
  static constexpr Index copy(int rows) {
    return (Index)S::KD * copied_rows(rows) * copied_columns * unit * (Index)sizeof(T);
  }
  // samples by the shape alone, since the order of sums follows from them
  static constexpr int samples_of() {
    if (!whole) return 1;
    const Index fit = filter_positions / ((Index)S::OH * S::OW);
    const Index room = S::DIRECT ? fit : filter_copied / copy(rows);
    return (int)(fit < room ? fit : room < 1 ? 1 : room);
  }
  static constexpr int samples = samples_of();
  // channels of the shifted operand whose sums, and copies, there is room for
  static constexpr Index most_sums = filter_totals / ((Index)taps * width * (Index)sizeof(T));
  static constexpr Index most_copies = S::DIRECT ? S::MC : filter_copied / (samples * copy(rows));
  // Several tiles of vectors share a copy: fewer channels then have room for their sums. There are blocks for some threads.
  static constexpr int vectors = ((S::ACROSS ? S::G : S::SC) + vector_of<T>::lanes - 1) / vector_of<T>::lanes;
  static constexpr int whole_tiles = vectors / V > 0 ? vectors / V : 1, others = S::ACROSS ? S::SC : S::G;
  static constexpr int least = (int)filter_least(S::MC, (filter_strip_sums + taps - 1) / taps);
  static constexpr int tiles_of() {
    if (S::DIRECT || S::ACROSS) return 1;
    const Index near = filter_near / ((Index)samples * rows * columns * width * (Index)sizeof(T));
    const Index sums = most_sums / least, shared = (Index)others * whole_tiles * (S::MC / least) / filter_blocks;
    const Index fit = filter_least(filter_least(near, sums), shared);
    return filter_even(whole_tiles, fit < 1 ? 1 : fit);
  }
  static constexpr int tiles = tiles_of();
  static constexpr int channels_of() {
    const Index strips = filter_blocks / ((Index)others * ((whole_tiles + tiles - 1) / tiles));
    const Index shared = strips < 2 ? S::MC : S::MC / strips < least ? least : S::MC / strips;
    const Index room = filter_least(most_copies, most_sums / tiles);
    const int even = filter_even(S::MC, filter_least(room, shared)), round = (even + tile.channels - 1) / tile.channels * tile.channels;
    return round <= room && round <= S::MC ? round : even;
  }
  static constexpr int channels = channels_of();
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
  static constexpr int left = S::MC % channels;  // channels of the last strip
  static constexpr int rest = channels % tile.channels, last = left % tile.channels;
  typedef filter_form<S::ACROSS, S::DIRECT, S::KW == 1 ? 1 : S::MOVEW, tile.channels, rest, last == rest ? 0 : last, tile.rows,
                      S::KH % tile.rows, tile.columns, S::KW % tile.columns, V>
      form;
  static constexpr Index before_rows = S::MOVEH < 0 ? reach(S::MOVEH, S::KH) : 0;  // taps that move backwards
  static constexpr Index before_columns = S::MOVEW < 0 ? reach(S::MOVEW, S::KW) : 0;
  static constexpr filter_numbers numbers = {
      {sample, S::STEPH * row, S::STEPW, channel, S::MOVEH * row, S::KW, taps},
      {S::D, S::H, S::W, S::KD, S::MOVED, S::MN, S::MM, S::MG, sample, channel, plane, row},
      S::KD, S::KH, S::KW, S::OD, S::OH, S::OW, samples, band, rows, columns,
      S::STARTD, S::STARTH, S::STARTW, S::STEPD, S::STEPH, S::STEPW, before_rows, before_columns,
      reach(S::MOVEH, S::KH) + 1, reach(S::MOVEW, S::KW) + 1,
      S::SN, S::ACROSS ? S::SG : S::SS, depth, before_rows * row + before_columns * unit};
};

// The sums of C channels x R rows x Q columns of taps over some positions; columns of taps are MOVE apart.
// All distances are arguments: a tile is a function that all kernels of a unit share, and takes the compiler longer than
// the rest of a kernel.
template <bool ACROSS, int MOVE, int C, int R, int Q, int V, typename T>
static HG_SHARED void filter_sums(const T* HG_RESTRICT stationary, const T* HG_RESTRICT shifted, const int samples,
                                  int rows, int columns, const filter_steps& step, T* HG_RESTRICT totals) {
  typedef typename vector_of<T>::type Vector;
  const int lanes = vector_of<T>::lanes, unit = ACROSS ? V * lanes : 1;
  const Index right = step.column * unit, next = step.channel, down = step.down;
  Vector sum[C][R][Q][V] = {};
  if (step.row == columns * right) columns *= rows, rows = 1;  // one row
  for (int n = 0; n < samples; ++n, shifted += step.sample) {
    const T* line = shifted;
    for (int r = 0; r < rows; ++r, line += step.row) {
      const T* at = line;
      for (int k = 0; k < columns; ++k, at += right, stationary += V * lanes) {
        Vector value[V];
        for (int v = 0; v < V; ++v) value[v] = *(const Vector*)(stationary + v * lanes);
        for (int c = 0; c < C; ++c)
          for (int i = 0; i < R; ++i)
            for (int j = 0; j < Q; ++j) {
              const T* tap = at + c * next + i * down + j * MOVE * unit;
              for (int v = 0; v < V; ++v) {
                if constexpr (ACROSS)
                  sum[c][i][j][v] = multiply_add(*(const Vector*)(tap + v * lanes), value[v], sum[c][i][j][v]);
                else
                  sum[c][i][j][v] = multiply_add(*tap, value[v], sum[c][i][j][v]);
              }
            }
      }
    }
  }
  for (int c = 0; c < C; ++c)
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < Q; ++j)
        for (int v = 0; v < V; ++v)
          *(Vector*)(totals + (c * step.taps + i * step.taps_of_row + j) * V * lanes + v * lanes) += sum[c][i][j][v];
}

// All taps of C channels; `shifted` is where the first tap of the first one lies.
template <typename F, int C, typename T>
HG_DEVICE void filter_taps(const T* stationary, const T* shifted, const filter_numbers& n, const int samples,
                           const int rows, const int columns, T* totals) {
  constexpr int R = F::R, Q = F::Q, V = F::V, width = V * vector_of<T>::lanes, unit = F::ACROSS ? width : 1;
  for (int d = 0; d < n.kd; ++d)
    for (int h = 0; h < n.kh; h += R)
      for (int w = 0; w < n.kw; w += Q) {
        const T* at = shifted + d * n.depth + h * n.steps.down + w * F::MOVE * unit;
        T* to = totals + (Index)((d * n.kh + h) * n.kw + w) * width;
        if constexpr (F::RIGHT != 0)
          if (w + Q > n.kw) {
            filter_sums<F::ACROSS, F::MOVE, C, R, F::RIGHT, V>(stationary, at, samples, rows, columns, n.steps, to);
            continue;
          }
        if constexpr (F::LOWER != 0)
          if (h + R > n.kh) {
            filter_sums<F::ACROSS, F::MOVE, C, F::LOWER, Q, V>(stationary, at, samples, rows, columns, n.steps, to);
            continue;
          }
        filter_sums<F::ACROSS, F::MOVE, C, R, Q, V>(stationary, at, samples, rows, columns, n.steps, to);
      }
}

// Some positions of all channels of the strip, tile by tile.
template <typename F, typename T>
static HG_SHARED void filter_tiles(const T* stationary, const T* shifted, const filter_numbers& n, const int samples,
                                   const int rows, const int columns, const int channels, T* totals) {
  constexpr int C = F::C;
  const Index sums = n.steps.taps * F::V * vector_of<T>::lanes;
  int c = 0;
  for (; c + C <= channels; c += C)
    filter_taps<F, C>(stationary, shifted + c * n.steps.channel, n, samples, rows, columns, totals + c * sums);
  if constexpr (F::REST != 0)
    if (c + F::REST == channels) {
      filter_taps<F, F::REST>(stationary, shifted + c * n.steps.channel, n, samples, rows, columns, totals + c * sums);
      return;
    }
  if constexpr (F::LAST != 0)
    for (; c < channels; ++c)
      filter_taps<F, 1>(stationary, shifted + c * n.steps.channel, n, samples, rows, columns, totals + c * sums);
}

// One channel's row of the padded copy: `count` elements from `first` on, `unit` apart, zeros outside 0 … W - 1 and
// where there is no row.
template <int UNIT, typename A, typename T>
HG_DEVICE void filter_row(const A* HG_RESTRICT row, const Index width, const Index first, const int count,
                          T* HG_RESTRICT to) {
  const Index begin = !row || first < -count ? count : first < 0 ? -first : 0;
  const Index end = !row || first >= width ? begin : width - first < count ? width - first : count;
  const Index stop = end < begin ? begin : end;
  if constexpr (UNIT == 1 && sizeof(A) == sizeof(T)) {
    clear_elements(to, begin);
    copy_elements((const T*)row + first + begin, to + begin, stop - begin);
    clear_elements(to + stop, count - stop);
  } else {
    for (Index k = 0; k < begin; ++k) to[k * UNIT] = 0;
    for (Index k = begin; k < stop; ++k) to[k * UNIT] = (T)row[first + k];
    for (Index k = stop; k < count; ++k) to[k * UNIT] = 0;
  }
}

// Rows of `lanes` groups that lie `distance` apart, side by side.
template <int UNIT, typename T>
static HG_SHARED void filter_rows(const T* HG_RESTRICT row, const Index distance, const int lanes, const Index width,
                                  const Index first, const int count, T* HG_RESTRICT to) {
  const Index begin = !row || first < -count ? count : first < 0 ? -first : 0;
  const Index end = !row || first >= width ? begin : width - first < count ? width - first : count;
  for (Index k = 0; k < begin * UNIT; ++k) to[k] = 0;
  if (end > begin) transpose(row + first + begin, distance, to + begin * UNIT, UNIT, lanes, end - begin);
  for (Index k = (end < begin ? begin : end) * UNIT; k < count * UNIT; ++k) to[k] = 0;
}

// The padded copy of what the taps of a band of positions read of some channels: `rows` rows of `count` elements, the first
// of all from row `top` of plane `front`, column `left`. `shifted` is the first sample's and channel's plane; of groups, if
// vectors run across them, UNIT at a time, there are `lanes`.
template <bool ACROSS, int UNIT, typename A, typename T>
static HG_SHARED void filter_copy(const A* HG_RESTRICT shifted, const filter_image& image, const int lanes,
                                  const int samples, const int channels, const Index front, const Index top,
                                  const Index left, const int rows, const int count, T* HG_RESTRICT copy) {
  for (int n = 0; n < samples; ++n)
    for (int c = 0; c < channels; ++c)
      for (int k = 0; k < image.taps; ++k) {
        const Index d = front + k * image.move;
        for (int r = 0; r < rows; ++r) {
          const Index h = top + r;
          const bool real = d >= 0 && d < image.depth && h >= 0 && h < image.height;
          const A* row = shifted + n * image.sample + c * image.channel + (d * image.height + h) * image.width;
          if (!real) row = 0;
          T* to = copy + n * image.to_sample + c * image.to_channel + k * image.to_plane + r * image.to_row;
          if constexpr (!ACROSS)
            filter_row<1>(row, image.width, left, count, to);
          else if constexpr (sizeof(A) == sizeof(T))
            filter_rows<UNIT>(row, image.group, lanes, image.width, left, count, to);
          else
            for (int i = 0; i < lanes; ++i)
              filter_row<UNIT>(row ? row + i * image.group : row, image.width, left, count, to + i);
        }
      }
}

// to[p * WIDTH + i] = from[i * distance + p]: some positions of some channels, channels side by side.
template <int WIDTH, typename A, typename T>
static HG_SHARED void filter_gather(const A* HG_RESTRICT from, const Index distance, const int channels,
                                                     const int positions, T* HG_RESTRICT to) {
  if constexpr (sizeof(A) == sizeof(T))
    transpose((const T*)from, distance, to, WIDTH, channels, positions);
  else
    for (int p = 0; p < positions; ++p)
      for (int i = 0; i < channels; ++i) to[p * WIDTH + i] = (T)from[i * distance + p];
}

// Moves `count` sums to where longer ones are kept, which are none yet at first.
template <typename T>
static HG_SHARED void filter_move(T* HG_RESTRICT totals, T* HG_RESTRICT longer,
                                                            const Index count, const bool first) {
  for (Index k = 0; k < count; ++k) {
    longer[k] = first ? totals[k] : longer[k] + totals[k];
    totals[k] = 0;
  }
}

// The sums of a strip of `channels` over all positions, with `count` channels of the stationary operand in tiles of V
// vectors. A tile's sums are `sums` apart, its copied positions `positions`. Behind `totals` lies as much room for longer sums.
template <typename F, typename A, typename T>
static HG_SHARED void filter_strip(const A* HG_RESTRICT stationary, const A* HG_RESTRICT shifted,
                                   const filter_numbers& p, const Index begin, const Index end, const int count,
                                   const int channels, const Index sums, const Index positions, T* HG_RESTRICT totals,
                                   T* HG_RESTRICT longer, T* HG_RESTRICT near, T* HG_RESTRICT copy) {
  constexpr int width = F::V * vector_of<T>::lanes, unit = F::ACROSS ? width : 1;
  const int tiles = (count + width - 1) / width;
  __builtin_memset(totals, 0, tiles * sums * sizeof(T));
  Index parts = 0;
  for (Index n = begin; n < end; n += p.samples) {
    const int samples = (int)minimum<Index>(p.samples, end - n);
    for (int d = 0; d < p.od; ++d)
      for (int h = 0; h < p.oh; h += p.band)
        for (int w = 0; w < p.ow; w += p.columns) {
          const int band = minimum(p.band, p.oh - h), columns = minimum(p.columns, p.ow - w);
          const A* plane = shifted + n * p.image.sample;
          const Index front = d * p.stepd + p.startd, top = h * p.steph + p.starth, left = w * p.stepw + p.startw;
          const T* taken = copy;
          if constexpr (F::DIRECT) {
            taken = (const T*)plane + (front * p.image.height + top) * p.image.width + left;
          } else {
            filter_copy<F::ACROSS, unit>(plane, p.image, count, samples, channels, front, top - p.copyh, left - p.copyw,
                                         (int)((band - 1) * p.steph + p.reach_rows),
                                         (int)((columns - 1) * p.stepw + p.reach_columns), copy);
            taken += p.back;
          }
          for (int r = 0; r < band; r += p.rows) {
            const int rows = minimum(p.rows, band - r), here = rows * columns;
            const A* from = stationary + n * p.sample + ((Index)d * p.oh + h + r) * p.ow + w;
            for (int t = 0; t < tiles; ++t) {
              for (int i = 0; i < samples; ++i)
                filter_gather<width>(from + i * p.sample + t * width * p.distance, p.distance,
                                     minimum(width, count - t * width), here, near + t * positions + (Index)i * here * width);
              filter_tiles<F>(near + t * positions, taken + r * p.steps.row, p, samples, rows, columns, channels,
                              totals + t * sums);
            }
            if (++parts % filter_parts == 0) filter_move(totals, longer, tiles * sums, parts == filter_parts);
          }
        }
  }
  if (parts >= filter_parts) {
    filter_move(totals, longer, tiles * sums, false);
    __builtin_memcpy(totals, longer, tiles * sums * sizeof(T));
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
  T totals[2 * Plan::tiles * sums] __attribute__((aligned(64)));
  T near[Plan::tiles * positions * width] __attribute__((aligned(64)));
  T copy[S::DIRECT ? 1 : Plan::samples * Plan::sample] __attribute__((aligned(64)));
  T lines[width * together * taps] __attribute__((aligned(64)));
  if (count % width) __builtin_memset(near, 0, sizeof near);  // lanes without a channel stay zero
  if constexpr (!S::DIRECT && S::ACROSS) __builtin_memset(copy, 0, sizeof copy);
  stationary += g * (Index)S::SG + s * (Index)S::SS;
  shifted += g * (Index)S::MG;
  for (int first = begin * Plan::channels; first < S::MC && first < end * Plan::channels; first += Plan::channels) {
    const int channels = minimum(Plan::channels, S::MC - first);
    filter_strip<typename Plan::form>(stationary, shifted + first * (Index)S::MM, Plan::numbers, 0, all_samples, count,
                                      channels, sums, positions * width, totals, totals + Plan::tiles * sums, near, copy);
    for (int k = 0; k < count; k += width)
      for (int c = 0; c < channels; c += together) {
        const int some = minimum(together, channels - c);
        transpose(totals + k / width * sums + c * taps * width, (Index)width, lines, (Index)together * taps,
                  (Index)some * taps, (Index)width);
        for (int i = 0; i < minimum(width, count - k); ++i)
          for (int m = 0; m < some; ++m)
            for (int d = 0; d < S::KD; ++d)
              for (int h = 0; h < S::KH; ++h)
                out(g + (S::ACROSS ? k + i : 0), first + c + m, s + (S::ACROSS ? 0 : k + i), d, h,
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
  constexpr int width = filter_plan<S, V, T>::tiles * V;  // vectors of a block
  constexpr int others = S::ACROSS ? S::SC : S::G, whole = (vectors - rest + width - 1) / width, parts = filter_parts_of<S, V, T>;
  constexpr int last = rest ? filter_parts_of<S, rest ? rest : V, T> : 0, each = whole * parts + last;
  const Index stop = (Index)others * each * end / S::UNITS;
  for (Index b = (Index)others * each * begin / S::UNITS; b < stop;) {
    const int other = b / each, k = b % each;
    const bool whole_tile = k < whole * parts;
    const int tile = whole_tile ? k / parts : whole, from = k - tile * parts;
    const int at = (whole_tile ? tile * width : vectors - rest) * lanes;
    const int to = (int)minimum<Index>(whole_tile ? parts : last, from + (stop - b));
    const int g = S::ACROSS ? at : other, s = S::ACROSS ? other : at;
    if (whole_tile) {
      if constexpr (whole != 0) {
        const int count = minimum(at + width * lanes, minimum(all, (vectors - rest) * lanes)) - at;
        filter_block<S, V, T>(stationary, shifted, samples, from, to, g, s, count, out);
      }
    } else {
      if constexpr (rest != 0) filter_block<S, rest, T>(stationary, shifted, samples, from, to, g, s, all - at, out);
    }
    b += to - from;
  }
}

}  // namespace hg

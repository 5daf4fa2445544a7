// SPDX-License-Identifier: Apache-2.0
// Convolutions of a spread operand on the host target: transposed ones, and derivatives of strided ones by their operand.
//
// Results a base dilation apart meet elements, not the zeros between them, at the same taps: they are a phase. Each
// phase is a plain convolution with some of the taps; their lines are put together before the epilogue gets them.
//
// A kernel describes its shape as a struct S of constants (written by templates/cpu/conv_input_dilated.j2):
//   G, CG, OG        groups, and input and output channels of one
//   H, W, OH, OW     extents of the operand and the result
//   BH, BW           base dilations; U, V: results of a phase along both axes
//   R                rows of every phase that are computed together: a band
//   TOP, LEFT        where a band's padded copy begins, from the operand's element of its first result on
//   RP, WP           rows of the copy, and their length
//   TAPS             elements of a window
//   first[]          of each phase the first one of its taps, and where the last phase's end
//   taps[], at[]     where each tap lies from the window's first element, and the number of its weight
// `out(n, o, h, line)` receives the OW results of a row.
#pragma once

#include "conv_cpu.h"

namespace hg {

template <typename S>
constexpr int spread_pixels = (S::R - 1) * S::WP + S::V;

template <typename S, typename T>
constexpr int spread_vectors = (spread_pixels<S> + vector_of<T>::lanes - 1) / vector_of<T>::lanes;

// Numbers of a tile, which kernels of a unit share. Channels of the operand and how far they are apart; taps of a channel,
// those of a phase, where each lies, and the number of its weight; how far lines are apart.
struct dilated_window {
  int inputs, taps;
  Index channel, pitch;
};

// N channels times V vectors of the results of a phase.
template <int N, int V, typename T>
static HG_SHARED void dilated_tile(const T* HG_RESTRICT x, const T* HG_RESTRICT w, T* HG_RESTRICT line,
                                   const dilated_window& window, const int* HG_RESTRICT taps, const int* HG_RESTRICT numbers,
                                   const int count) {
  typedef typename vector_of<T>::type Vector;
  typedef typename vector_of<T>::loose Loose;
  const int lanes = vector_of<T>::lanes, inputs = count ? window.inputs : 0;
  const int terms = count ? count : 1;
  const Index all = window.taps, channel = window.channel, next = inputs * all;
  // long sums are sums of partial ones, whose rounding errors do not pile up
  const int part = inputs * terms < 2 * conv_terms ? inputs : (conv_terms + terms - 1) / terms;
  Vector sum[N][V] = {};
  for (int from = 0; from < inputs; from += part) {
    const int to = inputs - from < part ? inputs : from + part;
    Vector some[N][V] = {};
    for (int c = from; c < to; ++c) {
      const T* xc = x + c * channel;
      const T* wc = w + c * all;
      for (int t = 0; t < count; ++t) {
        const T* at = xc + taps[t];
        const T* weights = wc + numbers[t];
        Vector value[V];
        for (int j = 0; j < V; ++j) value[j] = *(const Loose*)(at + j * lanes);
        for (int i = 0; i < N; ++i) {
          const T weight = weights[i * next];
          for (int j = 0; j < V; ++j) some[i][j] = multiply_add(weight, value[j], some[i][j]);
        }
      }
    }
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < V; ++j) sum[i][j] += some[i][j];
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < V; ++j) *(Loose*)(line + i * window.pitch + j * lanes) = sum[i][j];
}

// All pixels of a band for N channels, in the phases of a row of them.
template <typename S, int N, int PITCH, typename T>
HG_DEVICE void dilated_phases(const T* x, const T* w, const int row, T* parts) {
  constexpr int lanes = vector_of<T>::lanes, vectors = spread_vectors<S, T>, width = conv_width(N, vectors);
  constexpr int rest = vectors % width;
  static constexpr dilated_window window = {S::CG, S::TAPS, S::RP * S::WP, PITCH};
  for (int p = row * S::BW; p < (row + 1) * S::BW; ++p, parts += N * PITCH) {
    const int from = S::first[p], count = S::first[p + 1] - from;
    int v = 0;
    for (; v + width <= vectors; v += width)
      dilated_tile<N, width>(x + v * lanes, w, parts + v * lanes, window, S::taps + from, S::at + from, count);
    if constexpr (rest != 0)
      dilated_tile<N, rest>(x + v * lanes, w, parts + v * lanes, window, S::taps + from, S::at + from, count);
  }
}

// The lines of BW phases as one.
template <int BW, int V, typename T>
static __attribute__((noinline)) void spread_join(const T* HG_RESTRICT parts, const Index distance, T* HG_RESTRICT line) {
  HG_SIMD
  for (int v = 0; v < V; ++v)
    for (int p = 0; p < BW; ++p) line[v * BW + p] = parts[p * distance + v];
}

// All rows of a band for N channels from o on, phase by phase.
template <typename S, int N, typename T, typename F>
HG_DEVICE void dilated_block(const T* x, const T* w, const Index n, const Index o, const int u, F out) {
  constexpr int pitch = spread_vectors<S, T> * vector_of<T>::lanes;
  T parts[S::BW * N * pitch] __attribute__((aligned(64)));
  T line[S::V * S::BW] __attribute__((aligned(64)));
  for (int row = 0; row < S::BH; ++row) {
    dilated_phases<S, N, pitch>(x, w, row, parts);
    for (int i = 0; i < N; ++i)
      for (int r = 0; r < S::R; ++r) {
        const int h = (u + r) * S::BH + row;
        if (h >= S::OH) break;
        spread_join<S::BW, S::V>(parts + i * pitch + r * S::WP, (Index)N * pitch, line);
        out(n, o + i, h, line);
      }
  }
}

// The padded copy of what a band reads of the channels of one group.
template <typename S, typename T>
static __attribute__((noinline)) void spread_copy(const T* HG_RESTRICT x, const int u, T* HG_RESTRICT to) {
  for (int c = 0; c < S::CG; ++c)
    for (int r = 0; r < S::RP; ++r, to += S::WP) {
      const Index h = u + S::TOP + r;
      const T* row = h >= 0 && h < S::H ? x + (c * S::H + h) * S::W : (const T*)0;
      const Index begin = !row || S::LEFT < -S::WP ? S::WP : S::LEFT < 0 ? -S::LEFT : 0;
      const Index end = !row || S::LEFT >= S::W ? begin : S::W - S::LEFT < S::WP ? S::W - S::LEFT : S::WP;
      for (Index k = 0; k < begin; ++k) to[k] = 0;
      if (end > begin) __builtin_memcpy(to + begin, row + S::LEFT + begin, (end - begin) * sizeof(T));
      for (Index k = end < begin ? begin : end; k < S::WP; ++k) to[k] = 0;
    }
  for (int i = 0; i < vector_of<T>::lanes; ++i) to[i] = 0;
}

// Units begin … end - 1: a unit is a band of a group of a sample.
template <typename S, typename T, typename F>
HG_DEVICE void conv_input_dilated(const T* x, const T* w, const Index begin, const Index end, F out) {
  constexpr int channels = conv_channels(S::OG, spread_vectors<S, T>), rest = S::OG % channels;
  constexpr int bands = (S::U + S::R - 1) / S::R;
  T scratch[S::CG * S::RP * S::WP + vector_of<T>::lanes] __attribute__((aligned(64)));
  for (Index unit = begin; unit < end; ++unit) {
    const int u = unit % bands * S::R, g = unit / bands % S::G;
    const Index n = unit / bands / S::G;
    const T* weight = w + (Index)g * S::OG * S::CG * S::TAPS;
    spread_copy<S>(x + (n * S::G + g) * (Index)S::CG * S::H * S::W, u, scratch);
    int o = 0;
    for (; o + channels <= S::OG; o += channels)
      dilated_block<S, channels>(scratch, weight + (Index)o * S::CG * S::TAPS, n, g * S::OG + o, u, out);
    if constexpr (rest != 0)
      dilated_block<S, rest>(scratch, weight + (Index)o * S::CG * S::TAPS, n, g * S::OG + o, u, out);
  }
}

}  // namespace hg

// SPDX-License-Identifier: Apache-2.0
// One element of a direct convolution, or some neighbours, by one thread; S holds the shape as constants (templates/cuda/conv.j2): planes,
// and how far channels of the operand (XC), results of the kernel (WO) and its channels (WC) are apart in memory. Index
// holds every position in either.
#pragma once

namespace hg {

// Position of a tap in the operand, or -1 where it meets a zero.
template <int STRIDE, int DILATE, int LOW, int BASE, int EXTENT>
HG_DEVICE int conv_place(int at, int k) {
  const int q = at * STRIDE + k * DILATE - LOW;
  if (q < 0 || q >= (EXTENT - 1) * BASE + 1) return -1;
  return BASE == 1 ? q : (q % BASE ? -1 : q / BASE);
}

// Channel c of the operand: a pointer to a sample, or a lambda that computes the element (c, d, h, w) of it.
template <typename S, typename T>
HG_DEVICE const T* conv_plane(const T* x, const int c) {
  return x + c * S::XC;
}
template <typename F>
struct MadePlane {
  const F* made;
  int c;
};
template <typename S, typename F>
HG_DEVICE MadePlane<F> conv_plane(const F& made, const int c) {
  return {&made, c};
}
template <typename S, typename C, typename T>
HG_DEVICE C conv_pixel(const T* from, const int z, const int y, const int x) {
  return (C)from[((typename S::Index)z * S::H + y) * S::W + x];
}
template <typename S, typename C, typename F>
HG_DEVICE C conv_pixel(const MadePlane<F>& from, const int z, const int y, const int x) {
  return (C)(*from.made)(from.c, z, y, x);
}

// Turns of a loop of so many that are taken together, each with so many taps: two loads for each are under way at once,
// and all of them in registers.
HG_DEVICE constexpr int conv_turns(const int taps, const int turns) {
  return taps > 16 ? 1 : taps * turns <= 16 ? turns : 16 / taps;
}

// The result at (o, d, h, w) of the sample that x is or starts at, a sum over so many channels.
template <typename S, typename C, typename X, typename T>
HG_DEVICE C conv_element(const X& x, const T* weights, const int channels, int o, int d, int h, int w) {
  const T* const own = weights + o * S::WO;
  C sum = 0;
#pragma unroll (conv_turns(4 * S::KD * S::KH * S::KW, 4))
  for (int c = 0; c < channels; ++c) {
    const auto from = conv_plane<S>(x, o / S::OG * channels + c);
    const T* at = own + c * S::WC;
    for (int i = 0; i < S::KD; ++i) {
      const int z = conv_place<S::SD, S::DD, S::LD, S::BD, S::D>(d, i);
#pragma unroll (conv_turns(S::KW, S::KH))
      for (int j = 0; j < S::KH; ++j) {
        const int y = conv_place<S::SH, S::DH, S::LH, S::BH, S::H>(h, j);
#pragma unroll (conv_turns(1, S::KW))
        for (int k = 0; k < S::KW; ++k, ++at) {
          const int v = conv_place<S::SW, S::DW, S::LW, S::BW, S::W>(w, k);
          if (z >= 0 && y >= 0 && v >= 0)
            sum = plus_product(sum, conv_pixel<S, C>(from, z, y, v), (C)*at);
        }
      }
    }
  }
  return sum;
}

// The results at w and N - 1 places behind it, each a sum in the same order: what several of them read of a line is loaded
// once, and so is the kernel.
template <typename S, int N, typename C, typename X, typename T>
HG_DEVICE void conv_elements(const X& x, const T* weights, const int channels, int o, int d, int h, int w, C (&sum)[N]) {
  constexpr int SPAN = (N - 1) * S::SW + (S::KW - 1) * S::DW + 1;
  const T* const own = weights + o * S::WO;
  HG_UNROLL
  for (int u = 0; u < N; ++u) sum[u] = 0;
#pragma unroll (conv_turns(SPAN * S::KD * S::KH, 4))
  for (int c = 0; c < channels; ++c) {
    const auto from = conv_plane<S>(x, o / S::OG * channels + c);
    const T* at = own + c * S::WC;
    for (int i = 0; i < S::KD; ++i) {
      const int z = conv_place<S::SD, S::DD, S::LD, S::BD, S::D>(d, i);
#pragma unroll (conv_turns(SPAN, S::KH))
      for (int j = 0; j < S::KH; ++j, at += S::KW) {
        const int y = conv_place<S::SH, S::DH, S::LH, S::BH, S::H>(h, j);
        C line[SPAN];
        bool there[SPAN];
        HG_UNROLL
        for (int s = 0; s < SPAN; ++s) {
          const int v = conv_place<S::SW, 1, S::LW, S::BW, S::W>(w, s);
          there[s] = z >= 0 && y >= 0 && v >= 0;
          line[s] = there[s] ? conv_pixel<S, C>(from, z, y, v) : C(0);
        }
        HG_UNROLL
        for (int k = 0; k < S::KW; ++k) {
          const C weight = (C)at[k];
          HG_UNROLL
          for (int u = 0; u < N; ++u) {
            if (there[u * S::SW + k * S::DW]) sum[u] = plus_product(sum[u], line[u * S::SW + k * S::DW], weight);
          }
        }
      }
    }
  }
}

}  // namespace hg

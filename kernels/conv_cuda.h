// SPDX-License-Identifier: Apache-2.0
// One element of a direct convolution, by one thread; S holds the shape as constants (templates/cuda/conv.j2).
#pragma once

namespace hg {

// Position of a tap in the operand, or -1 where it meets a zero.
template <int STRIDE, int DILATE, int LOW, int BASE, int EXTENT>
HG_DEVICE int conv_place(int at, int k) {
  const int q = at * STRIDE + k * DILATE - LOW;
  if (q < 0 || q >= (EXTENT - 1) * BASE + 1) return -1;
  return BASE == 1 ? q : (q % BASE ? -1 : q / BASE);
}

// The result at (o, d, h, w) of the sample that starts at x.
template <typename S, typename C, typename T>
HG_DEVICE C conv_element(const T* x, const T* weights, int o, int d, int h, int w) {
  const T* from = x + (long long)(o / S::OG) * S::CG * S::D * S::H * S::W;
  const T* at = weights + (long long)o * S::CG * S::KD * S::KH * S::KW;
  C sum = 0;
  for (int c = 0; c < S::CG; ++c, from += (long long)S::D * S::H * S::W)
    for (int i = 0; i < S::KD; ++i) {
      const int z = conv_place<S::SD, S::DD, S::LD, S::BD, S::D>(d, i);
      for (int j = 0; j < S::KH; ++j) {
        const int y = conv_place<S::SH, S::DH, S::LH, S::BH, S::H>(h, j);
        for (int k = 0; k < S::KW; ++k, ++at) {
          const int v = conv_place<S::SW, S::DW, S::LW, S::BW, S::W>(w, k);
          if (z >= 0 && y >= 0 && v >= 0)
            sum = plus_product(sum, (C)from[((long long)z * S::H + y) * S::W + v], (C)*at);
        }
      }
    }
  return sum;
}

}  // namespace hg

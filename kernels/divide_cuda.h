// SPDX-License-Identifier: Apache-2.0
// Division of several floats by one, with the bits of IEEE division but without dividing each: the divisor's reciprocal
// is rounded once, and a step with the exact remainder makes the nearest float of each quotient (Markstein, "Computation
// of elementary functions on the IBM RISC System/6000 processor", 1990). tests/kernels/test_divide.py shows that it is the
// nearest for every divisor.
#pragma once

namespace hg {

// Replaces each element by its quotient with d; r is 1 / d, rounded to nearest.
//
// The remainder is exact and no result subnormal where d is from 2^-126 to 2^24 and an element from 2^-101 on, or 0; no
// result is infinite that should not be where it comes out finite. All else is divided, with one branch for four elements.
template <int V>
HG_DEVICE void divide(span<float, V>& s, const float d, const float r) {
  constexpr int GROUP = V < 4 ? V : 4;
  const bool usual = d >= 1.17549435e-38f && d <= 16777216.0f;
  HG_UNROLL
  for (int first = 0; first < V; first += GROUP) {
    float q[GROUP];
    unsigned int least = ~0u;  // of the elements' magnitudes, as bits; zeros are the largest
    float most = 0.0f;
    HG_UNROLL
    for (int j = 0; j < GROUP; ++j) {
      const float n = s.v[first + j], guess = n * r;
      q[j] = ::fmaf(::fmaf(d, guess, -n), -r, guess);  // a remainder of +0 times -r keeps the sign of a zero
      least = minimum(least, __float_as_uint(n) * 2u - 1u);
      most = maximum(most, ::fabsf(q[j]));
    }
    if (!(usual && least >= 0x19ffffffu && most <= 3.4028235e38f)) {
      HG_UNROLL
      for (int j = 0; j < GROUP; ++j) q[j] = s.v[first + j];
      _Pragma("unroll 1")
      for (int k = 0; k < GROUP; ++k) {  // one division in the text, through which the elements move round
        const float quotient = q[0] / d;
        HG_UNROLL
        for (int j = 1; j < GROUP; ++j) q[j - 1] = q[j];
        q[GROUP - 1] = quotient;
      }
    }
    HG_UNROLL
    for (int j = 0; j < GROUP; ++j) s.v[first + j] = q[j];
  }
}

}  // namespace hg

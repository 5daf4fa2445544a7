// SPDX-License-Identifier: Apache-2.0
// Fast mode, both targets: functions of float as quotients of polynomials. Included by math_cpu_fast.h and math_cuda.h,
// which define `quotient`, a division that may be approximate where the divisor is between 1 and 1e20.
#pragma once

namespace hg {

// Odd, z P(z^2) / Q(z^2); beyond 3.3 the limit. Max relative error 2^-18.
HG_DEVICE float erf(float x) {
  // fit: erf_quotient_f32
  const float d1 = 0.47048503f, d2 = 0.094949566f, d3 = 0.009254762f, c0 = 1.1283772f, c1 = 0.1547449f,
      c2 = 0.04312684f, c3 = 0.00074462674f;
  float a = abs(x), z = a * a;
  float y = quotient(a * horner(z, c0, c1, c2, c3), horner(z, 1.0f, d1, d2, d3));
  return copysign(a > 3.3f ? 1.0f : y, x);
}

}  // namespace hg

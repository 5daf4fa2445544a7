// SPDX-License-Identifier: Apache-2.0
// sin and cos of floats up to half a right angle, for both targets.
#pragma once

#include "math_fma.h"

namespace hg {

// |r| <= pi/4, relative error 2^-28
HG_DEVICE float sin_near_0(float r, float z) {
  // fit: sin_f32
  const float c3 = -0.16666655f, c5 = 0.008332188f, c7 = -0.00019518095f;
  return fma(horner(z, c3, c5, c7), z * r, r);
}
HG_DEVICE float cos_near_0(float z) {
  // fit: cos_f32
  const float c4 = 0.041666646f, c6 = -0.001388731f, c8 = 2.4432327e-05f;
  return fma(horner(z, c4, c6, c8), z * z, fma(-0.5f, z, 1.0f));
}

}  // namespace hg

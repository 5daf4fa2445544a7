// SPDX-License-Identifier: Apache-2.0
// Part of math_cuda.h that reductions need, too: the larger and the smaller of two floats, NaN if either is NaN.
#pragma once

namespace hg {

HG_DEVICE double maximum(double a, double b) { return a != a || a > b ? a : b; }
HG_DEVICE double minimum(double a, double b) { return a != a || a < b ? a : b; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
HG_DEVICE float maximum(float a, float b) { return a != a || a > b ? a : b; }
HG_DEVICE float minimum(float a, float b) { return a != a || a < b ? a : b; }
#else
HG_DEVICE float maximum(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
HG_DEVICE float minimum(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif

}  // namespace hg

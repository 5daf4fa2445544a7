// graph scatter_of_means (x0: f32[6,24], x1: i32[6,9]) -> (%7)
//   %2 = mul(x0, 0.125)  f32[6,24]
//   %3 = reshape(%2) shape=(6, 1, 24)  f32[6,1,24]
//   %4 = broadcast(%3) shape=(6, 9, 24)  f32[6,9,24]
//   %5 = min(x1, 11)  i32[6,9]
//   %6 = max(%5, 0)  i32[6,9]
//   %7 = scatter_add(%4, %6) axis=0 extent=12  f32[12,24]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
HG_KERNEL mul_min_scatter_add_d741d9ec(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end, const Index size, const Index i0_stride0, const Index n_i1) {
  for (Index t = 0; t < size; ++t) {
    y0[t] = 0.0f;
  }
  for (Index i0 = begin; i0 < end; ++i0) {
    for (Index i1 = 0; i1 < n_i1; ++i1) {
      const int v0 = x0[i0 * i0_stride0 + i1];
      const int v1 = hg::minimum(v0, 11);
      const int v2 = hg::maximum(v1, 0);
      HG_SIMD
      for (Index i2 = 0; i2 < 24; ++i2) {
        const float v3 = x1[i0 * 24 + i2];
        const float v4 = v3 * 0.125f;
        y0[(Index)v2 * 24 + i2] = y0[(Index)v2 * 24 + i2] + v4;
      }
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  mul_min_scatter_add_d741d9ec((int*)input1, (float*)input0, (float*)output0, 0, e[0], e[1], e[2], e[3]);
}

// graph concats (x0: f32[4,6], x1: f32[4,3]) -> (%4, %5, %7)
//   %2 = exp(x0)  f32[4,6]
//   %3 = reverse(x0) axes=(1,)  f32[4,6]
//   %4 = concat(%2, x1, %3) axis=1  f32[4,15]
//   %5 = pad(x0) high=(0, 2) low=(1, 0) value=3.0  f32[5,8]
//   %6 = reshape(x0) shape=(2, 12)  f32[2,12]
//   %7 = transpose(%6) perm=(1, 0)  f32[12,2]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_exp.h"
#include "chunks_cpu.h"
HG_KERNEL exp_copy_5630cb78(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  const Index opaque_zero = hg::opaque(0);
  for (Index i0 = begin; i0 < end; ++i0) {
    HG_SIMD
    for (Index i1 = 0; i1 < 15; ++i1) {
      const float v0 = i1 < 6 + opaque_zero ? x0[i0 * 6 + i1] : 0.0f;
      const float v1 = hg::exp(v0);
      const float v2 = i1 - 6 >= opaque_zero && i1 - 6 < 3 + opaque_zero ? x1[i0 * 3 + i1 - 6] : 0.0f;
      const float v3 = i1 - 9 >= opaque_zero ? x0[i0 * 6 - i1 + 14] : 0.0f;
      const bool v4 = i1 - 6 >= 0 && i1 - 6 < 3;
      const float v5 = v4 ? v2 : v3;
      const bool v6 = i1 < 6;
      const float v7 = v6 ? v1 : v5;
      y0[i0 * 15 + i1] = v7;
    }
  }
}
HG_KERNEL copy_10631098(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  const Index opaque_zero = hg::opaque(0);
  for (Index i0 = begin; i0 < end; ++i0) {
    HG_SIMD
    for (Index i1 = 0; i1 < 8; ++i1) {
      const float v0 = i0 - 1 >= opaque_zero && i1 < 6 + opaque_zero ? x0[i0 * 6 + i1 - 6] : 0.0f;
      const bool v1 = i0 - 1 >= 0 && i1 < 6;
      const float v2 = v1 ? v0 : 3.0f;
      y0[i0 * 8 + i1] = v2;
    }
  }
}
HG_KERNEL copy_78d2bcf2(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    HG_SIMD
    for (Index i1 = 0; i1 < 2; ++i1) {
      const float v0 = x0[i1 * 12 + i0];
      y0[i0 * 2 + i1] = v0;
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0, char* output1, char* output2) {
  exp_copy_5630cb78((float*)input0, (float*)input1, (float*)output0, 0, e[0]);
  hg::in_chunks(e[1], e[2], [&](const Index begin, const Index end) { copy_10631098((float*)input0, (float*)output1, begin, end); });
  hg::in_chunks(e[3], e[4], [&](const Index begin, const Index end) { copy_78d2bcf2((float*)input0, (float*)output2, begin, end); });
}

// graph take (x0: f32[10,6], x1: i32[4,5]) -> (%5, %6)
//   %2 = min(x1, 9)  i32[4,5]
//   %3 = max(%2, 0)  i32[4,5]
//   %4 = take(x0, %3) axis=0  f32[4,5,6]
//   %5 = mul(%4, 2.0)  f32[4,5,6]
//   %6 = sum(%4) axes=(2,)  f32[4,5]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL min_max_sum_ac009e52(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, float* HG_RESTRICT y1, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const int v0 = x0[i0];
    const int v1 = hg::minimum(v0, 9);
    const int v2 = hg::maximum(v1, 0);
    hg::Lanes<hg::Sum<float>, float, 6> a0;
    a0.start(0);
    for (Index at = 0; at < 6; at += 6) {
      HG_BLOCK
      const Index count = 6;
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v3 = x1[(Index)v2 * 6 + i1];
        const float v4 = v3 * 2.0f;
        a0.add(j, v3, 0);
        y0[i0 * 6 + i1] = v4;
      }
    }
    const float v5 = a0.fold(0);
    y1[i0] = v5;
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0, char* output1) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { min_max_sum_ac009e52((int*)input1, (float*)input0, (float*)output0, (float*)output1, begin, end); });
}

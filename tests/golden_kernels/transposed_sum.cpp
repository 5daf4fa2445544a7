// graph transposed_sum (x0: f32[8,12]) -> (%3)
//   %1 = transpose(x0) perm=(1, 0)  f32[12,8]
//   %2 = reshape(x0) shape=(12, 8)  f32[12,8]
//   %3 = add(%1, %2)  f32[12,8]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "chunks_cpu.h"
HG_KERNEL add_f027a1eb(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    HG_SIMD
    for (Index i1 = 0; i1 < 8; ++i1) {
      const float v0 = x0[i1 * 12 + i0];
      const float v1 = x0[i0 * 8 + i1];
      const float v2 = v0 + v1;
      y0[i0 * 8 + i1] = v2;
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { add_f027a1eb((float*)input0, (float*)output0, begin, end); });
}

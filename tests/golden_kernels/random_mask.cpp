// graph random_mask (x0: f32[20,30], x1: u32[4]) -> (%8)
//   %2 = random_bits(x1) shape=(20, 30) stream=1  u32[20,30]
//   %3 = div(%2, 256)  u32[20,30]
//   %4 = cast(%3)  f32[20,30]
//   %5 = mul(%4, 5.9604645e-08)  f32[20,30]
//   %6 = ge(%5, 0.3)  bool[20,30]
//   %7 = mul(x0, 1.4285715)  f32[20,30]
//   %8 = select(%6, %7, 0.0)  f32[20,30]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "chunks_cpu.h"
#include "philox.h"
HG_KERNEL random_bits_div_select_b01f961a(const unsigned int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end, const Index draw0) {
  const unsigned int v0 = x0[0];
  const unsigned int v1 = x0[1];
  const unsigned int v2 = x0[2];
  const unsigned int v3 = x0[3];
  HG_SIMD
  for (Index i0 = begin; i0 < end; ++i0) {
    const long long v4 = (long long)i0;
    const unsigned int v5 = hg::random_bits(v0, v1, v2, v3, v4, (unsigned int)draw0);
    const unsigned int v6 = hg::idiv(v5, 256u);
    const float v7 = (float)v6;
    const float v8 = v7 * 5.9604645e-08f;
    const bool v9 = v8 >= 0.3f;
    const float v10 = x1[i0];
    const float v11 = v10 * 1.4285715f;
    const float v12 = v9 ? v11 : 0.0f;
    y0[i0] = v12;
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  hg::in_chunks(e[0], e[2], [&](const Index begin, const Index end) { random_bits_div_select_b01f961a((unsigned int*)input1, (float*)input0, (float*)output0, begin, end, e[1]); });
}

// graph odd_rows (x0: f32[9,1023], x1: f32[1023], x2: f32[9,1023]) -> (%7)
//   %3 = reshape(x1) shape=(1, 1023)  f32[1,1023]
//   %4 = broadcast(%3) shape=(9, 1023)  f32[9,1023]
//   %5 = add(x0, %4)  f32[9,1023]
//   %6 = max(%5, 0.0)  f32[9,1023]
//   %7 = mul(%6, x2)  f32[9,1023]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "chunks_cpu.h"
#include "stream_cpu.h"
HG_KERNEL add_max_mul_e6d10800(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index begin, const Index end, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 12276) && hg::aligned(y0);
  if (nontemporal) {
    for (Index i0 = begin; i0 < end; ++i0) {
      const Index line = hg::unaligned_prefix(y0 + (i0 * 1023), nontemporal);
      HG_SIMD
      for (Index i1 = 0; i1 < line; ++i1) {
        const float v0 = x0[i0 * 1023 + i1];
        const float v1 = x1[i1];
        const float v2 = v0 + v1;
        const float v3 = hg::maximum(v2, 0.0f);
        const float v4 = x2[i0 * 1023 + i1];
        const float v5 = v3 * v4;
        y0[i0 * 1023 + i1] = v5;
      }
      for (Index at = line; at < 1023 - 63; at += 64) {
        alignas(64) float o0[64];
        if (nontemporal) hg::prefetch_elements<true>(x0 + (i0 * 1023 + at + 4096), 64);
        if (nontemporal) hg::prefetch_elements<true>(x2 + (i0 * 1023 + at + 4096), 64);
        HG_SIMD
        for (Index j = 0; j < 64; ++j) {
          const Index i1 = at + j;
          const float v0 = x0[i0 * 1023 + i1];
          const float v1 = x1[i1];
          const float v2 = v0 + v1;
          const float v3 = hg::maximum(v2, 0.0f);
          const float v4 = x2[i0 * 1023 + i1];
          const float v5 = v3 * v4;
          o0[j] = v5;
        }
        hg::store_block<64>(y0 + (i0 * 1023 + at), o0, nontemporal);
      }
      HG_SIMD
      for (Index i1 = 1023 - (1023 - line) % 64; i1 < 1023; ++i1) {
        const float v0 = x0[i0 * 1023 + i1];
        const float v1 = x1[i1];
        const float v2 = v0 + v1;
        const float v3 = hg::maximum(v2, 0.0f);
        const float v4 = x2[i0 * 1023 + i1];
        const float v5 = v3 * v4;
        y0[i0 * 1023 + i1] = v5;
      }
    }
    hg::streaming_fence();
  } else {
    for (Index i0 = begin; i0 < end; ++i0) {
      HG_SIMD
      for (Index i1 = 0; i1 < 1023; ++i1) {
        const float v0 = x0[i0 * 1023 + i1];
        const float v1 = x1[i1];
        const float v2 = v0 + v1;
        const float v3 = hg::maximum(v2, 0.0f);
        const float v4 = x2[i0 * 1023 + i1];
        const float v5 = v3 * v4;
        y0[i0 * 1023 + i1] = v5;
      }
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* output0) {
  hg::in_chunks(e[0], e[2], [&](const Index begin, const Index end) { add_max_mul_e6d10800((float*)input0, (float*)input1, (float*)input2, (float*)output0, begin, end, e[1]); });
}

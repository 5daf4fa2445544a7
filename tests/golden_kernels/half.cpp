// graph half (x0: f16[65], x1: f16[65]) -> (%3, %5, %7)
//   %2 = mul(x0, x1)  f16[65]
//   %3 = add(%2, 1.0)  f16[65]
//   %4 = exp(x0)  f16[65]
//   %5 = cast(%4)  f32[65]
//   %6 = sum(x0) axes=(0,)  f32[]
//   %7 = round_to(%6)  f16[]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "half.h"
#include "math_cpu_exp.h"
#include "reduce.h"
#include "chunks_cpu.h"
#include "stream_cpu.h"
HG_KERNEL mul_add_cast_fe444896(const hg::half* HG_RESTRICT x0, const hg::half* HG_RESTRICT x1, hg::half* HG_RESTRICT y0, float* HG_RESTRICT y1, const Index begin, const Index end, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 10) && hg::aligned(y0 + begin) && hg::aligned(y1 + begin);
  for (Index at = begin; at < end - 63; at += 64) {
    alignas(64) hg::half o0[64];
    alignas(64) float o1[64];
    if (nontemporal) hg::prefetch_elements<true>(x0 + (at + 8192), 64);
    if (nontemporal) hg::prefetch_elements<true>(x1 + (at + 8192), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v0 = x0[i0];
      const float v1 = x1[i0];
      const float v2 = v0 * v1;
      const float v3 = v2 + 1.0f;
      const float v4 = hg::exp(v0);
      const float v5 = (float)v4;
      o0[j] = v3;
      o1[j] = v5;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
    hg::store_block<64>(y1 + at, o1, nontemporal);
  }
  HG_SIMD
  for (Index i0 = end - (end - begin) % 64; i0 < end; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 * v1;
    const float v3 = v2 + 1.0f;
    const float v4 = hg::exp(v0);
    const float v5 = (float)v4;
    y0[i0] = v3;
    y1[i0] = v5;
  }
  if (nontemporal) hg::streaming_fence();
}
HG_KERNEL sum_copy_e914b647(const hg::half* HG_RESTRICT x0, hg::half* HG_RESTRICT y0, const Index begin, const Index end, const Index n_i0) {
  for (Index r0 = begin; r0 < end; ++r0) {
    hg::Lanes<hg::Sum<float>, float, 64> a0;
    a0.start(0);
    for (Index part = 0; part < n_i0; part += 4096) {
      const Index stop = n_i0 - part < 4096 ? n_i0 : part + 4096;
      hg::Lanes<hg::Sum<float>, float, 64> part_a0;
      part_a0.start(0);
      for (Index at = part; at < stop; at += 64) {
        HG_BLOCK
        const Index count = n_i0 - at < 64 ? n_i0 - at : 64;
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i0 = at + j;
          const float v0 = x0[i0];
          part_a0.add(j, v0, 0);
        }
      }
      a0.merge(part_a0);
    }
    const float v1 = a0.fold(0, n_i0);
    y0[0] = v1;
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0, char* output1, char* output2) {
  hg::in_chunks(e[0], e[2], [&](const Index begin, const Index end) { mul_add_cast_fe444896((hg::half*)input0, (hg::half*)input1, (hg::half*)output0, (float*)output1, begin, end, e[1]); });
  sum_copy_e914b647((hg::half*)input0, (hg::half*)output2, 0, e[3], e[4]);
}

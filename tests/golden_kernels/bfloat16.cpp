// graph bfloat16 (x0: bf16[65], x1: bf16[65]) -> (%4, %6, %8, %10, %11)
//   %2 = cast(x0)  f16[65]
//   %3 = mul(x0, x1)  bf16[65]
//   %4 = add(%3, 1.0)  bf16[65]
//   %5 = exp(x0)  bf16[65]
//   %6 = cast(%5)  f32[65]
//   %7 = sum(x0) axes=(0,)  f32[]
//   %8 = round_to(%7)  bf16[]
//   %9 = mul(%2, 0.5)  f16[65]
//   %10 = cast(%9)  bf16[65]
//   %11 = amax(x1) axes=(0,)  bf16[]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "half.h"
#include "math_cpu_exp.h"
#include "reduce.h"
#include "stream_cpu.h"
HG_KERNEL amax_5b71d09e(const hg::bfloat16* HG_RESTRICT x0, hg::bfloat16* HG_RESTRICT y0, const Index begin, const Index end, const Index n_i0) {
  for (Index r0 = begin; r0 < end; ++r0) {
    hg::Lanes<hg::Max<float>, float, 64> a0;
    a0.start(0);
    for (Index part = 0; part < n_i0; part += 4096) {
      const Index stop = n_i0 - part < 4096 ? n_i0 : part + 4096;
      for (Index at = part; at < stop; at += 64) {
        HG_BLOCK
        const Index count = n_i0 - at < 64 ? n_i0 - at : 64;
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i0 = at + j;
          const float v0 = x0[i0];
          a0.add(j, v0, 0);
        }
      }
    }
    const float v1 = a0.fold(0, n_i0);
    y0[0] = v1;
  }
}
HG_KERNEL cast_mul_exp_7b7fa262(const hg::bfloat16* HG_RESTRICT x0, const hg::bfloat16* HG_RESTRICT x1, hg::bfloat16* HG_RESTRICT y0, float* HG_RESTRICT y1, hg::bfloat16* HG_RESTRICT y2, const Index begin, const Index end, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 12) && hg::aligned(y0 + begin) && hg::aligned(y1 + begin) && hg::aligned(y2 + begin);
  for (Index at = begin; at < end - 63; at += 64) {
    alignas(64) hg::bfloat16 o0[64];
    alignas(64) float o1[64];
    alignas(64) hg::bfloat16 o2[64];
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
      const float v6 = hg::round_half(v0);
      const float v7 = v6 * 0.5f;
      const float v8 = hg::round_bfloat16(v7);
      o0[j] = v3;
      o1[j] = v5;
      o2[j] = v8;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
    hg::store_block<64>(y1 + at, o1, nontemporal);
    hg::store_block<64>(y2 + at, o2, nontemporal);
  }
  HG_SIMD
  for (Index i0 = end - (end - begin) % 64; i0 < end; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 * v1;
    const float v3 = v2 + 1.0f;
    const float v4 = hg::exp(v0);
    const float v5 = (float)v4;
    const float v6 = hg::round_half(v0);
    const float v7 = v6 * 0.5f;
    const float v8 = hg::round_bfloat16(v7);
    y0[i0] = v3;
    y1[i0] = v5;
    y2[i0] = v8;
  }
  if (nontemporal) hg::streaming_fence();
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "half.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL sum_copy_f13caa07(const hg::bfloat16* HG_RESTRICT x0, hg::bfloat16* HG_RESTRICT y0, const Index begin, const Index end, const Index n_i0) {
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
HG_KERNEL amax_5b71d09e(const hg::bfloat16* HG_RESTRICT x0, hg::bfloat16* HG_RESTRICT y0, const Index begin, const Index end, const Index n_i0);
HG_KERNEL cast_mul_exp_7b7fa262(const hg::bfloat16* HG_RESTRICT x0, const hg::bfloat16* HG_RESTRICT x1, hg::bfloat16* HG_RESTRICT y0, float* HG_RESTRICT y1, hg::bfloat16* HG_RESTRICT y2, const Index begin, const Index end, const Index turns);
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0, char* output1, char* output2, char* output3, char* output4) {
  hg::in_chunks(e[0], e[2], [&](const Index begin, const Index end) { cast_mul_exp_7b7fa262((hg::bfloat16*)input0, (hg::bfloat16*)input1, (hg::bfloat16*)output0, (float*)output1, (hg::bfloat16*)output3, begin, end, e[1]); });
  amax_5b71d09e((hg::bfloat16*)input1, (hg::bfloat16*)output4, 0, e[3], e[4]);
  sum_copy_f13caa07((hg::bfloat16*)input0, (hg::bfloat16*)output2, 0, e[5], e[6]);
}

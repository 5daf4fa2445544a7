// graph softmax_long (x0: f32[3,2000]) -> (%9)
//   %1 = amax(x0) axes=(1,)  f32[3]
//   %2 = reshape(%1) shape=(3, 1)  f32[3,1]
//   %3 = broadcast(%2) shape=(3, 2000)  f32[3,2000]
//   %4 = sub(x0, %3)  f32[3,2000]
//   %5 = exp(%4)  f32[3,2000]
//   %6 = sum(%5) axes=(1,)  f32[3]
//   %7 = reshape(%6) shape=(3, 1)  f32[3,1]
//   %8 = broadcast(%7) shape=(3, 2000)  f32[3,2000]
//   %9 = div(%5, %8)  f32[3,2000]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_exp.h"
#include "reduce.h"
#include "stream_cpu.h"
HG_KERNEL amax_sub_div_9be54150(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index turns) {
  float k0[2000] __attribute__((aligned(64)));
  const bool nontemporal = hg::exceeds_caches(turns * 16000) && hg::aligned(y0);
  for (Index i0 = begin; i0 < end; ++i0) {
    hg::Lanes<hg::Max<float>, float, 80> a0;
    a0.start(0);
    for (Index at = 0; at < 2000; at += 80) {
      HG_BLOCK
      const Index count = 80;
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v0 = x0[i0 * 2000 + i1];
        a0.add(j, v0, 0);
      }
    }
    const float v1 = a0.fold(0);
    hg::Lanes<hg::Sum<float>, float, 80> a1;
    a1.start(0);
    for (Index at = 0; at < 2000; at += 80) {
      HG_BLOCK
      const Index count = 80;
      hg::prefetch_elements<true>(x0 + (i0 * 2000 + at + 2000), count);
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v0 = x0[i0 * 2000 + i1];
        const float v2 = v0 - v1;
        const float v3 = hg::exp_not_above_0(v2);
        k0[i1] = v3;
        a1.add(j, v3, 0);
      }
    }
    const float v4 = a1.fold(0);
    for (Index at = 0; at < 2000; at += 80) {
      HG_BLOCK
      const Index count = 80;
      alignas(64) float o0[80];
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v3 = k0[i1];
        const float v5 = v3 / v4;
        o0[j] = v5;
      }
      hg::store_block<80>(y0 + (i0 * 2000 + at), o0, nontemporal);
    }
  }
  if (nontemporal) hg::streaming_fence();
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  amax_sub_div_9be54150((float*)input0, (float*)output0, 0, e[0], e[1]);
}

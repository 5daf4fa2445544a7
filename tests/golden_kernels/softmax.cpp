// graph softmax (x0: f32[30,40]) -> (%9)
//   %1 = amax(x0) axes=(1,)  f32[30]
//   %2 = reshape(%1) shape=(30, 1)  f32[30,1]
//   %3 = broadcast(%2) shape=(30, 40)  f32[30,40]
//   %4 = sub(x0, %3)  f32[30,40]
//   %5 = exp(%4)  f32[30,40]
//   %6 = sum(%5) axes=(1,)  f32[30]
//   %7 = reshape(%6) shape=(30, 1)  f32[30,1]
//   %8 = broadcast(%7) shape=(30, 40)  f32[30,40]
//   %9 = div(%5, %8)  f32[30,40]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_exp.h"
#include "reduce.h"
#include "chunks_cpu.h"
#include "tile_cpu.h"
HG_KERNEL amax_sub_div_d27593e4(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index at_stride0, const Index n_i1) {
  float t0[4096] __attribute__((aligned(64)));
  if (end - begin < 64) hg::clear(t0, n_i1 * 64);
  for (Index at = begin; at < end; at += 64) {
    const Index count = end - at < 64 ? end - at : 64;
    hg::transpose(x0 + (at * at_stride0), n_i1, t0, 64, count, n_i1);
    float o0[4096] __attribute__((aligned(64)));
    float r_v1[64] __attribute__((aligned(64)));
    float r_v4[64] __attribute__((aligned(64)));
    hg::Lanes<hg::Max<float>, float, 64> a0;
    a0.start(0);
    for (Index i1 = 0; i1 < n_i1; ++i1) {
      HG_SIMD
      for (Index j = 0; j < 64; ++j) {
        const float v0 = t0[(i1) * 64 + j];
        a0.add(j, v0, 0);
      }
    }
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      r_v1[j] = a0.result(j);
    }
    hg::Lanes<hg::Sum<float>, float, 64> a1;
    a1.start(0);
    for (Index i1 = 0; i1 < n_i1; ++i1) {
      HG_BLOCK
      HG_SIMD
      for (Index j = 0; j < 64; ++j) {
        const float v1 = r_v1[j];
        const float v0 = t0[(i1) * 64 + j];
        const float v2 = v0 - v1;
        const float v3 = hg::exp_not_above_0(v2);
        o0[(i1) * 64 + j] = v3;
        a1.add(j, v3, 0);
      }
    }
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      r_v4[j] = a1.result(j);
    }
    for (Index i1 = 0; i1 < n_i1; ++i1) {
      HG_SIMD
      for (Index j = 0; j < 64; ++j) {
        const float v4 = r_v4[j];
        const float v3 = o0[(i1) * 64 + j];
        const float v5 = v3 / v4;
        o0[(i1) * 64 + j] = v5;
      }
    }
    hg::transpose(o0, 64, y0 + (at * at_stride0), n_i1, n_i1, count);
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  hg::in_chunks(e[0], e[3], [&](const Index begin, const Index end) { amax_sub_div_d27593e4((float*)input0, (float*)output0, begin, end, e[1], e[2]); });
}

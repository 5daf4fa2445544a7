// graph cross_entropy (x0: f32[12,16], x1: i32[12]) -> (%17)
//   %2 = amax(x0) axes=(1,)  f32[12]
//   %3 = reshape(%2) shape=(12, 1)  f32[12,1]
//   %4 = broadcast(%3) shape=(12, 16)  f32[12,16]
//   %5 = sub(x0, %4)  f32[12,16]
//   %6 = exp(%5)  f32[12,16]
//   %7 = sum(%6) axes=(1,)  f32[12]
//   %8 = reshape(%7) shape=(12, 1)  f32[12,1]
//   %9 = log(%8)  f32[12,1]
//   %10 = broadcast(%9) shape=(12, 16)  f32[12,16]
//   %11 = sub(%5, %10)  f32[12,16]
//   %12 = min(x1, 15)  i32[12]
//   %13 = max(%12, 0)  i32[12]
//   %14 = reshape(%13) shape=(12, 1)  i32[12,1]
//   %15 = take_along(%11, %14) axis=1  f32[12,1]
//   %16 = reshape(%15) shape=(12,)  f32[12]
//   %17 = neg(%16)  f32[12]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "math_cpu_exp.h"
#include "math_cpu_log.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL amax_sub_neg_69a7b8ea(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  float t0[1024] __attribute__((aligned(64)));
  if (end - begin < 64) hg::clear(t0, 16 * 64);
  for (Index at = begin; at < end; at += 64) {
    const Index count = end - at < 64 ? end - at : 64;
    hg::tile_in<16, 64>(t0, x1 + (at * 16), count);
    float r_v5[64] __attribute__((aligned(64)));
    float r_v3[64] __attribute__((aligned(64)));
    float r_v9[64] __attribute__((aligned(64)));
    float r_v6[64] __attribute__((aligned(64)));
    hg::Lanes<hg::Max<float>, float, 64> a0;
    a0.start(0);
    HG_SIMD
    for (Index j = 0; j < count; ++j) {
      const Index i0 = at + j;
      const int v0 = x0[i0];
      const int v1 = hg::minimum(v0, 15);
      const int v2 = hg::maximum(v1, 0);
      const float v3 = x1[i0 * 16 + (Index)v2];
      r_v3[j] = v3;
    }
    for (Index i1 = 0; i1 < 16; ++i1) {
      HG_SIMD
      for (Index j = 0; j < 64; ++j) {
        const float v4 = t0[(i1) * 64 + j];
        a0.add(j, v4, 0);
      }
    }
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      r_v5[j] = a0.result(j);
    }
    hg::Lanes<hg::Sum<float>, float, 64> a1;
    a1.start(0);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const float v5 = r_v5[j];
      const float v3 = r_v3[j];
      const float v6 = v3 - v5;
      r_v6[j] = v6;
    }
    for (Index i1 = 0; i1 < 16; ++i1) {
      HG_BLOCK
      HG_SIMD
      for (Index j = 0; j < 64; ++j) {
        const float v5 = r_v5[j];
        const float v4 = t0[(i1) * 64 + j];
        const float v7 = v4 - v5;
        const float v8 = hg::exp_not_above_0(v7);
        a1.add(j, v8, 0);
      }
    }
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      r_v9[j] = a1.result(j);
    }
    HG_SIMD
    for (Index j = 0; j < count; ++j) {
      const Index i0 = at + j;
      const float v9 = r_v9[j];
      const float v6 = r_v6[j];
      const float v10 = hg::log(v9);
      const float v11 = v6 - v10;
      const float v12 = -v11;
      y0[i0] = v12;
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { amax_sub_neg_69a7b8ea((int*)input1, (float*)input0, (float*)output0, begin, end); });
}

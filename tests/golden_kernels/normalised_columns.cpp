// graph normalised_columns (x0: f32[3,5,40]) -> (%13, %15)
//   %1 = sum(x0) axes=(1,)  f32[3,40]
//   %2 = reshape(%1) shape=(3, 1, 40)  f32[3,1,40]
//   %3 = mul(%2, 0.2)  f32[3,1,40]
//   %4 = broadcast(%3) shape=(3, 5, 40)  f32[3,5,40]
//   %5 = sub(x0, %4)  f32[3,5,40]
//   %6 = mul(%5, %5)  f32[3,5,40]
//   %7 = sum(%6) axes=(1,)  f32[3,40]
//   %8 = reshape(%7) shape=(3, 1, 40)  f32[3,1,40]
//   %9 = mul(%8, 0.2)  f32[3,1,40]
//   %10 = add(%9, 1e-05)  f32[3,1,40]
//   %11 = rsqrt(%10)  f32[3,1,40]
//   %12 = broadcast(%11) shape=(3, 5, 40)  f32[3,5,40]
//   %13 = mul(%5, %12)  f32[3,5,40]
//   %14 = add(%9, 1.0)  f32[3,1,40]
//   %15 = log(%14)  f32[3,1,40]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "math_cpu_log.h"
#include "reduce.h"
HG_KERNEL sum_mul_log_26b3d760(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, float* HG_RESTRICT y1, const Index begin, const Index end, const Index reciprocal0) {
  const float reciprocal0_ = hg::FloatArgument<float>::from_bits(reciprocal0);
  for (Index i0 = begin; i0 < end; ++i0) {
    for (Index at = 0; at < 40; at += 40) {
      const Index count = 40;
      float r_v1[40] __attribute__((aligned(64)));
      float r_v2[40] __attribute__((aligned(64)));
      float r_v5[40] __attribute__((aligned(64)));
      float r_v8[40] __attribute__((aligned(64)));
      float r_v10[40] __attribute__((aligned(64)));
      float r_v11[40] __attribute__((aligned(64)));
      hg::Lanes<hg::Sum<float>, float, 40> a0;
      a0.start(0);
      for (Index i2 = 0; i2 < 5; ++i2) {
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i1 = at + j;
          const float v0 = x0[i0 * 200 + i2 * 40 + i1];
          a0.add(j, v0, 0);
        }
      }
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        r_v1[j] = a0.result(j);
      }
      hg::Lanes<hg::Sum<float>, float, 40> a1;
      a1.start(0);
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const float v1 = r_v1[j];
        const float v2 = v1 * reciprocal0_;
        r_v2[j] = v2;
      }
      for (Index i2 = 0; i2 < 5; ++i2) {
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i1 = at + j;
          const float v2 = r_v2[j];
          const float v0 = x0[i0 * 200 + i2 * 40 + i1];
          const float v3 = v0 - v2;
          const float v4 = v3 * v3;
          a1.add(j, v4, 0);
        }
      }
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        r_v5[j] = a1.result(j);
      }
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const float v5 = r_v5[j];
        const float v6 = v5 * reciprocal0_;
        const float v7 = v6 + 1e-05f;
        const float v8 = hg::rsqrt(v7);
        const float v10 = v6 + 1.0f;
        const float v11 = hg::log(v10);
        r_v8[j] = v8;
        r_v10[j] = v10;
        r_v11[j] = v11;
      }
      for (Index i2 = 0; i2 < 5; ++i2) {
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i1 = at + j;
          const float v2 = r_v2[j];
          const float v8 = r_v8[j];
          const float v0 = x0[i0 * 200 + i2 * 40 + i1];
          const float v3 = v0 - v2;
          const float v9 = v3 * v8;
          y0[i0 * 200 + i2 * 40 + i1] = v9;
        }
      }
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v10 = r_v10[j];
        const float v11 = r_v11[j];
        y1[i0 * 40 + i1] = v11;
      }
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0, char* output1) {
  sum_mul_log_26b3d760((float*)input0, (float*)output0, (float*)output1, 0, e[0], e[1]);
}

// graph chain (x0: f32[1000]) -> (%13)
//   %1 = mul(x0, 1.1)  f32[1000]
//   %2 = add(%1, 0.2)  f32[1000]
//   %3 = tanh(%2)  f32[1000]
//   %4 = sigmoid(x0)  f32[1000]
//   %5 = mul(%3, %4)  f32[1000]
//   %6 = sub(x0, 0.3)  f32[1000]
//   %7 = max(%6, 0.0)  f32[1000]
//   %8 = mul(%7, 0.5)  f32[1000]
//   %9 = add(%5, %8)  f32[1000]
//   %10 = mul(x0, x0)  f32[1000]
//   %11 = neg(%10)  f32[1000]
//   %12 = exp(%11)  f32[1000]
//   %13 = sub(%9, %12)  f32[1000]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "math_cpu_exp.h"
#include "chunks_cpu.h"
HG_KERNEL mul_add_exp_d8312167(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  HG_SIMD
  for (Index i0 = begin; i0 < end; ++i0) {
    const float v0 = x0[i0];
    const float v1 = v0 * 1.1f;
    const float v2 = v1 + 0.2f;
    const float v3 = hg::tanh(v2);
    const float v4 = hg::sigmoid(v0);
    const float v5 = v3 * v4;
    const float v6 = v0 - 0.3f;
    const float v7 = hg::maximum(v6, 0.0f);
    const float v8 = v7 * 0.5f;
    const float v9 = v5 + v8;
    const float v10 = v0 * v0;
    const float v11 = -v10;
    const float v12 = hg::exp(v11);
    const float v13 = v9 - v12;
    y0[i0] = v13;
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { mul_add_exp_d8312167((float*)input0, (float*)output0, begin, end); });
}

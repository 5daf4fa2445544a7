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
#include "cpu.h"
#include "math.h"
#include "reduce.h"
HG_KERNEL amax_sub_neg_eafc7475(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const int v0 = x0[i0];
    const int v1 = hg::minimum(v0, 15);
    const int v2 = hg::maximum(v1, 0);
    const float v3 = x1[i0 * 16 + (Index)v2];
    hg::Max<float>::State a0 = hg::Max<float>::start();
    for (Index at = 0; at < 16; at += 16) {
      const Index count = 16;
      float t_a0[16] __attribute__((aligned(64)));
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v4 = x1[i0 * 16 + i1];
        t_a0[j] = v4;
      }
      a0 = hg::fold<hg::Max<float>>(a0, t_a0, count, 0, 0);
    }
    const float v5 = hg::Max<float>::result(a0);
    const float v6 = v3 - v5;
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    for (Index at = 0; at < 16; at += 16) {
      const Index count = 16;
      float t_a1[16] __attribute__((aligned(64)));
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v4 = x1[i0 * 16 + i1];
        const float v7 = v4 - v5;
        const float v8 = hg::exp(v7);
        t_a1[j] = v8;
      }
      a1 = hg::fold<hg::Sum<float>>(a1, t_a1, count, 0, 0);
    }
    const float v9 = hg::Sum<float>::result(a1);
    const float v10 = hg::log(v9);
    const float v11 = v6 - v10;
    const float v12 = -v11;
    y0[i0] = v12;
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  amax_sub_neg_eafc7475((int*)input1, (float*)input0, (float*)output0, 0, e[0]);
}

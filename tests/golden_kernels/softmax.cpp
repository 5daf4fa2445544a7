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
#include "cpu.h"
#include "math.h"
#include "reduce.h"
HG_KERNEL amax_sub_div_7b8f007c(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  float k0[40] __attribute__((aligned(64)));
  for (Index i0 = begin; i0 < end; ++i0) {
    hg::Max<float>::State a0 = hg::Max<float>::start();
    for (Index at = 0; at < 40; at += 40) {
      const Index count = 40;
      float t_a0[40] __attribute__((aligned(64)));
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v0 = x0[i0 * 40 + i1];
        t_a0[j] = v0;
      }
      a0 = hg::fold<hg::Max<float>>(a0, t_a0, count, 0, 0);
    }
    const float v1 = hg::Max<float>::result(a0);
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    for (Index at = 0; at < 40; at += 40) {
      const Index count = 40;
      float t_a1[40] __attribute__((aligned(64)));
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v0 = x0[i0 * 40 + i1];
        const float v2 = v0 - v1;
        const float v3 = hg::exp(v2);
        k0[i1] = v3;
        t_a1[j] = v3;
      }
      a1 = hg::fold<hg::Sum<float>>(a1, t_a1, count, 0, 0);
    }
    const float v4 = hg::Sum<float>::result(a1);
    for (Index at = 0; at < 40; at += 40) {
      const Index count = 40;
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v3 = k0[i1];
        const float v5 = v3 / v4;
        y0[i0 * 40 + i1] = v5;
      }
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  amax_sub_div_7b8f007c((float*)input0, (float*)output0, 0, e[0]);
}

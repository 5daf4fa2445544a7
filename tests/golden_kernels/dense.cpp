// graph dense (x0: f32[3,512], x1: f32[256,512], x2: f32[256]) -> (%9)
//   %3 = transpose(x1) perm=(1, 0)  f32[512,256]
//   %4 = dot(x0, %3)  f32[3,256]
//   %5 = mul(%4, 0.05)  f32[3,256]
//   %6 = reshape(x2) shape=(1, 256)  f32[1,256]
//   %7 = broadcast(%6) shape=(3, 256)  f32[3,256]
//   %8 = add(%5, %7)  f32[3,256]
//   %9 = max(%8, 0.0)  f32[3,256]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "matmul_cpu.h"
HG_KERNEL dot_mul_max_a49c4b5d(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index begin, const Index end) {
  hg::matmul_dots<false, 256, 512, 512, 1, 1, 512>(
      x1, x2, begin, end,
      [&](const Index i0, const Index i1, const float v0) __attribute__((always_inline)) {
        const float v1 = v0 * 0.05f;
        const float v2 = x0[i1];
        const float v3 = v1 + v2;
        const float v4 = hg::maximum(v3, 0.0f);
        y0[i0 * 256 + i1] = v4;
      });
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* output0) {
  dot_mul_max_a49c4b5d((float*)input2, (float*)input0, (float*)input1, (float*)output0, 0, e[0]);
}

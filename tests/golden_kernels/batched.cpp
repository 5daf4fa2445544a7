// graph batched (x0: f32[2,3,4,5], x1: f32[2,3,5,6]) -> (%4)
//   %2 = dot(x0, x1)  f32[2,3,4,6]
//   %3 = transpose(%2) perm=(0, 2, 1, 3)  f32[2,4,3,6]
//   %4 = mul(%3, 2.0)  f32[2,4,3,6]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "matmul_cpu.h"
HG_KERNEL dot_mul_43179930(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i1 = begin; i1 < end; ++i1) {
    for (Index i0 = 0; i0 < 2; ++i0) {
      hg::matmul_axpy<false, 6, 5, 5, 1, 6, 1>(
          x0 + (i0 * 60 + i1 * 20), x1 + (i0 * 90 + i1 * 30), 0, 4,
          [&](const Index i2, const Index i3, const float v0) __attribute__((always_inline)) {
            const float v1 = v0 * 2.0f;
            y0[i0 * 72 + i2 * 18 + i1 * 6 + i3] = v1;
          });
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  dot_mul_43179930((float*)input0, (float*)input1, (float*)output0, 0, e[0]);
}

// graph dense_with_prologue (x0: f32[7,70], x1: f32[70], x2: f16[24,70], x3: f32[24]) -> (%13)
//   %4 = reshape(x1) shape=(1, 70)  f32[1,70]
//   %5 = broadcast(%4) shape=(7, 70)  f32[7,70]
//   %6 = mul(x0, %5)  f32[7,70]
//   %7 = max(%6, 0.0)  f32[7,70]
//   %8 = cast(x2)  f32[24,70]
//   %9 = transpose(%8) perm=(1, 0)  f32[70,24]
//   %10 = dot(%7, %9)  f32[7,24]
//   %11 = reshape(x3) shape=(1, 24)  f32[1,24]
//   %12 = broadcast(%11) shape=(7, 24)  f32[7,24]
//   %13 = add(%10, %12)  f32[7,24]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "half.h"
#include "math_cpu_basic.h"
#include "matmul_cpu.h"
#include "chunks_cpu.h"
HG_KERNEL mul_max_add_e2fc6b03(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, const hg::half* HG_RESTRICT x3, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index from = begin; from < end; from += 192) {
    const Index to = hg::minimum<Index>(from + 192, end);
    alignas(64) float left[13440];
    for (Index i0 = from; i0 < to; ++i0) {
      float* const row0 = left + (i0 - from) * 70;
      HG_SIMD
      for (Index k = 0; k < 70; ++k) {
        const float v0 = x1[i0 * 70 + k];
        const float v1 = x2[k];
        const float v2 = v0 * v1;
        const float v3 = hg::maximum(v2, 0.0f);
        row0[k] = v3;
      }
    }
    for (Index column = 0; column < 24; column += 24) {
      alignas(64) float right[1680];
      {
        const Index begin = column * 70, end = (column + 24) * 70;
        float* const row0 = right;
        HG_SIMD
        for (Index e = begin; e < end; ++e) {
          const float v0 = x3[e];
          const float v1 = (float)v0;
          row0[e - begin] = v1;
        }
      }
      hg::matmul_dots<false, 24, 70, 70, 1, 1, 70>(
          left, right, 0, to - from,
          [&](const Index r, const Index c, const float v0) __attribute__((always_inline)) {
            const Index i0 = from + r;
            const Index i1 = column + c;
            const float v1 = x0[i1];
            const float v2 = v0 + v1;
            y0[i0 * 24 + i1] = v2;
          });
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* input3, char* output0) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { mul_max_add_e2fc6b03((float*)input3, (float*)input0, (float*)input1, (hg::half*)input2, (float*)output0, begin, end); });
}

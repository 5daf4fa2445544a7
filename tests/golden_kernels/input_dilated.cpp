// graph input_dilated (x0: f32[2,6,5,7], x1: f32[8,3,3,2], x2: f32[8]) -> (%7)
//   %3 = conv(x0, x1) base_dilate=(2, 3) dilate=(1, 2) groups=2 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[2,8,7,17]
//   %4 = reshape(x2) shape=(1, 8, 1, 1)  f32[1,8,1,1]
//   %5 = broadcast(%4) shape=(2, 8, 7, 17)  f32[2,8,7,17]
//   %6 = add(%3, %5)  f32[2,8,7,17]
//   %7 = max(%6, 0.0)  f32[2,8,7,17]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "conv_input_dilated_cpu.h"
namespace conv_add_max_e8b6f19f_ {
struct S {
  static constexpr int G = 2, CG = 3, OG = 4;
  static constexpr int H = 5, W = 7, OH = 7, OW = 17;
  static constexpr int BH = 2, BW = 3, U = 4, V = 6;
  static constexpr int R = 4, TOP = 0, LEFT = 0, RP = 5, WP = 7;
  static constexpr int TAPS = 6;
  static constexpr int first[] = { 0, 2, 4, 4, 5, 6, 6 };
  static constexpr int taps[] = { 0, 7, 1, 8, 7, 8 };
  static constexpr int at[] = { 0, 4, 1, 5, 2, 3 };
};
}  // namespace
HG_KERNEL conv_add_max_e8b6f19f(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index begin, const Index end) {
  hg::conv_input_dilated<conv_add_max_e8b6f19f_::S>(x1, x2, begin, end, [&](const Index i0, const Index i1, const Index i2, const float* line) __attribute__((always_inline)) {
    const float v1 = x0[i1];
    HG_SIMD
    for (Index i3 = 0; i3 < 17; ++i3) {
      const float v0 = line[i3];
      const float v2 = v0 + v1;
      const float v3 = hg::maximum(v2, 0.0f);
      y0[i0 * 952 + i1 * 119 + i2 * 17 + i3] = v3;
    }
  });
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* output0) {
  conv_add_max_e8b6f19f((float*)input2, (float*)input0, (float*)input1, (float*)output0, 0, e[0]);
}

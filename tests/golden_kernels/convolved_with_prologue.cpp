// graph convolved_with_prologue (x0: f32[2,4,12,16], x1: f32[4,1,1], x2: f32[4,1,1], x3: f32[8,4,3,3]) -> (%12)
//   %4 = reshape(x1) shape=(1, 4, 1, 1)  f32[1,4,1,1]
//   %5 = broadcast(%4) shape=(2, 4, 12, 16)  f32[2,4,12,16]
//   %6 = mul(x0, %5)  f32[2,4,12,16]
//   %7 = reshape(x2) shape=(1, 4, 1, 1)  f32[1,4,1,1]
//   %8 = broadcast(%7) shape=(2, 4, 12, 16)  f32[2,4,12,16]
//   %9 = add(%6, %8)  f32[2,4,12,16]
//   %10 = max(%9, 0.0)  f32[2,4,12,16]
//   %11 = conv(%10, x3) base_dilate=(1, 1) dilate=(1, 1) groups=1 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[2,8,10,14]
//   %12 = mul(%11, 0.5)  f32[2,8,10,14]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "conv_cpu.h"
namespace mul_add_conv_f58c8529_ {
struct S {
  static constexpr int G = 1, CG = 4, OG = 8;
  static constexpr int D = 1, H = 12, W = 16;
  static constexpr int OD = 1, OH = 10, OW = 14;
  static constexpr int SD = 1, SH = 1, SW = 1;
  static constexpr int BD = 1, BH = 1, BW = 1;
  static constexpr int LD = 0, LH = 0, LW = 0;
  static constexpr int KD = 1, DD = 1;
  static constexpr int R = 10, B = 14, WP = 16, STEP = 1, XC = 192;
  static constexpr int PH = 1, PW = 1, RP = 12, SCRATCH = 832;
  static constexpr int SLICES = 1, BLOCK = 0;
  static constexpr bool FLAT = true, FILL_FLAT = true;
  static constexpr bool DIRECT = false;
  static constexpr int TAPS = 9;
  static constexpr int taps[TAPS] = { 0, 1, 2, 16, 17, 18, 32, 33, 34 };
};
}  // namespace
HG_KERNEL mul_add_conv_f58c8529(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, const float* HG_RESTRICT x3, float* HG_RESTRICT y0, const Index begin, const Index end) {
  const auto image = [&](const Index n, const Index c, const Index d, const Index h, const Index first, const Index count, float* const to) __attribute__((always_inline)) {
    const float v1 = x1[c];
    const float v3 = x2[c];
    HG_SIMD
    for (Index j = 0; j < count; ++j) {
      const Index w = first + j;
      const float v0 = x0[n * 768 + c * 192 + h * 16 + w];
      const float v2 = v0 * v1;
      const float v4 = v2 + v3;
      const float v5 = hg::maximum(v4, 0.0f);
      to[j] = v5;
    }
  };
  hg::conv<mul_add_conv_f58c8529_::S>(image, x3, begin, end, 4, [&](const Index i0, const Index i1, const Index d, const Index i2, const Index first, const float* line) __attribute__((always_inline)) {
    HG_SIMD
    for (Index j = 0; j < 140; ++j) {
      const Index i3 = first + j;
      const float v0 = line[j];
      const float v1 = v0 * 0.5f;
      y0[i0 * 1120 + i1 * 140 + i2 * 14 + i3] = v1;
    }
  });
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* input3, char* output0) {
  mul_add_conv_f58c8529((float*)input0, (float*)input1, (float*)input2, (float*)input3, (float*)output0, 0, e[0]);
}

// graph pooled_and_kept (x0: f32[2,3,10,10], x1: f32[4,3,3,3], x2: f32[4,1,1]) -> (%9, %3)
//   %3 = conv(x0, x1) base_dilate=(1, 1) dilate=(1, 1) groups=1 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[2,4,8,8]
//   %4 = reshape(x2) shape=(1, 4, 1, 1)  f32[1,4,1,1]
//   %5 = broadcast(%4) shape=(2, 4, 8, 8)  f32[2,4,8,8]
//   %6 = add(%3, %5)  f32[2,4,8,8]
//   %7 = max(%6, 0.0)  f32[2,4,8,8]
//   %8 = reshape(%7) shape=(2, 4, 4, 2, 4, 2)  f32[2,4,4,2,4,2]
//   %9 = amax(%8) axes=(3, 5)  f32[2,4,4,4]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "conv_cpu.h"
namespace conv_b6990e78_ {
struct S {
  static constexpr int G = 1, CG = 3, OG = 4;
  static constexpr int D = 1, H = 10, W = 10;
  static constexpr int OD = 1, OH = 8, OW = 8;
  static constexpr int SD = 1, SH = 1, SW = 1;
  static constexpr int BD = 1, BH = 1, BW = 1;
  static constexpr int LD = 0, LH = 0, LW = 0;
  static constexpr int KD = 1, DD = 1;
  static constexpr int R = 8, B = 8, WP = 10, STEP = 1, XC = 100;
  static constexpr int PH = 1, PW = 1, RP = 0, SCRATCH = 0;
  static constexpr int SLICES = 1, BLOCK = 0;
  static constexpr bool FLAT = true, FILL_FLAT = false;
  static constexpr bool DIRECT = true;
  static constexpr int TAPS = 9;
  static constexpr int taps[TAPS] = { 0, 1, 2, 10, 11, 12, 20, 21, 22 };
};
}  // namespace
HG_KERNEL conv_b6990e78(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  hg::conv<conv_b6990e78_::S>(x0, x1, begin, end, 3, [&](const Index i0, const Index i1, const Index d, const Index i2, const Index first, const float* line) __attribute__((always_inline)) {
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i3 = first + j;
      const float v0 = line[j];
      y0[i0 * 256 + i1 * 64 + i2 * 8 + i3] = v0;
    }
  });
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "reduce.h"
HG_KERNEL add_max_amax_0f4901f7(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  float t0[64] __attribute__((aligned(64)));
  for (Index i0 = begin; i0 < end; ++i0) {
    for (Index i1 = 0; i1 < 4; ++i1) {
      for (Index at = 0; at < 16; at += 16) {
        const Index count = 16;
        for (Index i4 = 0; i4 < 2; ++i4)
        for (Index i2 = 0; i2 < 4; ++i2)
        hg::tile_in<2, 16>(t0 + (i4 * 32 + i2 * 4), x0 + (i0 * 256 + i1 * 64 + i2 * 16 + i4 * 8), 4);
        float r_v1[16] __attribute__((aligned(64)));
        float r_v4[16] __attribute__((aligned(64)));
        hg::Lanes<hg::Max<float>, float, 16> a0;
        a0.start(0);
        HG_SIMD
        for (Index j = 0; j < 16; ++j) {
          const float v1 = x1[i1];
          r_v1[j] = v1;
        }
        for (Index i4 = 0; i4 < 2; ++i4) {
          for (Index i5 = 0; i5 < 2; ++i5) {
            HG_SIMD
            for (Index j = 0; j < 16; ++j) {
              const float v1 = r_v1[j];
              const float v0 = t0[(i4 * 2 + i5) * 16 + j];
              const float v2 = v0 + v1;
              const float v3 = hg::maximum(v2, 0.0f);
              a0.add(j, v3, 0);
            }
          }
        }
        HG_SIMD
        for (Index j = 0; j < 16; ++j) {
          r_v4[j] = a0.result(j);
        }
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index lane = at + j;
          const float v4 = r_v4[j];
          y0[i0 * 64 + i1 * 16 + lane] = v4;
        }
      }
    }
  }
}
HG_KERNEL conv_b6990e78(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end);
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* output0, char* output1) {
  conv_b6990e78((float*)input0, (float*)input1, (float*)output1, 0, e[0]);
  add_max_amax_0f4901f7((float*)output1, (float*)input2, (float*)output0, 0, e[1]);
}

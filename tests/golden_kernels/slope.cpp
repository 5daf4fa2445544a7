// graph slope (x0: f32[3,4,9,9], x1: f32[3,8,7,7], x2: f32[8,4,3,3]) -> (%10)
//   %3 = max(x0, 0.0)  f32[3,4,9,9]
//   %4 = mul(x1, 2.0)  f32[3,8,7,7]
//   %5 = transpose(%3) perm=(1, 0, 2, 3)  f32[4,3,9,9]
//   %6 = transpose(%4) perm=(1, 0, 2, 3)  f32[8,3,7,7]
//   %7 = conv(%5, %6) base_dilate=(1, 1) dilate=(1, 1) groups=1 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[4,8,3,3]
//   %8 = transpose(%7) perm=(1, 0, 2, 3)  f32[8,4,3,3]
//   %9 = mul(x2, 0.01)  f32[8,4,3,3]
//   %10 = add(%8, %9)  f32[8,4,3,3]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-dominator-opts")
#endif
#include "cpu.h"
#include "conv_backward_filter_cpu.h"
namespace conv_mul_add_763bcc93_ {
struct S {
  static constexpr int G = 1, MC = 4, SC = 8;
  static constexpr int OD = 1, OH = 7, OW = 7;
  static constexpr int D = 1, H = 9, W = 9;
  static constexpr int KD = 1, KH = 3, KW = 3;
  static constexpr int STEPD = 1, STEPH = 1, STEPW = 1;
  static constexpr int MOVED = 1, MOVEH = 1, MOVEW = 1;
  static constexpr int STARTD = 0, STARTH = 0, STARTW = 0;
  static constexpr long long SN = 392, SG = 0, SS = 49;
  static constexpr long long MN = 324, MG = 0, MM = 81;
  static constexpr int UNITS = 64;
  static constexpr bool DIRECT = true, ACROSS = false;
};
}  // namespace
HG_KERNEL conv_mul_add_763bcc93(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index begin, const Index end, const Index samples) {
  hg::conv_backward_filter<conv_mul_add_763bcc93_::S, float>(x2, x1, begin, end, samples, [&](const Index group, const Index m, const Index s, const Index d, const Index i2, const float* line) __attribute__((always_inline)) {
    const Index i0 = m;
    const Index i1 = group * 8 + s;
    HG_SIMD
    for (Index i3 = 0; i3 < 3; ++i3) {
      const float v0 = line[i3];
      const float v1 = x0[i1 * 36 + i0 * 9 + i2 * 3 + i3];
      const float v2 = v1 * 0.01f;
      const float v3 = v0 + v2;
      y0[i1 * 36 + i0 * 9 + i2 * 3 + i3] = v3;
    }
  });
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "chunks_cpu.h"
#include "stream_cpu.h"
HG_KERNEL max_6c00e408(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 8) && hg::aligned(y0 + begin);
  for (Index at = begin; at < end - 63; at += 64) {
    alignas(64) float o0[64];
    if (nontemporal) hg::prefetch_elements<true>(x0 + (at + 4096), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v0 = x0[i0];
      const float v1 = hg::maximum(v0, 0.0f);
      o0[j] = v1;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
  }
  HG_SIMD
  for (Index i0 = end - (end - begin) % 64; i0 < end; ++i0) {
    const float v0 = x0[i0];
    const float v1 = hg::maximum(v0, 0.0f);
    y0[i0] = v1;
  }
  if (nontemporal) hg::streaming_fence();
}
HG_KERNEL mul_bbf353a9(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 8) && hg::aligned(y0 + begin);
  for (Index at = begin; at < end - 63; at += 64) {
    alignas(64) float o0[64];
    if (nontemporal) hg::prefetch_elements<true>(x0 + (at + 4096), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v0 = x0[i0];
      const float v1 = v0 * 2.0f;
      o0[j] = v1;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
  }
  HG_SIMD
  for (Index i0 = end - (end - begin) % 64; i0 < end; ++i0) {
    const float v0 = x0[i0];
    const float v1 = v0 * 2.0f;
    y0[i0] = v1;
  }
  if (nontemporal) hg::streaming_fence();
}
HG_KERNEL conv_mul_add_763bcc93(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index begin, const Index end, const Index samples);
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* output0) {
  hg::in_chunks(e[1], e[3], [&](const Index begin, const Index end) { max_6c00e408((float*)input0, (float*)(arena + e[0]), begin, end, e[2]); });
  hg::in_chunks(e[5], e[7], [&](const Index begin, const Index end) { mul_bbf353a9((float*)input1, (float*)(arena + e[4]), begin, end, e[6]); });
  hg::in_chunks(e[10], e[12], [&](const Index begin, const Index end) { conv_mul_add_763bcc93((float*)input2, (float*)(arena + e[8]), (float*)(arena + e[9]), (float*)output0, begin, end, e[11]); });
}

// graph disjoint_windows (x0: f32[2,3,8,12], x1: f32[2,3,4,6]) -> (%22)
//   %2 = tanh(x0)  f32[2,3,8,12]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 8, 12)  f32[1,1,2,3,8,12]
//   %4 = broadcast(%3) shape=(2, 2, 2, 3, 8, 12)  f32[2,2,2,3,8,12]
//   %5 = unfold(%4) dilate=(1, 1) extent=(4, 6) stride=(2, 2)  f32[2,2,2,3,4,6]
//   %6 = argmax(%5) axes=(0, 1)  i64[2,3,4,6]
//   %7 = iota() axis=1  i64[2,2,2,3,4,6]
//   %8 = iota() axis=0  i64[2,2,2,3,4,6]
//   %9 = mul(%8, 2)  i64[2,2,2,3,4,6]
//   %10 = add(%7, %9)  i64[2,2,2,3,4,6]
//   %11 = reshape(%6) shape=(1, 1, 2, 3, 4, 6)  i64[1,1,2,3,4,6]
//   %12 = broadcast(%11) shape=(2, 2, 2, 3, 4, 6)  i64[2,2,2,3,4,6]
//   %13 = eq(%10, %12)  bool[2,2,2,3,4,6]
//   %14 = reshape(x1) shape=(1, 1, 2, 3, 4, 6)  f32[1,1,2,3,4,6]
//   %15 = broadcast(%14) shape=(2, 2, 2, 3, 4, 6)  f32[2,2,2,3,4,6]
//   %16 = select(%13, %15, 0.0)  f32[2,2,2,3,4,6]
//   %17 = transpose(%16) perm=(2, 3, 4, 0, 5, 1)  f32[2,3,4,2,6,2]
//   %18 = reshape(%17) shape=(2, 3, 8, 12)  f32[2,3,8,12]
//   %19 = add(%18, 0.0)  f32[2,3,8,12]
//   %20 = mul(%2, %2)  f32[2,3,8,12]
//   %21 = sub(1.0, %20)  f32[2,3,8,12]
//   %22 = mul(%19, %21)  f32[2,3,8,12]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_exp.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL tanh_argmax_sub_4730b95d(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  float t0[64] __attribute__((aligned(64)));
  if (6 - 0 < 16) hg::clear(t0, 4 * 16);
  for (Index i0 = begin; i0 < end; ++i0) {
    for (Index at = 0; at < 6; at += 16) {
      const Index count = 6;
      for (Index i2 = 0; i2 < 2; ++i2)
      hg::tile_in<2, 16>(t0 + (i2 * 32), x0 + (i0 * 24 + i2 * 12 + at * 2), count);
      float o0[64] __attribute__((aligned(64)));
      long long r_v6[16] __attribute__((aligned(64)));
      float r_v8[16] __attribute__((aligned(64)));
      hg::ArgLanes<float, int, true, true, 16> a0;
      a0.start(0);
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v8 = x1[i0 * 6 + i1];
        r_v8[j] = v8;
      }
      for (Index i2 = 0; i2 < 2; ++i2) {
        for (Index i3 = 0; i3 < 2; ++i3) {
          HG_BLOCK
          HG_SIMD
          for (Index j = 0; j < 16; ++j) {
            const float v4 = t0[(i2 * 2 + i3) * 16 + j];
            const float v5 = hg::tanh(v4);
            o0[(i2 * 2 + i3) * 16 + j] = v5;
            a0.add(j, v5, i2 * 2 + i3);
          }
        }
      }
      HG_SIMD
      for (Index j = 0; j < 16; ++j) {
        r_v6[j] = a0.result(j);
      }
      for (Index i2 = 0; i2 < 2; ++i2) {
        for (Index i3 = 0; i3 < 2; ++i3) {
          HG_SIMD
          for (Index j = 0; j < 16; ++j) {
            const long long v6 = r_v6[j];
            const float v8 = r_v8[j];
            const long long v0 = (long long)i3;
            const long long v1 = (long long)i2;
            const long long v2 = hg::times(v1, 2ll);
            const long long v3 = hg::plus(v0, v2);
            const float v5 = o0[(i2 * 2 + i3) * 16 + j];
            const bool v7 = v3 == v6;
            const float v9 = v7 ? v8 : 0.0f;
            const float v10 = v9 + 0.0f;
            const float v11 = v5 * v5;
            const float v12 = 1.0f - v11;
            const float v13 = v10 * v12;
            o0[(i2 * 2 + i3) * 16 + j] = v13;
          }
        }
      }
      for (Index i2 = 0; i2 < 2; ++i2)
      hg::tile_out<2, 16>(y0 + (i0 * 24 + i2 * 12 + at * 2), o0 + (i2 * 32), count);
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { tanh_argmax_sub_4730b95d((float*)input0, (float*)input1, (float*)output0, begin, end); });
}

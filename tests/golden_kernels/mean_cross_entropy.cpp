// graph mean_cross_entropy (x0: f32[70,101], x1: i32[70]) -> (%19)
//   %2 = amax(x0) axes=(1,)  f32[70]
//   %3 = reshape(%2) shape=(70, 1)  f32[70,1]
//   %4 = broadcast(%3) shape=(70, 101)  f32[70,101]
//   %5 = sub(x0, %4)  f32[70,101]
//   %6 = exp(%5)  f32[70,101]
//   %7 = sum(%6) axes=(1,)  f32[70]
//   %8 = reshape(%7) shape=(70, 1)  f32[70,1]
//   %9 = log(%8)  f32[70,1]
//   %10 = broadcast(%9) shape=(70, 101)  f32[70,101]
//   %11 = sub(%5, %10)  f32[70,101]
//   %12 = min(x1, 100)  i32[70]
//   %13 = max(%12, 0)  i32[70]
//   %14 = reshape(%13) shape=(70, 1)  i32[70,1]
//   %15 = take_along(%11, %14) axis=1  f32[70,1]
//   %16 = reshape(%15) shape=(70,)  f32[70]
//   %17 = sum(%16) axes=(0,)  f32[]
//   %18 = mul(%17, 0.014285714)  f32[]
//   %19 = neg(%18)  f32[]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "math_cpu_exp.h"
#include "math_cpu_log.h"
#include "reduce.h"
#include "chunks_cpu.h"
static __attribute__((noinline)) void amax_sub_neg_81c8b9b5_chunk(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end, const Index reciprocal0, const Index n_i1, const Index i0_stride2, const Index group_rows, const Index prefetch_distance0, const Index chunk_rows, hg::Lanes<hg::Sum<float>, float, 64>& total0) {
  const float reciprocal0_ = hg::FloatArgument<float>::from_bits(reciprocal0);
  hg::Lanes<hg::Sum<float>, float, 64> part_total0;
  total0.start(0);
  part_total0.start(0);
  Index taken = 0;
  for (Index chunk = begin; chunk < end; chunk += 64) {
    const Index chunk_end = hg::minimum<Index>(chunk + 64, end);
    float h_v9[64] __attribute__((aligned(64)));
    float h_v6[64] __attribute__((aligned(64)));
    for (Index from = chunk; from < chunk_end; from += group_rows) {
      const Index to = hg::minimum<Index>(from + group_rows, chunk_end);
      float r_v5[4];
      float r_v3[4];
      float r_v9[4];
      float r_v6[4];
      for (Index i0 = from; i0 < to; ++i0) {
        const int v0 = x0[i0];
        const int v1 = hg::minimum(v0, 100);
        const int v2 = hg::maximum(v1, 0);
        const float v3 = x1[i0 * i0_stride2 + (Index)v2];
        r_v3[i0 - from] = v3;
        hg::Lanes<hg::Max<float>, float, 64> a0;
        a0.start(0);
        {
          Index at = 0;
          for (; at <= n_i1 - 64; at += 64) {
            HG_BLOCK
            const Index count = 64;
            HG_SIMD
            for (Index j = 0; j < count; ++j) {
              const Index i1 = at + j;
              const float v4 = x1[i0 * i0_stride2 + i1];
              a0.add(j, v4, 0);
            }
          }
          const Index rest = at;
          for (; at < n_i1; at += 16) {
            HG_SIMD
            for (Index j = 0; j < 16; ++j) if (at + j < n_i1) {
              const Index i1 = at + j;
              const float v4 = x1[i0 * i0_stride2 + i1];
              a0.add(at - rest + j, v4, 0);
            }
          }
        }
        r_v5[i0 - from] = a0.fold(0);
      }
      for (Index i0 = from; i0 < to; ++i0) {
        const float v5 = r_v5[i0 - from];
        const float v3 = r_v3[i0 - from];
        const float v6 = v3 - v5;
        r_v6[i0 - from] = v6;
        hg::Lanes<hg::Sum<float>, float, 64> a1;
        a1.start(0);
        {
          Index at = 0;
          for (; at <= n_i1 - 64; at += 64) {
            HG_BLOCK
            const Index count = 64;
            hg::prefetch_elements<true>(x1 + (i0 * i0_stride2 + at + prefetch_distance0), count);
            HG_SIMD
            for (Index j = 0; j < count; ++j) {
              const Index i1 = at + j;
              const float v4 = x1[i0 * i0_stride2 + i1];
              const float v7 = v4 - v5;
              const float v8 = hg::exp_not_above_0(v7);
              a1.add(j, v8, 0);
            }
          }
          const Index rest = at;
          for (; at < n_i1; at += 16) {
            HG_SIMD
            for (Index j = 0; j < 16; ++j) if (at + j < n_i1) {
              const Index i1 = at + j;
              const float v4 = x1[i0 * i0_stride2 + i1];
              const float v7 = v4 - v5;
              const float v8 = hg::exp_not_above_0(v7);
              a1.add(at - rest + j, v8, 0);
            }
          }
        }
        r_v9[i0 - from] = a1.fold(0);
      }
      for (Index i0 = from; i0 < to; ++i0) {
        const float v9 = r_v9[i0 - from];
        const float v6 = r_v6[i0 - from];
        h_v9[i0 - chunk] = v9;
        h_v6[i0 - chunk] = v6;
      }
    }
    HG_SIMD
    for (Index i0 = chunk; i0 < chunk_end; ++i0) {
      const float v9 = h_v9[i0 - chunk];
      const float v6 = h_v6[i0 - chunk];
      const float v10 = hg::log(v9);
      const float v11 = v6 - v10;
      part_total0.add(i0 - chunk, v11, 0);
    }
    if (++taken % 64 == 0) {
      total0.merge(part_total0);
      part_total0.start(0);
    }
  }
  total0.merge(part_total0);
}
HG_KERNEL amax_sub_neg_81c8b9b5(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end, const Index reciprocal0, const Index n_i1, const Index i0_stride2, const Index group_rows, const Index prefetch_distance0, const Index chunk_rows) {
  const float reciprocal0_ = hg::FloatArgument<float>::from_bits(reciprocal0);
  hg::Lanes<hg::Sum<float>, float, 64> total0_chunks[64];
  hg::in_single_chunks(end, chunk_rows, [&](const Index begin, const Index end) {
    amax_sub_neg_81c8b9b5_chunk(x0, x1, y0, begin, end, reciprocal0, n_i1, i0_stride2, group_rows, prefetch_distance0, chunk_rows, total0_chunks[begin / chunk_rows]);
  });
  for (Index chunk = 1; chunk * chunk_rows < end; ++chunk) {
    total0_chunks[0].merge(total0_chunks[chunk]);
  }
  const float v12 = total0_chunks[0].fold(1);
  const float v13 = v12 * reciprocal0_;
  const float v14 = -v13;
  y0[0] = v14;
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  amax_sub_neg_81c8b9b5((int*)input1, (float*)input0, (float*)output0, 0, e[0], e[1], e[2], e[3], e[4], e[5], e[6]);
}

// graph many_axes (x0: f32[3,4,5,6]) -> (%1, %2, %4, %5)
//   %1 = sum(x0) axes=(0, 2)  f32[4,6]
//   %2 = amax(x0) axes=(1, 3)  f32[3,5]
//   %3 = sum(x0) axes=(0, 1, 2, 3)  f32[]
//   %4 = mul(%3, 0.0027777778)  f32[]
//   %5 = amin(x0) axes=(0, 1, 2)  f32[6]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "reduce.h"
HG_KERNEL sum_f751d44c(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    for (Index at = 0; at < 6; at += 6) {
      const Index count = 6;
      float r_v1[6] __attribute__((aligned(64)));
      hg::Lanes<hg::Sum<float>, float, 6> a0;
      a0.start(0);
      for (Index i2 = 0; i2 < 3; ++i2) {
        for (Index i3 = 0; i3 < 5; ++i3) {
          HG_SIMD
          for (Index j = 0; j < count; ++j) {
            const Index i1 = at + j;
            const float v0 = x0[i2 * 120 + i0 * 30 + i3 * 6 + i1];
            a0.add(j, v0, 0);
          }
        }
      }
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        r_v1[j] = a0.result(j);
      }
      HG_SIMD
      for (Index j = 0; j < count; ++j) {
        const Index i1 = at + j;
        const float v1 = r_v1[j];
        y0[i0 * 6 + i1] = v1;
      }
    }
  }
}
HG_KERNEL sum_mul_f2499f2a(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index reciprocal0, const Index n_i0) {
  const float reciprocal0_ = hg::FloatArgument<float>::from_bits(reciprocal0);
  for (Index r0 = begin; r0 < end; ++r0) {
    hg::Lanes<hg::Sum<float>, float, 64> a0;
    a0.start(0);
    for (Index part = 0; part < n_i0; part += 4096) {
      const Index stop = n_i0 - part < 4096 ? n_i0 : part + 4096;
      hg::Lanes<hg::Sum<float>, float, 64> part_a0;
      part_a0.start(0);
      for (Index at = part; at < stop; at += 64) {
        HG_BLOCK
        const Index count = n_i0 - at < 64 ? n_i0 - at : 64;
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i0 = at + j;
          const float v0 = x0[i0];
          part_a0.add(j, v0, 0);
        }
      }
      a0.merge(part_a0);
    }
    const float v1 = a0.fold(0, n_i0);
    const float v2 = v1 * reciprocal0_;
    y0[0] = v2;
  }
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL amax_01366c91(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index i0_stride0, const Index i0_stride1, const Index i2_stride2, const Index n_i1) {
  for (Index i0 = begin; i0 < end; ++i0) {
    for (Index i1 = 0; i1 < n_i1; ++i1) {
      hg::Lanes<hg::Max<float>, float, 6> a0;
      a0.start(0);
      for (Index i2 = 0; i2 < 4; ++i2)
      for (Index at = 0; at < 6; at += 6) {
        HG_BLOCK
        const Index count = 6;
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i3 = at + j;
          const float v0 = x0[i0 * i0_stride1 + i2 * i2_stride2 + i1 * 6 + i3];
          a0.add(j, v0, 0);
        }
      }
      const float v1 = a0.fold(0);
      y0[i0 * i0_stride0 + i1] = v1;
    }
  }
}
HG_KERNEL amin_6abdf11b(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index n_i1) {
  for (Index at = begin; at < end; at += 64) {
    const Index count = end - at < 64 ? end - at : 64;
    float r_v1[64] __attribute__((aligned(64)));
    hg::Lanes<hg::Min<float>, float, 64> a0;
    a0.start(0);
    for (Index part = 0; part < n_i1; part += 64) {
      const Index stop = n_i1 - part < 64 ? n_i1 : part + 64;
      for (Index i1 = part; i1 < stop; ++i1) {
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i0 = at + j;
          const float v0 = x0[i1 * 6 + i0];
          a0.add(j, v0, 0);
        }
      }
    }
    HG_SIMD
    for (Index j = 0; j < count; ++j) {
      r_v1[j] = a0.result(j);
    }
    HG_SIMD
    for (Index j = 0; j < count; ++j) {
      const Index i0 = at + j;
      const float v1 = r_v1[j];
      y0[i0] = v1;
    }
  }
}
HG_KERNEL sum_f751d44c(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end);
HG_KERNEL sum_mul_f2499f2a(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index reciprocal0, const Index n_i0);
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0, char* output1, char* output2, char* output3) {
  sum_f751d44c((float*)input0, (float*)output0, 0, e[0]);
  amax_01366c91((float*)input0, (float*)output1, 0, e[1], e[2], e[3], e[4], e[5]);
  sum_mul_f2499f2a((float*)input0, (float*)output2, 0, e[6], e[7], e[8]);
  hg::in_chunks(e[9], e[11], [&](const Index begin, const Index end) { amin_6abdf11b((float*)input0, (float*)output3, begin, end, e[10]); });
}

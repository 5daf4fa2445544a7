// graph joined_rows (x0: f32[40,64], x1: f32[7,64], x2: f32[50,64]) -> (%4)
//   %3 = concat(x0, x1, x2) axis=0  f32[97,64]
//   %4 = exp(%3)  f32[97,64]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "math_cpu_exp.h"
#include "chunks_cpu.h"
#include "stream_cpu.h"
HG_KERNEL exp_933938e8(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index begin, const Index end, const Index boundary0, const Index start1, const Index boundary2, const Index start3, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 8) && hg::aligned(y0);
  const Index from = begin;
  const Index to = hg::minimum<Index>(end, boundary0);
  const Index line = hg::minimum<Index>(from + hg::unaligned_prefix(y0 + from, nontemporal), to);
  const Index from1 = hg::maximum<Index>(begin, boundary0);
  const Index to1 = hg::minimum<Index>(end, boundary2);
  const Index line1 = hg::minimum<Index>(from1 + hg::unaligned_prefix(y0 + from1, nontemporal), to1);
  const Index from2 = hg::maximum<Index>(begin, boundary2);
  const Index to2 = end;
  const Index line2 = hg::minimum<Index>(from2 + hg::unaligned_prefix(y0 + from2, nontemporal), to2);
  HG_SIMD
  for (Index i0 = from; i0 < line; ++i0) {
    const float v0 = x0[i0];
    const float v1 = hg::exp(v0);
    y0[i0] = v1;
  }
  for (Index at = line; at < to - 63; at += 64) {
    alignas(64) float o0[64];
    if (nontemporal) hg::prefetch_elements<true>(x0 + (at + 4096), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v0 = x0[i0];
      const float v1 = hg::exp(v0);
      o0[j] = v1;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
  }
  HG_SIMD
  for (Index i0 = to - (to - line) % 64; i0 < to; ++i0) {
    const float v0 = x0[i0];
    const float v1 = hg::exp(v0);
    y0[i0] = v1;
  }
  HG_SIMD
  for (Index i0 = from1; i0 < line1; ++i0) {
    const float v2 = x1[i0 + start1];
    const float v3 = hg::exp(v2);
    y0[i0] = v3;
  }
  for (Index at = line1; at < to1 - 63; at += 64) {
    alignas(64) float o0[64];
    if (nontemporal) hg::prefetch_elements<true>(x1 + (at + start1 + 4096), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v2 = x1[i0 + start1];
      const float v3 = hg::exp(v2);
      o0[j] = v3;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
  }
  HG_SIMD
  for (Index i0 = to1 - (to1 - line1) % 64; i0 < to1; ++i0) {
    const float v2 = x1[i0 + start1];
    const float v3 = hg::exp(v2);
    y0[i0] = v3;
  }
  HG_SIMD
  for (Index i0 = from2; i0 < line2; ++i0) {
    const float v4 = x2[i0 + start3];
    const float v5 = hg::exp(v4);
    y0[i0] = v5;
  }
  for (Index at = line2; at < to2 - 63; at += 64) {
    alignas(64) float o0[64];
    if (nontemporal) hg::prefetch_elements<true>(x2 + (at + start3 + 4096), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v4 = x2[i0 + start3];
      const float v5 = hg::exp(v4);
      o0[j] = v5;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
  }
  HG_SIMD
  for (Index i0 = to2 - (to2 - line2) % 64; i0 < to2; ++i0) {
    const float v4 = x2[i0 + start3];
    const float v5 = hg::exp(v4);
    y0[i0] = v5;
  }
  if (nontemporal) hg::streaming_fence();
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* input2, char* output0) {
  hg::in_chunks(e[0], e[6], [&](const Index begin, const Index end) { exp_933938e8((float*)input0, (float*)input1, (float*)input2, (float*)output0, begin, end, e[1], e[2], e[3], e[4], e[5]); });
}

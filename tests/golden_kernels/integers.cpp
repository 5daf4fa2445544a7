// graph integers (x0: i32[30], x1: i32[30]) -> (%2, %3, %4, %5, %6, %7, %8, %9)
//   %2 = add(x0, x1)  i32[30]
//   %3 = div(x0, x1)  i32[30]
//   %4 = mod(x0, x1)  i32[30]
//   %5 = max(x0, x1)  i32[30]
//   %6 = abs(x0)  i32[30]
//   %7 = sign(x1)  i32[30]
//   %8 = sum(x0) axes=(0,)  i32[]
//   %9 = neg(x0)  i32[30]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL add_div_neg_298cf853(const int* HG_RESTRICT x0, const int* HG_RESTRICT x1, int* HG_RESTRICT y0, int* HG_RESTRICT y1, int* HG_RESTRICT y2, int* HG_RESTRICT y3, int* HG_RESTRICT y4, int* HG_RESTRICT y5, int* HG_RESTRICT y6, const Index begin, const Index end) {
  HG_SIMD
  for (Index i0 = begin; i0 < end; ++i0) {
    const int v0 = x0[i0];
    const int v1 = x1[i0];
    const int v2 = hg::plus(v0, v1);
    const int v3 = hg::idiv(v0, v1);
    const int v4 = hg::mod(v0, v1);
    const int v5 = hg::maximum(v0, v1);
    const int v6 = hg::abs(v0);
    const int v7 = hg::sign(v1);
    const int v8 = hg::negative(v0);
    y0[i0] = v2;
    y1[i0] = v3;
    y2[i0] = v4;
    y3[i0] = v5;
    y4[i0] = v6;
    y5[i0] = v7;
    y6[i0] = v8;
  }
}
HG_KERNEL sum_8de67347(const int* HG_RESTRICT x0, int* HG_RESTRICT y0, const Index begin, const Index end, const Index n_i0) {
  for (Index r0 = begin; r0 < end; ++r0) {
    hg::Lanes<hg::Sum<int>, int, 64> a0;
    a0.start(0);
    for (Index part = 0; part < n_i0; part += 4096) {
      const Index stop = n_i0 - part < 4096 ? n_i0 : part + 4096;
      for (Index at = part; at < stop; at += 64) {
        HG_BLOCK
        const Index count = n_i0 - at < 64 ? n_i0 - at : 64;
        HG_SIMD
        for (Index j = 0; j < count; ++j) {
          const Index i0 = at + j;
          const int v0 = x0[i0];
          a0.add(j, v0, 0);
        }
      }
    }
    const int v1 = a0.fold(0, n_i0);
    y0[0] = v1;
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0, char* output1, char* output2, char* output3, char* output4, char* output5, char* output6, char* output7) {
  hg::in_chunks(e[0], e[1], [&](const Index begin, const Index end) { add_div_neg_298cf853((int*)input0, (int*)input1, (int*)output0, (int*)output1, (int*)output2, (int*)output3, (int*)output4, (int*)output5, (int*)output7, begin, end); });
  sum_8de67347((int*)input0, (int*)output6, 0, e[2], e[3]);
}

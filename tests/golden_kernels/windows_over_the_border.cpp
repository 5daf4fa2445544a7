// graph windows_over_the_border (x0: f32[2,3,12,40]) -> (%10)
//   %1 = mul(x0, 0.5)  f32[2,3,12,40]
//   %2 = pad(%1) high=(0, 0, 1, 1) low=(0, 0, 1, 1) value=0.0  f32[2,3,14,42]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 14, 42)  f32[1,1,2,3,14,42]
//   %4 = broadcast(%3) shape=(3, 3, 2, 3, 14, 42)  f32[3,3,2,3,14,42]
//   %5 = unfold(%4) dilate=(1, 1) extent=(6, 20) stride=(2, 2)  f32[3,3,2,3,6,20]
//   %6 = amax(%5) axes=(0, 1)  f32[2,3,6,20]
//   %7 = max(%6, 0.0)  f32[2,3,6,20]
//   %8 = sum(%5) axes=(0, 1)  f32[2,3,6,20]
//   %9 = mul(%8, 0.125)  f32[2,3,6,20]
//   %10 = sub(%7, %9)  f32[2,3,6,20]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "reduce.h"
#include "chunks_cpu.h"
#include "stream_cpu.h"
HG_KERNEL mul_e179d2f4(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end, const Index turns) {
  const bool nontemporal = hg::exceeds_caches(turns * 8) && hg::aligned(y0 + begin);
  for (Index at = begin; at < end - 63; at += 64) {
    alignas(64) float o0[64];
    if (nontemporal) hg::prefetch_elements<true>(x0 + (at + 4096), 64);
    HG_SIMD
    for (Index j = 0; j < 64; ++j) {
      const Index i0 = at + j;
      const float v0 = x0[i0];
      const float v1 = v0 * 0.5f;
      o0[j] = v1;
    }
    hg::store_block<64>(y0 + at, o0, nontemporal);
  }
  HG_SIMD
  for (Index i0 = end - (end - begin) % 64; i0 < end; ++i0) {
    const float v0 = x0[i0];
    const float v1 = v0 * 0.5f;
    y0[i0] = v1;
  }
  if (nontemporal) hg::streaming_fence();
}
HG_KERNEL amax_max_sub_13db3d17(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const float v0 = x0[i0 * 480];
    const float v1 = x0[i0 * 480 + 1];
    const float v2 = x0[i0 * 480 + 40];
    const float v3 = x0[i0 * 480 + 41];
    const float v4 = hg::Max<float>::merge(0.0f, v0);
    const float v5 = hg::Max<float>::merge(v4, v1);
    const float v6 = hg::Max<float>::merge(v5, v2);
    const float v7 = hg::Max<float>::merge(v6, v3);
    const float v8 = hg::maximum(v7, 0.0f);
    const float v9 = hg::Sum<float>::merge(0.0f, v0);
    const float v10 = hg::Sum<float>::merge(v9, v1);
    const float v11 = hg::Sum<float>::merge(v10, v2);
    const float v12 = hg::Sum<float>::merge(v11, v3);
    const float v13 = v12 * 0.125f;
    const float v14 = v8 - v13;
    y0[i0 * 120] = v14;
    HG_SIMD
    for (Index i2 = 1; i2 < 20; ++i2) {
      const float v15 = x0[i0 * 480 + i2 * 2 - 1];
      const float v16 = x0[i0 * 480 + i2 * 2];
      const float v17 = x0[i0 * 480 + i2 * 2 + 1];
      const float v18 = x0[i0 * 480 + i2 * 2 + 39];
      const float v19 = x0[i0 * 480 + i2 * 2 + 40];
      const float v20 = x0[i0 * 480 + i2 * 2 + 41];
      const float v21 = hg::Max<float>::merge(0.0f, v15);
      const float v22 = hg::Max<float>::merge(v21, v16);
      const float v23 = hg::Max<float>::merge(v22, v17);
      const float v24 = hg::Max<float>::merge(v23, v18);
      const float v25 = hg::Max<float>::merge(v24, v19);
      const float v26 = hg::Max<float>::merge(v25, v20);
      const float v27 = hg::maximum(v26, 0.0f);
      const float v28 = hg::Sum<float>::merge(0.0f, v15);
      const float v29 = hg::Sum<float>::merge(v28, v16);
      const float v30 = hg::Sum<float>::merge(v29, v17);
      const float v31 = hg::Sum<float>::merge(v30, v18);
      const float v32 = hg::Sum<float>::merge(v31, v19);
      const float v33 = hg::Sum<float>::merge(v32, v20);
      const float v34 = v33 * 0.125f;
      const float v35 = v27 - v34;
      y0[i0 * 120 + i2] = v35;
    }
    for (Index i1 = 1; i1 < 6; ++i1) {
      const float v36 = x0[i0 * 480 + i1 * 80 - 40];
      const float v37 = x0[i0 * 480 + i1 * 80 - 39];
      const float v38 = x0[i0 * 480 + i1 * 80];
      const float v39 = x0[i0 * 480 + i1 * 80 + 1];
      const float v40 = x0[i0 * 480 + i1 * 80 + 40];
      const float v41 = x0[i0 * 480 + i1 * 80 + 41];
      const float v42 = hg::Max<float>::merge(0.0f, v36);
      const float v43 = hg::Max<float>::merge(v42, v37);
      const float v44 = hg::Max<float>::merge(v43, v38);
      const float v45 = hg::Max<float>::merge(v44, v39);
      const float v46 = hg::Max<float>::merge(v45, v40);
      const float v47 = hg::Max<float>::merge(v46, v41);
      const float v48 = hg::maximum(v47, 0.0f);
      const float v49 = hg::Sum<float>::merge(0.0f, v36);
      const float v50 = hg::Sum<float>::merge(v49, v37);
      const float v51 = hg::Sum<float>::merge(v50, v38);
      const float v52 = hg::Sum<float>::merge(v51, v39);
      const float v53 = hg::Sum<float>::merge(v52, v40);
      const float v54 = hg::Sum<float>::merge(v53, v41);
      const float v55 = v54 * 0.125f;
      const float v56 = v48 - v55;
      y0[i0 * 120 + i1 * 20] = v56;
      HG_SIMD
      for (Index i2 = 1; i2 < 20; ++i2) {
        const float v57 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 41];
        const float v58 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 40];
        const float v59 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 39];
        const float v60 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 1];
        const float v61 = x0[i0 * 480 + i1 * 80 + i2 * 2];
        const float v62 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 1];
        const float v63 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 39];
        const float v64 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 40];
        const float v65 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 41];
        const float v66 = hg::Max<float>::merge(v57, v58);
        const float v67 = hg::Max<float>::merge(v66, v59);
        const float v68 = hg::Max<float>::merge(v67, v60);
        const float v69 = hg::Max<float>::merge(v68, v61);
        const float v70 = hg::Max<float>::merge(v69, v62);
        const float v71 = hg::Max<float>::merge(v70, v63);
        const float v72 = hg::Max<float>::merge(v71, v64);
        const float v73 = hg::Max<float>::merge(v72, v65);
        const float v74 = hg::maximum(v73, 0.0f);
        const float v75 = hg::Sum<float>::merge(0.0f, v57);
        const float v76 = hg::Sum<float>::merge(v75, v58);
        const float v77 = hg::Sum<float>::merge(v76, v59);
        const float v78 = hg::Sum<float>::merge(v77, v60);
        const float v79 = hg::Sum<float>::merge(v78, v61);
        const float v80 = hg::Sum<float>::merge(v79, v62);
        const float v81 = hg::Sum<float>::merge(v80, v63);
        const float v82 = hg::Sum<float>::merge(v81, v64);
        const float v83 = hg::Sum<float>::merge(v82, v65);
        const float v84 = v83 * 0.125f;
        const float v85 = v74 - v84;
        y0[i0 * 120 + i1 * 20 + i2] = v85;
      }
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  hg::in_chunks(e[1], e[3], [&](const Index begin, const Index end) { mul_e179d2f4((float*)input0, (float*)(arena + e[0]), begin, end, e[2]); });
  hg::in_chunks(e[5], e[6], [&](const Index begin, const Index end) { amax_max_sub_13db3d17((float*)(arena + e[4]), (float*)output0, begin, end); });
}

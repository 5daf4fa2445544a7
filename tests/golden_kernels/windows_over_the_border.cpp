// graph windows_over_the_border (x0: f32[2,3,12,40]) -> (%10)
//   %1 = mul(x0, 0.5)  f32[2,3,12,40]
//   %2 = pad(%1) high=(0, 0, 1, 1) low=(0, 0, 1, 1) value=0.0  f32[2,3,14,42]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 14, 42)  f32[1,1,2,3,14,42]
//   %4 = broadcast(%3) shape=(3, 3, 2, 3, 14, 42)  f32[3,3,2,3,14,42]
//   %5 = windows(%4) dilate=(1, 1) extent=(6, 20) stride=(2, 2)  f32[3,3,2,3,6,20]
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
HG_KERNEL mul_amax_sub_2fec127b(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const float v0 = x0[i0 * 480];
    const float v1 = v0 * 0.5f;
    const float v2 = x0[i0 * 480 + 1];
    const float v3 = v2 * 0.5f;
    const float v4 = x0[i0 * 480 + 40];
    const float v5 = v4 * 0.5f;
    const float v6 = x0[i0 * 480 + 41];
    const float v7 = v6 * 0.5f;
    const float v8 = hg::Max<float>::merge(0.0f, v1);
    const float v9 = hg::Max<float>::merge(v8, v3);
    const float v10 = hg::Max<float>::merge(v9, v5);
    const float v11 = hg::Max<float>::merge(v10, v7);
    const float v12 = hg::maximum(v11, 0.0f);
    const float v13 = hg::Sum<float>::merge(0.0f, v1);
    const float v14 = hg::Sum<float>::merge(v13, v3);
    const float v15 = hg::Sum<float>::merge(v14, v5);
    const float v16 = hg::Sum<float>::merge(v15, v7);
    const float v17 = v16 * 0.125f;
    const float v18 = v12 - v17;
    y0[i0 * 120] = v18;
    HG_SIMD
    for (Index i2 = 1; i2 < 20; ++i2) {
      const float v19 = x0[i0 * 480 + i2 * 2 - 1];
      const float v20 = v19 * 0.5f;
      const float v21 = x0[i0 * 480 + i2 * 2];
      const float v22 = v21 * 0.5f;
      const float v23 = x0[i0 * 480 + i2 * 2 + 1];
      const float v24 = v23 * 0.5f;
      const float v25 = x0[i0 * 480 + i2 * 2 + 39];
      const float v26 = v25 * 0.5f;
      const float v27 = x0[i0 * 480 + i2 * 2 + 40];
      const float v28 = v27 * 0.5f;
      const float v29 = x0[i0 * 480 + i2 * 2 + 41];
      const float v30 = v29 * 0.5f;
      const float v31 = hg::Max<float>::merge(0.0f, v20);
      const float v32 = hg::Max<float>::merge(v31, v22);
      const float v33 = hg::Max<float>::merge(v32, v24);
      const float v34 = hg::Max<float>::merge(v33, v26);
      const float v35 = hg::Max<float>::merge(v34, v28);
      const float v36 = hg::Max<float>::merge(v35, v30);
      const float v37 = hg::maximum(v36, 0.0f);
      const float v38 = hg::Sum<float>::merge(0.0f, v20);
      const float v39 = hg::Sum<float>::merge(v38, v22);
      const float v40 = hg::Sum<float>::merge(v39, v24);
      const float v41 = hg::Sum<float>::merge(v40, v26);
      const float v42 = hg::Sum<float>::merge(v41, v28);
      const float v43 = hg::Sum<float>::merge(v42, v30);
      const float v44 = v43 * 0.125f;
      const float v45 = v37 - v44;
      y0[i0 * 120 + i2] = v45;
    }
    for (Index i1 = 1; i1 < 6; ++i1) {
      const float v46 = x0[i0 * 480 + i1 * 80 - 40];
      const float v47 = v46 * 0.5f;
      const float v48 = x0[i0 * 480 + i1 * 80 - 39];
      const float v49 = v48 * 0.5f;
      const float v50 = x0[i0 * 480 + i1 * 80];
      const float v51 = v50 * 0.5f;
      const float v52 = x0[i0 * 480 + i1 * 80 + 1];
      const float v53 = v52 * 0.5f;
      const float v54 = x0[i0 * 480 + i1 * 80 + 40];
      const float v55 = v54 * 0.5f;
      const float v56 = x0[i0 * 480 + i1 * 80 + 41];
      const float v57 = v56 * 0.5f;
      const float v58 = hg::Max<float>::merge(0.0f, v47);
      const float v59 = hg::Max<float>::merge(v58, v49);
      const float v60 = hg::Max<float>::merge(v59, v51);
      const float v61 = hg::Max<float>::merge(v60, v53);
      const float v62 = hg::Max<float>::merge(v61, v55);
      const float v63 = hg::Max<float>::merge(v62, v57);
      const float v64 = hg::maximum(v63, 0.0f);
      const float v65 = hg::Sum<float>::merge(0.0f, v47);
      const float v66 = hg::Sum<float>::merge(v65, v49);
      const float v67 = hg::Sum<float>::merge(v66, v51);
      const float v68 = hg::Sum<float>::merge(v67, v53);
      const float v69 = hg::Sum<float>::merge(v68, v55);
      const float v70 = hg::Sum<float>::merge(v69, v57);
      const float v71 = v70 * 0.125f;
      const float v72 = v64 - v71;
      y0[i0 * 120 + i1 * 20] = v72;
      HG_SIMD
      for (Index i2 = 1; i2 < 20; ++i2) {
        const float v73 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 41];
        const float v74 = v73 * 0.5f;
        const float v75 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 40];
        const float v76 = v75 * 0.5f;
        const float v77 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 39];
        const float v78 = v77 * 0.5f;
        const float v79 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 1];
        const float v80 = v79 * 0.5f;
        const float v81 = x0[i0 * 480 + i1 * 80 + i2 * 2];
        const float v82 = v81 * 0.5f;
        const float v83 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 1];
        const float v84 = v83 * 0.5f;
        const float v85 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 39];
        const float v86 = v85 * 0.5f;
        const float v87 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 40];
        const float v88 = v87 * 0.5f;
        const float v89 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 41];
        const float v90 = v89 * 0.5f;
        const float v91 = hg::Max<float>::merge(v74, v76);
        const float v92 = hg::Max<float>::merge(v91, v78);
        const float v93 = hg::Max<float>::merge(v92, v80);
        const float v94 = hg::Max<float>::merge(v93, v82);
        const float v95 = hg::Max<float>::merge(v94, v84);
        const float v96 = hg::Max<float>::merge(v95, v86);
        const float v97 = hg::Max<float>::merge(v96, v88);
        const float v98 = hg::Max<float>::merge(v97, v90);
        const float v99 = hg::maximum(v98, 0.0f);
        const float v100 = hg::Sum<float>::merge(0.0f, v74);
        const float v101 = hg::Sum<float>::merge(v100, v76);
        const float v102 = hg::Sum<float>::merge(v101, v78);
        const float v103 = hg::Sum<float>::merge(v102, v80);
        const float v104 = hg::Sum<float>::merge(v103, v82);
        const float v105 = hg::Sum<float>::merge(v104, v84);
        const float v106 = hg::Sum<float>::merge(v105, v86);
        const float v107 = hg::Sum<float>::merge(v106, v88);
        const float v108 = hg::Sum<float>::merge(v107, v90);
        const float v109 = v108 * 0.125f;
        const float v110 = v99 - v109;
        y0[i0 * 120 + i1 * 20 + i2] = v110;
      }
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* output0) {
  mul_amax_sub_2fec127b((float*)input0, (float*)output0, 0, e[0]);
}

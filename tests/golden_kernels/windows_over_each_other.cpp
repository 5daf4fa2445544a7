// graph windows_over_each_other (x0: f32[2,3,12,40], x1: f32[2,3,6,20]) -> (%53)
//   %2 = pad(x0) high=(0, 0, 1, 1) low=(0, 0, 1, 1) value=-1.0  f32[2,3,14,42]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 14, 42)  f32[1,1,2,3,14,42]
//   %4 = broadcast(%3) shape=(3, 3, 2, 3, 14, 42)  f32[3,3,2,3,14,42]
//   %5 = unfold(%4) dilate=(1, 1) extent=(6, 20) stride=(2, 2)  f32[3,3,2,3,6,20]
//   %6 = argmax(%5) axes=(0, 1)  i64[2,3,6,20]
//   %7 = eq(0, %6) always_recompute=True  bool[2,3,6,20]
//   %8 = select(%7, x1, 0.0)  f32[2,3,6,20]
//   %9 = eq(2, %6) always_recompute=True  bool[2,3,6,20]
//   %10 = select(%9, x1, 0.0)  f32[2,3,6,20]
//   %11 = eq(6, %6) always_recompute=True  bool[2,3,6,20]
//   %12 = select(%11, x1, 0.0)  f32[2,3,6,20]
//   %13 = eq(8, %6) always_recompute=True  bool[2,3,6,20]
//   %14 = select(%13, x1, 0.0)  f32[2,3,6,20]
//   %15 = eq(1, %6) always_recompute=True  bool[2,3,6,20]
//   %16 = select(%15, x1, 0.0)  f32[2,3,6,20]
//   %17 = eq(7, %6) always_recompute=True  bool[2,3,6,20]
//   %18 = select(%17, x1, 0.0)  f32[2,3,6,20]
//   %19 = eq(3, %6) always_recompute=True  bool[2,3,6,20]
//   %20 = select(%19, x1, 0.0)  f32[2,3,6,20]
//   %21 = eq(5, %6) always_recompute=True  bool[2,3,6,20]
//   %22 = select(%21, x1, 0.0)  f32[2,3,6,20]
//   %23 = eq(4, %6) always_recompute=True  bool[2,3,6,20]
//   %24 = select(%23, x1, 0.0)  f32[2,3,6,20]
//   %25 = add(0.0, %24)  f32[2,3,6,20]
//   %26 = slice(%20) begin=(0, 0, 0, 1) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,6,19]
//   %27 = pad(%26) high=(0, 0, 0, 1) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %28 = add(0.0, %27)  f32[2,3,6,20]
//   %29 = add(%28, %22)  f32[2,3,6,20]
//   %30 = reshape(%25) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %31 = reshape(%29) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %32 = concat(%30, %31) axis=4  f32[2,3,6,20,2]
//   %33 = slice(%16) begin=(0, 0, 1, 0) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,5,20]
//   %34 = pad(%33) high=(0, 0, 1, 0) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %35 = add(0.0, %34)  f32[2,3,6,20]
//   %36 = add(%35, %18)  f32[2,3,6,20]
//   %37 = slice(%8) begin=(0, 0, 1, 1) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,5,19]
//   %38 = pad(%37) high=(0, 0, 1, 1) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %39 = add(0.0, %38)  f32[2,3,6,20]
//   %40 = slice(%10) begin=(0, 0, 1, 0) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,5,20]
//   %41 = pad(%40) high=(0, 0, 1, 0) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %42 = add(%39, %41)  f32[2,3,6,20]
//   %43 = slice(%12) begin=(0, 0, 0, 1) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,6,19]
//   %44 = pad(%43) high=(0, 0, 0, 1) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %45 = add(%42, %44)  f32[2,3,6,20]
//   %46 = add(%45, %14)  f32[2,3,6,20]
//   %47 = reshape(%36) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %48 = reshape(%46) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %49 = concat(%47, %48) axis=4  f32[2,3,6,20,2]
//   %50 = reshape(%32) shape=(2, 3, 6, 1, 40)  f32[2,3,6,1,40]
//   %51 = reshape(%49) shape=(2, 3, 6, 1, 40)  f32[2,3,6,1,40]
//   %52 = concat(%50, %51) axis=3  f32[2,3,6,2,40]
//   %53 = reshape(%52) shape=(2, 3, 12, 40)  f32[2,3,12,40]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "reduce.h"
#include "chunks_cpu.h"
HG_KERNEL argmax_9e67c4fa(const float* HG_RESTRICT x0, long long* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const bool v0 = (-1.0f) != (-1.0f);
    const bool v1 = (-1.0f) != (-1.0f);
    const bool v2 = (-1.0f) != (-1.0f);
    const float v3 = x0[i0 * 480];
    const float v4 = x0[i0 * 480 + 1];
    const float v5 = x0[i0 * 480 + 40];
    const float v6 = x0[i0 * 480 + 41];
    const float v7 = hg::Max<float>::merge((-1.0f), v3);
    const float v8 = hg::Max<float>::merge(v7, v4);
    const float v9 = hg::Max<float>::merge(v8, v5);
    const float v10 = hg::Max<float>::merge(v9, v6);
    const bool v11 = v5 != v5;
    const int v12 = v11 ? 7 : 8;
    const bool v13 = v5 == v10;
    const int v14 = v13 ? 7 : v12;
    const bool v15 = (-1.0f) != (-1.0f);
    const int v16 = v15 ? 6 : v14;
    const bool v17 = (-1.0f) == v10;
    const int v18 = v17 ? 6 : v16;
    const bool v19 = v4 != v4;
    const int v20 = v19 ? 5 : v18;
    const bool v21 = v4 == v10;
    const int v22 = v21 ? 5 : v20;
    const bool v23 = v3 != v3;
    const int v24 = v23 ? 4 : v22;
    const bool v25 = v3 == v10;
    const int v26 = v25 ? 4 : v24;
    const bool v27 = (-1.0f) != (-1.0f);
    const int v28 = v27 ? 3 : v26;
    const bool v29 = (-1.0f) == v10;
    const int v30 = v29 ? 3 : v28;
    const int v31 = v0 ? 2 : v30;
    const bool v32 = (-1.0f) == v10;
    const int v33 = v32 ? 2 : v31;
    const int v34 = v1 ? 1 : v33;
    const bool v35 = (-1.0f) == v10;
    const int v36 = v35 ? 1 : v34;
    const int v37 = v2 ? 0 : v36;
    const bool v38 = (-1.0f) == v10;
    const int v39 = v38 ? 0 : v37;
    const long long v40 = (long long)v39;
    y0[i0 * 120] = v40;
    HG_SIMD
    for (Index i2 = 1; i2 < 20; ++i2) {
      const float v41 = x0[i0 * 480 + i2 * 2 - 1];
      const float v42 = x0[i0 * 480 + i2 * 2];
      const float v43 = x0[i0 * 480 + i2 * 2 + 1];
      const float v44 = x0[i0 * 480 + i2 * 2 + 39];
      const float v45 = x0[i0 * 480 + i2 * 2 + 40];
      const float v46 = x0[i0 * 480 + i2 * 2 + 41];
      const float v47 = hg::Max<float>::merge((-1.0f), v41);
      const float v48 = hg::Max<float>::merge(v47, v42);
      const float v49 = hg::Max<float>::merge(v48, v43);
      const float v50 = hg::Max<float>::merge(v49, v44);
      const float v51 = hg::Max<float>::merge(v50, v45);
      const float v52 = hg::Max<float>::merge(v51, v46);
      const bool v53 = v45 != v45;
      const int v54 = v53 ? 7 : 8;
      const bool v55 = v45 == v52;
      const int v56 = v55 ? 7 : v54;
      const bool v57 = v44 != v44;
      const int v58 = v57 ? 6 : v56;
      const bool v59 = v44 == v52;
      const int v60 = v59 ? 6 : v58;
      const bool v61 = v43 != v43;
      const int v62 = v61 ? 5 : v60;
      const bool v63 = v43 == v52;
      const int v64 = v63 ? 5 : v62;
      const bool v65 = v42 != v42;
      const int v66 = v65 ? 4 : v64;
      const bool v67 = v42 == v52;
      const int v68 = v67 ? 4 : v66;
      const bool v69 = v41 != v41;
      const int v70 = v69 ? 3 : v68;
      const bool v71 = v41 == v52;
      const int v72 = v71 ? 3 : v70;
      const int v73 = v0 ? 2 : v72;
      const bool v74 = (-1.0f) == v52;
      const int v75 = v74 ? 2 : v73;
      const int v76 = v1 ? 1 : v75;
      const bool v77 = (-1.0f) == v52;
      const int v78 = v77 ? 1 : v76;
      const int v79 = v2 ? 0 : v78;
      const bool v80 = (-1.0f) == v52;
      const int v81 = v80 ? 0 : v79;
      const long long v82 = (long long)v81;
      y0[i0 * 120 + i2] = v82;
    }
    for (Index i1 = 1; i1 < 6; ++i1) {
      const float v83 = x0[i0 * 480 + i1 * 80 - 40];
      const float v84 = x0[i0 * 480 + i1 * 80 - 39];
      const float v85 = x0[i0 * 480 + i1 * 80];
      const float v86 = x0[i0 * 480 + i1 * 80 + 1];
      const float v87 = x0[i0 * 480 + i1 * 80 + 40];
      const float v88 = x0[i0 * 480 + i1 * 80 + 41];
      const float v89 = hg::Max<float>::merge((-1.0f), v83);
      const float v90 = hg::Max<float>::merge(v89, v84);
      const float v91 = hg::Max<float>::merge(v90, v85);
      const float v92 = hg::Max<float>::merge(v91, v86);
      const float v93 = hg::Max<float>::merge(v92, v87);
      const float v94 = hg::Max<float>::merge(v93, v88);
      const bool v95 = v87 != v87;
      const int v96 = v95 ? 7 : 8;
      const bool v97 = v87 == v94;
      const int v98 = v97 ? 7 : v96;
      const bool v99 = (-1.0f) != (-1.0f);
      const int v100 = v99 ? 6 : v98;
      const bool v101 = (-1.0f) == v94;
      const int v102 = v101 ? 6 : v100;
      const bool v103 = v86 != v86;
      const int v104 = v103 ? 5 : v102;
      const bool v105 = v86 == v94;
      const int v106 = v105 ? 5 : v104;
      const bool v107 = v85 != v85;
      const int v108 = v107 ? 4 : v106;
      const bool v109 = v85 == v94;
      const int v110 = v109 ? 4 : v108;
      const bool v111 = (-1.0f) != (-1.0f);
      const int v112 = v111 ? 3 : v110;
      const bool v113 = (-1.0f) == v94;
      const int v114 = v113 ? 3 : v112;
      const bool v115 = v84 != v84;
      const int v116 = v115 ? 2 : v114;
      const bool v117 = v84 == v94;
      const int v118 = v117 ? 2 : v116;
      const bool v119 = v83 != v83;
      const int v120 = v119 ? 1 : v118;
      const bool v121 = v83 == v94;
      const int v122 = v121 ? 1 : v120;
      const bool v123 = (-1.0f) != (-1.0f);
      const int v124 = v123 ? 0 : v122;
      const bool v125 = (-1.0f) == v94;
      const int v126 = v125 ? 0 : v124;
      const long long v127 = (long long)v126;
      y0[i0 * 120 + i1 * 20] = v127;
      HG_SIMD
      for (Index i2 = 1; i2 < 20; ++i2) {
        const float v128 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 41];
        const float v129 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 40];
        const float v130 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 39];
        const float v131 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 1];
        const float v132 = x0[i0 * 480 + i1 * 80 + i2 * 2];
        const float v133 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 1];
        const float v134 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 39];
        const float v135 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 40];
        const float v136 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 41];
        const float v137 = hg::Max<float>::merge(v128, v129);
        const float v138 = hg::Max<float>::merge(v137, v130);
        const float v139 = hg::Max<float>::merge(v138, v131);
        const float v140 = hg::Max<float>::merge(v139, v132);
        const float v141 = hg::Max<float>::merge(v140, v133);
        const float v142 = hg::Max<float>::merge(v141, v134);
        const float v143 = hg::Max<float>::merge(v142, v135);
        const float v144 = hg::Max<float>::merge(v143, v136);
        const bool v145 = v135 != v135;
        const int v146 = v145 ? 7 : 8;
        const bool v147 = v135 == v144;
        const int v148 = v147 ? 7 : v146;
        const bool v149 = v134 != v134;
        const int v150 = v149 ? 6 : v148;
        const bool v151 = v134 == v144;
        const int v152 = v151 ? 6 : v150;
        const bool v153 = v133 != v133;
        const int v154 = v153 ? 5 : v152;
        const bool v155 = v133 == v144;
        const int v156 = v155 ? 5 : v154;
        const bool v157 = v132 != v132;
        const int v158 = v157 ? 4 : v156;
        const bool v159 = v132 == v144;
        const int v160 = v159 ? 4 : v158;
        const bool v161 = v131 != v131;
        const int v162 = v161 ? 3 : v160;
        const bool v163 = v131 == v144;
        const int v164 = v163 ? 3 : v162;
        const bool v165 = v130 != v130;
        const int v166 = v165 ? 2 : v164;
        const bool v167 = v130 == v144;
        const int v168 = v167 ? 2 : v166;
        const bool v169 = v129 != v129;
        const int v170 = v169 ? 1 : v168;
        const bool v171 = v129 == v144;
        const int v172 = v171 ? 1 : v170;
        const bool v173 = v128 != v128;
        const int v174 = v173 ? 0 : v172;
        const bool v175 = v128 == v144;
        const int v176 = v175 ? 0 : v174;
        const long long v177 = (long long)v176;
        y0[i0 * 120 + i1 * 20 + i2] = v177;
      }
    }
  }
}
HG_KERNEL eq_select_copy_6af7e097(const long long* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const float v78 = 0.0f + 0.0f;
    const float v79 = 0.0f + 0.0f;
    const float v80 = v79 + 0.0f;
    const float v96 = 0.0f + 0.0f;
    const long long v97 = x0[i0 * 120 + 119];
    const bool v98 = 4ll == v97;
    const float v99 = x1[i0 * 120 + 119];
    const float v100 = v98 ? v99 : 0.0f;
    const float v101 = 0.0f + v100;
    y0[i0 * 480 + 438] = v101;
    const long long v102 = x0[i0 * 120 + 119];
    const bool v103 = 5ll == v102;
    const float v104 = x1[i0 * 120 + 119];
    const float v105 = v103 ? v104 : 0.0f;
    const float v106 = v96 + v105;
    y0[i0 * 480 + 439] = v106;
    const float v122 = v80 + 0.0f;
    const long long v123 = x0[i0 * 120 + 119];
    const bool v124 = 7ll == v123;
    const float v125 = x1[i0 * 120 + 119];
    const float v126 = v124 ? v125 : 0.0f;
    const float v127 = v78 + v126;
    y0[i0 * 480 + 478] = v127;
    const long long v128 = x0[i0 * 120 + 119];
    const bool v129 = 8ll == v128;
    const float v130 = x1[i0 * 120 + 119];
    const float v131 = v129 ? v130 : 0.0f;
    const float v132 = v122 + v131;
    y0[i0 * 480 + 479] = v132;
    for (Index i1 = 0; i1 < 5; ++i1) {
      const float v15 = 0.0f + 0.0f;
      const long long v16 = x0[i0 * 120 + i1 * 20 + 19];
      const bool v17 = 4ll == v16;
      const float v18 = x1[i0 * 120 + i1 * 20 + 19];
      const float v19 = v17 ? v18 : 0.0f;
      const float v20 = 0.0f + v19;
      y0[i0 * 480 + i1 * 80 + 38] = v20;
      const long long v21 = x0[i0 * 120 + i1 * 20 + 19];
      const bool v22 = 5ll == v21;
      const float v23 = x1[i0 * 120 + i1 * 20 + 19];
      const float v24 = v22 ? v23 : 0.0f;
      const float v25 = v15 + v24;
      y0[i0 * 480 + i1 * 80 + 39] = v25;
      const float v56 = 0.0f + 0.0f;
      const long long v57 = x0[i0 * 120 + i1 * 20 + 39];
      const bool v58 = 1ll == v57;
      const float v59 = x1[i0 * 120 + i1 * 20 + 39];
      const float v60 = v58 ? v59 : 0.0f;
      const float v61 = 0.0f + v60;
      const long long v62 = x0[i0 * 120 + i1 * 20 + 19];
      const bool v63 = 7ll == v62;
      const float v64 = x1[i0 * 120 + i1 * 20 + 19];
      const float v65 = v63 ? v64 : 0.0f;
      const float v66 = v61 + v65;
      y0[i0 * 480 + i1 * 80 + 78] = v66;
      const long long v67 = x0[i0 * 120 + i1 * 20 + 39];
      const bool v68 = 2ll == v67;
      const float v69 = x1[i0 * 120 + i1 * 20 + 39];
      const float v70 = v68 ? v69 : 0.0f;
      const float v71 = v56 + v70;
      const float v72 = v71 + 0.0f;
      const long long v73 = x0[i0 * 120 + i1 * 20 + 19];
      const bool v74 = 8ll == v73;
      const float v75 = x1[i0 * 120 + i1 * 20 + 19];
      const float v76 = v74 ? v75 : 0.0f;
      const float v77 = v72 + v76;
      y0[i0 * 480 + i1 * 80 + 79] = v77;
      HG_SIMD
      for (Index i3 = 0; i3 < 19; ++i3) {
        const long long v0 = x0[i0 * 120 + i1 * 20 + i3];
        const bool v1 = 4ll == v0;
        const float v2 = x1[i0 * 120 + i1 * 20 + i3];
        const float v3 = v1 ? v2 : 0.0f;
        const float v4 = 0.0f + v3;
        y0[i0 * 480 + i1 * 80 + i3 * 2] = v4;
        const long long v5 = x0[i0 * 120 + i1 * 20 + i3 + 1];
        const bool v6 = 3ll == v5;
        const float v7 = x1[i0 * 120 + i1 * 20 + i3 + 1];
        const float v8 = v6 ? v7 : 0.0f;
        const float v9 = 0.0f + v8;
        const long long v10 = x0[i0 * 120 + i1 * 20 + i3];
        const bool v11 = 5ll == v10;
        const float v12 = x1[i0 * 120 + i1 * 20 + i3];
        const float v13 = v11 ? v12 : 0.0f;
        const float v14 = v9 + v13;
        y0[i0 * 480 + i1 * 80 + i3 * 2 + 1] = v14;
      }
      HG_SIMD
      for (Index i3 = 0; i3 < 19; ++i3) {
        const long long v26 = x0[i0 * 120 + i1 * 20 + i3 + 20];
        const bool v27 = 1ll == v26;
        const float v28 = x1[i0 * 120 + i1 * 20 + i3 + 20];
        const float v29 = v27 ? v28 : 0.0f;
        const float v30 = 0.0f + v29;
        const long long v31 = x0[i0 * 120 + i1 * 20 + i3];
        const bool v32 = 7ll == v31;
        const float v33 = x1[i0 * 120 + i1 * 20 + i3];
        const float v34 = v32 ? v33 : 0.0f;
        const float v35 = v30 + v34;
        y0[i0 * 480 + i1 * 80 + i3 * 2 + 40] = v35;
        const long long v36 = x0[i0 * 120 + i1 * 20 + i3 + 21];
        const bool v37 = 0ll == v36;
        const float v38 = x1[i0 * 120 + i1 * 20 + i3 + 21];
        const float v39 = v37 ? v38 : 0.0f;
        const float v40 = 0.0f + v39;
        const long long v41 = x0[i0 * 120 + i1 * 20 + i3 + 20];
        const bool v42 = 2ll == v41;
        const float v43 = x1[i0 * 120 + i1 * 20 + i3 + 20];
        const float v44 = v42 ? v43 : 0.0f;
        const float v45 = v40 + v44;
        const long long v46 = x0[i0 * 120 + i1 * 20 + i3 + 1];
        const bool v47 = 6ll == v46;
        const float v48 = x1[i0 * 120 + i1 * 20 + i3 + 1];
        const float v49 = v47 ? v48 : 0.0f;
        const float v50 = v45 + v49;
        const long long v51 = x0[i0 * 120 + i1 * 20 + i3];
        const bool v52 = 8ll == v51;
        const float v53 = x1[i0 * 120 + i1 * 20 + i3];
        const float v54 = v52 ? v53 : 0.0f;
        const float v55 = v50 + v54;
        y0[i0 * 480 + i1 * 80 + i3 * 2 + 41] = v55;
      }
    }
    HG_SIMD
    for (Index i3 = 0; i3 < 19; ++i3) {
      const long long v81 = x0[i0 * 120 + i3 + 100];
      const bool v82 = 4ll == v81;
      const float v83 = x1[i0 * 120 + i3 + 100];
      const float v84 = v82 ? v83 : 0.0f;
      const float v85 = 0.0f + v84;
      y0[i0 * 480 + i3 * 2 + 400] = v85;
      const long long v86 = x0[i0 * 120 + i3 + 101];
      const bool v87 = 3ll == v86;
      const float v88 = x1[i0 * 120 + i3 + 101];
      const float v89 = v87 ? v88 : 0.0f;
      const float v90 = 0.0f + v89;
      const long long v91 = x0[i0 * 120 + i3 + 100];
      const bool v92 = 5ll == v91;
      const float v93 = x1[i0 * 120 + i3 + 100];
      const float v94 = v92 ? v93 : 0.0f;
      const float v95 = v90 + v94;
      y0[i0 * 480 + i3 * 2 + 401] = v95;
    }
    HG_SIMD
    for (Index i3 = 0; i3 < 19; ++i3) {
      const long long v107 = x0[i0 * 120 + i3 + 100];
      const bool v108 = 7ll == v107;
      const float v109 = x1[i0 * 120 + i3 + 100];
      const float v110 = v108 ? v109 : 0.0f;
      const float v111 = v78 + v110;
      y0[i0 * 480 + i3 * 2 + 440] = v111;
      const long long v112 = x0[i0 * 120 + i3 + 101];
      const bool v113 = 6ll == v112;
      const float v114 = x1[i0 * 120 + i3 + 101];
      const float v115 = v113 ? v114 : 0.0f;
      const float v116 = v80 + v115;
      const long long v117 = x0[i0 * 120 + i3 + 100];
      const bool v118 = 8ll == v117;
      const float v119 = x1[i0 * 120 + i3 + 100];
      const float v120 = v118 ? v119 : 0.0f;
      const float v121 = v116 + v120;
      y0[i0 * 480 + i3 * 2 + 441] = v121;
    }
  }
}
HG_EXPORT void run0(char* arena, const Index* e, char* const* w, char* input0, char* input1, char* output0) {
  hg::in_chunks(e[1], e[2], [&](const Index begin, const Index end) { argmax_9e67c4fa((float*)input0, (long long*)(arena + e[0]), begin, end); });
  hg::in_chunks(e[4], e[5], [&](const Index begin, const Index end) { eq_select_copy_6af7e097((long long*)(arena + e[3]), (float*)input1, (float*)output0, begin, end); });
}

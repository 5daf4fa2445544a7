// graph windows_over_each_other (x0: f32[2,3,12,40], x1: f32[2,3,6,20]) -> (%112)
//   %2 = pad(x0) high=(0, 0, 1, 1) low=(0, 0, 1, 1) value=-1.0  f32[2,3,14,42]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 14, 42)  f32[1,1,2,3,14,42]
//   %4 = broadcast(%3) shape=(3, 3, 2, 3, 14, 42)  f32[3,3,2,3,14,42]
//   %5 = unfold(%4) dilate=(1, 1) extent=(6, 20) stride=(2, 2)  f32[3,3,2,3,6,20]
//   %6 = slice(%5) begin=(0, 0, 0, 0, 0, 0) end=(1, 1, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %7 = reshape(%6) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %8 = slice(%5) begin=(0, 1, 0, 0, 0, 0) end=(1, 2, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %9 = reshape(%8) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %10 = slice(%5) begin=(0, 2, 0, 0, 0, 0) end=(1, 3, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %11 = reshape(%10) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %12 = slice(%5) begin=(1, 0, 0, 0, 0, 0) end=(2, 1, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %13 = reshape(%12) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %14 = slice(%5) begin=(1, 1, 0, 0, 0, 0) end=(2, 2, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %15 = reshape(%14) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %16 = slice(%5) begin=(1, 2, 0, 0, 0, 0) end=(2, 3, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %17 = reshape(%16) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %18 = slice(%5) begin=(2, 0, 0, 0, 0, 0) end=(3, 1, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %19 = reshape(%18) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %20 = slice(%5) begin=(2, 1, 0, 0, 0, 0) end=(3, 2, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %21 = reshape(%20) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %22 = slice(%5) begin=(2, 2, 0, 0, 0, 0) end=(3, 3, 2, 3, 6, 20) step=(1, 1, 1, 1, 1, 1)  f32[1,1,2,3,6,20]
//   %23 = reshape(%22) shape=(2, 3, 6, 20)  f32[2,3,6,20]
//   %24 = max(%9, %7)  f32[2,3,6,20]
//   %25 = max(%11, %24)  f32[2,3,6,20]
//   %26 = max(%13, %25)  f32[2,3,6,20]
//   %27 = max(%15, %26)  f32[2,3,6,20]
//   %28 = max(%17, %27)  f32[2,3,6,20]
//   %29 = max(%19, %28)  f32[2,3,6,20]
//   %30 = max(%21, %29)  f32[2,3,6,20]
//   %31 = max(%23, %30)  f32[2,3,6,20]
//   %32 = ne(%21, %21)  bool[2,3,6,20]
//   %33 = eq(%21, %31)  bool[2,3,6,20]
//   %34 = select(%32, 7, 8)  i32[2,3,6,20]
//   %35 = select(%33, 7, %34)  i32[2,3,6,20]
//   %36 = ne(%19, %19)  bool[2,3,6,20]
//   %37 = eq(%19, %31)  bool[2,3,6,20]
//   %38 = select(%36, 6, %35)  i32[2,3,6,20]
//   %39 = select(%37, 6, %38)  i32[2,3,6,20]
//   %40 = ne(%17, %17)  bool[2,3,6,20]
//   %41 = eq(%17, %31)  bool[2,3,6,20]
//   %42 = select(%40, 5, %39)  i32[2,3,6,20]
//   %43 = select(%41, 5, %42)  i32[2,3,6,20]
//   %44 = ne(%15, %15)  bool[2,3,6,20]
//   %45 = eq(%15, %31)  bool[2,3,6,20]
//   %46 = select(%44, 4, %43)  i32[2,3,6,20]
//   %47 = select(%45, 4, %46)  i32[2,3,6,20]
//   %48 = ne(%13, %13)  bool[2,3,6,20]
//   %49 = eq(%13, %31)  bool[2,3,6,20]
//   %50 = select(%48, 3, %47)  i32[2,3,6,20]
//   %51 = select(%49, 3, %50)  i32[2,3,6,20]
//   %52 = ne(%11, %11)  bool[2,3,6,20]
//   %53 = eq(%11, %31)  bool[2,3,6,20]
//   %54 = select(%52, 2, %51)  i32[2,3,6,20]
//   %55 = select(%53, 2, %54)  i32[2,3,6,20]
//   %56 = ne(%9, %9)  bool[2,3,6,20]
//   %57 = eq(%9, %31)  bool[2,3,6,20]
//   %58 = select(%56, 1, %55)  i32[2,3,6,20]
//   %59 = select(%57, 1, %58)  i32[2,3,6,20]
//   %60 = ne(%7, %7)  bool[2,3,6,20]
//   %61 = eq(%7, %31)  bool[2,3,6,20]
//   %62 = select(%60, 0, %59)  i32[2,3,6,20]
//   %63 = select(%61, 0, %62)  i32[2,3,6,20]
//   %64 = cast(%63)  i64[2,3,6,20]
//   %65 = copy(%64) no_recompute='window-position'  i64[2,3,6,20]
//   %66 = eq(0, %65) always_recompute=True  bool[2,3,6,20]
//   %67 = select(%66, x1, 0.0)  f32[2,3,6,20]
//   %68 = eq(2, %65) always_recompute=True  bool[2,3,6,20]
//   %69 = select(%68, x1, 0.0)  f32[2,3,6,20]
//   %70 = eq(6, %65) always_recompute=True  bool[2,3,6,20]
//   %71 = select(%70, x1, 0.0)  f32[2,3,6,20]
//   %72 = eq(8, %65) always_recompute=True  bool[2,3,6,20]
//   %73 = select(%72, x1, 0.0)  f32[2,3,6,20]
//   %74 = eq(1, %65) always_recompute=True  bool[2,3,6,20]
//   %75 = select(%74, x1, 0.0)  f32[2,3,6,20]
//   %76 = eq(7, %65) always_recompute=True  bool[2,3,6,20]
//   %77 = select(%76, x1, 0.0)  f32[2,3,6,20]
//   %78 = eq(3, %65) always_recompute=True  bool[2,3,6,20]
//   %79 = select(%78, x1, 0.0)  f32[2,3,6,20]
//   %80 = eq(5, %65) always_recompute=True  bool[2,3,6,20]
//   %81 = select(%80, x1, 0.0)  f32[2,3,6,20]
//   %82 = eq(4, %65) always_recompute=True  bool[2,3,6,20]
//   %83 = select(%82, x1, 0.0)  f32[2,3,6,20]
//   %84 = add(0.0, %83)  f32[2,3,6,20]
//   %85 = slice(%79) begin=(0, 0, 0, 1) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,6,19]
//   %86 = pad(%85) high=(0, 0, 0, 1) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %87 = add(0.0, %86)  f32[2,3,6,20]
//   %88 = add(%87, %81)  f32[2,3,6,20]
//   %89 = reshape(%84) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %90 = reshape(%88) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %91 = concat(%89, %90) axis=4  f32[2,3,6,20,2]
//   %92 = slice(%75) begin=(0, 0, 1, 0) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,5,20]
//   %93 = pad(%92) high=(0, 0, 1, 0) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %94 = add(0.0, %93)  f32[2,3,6,20]
//   %95 = add(%94, %77)  f32[2,3,6,20]
//   %96 = slice(%67) begin=(0, 0, 1, 1) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,5,19]
//   %97 = pad(%96) high=(0, 0, 1, 1) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %98 = add(0.0, %97)  f32[2,3,6,20]
//   %99 = slice(%69) begin=(0, 0, 1, 0) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,5,20]
//   %100 = pad(%99) high=(0, 0, 1, 0) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %101 = add(%98, %100)  f32[2,3,6,20]
//   %102 = slice(%71) begin=(0, 0, 0, 1) end=(2, 3, 6, 20) step=(1, 1, 1, 1)  f32[2,3,6,19]
//   %103 = pad(%102) high=(0, 0, 0, 1) low=(0, 0, 0, 0) value=0.0  f32[2,3,6,20]
//   %104 = add(%101, %103)  f32[2,3,6,20]
//   %105 = add(%104, %73)  f32[2,3,6,20]
//   %106 = reshape(%95) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %107 = reshape(%105) shape=(2, 3, 6, 20, 1)  f32[2,3,6,20,1]
//   %108 = concat(%106, %107) axis=4  f32[2,3,6,20,2]
//   %109 = reshape(%91) shape=(2, 3, 6, 1, 40)  f32[2,3,6,1,40]
//   %110 = reshape(%108) shape=(2, 3, 6, 1, 40)  f32[2,3,6,1,40]
//   %111 = concat(%109, %110) axis=3  f32[2,3,6,2,40]
//   %112 = reshape(%111) shape=(2, 3, 12, 40)  f32[2,3,12,40]
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
#include "cpu.h"
#include "math_cpu_basic.h"
#include "chunks_cpu.h"
HG_KERNEL max_ne_copy_6a1b96a3(const float* HG_RESTRICT x0, long long* HG_RESTRICT y0, const Index begin, const Index end) {
  for (Index i0 = begin; i0 < end; ++i0) {
    const float v0 = hg::maximum((-1.0f), (-1.0f));
    const float v1 = hg::maximum((-1.0f), v0);
    const bool v2 = (-1.0f) != (-1.0f);
    const bool v3 = (-1.0f) != (-1.0f);
    const bool v4 = (-1.0f) != (-1.0f);
    const float v5 = x0[i0 * 480 + 41];
    const float v6 = x0[i0 * 480 + 40];
    const float v7 = x0[i0 * 480 + 1];
    const float v8 = x0[i0 * 480];
    const float v9 = hg::maximum((-1.0f), v1);
    const float v10 = hg::maximum(v8, v9);
    const float v11 = hg::maximum(v7, v10);
    const float v12 = hg::maximum((-1.0f), v11);
    const float v13 = hg::maximum(v6, v12);
    const float v14 = hg::maximum(v5, v13);
    const bool v15 = (-1.0f) == v14;
    const bool v16 = (-1.0f) == v14;
    const bool v17 = (-1.0f) == v14;
    const bool v18 = (-1.0f) == v14;
    const bool v19 = (-1.0f) != (-1.0f);
    const bool v20 = v8 == v14;
    const bool v21 = v8 != v8;
    const bool v22 = v7 == v14;
    const bool v23 = v7 != v7;
    const bool v24 = (-1.0f) == v14;
    const bool v25 = (-1.0f) != (-1.0f);
    const bool v26 = v6 == v14;
    const bool v27 = v6 != v6;
    const int v28 = v27 ? 7 : 8;
    const int v29 = v26 ? 7 : v28;
    const int v30 = v25 ? 6 : v29;
    const int v31 = v24 ? 6 : v30;
    const int v32 = v23 ? 5 : v31;
    const int v33 = v22 ? 5 : v32;
    const int v34 = v21 ? 4 : v33;
    const int v35 = v20 ? 4 : v34;
    const int v36 = v19 ? 3 : v35;
    const int v37 = v18 ? 3 : v36;
    const int v38 = v4 ? 2 : v37;
    const int v39 = v17 ? 2 : v38;
    const int v40 = v3 ? 1 : v39;
    const int v41 = v16 ? 1 : v40;
    const int v42 = v2 ? 0 : v41;
    const int v43 = v15 ? 0 : v42;
    const long long v44 = (long long)v43;
    y0[i0 * 120] = v44;
    HG_SIMD
    for (Index i2 = 1; i2 < 20; ++i2) {
      const float v45 = x0[i0 * 480 + i2 * 2 + 41];
      const float v46 = x0[i0 * 480 + i2 * 2 + 40];
      const float v47 = x0[i0 * 480 + i2 * 2 + 39];
      const float v48 = x0[i0 * 480 + i2 * 2 + 1];
      const float v49 = x0[i0 * 480 + i2 * 2];
      const float v50 = x0[i0 * 480 + i2 * 2 - 1];
      const float v51 = hg::maximum(v50, v1);
      const float v52 = hg::maximum(v49, v51);
      const float v53 = hg::maximum(v48, v52);
      const float v54 = hg::maximum(v47, v53);
      const float v55 = hg::maximum(v46, v54);
      const float v56 = hg::maximum(v45, v55);
      const bool v57 = (-1.0f) == v56;
      const bool v58 = (-1.0f) == v56;
      const bool v59 = (-1.0f) == v56;
      const bool v60 = v50 == v56;
      const bool v61 = v50 != v50;
      const bool v62 = v49 == v56;
      const bool v63 = v49 != v49;
      const bool v64 = v48 == v56;
      const bool v65 = v48 != v48;
      const bool v66 = v47 == v56;
      const bool v67 = v47 != v47;
      const bool v68 = v46 == v56;
      const bool v69 = v46 != v46;
      const int v70 = v69 ? 7 : 8;
      const int v71 = v68 ? 7 : v70;
      const int v72 = v67 ? 6 : v71;
      const int v73 = v66 ? 6 : v72;
      const int v74 = v65 ? 5 : v73;
      const int v75 = v64 ? 5 : v74;
      const int v76 = v63 ? 4 : v75;
      const int v77 = v62 ? 4 : v76;
      const int v78 = v61 ? 3 : v77;
      const int v79 = v60 ? 3 : v78;
      const int v80 = v4 ? 2 : v79;
      const int v81 = v59 ? 2 : v80;
      const int v82 = v3 ? 1 : v81;
      const int v83 = v58 ? 1 : v82;
      const int v84 = v2 ? 0 : v83;
      const int v85 = v57 ? 0 : v84;
      const long long v86 = (long long)v85;
      y0[i0 * 120 + i2] = v86;
    }
    for (Index i1 = 1; i1 < 6; ++i1) {
      const float v87 = x0[i0 * 480 + i1 * 80 + 41];
      const float v88 = x0[i0 * 480 + i1 * 80 + 40];
      const float v89 = x0[i0 * 480 + i1 * 80 + 1];
      const float v90 = x0[i0 * 480 + i1 * 80];
      const float v91 = x0[i0 * 480 + i1 * 80 - 39];
      const float v92 = x0[i0 * 480 + i1 * 80 - 40];
      const float v93 = hg::maximum(v92, (-1.0f));
      const float v94 = hg::maximum(v91, v93);
      const float v95 = hg::maximum((-1.0f), v94);
      const float v96 = hg::maximum(v90, v95);
      const float v97 = hg::maximum(v89, v96);
      const float v98 = hg::maximum((-1.0f), v97);
      const float v99 = hg::maximum(v88, v98);
      const float v100 = hg::maximum(v87, v99);
      const bool v101 = (-1.0f) == v100;
      const bool v102 = (-1.0f) != (-1.0f);
      const bool v103 = v92 == v100;
      const bool v104 = v92 != v92;
      const bool v105 = v91 == v100;
      const bool v106 = v91 != v91;
      const bool v107 = (-1.0f) == v100;
      const bool v108 = (-1.0f) != (-1.0f);
      const bool v109 = v90 == v100;
      const bool v110 = v90 != v90;
      const bool v111 = v89 == v100;
      const bool v112 = v89 != v89;
      const bool v113 = (-1.0f) == v100;
      const bool v114 = (-1.0f) != (-1.0f);
      const bool v115 = v88 == v100;
      const bool v116 = v88 != v88;
      const int v117 = v116 ? 7 : 8;
      const int v118 = v115 ? 7 : v117;
      const int v119 = v114 ? 6 : v118;
      const int v120 = v113 ? 6 : v119;
      const int v121 = v112 ? 5 : v120;
      const int v122 = v111 ? 5 : v121;
      const int v123 = v110 ? 4 : v122;
      const int v124 = v109 ? 4 : v123;
      const int v125 = v108 ? 3 : v124;
      const int v126 = v107 ? 3 : v125;
      const int v127 = v106 ? 2 : v126;
      const int v128 = v105 ? 2 : v127;
      const int v129 = v104 ? 1 : v128;
      const int v130 = v103 ? 1 : v129;
      const int v131 = v102 ? 0 : v130;
      const int v132 = v101 ? 0 : v131;
      const long long v133 = (long long)v132;
      y0[i0 * 120 + i1 * 20] = v133;
      HG_SIMD
      for (Index i2 = 1; i2 < 20; ++i2) {
        const float v134 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 41];
        const float v135 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 41];
        const float v136 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 40];
        const float v137 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 39];
        const float v138 = x0[i0 * 480 + i1 * 80 + i2 * 2 + 1];
        const float v139 = x0[i0 * 480 + i1 * 80 + i2 * 2];
        const float v140 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 1];
        const float v141 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 39];
        const float v142 = x0[i0 * 480 + i1 * 80 + i2 * 2 - 40];
        const float v143 = hg::maximum(v142, v134);
        const float v144 = hg::maximum(v141, v143);
        const float v145 = hg::maximum(v140, v144);
        const float v146 = hg::maximum(v139, v145);
        const float v147 = hg::maximum(v138, v146);
        const float v148 = hg::maximum(v137, v147);
        const float v149 = hg::maximum(v136, v148);
        const float v150 = hg::maximum(v135, v149);
        const bool v151 = v134 == v150;
        const bool v152 = v134 != v134;
        const bool v153 = v142 == v150;
        const bool v154 = v142 != v142;
        const bool v155 = v141 == v150;
        const bool v156 = v141 != v141;
        const bool v157 = v140 == v150;
        const bool v158 = v140 != v140;
        const bool v159 = v139 == v150;
        const bool v160 = v139 != v139;
        const bool v161 = v138 == v150;
        const bool v162 = v138 != v138;
        const bool v163 = v137 == v150;
        const bool v164 = v137 != v137;
        const bool v165 = v136 == v150;
        const bool v166 = v136 != v136;
        const int v167 = v166 ? 7 : 8;
        const int v168 = v165 ? 7 : v167;
        const int v169 = v164 ? 6 : v168;
        const int v170 = v163 ? 6 : v169;
        const int v171 = v162 ? 5 : v170;
        const int v172 = v161 ? 5 : v171;
        const int v173 = v160 ? 4 : v172;
        const int v174 = v159 ? 4 : v173;
        const int v175 = v158 ? 3 : v174;
        const int v176 = v157 ? 3 : v175;
        const int v177 = v156 ? 2 : v176;
        const int v178 = v155 ? 2 : v177;
        const int v179 = v154 ? 1 : v178;
        const int v180 = v153 ? 1 : v179;
        const int v181 = v152 ? 0 : v180;
        const int v182 = v151 ? 0 : v181;
        const long long v183 = (long long)v182;
        y0[i0 * 120 + i1 * 20 + i2] = v183;
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
  hg::in_chunks(e[1], e[2], [&](const Index begin, const Index end) { max_ne_copy_6a1b96a3((float*)input0, (long long*)(arena + e[0]), begin, end); });
  hg::in_chunks(e[4], e[5], [&](const Index begin, const Index end) { eq_select_copy_6af7e097((long long*)(arena + e[3]), (float*)input1, (float*)output0, begin, end); });
}

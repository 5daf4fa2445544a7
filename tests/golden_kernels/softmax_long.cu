// graph softmax_long (x0: f32[3,2000]) -> (%9)
//   %1 = amax(x0) axes=(1,)  f32[3]
//   %2 = reshape(%1) shape=(3, 1)  f32[3,1]
//   %3 = broadcast(%2) shape=(3, 2000)  f32[3,2000]
//   %4 = sub(x0, %3)  f32[3,2000]
//   %5 = exp(%4)  f32[3,2000]
//   %6 = sum(%5) axes=(1,)  f32[3]
//   %7 = reshape(%6) shape=(3, 1)  f32[3,1]
//   %8 = broadcast(%7) shape=(3, 2000)  f32[3,2000]
//   %9 = div(%5, %8)  f32[3,2000]
extern "C" __global__ void HG_BOUNDS(256) amax_sub_div_10688237(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x;
  for (Index i0 = blockIdx.x; i0 < rows; i0 += gridDim.x) {
    float k0[8];
    float k1[8];
    hg::Max<float>::State a0 = hg::Max<float>::start();
    HG_UNROLL
    for (int kept = 0; kept < 8; ++kept) {
      const Index i1 = kept * 256 + lane;
      if (i1 >= 2000) continue;
      const float v0 = x0[i0 * 2000 + i1];
      k0[kept] = v0;
      a0 = hg::Max<float>::add(a0, v0, 0);
    }
    a0 = hg::team_merge<hg::Max<float>, 256, 256>(a0);
    const float v1 = hg::Max<float>::result(a0);
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    HG_UNROLL
    for (int kept = 0; kept < 8; ++kept) {
      const Index i1 = kept * 256 + lane;
      if (i1 >= 2000) continue;
      const float v0 = k0[kept];
      const float v2 = v0 - v1;
      const float v3 = hg::exp(v2);
      k1[kept] = v3;
      a1 = hg::Sum<float>::add(a1, v3, 0);
    }
    a1 = hg::team_merge<hg::Sum<float>, 256, 256>(a1);
    const float v4 = hg::Sum<float>::result(a1);
    HG_UNROLL
    for (int kept = 0; kept < 8; ++kept) {
      const Index i1 = kept * 256 + lane;
      if (i1 >= 2000) continue;
      const float v3 = k1[kept];
      const float v5 = v3 / v4;
      y0[i0 * 2000 + i1] = v5;
    }
  }
}

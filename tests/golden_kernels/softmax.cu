// graph softmax (x0: f32[30,40]) -> (%9)
//   %1 = amax(x0) axes=(1,)  f32[30]
//   %2 = reshape(%1) shape=(30, 1)  f32[30,1]
//   %3 = broadcast(%2) shape=(30, 40)  f32[30,40]
//   %4 = sub(x0, %3)  f32[30,40]
//   %5 = exp(%4)  f32[30,40]
//   %6 = sum(%5) axes=(1,)  f32[30]
//   %7 = reshape(%6) shape=(30, 1)  f32[30,1]
//   %8 = broadcast(%7) shape=(30, 40)  f32[30,40]
//   %9 = div(%5, %8)  f32[30,40]
extern "C" __global__ void HG_BOUNDS(128) amax_sub_div_8b4325c8(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 32;
  for (Index block = (Index)blockIdx.x * 4; block < rows; block += (Index)gridDim.x * 4) {
    const Index wanted = block + (Index)threadIdx.x / 32;
    const bool live = wanted < rows;
    const Index i0 = live ? wanted : rows - 1;  // a team without a row still takes part in barriers
    float k0[2];
    float k1[2];
    hg::Max<float>::State a0 = hg::Max<float>::start();
    HG_UNROLL
    for (int kept = 0; kept < 2; ++kept) {
      const Index i1 = kept * 32 + lane;
      if (i1 >= 40) continue;
      const float v0 = x0[i0 * 40 + i1];
      k0[kept] = v0;
      a0 = hg::Max<float>::add(a0, v0, 0);
    }
    a0 = hg::team_merge<hg::Max<float>, 32, 128>(a0);
    const float v1 = hg::Max<float>::result(a0);
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    HG_UNROLL
    for (int kept = 0; kept < 2; ++kept) {
      const Index i1 = kept * 32 + lane;
      if (i1 >= 40) continue;
      const float v0 = k0[kept];
      const float v2 = v0 - v1;
      const float v3 = hg::exp(v2);
      k1[kept] = v3;
      a1 = hg::Sum<float>::add(a1, v3, 0);
    }
    a1 = hg::team_merge<hg::Sum<float>, 32, 128>(a1);
    const float v4 = hg::Sum<float>::result(a1);
    HG_UNROLL
    for (int kept = 0; kept < 2; ++kept) {
      const Index i1 = kept * 32 + lane;
      if (i1 >= 40) continue;
      const float v3 = k1[kept];
      const float v5 = v3 / v4;
      if (live) {
        y0[i0 * 40 + i1] = v5;
      }
    }
  }
}

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
extern "C" __global__ void HG_BOUNDS(128) amax_sub_div_3944bf18(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 4;
  for (Index block = (Index)blockIdx.x * 32; block < rows; block += (Index)gridDim.x * 32) {
    const Index wanted = block + (Index)threadIdx.x / 4;
    const bool live = wanted < rows;
    const Index i0 = live ? wanted : rows - 1;  // a team without a row still takes part in barriers
    float k0[12];
    float k1[12];
    hg::Max<float>::State a0 = hg::Max<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 3; ++step) {
      const Index i1_0 = (step * 4 + lane) * 4;
      if (i1_0 >= 40) continue;
      const hg::span<float, 4> p0 = hg::read<4>(x0 + (i0 * 40 + i1_0));
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = p0.v[j];
        k0[step * 4 + j] = v0;
        a0 = hg::Max<float>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Max<float>, 4>(a0);
    const float v1 = hg::Max<float>::result(a0);
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 3; ++step) {
      const Index i1_0 = (step * 4 + lane) * 4;
      if (i1_0 >= 40) continue;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = k0[step * 4 + j];
        const float v2 = v0 - v1;
        const float v3 = hg::exp(v2);
        k1[step * 4 + j] = v3;
        a1 = hg::Sum<float>::add(a1, v3, 0);
      }
    }
    a1 = hg::lanes_merge<hg::Sum<float>, 4>(a1);
    const float v4 = hg::Sum<float>::result(a1);
    const float v6 = 1.0f / v4;
    HG_UNROLL
    for (Index step = 0; step < 3; ++step) {
      const Index i1_0 = (step * 4 + lane) * 4;
      if (i1_0 >= 40) continue;
      hg::span<float, 4> q0;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v3 = k1[step * 4 + j];
        q0.v[j] = v3;
      }
      hg::divide(q0, v4, v6);
      if (live) hg::write(y0 + (i0 * 40 + i1_0), q0);
    }
  }
}

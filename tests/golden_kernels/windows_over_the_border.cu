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
extern "C" __global__ void HG_BOUNDS(128) mul_amax_sub_064c02cc(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 120;
  const int across = threadIdx.x % 128;
  for (Index block = (Index)blockIdx.x * 128; block < rows; block += (Index)gridDim.x * 128) {
    const Index wanted = block + across * 1;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 1;  // threads without rows still take part in barriers
    const Index i0 = r / 120;
    const Index i1 = r / 20 % 6;
    const Index i2_0 = r % 20;
    float r_v4[1];
    float r_v6[1];
    hg::Max<float>::State a0[1];
    HG_UNROLL
    for (int j = 0; j < 1; ++j) a0[j] = hg::Max<float>::start();
    hg::Sum<float>::State a1[1];
    HG_UNROLL
    for (int j = 0; j < 1; ++j) a1[j] = hg::Sum<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < 9; ++step) {
      const Index c = step;
      const Index i3 = c / 3;
      const Index i4 = c % 3;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const Index i2 = i2_0 + j;
        const float v0 = i1 * 2 + i3 - 1 >= 0 && i2 * 2 + i4 - 1 >= 0 ? x0[i0 * 480 + i1 * 80 + i3 * 40 + i2 * 2 + i4 - 41] : 0.0f;
        const float v1 = v0 * 0.5f;
        const bool v2 = i1 * 2 + i3 - 1 >= 0 && i2 * 2 + i4 - 1 >= 0;
        const float v3 = v2 ? v1 : 0.0f;
        a0[j] = hg::Max<float>::add(a0[j], v3, 0);
        a1[j] = hg::Sum<float>::add(a1[j], v3, 0);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 1; ++j) r_v4[j] = hg::Max<float>::result(a0[j]);
    HG_UNROLL
    for (int j = 0; j < 1; ++j) r_v6[j] = hg::Sum<float>::result(a1[j]);
    if (live) {
      hg::span<float, 1> q0;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const float v4 = r_v4[j];
        const float v6 = r_v6[j];
        const float v5 = hg::maximum(v4, 0.0f);
        const float v7 = v6 * 0.125f;
        const float v8 = v5 - v7;
        q0.v[j] = v8;
      }
      hg::write(y0 + (i0 * 120 + i1 * 20 + i2_0), q0);
    }
  }
}

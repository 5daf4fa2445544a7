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
extern "C" __global__ void HG_BOUNDS(128) amax_sub_div_0f85b695(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  __shared__ struct {
    hg::Max<float>::State part_a0[4];
    hg::Sum<float>::State part_a1[4];
  } pool;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x;
  for (Index i0 = blockIdx.x; i0 < rows; i0 += gridDim.x) {
    float k0[16];
    float k1[16];
    hg::Max<float>::State a0 = hg::Max<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 4; ++step) {
      const Index i1_0 = (step * 128 + lane) * 4;
      if (i1_0 >= 2000) continue;
      const hg::span<float, 4> p0 = hg::read<4>(x0 + (i0 * 2000 + i1_0));
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = p0.v[j];
        k0[step * 4 + j] = v0;
        a0 = hg::Max<float>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Max<float>, 32>(a0);
    if (threadIdx.x % 32 == 0) {
      pool.part_a0[threadIdx.x / 32] = a0;
    }
    __syncthreads();
    a0 = hg::warps_merge<hg::Max<float>, 4, 1>(pool.part_a0);
    const float v1 = hg::Max<float>::result(a0);
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 4; ++step) {
      const Index i1_0 = (step * 128 + lane) * 4;
      if (i1_0 >= 2000) continue;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = k0[step * 4 + j];
        const float v2 = v0 - v1;
        const float v3 = hg::exp(v2);
        k1[step * 4 + j] = v3;
        a1 = hg::Sum<float>::add(a1, v3, 0);
      }
    }
    a1 = hg::lanes_merge<hg::Sum<float>, 32>(a1);
    if (threadIdx.x % 32 == 0) {
      pool.part_a1[threadIdx.x / 32] = a1;
    }
    __syncthreads();
    a1 = hg::warps_merge<hg::Sum<float>, 4, 1>(pool.part_a1);
    const float v4 = hg::Sum<float>::result(a1);
    const float v6 = 1.0f / v4;
    HG_UNROLL
    for (Index step = 0; step < 4; ++step) {
      const Index i1_0 = (step * 128 + lane) * 4;
      if (i1_0 >= 2000) continue;
      hg::span<float, 4> q0;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v3 = k1[step * 4 + j];
        q0.v[j] = v3;
      }
      hg::divide(q0, v4, v6);
      hg::write(y0 + (i0 * 2000 + i1_0), q0);
    }
  }
}

// graph normalised_columns (x0: f32[3,5,40]) -> (%13, %15)
//   %1 = sum(x0) axes=(1,)  f32[3,40]
//   %2 = reshape(%1) shape=(3, 1, 40)  f32[3,1,40]
//   %3 = mul(%2, 0.2)  f32[3,1,40]
//   %4 = broadcast(%3) shape=(3, 5, 40)  f32[3,5,40]
//   %5 = sub(x0, %4)  f32[3,5,40]
//   %6 = mul(%5, %5)  f32[3,5,40]
//   %7 = sum(%6) axes=(1,)  f32[3,40]
//   %8 = reshape(%7) shape=(3, 1, 40)  f32[3,1,40]
//   %9 = mul(%8, 0.2)  f32[3,1,40]
//   %10 = add(%9, 1e-05)  f32[3,1,40]
//   %11 = rsqrt(%10)  f32[3,1,40]
//   %12 = broadcast(%11) shape=(3, 5, 40)  f32[3,5,40]
//   %13 = mul(%5, %12)  f32[3,5,40]
//   %14 = add(%9, 1.0)  f32[3,1,40]
//   %15 = log(%14)  f32[3,1,40]
extern "C" __global__ void HG_BOUNDS(64) sum_mul_log_3ff2782e(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, float* HG_RESTRICT y1, const long long n0, const long long reciprocal0) {
  typedef int Index;
  const Index rows = (Index)n0 * 40;
  const int across = threadIdx.x % 64;
  for (Index block = (Index)blockIdx.x * 256; block < rows; block += (Index)gridDim.x * 256) {
    const Index wanted = block + across * 4;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 4;  // threads without rows still take part in barriers
    const Index i0 = r / 40;
    const Index i1_0 = r % 40;
    float k0[20];
    float k1[20];
    float r_v1[4];
    float r_v2[4];
    float r_v5[4];
    float r_v8[4];
    float r_v10[4];
    float r_v11[4];
    hg::Sum<float>::State a0[4];
    HG_UNROLL
    for (int j = 0; j < 4; ++j) a0[j] = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 5; ++step) {
      const Index i2 = step;
      const hg::span<float, 4> p0 = hg::read<4>(x0 + (i0 * 200 + i2 * 40 + i1_0));
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = p0.v[j];
        k0[step * 4 + j] = v0;
        a0[j] = hg::Sum<float>::add(a0[j], v0, 0);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 4; ++j) r_v1[j] = hg::Sum<float>::result(a0[j]);
    {
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v1 = r_v1[j];
        const float v2 = v1 * hg::FloatArgument<float>::from_bits(reciprocal0);
        r_v2[j] = v2;
      }
    }
    hg::Sum<float>::State a1[4];
    HG_UNROLL
    for (int j = 0; j < 4; ++j) a1[j] = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 5; ++step) {
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v2 = r_v2[j];
        const float v0 = k0[step * 4 + j];
        const float v3 = v0 - v2;
        const float v4 = v3 * v3;
        k1[step * 4 + j] = v3;
        a1[j] = hg::Sum<float>::add(a1[j], v4, 0);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 4; ++j) r_v5[j] = hg::Sum<float>::result(a1[j]);
    {
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v5 = r_v5[j];
        const float v6 = v5 * hg::FloatArgument<float>::from_bits(reciprocal0);
        const float v7 = v6 + 1e-05f;
        const float v8 = hg::rsqrt(v7);
        const float v10 = v6 + 1.0f;
        const float v11 = hg::log(v10);
        r_v8[j] = v8;
        r_v10[j] = v10;
        r_v11[j] = v11;
      }
    }
    HG_UNROLL
    for (Index step = 0; step < 5; ++step) {
      const Index i2 = step;
      hg::span<float, 4> q0;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v2 = r_v2[j];
        const float v8 = r_v8[j];
        const float v3 = k1[step * 4 + j];
        const float v9 = v3 * v8;
        q0.v[j] = v9;
      }
      if (live) hg::write(y0 + (i0 * 200 + i2 * 40 + i1_0), q0);
    }
    if (live) {
      hg::span<float, 4> q1;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v10 = r_v10[j];
        const float v11 = r_v11[j];
        q1.v[j] = v11;
      }
      hg::write(y1 + (i0 * 40 + i1_0), q1);
    }
  }
}

// graph disjoint_windows (x0: f32[2,3,8,12], x1: f32[2,3,4,6]) -> (%22)
//   %2 = tanh(x0)  f32[2,3,8,12]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 8, 12)  f32[1,1,2,3,8,12]
//   %4 = broadcast(%3) shape=(2, 2, 2, 3, 8, 12)  f32[2,2,2,3,8,12]
//   %5 = unfold(%4) dilate=(1, 1) extent=(4, 6) stride=(2, 2)  f32[2,2,2,3,4,6]
//   %6 = argmax(%5) axes=(0, 1)  i64[2,3,4,6]
//   %7 = iota() axis=1  i64[2,2,2,3,4,6]
//   %8 = iota() axis=0  i64[2,2,2,3,4,6]
//   %9 = mul(%8, 2)  i64[2,2,2,3,4,6]
//   %10 = add(%7, %9)  i64[2,2,2,3,4,6]
//   %11 = reshape(%6) shape=(1, 1, 2, 3, 4, 6)  i64[1,1,2,3,4,6]
//   %12 = broadcast(%11) shape=(2, 2, 2, 3, 4, 6)  i64[2,2,2,3,4,6]
//   %13 = eq(%10, %12)  bool[2,2,2,3,4,6]
//   %14 = reshape(x1) shape=(1, 1, 2, 3, 4, 6)  f32[1,1,2,3,4,6]
//   %15 = broadcast(%14) shape=(2, 2, 2, 3, 4, 6)  f32[2,2,2,3,4,6]
//   %16 = select(%13, %15, 0.0)  f32[2,2,2,3,4,6]
//   %17 = transpose(%16) perm=(2, 3, 4, 0, 5, 1)  f32[2,3,4,2,6,2]
//   %18 = reshape(%17) shape=(2, 3, 8, 12)  f32[2,3,8,12]
//   %19 = add(%18, 0.0)  f32[2,3,8,12]
//   %20 = mul(%2, %2)  f32[2,3,8,12]
//   %21 = sub(1.0, %20)  f32[2,3,8,12]
//   %22 = mul(%19, %21)  f32[2,3,8,12]
extern "C" __global__ void HG_BOUNDS(128) tanh_argmax_sub_971e9168(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 6;
  const int across = threadIdx.x % 128;
  for (Index block = (Index)blockIdx.x * 128; block < rows; block += (Index)gridDim.x * 128) {
    const Index wanted = block + across * 1;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 1;  // threads without rows still take part in barriers
    const Index i0 = r / 6;
    const Index i1_0 = r % 6;
    float k0[4];
    long long r_v6[1];
    float r_v8[1];
    {
      const hg::span<float, 1> p0 = hg::read<1>(x1 + (i0 * 6 + i1_0));
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const float v8 = p0.v[j];
        r_v8[j] = v8;
      }
    }
    hg::ArgMax<float>::State a0[1];
    HG_UNROLL
    for (int j = 0; j < 1; ++j) a0[j] = hg::ArgMax<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 4; ++step) {
      const Index c = step;
      const Index i2 = c / 2;
      const Index i3 = c % 2;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const Index i1 = i1_0 + j;
        const float v4 = x0[i0 * 24 + i2 * 12 + i1 * 2 + i3];
        const float v5 = hg::tanh(v4);
        k0[step * 1 + j] = v5;
        a0[j] = hg::ArgMax<float>::add(a0[j], v5, i2 * 2 + i3);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 1; ++j) r_v6[j] = hg::ArgMax<float>::result(a0[j]);
    HG_UNROLL
    for (Index step = 0; step < 4; ++step) {
      const Index c = step;
      const Index i2 = c / 2;
      const Index i3 = c % 2;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const Index i1 = i1_0 + j;
        const long long v6 = r_v6[j];
        const float v8 = r_v8[j];
        const long long v0 = (long long)i3;
        const long long v1 = (long long)i2;
        const long long v2 = hg::times(v1, 2ll);
        const long long v3 = hg::plus(v0, v2);
        const float v5 = k0[step * 1 + j];
        const bool v7 = v3 == v6;
        const float v9 = v7 ? v8 : 0.0f;
        const float v10 = v9 + 0.0f;
        const float v11 = v5 * v5;
        const float v12 = 1.0f - v11;
        const float v13 = v10 * v12;
        if (live) y0[i0 * 24 + i2 * 12 + i1 * 2 + i3] = v13;
      }
    }
  }
}

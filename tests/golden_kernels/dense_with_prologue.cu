// graph dense_with_prologue (x0: f32[7,70], x1: f32[70], x2: f16[24,70], x3: f32[24]) -> (%13)
//   %4 = reshape(x1) shape=(1, 70)  f32[1,70]
//   %5 = broadcast(%4) shape=(7, 70)  f32[7,70]
//   %6 = mul(x0, %5)  f32[7,70]
//   %7 = max(%6, 0.0)  f32[7,70]
//   %8 = cast(x2)  f32[24,70]
//   %9 = transpose(%8) perm=(1, 0)  f32[70,24]
//   %10 = dot(%7, %9)  f32[7,24]
//   %11 = reshape(x3) shape=(1, 24)  f32[1,24]
//   %12 = broadcast(%11) shape=(7, 24)  f32[7,24]
//   %13 = add(%10, %12)  f32[7,24]
extern "C" __global__ void __launch_bounds__(256, 1) mul_max_add_8020e4e1(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, const hg::half* HG_RESTRICT x3, float* HG_RESTRICT y0, const long long n0, const long long) {
  typedef int Index;
  __shared__ __align__(16) float patch[64];
  const Index line = blockIdx.x / 3 * 8;
  const Index column = blockIdx.x % 3 * 8;
  const int lines = (int)hg::minimum<Index>(8, n0 - line), columns = (int)hg::minimum<Index>(8, 24 - column);
  const auto left = [&](const int r, const int k_0) {
    hg::pack<float, 2> made;
    const Index i0 = line + r;
    const hg::pack<float, 2> p0 = hg::load<2>(x1 + (i0 * 70 + k_0));
    const hg::pack<float, 2> p1 = hg::load<2>(x2 + k_0);
    HG_UNROLL
    for (int j = 0; j < 2; ++j) {
      const float v0 = p0.v[j];
      const float v1 = p1.v[j];
      const float v2 = v0 * v1;
      const float v3 = hg::maximum(v2, 0.0f);
      made.v[j] = v3;
    }
    return made;
  };
  const auto right = [&](const int r, const int k_0) {
    hg::pack<float, 2> made;
    const Index i1 = column + r;
    const hg::pack<hg::half, 2> p0 = hg::load<2>(x3 + (i1 * 70 + k_0));
    HG_UNROLL
    for (int j = 0; j < 2; ++j) {
      const float v0 = p0.v[j];
      const float v1 = (float)v0;
      made.v[j] = v1;
    }
    return made;
  };
  hg::dots<8, 1, 32, 1, 8, 2, 70, 1, 1, 70, float>(left, right, 70, lines, columns, patch);
  __syncthreads();
#pragma unroll 1
  for (int e = threadIdx.x; e < 64; e += 256) {
    if (e / 8 >= lines || e % 8 >= columns) continue;
    const Index i0 = line + e / 8;
    const Index i1 = column + e % 8;
    const float v0 = hg::layers_sum<1, 64>(patch, e);
    const float v1 = x0[i1];
    const float v2 = v0 + v1;
    y0[i0 * 24 + i1] = v2;
  }
}

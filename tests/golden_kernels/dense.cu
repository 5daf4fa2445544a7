// graph dense (x0: f32[3,512], x1: f32[256,512], x2: f32[256]) -> (%9)
//   %3 = transpose(x1) perm=(1, 0)  f32[512,256]
//   %4 = dot(x0, %3)  f32[3,256]
//   %5 = mul(%4, 0.05)  f32[3,256]
//   %6 = reshape(x2) shape=(1, 256)  f32[1,256]
//   %7 = broadcast(%6) shape=(3, 256)  f32[3,256]
//   %8 = add(%5, %7)  f32[3,256]
//   %9 = max(%8, 0.0)  f32[3,256]
extern "C" __global__ void __launch_bounds__(256, 1) dot_mul_max_8d4e38a5(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long n0, const long long) {
  typedef int Index;
  __shared__ __align__(16) float patch[64];
  const Index line = blockIdx.x / 64 * 8;
  const Index column = blockIdx.x % 64 * 4;
  const int lines = (int)hg::minimum<Index>(8, n0 - line), columns = (int)hg::minimum<Index>(4, 256 - column);
  hg::dots<8, 1, 32, 2, 8, 4, 512, 1, 1, 512, float>(x1 + (line * 512), x2 + (column * 512), 512, lines, columns, patch);
  __syncthreads();
#pragma unroll 1
  for (int e = threadIdx.x; e < 32; e += 256) {
    if (e / 4 >= lines || e % 4 >= columns) continue;
    const Index i0 = line + e / 4;
    const Index i1 = column + e % 4;
    const float v0 = hg::layers_sum<2, 32>(patch, e);
    const float v1 = v0 * 0.05f;
    const float v2 = x0[i1];
    const float v3 = v1 + v2;
    const float v4 = hg::maximum(v3, 0.0f);
    y0[i0 * 256 + i1] = v4;
  }
}

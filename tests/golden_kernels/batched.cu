// graph batched (x0: f32[2,3,4,5], x1: f32[2,3,5,6]) -> (%4)
//   %2 = dot(x0, x1)  f32[2,3,4,6]
//   %3 = transpose(%2) perm=(0, 2, 1, 3)  f32[2,4,3,6]
//   %4 = mul(%3, 2.0)  f32[2,4,3,6]
extern "C" __global__ void __launch_bounds__(128, 1) dot_mul_5168706d(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index e = (Index)blockIdx.x * 128 + threadIdx.x;
  if (e >= (Index)n0 * 72) return;
  const Index i0 = e / 72;
  const Index i1 = e / 24 % 3;
  const Index i2 = e / 6 % 4;
  const Index i3 = e % 6;
  const float v0 = hg::product_element<float, 1, 6>(x0 + (i0 * 60 + i1 * 20 + i2 * 5), x1 + (i0 * 90 + i1 * 30 + i3), 5);
  const float v1 = v0 * 2.0f;
  y0[i0 * 72 + i2 * 18 + i1 * 6 + i3] = v1;
}

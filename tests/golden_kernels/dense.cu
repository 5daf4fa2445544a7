// graph dense (x0: f32[3,512], x1: f32[256,512], x2: f32[256]) -> (%9)
//   %3 = transpose(x1) perm=(1, 0)  f32[512,256]
//   %4 = dot(x0, %3)  f32[3,256]
//   %5 = mul(%4, 0.05)  f32[3,256]
//   %6 = reshape(x2) shape=(1, 256)  f32[1,256]
//   %7 = broadcast(%6) shape=(3, 256)  f32[3,256]
//   %8 = add(%5, %7)  f32[3,256]
//   %9 = max(%8, 0.0)  f32[3,256]
extern "C" __global__ void HG_BOUNDS(256) dot_mul_max_c09eaf9c(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long n0) {
  typedef long long Index;
  const Index total = (Index)n0 * 256;
  const Index e = hg::dots_element();
  if (e >= total) return;
  const Index i0 = e / 256;
  const Index i1 = e % 256;
  const float v0 = hg::dots<float, 512, 1, 1>(x1 + (i0 * 512), x2 + (i1 * 512));
  if (threadIdx.x % 32) return;
  const float v1 = v0 * 0.05f;
  const float v2 = x0[i1];
  const float v3 = v1 + v2;
  const float v4 = hg::maximum(v3, 0.0f);
  y0[i0 * 256 + i1] = v4;
}

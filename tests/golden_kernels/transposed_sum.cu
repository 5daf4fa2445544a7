// graph transposed_sum (x0: f32[8,12]) -> (%3)
//   %1 = transpose(x0) perm=(1, 0)  f32[12,8]
//   %2 = reshape(x0) shape=(12, 8)  f32[12,8]
//   %3 = add(%1, %2)  f32[12,8]
namespace add_3718fc48_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
  const Index i0 = e / 8;
  const Index i1_0 = e % 8;
  const hg::pack<float, W> p0 = hg::load<W>(x0 + (i0 * 8 + i1_0));
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i1 = i1_0 + j;
    const float v0 = x0[i1 * 12 + i0];
    const float v1 = p0.v[j];
    const float v2 = v0 + v1;
    q0.v[j] = v2;
  }
  hg::store(y0 + (i0 * 8 + i1_0), q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) add_3718fc48(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0 * 8;
  HG_GRID(t, n / 4) add_3718fc48_::step<4>(x0, y0, t * 4);
}

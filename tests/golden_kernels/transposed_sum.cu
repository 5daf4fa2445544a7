// graph transposed_sum (x0: f32[8,12]) -> (%3)
//   %1 = transpose(x0) perm=(1, 0)  f32[12,8]
//   %2 = reshape(x0) shape=(12, 8)  f32[12,8]
//   %3 = add(%1, %2)  f32[12,8]
namespace add_439a18cf_ {
typedef int Index;
template <int W, int U>
HG_DEVICE void step(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index first, const Index apart, const Index n) {
  hg::pack<float, W> p0_[U];
  HG_UNROLL
  for (int u = 0; u < U; ++u) {
    const Index e = first + u * apart;
    if (u > 0 && e >= n) continue;
    const Index i0 = e / 8;
    const Index i1_0 = e % 8;
    p0_[u] = hg::load<W>(x0 + (i0 * 8 + i1_0));
  }
  HG_UNROLL
  for (int u = 0; u < U; ++u) {
    const Index e = first + u * apart;
    if (u > 0 && e >= n) continue;
    const Index i0 = e / 8;
    const Index i1_0 = e % 8;
    const hg::pack<float, W> p0 = p0_[u];
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
}
}  // namespace
extern "C" __global__ void HG_BOUNDS_FOR(256, 8) add_439a18cf(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0 * 8;
  const Index n_whole = n / 4 * 4;
  const Index apart = (Index)gridDim.x * (Index)blockDim.x * 4;
  _Pragma("unroll 1")
  for (Index e = ((Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x) * 4; e < n_whole; e += apart * 2) add_439a18cf_::step<4, 2>(x0, y0, e, apart, n_whole);
}

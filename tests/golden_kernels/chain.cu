// graph chain (x0: f32[1000]) -> (%13)
//   %1 = mul(x0, 1.1)  f32[1000]
//   %2 = add(%1, 0.2)  f32[1000]
//   %3 = tanh(%2)  f32[1000]
//   %4 = sigmoid(x0)  f32[1000]
//   %5 = mul(%3, %4)  f32[1000]
//   %6 = sub(x0, 0.3)  f32[1000]
//   %7 = max(%6, 0.0)  f32[1000]
//   %8 = mul(%7, 0.5)  f32[1000]
//   %9 = add(%5, %8)  f32[1000]
//   %10 = mul(x0, x0)  f32[1000]
//   %11 = neg(%10)  f32[1000]
//   %12 = exp(%11)  f32[1000]
//   %13 = sub(%9, %12)  f32[1000]
namespace mul_add_exp_dbc8b1d2_ {
typedef int Index;
template <int W, int U>
HG_DEVICE void step(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index first, const Index apart, const Index n) {
  hg::pack<float, W> p0_[U];
  HG_UNROLL
  for (int u = 0; u < U; ++u) {
    const Index e = first + u * apart;
    if (u > 0 && e >= n) continue;
    const Index i0_0 = e;
    p0_[u] = hg::load<W>(x0 + i0_0);
  }
  HG_UNROLL
  for (int u = 0; u < U; ++u) {
    const Index e = first + u * apart;
    if (u > 0 && e >= n) continue;
    const Index i0_0 = e;
    const hg::pack<float, W> p0 = p0_[u];
    hg::pack<float, W> q0;
    HG_UNROLL
    for (int j = 0; j < W; ++j) {
      const float v0 = p0.v[j];
      const float v1 = v0 * 1.1f;
      const float v2 = v1 + 0.2f;
      const float v3 = hg::tanh(v2);
      const float v4 = hg::sigmoid(v0);
      const float v5 = v3 * v4;
      const float v6 = v0 - 0.3f;
      const float v7 = hg::maximum(v6, 0.0f);
      const float v8 = v7 * 0.5f;
      const float v9 = v5 + v8;
      const float v10 = v0 * v0;
      const float v11 = -v10;
      const float v12 = hg::exp(v11);
      const float v13 = v9 - v12;
      q0.v[j] = v13;
    }
    hg::store(y0 + i0_0, q0);
  }
}
}  // namespace
extern "C" __global__ void HG_BOUNDS_FOR(256, 8) mul_add_exp_dbc8b1d2(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4 * 4;
  const Index apart = (Index)gridDim.x * (Index)blockDim.x * 4;
  _Pragma("unroll 1")
  for (Index e = ((Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x) * 4; e < n_whole; e += apart * 2) mul_add_exp_dbc8b1d2_::step<4, 2>(x0, y0, e, apart, n_whole);
  _Pragma("unroll 1")
  HG_GRID(t, n - n_whole) mul_add_exp_dbc8b1d2_::step<1, 1>(x0, y0, n_whole + t, 0, n);
}

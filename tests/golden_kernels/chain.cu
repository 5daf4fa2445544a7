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
namespace mul_add_exp_a7a33b6a_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
  const Index i0_0 = e;
  const hg::pack<float, W> p0 = hg::load<W>(x0 + i0_0);
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
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) mul_add_exp_a7a33b6a(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4;
  HG_GRID(t, n_whole) mul_add_exp_a7a33b6a_::step<4>(x0, y0, t * 4);
  HG_GRID(t, n - n_whole * 4) mul_add_exp_a7a33b6a_::step<1>(x0, y0, n_whole * 4 + t);
}

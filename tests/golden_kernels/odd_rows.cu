// graph odd_rows (x0: f32[9,1023], x1: f32[1023], x2: f32[9,1023]) -> (%7)
//   %3 = reshape(x1) shape=(1, 1023)  f32[1,1023]
//   %4 = broadcast(%3) shape=(9, 1023)  f32[9,1023]
//   %5 = add(x0, %4)  f32[9,1023]
//   %6 = max(%5, 0.0)  f32[9,1023]
//   %7 = mul(%6, x2)  f32[9,1023]
namespace add_max_mul_371373ce_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const Index e) {
  const hg::pack<float, W> p0 = hg::load<W>(x0 + e);
  const hg::pack<float, W> p1 = hg::load<W>(x2 + e);
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i1 = (e + j) % 1023;
    const float v0 = p0.v[j];
    const float v1 = x1[i1];
    const float v2 = v0 + v1;
    const float v3 = hg::maximum(v2, 0.0f);
    const float v4 = p1.v[j];
    const float v5 = v3 * v4;
    q0.v[j] = v5;
  }
  hg::store(y0 + e, q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) add_max_mul_371373ce(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0 * 1023;
  const Index n_whole = n / 4;
  HG_GRID(t, n_whole) add_max_mul_371373ce_::step<4>(x0, x1, x2, y0, t * 4);
  HG_GRID(t, n - n_whole * 4) add_max_mul_371373ce_::step<1>(x0, x1, x2, y0, n_whole * 4 + t);
}

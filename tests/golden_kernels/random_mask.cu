// graph random_mask (x0: f32[20,30], x1: u32[4]) -> (%8)
//   %2 = random_bits(x1) shape=(20, 30) stream=1  u32[20,30]
//   %3 = div(%2, 256)  u32[20,30]
//   %4 = cast(%3)  f32[20,30]
//   %5 = mul(%4, 5.9604645e-08)  f32[20,30]
//   %6 = ge(%5, 0.3)  bool[20,30]
//   %7 = mul(x0, 1.4285715)  f32[20,30]
//   %8 = select(%6, %7, 0.0)  f32[20,30]
namespace random_bits_div_select_c2261aef_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const unsigned int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long draw0, const Index e) {
  const Index i0_0 = e;
  const hg::pack<float, W> p0 = hg::load<W>(x1 + i0_0);
  hg::pack<float, W> q0;
  const unsigned int v0 = x0[0];
  const unsigned int v1 = x0[1];
  const unsigned int v2 = x0[2];
  const unsigned int v3 = x0[3];
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i0 = i0_0 + j;
    const long long v4 = (long long)i0;
    const unsigned int v5 = hg::random_bits(v0, v1, v2, v3, v4, (unsigned int)draw0);
    const unsigned int v6 = hg::idiv(v5, 256u);
    const float v7 = (float)v6;
    const float v8 = v7 * 5.9604645e-08f;
    const bool v9 = v8 >= 0.3f;
    const float v10 = p0.v[j];
    const float v11 = v10 * 1.4285715f;
    const float v12 = v9 ? v11 : 0.0f;
    q0.v[j] = v12;
  }
  hg::store(y0 + i0_0, q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) random_bits_div_select_c2261aef(const unsigned int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long n0, const long long draw0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4;
  HG_GRID(t, n_whole) random_bits_div_select_c2261aef_::step<4>(x0, x1, y0, draw0, t * 4);
  HG_GRID(t, n - n_whole * 4) random_bits_div_select_c2261aef_::step<1>(x0, x1, y0, draw0, n_whole * 4 + t);
}

// graph joined_rows (x0: f32[40,64], x1: f32[7,64], x2: f32[50,64]) -> (%4)
//   %3 = concat(x0, x1, x2) axis=0  f32[97,64]
//   %4 = exp(%3)  f32[97,64]
namespace exp_d2dcd059_ {
typedef int Index;
template <int W>
HG_DEVICE void step0(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long start0, const long long start1, const Index e) {
  const Index i0_0 = e;
  const hg::pack<float, W> p0 = hg::load<W>(x0 + i0_0);
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const float v0 = p0.v[j];
    const float v1 = hg::exp(v0);
    q0.v[j] = v1;
  }
  hg::store(y0 + i0_0, q0);
}
template <int W>
HG_DEVICE void step1(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long start0, const long long start1, const Index e) {
  const Index i0_0 = e + 2560;
  const hg::pack<float, W> p0 = hg::load<W>(x1 + (i0_0 + start0));
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const float v2 = p0.v[j];
    const float v3 = hg::exp(v2);
    q0.v[j] = v3;
  }
  hg::store(y0 + i0_0, q0);
}
template <int W>
HG_DEVICE void step2(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long start0, const long long start1, const Index e) {
  const Index i0_0 = e + 3008;
  const hg::pack<float, W> p0 = hg::load<W>(x2 + (i0_0 + start1));
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const float v4 = p0.v[j];
    const float v5 = hg::exp(v4);
    q0.v[j] = v5;
  }
  hg::store(y0 + i0_0, q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) exp_d2dcd059(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long n0, const long long start0, const long long start1) {
  typedef int Index;
  const Index blocks = (Index)gridDim.x;
  Index block = (Index)blockIdx.x;
  const Index n_0 = 2560;
  const Index n_0_whole = n_0 / 4;
  HG_SHARE(t, n_0_whole) exp_d2dcd059_::step0<4>(x0, x1, x2, y0, start0, start1, t * 4);
  HG_SHARE(t, n_0 - n_0_whole * 4) exp_d2dcd059_::step0<1>(x0, x1, x2, y0, start0, start1, n_0_whole * 4 + t);
  block = (block + blocks - 3 % blocks) % blocks;  // the next part begins where this one ends
  const Index n_1 = 448;
  const Index n_1_whole = n_1 / 4;
  HG_SHARE(t, n_1_whole) exp_d2dcd059_::step1<4>(x0, x1, x2, y0, start0, start1, t * 4);
  HG_SHARE(t, n_1 - n_1_whole * 4) exp_d2dcd059_::step1<1>(x0, x1, x2, y0, start0, start1, n_1_whole * 4 + t);
  block = (block + blocks - 1 % blocks) % blocks;  // the next part begins where this one ends
  const Index n_2 = 3200;
  const Index n_2_whole = n_2 / 4;
  HG_SHARE(t, n_2_whole) exp_d2dcd059_::step2<4>(x0, x1, x2, y0, start0, start1, t * 4);
  HG_SHARE(t, n_2 - n_2_whole * 4) exp_d2dcd059_::step2<1>(x0, x1, x2, y0, start0, start1, n_2_whole * 4 + t);
}

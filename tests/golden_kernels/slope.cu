// graph slope (x0: f32[3,4,9,9], x1: f32[3,8,7,7], x2: f32[8,4,3,3]) -> (%10)
//   %3 = max(x0, 0.0)  f32[3,4,9,9]
//   %4 = mul(x1, 2.0)  f32[3,8,7,7]
//   %5 = transpose(%3) perm=(1, 0, 2, 3)  f32[4,3,9,9]
//   %6 = transpose(%4) perm=(1, 0, 2, 3)  f32[8,3,7,7]
//   %7 = conv(%5, %6) base_dilate=(1, 1) dilate=(1, 1) groups=1 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[4,8,3,3]
//   %8 = transpose(%7) perm=(1, 0, 2, 3)  f32[8,4,3,3]
//   %9 = mul(x2, 0.01)  f32[8,4,3,3]
//   %10 = add(%8, %9)  f32[8,4,3,3]
namespace mul_bd342b59_ {
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
      const float v1 = v0 * 2.0f;
      q0.v[j] = v1;
    }
    hg::store(y0 + i0_0, q0);
  }
}
}  // namespace
extern "C" __global__ void HG_BOUNDS_FOR(256, 8) mul_bd342b59(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4 * 4;
  const Index apart = (Index)gridDim.x * (Index)blockDim.x * 4;
  _Pragma("unroll 1")
  for (Index e = ((Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x) * 4; e < n_whole; e += apart * 2) mul_bd342b59_::step<4, 2>(x0, y0, e, apart, n_whole);
  _Pragma("unroll 1")
  HG_GRID(t, n - n_whole) mul_bd342b59_::step<1, 1>(x0, y0, n_whole + t, 0, n);
}

namespace max_conv_add_e45ba652_ {
struct S {
  static constexpr int OG = 8;
  typedef int Index;
  static constexpr Index XC = 324, WO = 49, WC = 392;
  static constexpr int D = 1, H = 9, W = 9;
  static constexpr int KD = 1, KH = 7, KW = 7;
  static constexpr int SD = 1, SH = 1, SW = 1;
  static constexpr int DD = 1, DH = 1, DW = 1;
  static constexpr int BD = 1, BH = 1, BW = 1;
  static constexpr int LD = 0, LH = 0, LW = 0;
};
}  // namespace
extern "C" __global__ void HG_BOUNDS(128) max_conv_add_e45ba652(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index thread = (Index)blockIdx.x * 128 + threadIdx.x;
  if (thread >= (Index)n0 * 72) return;
  const Index e = thread;
  const Index i0 = e / 72;
  const Index i1 = e / 9 % 8;
  const Index i2 = e / 3 % 3;
  const Index i3 = e % 3;
  const auto image = [&](const int c, const int d, const int h, const int w) {
    const Index n = i0;
    const float v0 = x1[c * 324 + n * 81 + h * 9 + w];
    const float v1 = hg::maximum(v0, 0.0f);
    return float(v1);
  };
  const float v0 = hg::conv_element<max_conv_add_e45ba652_::S, float>(image, x2, 3, (int)i1, 0, (int)i2, (int)i3);
  const float v1 = x0[i1 * 36 + i0 * 9 + i2 * 3 + i3];
  const float v2 = v1 * 0.01f;
  const float v3 = v0 + v2;
  y0[i1 * 36 + i0 * 9 + i2 * 3 + i3] = v3;
}

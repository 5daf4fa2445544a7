// graph pooled_and_kept (x0: f32[2,3,10,10], x1: f32[4,3,3,3], x2: f32[4,1,1]) -> (%9, %3)
//   %3 = conv(x0, x1) base_dilate=(1, 1) dilate=(1, 1) groups=1 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[2,4,8,8]
//   %4 = reshape(x2) shape=(1, 4, 1, 1)  f32[1,4,1,1]
//   %5 = broadcast(%4) shape=(2, 4, 8, 8)  f32[2,4,8,8]
//   %6 = add(%3, %5)  f32[2,4,8,8]
//   %7 = max(%6, 0.0)  f32[2,4,8,8]
//   %8 = reshape(%7) shape=(2, 4, 4, 2, 4, 2)  f32[2,4,4,2,4,2]
//   %9 = amax(%8) axes=(3, 5)  f32[2,4,4,4]
namespace conv_add_amax_4d37df1f_ {
struct S {
  static constexpr int OG = 4;
  typedef int Index;
  static constexpr Index XC = 100, WO = 27, WC = 9;
  static constexpr int D = 1, H = 10, W = 10;
  static constexpr int KD = 1, KH = 3, KW = 3;
  static constexpr int SD = 1, SH = 1, SW = 1;
  static constexpr int DD = 1, DH = 1, DW = 1;
  static constexpr int BD = 1, BH = 1, BW = 1;
  static constexpr int LD = 0, LH = 0, LW = 0;
};
}  // namespace
extern "C" __global__ void HG_BOUNDS(128) conv_add_amax_4d37df1f(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, float* HG_RESTRICT y1, const long long n0) {
  typedef int Index;
  const Index thread = (Index)blockIdx.x * 128 + threadIdx.x;
  const bool live = thread < (Index)n0 * 256;  // others take part in exchanges
  const Index e = live ? thread / 4 : 0;
  const int lane = threadIdx.x % 4;
  const Index i0 = e / 64;
  const Index i1 = e / 16 % 4;
  const Index i2 = e / 4 % 4;
  const Index i3 = e % 4;
  const Index z0 = i0;
  const Index z1 = i1;
  const float v1 = x0[i1];
  hg::Max<float>::State a0 = hg::Max<float>::start();
  {
    const Index r = lane;
    const Index i4 = r / 2;
    const Index i5 = r % 2;
    const Index z2 = i2 * 2 + i4;
    const Index z3 = i3 * 2 + i5;
    const float v0 = hg::conv_element<conv_add_amax_4d37df1f_::S, float>(x1 + z0 * 300, x2, 3, (int)z1, 0, (int)z2, (int)z3);
    const float v2 = v0 + v1;
    const float v3 = hg::maximum(v2, 0.0f);
    if (live) y0[i0 * 256 + i1 * 64 + i2 * 16 + i4 * 8 + i3 * 2 + i5] = v0;
    a0 = hg::Max<float>::add(a0, v3, 0);
  }
  const float v4 = hg::Max<float>::result(hg::lanes_merge<hg::Max<float>, 4>(a0));
  if (live && lane == 0) y1[i0 * 64 + i1 * 16 + i2 * 4 + i3] = v4;
}

// graph input_dilated (x0: f32[2,6,5,7], x1: f32[8,3,3,2], x2: f32[8]) -> (%7)
//   %3 = conv(x0, x1) base_dilate=(2, 3) dilate=(1, 2) groups=2 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[2,8,7,17]
//   %4 = reshape(x2) shape=(1, 8, 1, 1)  f32[1,8,1,1]
//   %5 = broadcast(%4) shape=(2, 8, 7, 17)  f32[2,8,7,17]
//   %6 = add(%3, %5)  f32[2,8,7,17]
//   %7 = max(%6, 0.0)  f32[2,8,7,17]
namespace conv_add_max_d2eb5f2a_ {
struct S {
  static constexpr int OG = 4;
  typedef int Index;
  static constexpr Index XC = 35, WO = 18, WC = 6;
  static constexpr int D = 1, H = 5, W = 7;
  static constexpr int KD = 1, KH = 3, KW = 2;
  static constexpr int SD = 1, SH = 1, SW = 1;
  static constexpr int DD = 1, DH = 1, DW = 2;
  static constexpr int BD = 1, BH = 2, BW = 3;
  static constexpr int LD = 0, LH = 0, LW = 0;
};
}  // namespace
extern "C" __global__ void HG_BOUNDS(128) conv_add_max_d2eb5f2a(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index thread = (Index)blockIdx.x * 128 + threadIdx.x;
  if (thread >= (Index)n0 * 952) return;
  const Index e = thread;
  const Index i0 = e / 952;
  const Index i1 = e / 119 % 8;
  const Index i2 = e / 17 % 7;
  const Index i3 = e % 17;
  const float v0 = hg::conv_element<conv_add_max_d2eb5f2a_::S, float>(x1 + i0 * 210, x2, 3, (int)i1, 0, (int)i2, (int)i3);
  const float v1 = x0[i1];
  const float v2 = v0 + v1;
  const float v3 = hg::maximum(v2, 0.0f);
  y0[i0 * 952 + i1 * 119 + i2 * 17 + i3] = v3;
}

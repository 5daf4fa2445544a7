// graph convolved_with_prologue (x0: f32[2,4,12,16], x1: f32[4,1,1], x2: f32[4,1,1], x3: f32[8,4,3,3]) -> (%12)
//   %4 = reshape(x1) shape=(1, 4, 1, 1)  f32[1,4,1,1]
//   %5 = broadcast(%4) shape=(2, 4, 12, 16)  f32[2,4,12,16]
//   %6 = mul(x0, %5)  f32[2,4,12,16]
//   %7 = reshape(x2) shape=(1, 4, 1, 1)  f32[1,4,1,1]
//   %8 = broadcast(%7) shape=(2, 4, 12, 16)  f32[2,4,12,16]
//   %9 = add(%6, %8)  f32[2,4,12,16]
//   %10 = max(%9, 0.0)  f32[2,4,12,16]
//   %11 = conv(%10, x3) base_dilate=(1, 1) dilate=(1, 1) groups=1 high=(0, 0) low=(0, 0) stride=(1, 1)  f32[2,8,10,14]
//   %12 = mul(%11, 0.5)  f32[2,8,10,14]
namespace mul_add_conv_1ff39840_ {
struct S {
  static constexpr int OG = 8;
  typedef int Index;
  static constexpr Index XC = 192, WO = 36, WC = 9;
  static constexpr int D = 1, H = 12, W = 16;
  static constexpr int KD = 1, KH = 3, KW = 3;
  static constexpr int SD = 1, SH = 1, SW = 1;
  static constexpr int DD = 1, DH = 1, DW = 1;
  static constexpr int BD = 1, BH = 1, BW = 1;
  static constexpr int LD = 0, LH = 0, LW = 0;
};
}  // namespace
extern "C" __global__ void HG_BOUNDS(128) mul_add_conv_1ff39840(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, const float* HG_RESTRICT x2, const float* HG_RESTRICT x3, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index thread = (Index)blockIdx.x * 128 + threadIdx.x;
  if (thread >= (Index)n0 * 1120) return;
  const Index e = thread;
  const Index i0 = e / 1120;
  const Index i1 = e / 140 % 8;
  const Index i2 = e / 14 % 10;
  const Index i3 = e % 14;
  const auto image = [&](const int c, const int d, const int h, const int w) {
    const Index n = i0;
    const float v1 = x1[c];
    const float v3 = x2[c];
    const float v0 = x0[n * 768 + c * 192 + h * 16 + w];
    const float v2 = v0 * v1;
    const float v4 = v2 + v3;
    const float v5 = hg::maximum(v4, 0.0f);
    return float(v5);
  };
  const float v0 = hg::conv_element<mul_add_conv_1ff39840_::S, float>(image, x3, 4, (int)i1, 0, (int)i2, (int)i3);
  const float v1 = v0 * 0.5f;
  y0[i0 * 1120 + i1 * 140 + i2 * 14 + i3] = v1;
}

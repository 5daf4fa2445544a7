// graph concats (x0: f32[4,6], x1: f32[4,3]) -> (%4, %5, %7)
//   %2 = exp(x0)  f32[4,6]
//   %3 = reverse(x0) axes=(1,)  f32[4,6]
//   %4 = concat(%2, x1, %3) axis=1  f32[4,15]
//   %5 = pad(x0) high=(0, 2) low=(1, 0) value=3.0  f32[5,8]
//   %6 = reshape(x0) shape=(2, 12)  f32[2,12]
//   %7 = transpose(%6) perm=(1, 0)  f32[12,2]
namespace exp_copy_cd2b2d95_ {
typedef int Index;
template <int W>
HG_DEVICE void step0(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index e) {
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i0 = (e + j) / 15;
    const Index i1 = (e + j) % 15;
    const float v0 = i1 < 6 ? x0[i0 * 6 + i1] : 0.0f;
    const float v1 = hg::exp(v0);
    const float v2 = i1 - 6 >= 0 && i1 - 6 < 3 ? x1[i0 * 3 + i1 - 6] : 0.0f;
    const float v3 = i1 - 9 >= 0 ? x0[i0 * 6 - i1 + 14] : 0.0f;
    const bool v4 = i1 - 6 >= 0 && i1 - 6 < 3;
    const float v5 = v4 ? v2 : v3;
    const bool v6 = i1 < 6;
    const float v7 = v6 ? v1 : v5;
    q0.v[j] = v7;
  }
  hg::store(y0 + e, q0);
}
template <int W>
HG_DEVICE void step1(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
  const Index i0 = e / 8;
  const Index i1_0 = e % 8;
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i1 = i1_0 + j;
    const float v0 = i0 - 1 >= 0 && i1 < 6 ? x0[i0 * 6 + i1 - 6] : 0.0f;
    const bool v1 = i0 - 1 >= 0 && i1 < 6;
    const float v2 = v1 ? v0 : 3.0f;
    q0.v[j] = v2;
  }
  hg::store(y0 + (i0 * 8 + i1_0), q0);
}
template <int W>
HG_DEVICE void step2(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
  const Index i0 = e / 2;
  const Index i1_0 = e % 2;
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i1 = i1_0 + j;
    const float v0 = x0[i1 * 12 + i0];
    q0.v[j] = v0;
  }
  hg::store(y0 + (i0 * 2 + i1_0), q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) exp_copy_cd2b2d95(const float* HG_RESTRICT a0, const float* HG_RESTRICT a1, const float* HG_RESTRICT a2, const float* HG_RESTRICT a3, float* HG_RESTRICT b0, float* HG_RESTRICT b1, float* HG_RESTRICT b2, 
    const long long n0,
    const long long n1,
    const long long n2,
    const long long n3,
    const long long n4,
    const long long n5,
    const long long n6) {
  typedef int Index;
  const Index at = (Index)blockIdx.x;
  if (at < (Index)n1) {
    const Index n = (Index)n2, block = at - 0, blocks = (Index)n1 - 0;
    const Index n_whole = n / 4;
    HG_SHARE(t, n_whole) exp_copy_cd2b2d95_::step0<4>(a0, a1, b0, t * 4);
    HG_SHARE(t, n - n_whole * 4) exp_copy_cd2b2d95_::step0<1>(a0, a1, b0, n_whole * 4 + t);
  } else if (at < (Index)n3) {
    const Index n = (Index)n4, block = at - (Index)n1, blocks = (Index)n3 - (Index)n1;
    HG_SHARE(t, n / 4) exp_copy_cd2b2d95_::step1<4>(a2, b1, t * 4);
  } else {
    const Index n = (Index)n6, block = at - (Index)n3, blocks = (Index)n5 - (Index)n3;
    HG_SHARE(t, n / 2) exp_copy_cd2b2d95_::step2<2>(a3, b2, t * 2);
  }
}

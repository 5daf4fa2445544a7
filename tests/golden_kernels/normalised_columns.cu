// graph normalised_columns (x0: f32[3,5,40]) -> (%13, %15)
//   %1 = sum(x0) axes=(1,)  f32[3,40]
//   %2 = reshape(%1) shape=(3, 1, 40)  f32[3,1,40]
//   %3 = mul(%2, 0.2)  f32[3,1,40]
//   %4 = broadcast(%3) shape=(3, 5, 40)  f32[3,5,40]
//   %5 = sub(x0, %4)  f32[3,5,40]
//   %6 = mul(%5, %5)  f32[3,5,40]
//   %7 = sum(%6) axes=(1,)  f32[3,40]
//   %8 = reshape(%7) shape=(3, 1, 40)  f32[3,1,40]
//   %9 = mul(%8, 0.2)  f32[3,1,40]
//   %10 = add(%9, 1e-05)  f32[3,1,40]
//   %11 = rsqrt(%10)  f32[3,1,40]
//   %12 = broadcast(%11) shape=(3, 5, 40)  f32[3,5,40]
//   %13 = mul(%5, %12)  f32[3,5,40]
//   %14 = add(%9, 1.0)  f32[3,1,40]
//   %15 = log(%14)  f32[3,1,40]
extern "C" __global__ void HG_BOUNDS(128) sum_mul_sub_e4637813(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, float* HG_RESTRICT y1, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 40;
  HG_GRID(r, rows) {
    const Index i0 = r / 40;
    const Index i1 = r % 40;
    hg::Sum<float>::State a0 = hg::Sum<float>::start();
    for (int kept = 0; kept < 5; ++kept) {
      const Index i2 = kept;
      const float v0 = x0[i0 * 200 + i2 * 40 + i1];
      a0 = hg::Sum<float>::add(a0, v0, 0);
    }
    const float v1 = hg::Sum<float>::result(a0);
    const float v2 = v1 * 0.2f;
    hg::Sum<float>::State a1 = hg::Sum<float>::start();
    for (int kept = 0; kept < 5; ++kept) {
      const Index i2 = kept;
      const float v0 = x0[i0 * 200 + i2 * 40 + i1];
      const float v3 = v0 - v2;
      const float v4 = v3 * v3;
      a1 = hg::Sum<float>::add(a1, v4, 0);
      y0[i0 * 200 + i2 * 40 + i1] = v3;
    }
    const float v5 = hg::Sum<float>::result(a1);
    const float v6 = v5 * 0.2f;
    y1[i0 * 40 + i1] = v6;
  }
}

namespace add_rsqrt_mul_e4c31152_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index e) {
  const Index i0 = e / 200;
  const Index i1 = e / 40 % 5;
  const Index i2_0 = e % 40;
  const hg::pack<float, W> p0 = hg::load<W>(x0 + (i0 * 200 + i1 * 40 + i2_0));
  const hg::pack<float, W> p1 = hg::load<W>(x1 + (i0 * 40 + i2_0));
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const float v0 = p0.v[j];
    const float v1 = p1.v[j];
    const float v2 = v1 + 1e-05f;
    const float v3 = hg::rsqrt(v2);
    const float v4 = v0 * v3;
    q0.v[j] = v4;
  }
  hg::store(y0 + (i0 * 200 + i1 * 40 + i2_0), q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) add_rsqrt_mul_e4c31152(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0 * 200;
  HG_GRID(t, n / 4) add_rsqrt_mul_e4c31152_::step<4>(x0, x1, y0, t * 4);
}

namespace add_log_f6e63b9b_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
  const Index i0_0 = e;
  const hg::pack<float, W> p0 = hg::load<W>(x0 + i0_0);
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const float v0 = p0.v[j];
    const float v1 = v0 + 1.0f;
    const float v2 = hg::log(v1);
    q0.v[j] = v2;
  }
  hg::store(y0 + i0_0, q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) add_log_f6e63b9b(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index whole = n / 4;
  HG_GRID(t, whole) add_log_f6e63b9b_::step<4>(x0, y0, t * 4);
  HG_GRID(t, n - whole * 4) add_log_f6e63b9b_::step<1>(x0, y0, whole * 4 + t);
}

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
extern "C" __global__ void HG_BOUNDS(32) sum_mul_sub_a6c5fae8(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, float* HG_RESTRICT y1, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 40;
  const int across = threadIdx.x % 32;
  for (Index block = (Index)blockIdx.x * 128; block < rows; block += (Index)gridDim.x * 128) {
    const Index wanted = block + across * 4;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 4;  // threads without rows still take part in barriers
    const Index i0 = r / 40;
    const Index i1_0 = r % 40;
    float k0[20];
    float r_v1[4];
    float r_v2[4];
    float r_v5[4];
    hg::Sum<float>::State a0[4];
    HG_UNROLL
    for (int j = 0; j < 4; ++j) a0[j] = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 5; ++step) {
      const Index i2 = step;
      const hg::span<float, 4> p0 = hg::read<4>(x0 + (i0 * 200 + i2 * 40 + i1_0));
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = p0.v[j];
        k0[step * 4 + j] = v0;
        a0[j] = hg::Sum<float>::add(a0[j], v0, 0);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 4; ++j) r_v1[j] = hg::Sum<float>::result(a0[j]);
    {
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v1 = r_v1[j];
        const float v2 = v1 * 0.2f;
        r_v2[j] = v2;
      }
    }
    hg::Sum<float>::State a1[4];
    HG_UNROLL
    for (int j = 0; j < 4; ++j) a1[j] = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 5; ++step) {
      const Index i2 = step;
      hg::span<float, 4> q0;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v2 = r_v2[j];
        const float v0 = k0[step * 4 + j];
        const float v3 = v0 - v2;
        const float v4 = v3 * v3;
        q0.v[j] = v3;
        a1[j] = hg::Sum<float>::add(a1[j], v4, 0);
      }
      if (live) hg::write(y0 + (i0 * 200 + i2 * 40 + i1_0), q0);
    }
    HG_UNROLL
    for (int j = 0; j < 4; ++j) r_v5[j] = hg::Sum<float>::result(a1[j]);
    if (live) {
      hg::span<float, 4> q1;
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v5 = r_v5[j];
        const float v6 = v5 * 0.2f;
        q1.v[j] = v6;
      }
      hg::write(y1 + (i0 * 40 + i1_0), q1);
    }
  }
}

namespace add_rsqrt_log_754e9876_ {
typedef int Index;
template <int W>
HG_DEVICE void step0(const float* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const Index e) {
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
template <int W>
HG_DEVICE void step1(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
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
extern "C" __global__ void HG_BOUNDS(256) add_rsqrt_log_754e9876(const float* HG_RESTRICT a0, const float* HG_RESTRICT a1, const float* HG_RESTRICT a2, float* HG_RESTRICT b0, float* HG_RESTRICT b1, 
    const long long n0,
    const long long n1,
    const long long n2,
    const long long n3,
    const long long n4) {
  typedef int Index;
  const Index at = (Index)blockIdx.x;
  if (at < (Index)n1) {
    const Index n = (Index)n2, block = at - 0, blocks = (Index)n1 - 0;
    HG_SHARE(t, n / 4) add_rsqrt_log_754e9876_::step0<4>(a0, a1, b0, t * 4);
  } else {
    const Index n = (Index)n4, block = at - (Index)n1, blocks = (Index)n3 - (Index)n1;
    const Index n_whole = n / 4;
    HG_SHARE(t, n_whole) add_rsqrt_log_754e9876_::step1<4>(a2, b1, t * 4);
    HG_SHARE(t, n - n_whole * 4) add_rsqrt_log_754e9876_::step1<1>(a2, b1, n_whole * 4 + t);
  }
}

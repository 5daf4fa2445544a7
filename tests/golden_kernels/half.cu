// graph half (x0: f16[65], x1: f16[65]) -> (%3, %5, %7)
//   %2 = mul(x0, x1)  f16[65]
//   %3 = add(%2, 1.0)  f16[65]
//   %4 = exp(x0)  f16[65]
//   %5 = cast(%4)  f32[65]
//   %6 = sum(x0) axes=(0,)  f32[]
//   %7 = round_to(%6)  f16[]
namespace mul_add_cast_72546157_ {
typedef int Index;
template <int W, int U>
HG_DEVICE void step(const hg::half* HG_RESTRICT x0, const hg::half* HG_RESTRICT x1, hg::half* HG_RESTRICT y0, float* HG_RESTRICT y1, const Index first, const Index apart, const Index n) {
  hg::pack<hg::half, W> p0_[U];
  hg::pack<hg::half, W> p1_[U];
  HG_UNROLL
  for (int u = 0; u < U; ++u) {
    const Index e = first + u * apart;
    if (u > 0 && e >= n) continue;
    const Index i0_0 = e;
    p0_[u] = hg::load<W>(x0 + i0_0);
    p1_[u] = hg::load<W>(x1 + i0_0);
  }
  HG_UNROLL
  for (int u = 0; u < U; ++u) {
    const Index e = first + u * apart;
    if (u > 0 && e >= n) continue;
    const Index i0_0 = e;
    const hg::pack<hg::half, W> p0 = p0_[u];
    const hg::pack<hg::half, W> p1 = p1_[u];
    hg::pack<hg::half, W> q0;
    hg::pack<float, W> q1;
    HG_UNROLL
    for (int j = 0; j < W; ++j) {
      const float v0 = p0.v[j];
      const float v1 = p1.v[j];
      const float v2 = v0 * v1;
      const float v3 = v2 + 1.0f;
      const float v4 = hg::exp(v0);
      const float v5 = (float)v4;
      q0.v[j] = v3;
      q1.v[j] = v5;
    }
    hg::store(y0 + i0_0, q0);
    hg::store(y1 + i0_0, q1);
  }
}
}  // namespace
extern "C" __global__ void HG_BOUNDS_FOR(256, 8) mul_add_cast_72546157(const hg::half* HG_RESTRICT x0, const hg::half* HG_RESTRICT x1, hg::half* HG_RESTRICT y0, float* HG_RESTRICT y1, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4 * 4;
  const Index apart = (Index)gridDim.x * (Index)blockDim.x * 4;
  _Pragma("unroll 1")
  for (Index e = ((Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x) * 4; e < n_whole; e += apart * 2) mul_add_cast_72546157_::step<4, 2>(x0, x1, y0, y1, e, apart, n_whole);
  _Pragma("unroll 1")
  HG_GRID(t, n - n_whole) mul_add_cast_72546157_::step<1, 1>(x0, x1, y0, y1, n_whole + t, 0, n);
}

extern "C" __global__ void HG_BOUNDS(128) sum_copy_4fbaa4cd(const hg::half* HG_RESTRICT x0, hg::half* HG_RESTRICT y0, const long long n0, const long long n_i0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 16;
  for (Index block = (Index)blockIdx.x * 8; block < rows; block += (Index)gridDim.x * 8) {
    const Index wanted = block + (Index)threadIdx.x / 16;
    const bool live = wanted < rows;
    hg::Sum<float>::State a0 = hg::Sum<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < ((Index)n_i0 + 15) / 16; ++step) {
      const Index i0_0 = step * 16 + lane;
      if (i0_0 >= (Index)n_i0) continue;
      const hg::span<hg::half, 1> p0 = hg::read<1>(x0 + i0_0);
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const float v0 = p0.v[j];
        a0 = hg::Sum<float>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Sum<float>, 16>(a0);
    const float v1 = hg::Sum<float>::result(a0);
    if (live && lane == 0) {
      y0[0] = v1;
    }
  }
}

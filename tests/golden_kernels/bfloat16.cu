// graph bfloat16 (x0: bf16[65], x1: bf16[65]) -> (%4, %6, %8, %10, %11)
//   %2 = cast(x0)  f16[65]
//   %3 = mul(x0, x1)  bf16[65]
//   %4 = add(%3, 1.0)  bf16[65]
//   %5 = exp(x0)  bf16[65]
//   %6 = cast(%5)  f32[65]
//   %7 = sum(x0) axes=(0,)  f32[]
//   %8 = round_to(%7)  bf16[]
//   %9 = mul(%2, 0.5)  f16[65]
//   %10 = cast(%9)  bf16[65]
//   %11 = amax(x1) axes=(0,)  bf16[]
namespace cast_mul_exp_c66620e1_ {
typedef int Index;
template <int W, int U>
HG_DEVICE void step(const hg::bfloat16* HG_RESTRICT x0, const hg::bfloat16* HG_RESTRICT x1, hg::bfloat16* HG_RESTRICT y0, float* HG_RESTRICT y1, hg::bfloat16* HG_RESTRICT y2, const Index first, const Index apart, const Index n) {
  hg::pack<hg::bfloat16, W> p0_[U];
  hg::pack<hg::bfloat16, W> p1_[U];
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
    const hg::pack<hg::bfloat16, W> p0 = p0_[u];
    const hg::pack<hg::bfloat16, W> p1 = p1_[u];
    hg::pack<hg::bfloat16, W> q0;
    hg::pack<float, W> q1;
    hg::pack<hg::bfloat16, W> q2;
    HG_UNROLL
    for (int j = 0; j < W; ++j) {
      const float v0 = p0.v[j];
      const float v1 = p1.v[j];
      const float v2 = v0 * v1;
      const float v3 = v2 + 1.0f;
      const float v4 = hg::exp(v0);
      const float v5 = (float)v4;
      const float v6 = hg::round_half(v0);
      const float v7 = v6 * 0.5f;
      const float v8 = hg::round_bfloat16(v7);
      q0.v[j] = v3;
      q1.v[j] = v5;
      q2.v[j] = v8;
    }
    hg::store(y0 + i0_0, q0);
    hg::store(y1 + i0_0, q1);
    hg::store(y2 + i0_0, q2);
  }
}
}  // namespace
extern "C" __global__ void HG_BOUNDS_FOR(256, 8) cast_mul_exp_c66620e1(const hg::bfloat16* HG_RESTRICT x0, const hg::bfloat16* HG_RESTRICT x1, hg::bfloat16* HG_RESTRICT y0, float* HG_RESTRICT y1, hg::bfloat16* HG_RESTRICT y2, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4 * 4;
  const Index apart = (Index)gridDim.x * (Index)blockDim.x * 4;
  _Pragma("unroll 1")
  for (Index e = ((Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x) * 4; e < n_whole; e += apart * 2) cast_mul_exp_c66620e1_::step<4, 2>(x0, x1, y0, y1, y2, e, apart, n_whole);
  _Pragma("unroll 1")
  HG_GRID(t, n - n_whole) cast_mul_exp_c66620e1_::step<1, 1>(x0, x1, y0, y1, y2, n_whole + t, 0, n);
}

extern "C" __global__ void HG_BOUNDS(128) amax_033b86eb(const hg::bfloat16* HG_RESTRICT x0, hg::bfloat16* HG_RESTRICT y0, const long long n0, const long long n_i0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 16;
  for (Index block = (Index)blockIdx.x * 8; block < rows; block += (Index)gridDim.x * 8) {
    const Index wanted = block + (Index)threadIdx.x / 16;
    const bool live = wanted < rows;
    hg::Max<float>::State a0 = hg::Max<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < ((Index)n_i0 + 15) / 16; ++step) {
      const Index i0_0 = step * 16 + lane;
      if (i0_0 >= (Index)n_i0) continue;
      const hg::span<hg::bfloat16, 1> p0 = hg::read<1>(x0 + i0_0);
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const float v0 = p0.v[j];
        a0 = hg::Max<float>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Max<float>, 16>(a0);
    const float v1 = hg::Max<float>::result(a0);
    if (live && lane == 0) {
      y0[0] = v1;
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) sum_copy_b08dc6d9(const hg::bfloat16* HG_RESTRICT x0, hg::bfloat16* HG_RESTRICT y0, const long long n0, const long long n_i0) {
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
      const hg::span<hg::bfloat16, 1> p0 = hg::read<1>(x0 + i0_0);
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

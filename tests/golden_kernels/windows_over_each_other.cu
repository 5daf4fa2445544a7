// graph windows_over_each_other (x0: f32[2,3,12,40], x1: f32[2,3,6,20]) -> (%19)
//   %2 = pad(x0) high=(0, 0, 1, 1) low=(0, 0, 1, 1) value=-1.0  f32[2,3,14,42]
//   %3 = reshape(%2) shape=(1, 1, 2, 3, 14, 42)  f32[1,1,2,3,14,42]
//   %4 = broadcast(%3) shape=(3, 3, 2, 3, 14, 42)  f32[3,3,2,3,14,42]
//   %5 = unfold(%4) dilate=(1, 1) extent=(6, 20) stride=(2, 2)  f32[3,3,2,3,6,20]
//   %6 = argmax(%5) axes=(0, 1)  i64[2,3,6,20]
//   %7 = iota() axis=1  i64[3,3,2,3,6,20]
//   %8 = iota() axis=0  i64[3,3,2,3,6,20]
//   %9 = mul(%8, 3)  i64[3,3,2,3,6,20]
//   %10 = add(%7, %9)  i64[3,3,2,3,6,20]
//   %11 = reshape(%6) shape=(1, 1, 2, 3, 6, 20)  i64[1,1,2,3,6,20]
//   %12 = broadcast(%11) shape=(3, 3, 2, 3, 6, 20)  i64[3,3,2,3,6,20]
//   %13 = eq(%10, %12)  bool[3,3,2,3,6,20]
//   %14 = reshape(x1) shape=(1, 1, 2, 3, 6, 20)  f32[1,1,2,3,6,20]
//   %15 = broadcast(%14) shape=(3, 3, 2, 3, 6, 20)  f32[3,3,2,3,6,20]
//   %16 = select(%13, %15, 0.0)  f32[3,3,2,3,6,20]
//   %17 = fold(%16) dilate=(1, 1) extent=(14, 42) stride=(2, 2)  f32[3,3,2,3,14,42]
//   %18 = sum(%17) axes=(0, 1)  f32[2,3,14,42]
//   %19 = slice(%18) begin=(0, 0, 1, 1) end=(2, 3, 13, 41) step=(1, 1, 1, 1)  f32[2,3,12,40]
extern "C" __global__ void HG_BOUNDS(128) argmax_47436850(const float* HG_RESTRICT x0, long long* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 120;
  const int across = threadIdx.x % 128;
  for (Index block = (Index)blockIdx.x * 128; block < rows; block += (Index)gridDim.x * 128) {
    const Index wanted = block + across * 1;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 1;  // threads without rows still take part in barriers
    const Index i0 = r / 120;
    const Index i1 = r / 20 % 6;
    const Index i2_0 = r % 20;
    long long r_v3[1];
    hg::ArgMax<float>::State a0[1];
    HG_UNROLL
    for (int j = 0; j < 1; ++j) a0[j] = hg::ArgMax<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < 9; ++step) {
      const Index c = step;
      const Index i3 = c / 3;
      const Index i4 = c % 3;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const Index i2 = i2_0 + j;
        const float v0 = i1 * 2 + i3 - 1 >= 0 && i2 * 2 + i4 - 1 >= 0 ? x0[i0 * 480 + i1 * 80 + i3 * 40 + i2 * 2 + i4 - 41] : 0.0f;
        const bool v1 = i1 * 2 + i3 - 1 >= 0 && i2 * 2 + i4 - 1 >= 0;
        const float v2 = v1 ? v0 : (-1.0f);
        a0[j] = hg::ArgMax<float>::add(a0[j], v2, i3 * 3 + i4);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 1; ++j) r_v3[j] = hg::ArgMax<float>::result(a0[j]);
    if (live) {
      hg::span<long long, 1> q0;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const long long v3 = r_v3[j];
        q0.v[j] = v3;
      }
      hg::write(y0 + (i0 * 120 + i1 * 20 + i2_0), q0);
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) mul_add_sum_172f8415(const long long* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 588;
  const int lane = threadIdx.x % 4;
  for (Index block = (Index)blockIdx.x * 32; block < rows; block += (Index)gridDim.x * 32) {
    const Index wanted = block + (Index)threadIdx.x / 4;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 1;  // a team without a row still takes part in barriers
    const Index i0 = r / 588;
    const Index i1 = r / 42 % 14;
    const Index i2 = r % 42;
    hg::Sum<float>::State a0 = hg::Sum<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 3; ++step) {
      const Index c_0 = step * 4 + lane;
      if (c_0 >= 9) continue;
      const Index i3 = c_0 / 3;
      const Index i4_0 = c_0 % 3;
      HG_UNROLL
      for (int j = 0; j < 1; ++j) {
        const Index i4 = i4_0 + j;
        const long long v0 = (long long)i4;
        const long long v1 = (long long)i3;
        const long long v2 = hg::times(v1, 3ll);
        const long long v3 = hg::plus(v0, v2);
        const long long v4 = ((i1 - i3 + 2) % 2) < 1 && i1 - i3 >= 0 && i1 - i3 < 12 && ((i2 - i4 + 2) % 2) < 1 && i2 - i4 >= 0 && i2 - i4 < 40 ? x0[i0 * 120 + (i1 - i3 + 2) / 2 * 20 + (i2 - i4 + 2) / 2 - 21] : 0ll;
        const bool v5 = v3 == v4;
        const float v6 = ((i1 - i3 + 2) % 2) < 1 && i1 - i3 >= 0 && i1 - i3 < 12 && ((i2 - i4 + 2) % 2) < 1 && i2 - i4 >= 0 && i2 - i4 < 40 ? x1[i0 * 120 + (i1 - i3 + 2) / 2 * 20 + (i2 - i4 + 2) / 2 - 21] : 0.0f;
        const float v7 = v5 ? v6 : 0.0f;
        const bool v8 = ((i1 - i3 + 2) % 2) < 1 && i1 - i3 >= 0 && i1 - i3 < 12 && ((i2 - i4 + 2) % 2) < 1 && i2 - i4 >= 0 && i2 - i4 < 40;
        const float v9 = v8 ? v7 : 0.0f;
        a0 = hg::Sum<float>::add(a0, v9, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Sum<float>, 4>(a0);
    const float v10 = hg::Sum<float>::result(a0);
    if (live && lane == 0) {
      y0[i0 * 588 + i1 * 42 + i2] = v10;
    }
  }
}

namespace copy_6bcea0a1_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const Index e) {
  const Index i0 = e / 480;
  const Index i1 = e / 40 % 12;
  const Index i2_0 = e % 40;
  hg::pack<float, W> q0;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const Index i2 = i2_0 + j;
    const float v0 = x0[i0 * 588 + i1 * 42 + i2 + 43];
    q0.v[j] = v0;
  }
  hg::store(y0 + (i0 * 480 + i1 * 40 + i2_0), q0);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) copy_6bcea0a1(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0 * 480;
  HG_GRID(t, n / 4) copy_6bcea0a1_::step<4>(x0, y0, t * 4);
}

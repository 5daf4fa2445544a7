// graph integers (x0: i32[30], x1: i32[30]) -> (%2, %3, %4, %5, %6, %7, %8, %9)
//   %2 = add(x0, x1)  i32[30]
//   %3 = div(x0, x1)  i32[30]
//   %4 = mod(x0, x1)  i32[30]
//   %5 = max(x0, x1)  i32[30]
//   %6 = abs(x0)  i32[30]
//   %7 = sign(x1)  i32[30]
//   %8 = sum(x0) axes=(0,)  i32[]
//   %9 = neg(x0)  i32[30]
namespace add_div_neg_e22e97a8_ {
typedef int Index;
template <int W>
HG_DEVICE void step(const int* HG_RESTRICT x0, const int* HG_RESTRICT x1, int* HG_RESTRICT y0, int* HG_RESTRICT y1, int* HG_RESTRICT y2, int* HG_RESTRICT y3, int* HG_RESTRICT y4, int* HG_RESTRICT y5, int* HG_RESTRICT y6, const Index e) {
  const Index i0_0 = e;
  const hg::pack<int, W> p0 = hg::load<W>(x0 + i0_0);
  const hg::pack<int, W> p1 = hg::load<W>(x1 + i0_0);
  hg::pack<int, W> q0;
  hg::pack<int, W> q1;
  hg::pack<int, W> q2;
  hg::pack<int, W> q3;
  hg::pack<int, W> q4;
  hg::pack<int, W> q5;
  hg::pack<int, W> q6;
  HG_UNROLL
  for (int j = 0; j < W; ++j) {
    const int v0 = p0.v[j];
    const int v1 = p1.v[j];
    const int v2 = hg::plus(v0, v1);
    const int v3 = hg::idiv(v0, v1);
    const int v4 = hg::mod(v0, v1);
    const int v5 = hg::maximum(v0, v1);
    const int v6 = hg::abs(v0);
    const int v7 = hg::sign(v1);
    const int v8 = hg::negative(v0);
    q0.v[j] = v2;
    q1.v[j] = v3;
    q2.v[j] = v4;
    q3.v[j] = v5;
    q4.v[j] = v6;
    q5.v[j] = v7;
    q6.v[j] = v8;
  }
  hg::store(y0 + i0_0, q0);
  hg::store(y1 + i0_0, q1);
  hg::store(y2 + i0_0, q2);
  hg::store(y3 + i0_0, q3);
  hg::store(y4 + i0_0, q4);
  hg::store(y5 + i0_0, q5);
  hg::store(y6 + i0_0, q6);
}
}  // namespace
extern "C" __global__ void HG_BOUNDS(256) add_div_neg_e22e97a8(const int* HG_RESTRICT x0, const int* HG_RESTRICT x1, int* HG_RESTRICT y0, int* HG_RESTRICT y1, int* HG_RESTRICT y2, int* HG_RESTRICT y3, int* HG_RESTRICT y4, int* HG_RESTRICT y5, int* HG_RESTRICT y6, const long long n0) {
  typedef int Index;
  const Index n = (Index)n0;
  const Index n_whole = n / 4;
  HG_GRID(t, n_whole) add_div_neg_e22e97a8_::step<4>(x0, x1, y0, y1, y2, y3, y4, y5, y6, t * 4);
  HG_GRID(t, n - n_whole * 4) add_div_neg_e22e97a8_::step<1>(x0, x1, y0, y1, y2, y3, y4, y5, y6, n_whole * 4 + t);
}

extern "C" __global__ void HG_BOUNDS(128) sum_fe40fa96(const int* HG_RESTRICT x0, int* HG_RESTRICT y0, const long long n0, const long long n_i0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 16;
  for (Index block = (Index)blockIdx.x * 8; block < rows; block += (Index)gridDim.x * 8) {
    const Index wanted = block + (Index)threadIdx.x / 16;
    const bool live = wanted < rows;
    hg::Sum<int>::State a0 = hg::Sum<int>::start();
    #pragma unroll 4
    for (Index step = 0; step < ((Index)n_i0 + 31) / 32; ++step) {
      const Index i0_0 = (step * 16 + lane) * 2;
      if (i0_0 >= (Index)n_i0) continue;
      const hg::span<int, 2> p0 = hg::read<2>(x0 + i0_0);
      HG_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int v0 = p0.v[j];
        a0 = hg::Sum<int>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Sum<int>, 16>(a0);
    const int v1 = hg::Sum<int>::result(a0);
    if (live && lane == 0) {
      y0[0] = v1;
    }
  }
}

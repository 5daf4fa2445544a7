// graph many_axes (x0: f32[3,4,5,6]) -> (%1, %2, %4, %5)
//   %1 = sum(x0) axes=(0, 2)  f32[4,6]
//   %2 = amax(x0) axes=(1, 3)  f32[3,5]
//   %3 = sum(x0) axes=(0, 1, 2, 3)  f32[]
//   %4 = mul(%3, 0.0027777778)  f32[]
//   %5 = amin(x0) axes=(0, 1, 2)  f32[6]
extern "C" __global__ void HG_BOUNDS(128) sum_a65b3e50(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 6;
  HG_GRID(r, rows) {
    const Index i0 = r / 6;
    const Index i1 = r % 6;
    hg::Sum<float>::State a0 = hg::Sum<float>::start();
    for (int kept = 0; kept < 15; ++kept) {
      const Index c = kept;
      const Index i2 = c / 5;
      const Index i3 = c % 5;
      const float v0 = x0[i2 * 120 + i0 * 30 + i3 * 6 + i1];
      a0 = hg::Sum<float>::add(a0, v0, 0);
    }
    const float v1 = hg::Sum<float>::result(a0);
    y0[i0 * 6 + i1] = v1;
  }
}

extern "C" __global__ void HG_BOUNDS(128) amax_a65a5683(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 5;
  const int lane = threadIdx.x % 32;
  for (Index block = (Index)blockIdx.x * 4; block < rows; block += (Index)gridDim.x * 4) {
    const Index wanted = block + (Index)threadIdx.x / 32;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 1;  // a team without a row still takes part in barriers
    const Index i0 = r / 5;
    const Index i1 = r % 5;
    hg::Max<float>::State a0 = hg::Max<float>::start();
    for (int kept = 0; kept < 1; ++kept) {
      const Index c = kept * 32 + lane;
      if (c >= 24) continue;
      const Index i2 = c / 6;
      const Index i3 = c % 6;
      const float v0 = x0[i0 * 120 + i2 * 30 + i1 * 6 + i3];
      a0 = hg::Max<float>::add(a0, v0, 0);
    }
    a0 = hg::team_merge<hg::Max<float>, 32, 128>(a0);
    const float v1 = hg::Max<float>::result(a0);
    if (live && lane == 0) {
      y0[i0 * 5 + i1] = v1;
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) sum_mul_43228fff(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 64;
  for (Index block = (Index)blockIdx.x * 2; block < rows; block += (Index)gridDim.x * 2) {
    const Index wanted = block + (Index)threadIdx.x / 64;
    const bool live = wanted < rows;
    hg::Sum<float>::State a0 = hg::Sum<float>::start();
    for (int kept = 0; kept < 6; ++kept) {
      const Index i0 = kept * 64 + lane;
      if (i0 >= 360) continue;
      const float v0 = x0[i0];
      a0 = hg::Sum<float>::add(a0, v0, 0);
    }
    a0 = hg::team_merge<hg::Sum<float>, 64, 128>(a0);
    const float v1 = hg::Sum<float>::result(a0);
    const float v2 = v1 * 0.0027777778f;
    if (live && lane == 0) {
      y0[0] = v2;
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) amin_9c8e35c2(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0;
  HG_GRID(i0, rows) {
    hg::Min<float>::State a0 = hg::Min<float>::start();
    for (int kept = 0; kept < 60; ++kept) {
      const Index i1 = kept;
      const float v0 = x0[i1 * 6 + i0];
      a0 = hg::Min<float>::add(a0, v0, 0);
    }
    const float v1 = hg::Min<float>::result(a0);
    y0[i0] = v1;
  }
}

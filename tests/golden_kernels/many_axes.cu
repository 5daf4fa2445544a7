// graph many_axes (x0: f32[3,4,5,6]) -> (%1, %2, %4, %5)
//   %1 = sum(x0) axes=(0, 2)  f32[4,6]
//   %2 = amax(x0) axes=(1, 3)  f32[3,5]
//   %3 = sum(x0) axes=(0, 1, 2, 3)  f32[]
//   %4 = mul(%3, 0.0027777778)  f32[]
//   %5 = amin(x0) axes=(0, 1, 2)  f32[6]
extern "C" __global__ void HG_BOUNDS(32) sum_c0d2bb48(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 6;
  const int across = threadIdx.x % 16;
  const int down = threadIdx.x / 16;
  for (Index block = (Index)blockIdx.x * 32; block < rows; block += (Index)gridDim.x * 32) {
    const Index wanted = block + across * 2;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 2;  // threads without rows still take part in barriers
    const Index i0 = r / 6;
    const Index i1_0 = r % 6;
    float r_v1[2];
    hg::Sum<float>::State a0[2];
    HG_UNROLL
    for (int j = 0; j < 2; ++j) a0[j] = hg::Sum<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < 8; ++step) {
      const Index c = step * 2 + down;
      if (c >= 15) continue;
      const Index i2 = c / 5;
      const Index i3 = c % 5;
      const hg::span<float, 2> p0 = hg::read<2>(x0 + (i2 * 120 + i0 * 30 + i3 * 6 + i1_0));
      HG_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float v0 = p0.v[j];
        a0[j] = hg::Sum<float>::add(a0[j], v0, 0);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 2; ++j) {
      a0[j] = hg::lanes_merge<hg::Sum<float>, 32, 16>(a0[j]);
    }
    HG_UNROLL
    for (int j = 0; j < 2; ++j) r_v1[j] = hg::Sum<float>::result(a0[j]);
    if (live && down == 0) {
      hg::span<float, 2> q0;
      HG_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float v1 = r_v1[j];
        q0.v[j] = v1;
      }
      hg::write(y0 + (i0 * 6 + i1_0), q0);
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) amax_5f748d93(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0) {
  typedef int Index;
  const Index rows = (Index)n0 * 5;
  const int lane = threadIdx.x % 4;
  for (Index block = (Index)blockIdx.x * 32; block < rows; block += (Index)gridDim.x * 32) {
    const Index wanted = block + (Index)threadIdx.x / 4;
    const bool live = wanted < rows;
    const Index r = live ? wanted : rows - 1;  // a team without a row still takes part in barriers
    const Index i0 = r / 5;
    const Index i1 = r % 5;
    hg::Max<float>::State a0 = hg::Max<float>::start();
    HG_UNROLL
    for (Index step = 0; step < 3; ++step) {
      const Index c_0 = (step * 4 + lane) * 2;
      const Index i2 = c_0 / 6;
      const Index i3_0 = c_0 % 6;
      const hg::span<float, 2> p0 = hg::read<2>(x0 + (i0 * 120 + i2 * 30 + i1 * 6 + i3_0));
      HG_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float v0 = p0.v[j];
        a0 = hg::Max<float>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Max<float>, 4>(a0);
    const float v1 = hg::Max<float>::result(a0);
    if (live && lane == 0) {
      y0[i0 * 5 + i1] = v1;
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) sum_mul_1cb9313a(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0, const long long reciprocal0, const long long n_i0) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int lane = threadIdx.x % 16;
  for (Index block = (Index)blockIdx.x * 8; block < rows; block += (Index)gridDim.x * 8) {
    const Index wanted = block + (Index)threadIdx.x / 16;
    const bool live = wanted < rows;
    hg::Sum<float>::State a0 = hg::Sum<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < ((Index)n_i0 + 63) / 64; ++step) {
      const Index i0_0 = (step * 16 + lane) * 4;
      if (i0_0 >= (Index)n_i0) continue;
      const hg::span<float, 4> p0 = hg::read<4>(x0 + i0_0);
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = p0.v[j];
        a0 = hg::Sum<float>::add(a0, v0, 0);
      }
    }
    a0 = hg::lanes_merge<hg::Sum<float>, 16>(a0);
    const float v1 = hg::Sum<float>::result(a0);
    const float v2 = v1 * hg::FloatArgument<float>::from_bits(reciprocal0);
    if (live && lane == 0) {
      y0[0] = v2;
    }
  }
}

extern "C" __global__ void HG_BOUNDS(128) amin_49e7353a(const float* HG_RESTRICT x0, float* HG_RESTRICT y0, const long long n0, const long long n_i1) {
  typedef int Index;
  const Index rows = (Index)n0;
  const int across = threadIdx.x % 4;
  const int down = threadIdx.x / 4;
  __shared__ struct {
    hg::Min<float>::State part_a0[4][2][4];
  } pool;
  for (Index block = (Index)blockIdx.x * 8; block < rows; block += (Index)gridDim.x * 8) {
    const Index wanted = block + across * 2;
    const bool live = wanted < rows;
    const Index i0_0 = live ? wanted : rows - 2;  // threads without rows still take part in barriers
    float r_v1[2];
    hg::Min<float>::State a0[2];
    HG_UNROLL
    for (int j = 0; j < 2; ++j) a0[j] = hg::Min<float>::start();
    #pragma unroll 4
    for (Index step = 0; step < ((Index)n_i1 + 31) / 32; ++step) {
      const Index i1 = step * 32 + down;
      if (i1 >= (Index)n_i1) continue;
      const hg::span<float, 2> p0 = hg::read<2>(x0 + (i1 * 6 + i0_0));
      HG_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float v0 = p0.v[j];
        a0[j] = hg::Min<float>::add(a0[j], v0, 0);
      }
    }
    HG_UNROLL
    for (int j = 0; j < 2; ++j) {
      a0[j] = hg::lanes_merge<hg::Min<float>, 32, 4>(a0[j]);
    }
    HG_UNROLL
    for (int j = 0; j < 2; ++j) {
      if (threadIdx.x % 32 < 4) pool.part_a0[threadIdx.x / 32][j][across] = a0[j];
    }
    __syncthreads();
    HG_UNROLL
    for (int j = 0; j < 2; ++j) {
      a0[j] = hg::ways_merge<hg::Min<float>, 4, 8, 4>(&pool.part_a0[0][j][across]);
    }
    HG_UNROLL
    for (int j = 0; j < 2; ++j) r_v1[j] = hg::Min<float>::result(a0[j]);
    if (live && down == 0) {
      hg::span<float, 2> q0;
      HG_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float v1 = r_v1[j];
        q0.v[j] = v1;
      }
      hg::write(y0 + i0_0, q0);
    }
    __syncthreads();  // the states are used again by the next rows
  }
}

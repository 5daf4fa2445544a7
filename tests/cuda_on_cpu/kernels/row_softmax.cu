// SPDX-License-Identifier: Apache-2.0
// One block a row. The row stays in registers (PER values a thread); reductions by warp shuffle,
// then shared memory.
#define THREADS 128
#define PER 8
#define NEG_INF __int_as_float(0xff800000)  // NVRTC has no INFINITY
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
extern "C" __global__ void __launch_bounds__(THREADS)
row_softmax(const float* __restrict__ x, float* __restrict__ y, int cols) {
  __shared__ float part[THREADS / 32];
  __shared__ float total;
  const float* row = x + (size_t)blockIdx.x * cols;
  float v[PER], m = NEG_INF, s = 0.f;
#pragma unroll
  for (int k = 0; k < PER; k++) {
    int c = k * THREADS + threadIdx.x;
    v[k] = c < cols ? row[c] : NEG_INF;
    m = fmaxf(m, v[k]);
  }
  m = warp_max(m);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  m = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  __syncthreads();  // part is reused below
#pragma unroll
  for (int k = 0; k < PER; k++) { v[k] = __expf(v[k] - m); s += v[k]; }
  s = warp_sum(s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) total = part[0] + part[1] + part[2] + part[3];
  __syncthreads();
  const float inv = 1.f / total;
#pragma unroll
  for (int k = 0; k < PER; k++) {
    int c = k * THREADS + threadIdx.x;
    if (c < cols) y[(size_t)blockIdx.x * cols + c] = v[k] * inv;
  }
}

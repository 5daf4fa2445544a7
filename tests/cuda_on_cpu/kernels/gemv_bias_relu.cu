// SPDX-License-Identifier: Apache-2.0
// y = relu(A x + b), A row-major [rows, cols]. One warp a row, 2D block (32, WARPS), x staged in
// dynamic shared memory.
// cols must be a multiple of 4 and A and x aligned to 16 bytes.
extern "C" __global__ void
gemv_bias_relu(const float* __restrict__ A, const float* __restrict__ x,
               const float* __restrict__ bias, float* __restrict__ y, int rows, int cols) {
  extern __shared__ __align__(16) float xs[];
  const int t = threadIdx.y * 32 + threadIdx.x, nt = blockDim.y * 32;
  for (int i = t; i < cols / 4; i += nt)
    reinterpret_cast<float4*>(xs)[i] = __ldg(reinterpret_cast<const float4*>(x) + i);
  __syncthreads();
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // a whole warp leaves, after the last barrier
  const float4* a4 = reinterpret_cast<const float4*>(A + (size_t)row * cols);
  const float4* x4 = reinterpret_cast<const float4*>(xs);
  float s = 0.f;
  for (int i = threadIdx.x; i < cols / 4; i += 32) {
    float4 a = __ldg(a4 + i), v = x4[i];
    s += a.x * v.x + a.y * v.y + a.z * v.z + a.w * v.w;
  }
  for (int d = 16; d; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0) y[row] = fmaxf(s + bias[row], 0.f);
}

// SPDX-License-Identifier: Apache-2.0
// The kernels of `hybridgpu calibrate` (backends/cuda/calibration.py): each does one thing so often that it takes a time.
// A section is a text of its own, which is compiled behind cuda.h and the headers named with it. Words in capitals that
// Python replaces: NAME, TYPE, AT_ONCE, THREADS, CLUSTER, STEP.
//
// Each thread or block leaves something in `out` that depends on all that it did, so that nothing is left out.

// == nothing
extern "C" __global__ void NAME(const long long n) {}

// == cycles
// Wait until n cycles of the multiprocessor have gone by; how many did.
extern "C" __global__ void NAME(long long* const out, const long long n) {
  const long long begin = clock64();
  long long now = begin;
  while (now - begin < n) now = clock64();
  out[blockIdx.x] = now - begin;
}

// == chase
// Follow n links from element 0, each asked for when the one before is there, past the first-level cache.
extern "C" __global__ void NAME(const unsigned int* const next, unsigned int* const out, const long long n) {
  unsigned int at = 0;
  for (long long k = 0; k < n; ++k) at = ((const volatile unsigned int*)next)[at];
  *out = at;
}

// == copy
// Copy n times 16 bytes, AT_ONCE of them under way in a thread. n is a multiple of what the grid takes at once.
extern "C" __global__ void HG_BOUNDS(THREADS) NAME(const float* HG_RESTRICT x, float* HG_RESTRICT out, const long long n) {
  const long long step = gridDim.x * (long long)THREADS;
  for (long long at = blockIdx.x * (long long)THREADS + threadIdx.x; at < n; at += step * AT_ONCE) {
    hg::pack<float, 4> v[AT_ONCE];
    HG_UNROLL
    for (int k = 0; k < AT_ONCE; ++k) v[k] = hg::load<4>(x + (at + k * step) * 4);
    HG_UNROLL
    for (int k = 0; k < AT_ONCE; ++k) hg::store(out + (at + k * step) * 4, v[k]);
  }
}

// == read
// Read n times 4 bytes `times` times, past the first-level cache, AT_ONCE under way in a thread; leave a sum a thread.
extern "C" __global__ void HG_BOUNDS(THREADS) NAME(const float* const x, float* const out, const long long n, const long long times) {
  const long long step = gridDim.x * (long long)THREADS, me = blockIdx.x * (long long)THREADS + threadIdx.x;
  float sum = 0.0f;
  for (long long time = 0; time < times; ++time)
    for (long long at = me; at < n; at += step * AT_ONCE) {
      float v[AT_ONCE];
      HG_UNROLL
      for (int k = 0; k < AT_ONCE; ++k) v[k] = __ldcg(x + (at + k * step));
      HG_UNROLL
      for (int k = 0; k < AT_ONCE; ++k) sum += v[k];
    }
  out[me] = sum;
}

// == arithmetic
// n steps of eight chains that do not wait for each other.
extern "C" __global__ void HG_BOUNDS(THREADS) NAME(TYPE* const out, const long long n) {
  const long long me = blockIdx.x * (long long)THREADS + threadIdx.x;
  TYPE a[8];
  HG_UNROLL
  for (int j = 0; j < 8; ++j) a[j] = (TYPE)(me + j);
  const TYPE b = (TYPE)(n % 3), c = (TYPE)(n % 5 + 1);
  _Pragma("unroll 8")
  for (long long k = 0; k < n; ++k) {
    HG_UNROLL
    for (int j = 0; j < 8; ++j) a[j] = STEP;
  }
  TYPE sum = a[0];
  HG_UNROLL
  for (int j = 1; j < 8; ++j) sum += a[j];
  out[me] = sum;
}

// == shuffles
// n exchanges among the lanes of a warp, each of what the one before brought.
extern "C" __global__ void NAME(float* const out, const long long n) {
  float x = (float)threadIdx.x;
  for (long long k = 0; k < n; ++k) x = __shfl_xor_sync(0xffffffffu, x, 16) + 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// == barriers
// n barriers of a block.
extern "C" __global__ void NAME(float* const out, const long long n) {
  for (long long k = 0; k < n; ++k) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = (float)n;
}

// == cluster_barriers: reduce.h
// n barriers of a cluster.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) NAME(float* const out, const long long n) {
  for (long long k = 0; k < n; ++k) hg::cluster_sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = (float)n;
}

// == grid_barriers: grid.h
// n barriers of the grid, all of whose blocks live at once.
extern "C" __global__ void NAME(float* const out, unsigned int* const arrived, const long long n) {
  for (long long k = 0; k < n; ++k) hg::grid_sync(arrived);
  out[blockIdx.x * blockDim.x + threadIdx.x] = (float)n;
}

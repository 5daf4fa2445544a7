# SPDX-License-Identifier: Apache-2.0
"""The language: shared memory, templates, structs, warp operations, intrinsics, groups."""

from __future__ import annotations

import math

import numpy as np
import pytest

from . import Buffer, OutOfBounds
from .support import launch, needs_nvidia_headers, normal, out


def test_atomics_ballot_match_and_reduce():
    keys = np.random.default_rng(7).integers(0, 16, 1024, dtype=np.int32)
    counts, result = Buffer(np.zeros(16, np.int32), name="counts"), out(4, np.uint32)
    report = launch(
        """__global__ void k(const int* keys, int* counts, unsigned* o, int n) {
      __shared__ int s[16];
      if (threadIdx.x < 16) s[threadIdx.x] = 0;
      __syncthreads();
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[keys[i]], 1);
      __syncthreads();
      if (threadIdx.x < 16) atomicAdd(counts + threadIdx.x, s[threadIdx.x]);
      unsigned b = __ballot_sync(~0u, threadIdx.x & 1);
      unsigned m = __match_any_sync(~0u, threadIdx.x % 4);
      unsigned r = __reduce_add_sync(~0u, threadIdx.x);
      int c = __syncthreads_count(threadIdx.x < 40);
      if (threadIdx.x == 0 && blockIdx.x == 0) { o[0] = b; o[1] = m; o[2] = r; o[3] = c; }
    }""",
        Buffer(keys, name="keys"),
        counts,
        result,
        np.int32(1024),
        grid=3,
        block=64,
    )
    assert (counts.get() == np.bincount(keys, minlength=16)).all()
    assert result.get().tolist() == [0xAAAAAAAA, 0x11111111, 496, 40]
    assert report.atomics == 1024 + 3 * 16


def test_votes_reductions_and_shuffles():
    result = out(12, np.int32)
    launch(
        """__global__ void k(int* o) {
      const int t = threadIdx.x;
      int same, v[12] = {
        __any_sync(~0u, t == 3), __all_sync(~0u, t < 32), __all_sync(~0u, t < 31),
        __reduce_min_sync(~0u, t - 5), __reduce_max_sync(~0u, t - 5),
        (int)__reduce_and_sync(~0u, 6u | t), (int)__reduce_xor_sync(~0u, 1u << t),
        __shfl_sync(~0u, t, 35), __shfl_up_sync(~0u, t, 1, 8), __shfl_down_sync(~0u, t, 1, 8),
        __shfl_xor_sync(~0u, t, 9, 8), __syncthreads_or(t == 4)};
      __match_all_sync(~0u, 7, &same);
      if (t == 15) for (int i = 0; i < 12; i++) o[i] = v[i] * same;
    }""",
        result,
    )
    assert result.get().tolist() == [1, 1, 0, -5, 26, 6, -1, 3, 14, 15, 6, 1]


def test_templates_philox_and_integer_intrinsics():
    text = """
    template <int ROUNDS> __device__ uint4 philox(uint4 c, uint2 k) {
      for (int r = 0; r < ROUNDS; r++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
        k.x += 0x9E3779B9u; k.y += 0xBB67AE85u;
      }
      return c;
    }
    template <typename T> __global__ void k(T* o) {
      reinterpret_cast<uint4*>(o)[threadIdx.x] =
          philox<10>(make_uint4(0, 0, 0, 0), make_uint2(0, 0));
    }"""
    result = out(4, np.uint32)
    launch(text, result, block=1, name="k<unsigned>", names=["k<unsigned>"])
    expected = ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    assert [hex(v) for v in result.get()] == expected


def test_structs_by_value_that_hold_pointers():
    text = """
    struct View { float* data; int n; float scale; };
    __global__ void k(View v) { if (threadIdx.x < v.n) v.data[threadIdx.x] = v.scale; }"""
    result = out(8)
    kind = np.dtype([("data", np.uint64), ("n", np.int32), ("scale", np.float32)])
    launch(text, np.array((result.ptr, 8, 2.5), kind)[()])
    assert (result.get() == 2.5).all()


def test_pointers_in_memory_need_reach():
    text = "__global__ void k(float** p) { p[threadIdx.x][0] = threadIdx.x; }"
    targets = [Buffer.empty(1, np.float32, name=f"t{i}") for i in range(4)]
    table = Buffer(np.array([t.ptr for t in targets], np.uint64), name="table")
    with pytest.raises(OutOfBounds, match="'t0', to which no argument of the launch points"):
        launch(text, table, block=4)
    report = launch(text, table, block=4, reach=targets)
    assert [t.get()[0] for t in targets] == [0, 1, 2, 3]
    assert report.traffic["t3"].written == 4


def test_shared_memory_of_every_kind_at_once():
    """Static in functions, templates and at namespace scope; extern arrays all at one address."""
    text = """
    __shared__ float common[4];
    namespace inner {
      template <class T> __device__ T* dynamic() {
        extern __shared__ __align__(16) unsigned char raw[];
        return reinterpret_cast<T*>(raw);
      }
      template <class T> __device__ T twice(T v) {
        __shared__ T s[32];
        s[threadIdx.x] = v;
        return s[threadIdx.x] * 2;
      }
    }
    __global__ void k(float* o) {
      extern __shared__ __align__(128) char bytes[];
      __shared__ double d[3];
      __shared__ char odd[5];
      const int t = threadIdx.x;
      if (t < 3) d[t] = t;
      if (t < 4) common[t] = t;
      if (t < 5) odd[t] = t;
      inner::dynamic<float>()[t] = t;
      __syncthreads();
      bool good = (void*)inner::dynamic<float>() == (void*)bytes && (size_t)bytes % 128 == 0;
      float sum = inner::twice<float>(t) + inner::twice<int>(t) + d[2] + common[3] + odd[4];
      o[t] = good ? sum + inner::dynamic<float4>()[t / 4].x : -1;
    }"""
    result = out(32)
    report = launch(text, result, shared_mem=128)
    t = np.arange(32)
    assert (result.get() == 4 * t + 2 + 3 + 4 + t // 4 * 4).all()
    assert report.static_shared >= 16 + 24 + 5 + 128 + 128
    with pytest.raises(OutOfBounds, match="at byte 128 of dynamic shared memory"):
        launch(text, out(64), block=64, shared_mem=128)


def test_dynamic_shared_memory_is_no_better_aligned_than_promised():
    text = """
    __global__ void k(unsigned* o) {
      __shared__ float pad[4];
      extern __shared__ float s[];
      pad[0] = 1;
      o[0] = (unsigned)(size_t)s % 32 + (size_t)o % 512;
    }"""
    result = out(1, np.uint32)
    launch(text, result, block=1, shared_mem=64)
    assert result.get()[0] == 16 + 256


def test_constants_device_variables_and_statics():
    text = """
    __constant__ float table[4] = {1, 2, 3, 4};
    __device__ int counter = 5;
    __global__ void k(float* o) { o[threadIdx.x] = table[threadIdx.x % 4] + counter; }"""
    result = out(32)
    launch(text, result)
    assert result.get()[:4].tolist() == [6, 7, 8, 9]


def test_three_dimensional_grids_and_blocks():
    text = """__global__ void k(int* o) {
      int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
      int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
      o[b * blockDim.x * blockDim.y * blockDim.z + t] = threadIdx.z * 100 + blockIdx.z;
    }"""
    result = Buffer.empty((2 * 3 * 2, 2, 3, 4), np.int32)
    launch(text, result, grid=(2, 3, 2), block=(4, 3, 2))
    z, block = np.arange(2)[None, :, None, None] * 100, np.arange(12)[:, None, None, None] // 6
    assert (result.get() == z + block).all()


def test_intrinsics():
    x = np.array([0.5, -2.5, 3e9, np.nan, 1e-3, -7.0, 2.5, 3.5], np.float32)
    result = Buffer.empty((8, 8), np.float32)
    launch(
        """__global__ void k(const float* x, float* o) {
      const float v = x[threadIdx.x];
      float s, c, *r = o + 8 * threadIdx.x;
      sincosf(v, &s, &c);
      r[0] = __float2int_rn(v); r[1] = __float2int_rd(v); r[2] = __float2uint_rz(v);
      r[3] = s; r[4] = __saturatef(v); r[5] = max(v, 1.f);
      r[6] = __popc(__float_as_uint(v)); r[7] = erfinvf(v / 8);
    }""",
        Buffer(x, name="x"),
        result,
        block=8,
    )
    got = result.get()
    assert got[:, 0].tolist() == [0, -2, 2147483648, 0, 0, -7, 2, 4]
    assert got[:, 1].tolist() == [0, -3, 2147483648, 0, 0, -7, 2, 3]
    assert got[:, 2].tolist() == [0, 0, 3e9, 0, 0, 0, 2, 3]
    np.testing.assert_allclose(got[:, 3], np.sin(x), rtol=1e-5)
    assert got[3, 5] == 1  # the other operand where one is NaN
    for value, inverse in zip(x / 8, got[:, 7], strict=True):
        if abs(value) < 1:
            assert math.isclose(math.erf(inverse), value, rel_tol=1e-5)


@needs_nvidia_headers
def test_half_bfloat16_and_wide_loads():
    x = normal(256).astype(np.float16)
    halves, result = Buffer(x, name="x"), Buffer.empty(256, np.float16)
    brains = Buffer.empty(256, np.uint16, name="bf")
    report = launch(
        """#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __global__ void k(const __half* x, __half* o, __nv_bfloat16* b) {
      uint4 v = reinterpret_cast<const uint4*>(x)[threadIdx.x];  // 8 halves in one 128-bit load
      __half2* h = reinterpret_cast<__half2*>(&v);
      #pragma unroll
      for (int i = 0; i < 4; i++) {
        float2 f = __half22float2(h[i]);
        b[threadIdx.x * 8 + 2 * i] = __float2bfloat16(f.x);
        b[threadIdx.x * 8 + 2 * i + 1] = __float2bfloat16(f.y);
        h[i] = __hfma2(h[i], h[i], __float2half2_rn(1.f));
      }
      reinterpret_cast<uint4*>(o)[threadIdx.x] = v;
    }""",
        halves,
        result,
        brains,
    )
    assert report.wide_loads == report.wide_stores == 32
    np.testing.assert_array_equal(result.get(), (x.astype(np.float64) ** 2 + 1).astype(np.float16))
    widened = (brains.get().astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(widened, x.astype(np.float32), rtol=2**-8)


def test_cooperative_groups():
    result = out(8)
    launch(
        """#include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    __global__ void k(float* o) {
      auto block = cg::this_thread_block(); auto t = cg::tiled_partition<16>(block);
      float s = cg::reduce(t, (float)t.thread_rank(), cg::plus<float>());
      for (int d = t.size() / 2; d; d >>= 1) s += t.shfl_down(0.f, d);
      block.sync();
      if (t.thread_rank() == 0) o[t.meta_group_rank()] = s;
    }""",
        result,
        block=128,
    )
    assert (result.get() == 120).all()


def test_coalescing_and_bank_conflicts():
    strided = launch("__global__ void k(float* o) { o[threadIdx.x * 8] = 1; }", out(256), trace_warps=1)
    assert (strided.accesses[0].sectors, strided.accesses[0].ideal) == (32, 4)
    conflict = launch(
        "__global__ void k(float* o) { __shared__ float s[32][32]; s[threadIdx.x][0] = 1;"
        " o[threadIdx.x] = s[threadIdx.x][0]; }",
        out(),
        trace_warps=1,
        order="shuffle",
    )
    assert max(a.bank_conflict for a in conflict.accesses) == 32


def test_packs_of_a_template_struct_travel_whole():
    """The project's kernels load and store 'struct alignas(16) { T v[W]; }'."""
    text = """
    template <typename T, int W> struct alignas(sizeof(T) * W) pack { T v[W]; };
    template <typename T, int W> __device__ void copy(const T* a, T* o, int e) {
      const pack<T, W> x = *reinterpret_cast<const pack<T, W>*>(a + e);
      pack<T, W> y;
      for (int j = 0; j < W; ++j) y.v[j] = x.v[j] + 1;
      *reinterpret_cast<pack<T, W>*>(o + e) = y;
    }
    extern "C" __global__ void k(const float* a, float* o) {
      copy<float, 4>(a, o, threadIdx.x * 4);
    }"""
    a = normal(128)
    result = out(128)
    report = launch(text, Buffer(a, name="a"), result)
    assert (report.wide_loads, report.wide_stores) == (32, 32)
    assert (result.get() == a + 1).all()


@pytest.mark.parametrize("check", [True, False])
def test_unchecked_kernels_give_the_same_results(check):
    result = out(96)
    launch(
        """__global__ void k(float* o) {
      __shared__ float s[32];
      s[threadIdx.x] = threadIdx.x; __syncthreads();
      o[blockIdx.x * 32 + threadIdx.x] = s[31 - threadIdx.x] + __shfl_sync(~0u, threadIdx.x, 3);
    }""",
        result,
        grid=3,
        check=check,
    )
    assert (result.get() == np.tile(31 - np.arange(32) + 3, 3)).all()
    assert result.unwritten() == 0

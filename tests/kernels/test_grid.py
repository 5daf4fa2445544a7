# SPDX-License-Identifier: Apache-2.0
"""kernels/grid.h by itself: the barrier of all blocks, steps for fewer threads than a block has, and what is fetched.

``tests/compiler/test_resident.py`` has the programs whose steps these are.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_on_cpu import Buffer, KernelFault
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import launch, normal, out

from hybridgpu.backends.cuda.nvrtc import without_report
from hybridgpu.resources import kernels_folder

BLOCK = 256
FIRST = (1, 2, 8, 16, 32, 64, 128, 256)  #: part of a warp, a warp, and several
BARRIER = "hg::sync_first<WAITING>();"
TURNED = f"""
typedef int Index;
#include "cuda.h"
#include "grid.h"
extern "C" __global__ void k(const float* x, float* o) {{
  __shared__ float s[WAITING];
  if (threadIdx.x >= WAITING) return;
  s[threadIdx.x] = x[threadIdx.x];
  {BARRIER}
  o[threadIdx.x] = s[WAITING - 1 - threadIdx.x];
}}
"""

COPIED = """
typedef int Index;
#include "cuda.h"
#include "grid.h"
extern "C" __global__ void k(const float* x, float* o) {
  __shared__ __align__(16) unsigned char s[BYTES];
  hg::copy_ahead<FETCHING>(s, x, BYTES);
  hg::copied();
  __syncthreads();
  for (int i = threadIdx.x; i < BYTES / 4; i += blockDim.x) o[i] = ((float*)s)[i];
}
"""

FETCHED = """
typedef int Index;
#include "cuda.h"
#include "grid.h"
extern "C" __global__ void k(const float* x, long long bytes) { hg::prefetch(x, bytes); }
"""

#: every block leaves a number at each of three barriers, which the others read behind it
GATHERED = """
typedef int Index;
#include "cuda.h"
#include "grid.h"
extern "C" __global__ void k(unsigned* arrived, const float* x, float* left, float* o) {
  const int blocks = gridDim.x;
  float sum = 0.0f;
  for (int step = 0; step < 3; ++step) {
    if (threadIdx.x == blockDim.x - 1) left[step * blocks + blockIdx.x] = x[step * blocks + blockIdx.x];
    hg::grid_sync(arrived);
    for (int b = 0; b < blocks; ++b) sum += left[step * blocks + b];
  }
  o[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("n", FIRST)
def test_the_first_threads_wait_for_each_other(n):
    x, got = normal(n), out(n)
    how = {"block": BLOCK, "options": [f"-DWAITING={n}"], "include_dirs": [kernels_folder()]}
    launch(TURNED, Buffer(x.copy(), name="x"), got, **how)
    np.testing.assert_array_equal(got.get(), x[::-1])
    if n > 1:
        with pytest.raises(KernelFault):
            launch(TURNED.replace(BARRIER, ""), Buffer(x.copy(), name="x"), out(n), **how)


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("n", FIRST)
def test_nvrtc_compiles_each_without_a_word(n):
    report = compile_report(TURNED, "sm_80", ["-default-device", f"-DWAITING={n}"], [kernels_folder()])
    assert without_report(report.log).strip() == ""


@pytest.mark.parametrize(("threads", "size"), [(32, 16), (32, 16 * 101), (64, 16 * 64), (128, 8192), (BLOCK, 8208)])
def test_the_first_threads_fetch_every_byte_once(threads, size):
    x, got = normal(size // 4), out(size // 4)
    options = [f"-DFETCHING={threads}", f"-DBYTES={size}"]
    report = launch(COPIED, Buffer(x, name="x"), got, block=BLOCK, options=options, include_dirs=[kernels_folder()])
    np.testing.assert_array_equal(got.get(), x)
    assert report.traffic["x"].read == size


@pytest.mark.parametrize("bytes_", [4, 128, 132, 128 * 64, 128 * 64 * 3 + 4])
def test_every_line_is_asked_for_once(bytes_):
    x = Buffer(normal(bytes_ // 4), name="x")
    report = launch(FETCHED, x, np.int64(bytes_), grid=2, block=32, include_dirs=[kernels_folder()])
    assert (report.prefetches, report.prefetched) == (-(-bytes_ // 128), bytes_)


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (2, 64), (5, 32), (3, 1)])
def test_all_blocks_wait_for_each_other(blocks, threads, order):
    """Twice with one word, by another number of blocks, too: a barrier leaves it as the next one needs it."""
    arrived = Buffer(np.zeros(1, np.uint32), name="arrived")
    for n in (blocks, blocks + 1):
        x, left = np.arange(3 * n, dtype=np.float32), Buffer.empty(3 * n, np.float32, name="left")
        got = out(n * threads)
        how = {"grid": n, "block": threads, "order": order, "cooperative": True, "timeout": 2.0}
        launch(GATHERED, arrived, Buffer(x, name="x"), left, got, include_dirs=[kernels_folder()], **how)
        assert (got.get() == x.sum()).all()
        assert arrived.get() & 0x7FFFFFFF == 0


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_a_barrier_has_a_fence_on_both_sides():
    """What a GPU needs and the harness, whose memory has one order, does not: others' writes are seen behind it, too."""
    nvrtc = pytest.importorskip("cupy.cuda").nvrtc
    program = nvrtc.createProgram(GATHERED, "k.cu", (), ())
    nvrtc.compileProgram(program, ["-arch=compute_80", "-std=c++17", "-default-device", f"-I{kernels_folder()}"])
    found = re.findall(r"bar\.sync|membar\.gl|atom\.global|ld\.volatile", nvrtc.getPTX(program).decode())
    assert found == ["bar.sync", "membar.gl", "atom.global", "ld.volatile", "membar.gl", "bar.sync"] * 3

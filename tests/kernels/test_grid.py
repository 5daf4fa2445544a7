# SPDX-License-Identifier: Apache-2.0
"""kernels/grid.h by itself: steps for fewer threads than a block has, of every kind of number, and what these fetch.

``tests/compiler/test_resident.py`` has the barrier of the grid and the programs whose steps these are.
"""

from __future__ import annotations

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

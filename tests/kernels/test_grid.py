# SPDX-License-Identifier: Apache-2.0
"""kernels/grid.h by itself: the barrier of all blocks, steps for fewer threads than a block has, and what is fetched.

``tests/compiler/persistent.py`` has the programs whose steps these are.
"""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from cuda_on_cpu import Buffer, KernelFault, Race, UninitialisedRead
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import launch, normal, out

from hybridgpu.backends.cuda.nvrtc import without_report
from hybridgpu.cache.package_files import kernels_folder

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
  hg::copy_async<FETCHING>(s, x, BYTES);
  hg::wait_copies();
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


def gathered(blocks, threads, folder, order, arrived=None):
    """Every block's sum of what all blocks have left."""
    x, left = np.arange(3 * blocks, dtype=np.float32), Buffer.empty(3 * blocks, np.float32, name="left")
    arrived, got = arrived or Buffer(np.zeros(1, np.uint32), name="arrived"), out(blocks * threads)
    how = {"grid": blocks, "block": threads, "order": order, "cooperative": True, "timeout": 2.0}
    launch(GATHERED, arrived, Buffer(x, name="x"), left, got, include_dirs=[folder], **how)
    assert (got.get() == x.sum()).all()


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (2, 64), (5, 32), (3, 1)])
def test_all_blocks_wait_for_each_other(blocks, threads, order):
    """Twice with one word, by another number of blocks, too: a barrier leaves it as the next one needs it."""
    arrived = Buffer(np.zeros(1, np.uint32), name="arrived")
    for n in (blocks, blocks + 1):
        gathered(n, threads, kernels_folder(), order, arrived)
        assert arrived.get() & 0x7FFFFFFF == 0


#: what stands in grid_sync -> what is put in its place
DISORDERED = {
    "red.release.gpu": ("red.relaxed.gpu", "red.release.cta"),
    "ld.acquire.gpu": ("ld.relaxed.gpu", "ld.acquire.cta"),
}


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("words, other", [(old, new) for old, several in DISORDERED.items() for new in several])
def test_without_release_or_acquire_at_the_scope_of_the_device_there_is_a_race(words, other, order, tmp_path):
    shutil.copytree(kernels_folder(), tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    text = (tmp_path / "kernels" / "grid.h").read_text()
    assert text.count(words) == 1
    (tmp_path / "kernels" / "grid.h").write_text(text.replace(words, other))
    with pytest.raises((Race, UninitialisedRead), match="'left'|'arrived'"):
        gathered(3, 64, tmp_path / "kernels", order)


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_a_barrier_is_one_release_and_one_acquire():
    """No full fences, which were two of each, and no atomic whose answer is waited for."""
    nvrtc = pytest.importorskip("cupy.cuda").nvrtc
    program = nvrtc.createProgram(GATHERED, "k.cu", (), ())
    nvrtc.compileProgram(program, ["-arch=compute_75", "-std=c++17", "-default-device", f"-I{kernels_folder()}"])
    ptx = nvrtc.getPTX(program).decode()
    found = re.findall(
        r"bar\.sync|(?:ld|red)\.(?:relaxed|acquire|release)\.gpu|membar\S*|fence\S*|atom\S*|ld\.volatile", ptx
    )
    assert found == ["ld.relaxed.gpu", "bar.sync", "red.release.gpu", "ld.acquire.gpu", "bar.sync"] * 3

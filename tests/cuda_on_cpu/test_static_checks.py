# SPDX-License-Identifier: Apache-2.0
"""The same texts under NVIDIA's compiler: they compile, without spills; figures are read right."""

from __future__ import annotations

import pytest

from . import CompileError
from .static_checks import (
    ARCHITECTURES,
    KernelResources,
    StaticReport,
    compile_report,
    has_nvrtc,
    occupancy,
)
from .static_checks import resources as read_log
from .support import KERNELS, by_architecture, kernel_text

needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
LOCAL_ARRAY = """extern "C" __global__ void k(const int* i, float* o) {
  float v[64];
  for (int j = 0; j < 64; j++) v[i[j] & 63] = o[j];
  o[threadIdx.x] = v[i[threadIdx.x] & 63];
}"""


@needs_nvrtc
@pytest.mark.parametrize("arch", by_architecture(ARCHITECTURES))
@pytest.mark.parametrize("name", ["fused_elementwise", "row_softmax", "gemv_bias_relu"])
def test_the_examples_compile_for_every_architecture(name, arch):
    report = compile_report(kernel_text(name), arch, warnings_as_errors=True, count=True)
    kernel = report.kernels[name]
    assert (report.spills, report.stack, kernel.spills) == (0, 0, 0)
    assert 8 <= kernel.registers == report.registers <= 80
    assert kernel.shared == (20 if name == "row_softmax" else 0)
    assert report.cubin_bytes > 1000
    if report.instructions:  # nvdisasm is installed
        assert "ldl" not in report.instructions
        if name == "row_softmax":
            assert report.instructions["shfl"] == 10
        else:
            assert report.instructions["ldg128"] >= 2


@needs_nvrtc
def test_local_memory_is_noticed():
    report = compile_report(LOCAL_ARRAY, "sm_90")
    assert report.stack >= 256
    assert report.kernels["k"].stack == report.stack


@needs_nvrtc
def test_spills_are_noticed():
    loads = "".join(f"float v{i} = p[{i} * n];" for i in range(64))
    uses = "".join(f"p[{i} * n + 1] = v{i} + v{63 - i} * v{i // 2};" for i in range(64))
    text = f'extern "C" __global__ void k(float* p, int n) {{ {loads} __syncthreads(); {uses} }}'
    report = compile_report(text, "sm_80", ["--maxrregcount=24"])
    assert report.registers <= 24
    assert report.spills > 0


@needs_nvrtc
def test_errors_and_warnings():
    with pytest.raises(CompileError, match='identifier "INFINITY" is undefined'):
        compile_report("__global__ void k(float* o) { *o = INFINITY; }", "sm_90")
    unused = 'extern "C" __global__ void k(float* o) { int unused = 3; o[0] = 1; }'
    assert "unused" in compile_report(unused, "sm_90").warnings[0]
    with pytest.raises(CompileError, match="declared but never referenced"):
        compile_report(unused, "sm_90", warnings_as_errors=True)
    with pytest.raises(CompileError, match="sm_12"):
        compile_report(unused, "sm_12")


@needs_nvrtc
def test_include_folders_and_templates(tmp_path):
    (tmp_path / "twice.h").write_text("template <class T> __device__ T twice(T v) { return 2 * v; }\n")
    text = '#include "twice.h"\ntemplate <class T> __global__ void k(T* o) { *o = twice(*o); }'
    report = compile_report(text, "sm_90", include_dirs=[tmp_path], names=["k<float>", "k<int>"])
    assert len(report.kernels) == 2
    (tmp_path / "twice.h").write_text("template <class T> __device__ T twice(T v) { return bad; }\n")
    with pytest.raises(CompileError, match="bad"):
        compile_report(text, "sm_90", include_dirs=[tmp_path], names=["k<float>"])


@needs_nvrtc
def test_inline_ptx_and_nvidia_headers_compile_too():
    text = """#include <cuda_fp16.h>
    #include <cooperative_groups.h>
    #include <cuda_pipeline.h>
    extern "C" __global__ void k(float* o, __half* h) {
      __shared__ float s[4];
      unsigned short u;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(u) : "f"(o[0]));
      asm("cvt.f32.f16 %0, %1;" : "=f"(o[1]) : "h"(u));
      __pipeline_memcpy_async(s, o, 16);
      __pipeline_commit();
      __pipeline_wait_prior(0);
      cooperative_groups::this_cluster().sync();
      h[0] = __float2half(s[1]);
    }"""
    assert compile_report(text, "sm_90").kernels["k"].shared == 16


def test_the_log_of_several_kernels_is_taken_apart():
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
ptxas         .     16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4 bytes cumulative stack size, 32 bytes smem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 372 bytes cmem[0]
"""
    kernels = read_log(log)
    assert kernels == {
        "second": KernelResources("second", 40, 16, 12, 8, 32, 1),
        "first": KernelResources("first", 10),
    }
    report = StaticReport("sm_90", kernels)
    assert (report.registers, report.spills, report.stack, report.shared) == (40, 20, 16, 32)


@pytest.mark.parametrize(
    "arch, registers, threads, shared, expected",
    [
        ("sm_90", 32, 256, 0, 1.0),
        ("sm_90", 33, 1024, 0, 0.5),  # 40 registers after rounding: one block of 1024
        ("sm_80", 64, 256, 0, 0.5),
        ("sm_80", 32, 256, 48 << 10, 3 * 256 / 2048),
        ("sm_75", 32, 1024, 64 << 10, 1.0),
        ("sm_86", 16, 32, 0, 16 * 32 / 1536),  # limited by blocks
        ("sm_89", 168, 128, 0, 3 * 128 / 1536),
        ("sm_120", 255, 1024, 0, 0.0),  # does not fit at all
    ],
)
def test_occupancy(arch, registers, threads, shared, expected):
    assert occupancy(arch, registers, threads, shared) == pytest.approx(expected)


def test_the_examples_are_the_ones_in_the_folder():
    assert len(list(KERNELS.glob("*.cu"))) == 3

# SPDX-License-Identifier: Apache-2.0
"""mx.runtime.Features under the names that MXNet 1.9.1 has."""

from __future__ import annotations

import pytest

import hybridgpu as mx
from hybridgpu.backends.cpu import toolchain
from hybridgpu.runtime import features

NAMES = (
    "CUDA CUDNN NCCL CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX CPU_AVX2 OPENMP "
    "SSE F16C JEMALLOC BLAS_OPEN BLAS_ATLAS BLAS_MKL BLAS_APPLE LAPACK MKLDNN OPENCV CAFFE PROFILER DIST_KVSTORE CXX14 "
    "INT64_TENSOR_SIZE SIGNAL_HANDLER DEBUG TVM_OP"
)


def test_names():
    found = mx.runtime.Features()
    assert found is mx.runtime.Features()
    assert set(found) == set(NAMES.split()) and len(mx.runtime.feature_list()) == len(found)
    assert found.is_enabled("blas_open") and not found.is_enabled("MKLDNN")
    assert repr(found["MKLDNN"]) == "✖ MKLDNN" and "✔ LAPACK" in repr(found)
    with pytest.raises(RuntimeError, match="Feature 'X' is unknown, known features are"):
        found.is_enabled("x")


@pytest.mark.parametrize(
    ("processor", "devices", "cudnn", "enabled"),
    [
        ("x86_64 flags : fpu sse sse2 avx2 f16c", 1, False, {"CUDA", "CUDA_RTC", "CPU_SSE", "SSE", "CPU_SSE2", "CPU_AVX2", "F16C"}),
        ("aarch64", 1, True, {"CUDA", "CUDA_RTC", "CUDNN"}),
        ("aarch64", 0, True, set()),
    ],
    ids=["a GPU", "a GPU with cuDNN", "another processor"],
)  # fmt: skip
def test_what_depends_on_the_machine(processor, devices, cudnn, enabled, monkeypatch):
    monkeypatch.setattr(features, "_has_cudnn", lambda: cudnn)
    monkeypatch.setattr(features, "cpu_features", lambda: processor)
    monkeypatch.setattr(features, "num_gpus", lambda: devices)
    found = {f.name for f in features.feature_list() if f.enabled}
    assert found == enabled | {"BLAS_OPEN", "LAPACK", "PROFILER", "INT64_TENSOR_SIZE"}
    assert isinstance(toolchain.cpu_features(), str)

# SPDX-License-Identifier: Apache-2.0
"""``mx.runtime.Features``: what this installation can do, under MXNet's names."""

from __future__ import annotations

from typing import Any

from ..backends.cpu.toolchain import cpu_features
from ..context import num_gpus
from ..core.dataclass import dataclass

__all__ = ["Feature", "Features", "feature_list"]


@dataclass(frozen=True)
class Feature:
    """A named ability and whether it is there."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


#: instruction sets that kernels are compiled for when the processor has them, under the names of its flags
_PROCESSOR = {
    "CPU_SSE": "sse",
    "CPU_SSE2": "sse2",
    "CPU_SSE3": "pni",
    "CPU_SSE4_1": "sse4_1",
    "CPU_SSE4_2": "sse4_2",
    "CPU_SSE4A": "sse4a",
    "CPU_AVX": "avx",
    "CPU_AVX2": "avx2",
    "SSE": "sse",
    "F16C": "f16c",
}
_ALWAYS = ["BLAS_OPEN", "LAPACK", "PROFILER", "INT64_TENSOR_SIZE"]
#: abilities of MXNet's builds that no installation of hybridgpu has
_NEVER = [
    "NCCL",
    "TENSORRT",
    "OPENMP",
    "JEMALLOC",
    "BLAS_ATLAS",
    "BLAS_MKL",
    "BLAS_APPLE",
    "MKLDNN",
    "OPENCV",
    "CAFFE",
    "DIST_KVSTORE",
    "CXX14",
    "SIGNAL_HANDLER",
    "DEBUG",
    "TVM_OP",
]


def _has_cudnn() -> bool:
    from ..backends.cuda.device import cudnn

    return not isinstance(cudnn(), str)


def feature_list() -> list[Feature]:
    """All features with their state."""
    cuda, flags = num_gpus() > 0, set(cpu_features().split())
    return [
        Feature("CUDA", cuda),
        Feature("CUDNN", cuda and _has_cudnn()),
        Feature("CUDA_RTC", cuda),  # kernels are always compiled at run time
        *(Feature(name, flag in flags) for name, flag in _PROCESSOR.items()),
        *(Feature(name, True) for name in _ALWAYS),
        *(Feature(name, False) for name in _NEVER),
    ]


class Features(dict[str, Feature]):
    """Features by name; there is one such object."""

    instance: Features | None = None

    def __new__(cls) -> Features:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.update((f.name, f) for f in feature_list())
        return cls.instance

    def __init__(self) -> None:  # filled once, by __new__
        pass

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> Any:
        """Whether a feature is there.

        Raises:
            RuntimeError: an unknown name.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self.keys())}")
        return self[name].enabled

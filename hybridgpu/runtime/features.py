# SPDX-License-Identifier: Apache-2.0
"""``mx.runtime.Features``: what this installation can do, under MXNet's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..context import num_gpus

__all__ = ["Feature", "Features", "feature_list"]


@dataclass(frozen=True)
class Feature:
    """A named ability and whether it is there."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> list[Feature]:
    """All features with their state."""
    cuda = num_gpus() > 0
    return [
        Feature("CUDA", cuda),
        Feature("CUDA_RTC", cuda),  # kernels are always compiled at run time
        Feature("CUDNN", False),
        Feature("NCCL", False),
        Feature("BLAS_OPEN", True),
        Feature("LAPACK", True),
        Feature("MKLDNN", False),
        Feature("OPENCV", False),
        Feature("DIST_KVSTORE", False),
        Feature("INT64_TENSOR_SIZE", True),
        Feature("F16C", True),
        Feature("PROFILER", True),
        Feature("TVM_OP", False),
    ]


class Features(dict[str, Feature]):
    """Features by name."""

    def __init__(self) -> None:
        super().__init__((f.name, f) for f in feature_list())

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

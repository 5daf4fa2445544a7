# SPDX-License-Identifier: Apache-2.0
"""A cuBLASLt for the emulated GPU: fake_cublaslt.cpp."""

from __future__ import annotations

from pathlib import Path

from fake_nvidia_libraries import FakeLibrary

from hybridgpu.backends.cuda.cublaslt import Binding

PLAIN, SPLIT, SPLIT_IN_OUTPUT_TYPE = 1, 2, 4  #: its algorithms


class FakeProducts(FakeLibrary):
    """Computes products, or refuses to."""

    name, source, binding = "cublasLt", Path(__file__).with_name("fake_cublaslt.cpp"), Binding

    @property
    def products(self) -> int:
        """How many were computed or refused."""
        return self.count("cublasLtMatmul")

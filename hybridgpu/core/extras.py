# SPDX-License-Identifier: Apache-2.0
"""Commands that install the package's extras, for errors and ``hybridgpu info``."""

from __future__ import annotations

__all__ = ["INSTALL_CUDA"]

INSTALL_CUDA = "pip install '.[cuda12]' or '.[cuda13]' in a checkout of hybridgpu"

# SPDX-License-Identifier: Apache-2.0
"""Settings from the environment, read when they are needed.

HYBRIDGPU_DEBUG  1 compile events; 2 also kernels with their traffic; 3 also fusion decisions; 4 also sources
HYBRIDGPU_DUMP   a folder for every stage of every compilation
HYBRIDGPU_CXX, HYBRIDGPU_CACHE_DIR, HYBRIDGPU_CACHE_SIZE, HYBRIDGPU_CACHE: see toolchain and store
HYBRIDGPU_VERIFY 1 checks the graph after every pass
"""

from __future__ import annotations

import os

__all__ = ["debug_level", "dump_folder", "verifying"]


def debug_level() -> int:
    """How much to print, 0 … 4; a word counts as 1."""
    value = os.environ.get("HYBRIDGPU_DEBUG", "0").strip()
    return int(value) if value.isdecimal() else 1 if value else 0


def dump_folder() -> str:
    """Where to write every stage, '' for nowhere."""
    return os.environ.get("HYBRIDGPU_DUMP", "")


def verifying() -> bool:
    """Whether to check the graph after every pass."""
    return os.environ.get("HYBRIDGPU_VERIFY") == "1"

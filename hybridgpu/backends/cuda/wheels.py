# SPDX-License-Identifier: Apache-2.0
"""Where NVIDIA's wheels keep their libraries."""

from __future__ import annotations

import importlib.util
import os

__all__ = ["library_folders"]


def library_folders(*packages: str) -> list[str]:
    """Folders that may hold the libraries of these packages; none of a package that is not installed."""
    found: list[str] = []
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):  # no package "nvidia"
            continue
        places = spec.submodule_search_locations if spec is not None else None
        found += [os.path.join(p, folder) for p in places or () for folder in ("lib", "bin")]
    return found

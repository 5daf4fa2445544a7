# SPDX-License-Identifier: Apache-2.0
"""Search for NVIDIA's libraries: loaded already, in their wheels, or on the system loader's path."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Sequence

__all__ = ["files", "in_this_process", "library_folders", "places"]


def library_folders(*packages: str) -> list[str]:
    """Folders that may hold the libraries of these packages; none of a package that is not installed."""
    folders: list[str] = []
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):  # no package "nvidia"
            continue
        places = spec.submodule_search_locations if spec is not None else None
        folders += [os.path.join(p, folder) for p in places or () for folder in ("lib", "bin")]
    return folders


def in_this_process(name: str) -> bool:
    """Whether a library of this name has been loaded, by whomever; False where that cannot be asked."""
    only_if_loaded = getattr(os, "RTLD_NOLOAD", None)
    if only_if_loaded is None:
        return False
    try:
        ctypes.CDLL(name, mode=only_if_loaded | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def files(names: Sequence[str], folders: Sequence[str]) -> list[str]:
    """The files of these names that are there."""
    paths = [os.path.join(folder, name) for folder in folders for name in names]
    return [f for f in paths if os.path.exists(f)]


def places(names: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Paths to load a library from, the best first.

    NVIDIA's libraries find each other by name. One that is in the process would be mixed with parts of another copy,
    so it comes first; then wheels, which CuPy, too, prefers to what the system has.

    Args:
        names: of its file, the one that is preferred first.
        folders: of its wheel.
    """
    loaded = [n for n in names if in_this_process(n)]
    return [*loaded, *files(names, folders), *(n for n in names if n not in loaded)]

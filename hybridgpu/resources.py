# SPDX-License-Identifier: Apache-2.0
"""Where the templates and device headers lie: inside an installed package, or beside it in a checkout."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

__all__ = ["kernels_folder", "kernels_hash", "sources_hash", "templates_folder"]


@lru_cache
def _folder(name: str) -> Path:
    here = Path(__file__).resolve().parent
    for candidate in (here / name, here.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the folder {name!r} of hybridgpu is missing; install the package again")


def templates_folder() -> Path:
    """The Jinja templates."""
    return _folder("templates")


def kernels_folder() -> Path:
    """The device headers that generated sources include."""
    return _folder("kernels")


@lru_cache
def kernels_hash() -> str:
    """A hash over templates and headers: part of every cache key."""
    digest = hashlib.sha256()
    for folder, pattern in ((kernels_folder(), "*.h"), (templates_folder(), "**/*.j2")):
        for path in sorted(folder.glob(pattern)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@lru_cache
def sources_hash() -> str:
    """A hash over the sources that turn a Symbol into a program: part of every program's cache key, so that a
    changed lowering or pass never meets a program of the old one. Reading them costs a few milliseconds, once."""
    package = Path(__file__).resolve().parent
    digest = hashlib.sha256(kernels_hash().encode())
    for path in (
        *sorted(package.glob("ops/*.py")),
        *sorted(package.glob("compiler/**/*.py")),
        *sorted(package.glob("symbol/*.py")),
        package / "dtypes.py",
        package / "runtime/training.py",
    ):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()

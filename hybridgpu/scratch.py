# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that go with the process that made them, and with no child of it.

``tempfile.TemporaryDirectory`` deletes its folder in whichever process ends first: a child that was forked while
another thread compiled would take the compiler's folder away.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["make", "remove", "scratch"]

_ours: set[str] = set()


def make() -> str:
    """A new private folder, which lasts until :func:`remove` or the end of this process.

    Raises:
        OSError: there is no place for it.
    """
    folder = tempfile.mkdtemp(prefix="hybridgpu-")
    _ours.add(folder)
    return folder


def remove(folder: str) -> None:
    """Delete a folder that this process made, with all that is in it."""
    if folder in _ours:
        shutil.rmtree(folder, ignore_errors=True)
        _ours.discard(folder)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder within a ``with``."""
    folder = make()
    try:
        yield Path(folder)
    finally:
        remove(folder)


@atexit.register
def _remove_all() -> None:
    for folder in list(_ours):
        remove(folder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ours.clear)

# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all: a full disk or a killed process leaves the former one as it was."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..base import MXNetError

__all__ = ["replace_file", "write_atomically"]


def replace_file(fname: str | os.PathLike[str], data: bytes) -> None:
    """Write under a temporary name, then move into place: where a link leads to, if it is one.

    Raises:
        OSError: the folder is missing, not writable or full; it names ``fname``.
    """
    target = Path(os.path.realpath(fname))
    try:
        if target.exists() and not target.is_file():  # a pipe or a device is written to; nothing may take its place
            target.write_bytes(data)
            return
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as e:
        e.filename, e.filename2 = os.fspath(fname), None
        raise


def write_atomically(fname: str, data: bytes) -> None:
    """As ``replace_file``, with MXNet's error.

    Raises:
        MXNetError: the folder is missing, not writable or full.
    """
    try:
        replace_file(fname, data)
    except OSError as e:
        raise MXNetError(f'Open "{fname}": {e.strerror}') from None

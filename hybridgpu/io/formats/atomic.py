# SPDX-License-Identifier: Apache-2.0
"""Atomic writes: a full disk or a killed process leaves the old file as it was.

What is written has no name until it is complete, so that a process that is killed leaves nothing beside the file, but
for the moment between the file's naming and its move into place. Where the file system knows no such files, it has a
temporary name all the time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from ...base import MXNetError

__all__ = ["replace_file", "write_atomically"]


#: the folder takes no other file, or the file is mounted on its own
_FIXED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_NAMELESS = getattr(os, "O_TMPFILE", 0)


def replace_file(fname: str | os.PathLike[str], data: bytes) -> None:
    """Write beside the file, then move into place: where a link leads to, if it is one.

    A file that is there keeps its permissions and, where this user may give it away, its owner; another name of it
    (a hard link) keeps what it holds. A writable file that nothing can be moved to, as its folder is read-only or it is
    a mount of its own, is written to where it is, as MXNet does with all.

    Raises:
        OSError: the folder is missing, not writable (and there is no such file) or full; it names ``fname``.
    """
    try:
        former = None
        with contextlib.suppress(FileNotFoundError):
            former = os.stat(fname)  # of what is opened: what /dev/stdout leads to may have no name
        if former is None or (stat.S_ISREG(former.st_mode) and former.st_nlink):
            try:
                _move_into_place(Path(os.path.realpath(fname)), data, former)
                return
            except OSError as e:
                if former is None or e.errno not in _FIXED:
                    raise
        with open(fname, "wb") as f:  # a pipe or a device is written to; nothing may take its place
            f.write(data)
    except OSError as e:
        raise OSError(e.errno, e.strerror, os.fspath(fname)) from None


def _move_into_place(target: Path, data: bytes, former: os.stat_result | None) -> None:
    beside = target.parent / f".{target.name[:50]}.{os.urandom(6).hex()}"
    try:
        if not _write_nameless(beside, data, former):
            with open(os.open(beside, _NEW, 0o666), "wb") as f:
                if former is not None:
                    _permit(beside, former)
                f.write(data)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _write_nameless(file: Path, data: bytes, former: os.stat_result | None) -> bool:
    """Write a file that gets its name when it is complete; False where there is no such thing."""
    if not _NAMELESS:
        return False
    try:
        handle = os.open(file.parent, os.O_WRONLY | _NAMELESS, 0o666)
    except OSError:
        return False  # if the folder is to blame, a file with a name tells it
    with open(handle, "wb") as f:
        if former is not None:
            _permit(handle, former)
        f.write(data)
        f.flush()
        try:
            os.link(f"/proc/self/fd/{handle}", file, src_dir_fd=handle)  # a folder is given: then links are followed
        except OSError:
            return False
    return True


def _permit(file: Path | int, former: os.stat_result) -> None:
    """Let those use a file who may use the former one."""
    own = os.stat(file)
    if (own.st_uid, own.st_gid) != (former.st_uid, former.st_gid):
        with contextlib.suppress(OSError):  # it stays this user's
            os.chown(file, former.st_uid, former.st_gid)
    os.chmod(file, stat.S_IMODE(former.st_mode))


def write_atomically(fname: str, data: bytes) -> None:
    """As ``replace_file``, with MXNet's error.

    Raises:
        MXNetError: the folder is missing, not writable or full.
    """
    try:
        replace_file(fname, data)
    except OSError as e:
        raise MXNetError(f'Open "{fname}": {e.strerror}') from None

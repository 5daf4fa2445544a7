# SPDX-License-Identifier: Apache-2.0
"""Temporary folders, deleted with the process that made them, and with no child of it.

``tempfile.TemporaryDirectory`` deletes its folder in whichever process ends first: a child that was forked while
another thread compiled would take the compiler's folder away.

A process that is killed deletes nothing. So each holds a lock on its folders, which the system takes back whatever
ends it (a number of a process would mean another one in a container that shares the folder), and the first folder
that a process makes is the occasion to delete those that nobody holds. Where several systems share the folder, over a
network or as virtual machines, a lock may be known to its own alone: the folders' names tell which that is.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

__all__ = ["make", "ours", "remove", "scratch"]

_PREFIX = "hybridgpu-held-"
_ABANDONED_AFTER = 600  # seconds: a folder that was just made is not held yet
_FORGOTTEN_AFTER = 10 * 24 * 3600  # seconds, of a folder of another system, or of this one before it was started again

_ours: dict[str, int] = {}  #: folder -> the open file that holds it, -1 where nothing can
_swept = False


def make() -> str:
    """A new private folder, which lasts until :func:`remove` or the end of this process.

    Raises:
        OSError: there is no place for it.
    """
    global _swept
    if not _swept:
        _swept = True
        _sweep()
    folder = os.path.abspath(tempfile.mkdtemp(prefix=f"{_PREFIX}{_system()}-"))  # wherever the process goes later
    _ours[folder] = _held(folder)
    return folder


def ours(folder: str) -> bool:
    """Whether this process made it, not the one that forked this one."""
    return folder in _ours


def remove(folder: str) -> None:
    """Delete a folder that this process made, with all that is in it."""
    handle = _ours.pop(folder, None)
    if handle is not None:
        shutil.rmtree(folder, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder within a ``with``."""
    folder = make()
    try:
        yield Path(folder)
    finally:
        remove(folder)


def _held(folder: str) -> int:
    """An open file that holds a folder of this user's; -1 if another process holds it, or nothing can."""
    try:
        import fcntl  # only where something is compiled
    except ImportError:  # Windows: folders of killed processes stay
        return -1
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        if os.fstat(handle).st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
    os.close(handle)
    return -1


@lru_cache
def _system() -> str:
    """Which system knows of our locks: containers on one machine have one, virtual machines one each."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as f:
            name = f.read()
    except OSError:  # not Linux
        name = platform.node().encode()
    return hashlib.sha256(name).hexdigest()[:8]


def _sweep() -> None:
    """Delete this user's folders of processes that were killed."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                _delete_if_abandoned(entry)


def _delete_if_abandoned(entry: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):
        info = entry.stat(follow_symlinks=False)
        own = entry.name.startswith(f"{_PREFIX}{_system()}-")
        left = _ABANDONED_AFTER if own else _FORGOTTEN_AFTER
        if not stat.S_ISDIR(info.st_mode) or time.time() - info.st_mtime < left:
            return
        handle = _held(entry.path)
        if handle >= 0:
            shutil.rmtree(entry.path, ignore_errors=True)
            os.close(handle)


@atexit.register
def _remove_all() -> None:
    for folder in list(_ours):
        remove(folder)


def _after_in_child() -> None:
    for handle in _ours.values():
        if handle >= 0:
            os.close(handle)  # the parent holds them still
    _ours.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)

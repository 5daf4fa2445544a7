# SPDX-License-Identifier: Apache-2.0
"""The disk cache: compiled modules and programs by key, safe among processes.

Every entry is written under a temporary name and moved into place, and ends with the SHA-256 of its name and of the
rest, which those who load machine code do not see. What does not verify is a miss, as is an entry under another's name.
A folder that is missing, read-only, full or writable by others is never an error: entries then live in a private
temporary folder, which is said once.

Environment: ``HYBRIDGPU_CACHE_DIR`` names the folder, ``HYBRIDGPU_CACHE_SIZE`` bounds it (bytes,
default 1 GiB), ``HYBRIDGPU_CACHE=0`` turns the lasting cache off.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core import temp_dirs
from ..core.dataclass import dataclass
from ..core.fork_safe_lock import Lock
from ..core.settings import lasting_cache, text_of
from ..core.source_location import user_frame

__all__ = ["Store", "Usage", "default_store", "reset_default_store"]

_DEFAULT_SIZE = 1 << 30  #: bytes of all entries, unless HYBRIDGPU_CACHE_SIZE says otherwise
_DIGEST = hashlib.sha256().digest_size
#: what _name makes, and what earlier versions kept beside it: nothing else is deleted but:
_ENTRY = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]+\.\w+(\.sum)?")
_HALF_WRITTEN = re.compile(r"[0-9a-f]{2}/\.write-\w+")  # of a process that was killed, once it is old
_MOST_ENTRIES = 20_000  #: each process that writes looks at all of them
_ABANDONED_AFTER = 3600  # seconds
_NO_FILE = (errno.EINVAL, errno.ELOOP, errno.ENXIO)  # a folder, a pipe, a link to itself in an entry's place
_TOUCH_AFTER = 24 * 3600  # seconds; a hit refreshes an entry's time at most once a day
_NOWHERE = f"{os.devnull}{os.sep}hybridgpu"  #: a folder that nothing can be read from nor written to


@dataclass(frozen=True)
class Usage:
    """The usage of a cache folder: number of entries, their bytes, the bound in bytes."""

    folder: Path
    entries: int
    nbytes: int
    limit: int


class Store:
    """Entries of bytes under ``folder``, by kind (a file ending) and key (hex digits)."""

    def __init__(self, folder: Path, limit: int = _DEFAULT_SIZE, temporary: bool = False) -> None:
        """``temporary``: the folder is one of :mod:`hybridgpu.core.temp_dirs`."""
        self.folder, self.limit = folder, limit
        self._temporary = temporary
        self._fallback: str | None = None  #: a temporary folder in place of the other one
        self._falling = Lock()
        self._checked = False
        self._written = 0  #: bytes since the bounds were last looked after
        self._room = 0  #: entries that may be written before they are again

    # -- reading

    def path(self, kind: str, key: str) -> Path | None:
        """The file of a verified entry, or None."""
        entry = self._verified(kind, key)
        return Path(entry[0]) if entry else None

    def get(self, kind: str, key: str) -> bytes | None:
        """The bytes of a verified entry, or None."""
        entry = self._verified(kind, key)
        return entry[1] if entry else None

    def _verified(self, kind: str, key: str) -> tuple[str, bytes] | None:
        """An entry's file and content if there is one that is what was written."""
        root = self._root()
        if self._temporary and not temp_dirs.ours(str(root)):
            return None  # of the process that forked this one: once that has ended, anybody may make one of this name
        file = self._name(root, kind, key)
        try:
            whole, used = _read(file)
        except OSError as e:
            if e.errno in _NO_FILE:
                self._discard(Path(file))
            return None
        data = whole[:-_DIGEST]
        if _sum(kind, key, data) != whole[-_DIGEST:]:
            self._discard(Path(file))
            return None
        if time.time() - used > _TOUCH_AFTER:
            with contextlib.suppress(OSError):
                os.utime(file)
        return file, data

    def get_json(self, kind: str, key: str) -> Any:
        """The value of a verified JSON entry, or None."""
        data = self.get(kind, key)
        try:
            return json.loads(data) if data is not None else None
        except (ValueError, RecursionError):
            return None

    # -- writing

    def put(self, kind: str, key: str, data: bytes) -> Path | None:
        """Store an entry; its file, or None where nothing can be written at all."""
        for _ in range(2):  # a second time in the temporary folder
            try:
                root = self._root_to_write()
            except OSError:
                return None
            file = self._file(root, kind, key)
            try:
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._replace(file, data + _sum(kind, key, data))
            except OSError as e:
                if self._fallback is not None and root == Path(self._fallback):
                    return None
                self._use_fallback(f"cannot write to {root}: {e.strerror or e}")
                continue
            if self._room <= 0 or self._written + len(data) > self.limit // 16:
                self.trim(keep=file)
                self._written = 0
            else:
                self._room -= 1
            self._written += len(data)
            return file
        return None

    def put_json(self, kind: str, key: str, value: Any) -> Path | None:
        return self.put(kind, key, json.dumps(value, separators=(",", ":")).encode())

    def forget(self, kind: str, key: str) -> None:
        """Delete an entry that turned out to be unusable."""
        self._discard(self._file(self._root(), kind, key))

    # -- what is no cache: figures that somebody asked for, which no program can make again

    def kept(self, folder: str, name: str) -> bytes | None:
        """The bytes of a file that :meth:`keep` wrote, None if they are not what was written."""
        if self._temporary:
            return None
        try:
            whole, _ = _read(f"{self._root()}{os.sep}{folder}{os.sep}{name}")
        except OSError:
            return None
        data = whole[:-_DIGEST]
        return data if _sum(folder, name, data) == whole[-_DIGEST:] else None

    def keep(self, folder: str, name: str, data: bytes) -> Path | None:
        """Write a file that is neither trimmed nor cleared; None where nothing lasts."""
        root = self._root()
        if self._temporary:
            return None
        file = root / folder / name
        try:
            file.parent.mkdir(exist_ok=True, mode=0o700)
            self._replace(file, data + _sum(folder, name, data))
        except OSError:
            return None
        return file

    def drop(self, folder: str, name: str) -> bool:
        """Delete such a file; whether it was there, and is gone."""
        try:
            (self._root() / folder / name).unlink()
        except OSError:
            return False
        return True

    # -- upkeep

    def usage(self) -> Usage:
        """Count the entries of the lasting folder."""
        files = list(self._entries())
        return Usage(self.folder, len(files), sum(size for _, size, _ in files), self.limit)

    def clear(self) -> int:
        """Delete every entry; the number deleted."""
        self._sweep()
        files = list(self._entries())
        for file, _, _ in files:
            self._discard(file)
        return len(files)

    def trim(self, keep: Path | None = None) -> None:
        """Delete the entries used longest ago until the folder is within its bounds; ``keep`` is about to be used.

        Where there are too many entries, a sixteenth more goes: looking at all of them takes a while, and the next one
        is not to do it again.
        """
        self._sweep()
        files = sorted(self._entries(), key=lambda f: f[2])
        excess = sum(size for _, size, _ in files) - self.limit
        left = len(files)
        most = _MOST_ENTRIES if left <= _MOST_ENTRIES else _MOST_ENTRIES - _MOST_ENTRIES // 16
        for file, size, _ in files:
            if excess <= 0 and left <= most:
                break
            if file == keep:
                continue
            self._discard(file)
            excess -= size
            left -= 1
        self._room = _MOST_ENTRIES - left

    def _entries(self) -> Iterator[tuple[Path, int, float]]:
        for file in self._files("*"):
            if not _ENTRY.fullmatch(f"{file.parent.name}/{file.name}"):
                continue  # half-written, or nothing of ours
            try:
                info = file.stat()
            except OSError:
                continue
            yield file, info.st_size, info.st_mtime

    def _files(self, pattern: str) -> list[Path]:
        """What lies in the folders of entries; nothing where there is no folder to look into."""
        try:
            return list(self.folder.glob(f"*/{pattern}"))
        except OSError:
            return []

    def _sweep(self) -> None:
        """Delete what processes that were killed left half-written."""
        for file in self._files(".write-*"):
            if not _HALF_WRITTEN.fullmatch(f"{file.parent.name}/{file.name}"):
                continue
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > _ABANDONED_AFTER:
                    file.unlink()

    # -- places

    @staticmethod
    def _name(root: Path, kind: str, key: str) -> str:
        return f"{root}{os.sep}{key[:2]}{os.sep}{key}.{kind}"

    def _file(self, root: Path, kind: str, key: str) -> Path:
        return Path(self._name(root, kind, key))

    def _root(self) -> Path:
        if not self._checked:
            problem = self._problem()
            if problem:
                self._use_fallback(problem)
                if self._fallback is None:  # no place for a temporary folder: still, this one is not to be trusted
                    self._fallback = _NOWHERE
            self._checked = True  # not before: another thread would trust the folder
        return self.folder if self._fallback is None else Path(self._fallback)

    def _root_to_write(self) -> Path:
        """As ``_root``, but no temporary folder of the process that forked this one, which goes with that.

        Raises:
            OSError: there is no place for another one.
        """
        root = self._root()
        if not self._temporary or temp_dirs.ours(str(root)):
            return root
        with self._falling:
            if not temp_dirs.ours(str(self._root())):  # no other thread was here
                folder = temp_dirs.make()
                if self._fallback is None:
                    self.folder = Path(folder)
                else:
                    self._fallback = folder
            return self._root()

    def _problem(self) -> str:
        """Why the folder cannot be trusted or used, or ''."""
        try:
            try:
                info = os.stat(self.folder)
            except FileNotFoundError:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                info = os.stat(self.folder)
            if not stat.S_ISDIR(info.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError as e:
            return f"cannot use {self.folder}: {e.strerror or e}"
        if hasattr(os, "getuid") and info.st_uid != os.getuid():
            return f"{self.folder} belongs to another user"
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{self.folder} can be written by other users"
        return ""

    def _use_fallback(self, problem: str) -> None:
        with self._falling:
            if self._fallback is not None:  # another thread was here
                return
            warnings.warn(
                f"hybridgpu: {problem}; compiled kernels are kept for this process only. "
                "Set HYBRIDGPU_CACHE_DIR to a private folder to keep them.",
                RuntimeWarning,
                stacklevel=user_frame(),
            )
            with contextlib.suppress(OSError):
                self._fallback = temp_dirs.make()
                self._temporary = True

    @staticmethod
    def _replace(file: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".write-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.replace(name, file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @staticmethod
    def _discard(file: Path) -> None:
        with contextlib.suppress(OSError):  # read-only: the entry stays, and stays a miss
            file.unlink(missing_ok=True)


def _sum(kind: str, key: str, data: bytes) -> bytes:
    """What an entry ends with."""
    digest = hashlib.sha256(f"{key}.{kind}\0".encode())
    digest.update(data)
    return digest.digest()


def _read(file: str) -> tuple[bytes, float]:
    """The content of a file, and when it was last written or used.

    Raises:
        OSError: it cannot be read, or is none: opening a pipe, say, would wait for its other end.
    """
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, f"{file} is no file")
        data = os.read(handle, info.st_size + 1)
        while more := os.read(handle, 1 << 20):
            data += more
    finally:
        os.close(handle)
    return data, info.st_mtime


_default: Store | None = None
_opening = Lock()


def default_store() -> Store:
    """The process's store, in the user's cache folder unless the environment names another."""
    global _default
    if _default is None:
        with _opening:
            if _default is None:
                _default = Store(_default_folder(), _limit(), temporary=not lasting_cache())
    return _default


def _default_folder() -> Path:
    named = text_of("HYBRIDGPU_CACHE_DIR")
    if not lasting_cache():
        try:
            return Path(temp_dirs.make())
        except OSError:
            return Path(_NOWHERE)  # nothing can be written: the store finds out, and says so
    if named:
        folder = Path(named)
        if folder.is_absolute():
            return folder
        with contextlib.suppress(RuntimeError):  # ~ of nobody: a name like others
            folder = folder.expanduser()
        with contextlib.suppress(OSError):  # the working folder is gone
            folder = folder.absolute()  # wherever the process goes later
        return folder
    return Path(_of_user())


def _of_user() -> str:
    """The user's cache folder for hybridgpu, as platformdirs has it on every system.

    Importing that takes as long as all of a call whose program is found on disk; on Linux its answer is plain.
    """
    if sys.platform == "linux" and not (hasattr(sys, "getandroidapilevel") or "ANDROID_DATA" in os.environ):
        caches = os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache")
        if caches.startswith("/"):
            return f"{caches}/hybridgpu"
    import platformdirs

    return platformdirs.user_cache_dir("hybridgpu", appauthor=False)


def _limit() -> int:
    """Bytes that the folder may hold."""
    text = text_of("HYBRIDGPU_CACHE_SIZE")
    if text and not text.isdecimal():
        warnings.warn(
            f"hybridgpu: HYBRIDGPU_CACHE_SIZE={text!r} is no number of bytes; the bound is {_DEFAULT_SIZE}",
            RuntimeWarning,
            stacklevel=user_frame(),
        )
        return _DEFAULT_SIZE
    return int(text[:30]) if text else _DEFAULT_SIZE


def reset_default_store() -> None:
    """Read the environment again at the next use (tests)."""
    global _default
    _default = None

# SPDX-License-Identifier: Apache-2.0
"""Where the templates and device headers lie: inside an installed package, or beside it in a checkout."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from .base import BEGUN

__all__ = ["Notes", "kernels_folder", "kernels_hash", "sources_hash", "templates_folder"]

_SETTLED = 2.0  #: seconds after which a file's time tells of every change: file systems count in steps
_HASH = re.compile("[0-9a-f]{64}")


@lru_cache
def _package() -> str:
    """Where our modules lie, symbolic links followed: what lies beside them does so in the checkout."""
    return os.path.dirname(os.path.realpath(__file__))


@lru_cache
def _folder(name: str) -> Path:
    here = _package()
    for candidate in (f"{here}{os.sep}{name}", f"{os.path.dirname(here)}{os.sep}{name}"):
        if os.path.isdir(candidate):
            return Path(candidate)
    raise FileNotFoundError(f"the folder {name!r} of hybridgpu is missing; install the package again")


def templates_folder() -> Path:
    """The Jinja templates."""
    return _folder("templates")


def kernels_folder() -> Path:
    """The device headers that generated sources include."""
    return _folder("kernels")


class Notes(Protocol):
    """What remembers between processes (:class:`hybridgpu.store.Store`)."""

    def get_json(self, kind: str, key: str) -> Any: ...

    def put_json(self, kind: str, key: str, value: Any) -> Any: ...


_found: dict[str, str] = {}  #: name of a set of files -> its hash


def kernels_hash(notes: Notes | None = None) -> str:
    """A hash over templates and headers: part of every cache key.

    Args:
        notes: where to look for hashes, and to leave them, so that another process need not read the files again.
    """
    return _hash_all(notes)["kernels"]


def sources_hash(notes: Notes | None = None) -> str:
    """A hash over the sources that make programs, of Symbols and of optimizers' operators: part of every program's cache
    key, so that a changed lowering or pass never meets a program of the old one. Where they were changed since this
    process imported them (an upgrade beside it), it shares its programs with no other one. ``notes``: as for
    :func:`kernels_hash`."""
    return _hash_all(notes)["sources"]


#: what its files' names begin with, below a place; where it lies; its files' names; and of each file all that tells one
#: state of it from another: size, times of the last change of the content and of the file (ns), number
_Folder = tuple[str, str, list[str], list[int]]


def _hash_all(notes: Notes | None) -> dict[str, str]:
    """Both hashes, looked up at once: who wants one of them wants the other as well."""
    if not _found:
        package = _package()
        folders = [(f"{package}{os.sep}{name}", ".py") for name in ("ops", "compiler", "symbol")]
        modules = [(package, "dtypes.py"), (package, "dataclass.py")]
        runtime = [(f"{package}{os.sep}runtime", name) for name in ("program.py", "training.py", "updates.py")]
        texts = [(str(kernels_folder()), ".h"), (str(templates_folder()), ".j2")]
        files = [_found_at(texts), _found_at([*folders, *modules, *runtime])]
        kernels, own = _hash(files, notes)
        now = time.time_ns()
        if any(BEGUN < t <= now for t in _times(files[1])):
            own = os.urandom(32).hex()
        _found.update(kernels=kernels, sources=hashlib.sha256(f"{kernels} {own}".encode()).hexdigest())
    return _found


def _hash(sets: list[list[_Folder]], notes: Notes | None) -> list[str]:
    """A hash over names and contents of each set of files.

    Reading them costs more than all the rest of a call whose program is found on disk. What was read once is noted
    under the files' names, sizes, times and numbers, as git has it in its index. A file that was changed a moment ago
    may be changed again without another time: then nothing is noted.
    """
    key = hashlib.sha256(marshal.dumps(sets, 0)).hexdigest()  # version 0: bytes that depend on the values alone
    known = notes.get_json("hash", key) if notes is not None else None
    if isinstance(known, list) and [isinstance(h, str) and bool(_HASH.fullmatch(h)) for h in known] == [True] * len(
        sets
    ):
        return known
    hashes = [_read(folders) for folders in sets]
    latest = max((t for folders in sets for t in _times(folders)), default=0)
    if notes is not None and latest * 1e-9 + _SETTLED < time.time():
        notes.put_json("hash", key, hashes)
    return hashes


def _read(folders: list[_Folder]) -> str:
    digest = hashlib.sha256()
    for inside, folder, names, _ in folders:
        for name in names:
            with open(f"{folder}{os.sep}{name}", "rb", buffering=0) as f:
                digest.update(f"{inside}{name}".encode() + b"\0" + f.readall())
    return digest.hexdigest()


def _times(folders: list[_Folder]) -> list[int]:
    return [t for *_, states in folders for t in (*states[1::4], *states[2::4])]


def _found_at(places: Sequence[tuple[str, str]]) -> list[_Folder]:
    """The folders with files of some places, in order: (a folder, a file in it) or (a folder, the ending of its files at
    any depth, with the dot)."""
    found: list[_Folder] = []
    for place, ending in places:
        _find(place, ending, found)
    found.sort()
    return found


def _find(place: str, ending: str, found: list[_Folder]) -> None:
    """Add the folders with files of a place."""
    if not ending.startswith("."):
        found.append(("", place, [ending], list(_state(os.stat(f"{place}{os.sep}{ending}")))))
        return
    folders = [(f"{os.path.basename(place)}/", place)]
    for inside, folder in folders:
        files: list[os.DirEntry[str]] = []
        states: list[int] = []  # of all files in one list: Python looks through no more objects for garbage
        with _entries(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(ending):
                    files.append(entry)
                elif "." not in name and name != "__pycache__" and entry.is_dir():
                    folders.append((f"{inside}{name}/", f"{folder}{os.sep}{name}"))
            files.sort(key=_name)
            for entry in files:
                states += _state(entry.stat())
        if files:
            found.append((inside, folder, [entry.name for entry in files], states))


_name = attrgetter("name")
_state: Callable[[os.stat_result], tuple[int, ...]] = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")


@contextlib.contextmanager
def _entries(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """A folder's entries. Where systems can, they are looked up in the open folder: without its path, a fifth faster."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with os.scandir(handle) as entries:
            yield entries
    finally:
        os.close(handle)

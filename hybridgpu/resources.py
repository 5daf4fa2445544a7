# SPDX-License-Identifier: Apache-2.0
"""Where the templates and device headers lie: inside an installed package, or beside it in a checkout."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Notes", "kernels_folder", "kernels_hash", "sources_hash", "templates_folder"]

_SETTLED = 2.0  #: seconds after which a file's time tells of every change: file systems count in steps
_HASH = re.compile("[0-9a-f]{64}")


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


class Notes(Protocol):
    """What remembers between processes (:class:`hybridgpu.store.Store`)."""

    def get_json(self, kind: str, key: str) -> Any: ...

    def put_json(self, kind: str, key: str, value: Any) -> Any: ...


_found: dict[str, str] = {}  #: name of a set of files -> its hash


def kernels_hash(notes: Notes | None = None) -> str:
    """A hash over templates and headers: part of every cache key.

    Args:
        notes: where to look for the hash, and to leave it, so that another process need not read the files again.
    """
    if "kernels" not in _found:
        _found["kernels"] = _hash([(kernels_folder(), ".h"), (templates_folder(), ".j2")], notes)
    return _found["kernels"]


def sources_hash(notes: Notes | None = None) -> str:
    """A hash over the sources that make programs, of Symbols and of optimizers' operators: part of every program's cache
    key, so that a changed lowering or pass never meets a program of the old one. ``notes``: as for
    :func:`kernels_hash`."""
    if "sources" not in _found:
        package = Path(__file__).resolve().parent
        folders = [(package / name, ".py") for name in ("ops", "compiler", "symbol")]
        runtime = [(package / "runtime" / name, "") for name in ("program.py", "training.py", "updates.py")]
        own = _hash([*folders, (package / "dtypes.py", ""), (package / "dataclass.py", ""), *runtime], notes)
        _found["sources"] = hashlib.sha256(f"{kernels_hash(notes)} {own}".encode()).hexdigest()
    return _found["sources"]


def _hash(places: Sequence[tuple[Path, str]], notes: Notes | None) -> str:
    """A hash over names and contents of files: (a file, '') or (a folder, the ending of its files at any depth).

    Reading them costs more than all the rest of a call whose program is found on disk. What was read once is noted
    under the files' names, sizes, times and numbers, as git has it in its index. A file that was changed a moment ago
    may be changed again without another time: then nothing is noted.
    """
    files: list[_Seen] = []
    for place, ending in places:
        _find(place, ending, files)
    files.sort()
    key = hashlib.sha256(marshal.dumps(files, 0)).hexdigest()  # version 0: bytes that depend on the values alone
    known = notes.get_json("hash", key) if notes is not None else None
    if isinstance(known, str) and _HASH.fullmatch(known):
        return known
    digest = hashlib.sha256()
    for name, _, _, _, _, folder in files:
        with open(f"{folder}{os.sep}{name.rpartition('/')[2]}", "rb", buffering=0) as f:
            digest.update(name.encode() + b"\0" + f.readall())
    latest = max([max(changed, replaced) for _, _, changed, replaced, _, _ in files], default=0)
    if notes is not None and latest * 1e-9 + _SETTLED < time.time():
        notes.put_json("hash", key, digest.hexdigest())
    return digest.hexdigest()


#: the name below a place and all that tells one state of a file from another: size, times of the last change of the
#: content and of the file (ns), its number, the folder it lies in
_Seen = tuple[str, int, int, int, int, str]


def _find(place: Path, ending: str, files: list[_Seen]) -> None:
    """Add the files of a place."""
    if not ending:
        s = place.stat()
        files.append((place.name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, str(place.parent)))
        return
    folders = [(place.name, str(place))]
    for inside, folder in folders:
        with _entries(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(ending):
                    s = entry.stat()
                    files.append((f"{inside}/{name}", s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, folder))
                elif "." not in name and name != "__pycache__" and entry.is_dir():
                    folders.append((f"{inside}/{name}", f"{folder}{os.sep}{name}"))


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

# SPDX-License-Identifier: Apache-2.0
"""The package's own files: where templates and headers lie, and hashes of sources for cache keys."""

from __future__ import annotations

import hashlib
import marshal
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..base import BEGUN

__all__ = ["HashStore", "kernels_folder", "kernels_hash", "sources_hash", "templates_folder"]

_STABLE_AFTER = 2.0  #: seconds after which a file's time tells of every change: file systems count in steps


@lru_cache
def _package() -> str:
    """Where our modules lie."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@lru_cache
def _linked() -> bool:
    """Whether we are reached through links."""
    return any(map(os.path.islink, (_package(), os.path.dirname(__file__), __file__)))


@lru_cache
def _folder(name: str) -> str:
    here = _package()
    if _linked():  # what lies beside us does so where the links lead
        linked = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        places = [here, linked, os.path.dirname(linked)]
    else:
        places = [here, os.path.dirname(here)]
    for place in places:
        if os.path.isdir(path := f"{place}{os.sep}{name}"):
            return path
    raise FileNotFoundError(f"the folder {name!r} of hybridgpu is missing; install the package again")


def templates_folder() -> Path:
    """The Jinja templates."""
    return Path(_folder("templates"))


def kernels_folder() -> Path:
    """The device headers that generated sources include."""
    return Path(_folder("kernels"))


class HashStore(Protocol):
    """A store that remembers between processes (:class:`hybridgpu.cache.disk_cache.Store`)."""

    def get(self, kind: str, key: str) -> bytes | None: ...

    def put(self, kind: str, key: str, data: bytes) -> Any: ...


_found: dict[str, str] = {}  #: name of a set of files -> its hash


def kernels_hash(notes: HashStore | None = None) -> str:
    """A hash over templates and headers: part of every cache key.

    Args:
        notes: where to look for hashes, and to leave them, so that another process need not read the files again.
    """
    return _hash_all(notes)["kernels"]


def sources_hash(notes: HashStore | None = None) -> str:
    """A hash over the sources that make programs, of Symbols and of optimizers' operators: part of every program's cache
    key, so that a changed lowering or pass never meets a program of the old one. Where they were changed since this
    process imported them (an upgrade beside it), it shares its programs with no other one. ``notes``: as for
    :func:`kernels_hash`."""
    return _hash_all(notes)["sources"]


#: (a folder, a file in it) or (a folder, the ending of its files at any depth, with the dot)
_Place = tuple[str, str]


class _Files(NamedTuple):
    """Sets of files as they were looked at.

    Attributes:
        folders: those whose files were listed.
        sets: the files of each set.
        listed: of all folders, what tells one state from another (``_folder_state``).
        states: of all files the same (``_state``).
    """

    folders: list[str]
    sets: list[list[str]]
    listed: list[int]
    states: list[int]

    @classmethod
    def at(cls, folders: list[str], sets: list[list[str]]) -> _Files:
        """As they are now. Raises OSError: one of them is not there."""
        # without a frame of Python: no other part of a call whose program is found on disk takes as long
        listed = list(chain.from_iterable(map(_folder_state, map(os.stat, folders))))
        return cls(
            folders, sets, listed, list(chain.from_iterable(map(_state, map(os.stat, chain.from_iterable(sets)))))
        )

    def times(self, number: int | None = None) -> list[int]:
        """The times at which the files of a set, or all files, were changed: content and names (ns)."""
        begin = 4 * sum(map(len, self.sets[:number])) if number is not None else 0
        end = None if number is None else begin + 4 * len(self.sets[number])
        return self.states[begin:end:4] + self.states[begin + 1 : end : 4]

    def note(self, hashes: Sequence[str]) -> bytes:
        """What :func:`_noted` reads. Folders in which files may still appear without another time are to be listed again."""
        listed = self.listed if _is_stable(self.listed) else []
        texts = map("\0".join, (self.folders, *self.sets))
        return marshal.dumps([*texts, _plain(listed), _plain(self.states), *hashes], 0)


def _plain(states: list[int]) -> bytes:
    return marshal.dumps(states, 0)  # version 0: bytes that depend on the values alone


def _is_stable(times: Iterable[int]) -> bool:
    """Whether all of them (ns) are so long ago that changes from now on show."""
    return max(times, default=0) * 1e-9 + _STABLE_AFTER < time.time()


def _hash_all(notes: HashStore | None) -> dict[str, str]:
    """Both hashes, looked up at once: who wants one of them wants the other as well."""
    if not _found:
        package = _package()
        folders = [(f"{package}{os.sep}{name}", ".py") for name in ("ops", "compiler", "symbol")]
        modules = [(f"{package}{os.sep}core", name) for name in ("dtypes.py", "dataclass.py")]
        runtime = [
            (f"{package}{os.sep}runtime", name)
            for name in ("compilation.py", "recorded_program.py", "optimizer_programs.py", "eager_kernels.py")
        ]
        texts = [(_folder("kernels"), ".h"), (_folder("templates"), ".j2")]
        (kernels, own), files = _hash([texts, [*folders, *modules, *runtime]], notes, _record)
        times = files.times(1)
        if max(times) > BEGUN:
            now = time.time_ns()
            if any(BEGUN < t <= now for t in times):
                own = os.urandom(32).hex()
        _found.update(kernels=kernels, sources=hashlib.sha256(f"{kernels} {own}".encode()).hexdigest())
    return _found


def _record() -> str | None:
    """The file that an installer wrote behind all of ours, as it does whenever it writes one of them; None in a checkout.

    Beside a checkout there is none, nor does one that is there tell of files that links lead to.
    """
    package = _package()
    if _linked() or not _folder("kernels").startswith(package + os.sep):
        return None
    with os.scandir(os.path.dirname(package)) as entries:
        dist_infos = [e.path for e in entries if e.name.startswith("hybridgpu-") and e.name.endswith(".dist-info")]
    record = f"{dist_infos[0]}{os.sep}RECORD" if len(dist_infos) == 1 else ""
    return record if os.path.isfile(record) else None


def _hash(
    sets: Sequence[Sequence[_Place]], notes: HashStore | None, find_record: Callable[[], str | None] = lambda: None
) -> tuple[Sequence[str], _Files]:
    """A hash over names and contents of each set of files, and what was looked at for it.

    Reading them costs more than all the rest of a call whose program is found on disk, and finding them half as much.
    What was found and read once is noted, with sizes, times and numbers of the files, as git has it in its index, and
    with the times of their folders, which tell of other files in them. What was changed a moment ago may be changed
    again without another time: then nothing is noted.

    Args:
        find_record: finds a file that is written whenever they are: it is noted in place of them, since to look at each
            takes a fifth of such a call. So are Python's folders of compiled modules, which change when somebody
            edits a module and imports it.
    """
    key = hashlib.sha256(repr(sets).encode()).hexdigest()
    note = notes.get("hash", key) if notes is not None else None
    noted = _noted(note, len(sets))
    if noted is not None:
        with suppress(OSError, ValueError):
            files = _Files.at(noted.folders, noted.sets)
            if _plain(files.listed) == noted.listed and _plain(files.states) == noted.states:
                return noted.hashes, files
    files = _found_at(sets)
    if noted is not None and (files.sets, _plain(files.states)) == (noted.sets, noted.states):
        hashes: Sequence[str] = noted.hashes  # something else came into a folder, or went
    else:
        hashes = [_read(paths, places) for paths, places in zip(files.sets, sets, strict=True)]
    record = find_record()
    looked = files if record is None else _by_record(files, record)
    settled = _is_stable(files.times()) and _is_stable(looked.times())
    if notes is not None and settled and (new := looked.note(hashes)) != note:
        notes.put("hash", key, new)
    return hashes, files


def _by_record(files: _Files, record: str) -> _Files:
    """What is looked at in place of files: ``record``, as the last set, their folders and those of compiled modules."""
    compiled = [
        cache_folder for folder in files.folders if os.path.isdir(cache_folder := f"{folder}{os.sep}__pycache__")
    ]
    return _Files.at([*files.folders, *compiled], [*([] for _ in files.sets[1:]), [record]])


class _Noted(NamedTuple):
    """A note: see :class:`_Files`; ``hashes`` of the sets."""

    folders: list[str]
    sets: list[list[str]]
    listed: bytes
    states: bytes
    hashes: Sequence[str]


def _noted(note: bytes | None, count: int) -> _Noted | None:
    """What a note says about so many sets; None if it is no such note."""
    if note is None:
        return None
    try:
        read = marshal.loads(note)
        if len(read) != 3 + 2 * count:
            return None
        folders, *sets = (text.split("\0") if text else [] for text in read[: 1 + count])
        listed, states, *hashes = read[1 + count :]
        if {(type(h), len(h)) for h in hashes} != {(str, 64)}:
            return None
    except (AttributeError, EOFError, TypeError, ValueError):
        return None
    return _Noted(folders, sets, listed, states, hashes)


def _found_at(sets: Iterable[Iterable[_Place]]) -> _Files:
    """The files of sets of places, in order."""
    folders: list[str] = []
    file_sets = []
    for places in sets:
        files: list[str] = []
        for place, ending in places:
            if ending.startswith("."):
                _find(place, ending, folders, files)
            else:
                files.append(f"{place}{os.sep}{ending}")
        file_sets.append(sorted(files))
    return _Files.at(folders, file_sets)


def _find(place: str, ending: str, folders: list[str], files: list[str]) -> None:
    """Add a folder with the files in it that end so, and those in it.

    Hidden ones are nobody's sources: editors keep backups of such names, and links that lead nowhere for locks.
    """
    for folder in (inside := [place]):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.name.endswith(ending):
                    files.append(f"{folder}{os.sep}{entry.name}")
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    inside.append(f"{folder}{os.sep}{entry.name}")
    folders += inside


def _read(files: list[str], places: Sequence[_Place]) -> str:
    """A hash over the files of places; where these lie is no part of it."""
    outside = {os.path.dirname(place) if ending.startswith(".") else place for place, ending in places}
    digest = hashlib.sha256()
    for file in files:
        begin = max(len(folder) for folder in outside if file.startswith(f"{folder}{os.sep}"))
        with open(file, "rb", buffering=0) as f:
            digest.update(file[begin:].encode() + b"\0" + f.readall())
    return digest.hexdigest()


_folder_state: Callable[[os.stat_result], tuple[int, ...]] = attrgetter("st_mtime_ns", "st_ctime_ns")
_state: Callable[[os.stat_result], tuple[int, ...]] = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")

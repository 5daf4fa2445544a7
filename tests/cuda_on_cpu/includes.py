# SPDX-License-Identifier: Apache-2.0
"""Which files a kernel text includes, so that editing one of them makes a new kernel."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Includes", "find_includes"]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w+))', re.M)
_texts: dict[Path, tuple[int, int, str]] = {}


class Includes:
    """The files found: their digest, and the names that were found in no include folder."""

    def __init__(self) -> None:
        self.files: dict[Path, str] = {}
        self.outside: set[str] = set()

    def digest(self) -> str:
        """Changes with the name or contents of any file."""
        digest = hashlib.sha256()
        for path, text in self.files.items():
            digest.update(f"{path}\0{text}\0".encode())
        return digest.hexdigest()


def _read(path: Path) -> str:
    stat = path.stat()
    kept = _texts.get(path)
    if kept is None or kept[:2] != (stat.st_mtime_ns, stat.st_size):
        kept = (stat.st_mtime_ns, stat.st_size, path.read_text())
        _texts[path] = kept
    return kept[2]


def find_includes(source: str, include_dirs: Sequence[str | os.PathLike[str]]) -> Includes:
    """Follows the includes of a kernel text through the include folders.

    Conditional includes count whether taken or not. An include by a macro's name counts as an
    include of every file there is in the folders.
    """
    found = Includes()
    folders = [Path(d) for d in include_dirs]
    _follow(source, None, folders, found)
    return found


def _follow(text: str, folder: Path | None, folders: list[Path], found: Includes) -> None:
    for match in _INCLUDE.finditer(text):
        quoted, angled, macro = match.groups()
        if macro:
            candidates = [p for d in folders for p in sorted(d.rglob("*")) if p.is_file()]
        else:
            near = [folder] if quoted and folder else []
            paths = (d / (quoted or angled) for d in [*near, *folders])
            first = next((p for p in paths if p.is_file()), None)
            if first is None:
                found.outside.add(quoted or angled)
            candidates = [first] if first else []
        for path in candidates:
            path = path.resolve()
            if path not in found.files:
                found.files[path] = _read(path)
                _follow(found.files[path], path.parent, folders, found)

# SPDX-License-Identifier: Apache-2.0
"""The thread-local symbols of an ELF file: these are a kernel library's shared memory."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SharedVariable", "thread_local_symbols", "variable_name"]

_SYMBOL_TABLE = 2
_THREAD_LOCAL = 6
_UNDEFINED = 0


@dataclass(frozen=True)
class SharedVariable:
    """A thread-local symbol: its mangled name, offset and size in bytes; offset -1: undefined."""

    symbol: str
    offset: int
    size: int


def thread_local_symbols(path: Path) -> list[SharedVariable]:
    """The thread-local symbols of a 64-bit object file or library, by offset."""
    data = path.read_bytes()
    section_at, section_size, section_count = _section_table(data)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_at + i * section_size) for i in range(section_count)]
    found: dict[str, SharedVariable] = {}
    for _, kind, _, _, at, size, link, _, _, entry in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names_at = sections[link][4]
        for offset in range(at, at + size, entry):
            name_at, info, _, section, value, length = struct.unpack_from("<IBBHQQ", data, offset)
            if info & 15 != _THREAD_LOCAL or not name_at:
                continue
            end = data.index(b"\0", names_at + name_at)
            name = data[names_at + name_at : end].decode()
            where = -1 if section == _UNDEFINED else value
            found[f"{name}@{where}"] = SharedVariable(name, where, length)
    return sorted(found.values(), key=lambda v: (v.offset, v.symbol))


def _section_table(data: bytes) -> tuple[int, int, int]:
    """Offset, entry size and count of an ELF file's section headers."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return at, size, count


def variable_name(symbol: str) -> str:
    """'part' for '_ZZ11row_softmaxE4part' and for 'part'."""
    if not symbol.startswith("_Z"):
        return symbol
    name = symbol
    for match in re.finditer(r"(?<!\d)\d+", symbol):
        length = int(match[0])
        part = symbol[match.end() : match.end() + length]
        if length and len(part) == length and part.isidentifier():
            name = part
    return name

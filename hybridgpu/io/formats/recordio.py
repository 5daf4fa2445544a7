# SPDX-License-Identifier: Apache-2.0
"""RecordIO files: a magic word, a length, the bytes, padding to four.

The reader checks every length against the file before it reads.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from ...base import MXNetError

__all__ = ["IndexedRecordReader", "read_record", "record_offsets", "write_record"]

MAGIC = 0xCED7230A
_LONGEST = (1 << 29) - 1  #: bytes of a part; the word's other three bits tell which part it is


class IndexedRecordReader:
    """Records by number, through the text file ``name.idx`` of keys and offsets beside ``name.rec``.

    Raises:
        MXNetError: a file is missing, or the index is no index.
    """

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self._file: BinaryIO | None = None
        index = Path(filename).with_suffix(".idx")
        try:
            self._size = os.path.getsize(filename)
            text = index.read_bytes()
        except OSError as e:
            raise MXNetError(f'Open "{e.filename}": {e.strerror}') from None
        try:
            lines = text.decode().splitlines()
            self._offsets = [int(line.split("\t")[1]) for line in lines if line.strip()]
        except (ValueError, IndexError):
            raise MXNetError(f"{index} is no index of records: lines must be 'key<tab>offset'") from None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_file": None}  # each process opens its own

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, k: int) -> bytes:
        if self._file is None:
            self._file = open(self.filename, "rb")
        return read_record(self._file, self._offsets[k], self._size, self.filename)


def read_record(file: BinaryIO, at: int, size: int, name: str) -> bytes:
    """The record at an offset of a file; the file's position is behind it afterwards.

    Raises:
        MXNetError: it is no record, or is not within the file's ``size``.
    """
    parts = []
    while True:
        if not 0 <= at <= size - 8:
            raise MXNetError(f"Invalid record at offset {at} of {name}: it lies outside of the file")
        file.seek(at)
        magic, word = struct.unpack("<II", file.read(8))
        kind, length = word >> 29, word & _LONGEST
        if magic != MAGIC or at + 8 + length > size:
            raise MXNetError(f"Invalid record at offset {at} of {name}")
        parts.append(file.read(length))
        at += 8 + (length + 3) // 4 * 4
        if kind in (0, 3):  # whole, or the last part
            file.seek(at)
            return struct.pack("<I", MAGIC).join(parts)


def record_offsets(file: BinaryIO, size: int, name: str) -> list[int]:
    """Where each record of a file begins; only lengths are read.

    Raises:
        MXNetError: what is there are no records.
    """
    offsets, at, inside = [], 0, False
    while at < size:
        if at > size - 8:
            raise MXNetError(f"Invalid record at offset {at} of {name}: it lies outside of the file")
        file.seek(at)
        magic, word = struct.unpack("<II", file.read(8))
        kind, length = word >> 29, word & _LONGEST
        if magic != MAGIC or at + 8 + length > size or inside != (kind in (2, 3)):
            raise MXNetError(f"Invalid record at offset {at} of {name}")
        if not inside:
            offsets.append(at)
        inside = kind in (1, 2)
        at += 8 + (length + 3) // 4 * 4
    return offsets


def write_record(file: BinaryIO, data: bytes) -> None:
    """Write a record at the file's position, cut where the magic word stands at a multiple of four.

    Raises:
        MXNetError: a record whose length does not fit.
    """
    if len(data) > _LONGEST:
        raise MXNetError(f"RecordIO only accept record less than 2^29 bytes, not {len(data)}")
    magic, parts, start = struct.pack("<I", MAGIC), [], 0
    at = data.find(magic)
    while at >= 0:
        if at % 4 == 0:
            parts.append(data[start:at])
            start = at + 4
        at = data.find(magic, at + (4 if at % 4 == 0 else 1))
    parts.append(data[start:])
    last = len(parts) - 1
    for k, part in enumerate(parts):
        kind = 0 if last == 0 else 1 if k == 0 else 3 if k == last else 2
        file.write(struct.pack("<II", MAGIC, kind << 29 | len(part)) + part + bytes(-len(part) % 4))

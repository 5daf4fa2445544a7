# SPDX-License-Identifier: Apache-2.0
"""RecordIO files: a magic word, a length, the bytes, padding to four.

The reader checks every length against the file before it reads.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from ..base import MXNetError

__all__ = ["IndexedRecordReader"]

MAGIC = 0xCED7230A


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
            lines = index.read_text().splitlines()
        except OSError as e:
            raise MXNetError(f'Open "{e.filename}": {e.strerror}') from None
        try:
            self._offsets = [int(line.split("\t")[1]) for line in lines if line.strip()]
        except (ValueError, IndexError):
            raise MXNetError(f"{index} is no index of records: lines must be 'key<tab>offset'") from None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_file": None}  # each process opens its own

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, k: int) -> bytes:
        if self._file is None:
            self._file = open(self.filename, "rb")  # noqa: SIM115
        at = self._offsets[k]
        parts = []
        while True:
            if not 0 <= at <= self._size - 8:
                raise MXNetError(f"Invalid record at offset {at} of {self.filename}: it lies outside of the file")
            self._file.seek(at)
            magic, word = struct.unpack("<II", self._file.read(8))
            kind, length = word >> 29, word & ((1 << 29) - 1)
            if magic != MAGIC or at + 8 + length > self._size:
                raise MXNetError(f"Invalid record at offset {at} of {self.filename}")
            parts.append(self._file.read(length))
            if kind in (0, 3):  # whole, or the last part
                return struct.pack("<I", MAGIC).join(parts)
            at += 8 + (length + 3) // 4 * 4

# SPDX-License-Identifier: Apache-2.0
"""``mx.recordio``: files of records, one after the other or by key, and the header that a labelled record begins with."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Number
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np

from .base import MXNetError
from .io.formats.recordio import read_record, write_record
from .io.images import decode_picture, encode_picture

__all__ = ["IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img", "unpack", "unpack_img"]


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """Raises: MXNetError: what is written within does not reach the file, as on a full disk."""
    try:
        yield
    except OSError as e:
        raise MXNetError(f'Write "{name}": {e.strerror}') from None


class MXRecordIO:
    """A file of records, written or read from its beginning on.

    An object goes to another process by pickling: there it opens the file anew. One that was inherited by a fork may
    not be used, since the processes would share one position.

    Args:
        uri: name of the file.
        flag: 'w' to write (what was there is lost), 'r' to read.

    Raises:
        ValueError: another flag.
        MXNetError: the file cannot be opened.
    """

    is_open = False

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.uri, self.flag = os.fspath(uri), flag
        self.open()

    def open(self) -> None:
        """Open the file, at its beginning."""
        if self.flag not in ("w", "r"):
            raise ValueError(f"Invalid flag {self.flag}")
        self.writable = self.flag == "w"
        try:
            self._hg_file: BinaryIO = open(self.uri, "wb" if self.writable else "rb")
        except OSError as e:
            raise MXNetError(f'Open "{self.uri}": {e.strerror}') from None
        self._hg_size = 0 if self.writable else os.fstat(self._hg_file.fileno()).st_size
        self.pid: int | None = os.getpid()
        self.is_open = True

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        is_open = self.is_open
        self.close()
        return {k: v for k, v in self.__dict__.items() if k != "_hg_file"} | {"is_open": is_open}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, is_open=False)
        if state["is_open"]:
            self.open()

    def _hg_check(self, writing: bool) -> None:
        """Raises: AssertionError, RuntimeError: what the file was not opened for, or not in this process."""
        assert self.writable is writing, f"{self.uri} was opened with the flag '{self.flag}'"
        if not self.is_open:
            raise MXNetError(f"{self.uri} is closed\nCall reset() to open it again.")
        if self.pid != os.getpid():
            raise RuntimeError("Forbidden operation in multiple processes")

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self.is_open:
            self.is_open, self.pid = False, None
            with _writing(self.uri):
                self._hg_file.close()

    def reset(self) -> None:
        """Begin again: a file that is written becomes empty."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record.

        Raises:
            MXNetError: one of 512 MiB or more, or the disk is full.
        """
        self._hg_check(writing=True)
        with _writing(self.uri):
            write_record(self._hg_file, buf)

    def read(self) -> bytes | None:
        """The next record, None after the last.

        Raises:
            MXNetError: what is there is no record.
        """
        self._hg_check(writing=False)
        at = self._hg_file.tell()
        return None if at == self._hg_size else read_record(self._hg_file, at, self._hg_size, self.uri)


class MXIndexedRecordIO(MXRecordIO):
    """A file of records with another of their keys and positions, for reading in any order.

    Args:
        idx_path: name of the file of keys.
        uri, flag: as for :class:`MXRecordIO`.
        key_type: makes a key of its text.

    Attributes:
        idx: positions by key.
        keys: the keys in the order of the file.
    """

    def __init__(
        self, idx_path: str | os.PathLike[str], uri: str | os.PathLike[str], flag: str, key_type: Any = int
    ) -> None:
        self.idx_path, self.key_type = os.fspath(idx_path), key_type
        self.fidx: TextIO | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        super().open()
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        try:
            self.fidx = open(self.idx_path, "w" if self.writable else "r", encoding="utf-8")
        except OSError as e:
            self.close()
            raise MXNetError(f'Open "{self.idx_path}": {e.strerror}') from None
        if self.writable:
            return
        for line in self.fidx:
            try:
                key, at = line.rstrip("\n").split("\t")
                self.idx[self.key_type(key)] = int(at)
                self.keys.append(self.key_type(key))
            except ValueError:
                self.close()
                raise MXNetError(
                    f"{self.idx_path} is no index of records: lines must be 'key<tab>offset', not {line!r}"
                ) from None

    def close(self) -> None:
        try:
            super().close()
        finally:
            index, self.fidx = self.fidx, None
            if index is not None:
                with _writing(self.idx_path):
                    index.close()

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"fidx": None}

    def seek(self, idx: Any) -> None:
        """Go to the record with a key, in the process that asks for it: after a fork the file is opened anew.

        Raises:
            KeyError: there is none.
        """
        if self.is_open and self.pid != os.getpid():
            self.reset()
        self._hg_check(writing=False)
        self._hg_file.seek(self.idx[idx])

    def tell(self) -> int:
        """Where the next record will be written."""
        self._hg_check(writing=True)
        return self._hg_file.tell()

    def read_idx(self, idx: Any) -> bytes | None:
        """The record with a key."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record under a key."""
        key, at = self.key_type(idx), self.tell()
        self.write(buf)
        assert self.fidx is not None
        with _writing(self.idx_path):
            self.fidx.write(f"{key}\t{at}\n")
        self.idx[key] = at
        self.keys.append(key)


class IRHeader(NamedTuple):
    """What a labelled record begins with.

    Attributes:
        flag: how many labels follow the header; 0 for one label within it.
        label: a number or several.
        id, id2: numbers of the record.
    """

    flag: int
    label: Any
    id: int
    id2: int


_HEADER = struct.Struct("<IfQQ")


def pack(header: IRHeader | Sequence[Any], s: bytes) -> bytes:
    """A record of a header and bytes; ``flag`` is made to fit the label."""
    header = IRHeader(*header)
    if isinstance(header.label, Number):
        return _HEADER.pack(0, header.label, header.id, header.id2) + s
    labels = np.asarray(header.label, np.dtype("<f4"))
    return _HEADER.pack(labels.size, 0, header.id, header.id2) + labels.tobytes() + s


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """The header and the bytes of a record.

    Raises:
        MXNetError: the record is shorter than its header says.
    """
    if len(s) < _HEADER.size:
        raise MXNetError(f"a record of {len(s)} bytes has no header, which takes {_HEADER.size}")
    header, rest = IRHeader(*_HEADER.unpack_from(s)), s[_HEADER.size :]
    if header.flag > 0:
        if len(rest) < 4 * header.flag:
            raise MXNetError(f"a record of {len(s)} bytes does not hold the {header.flag} labels of its header")
        header = header._replace(label=np.frombuffer(rest, "<f4", header.flag))
        rest = rest[4 * header.flag :]
    return header, rest


def pack_img(header: IRHeader | Sequence[Any], img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """A record of a header and a picture, encoded.

    Args:
        img: uint8, (height, width), or (height, width, 3) with colours in OpenCV's order: blue, green, red.
        quality: of JPEG, 1 to 100; of PNG the effort, 0 to 9.
        img_fmt: '.jpg', '.png', or '.npy'.

    Raises:
        MXNetError: another format, or the package Pillow is missing, which all but '.npy' need.
    """
    picture = np.asarray(img)
    return pack(header, encode_picture(picture[..., ::-1] if picture.ndim == 3 else picture, img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, Any]:
    """The header and the picture of a record, a NumPy array as :func:`pack_img` takes it.

    Args:
        iscolor: 1 for three colours, 0 for grey, -1 for what the file has.

    Raises:
        MXNetError: there is no picture, or the package Pillow is missing.
    """
    header, data = unpack(s)
    picture = decode_picture(data, iscolor, "the record")
    return header, picture[..., 0] if picture.shape[2] == 1 else np.ascontiguousarray(picture[..., ::-1])

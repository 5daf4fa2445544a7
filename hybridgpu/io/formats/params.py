# SPDX-License-Identifier: Apache-2.0
"""MXNet's binary parameter files (``.params``), all versions, dense arrays.

The layout is described in docs/files.md. The reader trusts nothing: every count and extent is
checked against what is left of the file before anything is allocated for it, and errors name the
offset.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.dtypes import dtype_of, from_flag
from .atomic import write_atomically

__all__ = ["read_params", "saved_with_np_shape", "write_params"]

LIST_MAGIC = 0x112
V1_MAGIC, V2_MAGIC, V3_MAGIC = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MAX_DIMENSIONS = 32


def encode_params(arrays: Sequence[Any], names: Sequence[str], np_shape: bool = False) -> bytes:
    """The bytes of a file."""
    parts = [struct.pack("<QQQ", LIST_MAGIC, 0, len(arrays))]
    for a in arrays:
        parts.append(struct.pack("<Ii", V3_MAGIC if np_shape else V2_MAGIC, 0))
        parts.append(struct.pack(f"<i{a.ndim}q", a.ndim, *a.shape))
        if a.ndim == 0 and not np_shape:
            # a legacy file has no scalars: shape () is an unknown shape, and nothing follows
            continue
        parts.append(struct.pack("<iii", 1, 0, dtype_of(a.dtype).flag))
        parts.append(np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<"), copy=False).tobytes())
    parts.append(struct.pack("<Q", len(names)))
    for name in names:
        text = name.encode()
        parts.append(struct.pack("<Q", len(text)) + text)
    return b"".join(parts)


def write_params(fname: str, arrays: Sequence[Any], names: Sequence[str], np_shape: bool = False) -> None:
    """Write a file; an existing one is replaced whole or not at all.

    Raises:
        MXNetError: the file cannot be written.
    """
    write_atomically(fname, encode_params(arrays, names, np_shape))


class _Reader:
    def __init__(self, data: bytes, fname: str) -> None:
        self.data, self.fname, self.at = data, fname, 0
        self.dense = 0  # bytes of sparse arrays so far, filled

    def fail(self, what: str) -> MXNetError:
        return MXNetError(f"Invalid NDArray file format: {what} at offset {self.at} of {self.fname}")

    def take(self, nbytes: int, what: str) -> memoryview:
        if nbytes < 0 or self.at + nbytes > len(self.data):
            left = len(self.data) - self.at
            raise self.fail(f"{what} of {nbytes} bytes, but {left} are left")
        self.at += nbytes
        return memoryview(self.data)[self.at - nbytes : self.at]

    def numbers(self, code: str, what: str) -> tuple[int, ...]:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))

    def number(self, code: str, what: str) -> int:
        return self.numbers(code, what)[0]


def read_params(fname: str, data: bytes | None = None) -> tuple[list[Any], list[str]]:
    """(arrays, names) of a file; names are empty for a list.

    Raises:
        MXNetError: the file is missing, cut short, or not of this format.
    """
    if data is None:
        try:
            data = Path(fname).read_bytes()
        except OSError as e:
            raise MXNetError(f'Open "{fname}": {e.strerror}') from None
    r = _Reader(data, fname)
    if len(data) < 8 or r.number("Q", "magic") != LIST_MAGIC:
        raise MXNetError(
            f"Check failed: header == kMXAPINDArrayListMagic: Invalid NDArray file format: {fname} does not start with 0x112"
        )
    r.number("Q", "reserved word")
    count = r.number("Q", "number of arrays")
    if count > (len(data) - r.at) // 8:
        raise r.fail(f"{count} arrays announced, more than the file can hold,")
    arrays = [_array(r) for _ in range(count)]
    named = r.number("Q", "number of names")
    if named not in (0, count):
        raise r.fail(f"{named} names for {count} arrays")
    names = []
    for _ in range(named):
        text = r.take(r.number("Q", "length of a name"), "a name")
        try:
            names.append(bytes(text).decode())
        except UnicodeDecodeError:
            raise r.fail("a name that is no UTF-8") from None
    if named and len(set(names)) != named:
        raise r.fail("a name that occurs twice")
    return arrays, names


def saved_with_np_shape(data: bytes) -> bool:
    """Whether the first array of a file carries the magic of NumPy shape semantics."""
    return len(data) >= 28 and struct.unpack_from("<I", data, 24)[0] == V3_MAGIC


def _array(r: _Reader) -> Any:
    magic = r.number("I", "magic of an array")
    if magic in (V2_MAGIC, V3_MAGIC):
        stype = r.number("i", "storage type")
        if stype not in (0, -1):
            return _sparse(r, stype)
        shape = _shape(r, r.number("i", "number of dimensions"), "q")
        if shape is None or (magic == V2_MAGIC and not shape):
            return np.zeros((0,), np.float32)
    elif magic == V1_MAGIC:
        shape = _shape(r, r.number("I", "number of dimensions"), "q")
    else:  # the oldest form: the word is the number of dimensions
        shape = _shape(r, magic, "I")
    if not shape and magic not in (V3_MAGIC,):
        return np.zeros((0,), np.float32)
    assert shape is not None
    r.numbers("ii", "context")
    return _values(r, shape)


def _values(r: _Reader, shape: tuple[int, ...]) -> Any:
    flag = r.number("i", "element type")
    return _elements(r, shape, flag)


def _elements(r: _Reader, shape: tuple[int, ...], flag: int) -> Any:
    try:
        dtype = from_flag(flag)
    except KeyError:
        raise r.fail(f"unknown element type {flag}") from None
    # without elements an extent may be larger than the file, but not than memory can be numbered
    most = len(r.data) if 0 not in shape else 1 << 31
    if any(d > most for d in shape) or prod(d for d in shape if d) * dtype.size > 1 << 62:
        raise r.fail(f"an array of shape {list(shape)}, larger than the file,")
    raw = r.take(prod(shape) * dtype.size, f"the values of an array of shape {list(shape)}")
    return np.frombuffer(raw, dtype.np.newbyteorder("<")).astype(dtype.np).reshape(shape)


def _shape(r: _Reader, ndim: int, code: str) -> tuple[int, ...] | None:
    """The extents; None for an unknown shape (-1 dimensions)."""
    if ndim == -1:
        return None
    if not 0 <= ndim <= _MAX_DIMENSIONS:
        raise r.fail(f"an array of {ndim} dimensions")
    shape = r.numbers(f"{ndim}{code}", "extents") if ndim else ()
    if any(d < 0 for d in shape):
        raise r.fail(f"a negative extent in shape {list(shape)}")
    return shape


def _sparse(r: _Reader, stype: int) -> Any:
    """A row_sparse (1) or csr (2) array, as the dense array it stands for."""
    if stype not in (1, 2):
        raise r.fail(f"unknown storage type {stype}")
    stored = _shape(r, r.number("i", "number of stored dimensions"), "q")
    shape = _shape(r, r.number("i", "number of dimensions"), "q")
    if stored is None or shape is None:
        raise r.fail("a sparse array of unknown shape")
    r.numbers("ii", "context")
    flag = r.number("i", "element type")
    aux = []
    for _ in range(stype):
        aux_flag = r.number("i", "element type of indices")
        aux_shape = _shape(r, r.number("i", "number of index dimensions"), "q")
        aux.append((aux_flag, aux_shape or ()))
    if stype == 2:  # MXNet leaves what it announces for values at 0, and writes as many as columns
        stored = aux[1][1]
    values = _elements(r, stored, flag)
    indices = [_elements(r, s, f) for f, s in aux]
    size = values.dtype.itemsize
    for extent in shape:
        size *= max(extent, 1)
    r.dense += size
    if r.dense > 64 * max(len(r.data), 1 << 16):  # together: many small ones make a large one
        raise r.fail(f"a sparse array that would fill {list(shape)} densely, far beyond the file's size,")
    dense = np.zeros(shape, values.dtype)
    if not _consistent(stype, shape, values, *indices):
        raise r.fail("indices of a sparse array out of range")
    if stype == 1:
        dense[indices[0]] = values
    elif values.size:
        pointers, columns = indices
        dense[np.repeat(np.arange(shape[0]), np.diff(pointers)), columns] = values
    return dense


def _consistent(stype: int, shape: tuple[int, ...], values: Any, first: Any, columns: Any = None) -> bool:
    """Whether the indices of a sparse array are what its shape and its values need."""
    if any(i.ndim != 1 or i.dtype.kind not in "iu" for i in (first, columns) if i is not None):
        return False

    def within(indices: Any, extent: int) -> bool:
        return not indices.size or (indices.min() >= 0 and indices.max() < extent)

    if stype == 1:
        return bool(len(shape) > 0 and values.shape == (len(first), *shape[1:]) and within(first, shape[0]))
    if len(shape) != 2 or not within(columns, shape[1]):
        return False
    if not first.size:  # of an array without values
        return not columns.size
    ends = first[0] == 0 and first[-1] == len(columns) and len(first) == shape[0] + 1
    return bool(ends and (np.diff(first) >= 0).all())

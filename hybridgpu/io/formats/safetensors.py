# SPDX-License-Identifier: Apache-2.0
"""Safetensors files: named arrays for other frameworks.

Eight bytes with the length of the header, the header (JSON: for each array its element type, shape and
place), then the elements, without gaps. The reader trusts nothing: the header must describe every byte of
the file exactly once before memory is asked for, and errors name the array.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np

from ...base import MXNetError
from ...core.dtypes import dtype_of
from .atomic import write_atomically

__all__ = ["is_safetensors", "read_safetensors", "write_safetensors"]

_MAX_HEADER = 100_000_000  #: as in other readers
_MAX_DIMENSIONS = 32
_CODES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
_NAMES = {name: code for code, name in _CODES.items()}


def is_safetensors(fname: str) -> bool:
    """Whether a file of this name is, or is to be, one of safetensors."""
    return fname.lower().endswith(".safetensors")


def encode_safetensors(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of a file.

    Raises:
        MXNetError: a name that the format cannot hold.
    """
    header: dict[str, Any] = {}
    parts, at = [], 0
    # wide elements first, so that every array is aligned
    order = sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n))
    for name in order:
        a = arrays[name]
        header[name] = {
            "dtype": _NAMES[dtype_of(a.dtype).name],
            "shape": list(a.shape),
            "data_offsets": [at, at + a.nbytes],
        }
        parts.append(np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<"), copy=False).tobytes())
        at += a.nbytes
    if "__metadata__" in header:
        raise MXNetError("An array named '__metadata__' cannot be in a safetensors file\nGive it another name.")
    try:
        text = json.dumps({n: header[n] for n in arrays}, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MXNetError("The name of an array cannot be written as UTF-8\nGive it another name.") from None
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def write_safetensors(fname: str, arrays: Mapping[str, Any]) -> None:
    """Write a file; an existing one is replaced whole or not at all.

    Raises:
        MXNetError: the file cannot be written, or a name cannot be in it.
    """
    write_atomically(fname, encode_safetensors(arrays))


def read_safetensors(fname: str) -> dict[str, Any]:
    """NumPy arrays by name, in the order of the header.

    Raises:
        MXNetError: the file is missing, cut short, not of this format, or holds an element type that is not known.
    """
    try:
        with open(fname, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            entries, start = _header(f, size, fname)
            arrays = {}
            for name, code, shape, begin, end in entries:
                f.seek(start + begin)
                arrays[name] = _elements(f, code, shape, end - begin, _at(name, fname))
            return arrays
    except OSError as e:
        raise MXNetError(f'Open "{fname}": {e.strerror}') from None


def _fail(what: str, fname: str) -> MXNetError:
    return MXNetError(f"Invalid safetensors file {fname}: {what}")


def _at(name: str, fname: str) -> str:
    shown = name if len(name) <= 80 else f"{name[:80]}..."
    return f"{fname}: array {shown!r}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name[:80]!r} is there twice")
        members[name] = value
    return members


def _header(f: BinaryIO, size: int, fname: str) -> tuple[list[tuple[str, str, tuple[int, ...], int, int]], int]:
    """(name, element type, shape, begin, end) of each array, and where the elements start."""
    if size < 8:
        raise _fail(f"it has {size} bytes, but the length of the header takes 8", fname)
    (length,) = struct.unpack("<Q", f.read(8))
    if length > min(_MAX_HEADER, size - 8):
        raise _fail(f"a header of {length} bytes, but {size - 8} are left and {_MAX_HEADER} are allowed", fname)
    text = f.read(length)
    if text[:1] != b"{":
        raise _fail("the header does not start with '{'", fname)
    try:
        table = json.loads(text.decode(), object_pairs_hook=_once)
    except RecursionError:
        raise _fail("the header is nested too deeply", fname) from None
    except ValueError as e:  # no UTF-8, no JSON, a name twice
        raise _fail(f"the header is no JSON: {str(e)[:200]}", fname) from None
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _fail("__metadata__ is no table of texts", fname)
    left = size - 8 - length
    entries = [_entry(name, row, left, fname) for name, row in table.items()]
    at, before = 0, "the header"
    for name, _, _, begin, end in sorted(entries, key=lambda e: e[3:]):
        if begin != at:
            what = "overlaps" if begin < at else f"leaves a gap of {begin - at} bytes behind"
            raise _fail(f"data_offsets [{begin}, {end}] {what} {before}", _at(name, fname))
        at, before = end, repr(name[:80])
    if at != left:
        raise _fail(f"{left - at} bytes behind the last array belong to none", fname)
    return entries, 8 + length


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _entry(name: str, row: Any, left: int, fname: str) -> tuple[str, str, tuple[int, ...], int, int]:
    where = _at(name, fname)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _fail("the name cannot be written as UTF-8", where) from None
    if not isinstance(row, dict) or set(row) != {"dtype", "shape", "data_offsets"}:
        raise _fail("it must have dtype, shape and data_offsets", where)
    code, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
    if not isinstance(code, str) or code not in _CODES:
        raise _fail(f"unknown element type {str(code)[:40]!r}; known are {', '.join(_CODES)}", where)
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(_natural, shape)):
        raise _fail(f"its shape must be a list of at most {_MAX_DIMENSIONS} numbers from 0", where)
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_natural, offsets)):
        raise _fail("data_offsets must be two numbers from 0", where)
    begin, end = offsets
    if not begin <= end <= left:
        raise _fail(f"data_offsets [{begin}, {end}] lie outside of the {left} bytes of elements", where)
    # without elements an extent may be larger than the file, but not than memory can be numbered
    width = dtype_of(_CODES[code]).size
    if (any(d >= 1 << 31 for d in shape) and 0 in shape) or prod(d for d in shape if d) >= 1 << 62:
        raise _fail("an extent of its shape is too large", where)
    if prod(shape) * width != end - begin:
        raise _fail(
            f"{code} of shape {shape} takes {prod(shape) * width} bytes, but data_offsets hold {end - begin}", where
        )
    return name, code, tuple(shape), begin, end


def _elements(f: BinaryIO, code: str, shape: tuple[int, ...], nbytes: int, where: str) -> Any:
    data = f.read(nbytes)
    if len(data) != nbytes:
        raise _fail("the file was cut short while it was read", where)
    if code == "BOOL":
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    kind = dtype_of(_CODES[code]).np
    return np.frombuffer(data, kind.newbyteorder("<")).astype(kind).reshape(shape)

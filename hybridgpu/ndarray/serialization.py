# SPDX-License-Identifier: Apache-2.0
"""``nd.save`` and ``nd.load``: lists and dictionaries of arrays in MXNet's format, or named ones in safetensors'."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from ..base import MXNetError
from ..context import cpu
from ..io.params import LIST_MAGIC, read_params, saved_with_np_shape, write_params
from ..io.safetensors import is_safetensors, read_safetensors, write_safetensors
from ..util import is_np_shape
from .array import NDArray, wrap

__all__ = ["array_of_record", "load", "load_frombuffer", "save"]


def save(fname: str, data: Any) -> None:
    """Write an array, a list of arrays or a dict of arrays; a name that ends in '.safetensors' chooses that format.

    Raises:
        TypeError: a list or dict with something else in it.
        ValueError: none of the three, or for safetensors no dict.
    """
    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, dict):
        names, arrays = list(data), list(data.values())
        if any(not isinstance(n, str) for n in names) or any(not isinstance(a, NDArray) for a in arrays):
            raise TypeError("save only accept dict str->NDArray or list of NDArray")
    elif isinstance(data, list):
        names, arrays = [], data
        if any(not isinstance(a, NDArray) for a in arrays):
            raise TypeError("save only accept dict str->NDArray or list of NDArray")
    else:
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays.")
    if not is_safetensors(fname):
        write_params(fname, [a.asnumpy() for a in arrays], names, is_np_shape())
    elif not isinstance(data, dict):
        raise ValueError("A safetensors file holds arrays with names\nPass a dict of str -> NDArray.")
    else:
        write_safetensors(fname, {n: a.asnumpy() for n, a in data.items()})


def _result(fname: str, data: bytes) -> Any:
    values, names = read_params(fname, data)
    if saved_with_np_shape(data) and not is_np_shape():
        raise MXNetError(
            "Check failed: Imperative::Get()->is_np_shape(): ndarray was saved in np shape semantics, and must be loaded in the "
            "same semantics.\nPut the load under `with mx.np_shape(True):`."
        )
    if is_np_shape() and not saved_with_np_shape(data) and any(a.size == 0 for a in values):
        raise MXNetError(
            "Check failed: an array of zero or unknown size was saved without np shape semantics, and must be loaded without.\n"
            "Put the load under `with mx.np_shape(False):`."
        )
    arrays = [wrap(a, cpu()) for a in values]
    return dict(zip(names, arrays, strict=True)) if names else arrays


def load(fname: str) -> Any:
    """Read a file of ``save``: a list, or a dict if it has names; '.safetensors' is read as such.

    Raises:
        MXNetError: the file is missing, cut short, no such file, or of other shape semantics (``mx.np_shape``).
    """
    if not isinstance(fname, str):
        raise TypeError("fname required to be a string")
    if is_safetensors(fname):
        return {n: wrap(a, cpu()) for n, a in read_safetensors(fname).items()}
    try:
        data = Path(fname).read_bytes()
    except OSError as e:
        raise MXNetError(f'Open "{fname}": {e.strerror}') from None
    return _result(fname, data)


def load_frombuffer(buf: bytes) -> Any:
    """As ``load``, from bytes in memory."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError("buf required to be a string or bytes")
    return _result("<buffer>", bytes(buf))


def array_of_record(record: bytes) -> NDArray:
    """One array from its bytes in ``save``'s format without the list around them, as MXNet pickles arrays."""
    one = struct.pack("<QQQ", LIST_MAGIC, 0, 1) + bytes(record) + struct.pack("<Q", 0)
    return load_frombuffer(one)[0]  # type: ignore[no-any-return]

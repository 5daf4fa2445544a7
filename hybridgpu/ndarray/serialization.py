# SPDX-License-Identifier: Apache-2.0
"""``nd.save`` and ``nd.load``: lists and dictionaries of arrays in MXNet's format, or named ones in safetensors'."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from ..base import MXNetError
from ..context import cpu
from ..io.formats.params import LIST_MAGIC, read_params, saved_with_np_shape, write_params
from ..io.formats.safetensors import is_safetensors, read_safetensors, write_safetensors
from ..util import is_np_array, is_np_shape
from .late_bindings import late
from .ndarray import NDArray, wrap

__all__ = ["array_of_record", "load", "load_frombuffer", "load_np", "save", "save_np", "write_arrays"]


def save(fname: str, data: Any) -> None:
    """Write an array, a list of arrays or a dict of arrays; a name that ends in '.safetensors' chooses that format.

    Raises:
        TypeError: a list or dict with something else in it, arrays of np included.
        ValueError: none of the three, or for safetensors no dict.
    """
    if isinstance(data, NDArray):
        data = [data]
    if not isinstance(data, (dict, list)):
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays.")
    arrays = data.values() if isinstance(data, dict) else data
    if not _are_arrays(data, NDArray):
        raise TypeError("save only accept dict str->NDArray or list of NDArray")
    if any(a._kind is not None for a in arrays):
        raise TypeError("cannot save mxnet.numpy.ndarray using mxnet.ndarray.save; use mxnet.numpy.save instead.")
    write_arrays(fname, data)


def _are_arrays(data: dict[Any, Any] | list[Any], kind: type) -> bool:
    """Whether all values are of the class, and the keys of a dict texts."""
    if isinstance(data, list):
        return all(isinstance(a, kind) for a in data)
    return all(isinstance(n, str) and isinstance(a, kind) for n, a in data.items())


def write_arrays(fname: str, data: dict[str, Any] | list[Any]) -> None:
    """Write arrays of nd or of np as ``save`` does."""
    arrays = data if isinstance(data, list) else list(data.values())
    if not is_safetensors(fname):
        write_params(fname, [a.asnumpy() for a in arrays], list(data) if isinstance(data, dict) else [], is_np_shape())
    elif not isinstance(data, dict):
        raise ValueError("A safetensors file holds arrays with names\nPass a dict of str -> NDArray.")
    else:
        write_safetensors(fname, {n: a.asnumpy() for n, a in data.items()})


def save_np(file: str, arr: Any) -> None:
    """Write an array of np, a list or a dict of such arrays.

    Raises:
        ValueError: NumPy semantics are off, or ``arr`` is none of the three.
        TypeError: something else in the list or dict.
    """
    _require_np("save")
    if isinstance(arr, _np_class()):
        arr = [arr]
    if not isinstance(arr, (dict, list)):
        raise ValueError("data needs to either be a ndarray, dict of (str, ndarray) pairs or a list of ndarrays.")
    if not _are_arrays(arr, _np_class()):
        raise TypeError("Only accepts dict str->ndarray or list of ndarrays")
    write_arrays(file, arr)


def load_np(file: str) -> Any:
    """Read a file of ``save``: a list of arrays of np, or a dict if it has names.

    Raises:
        ValueError: NumPy semantics are off.
        TypeError: the name is no text.
        MXNetError: the file is missing, cut short, or no such file.
    """
    _require_np("load")
    if not isinstance(file, str):
        raise TypeError("file required to be a string")
    loaded = load(file)
    if isinstance(loaded, dict):
        return {n: a.as_np_ndarray() for n, a in loaded.items()}
    return [a.as_np_ndarray() for a in loaded]


def _np_class() -> type[NDArray]:
    return late.ndarray  # type: ignore[no-any-return]


def _require_np(what: str) -> None:
    if not (is_np_shape() and is_np_array()):
        raise ValueError(
            f"Cannot {what} `mxnet.numpy.ndarray` in legacy mode. Please activate numpy semantics by calling `npx.set_np()` "
            "in the global scope before calling this function."
        )


def _result(fname: str, data: bytes) -> Any:
    values, names = read_params(fname, data)
    if saved_with_np_shape(data) and not is_np_shape():
        raise MXNetError(
            "Check failed: Imperative::Get()->is_np_shape(): ndarray was saved in np shape semantics, must be loaded in the same "
            "semantics. Please turn on np shape semantics in Python using `with np_shape(True)` or decorator `use_np_shape` to "
            "scope the code of loading the ndarray."
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

# SPDX-License-Identifier: Apache-2.0
"""``nd.save`` and ``nd.load``: lists and dictionaries of arrays in MXNet's format."""

from __future__ import annotations

from typing import Any

from ..context import cpu
from ..io.params import read_params, write_params
from .array import NDArray, wrap

__all__ = ["load", "load_frombuffer", "save"]


def save(fname: str, data: Any) -> None:
    """Write an array, a list of arrays or a dict of arrays.

    Raises:
        TypeError: a list or dict with something else in it.
        ValueError: none of the three.
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
    write_params(fname, [a.asnumpy() for a in arrays], names)


def _result(found: tuple[list[Any], list[str]]) -> Any:
    arrays = [wrap(a, cpu()) for a in found[0]]
    return dict(zip(found[1], arrays, strict=True)) if found[1] else arrays


def load(fname: str) -> Any:
    """Read a file of ``save``: a list, or a dict if it has names.

    Raises:
        MXNetError: the file is missing, cut short or no such file.
    """
    if not isinstance(fname, str):
        raise TypeError("fname required to be a string")
    return _result(read_params(fname))


def load_frombuffer(buf: bytes) -> Any:
    """As ``load``, from bytes in memory."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError("buf required to be a string or bytes")
    return _result(read_params("<buffer>", bytes(buf)))

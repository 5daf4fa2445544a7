# SPDX-License-Identifier: Apache-2.0
"""Fresh arrays whose data vectors can be loaded from without crossing cache lines.

NumPy aligns to 16 bytes, and large arrays of its lie 16 bytes behind the start of a page: each 64-byte load then
touches two cache lines, which halves the speed of kernels that work in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "aligned_bytes", "copy", "empty", "lodger", "zeros"]

ALIGNMENT = 64  #: bytes: a cache line, and the widest vector
_SMALL = 256  #: bytes from which it is worth the microsecond


def aligned_bytes(nbytes: int, make: Callable[..., np.ndarray] = np.empty) -> np.ndarray:
    """Bytes on the host, aligned to ALIGNMENT; what they hold is up to ``make``."""
    raw = make(nbytes + ALIGNMENT, np.uint8)
    skip = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[skip : skip + nbytes]


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised C-contiguous array of NumPy or CuPy (whose own alignment is wide enough)."""
    return _on_host(np.empty, shape, dtype) if xp is np else xp.empty(shape, dtype)


def zeros(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The same, filled with zeros, which a host brings in when they are first touched."""
    return _on_host(np.zeros, shape, dtype) if xp is np else xp.zeros(shape, dtype)


def _on_host(make: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: Any) -> Any:
    size = np.dtype(dtype).itemsize
    for extent in shape:
        size *= extent
    if size < _SMALL:
        return make(shape, dtype)
    return aligned_bytes(size, make).view(dtype).reshape(shape)


def lodger(host: Any, nbytes: int, dtype: Any, shape: tuple[int, ...]) -> Any:
    """The array that lies in the first ``nbytes`` of another one's memory."""
    return host.reshape(-1).view(np.uint8)[:nbytes].view(dtype).reshape(shape)


def copy(xp: Any, array: Any) -> Any:
    """A C-contiguous copy of an array (for NumPy: of anything that it makes an array of)."""
    if xp is not np:
        return xp.array(array, order="C", copy=True)
    array = np.asarray(array)
    if array.nbytes < _SMALL:
        return np.array(array, order="C")
    made = empty(np, array.shape, array.dtype)
    made[...] = array
    return made

# SPDX-License-Identifier: Apache-2.0
"""Allocation of aligned arrays, from which vectors are loaded without crossing cache lines.

NumPy aligns to 16 bytes, and large arrays of its lie 16 bytes behind the start of a page: each 64-byte load then
touches two cache lines, which halves the speed of kernels that work in the first-level cache.

Arrays that begin at the same place of a page, as all large ones would, share few sets of that cache: a kernel that walks
several of them throws its own lines out, and a load waits for a store to the same place of another page. BatchNorm's
derivative over 8 x 512 x 2 x 2 took 55 us so, and 22 where they begin at different lines.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import prod
from typing import Any

import numpy as np

from ..core.fork_safe_lock import Lock
from ..core.source_location import located_hint
from .device_errors import HostMemoryError, retry_after_oom

__all__ = ["ALIGNMENT", "alias", "aligned_bytes", "copy", "empty", "persistent", "zeros"]

ALIGNMENT = 64  #: bytes: a cache line, and the widest vector
_SMALL = 256  #: bytes from which it is worth the microsecond
_PAGE = 2 << 20  #: bytes of a large page
_LARGE = 4 << 20  #: bytes from which on NumPy asks the system for large pages
_SMALL_PAGE = 4096  #: bytes, within which the places are counted
_STAGGERED = 32 << 10  #: bytes from which on arrays begin at different places of a page, …
_PLACES, _DISTANCE = 16, 256  #: … which are so many, so far apart
_SLAB = 8 << 20  #: bytes that are cut up for what lasts
_PIECE = 4 << 20  #: bytes of a piece at most


_turn = count()


def aligned_bytes(nbytes: int, make: Callable[..., np.ndarray] = np.empty) -> np.ndarray:
    """Bytes on the host, aligned to ALIGNMENT; what they hold is up to ``make``.

    Many of them begin with a large page: before and behind these there is a fault for each small one, which takes as long
    as to write it.

    Raises:
        HostMemoryError: the system does not give so many.
    """
    alignment = ALIGNMENT if nbytes < _STAGGERED else _SMALL_PAGE if nbytes < _LARGE else _PAGE
    place = next(_turn) % _PLACES * _DISTANCE if nbytes >= _STAGGERED else 0
    try:
        raw = make(nbytes + alignment + place, np.uint8)
    except MemoryError:
        instead = located_hint(
            "Take a smaller batch, or drop arrays, recorded graphs and results that are no longer needed."
        )
        raise HostMemoryError(f"Unable to allocate {nbytes / 2**30:,.1f} GiB of the host's memory\n{instead}") from None
    skip = -raw.__array_interface__["data"][0] % alignment + place
    return raw[skip : skip + nbytes]


class _Slab:
    """Memory in large pages, given out from its beginning; it is freed when no piece is left."""

    def __init__(self) -> None:
        self._rest = aligned_bytes(_SLAB)  # a page costs memory when it is touched

    def piece(self, nbytes: int) -> np.ndarray | None:
        if nbytes > len(self._rest):
            return None
        piece, self._rest = self._rest[:nbytes], self._rest[-(-nbytes // ALIGNMENT) * ALIGNMENT :]
        return piece


_slab: _Slab | None = None
_cutting = Lock()


def persistent(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised array for what a program reads at every call: weights in its own order, intermediate results.

    On the host, such arrays share large pages. Where small ones lie in physical memory is chance: with ill luck many
    lines of half a megabyte of weights share few sets of the second-level cache, and a product takes a third longer.
    """
    nbytes = np.dtype(dtype).itemsize * prod(shape)
    if xp is not np or nbytes > _PIECE:
        return empty(xp, shape, dtype)
    return _piece(nbytes).view(dtype).reshape(shape)


def _piece(nbytes: int) -> np.ndarray:
    global _slab
    with _cutting:
        piece = _slab.piece(nbytes) if _slab else None
        if piece is None:
            _slab = _Slab()
            piece = _slab.piece(nbytes)
        assert piece is not None
        return piece


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised C-contiguous array of NumPy or CuPy (whose own alignment is wide enough)."""
    if xp is np:
        return _on_host(np.empty, shape, dtype)
    try:
        return xp.empty(shape, dtype)
    except Exception as e:
        return retry_after_oom(e, xp.empty, shape, dtype)


def zeros(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The same, filled with zeros, which a host brings in when they are first touched."""
    if xp is np:
        return _on_host(np.zeros, shape, dtype)
    try:
        return xp.zeros(shape, dtype)
    except Exception as e:
        return retry_after_oom(e, xp.zeros, shape, dtype)


def _on_host(make: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: Any) -> Any:
    size = np.dtype(dtype).itemsize
    for extent in shape:
        size *= extent
    if size < _SMALL:
        return make(shape, dtype)
    return aligned_bytes(size, make).view(dtype).reshape(shape)


def alias(host: Any, nbytes: int, dtype: Any, shape: tuple[int, ...]) -> Any:
    """The array that lies in the first ``nbytes`` of another one's memory."""
    return host.reshape(-1).view(np.uint8)[:nbytes].view(dtype).reshape(shape)


def copy(xp: Any, array: Any) -> Any:
    """A C-contiguous copy of an array (for NumPy: of anything that it makes an array of)."""
    if xp is not np:
        try:
            return xp.array(array, order="C", copy=True)
        except Exception as e:
            return retry_after_oom(e, lambda a: xp.array(a, order="C", copy=True), array)
    array = np.asarray(array)
    if array.nbytes < _SMALL:
        return np.array(array, order="C")
    copied = empty(np, array.shape, array.dtype)
    copied[...] = array
    return copied

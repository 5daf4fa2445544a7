# SPDX-License-Identifier: Apache-2.0
"""Arrays beside memory that nobody may touch: a kernel that reads or writes past one of their ends crashes.

Elsewhere such an access goes unnoticed: what lies behind an array is memory as well.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np

__all__ = ["guarded", "guarded_copy"]


def guarded(shape: tuple[int, ...], dtype: Any, at_end: bool = True) -> np.ndarray:
    """An array whose bits are all set (NaN, in floats), which ends where a page ends (or begins where one begins).

    The pages before and after it are out of bounds, and what else lies in its own is NaN, too. Where that cannot be had it is an array like any other.
    """
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    if not nbytes or not sys.platform.startswith("linux"):
        return np.full(nbytes, 0xFF, np.uint8).view(dtype).reshape(shape)
    page = mmap.PAGESIZE
    room = -(-nbytes // page) * page
    memory = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
    start = memory.__array_interface__["data"][0]
    libc = ctypes.CDLL(None, use_errno=True)
    for address in (start, start + page + room):
        if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(page), 0):  # 0: neither read nor written
            raise OSError(ctypes.get_errno(), "mprotect failed")
    begin = page + (room - nbytes if at_end else 0)
    memory[page : page + room] = 0xFF
    return memory[begin : begin + nbytes].view(dtype).reshape(shape)


def guarded_copy(a: np.ndarray, at_end: bool = True) -> np.ndarray:
    """The same values in a guarded array."""
    out = guarded(a.shape, a.dtype, at_end)
    out[...] = a
    return out

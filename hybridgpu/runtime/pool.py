# SPDX-License-Identifier: Apache-2.0
"""Reused output arrays.

Fresh memory costs more than many kernels: the first touch of a page is a trap. A pool keeps the last
few results of one output and gives one out again once nothing else refers to it or to its memory.
Results that the caller keeps stay the caller's.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from ..compiler.ir.types import TensorType
from ..context import Context
from ..ndarray.array import NDArray, wrap

__all__ = ["OutputPool"]

_ENTRIES = 3


class OutputPool:
    """Arrays of one type on the host, aligned to 64 bytes."""

    def __init__(self, type: TensorType, ctx: Context) -> None:
        self.type, self.ctx = type, ctx
        self._ring: list[tuple[NDArray, Any, Any]] = []
        self._next = 0

    def take(self) -> NDArray:
        """An array that nobody else holds, with undefined values."""
        for entry in self._ring:
            array, data, raw = entry
            # each is held by its entry, the local name and the call; data also by the array, raw by data.
            # Two threads that look at one entry see each other's local names and both go on.
            if getrefcount(array) == 3 and getrefcount(data) == 4 and getrefcount(raw) == 4:
                array._autograd = None
                return array
        return self._make()

    def _make(self) -> NDArray:
        nbytes = max(self.type.nbytes, 1)
        raw = np.empty(nbytes + 64, np.uint8)
        skip = -raw.__array_interface__["data"][0] % 64
        data = raw[skip : skip + self.type.nbytes].view(self.type.dtype.np).reshape(self.type.shape)
        array = wrap(data, self.ctx)
        array._address = raw.__array_interface__["data"][0] + skip
        entry = (array, data, raw)
        if len(self._ring) < _ENTRIES:
            self._ring.append(entry)
        else:
            self._ring[self._next] = entry
            self._next = (self._next + 1) % _ENTRIES
        return array

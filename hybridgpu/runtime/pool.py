# SPDX-License-Identifier: Apache-2.0
"""Reused output arrays.

Fresh memory costs more than many kernels: the first touch of a page is a trap. A pool keeps the last
few results of one output and gives one out again once nothing else refers to it or to its memory.
Results that the caller keeps stay the caller's.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from ..backends.devices import Device
from ..backends.memory import aligned_bytes
from ..compiler.ir.types import TensorType
from ..context import Context
from ..ndarray.array import NDArray, wrap

__all__ = ["DevicePool", "OutputPool"]

_ENTRIES = 3

_Held = tuple[NDArray, Any, Any, Any]  #: an array, its data, and two objects that hold the data's memory


class OutputPool:
    """Arrays of one type on the host, aligned for vectors."""

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
        data = aligned_bytes(self.type.nbytes).view(self.type.dtype.np).reshape(self.type.shape)
        array = wrap(data, self.ctx)
        array._address = data.__array_interface__["data"][0]
        entry = (array, data, data.base)
        if len(self._ring) < _ENTRIES:
            self._ring.append(entry)
        else:
            self._ring[self._next] = entry
            self._next = (self._next + 1) % _ENTRIES
        return array


class DevicePool:
    """Arrays of one type on a GPU, for results that are computed on one stream and asked for by one thread.

    What is given out again may still be read by kernels that were started before, on the same stream: they come
    first. Who reads a result on another stream has to hold it until that stream has caught up, as with CuPy's own memory.
    """

    def __init__(self, type: TensorType, ctx: Context, device: Device) -> None:
        self.type, self.ctx, self.device = type, ctx, device
        self._ring: list[tuple[_Held, tuple[int, ...]]] = []
        self._next = 0

    def take(self) -> NDArray:
        """An array that nobody else holds, with undefined values."""
        for held, idle in self._ring:
            if _references(held) == idle:
                array = held[0]
                array._autograd = None
                return array
        return self._make()

    def _make(self) -> NDArray:
        held = self._new()
        entry = held, _references(held)  # nobody else has seen it: what is counted now means "idle"
        if len(self._ring) < _ENTRIES:
            self._ring.append(entry)
        else:
            self._ring[self._next] = entry
            self._next = (self._next + 1) % _ENTRIES
        return held[0]

    def _new(self) -> _Held:
        data = self.device.xp.empty(self.type.shape, self.type.dtype.np)
        array = wrap(data, self.ctx)
        array._address = self.device.address(data)
        return (array, data, *self.device.memory(data))


def _references(held: _Held) -> tuple[int, int, int, int]:
    """How often each object that leads to the memory is referred to."""
    array, data, pointer, memory = held
    return getrefcount(array), getrefcount(data), getrefcount(pointer), getrefcount(memory)

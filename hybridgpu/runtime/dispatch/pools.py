# SPDX-License-Identifier: Apache-2.0
"""Reused memory of calls.

Fresh memory costs more than many kernels: the first touch of a page is a trap, and the system fills it with zeros. A pool
keeps the last few results of one output and gives one out again once nothing else refers to it or to its memory. Large ones
of all programs share their memory, within a bound. Results that the caller keeps stay the caller's.

Pools count references. Two threads that look at one entry see each other's local names, and both go on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from sys import getrefcount
from typing import Any, Generic, TypeVar

import numpy as np

from ...backends.device_errors import register_holder
from ...backends.devices import Device, device_of
from ...backends.memory import aligned_bytes, empty
from ...compiler.ir.types import TensorType
from ...context import Context, cpu
from ...core.cgroups import memory_limit
from ...ndarray.ndarray import NDArray, wrap

__all__ = [
    "REFS_ONE",
    "REFS_TWO",
    "REUSED_BYTES",
    "DevicePool",
    "OutputPool",
    "ScratchPool",
    "StoragePool",
    "large_results",
    "result_allocator",
    "shared_storage",
]

_ENTRIES = 3  #: results of one output that a pool keeps
REUSED_BYTES = 1 << 20  #: of a recorded call's results and residuals up to which their memory is their own

_OWN_BYTES = 1 << 16  #: of a result of an eager operator up to which its memory is its own
_LEAST_SHARED_BYTES = 128 << 20  #: that all others keep together, …
_MEMORY_SHARE = 16  #: … or this part of the memory that the process may use, if that is more
_MIN_SHARED_COUNT = 4  #: of a size of which fewer have room, none is kept
_SHARED_ENTRIES = 32  #: of one size

_Held = tuple[NDArray, Any, Any, Any]  #: an array, its data, and two objects that hold the data's memory
_Entry = TypeVar("_Entry")

_Words = ctypes.c_uint32 * 4


def _counted() -> int:
    name = object()
    return getrefcount(name)


#: references that counting those of a local name finds besides others: the name, and up to Python 3.13 the call
_NAME = _counted()
REFS_ONE, REFS_TWO = _NAME + 1, _NAME + 2


class _Ring(Generic[_Entry]):
    """The last few of what was made."""

    def __init__(self) -> None:
        self._ring: list[_Entry] = []
        self._next = 0

    def _add(self, entry: _Entry) -> None:
        ring = self._ring  # another thread may take it away
        if len(ring) < _ENTRIES:
            ring.append(entry)
        else:
            ring[self._next] = entry
            self._next = (self._next + 1) % _ENTRIES


class OutputPool(_Ring[tuple[NDArray, Any, Any]]):
    """Arrays of one type and one ``kind`` (as for ``wrap``) on the host, aligned for vectors."""

    def __init__(self, type: TensorType, ctx: Context, kind: Any = None) -> None:
        super().__init__()
        self.type, self.ctx, self.kind = type, ctx, kind

    def take(self) -> NDArray:
        """An array that nobody else holds, with undefined values."""
        for entry in self._ring:
            array, data, raw = entry
            # each is held by its entry; data also by the array, raw by data
            if getrefcount(array) == REFS_ONE and getrefcount(data) == REFS_TWO and getrefcount(raw) == REFS_TWO:
                array._autograd = None
                return array
        data = _aligned(self.type)
        output: NDArray = wrap(data, self.ctx, self.kind)
        output._address = _address(data)
        self._add((output, data, data.base))
        return output


class StoragePool(_Ring[tuple[Any, Any, int]]):
    """Data of one type on the host, for arrays that the caller makes: one that waited here would hold the recorded
    graph that it is a result of.

    Args:
        reuse: give memory out again; else large data has memory that all share.
    """

    def __init__(self, type: TensorType, reuse: bool) -> None:
        super().__init__()
        self.type, self.reuse = type, reuse

    def take(self) -> tuple[Any, Any, int]:
        """(data that nobody else holds, its memory, its address)."""
        for entry in self._ring:
            data, raw, address = entry
            if getrefcount(data) == REFS_ONE and getrefcount(raw) == REFS_TWO:  # as above
                return data, raw, address  # not the entry: it would hold them for nobody until it is unpacked
        if not self.reuse:
            data = _fresh(self.type)
            return data, None, _address(data)
        data = _aligned(self.type)
        raw, address = data.base, _address(data)
        self._add((data, raw, address))
        return data, raw, address

    def entry(self) -> tuple[Any, Any, int]:
        """One of the pool's own entries, for a caller that sees itself whether somebody holds its data."""
        self.take()
        return self._ring[0]


class _SharedMemory:
    """Memory on the host for results of many programs, each of which would keep its own; by size, within a bound."""

    def __init__(self) -> None:
        self._rings: dict[int, list[tuple[Any, Any, int]]] = {}  # aligned bytes, their memory, their address
        self._nbytes = 0

    def take(self, nbytes: int) -> tuple[Any, Any, int]:
        """(aligned bytes whose memory nobody else holds, that memory, its address)."""
        ring = self._rings.get(nbytes)
        if ring is None:
            ring = self._rings[nbytes] = []
        for k, entry in enumerate(ring):
            data, raw, address = entry
            if getrefcount(raw) == REFS_TWO:  # held by its entry and by the bytes
                if k:  # the next call looks behind it first
                    ring.append(ring.pop(0))
                return data, raw, address  # as above
        data = aligned_bytes(nbytes)
        raw, address = data.base, _address(data)
        most = _most_shared()
        room = most // nbytes  # of this size alone
        if len(ring) < min(_SHARED_ENTRIES, room) and room >= _MIN_SHARED_COUNT:
            if self._nbytes + nbytes > most:
                self._rings.clear()  # whoever holds a result keeps it
                self._rings[nbytes], self._nbytes = ring, sum(e[0].nbytes for e in ring)
            ring.append((data, raw, address))
            self._nbytes += nbytes
        return data, raw, address


@cache
def _most_shared() -> int:
    """Bytes that large results keep together."""
    total = device_of(cpu()).memory_info()[1]
    return max(_LEAST_SHARED_BYTES, min(total, memory_limit() or total) // _MEMORY_SHARE)


_shared = _SharedMemory()


def shared_storage(type: TensorType) -> Callable[[], tuple[Any, Any, int]]:
    """What gives data of one type on the host, as :meth:`StoragePool.take` does, for results of programs of which there may be
    very many: large ones share their memory."""
    nbytes, dtype, shape = type.nbytes, type.dtype.np, type.shape
    if nbytes <= _OWN_BYTES:
        return StoragePool(type, True).take

    def take() -> tuple[Any, Any, int]:
        data, raw, address = _shared.take(nbytes)
        return data.view(dtype).reshape(shape), raw, address

    return take


def large_results(type: TensorType) -> Callable[[], Any] | None:
    """What gives data of one type on the host, if it is so large that fresh memory costs more than what is computed; else
    None."""
    if type.nbytes <= _OWN_BYTES:
        return None
    take = shared_storage(type)
    return lambda: take()[0]


class ScratchPool(_Ring[tuple[Any, ...]]):
    """Memory on the host that nobody sees but a recorded call: what it keeps for its backward pass, random words.

    A scratch is data of each type, the address of each, and for words the ctypes array, an array of the same memory, and
    its address. It is free as a whole, once nobody holds the tuple, and that is all that is counted: so no data may be
    held by what outlives the call's hold on its scratch.

    Args:
        words: whether there are random words.
        reuse: give memory out again; else large data has memory that all share.
    """

    def __init__(self, types: Sequence[TensorType], words: bool, reuse: bool) -> None:
        super().__init__()
        self.types, self.words, self.reuse = list(types), words, reuse

    def take(self) -> tuple[Any, ...]:
        """A scratch that nobody else holds, with undefined values."""
        for scratch in self._ring:
            if getrefcount(scratch) == REFS_ONE:  # held by the ring
                return scratch
        make = _aligned if self.reuse else _fresh
        data = [make(t) for t in self.types]
        words: tuple[Any, ...] = ()
        if self.words:
            raw = _Words()
            words = raw, np.frombuffer(raw, np.uint32), ctypes.addressof(raw)  # type: ignore[call-overload]
        scratch = (*data, *map(_address, data), *words)
        if self.reuse:
            self._add(scratch)
        return scratch


def _aligned(type: TensorType) -> Any:
    return aligned_bytes(type.nbytes).view(type.dtype.np).reshape(type.shape)


def _fresh(type: TensorType) -> Any:
    """Data whose memory is its own if it is small, else one of those that all share."""
    take = large_results(type)
    return take() if take else empty(np, type.shape, type.dtype.np)


def _address(data: Any) -> int:
    return int(data.__array_interface__["data"][0])


class DevicePool(_Ring[tuple[_Held, tuple[int, ...]]]):
    """Arrays of one type on a GPU, for results that are computed on one stream and asked for by one thread.

    What is given out again may still be read by kernels that were started before, on the same stream: they come
    first. Who reads a result on another stream has to hold it until that stream has caught up, as with CuPy's own memory.
    """

    def __init__(self, type: TensorType, ctx: Context, device: Device, kind: Any = None) -> None:
        super().__init__()
        self.type, self.ctx, self.device, self.kind = type, ctx, device, kind
        register_holder(self)

    def take(self) -> NDArray:
        """An array that nobody else holds, with undefined values."""
        for held, idle in self._ring:
            if _references(held) == idle:
                array = held[0]
                array._autograd = None
                return array
        held = self._new()
        self._add((held, _references(held)))  # nobody else has seen it: what is counted now means "idle"
        return held[0]

    def release(self) -> None:
        """Forget all of them: see :class:`~hybridgpu.backends.device_errors.MemoryHolder`."""
        self._ring, self._next = [], 0

    def _new(self) -> _Held:
        data = empty(self.device.xp, self.type.shape, self.type.dtype.np)
        array = wrap(data, self.ctx, self.kind)
        array._address = self.device.address(data)
        return (array, data, *self.device.memory(data))


def _references(held: _Held) -> tuple[int, int, int, int]:
    """How often each object that leads to the memory is referred to."""
    array, data, pointer, memory = held
    return getrefcount(array), getrefcount(data), getrefcount(pointer), getrefcount(memory)


def result_allocator(
    type: TensorType, ctx: Context, device: Device, on_host: bool, reuse: bool, kind: Any = None
) -> Callable[[], NDArray]:
    """The function that gives an array, of ``kind`` as for ``wrap``, for a result.

    Args:
        reuse: give memory out again; else, on the host, large results have memory that all share.
    """
    if reuse:
        return OutputPool(type, ctx, kind).take if on_host else DevicePool(type, ctx, device, kind).take

    def take() -> NDArray:
        data = _fresh(type) if on_host else empty(device.xp, type.shape, type.dtype.np)
        array: NDArray = wrap(data, ctx, kind)
        array._address = device.address(array._data)
        return array

    return take

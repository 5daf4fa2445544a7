# SPDX-License-Identifier: Apache-2.0
"""Undo log of memory that a call writes: former values by address, first write wins."""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from ..backends.write_tracking import storage

__all__ = ["ValuesBefore"]


class ValuesBefore:
    """Values of before, of any memory of one device.

    They are let go with the memory, which a call that may still read it keeps alive. (Memory of CuPy's cannot be followed
    so: what it held stays as long as this does.)
    """

    __slots__ = ("__weakref__", "_pieces")

    def __init__(self) -> None:
        self._pieces: dict[int, _Pieces] = {}  #: by the identity of the owner of the memory

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __len__(self) -> int:
        """Of how many separate pieces of memory there are values."""
        return sum(len(pieces.found) for pieces in list(self._pieces.values()))

    def missing(self, data: Any, begin: int) -> list[tuple[int, int]]:
        """The range, of the array at this address, of which no value of before is known, in bytes of its own."""
        pieces, end = self._pieces.get(id(storage(data))), begin + data.nbytes
        if pieces is None:
            return [(0, data.nbytes)] if data.nbytes else []
        gaps, at = [], begin
        for first, values in pieces.over(begin, end):
            if first > at:
                gaps.append((at - begin, first - begin))
            at = first + values.nbytes
        if at < end:
            gaps.append((at - begin, end - begin))
        return gaps

    def keep(self, data: Any, begin: int, values: Any, missing: list[tuple[int, int]]) -> None:
        """Note what the array at this address holds, ``values``, where nothing was noted."""
        memory = storage(data)
        key = id(memory)
        pieces = self._pieces.get(key)
        if pieces is None:
            pieces = self._pieces[key] = _Pieces()
            if isinstance(memory, np.ndarray):
                table = self._pieces
                pieces.memory = weakref.ref(memory, lambda _: table.pop(key, None))
        flat = values.reshape(-1).view(np.uint8)
        for first, end in missing:
            pieces.add(begin + first, flat[first:end])

    def put_back(self, data: Any, begin: int, into: Any) -> None:
        """Write what the array at this address held into ``into``, bytes of its size."""
        pieces = self._pieces.get(id(storage(data)))
        if pieces is None:
            return
        for first, values in pieces.over(begin, begin + into.nbytes):
            start, end = max(begin, first), min(begin + into.nbytes, first + values.nbytes)
            into[start - begin : end - begin] = values[start - first : end - first]

    def has(self, data: Any, begin: int) -> bool:
        """Whether any of the array at this address was written."""
        pieces = self._pieces.get(id(storage(data)))
        return pieces is not None and next(pieces.over(begin, begin + data.nbytes), None) is not None


class _Pieces:
    """Values of pieces of one memory, which do not overlap, by their addresses.

    A reader without a lock may see a piece twice when another thread adds one, and misses none.

    Attributes:
        memory: what calls back when it is freed.
        found: (address, the bytes there), ascending.
    """

    __slots__ = ("found", "memory")

    def __init__(self) -> None:
        self.memory: weakref.ref[Any] | None = None
        self.found: list[tuple[int, Any]] = []

    def add(self, begin: int, values: Any) -> None:
        insort(self.found, (begin, values), key=_address)

    def over(self, begin: int, end: int) -> Iterator[tuple[int, Any]]:
        """The pieces that have a part of these addresses, ascending."""
        pieces = self.found
        at = max(0, bisect_right(pieces, begin, key=_address) - 1)
        while at < len(pieces) and pieces[at][0] < end:
            first, values = pieces[at]
            if first + values.nbytes > begin:
                yield first, values
            at += 1


_address = itemgetter(0)

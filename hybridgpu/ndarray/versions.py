# SPDX-License-Identifier: Apache-2.0
"""Arrays of parameters, whose new values come in new memory: calls in other threads see the old ones or the new ones.

Calls read without a lock. So new values are written where nobody reads yet, and then :func:`exchange` gives the array
that memory: a single store, for several arrays while nobody takes a version of them. Who reads holds the memory
that was there when it began: an eager operator by its list of operands, a compiled call by :func:`pinned` arrays.

An array keeps its identity, and all else that shared its memory goes along: views, and what a recorded call wants to
read or to write in its backward pass (:func:`latest`).

A hybridized call that was recorded needs both in its backward pass: the new values, and the old ones, of which it computes
again what it did not keep. So before parameters are written in place, :func:`before_writes` gives those that such a
call reads other memory. There is rarely one: a backward pass releases calls, and it comes before a step. So a call only
stores its reader's mark, and who writes counts references.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from ..backends.devices import device_of
from ..backends.memory import copy
from ..backends.writes import is_shared, owner, written
from ..locks import Lock
from .array import NDArray, wrap
from .epoch import bump

__all__ = [
    "Reader",
    "VersionedArray",
    "before_write",
    "before_writes",
    "exchange",
    "exchanging",
    "latest",
    "pinned",
    "read_later",
    "versioned",
]

exchanging = Lock()  #: held while arrays get other memory, and while somebody takes one version of several
#: identity of memory that an array had -> it, its address, and the array; until it is freed
_former: dict[int, tuple[weakref.ref[Any], int, weakref.ref[VersionedArray]]] = {}


class VersionedArray(NDArray):
    """An array that :func:`exchange` may give other memory.

    Its address is that of the moment: prepared calls, which take addresses of arguments, want :func:`pinned` arrays in the
    place of such arguments (they look at the class).
    """

    __slots__ = ("_family",)
    _family: dict[int, weakref.ref[VersionedArray]] | None  #: all arrays of this memory by identity; None for one alone

    @property
    def address(self) -> int:
        """Where the data lies on its device now."""
        return device_of(self._type.ctx).address(self._data)

    def _sharing(self, cut: Callable[[Any], Any]) -> NDArray:
        with exchanging:  # or the view would be of memory that the array no longer has
            made = _made(cut(self._data), self)
            if self._family is None:
                self._family = {}
                _join(self, self._family)
            _join(made, self._family)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._family = None
        super().__setstate__(state)


def _join(array: VersionedArray, family: dict[int, weakref.ref[VersionedArray]]) -> None:
    array._family, key = family, id(array)
    family[key] = weakref.ref(array, lambda _: family.pop(key, None))  # type: ignore[misc]


def _made(data: Any, like: NDArray) -> VersionedArray:
    made = VersionedArray.__new__(VersionedArray)
    made._data = data
    made._type = like._type if data.shape == like.shape else wrap(data, like._type.ctx)._type
    made._address = made._autograd = made._family = None
    return made


def versioned(array: NDArray) -> VersionedArray:
    """An array in the same memory that may get another one; nobody else should hold ``array``."""
    return array if isinstance(array, VersionedArray) else _made(array._data, array)


def exchange(pairs: Sequence[tuple[VersionedArray, Any]]) -> None:
    """Give each array its new memory; a call sees that of all or of none."""
    with exchanging:
        before = [_exchange_one(array, data) for array, data in pairs]
    bump()
    for data in before:
        written(data)


def _exchange_one(array: VersionedArray, data: Any) -> Any:
    before, begin = array._data, array.address
    memory = _memory(before)
    key = id(memory)
    _former[key] = weakref.ref(memory, lambda _: _former.pop(key, None)), begin, weakref.ref(array)  # type: ignore[misc]
    for reference in list((array._family or {}).values()):
        member = reference()
        if member is not None and member is not array:
            member._data = _part(data, member.address - begin, member.shape)
    array._data = data
    return before


def latest(data: Any) -> Any:
    """The memory that stands in the place of ``data`` now: for the backward pass of a call that was recorded before."""
    found = _former.get(id(_memory(data))) if _former else None
    array = None if found is None else found[2]()
    if found is None or array is None:
        return data
    with exchanging:
        at = device_of(array._type.ctx).address(data)
        return _part(array._data, at - found[1], data.shape)


def _memory(data: Any) -> Any:
    """What is alive as long as somebody has the data, or views of it."""
    return owner(data) if isinstance(data, np.ndarray) else data  # memory of CuPy's takes no weak references


def _part(data: Any, offset: int, shape: tuple[int, ...]) -> Any:
    first = offset // data.itemsize
    return data.reshape(-1)[first : first + prod(shape)].reshape(shape)


def pinned(array: NDArray) -> NDArray:
    """An array that keeps its memory; take those of one call while ``exchanging`` is held."""
    if array.__class__ is NDArray:
        return array
    made = NDArray.__new__(NDArray)
    made._data, made._type, made._address, made._autograd = array._data, array._type, None, array._autograd
    return made


class _Mark:
    """What recorded calls hold until they are released: how many do is counted in references.

    Attributes:
        data: memory that they read.
        reader: whose mark it is; it holds one reference, too.
    """

    __slots__ = ("__weakref__", "data", "reader")

    def __init__(self, data: list[Any], reader: weakref.ref[Reader]) -> None:
        self.data, self.reader = data, reader


class Reader:
    """What makes hybridized calls that are recorded, of which each holds ``mark`` as long as its backward pass may run.

    Args:
        data: memory that all of them read, of what may be written in the meantime.
    """

    __slots__ = ("__weakref__", "mark")

    def __init__(self, data: Iterable[Any]) -> None:
        global _marks
        self.mark = _Mark(list(data), weakref.ref(self))
        with _marking:
            _marks = (*(m for m in _marks if m() is not None), weakref.ref(self.mark))


_marking = Lock()
_marks: tuple[weakref.ref[_Mark], ...] = ()


def _name() -> int:
    """References that counting those of a local name finds besides others."""
    name = object()
    return getrefcount(name)


_NAME = _name()


def read_later() -> bool:
    """Whether there are recorded calls whose backward passes may still run."""
    for reference in _marks:
        mark = reference()
        if mark is not None and getrefcount(mark) > (_NAME if mark.reader() is None else _NAME + 1):
            return True
    return False


def before_write(array: NDArray) -> None:
    """As :func:`before_writes`, of one array."""
    if array.__class__ is VersionedArray and read_later():
        before_writes((array,))


def before_writes(arrays: Iterable[NDArray]) -> None:
    """Leave memory that is about to be written in place to the recorded calls that still read it: arrays get a copy.

    Ask :func:`read_later` first, which is faster.
    """
    read: dict[int, int] = {}
    for reference in _marks:
        mark = reference()
        if mark is not None and getrefcount(mark) > (_NAME if mark.reader() is None else _NAME + 1):
            for a in mark.data:
                key = id(_memory(a))
                read[key] = max(a.nbytes, read.get(key, 0))
    moved = {}
    for x in arrays:
        if x.__class__ is VersionedArray:
            whole = _whole(x)
            data = whole._data
            if data.nbytes >= read.get(id(_memory(data)), data.nbytes + 1) and not is_shared(data):
                moved[id(whole)] = whole
    pairs = []
    for whole in moved.values():
        device = device_of(whole._type.ctx)
        with device.current():
            pairs.append((whole, copy(device.xp, whole._data)))
    if pairs:
        exchange(pairs)


def _whole(array: VersionedArray) -> VersionedArray:
    """The largest of the arrays that share the memory of one."""
    found = array
    for reference in list((array._family or {}).values()):
        member = reference()
        if member is not None and member.size > found.size:
            found = member
    return found

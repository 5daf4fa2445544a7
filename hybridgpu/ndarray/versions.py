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
from typing import Any, NamedTuple

import numpy as np

from ..backends.devices import Device, device_of
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
_former: dict[int, _Former] = {}  #: by identity of memory that a storage had; until that is freed


class Storage:
    """What arrays that share memory have in common: the memory of the moment.

    Attributes:
        data: all of it, as one array.
        members: the arrays by identity.
    """

    __slots__ = ("data", "members")

    def __init__(self, data: Any) -> None:
        self.data = data
        self.members: dict[int, weakref.ref[VersionedArray]] = {}

    def join(self, array: VersionedArray) -> None:
        """Add a member, which is forgotten as it goes."""
        array._storage, members, key = self, self.members, id(array)
        members[key] = weakref.ref(array, lambda _: members.pop(key, None))  # type: ignore[misc]


class _Former(NamedTuple):
    """Memory that a storage had: where the storage began in it, and the storage, which has another one now."""

    memory: weakref.ref[Any]
    device: Device
    begin: int
    storage: Storage


class VersionedArray(NDArray):
    """An array that :func:`exchange` may give other memory.

    Its address is that of the moment: prepared calls, which take addresses of arguments, want :func:`pinned` arrays in the
    place of such arguments (they look at the class).
    """

    __slots__ = ("_storage",)
    _storage: Storage | None  #: None until it is asked for

    @property
    def address(self) -> int:
        """Where the data lies on its device now."""
        return device_of(self._type.ctx).address(self._data)

    def _sharing(self, cut: Callable[[Any], Any]) -> NDArray:
        with exchanging:  # or the view would be of memory that the array no longer has
            made = _made(cut(self._data), self)
            _storage_of(self).join(made)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._storage = None
        super().__setstate__(state)


def _storage_of(array: VersionedArray) -> Storage:
    storage = array._storage
    if storage is None:  # of an array that nobody has shared yet
        storage = Storage(array._data)
        storage.join(array)
    return storage


def _made(data: Any, like: NDArray) -> VersionedArray:
    made = VersionedArray.__new__(VersionedArray)
    made._data = data
    made._type = like._type if data.shape == like.shape else wrap(data, like._type.ctx)._type
    made._address = made._autograd = made._storage = None
    return made


def versioned(array: NDArray) -> VersionedArray:
    """An array in the same memory that may get another one; nobody else should hold ``array``."""
    return array if isinstance(array, VersionedArray) else _made(array._data, array)


def exchange(pairs: Sequence[tuple[VersionedArray, Any]]) -> None:
    """Give the storage of each array new memory; a call sees that of all or of none."""
    before = []
    with exchanging:
        try:
            for array, data in pairs:
                storage = _storage_of(array)
                before.append(storage.data)
                _exchange_one(storage, data, device_of(array._type.ctx))
        finally:
            bump()  # before anybody can take a version: a prepared call would go back to the one before
    for data in before:
        written(data)


def _exchange_one(storage: Storage, data: Any, device: Device) -> None:
    members = [m for m in (r() for r in list(storage.members.values())) if m is not None]
    begin = device.address(storage.data)
    parts = [_part(data, m.address - begin, m.shape) for m in members]
    for old in (storage.data, *(m._data for m in members)):
        memory = _memory(old)
        key = id(memory)
        reference = weakref.ref(memory, lambda _, key=key: _former.pop(key, None))  # type: ignore[misc]
        _former[key] = _Former(reference, device, begin, storage)
    for m, part in zip(members, parts, strict=True):
        m._data = part
    storage.data = data


def latest(data: Any) -> Any:
    """The memory that stands in the place of ``data`` now: for the backward pass of a call that was recorded before."""
    found = _former.get(id(_memory(data))) if _former else None
    if found is None:
        return data
    return _part(found.storage.data, found.device.address(data) - found.begin, data.shape)


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
    moved: dict[int, tuple[VersionedArray, Any]] = {}
    for x in arrays:
        if isinstance(x, VersionedArray):
            with exchanging:
                storage = _storage_of(x)
            data = storage.data
            if data.nbytes >= read.get(id(_memory(data)), data.nbytes + 1) and not is_shared(data):
                moved[id(storage)] = x, data
    pairs = []
    for x, data in moved.values():
        device = device_of(x._type.ctx)
        with device.current():
            pairs.append((x, copy(device.xp, data)))
    if pairs:
        exchange(pairs)

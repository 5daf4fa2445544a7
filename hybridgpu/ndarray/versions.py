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
from ..context import Context
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
#: identity of memory that a family had -> it, its address, and the family; until it is freed
_former: dict[int, tuple[weakref.ref[Any], int, _Family]] = {}
_current: dict[int, weakref.ref[Any]] = {}  #: identity of memory that a family has -> it; until it is freed


class _Family:
    """All arrays that share memory that they may exchange.

    Attributes:
        data: the whole memory, of which each array has a part: one that had all of it may be gone.
        ctx: where it lies.
        members: the arrays by identity.
    """

    __slots__ = ("__weakref__", "ctx", "data", "members")

    def __init__(self, data: Any, ctx: Context) -> None:
        self.data, self.ctx = data, ctx
        self.members: dict[int, weakref.ref[VersionedArray]] = {}
        _note(data)

    def begin(self) -> int:
        """Where the memory lies on its device."""
        return device_of(self.ctx).address(self.data)

    def join(self, array: VersionedArray) -> None:
        array._family, members, key = self, self.members, id(array)
        members[key] = weakref.ref(array, lambda _: members.pop(key, None))  # type: ignore[misc]

    def take(self, data: Any, begin: int, parts: Iterable[Any]) -> None:
        """Have other memory than that which begins at the address ``begin``; the arrays, ``parts`` of it, are to follow.

        Who holds memory of before finds the family by it, also when no array of the family is left.
        """
        for old in (*parts, self.data):
            memory = _memory(old)
            key = id(memory)
            reference = weakref.ref(memory, lambda _, key=key: _former.pop(key, None))  # type: ignore[misc]
            _former[key] = reference, begin, self
        _current.pop(key, None)
        _note(data)
        self.data = data


def _note(data: Any) -> None:
    """Note that a family has this memory."""
    memory = _memory(data)
    key = id(memory)
    _current[key] = weakref.ref(memory, lambda _: _current.pop(key, None))  # type: ignore[misc]


class VersionedArray(NDArray):
    """An array that :func:`exchange` may give other memory.

    Its address is that of the moment: prepared calls, which take addresses of arguments, want :func:`pinned` arrays in the
    place of such arguments (they look at the class).
    """

    __slots__ = ("_family",)
    _family: _Family

    @property
    def address(self) -> int:
        """Where the data lies on its device now."""
        return device_of(self._type.ctx).address(self._data)

    def _sharing(self, cut: Callable[[Any], Any]) -> NDArray:
        with exchanging:  # or the view would be of memory that the array no longer has
            made = _made(cut(self._data), self, self._family)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _Family(self._data, self._type.ctx).join(self)


def _made(data: Any, like: NDArray, family: _Family) -> VersionedArray:
    made = VersionedArray.__new__(VersionedArray)
    made._data = data
    made._type = like._type if data.shape == like.shape else wrap(data, like._type.ctx)._type
    made._address = made._autograd = None
    family.join(made)
    return made


def versioned(array: NDArray) -> VersionedArray:
    """An array in the same memory that may get another one; nobody else should hold ``array``."""
    if isinstance(array, VersionedArray):
        return array
    return _made(array._data, array, _Family(array._data, array._type.ctx))


def exchange(pairs: Sequence[tuple[VersionedArray, Any]]) -> None:
    """Give each array its new memory, which is as large; a call sees that of all or of none."""
    _exchange([(array._family, data) for array, data in pairs])


def _exchange(pairs: Sequence[tuple[_Family, Any]]) -> None:
    """As ``exchange``. Nothing is stored before all is computed: what goes wrong changes nothing."""
    before = []
    with exchanging:
        stores = []
        for family, data in {id(f): (f, d) for f, d in pairs}.values():
            begin, parts = family.begin(), []
            for reference in list(family.members.values()):
                member = reference()
                if member is not None:
                    parts.append((member, _part(data, member.address - begin, member.shape)))
            stores.append((family, data, begin, parts))
        # Before, so that no prepared call takes the old values after somebody saw a new one; and after, for those that
        # took addresses in between. All while the lock is held: who waits for it takes the new values.
        bump()
        try:
            for family, data, begin, parts in stores:
                before.append(family.data)
                family.take(data, begin, [member._data for member, _ in parts])
                for member, part in parts:
                    member._data = part
        finally:
            bump()
    for data in before:
        written(data)


def latest(data: Any) -> Any:
    """The memory that stands in the place of ``data`` now: for the backward pass of a call that was recorded before."""
    found = _former.get(id(_memory(data))) if _former else None
    if found is None:
        return data
    _, begin, family = found
    with exchanging:
        at = device_of(family.ctx).address(data)
        return _part(family.data, at - begin, data.shape)


def _memory(data: Any) -> Any:
    """What is alive as long as somebody has the data, or views of it."""
    return owner(data) if isinstance(data, np.ndarray) else data  # memory of CuPy's takes no weak references


def _part(data: Any, offset: int, shape: tuple[int, ...]) -> Any:
    if not offset and data.shape == shape:
        return data
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
        data: memory that all of them read. Only that of families is looked after.

    Attributes:
        mark: None if there is none.
    """

    __slots__ = ("__weakref__", "mark")

    def __init__(self, data: Iterable[Any]) -> None:
        exchanged = [a for a in data if id(_memory(a)) in _current]
        self.mark: _Mark | None = None
        if exchanged:
            mark = self.mark = _Mark(exchanged, weakref.ref(self))
            key = id(mark)
            _marks[key] = weakref.ref(mark, lambda _: _marks.pop(key, None))  # type: ignore[misc]


_marks: dict[int, weakref.ref[_Mark]] = {}  #: those that are alive, by identity


def _name() -> int:
    """References that counting those of a local name finds besides others."""
    name = object()
    return getrefcount(name)


_NAME = _name()


def read_later() -> bool:
    """Whether there are recorded calls whose backward passes may still run."""
    for reference in list(_marks.values()):
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
    for reference in list(_marks.values()):
        mark = reference()
        if mark is not None and getrefcount(mark) > (_NAME if mark.reader() is None else _NAME + 1):
            for a in mark.data:
                key = id(_memory(a))
                read[key] = max(a.nbytes, read.get(key, 0))
    moved = {}
    for x in arrays:
        if x.__class__ is VersionedArray:
            data = x._family.data
            if data.nbytes >= read.get(id(_memory(data)), data.nbytes + 1) and not is_shared(data):
                moved[id(x._family)] = x._family
    pairs = []
    for family in moved.values():
        device = device_of(family.ctx)
        with device.current():
            pairs.append((family, copy(device.xp, family.data)))
    if pairs:
        _exchange(pairs)

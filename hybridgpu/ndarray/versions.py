# SPDX-License-Identifier: Apache-2.0
"""Arrays of parameters, whose new values come in new memory: calls in other threads see the old ones or the new ones.

Calls read without a lock. So new values are written where nobody reads yet, and then :func:`exchange` gives the array
that memory: a single store, for several arrays while nobody takes a version of them. Who reads holds the memory
that was there when it began: an eager operator by its list of operands, a compiled call by :func:`pinned` arrays.

An array keeps its identity, and all else that shared its memory goes along: views, and what a recorded call wants to
read or to write in its backward pass (:func:`latest`).

A hybridized call that was recorded needs both in its backward pass: the new values, and the old ones, of which it computes
again what it did not keep. So before an array is written in place, :func:`before_writes` leaves a copy of what is there to
the calls that may read it. There is rarely one: a backward pass releases calls, and it comes before a step. So a call only
stores its reader's mark, and who writes counts references.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from ..backends.devices import Device, device_of
from ..backends.memory import copy
from ..backends.write_tracking import notify_write, storage
from ..context import Context
from ..core.fork_safe_lock import Lock
from .binding_version import invalidate_bindings
from .ndarray import NDArray, wrap
from .types import VersionedType
from .values_before import ValuesBefore

__all__ = [
    "Family",
    "Reader",
    "before_write",
    "before_writes",
    "exchange",
    "exchanging",
    "is_versioned",
    "latest",
    "pinned",
    "versioned",
]

exchanging = Lock()  #: held while arrays get other memory, and while somebody takes one version of several
#: identity of memory that a family had -> it, its address, and the family; until it is freed
_former: dict[int, tuple[weakref.ref[Any], int, Family]] = {}
_current: dict[int, weakref.ref[Any]] = {}  #: identity of memory that a family has -> it; until it is freed


class Family:
    """All arrays that share memory that they may exchange.

    Attributes:
        data: the whole memory, of which each array has a part: one that had all of it may be gone.
        ctx: where it lies.
        members: the arrays by identity.
    """

    __slots__ = ("__weakref__", "ctx", "data", "members")

    def __init__(self, data: Any, ctx: Context) -> None:
        self.data, self.ctx = data, ctx
        self.members: dict[int, weakref.ref[NDArray]] = {}
        _note(data)

    def begin(self) -> int:
        """The address of the memory on its device."""
        return device_of(self.ctx).address(self.data)

    def join(self, array: NDArray) -> None:
        array._type, array._address, members, key = VersionedType(array._type, self), None, self.members, id(array)
        members[key] = weakref.ref(array, lambda _: members.pop(key, None))  # type: ignore[misc]

    def array(self, like: NDArray, kind: type[NDArray] | None, cut: Callable[[Any], Any] | None = None) -> NDArray:
        """Another array in the memory of a member, of a view that ``cut`` gives of it; as ``kind`` for ``wrap``."""
        with exchanging:  # or it would be in memory that the member no longer has
            result = wrap(like._data if cut is None else cut(like._data), like._type.ctx, kind)
            self.join(result)
        return result

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


def is_versioned(x: Any) -> bool:
    """Whether :func:`exchange` may give the array other memory; False for what is no array.

    Its address is that of the moment: prepared calls, which take addresses of arguments, want :func:`pinned` arrays in the
    place of such arguments (they look at the type).
    """
    return isinstance(x, NDArray) and x._type is not None and x._type.family is not None


def versioned(array: NDArray) -> NDArray:
    """An array in the same memory that may get another one; nobody else should hold ``array``, nor a pool its memory:
    :func:`latest` knows the memory that was exchanged as long as it is there."""
    if is_versioned(array):
        return array
    result = wrap(array._data, array._type.ctx, array._kind)
    Family(result._data, result._type.ctx).join(result)
    return result


def exchange(pairs: Sequence[tuple[NDArray, Any]]) -> None:
    """Give each array its new memory, which is as large; a call sees that of all or of none."""
    _exchange([(array._type.family, data) for array, data in pairs])  # type: ignore[misc]


def _exchange(pairs: Sequence[tuple[Family, Any]]) -> None:
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
        invalidate_bindings()
        try:
            for family, data, begin, parts in stores:
                before.append(family.data)
                family.take(data, begin, [member._data for member, _ in parts])
                for member, part in parts:
                    member._data = part
        finally:
            invalidate_bindings()
    for data in before:
        notify_write(data)


def latest(data: Any) -> Any:
    """The memory that stands in the place of ``data`` now: for the backward pass of a call that was recorded before."""
    entry = _former.get(id(_memory(data))) if _former else None
    if entry is None:
        return data
    _, begin, family = entry
    with exchanging:
        at = device_of(family.ctx).address(data)
        return _part(family.data, at - begin, data.shape)


def _memory(data: Any) -> Any:
    """What is alive as long as somebody has the data, or views of it."""
    return storage(data) if isinstance(data, np.ndarray) else data  # memory of CuPy's takes no weak references


def _part(data: Any, offset: int, shape: tuple[int, ...]) -> Any:
    if not offset and data.shape == shape:
        return data
    first = offset // data.itemsize
    return data.reshape(-1)[first : first + prod(shape)].reshape(shape)


def pinned(array: NDArray) -> NDArray:
    """An array that keeps its memory; take those of one call while ``exchanging`` is held."""
    if array._type.family is None:
        return array
    kind = array._kind or NDArray
    view = kind.__new__(kind)
    view._data, view._type, view._address, view._autograd = array._data, array._type.plain, None, array._autograd
    return view


class _Mark:
    """What recorded calls hold until they are released: how many do is counted in references.

    All calls that hold a mark were made before the writes that it notes: a write gives their reader another one.

    Attributes:
        data: memory that they read besides that of arrays that are no parameters.
        reader: whose mark it is, or was; it holds one reference to that which it has.
        overwritten: what memory held that was written since.
        results: memory of results of recorded calls that were written since, by the call's identity and the number.
    """

    __slots__ = ("__weakref__", "data", "overwritten", "reader", "results")

    def __init__(self, data: list[Any], reader: weakref.ref[Reader]) -> None:
        self.data, self.reader = data, reader
        self.overwritten = ValuesBefore()
        self.results: dict[tuple[int, int], Any] = {}
        key = id(self)
        _marks[key] = weakref.ref(self, lambda _: _marks.pop(key, None))  # type: ignore[misc]

    def close(self) -> None:
        """Note no more writes: for calls of which another backward pass is hardly to be expected."""
        _marks.pop(id(self), None)

    def values_before(self, arrays: Sequence[Any], device: Device) -> list[Any]:
        """The values that the arrays held when the calls were recorded; those that nobody wrote themselves."""
        return [self._before(a, device) for a in arrays] if self.overwritten else list(arrays)

    def _before(self, array: Any, device: Device) -> Any:
        begin = device.address(array)
        if not self.overwritten.has(array, begin):
            return array
        with device.current():
            values = copy(device.xp, array)
            self.overwritten.put_back(array, begin, values.reshape(-1).view(np.uint8))
        return values

    def written_results(self, node: Any) -> dict[int, Any]:
        """The results of a recorded call that were written, by number, with their memory."""
        return {number: data for (call, number), data in self.results.items() if call == id(node)}


class Reader:
    """A maker of hybridized calls that are recorded, of which each holds ``mark`` as long as its backward pass may run.

    Args:
        data: memory that all of them read. Only that of families is looked after: who else holds memory of an array shows
            in its references.
    """

    __slots__ = ("__weakref__", "mark")

    def __init__(self, data: Iterable[Any]) -> None:
        self.mark = _Mark([a for a in data if id(_memory(a)) in _current], weakref.ref(self))


_marks: dict[int, weakref.ref[_Mark]] = {}  #: those that are alive, by identity


def _name() -> int:
    """References that counting those of a local name finds besides others."""
    name = object()
    return getrefcount(name)


_NAME = _name()


def _live_marks() -> list[_Mark]:
    """The marks that calls hold."""
    marks = []
    for reference in list(_marks.values()):
        mark = reference()
        if mark is not None:
            reader = mark.reader()
            if getrefcount(mark) > (_NAME if reader is None or reader.mark is not mark else _NAME + 1):
                marks.append(mark)
    return marks


def before_write(array: NDArray) -> None:
    """The same as :func:`before_writes`, of one array."""
    info = array._autograd
    if array._type.family is not None or (info is not None and info.node is not None) or _is_held(array):
        before_writes((array,))


def _is_held(array: NDArray) -> bool:
    """Whether anybody but the array holds its memory."""
    data = array._data
    memory = storage(data)
    if memory is data:
        return getrefcount(data) > _NAME + 2
    return getrefcount(data) > _NAME + 1 or getrefcount(memory) > _NAME + 1


def before_writes(arrays: Iterable[NDArray]) -> None:
    """Leave a copy of what is about to be written in place to the recorded calls that may still read it."""
    marks = _live_marks()
    if not marks:
        return
    with _writing:
        for x in arrays:
            _keep_values(x, marks)


_writing = Lock()


def _keep_values(x: NDArray, marks: Sequence[_Mark]) -> None:
    begin, data, info = x.address, x._data, x._autograd
    end = begin + data.nbytes
    device = device_of(x._type.ctx)
    result = None if info is None or info.node is None else (id(info.node), info.index)

    def reads(mark: _Mark) -> bool:
        return x._type.family is None or any(
            type(a) is type(data) and device.address(a) < end and begin < device.address(a) + a.nbytes
            for a in mark.data
        )

    values = None
    for mark in marks:
        if not reads(mark):
            continue
        missing = mark.overwritten.missing(data, begin)
        if not missing and (result is None or result in mark.results):
            continue
        if missing:
            if values is None:
                with device.current():
                    values = copy(device.xp, data)
            mark.overwritten.keep(data, begin, values, missing)
        if result is not None:
            mark.results[result] = data
        reader = mark.reader()
        if reader is not None and reader.mark is mark:
            reader.mark = _Mark(mark.data, mark.reader)

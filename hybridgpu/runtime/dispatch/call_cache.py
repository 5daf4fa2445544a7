# SPDX-License-Identifier: Apache-2.0
"""Polymorphic inline cache of prepared calls: calls of one net in turn, of other shapes, devices, modes.

Each key has a prepared call, and the one that is tried first leaves the others' calls to them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...context import Context, current_context
from ...core.autograd_state import history, state
from ...core.pytree import Static
from ...ndarray.binding_version import binding_version
from ...ndarray.ndarray import NDArray
from ...util import is_np_array, is_np_shape

__all__ = ["CallCache", "CallKey", "call_key"]

_PREPARED = 8  #: kinds of calls of a block that are kept, each with memory of its results

Call = Callable[..., Any]


class CallKey(NamedTuple):
    """The key of calls that differ in values alone.

    Attributes:
        types: of all arguments, structured as they are; under ``autograd.record`` with whether a gradient is wanted.
        array: the class of all arrays among them.
        training, recording: the flags.
        semantics: whether NumPy's shape and array semantics are on.
        context: the current one.
    """

    types: tuple[Any, ...]
    array: type[NDArray]
    training: bool
    recording: bool
    semantics: tuple[bool, bool]
    context: Context


def call_key(args: Sequence[Any]) -> CallKey | None:
    """The key of a call with these arguments, None if one of them is neither array nor hashable, or if some are of nd
    and some of np."""
    training, recording = state.training, state.recording
    array = _class_of(args)
    types = _types(args, array, recording)
    if types is None:
        return None
    values = types, array, training, recording, (is_np_shape(), is_np_array()), current_context()
    return tuple.__new__(CallKey, values)  # as the class does, without a call of Python's


def _class_of(args: Sequence[Any]) -> type[NDArray]:
    """The class that plain arrays of the first array's interface have."""
    for x in args:
        if isinstance(x, NDArray):
            return x._kind or NDArray
        if isinstance(x, (list, tuple, dict)):
            array_class = _class_of(list(x.values()) if isinstance(x, dict) else x)
            if array_class is not NDArray:
                return array_class
    return NDArray


def _types(args: Sequence[Any], array: type[NDArray], recording: bool) -> tuple[Any, ...] | None:
    types: list[Any] = []
    for x in args:
        if x.__class__ is array and x._type.family is None:
            types.append(x._type)
            if recording and x._autograd is not None:
                info = history(x)
                types.append(info is not None and (info.node is not None or info.grad_req != "null"))  # wants_gradient
        elif x is None:
            types.append(None)
        elif x.__class__ is list or x.__class__ is tuple:
            inner = _types(x, array, recording)
            if inner is None:
                return None
            types += [x.__class__, inner]  # functions may ask which of the two it is
        elif x.__class__ is dict:
            inner = _types(list(x.values()), array, recording)
            if inner is None or not all(key.__class__ in (str, int) for key in x):
                return None
            types += [tuple(x), inner]
        elif isinstance(x, tuple) and hasattr(x, "_fields"):
            inner = _types(x, array, recording)
            if inner is None:
                return None
            types += [x.__class__, inner]
        elif isinstance(x, NDArray):
            return None
        else:
            try:
                hash(x)
            except TypeError:  # an array of another library, or nothing that a call takes
                return None
            types.append(Static(x))
    return tuple(types)


class CallCache:
    """The prepared calls of a block, by key."""

    def __init__(self) -> None:
        self._calls: dict[CallKey, tuple[int, Any, Call]] = {}

    def find(self, key: CallKey, program: Any) -> Call | None:
        """The call of that key, if it runs ``program`` and parameters are where they were."""
        version, made_of, call = self._calls.get(key, (-1, None, None))
        return call if version == binding_version[0] and made_of is program else None

    def keep(self, key: CallKey, version: int, program: Any, call: Call) -> None:
        """Remember a call, made in the binding version ``version``; beyond the limit the oldest goes."""
        # other threads look meanwhile; calls of another binding version hold parameters that were replaced
        calls = {k: entry for k, entry in self._calls.items() if entry[0] == version and k != key}
        while len(calls) >= _PREPARED:
            del calls[next(iter(calls))]
        calls[key] = version, program, call
        self._calls = calls

    def dispatch_other(self, key: CallKey, general_call: Call, install: Callable[[Call], None]) -> Call:
        """The function (arguments as a tuple) to which a call of that key leaves others.

        Args:
            general_call: the general way.
            install: makes a prepared call the one that is tried first.
        """
        mine = weakref.ref(self)  # which holds the calls, which hold what this gives: no cycle

        def others(args: tuple[Any, ...]) -> Any:
            actual_key, calls = call_key(args), mine()
            if actual_key is None or actual_key == key or calls is None:
                return general_call(args)
            version, _, call = calls._calls.get(actual_key, (-1, None, None))
            if call is None or version != binding_version[0]:
                return general_call(args)
            install(call)
            return call(*args)

        return others

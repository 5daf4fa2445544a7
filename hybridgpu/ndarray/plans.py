# SPDX-License-Identifier: Apache-2.0
"""Plans: how a function runs once more on arrays of types that it has met.

The first call with given types and attributes finds out which operator it is, parses its attributes, checks and lowers it. If
that was all it did, the call leaves a plan, which the next one finds by the types alone (they are interned). A plan holds
no arrays. What a call depends on besides is part of the key, or ends all plans: tracing, the policy of mixed precision,
the profiler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from operator import is_
from typing import Any, NamedTuple, TypeVar

from ..context import Context, current_context
from ..core.autograd_state import state, traces
from ..util import _everywhere as np_everywhere
from ..util import _flags as np_flags

__all__ = [
    "ARRAY_CLASSES",
    "Plan",
    "arithmetic_with_plans",
    "forget_plans",
    "noting",
    "observation",
    "suspend_plans",
    "with_plans",
]

_Call = Callable[..., Any]
_Function = TypeVar("_Function", bound=_Call)

_LIMIT = 1024  #: plans of one function; beyond it all are dropped and made again
_tables: list[dict[Any, Any]] = []  #: of all functions
ARRAY_CLASSES: set[type] = set()  #: of nd and np
#: classes of arguments that are part of a key as they are; equal ones of one class are the same
_PLAIN = frozenset({str, int, bool, type, type(None), Context})


class Plan(NamedTuple):
    """A prepared call.

    Attributes:
        run: takes the arrays; the result, or a list where callers see several.
        record: the same while gradients are recorded.
    """

    run: _Call
    record: _Call


class _Observation:
    """What holds for the plans of all threads.

    Attributes:
        active: somebody observes the general way, as the profiler does: then neither plans nor backward plans run.
        since: another object each time that all plans are dropped: what a call found out before that is not kept (see ``keep``).
    """

    __slots__ = ("active", "since")

    def __init__(self) -> None:
        self.active = False
        self.since = object()


observation = _Observation()


class _Noting(threading.local):
    """What the call that is being looked at did.

    Attributes:
        calls: (plan, its arrays, its result) of the operators that it applied, None for those that a plan cannot repeat;
            None where nobody looks.
    """

    calls: list[tuple[Plan, Sequence[Any], Any] | None] | None = None


noting = _Noting()


def forget_plans() -> None:
    """Drop all plans: functions find out anew what they do."""
    observation.since = object()
    for table in _tables:
        table.clear()


def suspend_plans(suspend: bool) -> None:
    """Drop all plans, and make none until they are no longer suspended; nor do backward plans run."""
    observation.active = suspend
    forget_plans()


def with_plans(function: _Function) -> _Function:
    """The function, which does again what it did before with arguments of the same types.

    Args:
        function: what it does depends on types of arrays and on other arguments alone, as far as it applies operators; not on
            whether arrays are recorded. Besides, a key has the training mode, NumPy's shapes, and without arrays the context.
    """
    plans: dict[Any, Plan | None] = {}
    _tables.append(plans)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if traces:
            return function(*args, **kwargs)
        key: list[Any] = [state.training, np_flags.shape or np_everywhere[0]]
        arrays = []
        for x in args:
            kind = x.__class__
            if kind in ARRAY_CLASSES:
                key += kind, x._type.plain
                arrays.append(x)
            elif kind in _PLAIN or _is_plain(x):
                key += kind, x
            elif kind is float:
                key += kind, str(x)  # 0.0, -0.0 or nan
            else:
                return function(*args, **kwargs)
        for name, x in kwargs.items():
            kind = x.__class__
            if kind in _PLAIN or _is_plain(x):
                key += name, kind, x
            elif kind is float:
                key += name, kind, str(x)
            else:
                return function(*args, **kwargs)
        if not arrays:
            key.append(current_context())  # where the result lies
        whole = tuple(key)
        plan: Any
        try:
            plan = plans[whole]
        except KeyError:  # not called here: an error of the function's would be shown as one while this one was handled
            plan = False
        if not plan:
            return function(*args, **kwargs) if plan is None else _first(plans, whole, arrays, function, args, kwargs)
        result = plan.record(*arrays) if state.recording else plan.run(*arrays)
        if noting.calls is not None:  # an outer function, whose plan may be this one
            noting.calls.append((plan, arrays, result))
        return result

    return call  # type: ignore[return-value]


def arithmetic_with_plans(function: _Function) -> _Function:
    """The same as :func:`with_plans` for an operator of Python on two arrays, or an array and a number, that depends on no mode."""
    general = with_plans(function)
    table = _tables[-1]
    plans: dict[Any, Plan] = {}
    _tables.append(plans)

    @wraps(function)
    def call(self: Any, other: Any) -> Any:
        kind = other.__class__
        key: Any
        if traces:
            return general(self, other)
        if kind is self.__class__:
            key = self._type, other._type
            plan = plans.get(key)
            if plan is not None:
                return plan.record(self, other) if state.recording else plan.run(self, other)
            whole = kind, key[0], kind, key[1]
        elif (kind is float or kind is int) and other and other == other:  # noqa: PLR0124
            key = self._type, kind, other
            plan = plans.get(key)
            if plan is not None:
                return plan.record(self) if state.recording else plan.run(self)
            whole = self.__class__, *key
        else:
            return general(self, other)
        since = observation.since
        result = general(self, other)
        known_plan = table.get((state.training, np_flags.shape or np_everywhere[0], *whole))
        if known_plan is not None:  # not of types that one array alone has
            keep(plans, key, known_plan, since, _LIMIT)
        return result

    return call  # type: ignore[return-value]


def _is_plain(x: Any) -> bool:
    """Whether a value equals itself and no other one of its class: 0.0 equals -0.0, (1,) equals (True,), nan not itself."""
    kind = x.__class__
    if kind is float:
        return x != 0 and x == x  # type: ignore[no-any-return]  # noqa: PLR0124
    return kind is tuple and all(e.__class__ is int for e in x)


def _first(
    plans: dict[Any, Plan | None],
    key: Any,
    arrays: Sequence[Any],
    function: _Call,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function, and keep the plan if it only applied one operator to the arrays."""
    if len(set(map(id, arrays))) < len(arrays):  # x - x: which of them an operand is, is asked for all calls
        arrays, args = _with_distinct_arrays(args)
    outer, noting.calls = noting.calls, []
    since = observation.since
    try:
        result = function(*args, **kwargs)
        calls = noting.calls
    finally:
        noting.calls = outer
    if outer is not None:
        outer += calls
    plan = None
    if len(calls) == 1 and calls[0] is not None:
        applied, inputs, written = calls[0]
        if written is result and len(inputs) == len(arrays) and all(map(is_, inputs, arrays)):
            plan = applied
    if plan is None and float in key:  # a number that varies
        return result
    if not observation.active:
        keep(plans, key, plan, since, _LIMIT)
    return result


def keep(table: dict[Any, Any], key: Any, value: Any, since: object, limit: int) -> None:
    """Keep a plan, or what one is made of, unless all plans were dropped after ``since`` was read."""
    if len(table) >= limit:
        table.clear()
    table[key] = value
    if observation.since is not since:  # asked last: another thread that drops plans from here on drops this one, too
        table.pop(key, None)


def _with_distinct_arrays(args: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """(the arrays, all arguments) with another array of the same memory and history for one that came before."""
    arrays: list[Any] = []
    operands = []
    for arg in args:
        x = arg
        if x.__class__ in ARRAY_CLASSES:
            if any(x is a for a in arrays):
                x = arg._as_kind(arg._kind)
            arrays.append(x)
        operands.append(x)
    return arrays, operands

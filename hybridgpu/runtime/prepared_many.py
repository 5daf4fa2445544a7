# SPDX-License-Identifier: Apache-2.0
"""Prepared calls of programs that are started as a whole: several results, random numbers or written states on a GPU,
library calls between the kernels.

As those of runtime/prepared.py they check types, mode and parameters, and then start the program (runtime/start.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.write_tracking import assign
from ..core import autograd_state
from ..ndarray.binding_version import binding_version
from ..ndarray.ndarray import NDArray
from ..ndarray.types import ArrayType
from .compilation import Compiled
from .dispatch.overlaps import overlap_test
from .start import arguments_of, start_of

if TYPE_CHECKING:
    from .cached_op import CachedOp

__all__ = ["prepare_many"]

Finish = Callable[[list[NDArray]], Any]


def prepare_many(
    op: CachedOp,
    types: Sequence[ArrayType],
    training: bool,
    made: Compiled,
    array: type[NDArray],
    slow: Callable[..., Any],
    finish: Finish | None,
) -> Callable[..., Any] | None:
    """A function that repeats a call, or None where there is none.

    Args:
        array: the class of the arguments.
        finish: puts the results together; None gives the only one.
    """
    state, born = autograd_state.state, binding_version[0]
    ctx, count, in_order = arguments_of(op, types)
    found = start_of(op, types, made, ctx, pooled=True)
    if found is None:
        return None
    start, params = found[0], found[1].params
    heads = len(made.outputs) - len(made.writes)
    writes = [(op.sources[k] if isinstance(op.sources[k], int) else params[k]) for k in made.writes]
    current = made.device.current
    shares_memory = overlap_test(op, in_order, made.writes, params)

    def write(args: Sequence[NDArray], values: list[NDArray]) -> None:
        with current():
            for target, value in zip(writes, values):
                assign((args[target] if isinstance(target, int) else target)._data, value._data)

    def call_many(*args: Any) -> Any:
        if len(args) == count and binding_version[0] == born and state.training is training and not state.recording:
            for x, t in zip(args, in_order):
                if x.__class__ is not array or x._type is not t:
                    return slow(args)
            if shares_memory is not None and shares_memory(args):
                return slow(args)
            started = start(args)
            if started is None:
                return slow(args)
            results = started[0]
            if writes:
                write(args, results[heads:])
                del results[heads:]
            return finish(results) if finish else results[0]
        return slow(args)

    call_many.keep = found  # type: ignore[attr-defined]
    return call_many

# SPDX-License-Identifier: Apache-2.0
"""Prepared calls of the other graphs: several results, random numbers, written states, library calls; recorded calls.

As those of runtime/prepared.py they check types, mode and parameters, and then start the program (runtime/start.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import recording
from ..backends.writes import assign
from ..ndarray.array import ArrayType, NDArray, array_type
from ..recording import GradientInfo, history
from .epoch import epoch
from .prepared_backward import origin_of
from .program import Compiled
from .start import POOLED, arguments_of, start_of
from .training import Training, TrainingCall

if TYPE_CHECKING:
    from .cached_op import CachedOp

__all__ = ["prepare_many", "prepare_recorded"]

Finish = Callable[[list[NDArray]], Any]


def prepare_many(
    op: CachedOp,
    types: Sequence[ArrayType],
    training: bool,
    made: Compiled,
    slow: Callable[..., Any],
    finish: Finish | None,
) -> Callable[..., Any] | None:
    """A function that repeats a call, or None where there is none.

    Args:
        finish: puts the results together; None gives the only one.
    """
    state, born = recording.state, epoch[0]
    ctx, count, in_order = arguments_of(op, types)
    found = start_of(op, made, ctx, pooled=True)
    if found is None:
        return None
    start, params = found
    heads = len(made.outputs) - len(made.writes)
    writes = [(op.sources[k] if isinstance(op.sources[k], int) else params[k]) for k in made.writes]
    current = made.device.current

    def write(args: Sequence[NDArray], values: list[NDArray]) -> None:
        with current():
            for target, value in zip(writes, values):
                assign((args[target] if isinstance(target, int) else target)._data, value._data)

    def call_many(*args: Any) -> Any:
        if len(args) == count and epoch[0] == born and state.training is training and not state.recording:
            for x, t in zip(args, in_order):
                if x.__class__ is not NDArray or x._type is not t:
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


def prepare_recorded(
    op: CachedOp,
    types: Sequence[ArrayType],
    program: Training,
    slow: Callable[..., Any],
    finish: Finish | None,
) -> Callable[..., Any] | None:
    """The same for calls under ``autograd.record`` that want the gradients of the last call."""
    state, born, training = recording.state, epoch[0], program.training
    ctx, count, in_order = arguments_of(op, types)
    small = sum(t.nbytes for t in program.forward.outputs) <= POOLED
    found = start_of(op, program.forward, ctx, pooled=small)
    if found is None:
        return None
    start, params = found
    template: list[GradientInfo | None] = [None] * len(types)
    fixed = []  # parameters, and what each knows of gradients
    for k, p in params.items():
        template[k] = history(p)
        if _wanted(template[k]) is not program.wanted[k] or (p._autograd is not None and p._autograd.node is not None):
            return None
        fixed.append((p, p._autograd))
    origin = origin_of(program, ctx, params, [k for k, s in enumerate(op.sources) if isinstance(s, int)], born)
    moving = [(k, s, program.wanted[k]) for k, s in enumerate(op.sources) if isinstance(s, int)]
    data: list[Any] = [params[k]._data if k in params else None for k in range(len(types))]
    heads, kept = program.heads, list(program.kept)
    head_types = [array_type(t.shape, t.dtype.np, ctx) for t in program.forward.outputs[:heads]]
    first = heads + len(program.late)
    late = [(heads + k, m.position, m.keep) for k, m in enumerate(program.late)]
    early = [(first + k, m.position) for k, m in enumerate(program.early)]
    device = program.forward.device

    def call_recorded(*args: Any) -> Any:
        if len(args) == count and epoch[0] == born and state.recording and state.training is training:
            for x, t in zip(args, in_order):
                if x.__class__ is not NDArray or x._type is not t:
                    return slow(args)
            for p, known in fixed:
                if p._autograd is not known:
                    return slow(args)
            infos, arrays, at = template.copy(), data.copy(), []
            for k, s, wants in moving:
                x = args[s]
                at.append(x._address or x.address)
                info = x._autograd
                if info is not None:
                    info = infos[k] = history(x)
                if _wanted(info) is not wants:
                    return slow(args)
                arrays[k] = x._data
            started = start(args)
            if started is None:
                return slow(args)
            results, words = started
            if early:
                with device.current():
                    for r, k in early:
                        assign(arrays[k], results[r]._data)
            node = TrainingCall.__new__(TrainingCall)
            node.inputs, node.types, node.released = infos, head_types, False
            node.arrays, node.ctx, node.seed = arrays, ctx, words
            node.writes = [(arrays[k], results[r]._data, keep) for r, k, keep in late]
            node.program, node.kept = program, [results[k]._data for k in kept]
            node.origin, node.at = origin, at
            node.kept_at = [results[k]._address for k in kept]  # type: ignore[misc]
            # arrays of their own: one that waits in a pool would hold the recorded graph
            shown = [_view(results[k], GradientInfo(None, "null", node, k)) for k in range(heads)]
            return finish(shown) if finish else shown[0]
        return slow(args)

    call_recorded.keep = found  # type: ignore[attr-defined]
    return call_recorded


def _wanted(info: GradientInfo | None) -> bool:
    return info is not None and (info.node is not None or info.grad_req != "null")


def _view(array: NDArray, info: GradientInfo) -> NDArray:
    """Another array in the same memory, with a place in the recorded graph."""
    made = NDArray.__new__(NDArray)
    made._data, made._type, made._address, made._autograd = array._data, array._type, array._address, info
    return made

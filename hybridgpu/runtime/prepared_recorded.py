# SPDX-License-Identifier: Apache-2.0
"""Prepared calls under ``autograd.record``: as others, and each result has its place in the recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backends.write_tracking import assign
from ..context import Context
from ..core import autograd_state
from ..core.autograd_state import GradientInfo, history
from ..ndarray.binding_version import binding_version
from ..ndarray.ndarray import NDArray
from ..ndarray.types import ArrayType, array_type
from ..ndarray.versions import Reader
from .dispatch.overlaps import overlap_test
from .prepared_backward import Origin, origin_of
from .recorded_program import RecordedCall, RecordedProgram
from .start import POOLED, Fixed, arguments_of, fixed_of, start_of
from .structured import Call, finish_of, prepared_for
from .written import Writer

if TYPE_CHECKING:
    from .cached_op import CachedOp

__all__ = ["Known", "prepare_recorded"]


class Known(NamedTuple):
    """What the recorded calls of one signature have in common.

    Attributes:
        infos, data: of all inputs, what parameters know of gradients, and their arrays; None for arguments.
        fixed: parameters, and what each has to know of gradients.
        moving: (number of an input, of the argument it is, whether its gradient is wanted).
        origin: for prepared backward passes.
        reader: whose mark the calls hold.
        types: of the results.
        late: (number of a result, of the input that it is the new value of, how much of the old one stays).
        early: (number of a result, of the input that it is the new value of).
    """

    infos: list[GradientInfo | None]
    data: list[Any]
    fixed: list[tuple[NDArray, Any]]
    moving: list[tuple[int, int, bool]]
    origin: Origin | None
    reader: Reader
    types: list[ArrayType]
    late: list[tuple[int, int, float]]
    early: list[tuple[int, int]]


def prepare_recorded(
    op: CachedOp,
    types: Sequence[ArrayType],
    program: RecordedProgram,
    array: type[NDArray],
    slow: Call,
    form: Sequence[Any],
    results: Any,
) -> Call | None:
    """A function that repeats a recorded call that wants the gradients of the last one, or None where there is none.

    Args:
        array: the class of the arguments' arrays.
        form, results: the formats of arguments and results.
    """
    forward = program.forward
    if forward.program is None:
        return None
    if any(program.wanted[m.position] and isinstance(op.sources[m.position], int) for m in program.forward_writes):
        return None  # whether the argument may be written is asked at every call
    if forward.program.target != "cuda" and forward.loaded.single and not program.overwritten:
        return _written(op, types, program, array, slow, form, results)
    return prepared_for(form, slow, lambda slow: _started(op, types, program, array, slow, finish_of(results)))


def _known(op: CachedOp, program: RecordedProgram, whole: Fixed, ctx: Context, born: int) -> Known | None:
    count, params = len(op.sources), whole.params
    infos: list[GradientInfo | None] = [None] * count
    for k, p in whole.live.items():
        infos[k] = history(p)
        if _wanted(infos[k]) is not program.wanted[k] or (p._autograd is not None and p._autograd.node is not None):
            return None
    moving = [(k, s, program.wanted[k]) for k, s in enumerate(op.sources) if isinstance(s, int)]
    heads = program.heads
    first = heads + len(program.backward_writes)
    return Known(
        infos,
        [params[k]._data if k in params else None for k in range(count)],
        [(p, p._autograd) for p in whole.live.values()],
        moving,
        origin_of(program, ctx, params, [k for k, _, _ in moving], born),
        Reader(p._data for p in params.values()),
        [array_type(t.shape, t.dtype.np, ctx) for t in program.forward.outputs[:heads]],
        [(heads + k, m.position, m.keep) for k, m in enumerate(program.backward_writes)],
        [(first + k, m.position) for k, m in enumerate(program.forward_writes)],
    )


def _overlaps(op: CachedOp, types: Sequence[ArrayType], program: RecordedProgram, whole: Fixed) -> Any:
    written = [m.position for m in (*program.forward_writes, *program.backward_writes)]
    return overlap_test(op, types, written, whole.params)


def _pooled(program: RecordedProgram) -> bool:
    return sum(t.nbytes for t in program.forward.outputs) <= POOLED


def _written(
    op: CachedOp,
    types: Sequence[ArrayType],
    program: RecordedProgram,
    array: type[NDArray],
    slow: Call,
    form: Sequence[Any],
    results: Any,
) -> Call | None:
    """Of a program on the host that is one foreign call."""
    born = binding_version[0]
    ctx, _, in_order = arguments_of(op, types)
    whole = fixed_of(op, types, program.forward, ctx)
    known = None if whole is None else _known(op, program, whole, ctx, born)
    if whole is None or known is None:
        return None
    writer = Writer(form, in_order, array, born, program.training, slow, recording=True)
    writer.histories(known)
    writer.apart(_overlaps(op, in_order, program, whole), len(in_order))
    arguments = [s for _, s, _ in known.moving]
    writer.start(program.forward, whole, ctx, arguments, program.heads, _pooled(program), recorded=True)
    for r, k in known.early:
        writer.write(op.sources[k] if isinstance(op.sources[k], int) else whole.params[k], r)
    writer.node(known, program, ctx, op.kind)
    return writer.finish("call_recorded", results)


def _started(
    op: CachedOp,
    types: Sequence[ArrayType],
    program: RecordedProgram,
    array: type[NDArray],
    slow: Call,
    finish: Callable[[list[NDArray]], Any] | None,
) -> Call | None:
    """Of any other one."""
    state, born, training = autograd_state.state, binding_version[0], program.training
    ctx, count, in_order = arguments_of(op, types)
    found = start_of(op, types, program.forward, ctx, _pooled(program))
    known = None if found is None else _known(op, program, found[1], ctx, born)
    if found is None or known is None:
        return None
    start = found[0]
    shares_memory = _overlaps(op, in_order, program, found[1])
    template, data, fixed, moving, origin, reader, head_types, late, early = known
    heads, kept, overwritten = program.heads, list(program.residuals), program.overwritten
    if overwritten:
        origin = None  # the backward pass takes copies, not what lies at the addresses of the inputs
    device = program.forward.device

    def call_recorded(*args: Any) -> Any:
        if len(args) == count and binding_version[0] == born and state.recording and state.training is training:
            for x, t in zip(args, in_order):
                if x.__class__ is not array or x._type is not t:
                    return slow(args)
            for p, known in fixed:
                if p._autograd is not known:
                    return slow(args)
            if shares_memory is not None and shares_memory(args):
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
            old = arrays
            if early:
                with device.current():
                    if overwritten:
                        old = arrays.copy()
                        for k in overwritten:
                            old[k] = arrays[k].copy()
                    for r, k in early:
                        assign(arrays[k], results[r]._data)
            node = RecordedCall.__new__(RecordedCall)
            node.inputs, node.types, node.released = infos, head_types, False
            node.arrays, node.ctx, node.seed = old, ctx, words
            node.writes = [(arrays[k], results[r]._data, keep) for r, k, keep in late]
            node.program, node.residuals = program, [results[k]._data for k in kept]
            node.template, node.addresses, node.scratch, node.mark = origin, at, None, reader.mark
            node.residual_addresses = [results[k]._address for k in kept]  # type: ignore[misc]
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
    made = array.__class__.__new__(array.__class__)
    made._data, made._type, made._address, made._autograd = array._data, array._type, array._address, info
    return made

# SPDX-License-Identifier: Apache-2.0
"""Prepared calls of the other graphs: several results, random numbers, written states, library calls; recorded calls.

As those of runtime/prepared.py they check types, mode and parameters, and then start the program. What is common to
all of them is a *start*: a function that runs the program on checked arguments, and gives all its results.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import recording
from ..backends.memory import empty
from ..backends.writes import assign
from ..context import Context
from ..generator import next_words
from ..ndarray.array import ArrayType, NDArray, array_type, wrap
from ..recording import GradientInfo, history
from .epoch import epoch
from .pool import DevicePool, OutputPool
from .program import Compiled
from .training import Training, TrainingCall

if TYPE_CHECKING:
    from .cached_op import CachedOp

__all__ = ["ALIGNED", "STREAMS", "arguments_of", "prepare_many", "prepare_recorded"]

ALIGNED = 15  #: bits of an address that kernels want to be zero
STREAMS = 8  #: that a prepared call remembers in each thread
_POOLED = 1 << 20  #: bytes of a recorded call's results and kept values up to which their memory is given out again

Start = Callable[[Sequence[NDArray]], "tuple[list[NDArray], Any] | None"]
Finish = Callable[[list[NDArray]], Any]

_Words = ctypes.c_uint32 * 4


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
    found = _start(op, made, ctx, pooled=True)
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
    small = sum(t.nbytes for t in program.forward.outputs) <= _POOLED
    found = _start(op, program.forward, ctx, pooled=small)
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
            infos, arrays = template.copy(), data.copy()
            for k, s, wants in moving:
                x = args[s]
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
            # arrays of their own: one that waits in a pool would hold the recorded graph
            shown = [_view(results[k], GradientInfo(None, "null", node, k)) for k in range(heads)]
            return finish(shown) if finish else shown[0]
        return slow(args)

    call_recorded.keep = found  # type: ignore[attr-defined]
    return call_recorded


def _wanted(info: GradientInfo | None) -> bool:
    return info is not None and (info.node is not None or info.grad_req != "null")


def arguments_of(op: CachedOp, types: Sequence[ArrayType]) -> tuple[Context, int, list[ArrayType]]:
    """The device of a call, the number of its arguments, and their types in order."""
    wanted = {s: t for s, t in zip(op.sources, types, strict=True) if isinstance(s, int)}
    count = len(op.data)
    return wanted[0].ctx, count, [wanted[k] for k in range(count)]


def _view(array: NDArray, info: GradientInfo) -> NDArray:
    """Another array in the same memory, with a place in the recorded graph."""
    made = NDArray.__new__(NDArray)
    made._data, made._type, made._address, made._autograd = array._data, array._type, array._address, info
    return made


# -- starting a program


def _start(op: CachedOp, made: Compiled, ctx: Context, pooled: bool) -> tuple[Start, dict[int, NDArray]] | None:
    """What runs the program of a graph whose arguments are of the right types, and the parameters by position.

    A start gives (all results, random state); None if the arguments lie where kernels cannot read them.
    """
    if made.program is None:
        return None
    params = {k: op.sources[k].data(ctx) for k in sorted(op.fixed)}
    kept = op.kept_for(made, params, ctx)
    if kept is None:
        return None
    start = _on_device if made.program.target == "cuda" else _on_host
    found = start(op, made, ctx, params, list(kept), pooled)
    return None if found is None else (found, params)


def _on_host(
    op: CachedOp, made: Compiled, ctx: Context, params: dict[int, NDArray], kept: list[Any], pooled: bool
) -> Start:
    loaded, draws, address = made.loaded, made.draws, made.device.address
    takes = [_taking(t, ctx, pooled, made) for t in made.outputs]
    sources = op.sources
    pointers = loaded.pointers([p.address for p in params.values()] + [address(v) for v in kept])
    entry = getattr(loaded, "single", None)
    if entry is None:  # library calls between the kernels

        def start_steps(args: Sequence[NDArray]) -> tuple[list[NDArray], Any]:
            results = [take() for take in takes]
            inputs = [args[s]._data if isinstance(s, int) else params[k]._data for k, s in enumerate(sources)]
            words = None
            if draws:
                words = np.array(next_words(ctx), np.uint32)
                inputs.append(words)
            loaded([*inputs, *kept], [y._data for y in results], pointers)
            return results, words

        return start_steps

    arguments = [s for s in sources if isinstance(s, int)]
    fixed, table = ctypes.addressof(pointers), loaded.table
    free, release, make_arena = loaded._free, loaded.release, loaded.arena
    has_arena = bool(made.program and made.program.arena_bytes)

    def start(args: Sequence[NDArray], _alive: Any = (pointers, kept)) -> tuple[list[NDArray], Any]:
        results = [take() for take in takes]
        addresses = [args[k]._address or args[k].address for k in arguments]
        words = None
        if draws:
            held = _Words(*next_words(ctx))
            addresses.append(ctypes.addressof(held))
            words = np.frombuffer(held, np.uint32)  # type: ignore[call-overload]
        addresses += [y._address for y in results]  # type: ignore[misc]
        arena = (free.pop() if free else make_arena()) if has_arena else (None, 0)
        entry(arena[1], table, fixed, *addresses)
        if has_arena:
            release(arena)
        return results, words

    return start


class _Ready(threading.local):
    """For each stream of a thread: how the program runs there, and where outputs come from."""

    def __init__(self) -> None:
        self.streams: dict[int, tuple[Callable[..., None], list[Callable[[], NDArray]]]] = {}


def _on_device(
    op: CachedOp, made: Compiled, ctx: Context, params: dict[int, NDArray], kept: list[Any], pooled: bool
) -> Start | None:
    loaded, device, draws, sources = made.loaded, made.device, made.draws, op.sources
    addresses = [p.address for p in params.values()] + [device.address(v) for v in kept]
    if any(a & ALIGNED for a in addresses):
        return None
    bound, ready = loaded.bind(tuple(addresses)), _Ready()
    arguments = [sources[k] for k in loaded.layout.moving if k < len(sources)]
    reads_state = len(sources) in loaded.layout.moving
    libraries = bool(loaded.layout.libraries)
    stream, current, elsewhere = loaded.driver.stream, device.current, device.elsewhere

    def lane() -> tuple[Callable[..., None], list[Callable[[], NDArray]]]:
        known = ready.streams
        if len(known) >= STREAMS:
            del known[next(iter(known))]
        found = known[stream().ptr] = (bound.lane().run, [_taking(t, ctx, pooled, made) for t in made.outputs])
        return found

    def here(moving: list[int], args: Sequence[NDArray]) -> tuple[list[NDArray], Any] | None:
        run, takes = ready.streams.get(stream().ptr) or lane()
        words = made.seed(ctx)
        if reads_state:
            moving.append(device.address(words))
        results = [take() for take in takes]
        at = (*moving, *[y.address for y in results])
        if any(a & ALIGNED for a in at):
            return None
        if not libraries:
            run(at)
            return results, words
        inputs = [args[s]._data if isinstance(s, int) else params[k]._data for k, s in enumerate(sources)]
        run(at, [*inputs, *([words] if draws else []), *kept], [y._data for y in results])
        return results, words

    def start(args: Sequence[NDArray]) -> tuple[list[NDArray], Any] | None:
        moving = [args[k]._address or args[k].address for k in arguments]
        for at in moving:
            if at & ALIGNED:
                return None
        if elsewhere():
            with current():
                return here(moving, args)
        return here(moving, args)

    return start


def _taking(type: Any, ctx: Context, pooled: bool, made: Compiled) -> Callable[[], NDArray]:
    """What gives an array for a result: of a pool, or a new one each time."""
    device = made.device
    if pooled:
        host = made.program is not None and made.program.target != "cuda"
        return OutputPool(type, ctx).take if host else DevicePool(type, ctx, device).take
    xp, shape, dtype = device.xp, type.shape, type.dtype.np

    def take() -> NDArray:
        array = wrap(empty(xp, shape, dtype), ctx)
        array._address = device.address(array._data)
        return array

    return take

# SPDX-License-Identifier: Apache-2.0
"""Prepared calls: a block's last call, repeated with almost no Python.

A prepared call checks that its arguments have the types of the last call, that training is as it was and that no
parameter has moved; then it needs an output, the addresses, and one foreign call (on a GPU: one for each kernel, or
for each CUDA graph). Anything else goes the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core import autograd_state as recording
from ..ndarray.binding_version import binding_version
from ..ndarray.ndarray import NDArray
from ..ndarray.types import ArrayType
from .captured import CapturedError
from .compilation import Compiled
from .dispatch.overlaps import overlap_test
from .dispatch.pools import DevicePool, OutputPool
from .prepared_many import prepare_many
from .start import ALIGNED, arguments_of, fixed_of, lanes
from .structured import Call, finish_of, prepared_for
from .written import Writer

if TYPE_CHECKING:
    from .cached_op import CachedOp

__all__ = ["prepare", "reads_all"]

_NONE = object()  #: in place of an argument that was left out


def prepare(
    op: CachedOp,
    types: Sequence[ArrayType],
    training: bool,
    made: Compiled,
    array: type[NDArray],
    slow: Call,
    form: Sequence[Any],
    results: Any,
    recording: bool = False,
) -> Call | None:
    """A function that repeats a call, or None where there is none.

    Graphs that do not read all their arguments have none, nor have those that are interpreted; and there is none where
    a parameter lies so that kernels cannot read it, or may be written by others without telling.

    Args:
        array: the class of the arguments' arrays.
        form, results: the formats of arguments and results.
        recording: for calls under ``autograd.record`` none of whose arrays is of the recorded graph.
    """
    program = made.program
    if program is None or not reads_all(op):
        return None
    plain = len(made.outputs) == 1 and results == 0 and not made.draws and not made.writes
    if program.target != "cuda" and made.loaded.single:
        if plain and form == [0] and not program.arena_bytes and not recording:
            return _one(op, types, training, made, array, slow)
        return _written(op, types, training, made, array, slow, form, results, recording)
    if recording:
        return None

    def prepare_flat(slow: Call) -> Call | None:
        if plain and program.target == "cuda":
            return _on_device(op, types, training, made, array, slow)
        return prepare_many(op, types, training, made, array, slow, finish_of(results))

    return prepared_for(form, slow, prepare_flat)


def reads_all(op: CachedOp) -> bool:
    """Whether the graph reads every argument: the types of the others are not known."""
    return set(range(len(op.data))).issubset(s for s in op.sources if isinstance(s, int))


def _one(
    op: CachedOp, types: Sequence[ArrayType], training: bool, made: Compiled, array: type[NDArray], slow: Call
) -> Call | None:
    """Of one argument, on the host. Every name that a call uses is a local of this function."""
    state, born = (
        recording.state,
        binding_version[0],
    )  # before the parameters are looked at, which another thread may move
    ctx, _, (only,) = arguments_of(op, types)
    whole = fixed_of(op, types, made, ctx)
    if whole is None:
        return None
    bound = made.loaded.bind(whole.addresses)
    direct = bound.direct
    take = OutputPool(made.outputs[0], ctx, op.kind).take

    def call_one(x: Any = _NONE, *rest: Any) -> Any:
        if (
            x.__class__ is array
            and x._type is only
            and not rest
            and binding_version[0] == born
            and state.training is training
            and not state.recording
        ):
            y = take()
            direct(x._address or x.address, y._address)
            return y
        return slow(() if x is _NONE else (x, *rest))

    call_one.keep = (bound, whole)  # type: ignore[attr-defined]
    return call_one


def _written(
    op: CachedOp,
    types: Sequence[ArrayType],
    training: bool,
    made: Compiled,
    array: type[NDArray],
    slow: Call,
    form: Sequence[Any],
    results: Any,
    recording: bool,
) -> Call | None:
    """Of any program on the host that is one foreign call."""
    born = binding_version[0]
    ctx, _, in_order = arguments_of(op, types)
    whole = fixed_of(op, types, made, ctx)
    if whole is None:
        return None
    writer = Writer(form, in_order, array, born, training, slow, recording)
    if recording:
        writer.untracked(len(in_order), list(whole.live.values()))
    writer.apart(overlap_test(op, in_order, made.writes, whole.params), len(in_order))
    heads = len(made.outputs) - len(made.writes)
    writer.start(made, whole, ctx, [s for s in op.sources if isinstance(s, int)], heads, reuse=True, kind=op.kind)
    for r, k in enumerate(made.writes, heads):
        writer.write(op.sources[k] if isinstance(op.sources[k], int) else whole.params[k], r)
    return writer.finish("call_written", results)


def _on_device(
    op: CachedOp, types: Sequence[ArrayType], training: bool, made: Compiled, array: type[NDArray], slow: Call
) -> Call | None:
    """As on the host. Everything happens on the current stream; outputs come from a pool of thread and stream."""
    state, born = recording.state, binding_version[0]
    loaded, program, device = made.loaded, made.program, made.device
    assert program is not None
    ctx, count, in_order = arguments_of(op, types)
    whole = fixed_of(op, types, made, ctx)
    if whole is None or any(a & ALIGNED for a in whole.addresses):
        return None
    _, params, kept, addresses = whole
    bound = loaded.bind(tuple(addresses))
    arguments = [op.sources[k] for k in loaded.layout.moving]
    libraries = bool(loaded.layout.libraries)
    stream, current, elsewhere = loaded.driver.stream, device.current, device.elsewhere
    output = made.outputs[0]
    ready, lane = lanes(made, bound, lambda: DevicePool(output, ctx, device, op.kind).take)

    def start(moving: tuple[int, ...], args: Sequence[NDArray]) -> NDArray:
        run, take = ready.streams.get(stream().ptr) or lane()
        y: NDArray = take()
        if libraries:
            inputs = [(params[k] if k in params else args[s])._data for k, s in enumerate(op.sources)]
            run((*moving, y._address), [*inputs, *kept], [y._data])
        else:
            run((*moving, y._address))
        return y

    def start_elsewhere(moving: tuple[int, ...], args: Sequence[NDArray]) -> NDArray:
        with current():
            return start(moving, args)

    if count == 1 and arguments == [0] and not libraries:
        only = in_order[0]

        def call_one(*args: Any) -> Any:
            if len(args) == 1:
                x = args[0]
                if (
                    x.__class__ is array
                    and x._type is only
                    and binding_version[0] == born
                    and state.training is training
                    and not state.recording
                ):
                    at = x._address or x.address
                    if not at & ALIGNED:
                        try:
                            if elsewhere():
                                return start_elsewhere((at,), args)
                            run, take = ready.streams.get(stream().ptr) or lane()
                            y = take()
                        except CapturedError:
                            return slow(args)
                        run((at, y._address))
                        return y
            return slow(args)

        call_one.keep = (whole, bound)  # type: ignore[attr-defined]
        return call_one

    def call_several(*args: Any) -> Any:
        if len(args) == count and binding_version[0] == born and state.training is training and not state.recording:
            for x, t in zip(args, in_order):
                if x.__class__ is not array or x._type is not t:
                    return slow(args)
            moving = tuple([args[k]._address or args[k].address for k in arguments])
            for at in moving:
                if at & ALIGNED:
                    return slow(args)
            try:
                return start_elsewhere(moving, args) if elsewhere() else start(moving, args)
            except CapturedError:
                pass
        return slow(args)

    call_several.keep = (whole, bound)  # type: ignore[attr-defined]
    return call_several

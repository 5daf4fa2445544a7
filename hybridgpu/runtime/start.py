# SPDX-License-Identifier: Apache-2.0
"""Starting the program of a prepared call: a function of checked arguments that gives all results.

What every such function has is made once: the parameters' addresses, what is kept of them, where results come from. A
call then collects the addresses of its arguments and makes one foreign call (on a GPU: one for each kernel, or for
each CUDA graph).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backends.memory import empty
from ..context import Context
from ..core.rng import drawing
from ..ndarray.ndarray import NDArray, wrap
from ..ndarray.types import ArrayType
from ..ndarray.versions import exchanging, pinned
from .captured import CapturedError
from .compilation import Compiled
from .dispatch.pools import DevicePool, OutputPool

if TYPE_CHECKING:
    from .cached_op import CachedOp

__all__ = ["ALIGNED", "POOLED", "Fixed", "Start", "arguments_of", "fixed_of", "lanes", "start_of", "taking"]

ALIGNED = 15  #: bits of an address that kernels want to be zero
STREAMS = 8  #: that a prepared call remembers in each thread
POOLED = 1 << 20  #: bytes of a recorded call's results and kept values up to which their memory is given out again

Start = Callable[[Sequence[NDArray]], "tuple[list[NDArray], Any] | None"]


class Fixed(NamedTuple):
    """What no call changes.

    Attributes:
        live: the parameters' arrays by position.
        params: the same in one version, which stays while a call reads it.
        kept: what was computed from them.
        addresses: of both.
    """

    live: dict[int, NDArray]
    params: dict[int, NDArray]
    kept: list[Any]
    addresses: list[int]


def arguments_of(op: CachedOp, types: Sequence[ArrayType]) -> tuple[Context, int, list[ArrayType]]:
    """The device of a call, the number of its arguments, and their types in order."""
    wanted = {s: t for s, t in zip(op.sources, types, strict=True) if isinstance(s, int)}
    count = len(op.data)
    return wanted[0].ctx, count, [wanted[k] for k in range(count)]


def start_of(
    op: CachedOp, types: Sequence[ArrayType], made: Compiled, ctx: Context, pooled: bool
) -> tuple[Start, Fixed] | None:
    """What runs the program of a graph whose arguments are of the right types, and what no call changes.

    A start gives (all results, random state); None if the arguments lie where kernels cannot read them, or the user
    captures the stream.
    """
    if made.program is None:
        return None
    fixed = fixed_of(op, types, made, ctx)
    if fixed is None:
        return None
    start = _on_device if made.program.target == "cuda" else _on_host
    found = start(op, made, ctx, fixed, pooled)
    return None if found is None else (found, fixed)


def fixed_of(op: CachedOp, types: Sequence[ArrayType], made: Compiled, ctx: Context) -> Fixed | None:
    """What no call changes; None where it cannot be relied on.

    Args:
        types: of the inputs that ``made`` is for; another thread may have cast parameters since.
    """
    with exchanging:
        live = {k: op.sources[k].data(ctx) for k in sorted(op.fixed)}
        params = {k: pinned(p) for k, p in live.items()}
    if any(p._type is not types[k] for k, p in params.items()):
        return None
    kept = op.folded_for(made, params, ctx)
    if kept is None:
        return None
    addresses = [p.address for p in params.values()] + [made.device.address(v) for v in kept]
    return Fixed(live, params, list(kept), addresses)


def _on_host(op: CachedOp, made: Compiled, ctx: Context, whole: Fixed, pooled: bool) -> Start:
    """With library calls between the kernels; what is one foreign call is written out (runtime/written.py)."""
    _, params, kept, _ = whole
    takes = [taking(t, ctx, pooled, made, op.kind) for t in made.outputs]
    sources, draw = op.sources, drawing(ctx) if made.draws else None
    bound = made.loaded.bind(whole.addresses)

    def start(args: Sequence[NDArray]) -> tuple[list[NDArray], Any]:
        results = [take() for take in takes]
        inputs = [args[s]._data if isinstance(s, int) else params[k]._data for k, s in enumerate(sources)]
        words = None
        if draw is not None:
            words = np.array(draw(), np.uint32)
            inputs.append(words)
        bound([*inputs, *kept], [y._data for y in results])
        return results, words

    return start


class _Ready(threading.local):
    """For each stream of a thread: how the program runs there, and where outputs come from."""

    def __init__(self) -> None:
        self.streams: dict[int, tuple[Callable[..., None], Any]] = {}


def lanes(made: Compiled, bound: Any, outputs: Callable[[], Any]) -> tuple[_Ready, Callable[[], Any]]:
    """What is known of streams, by their pointers, and what makes it for the current stream.

    Args:
        bound: the program with the addresses of its parameters.
        outputs: makes what outputs come from, which is another thing for each stream.
    """
    ready, stream = _Ready(), made.loaded.driver.stream
    libraries = made.loaded.layout.libraries  # whose errors tell of operators
    capturing = made.device.is_capturing

    def lane() -> tuple[Callable[..., None], Any]:
        known = ready.streams
        if capturing():
            raise CapturedError
        if len(known) >= STREAMS:
            del known[next(iter(known))]
        run, ptr, takes = bound.lane().run, stream().ptr, outputs()
        if ptr:  # the default stream cannot be captured
            takes = [unless(takes[0]), *takes[1:]] if isinstance(takes, list) else unless(takes)
        found = known[ptr] = (made.names.in_errors(run) if libraries else run, takes)
        return found

    def unless(take: Callable[[], NDArray]) -> Callable[[], NDArray]:
        def checked() -> NDArray:
            if capturing():
                raise CapturedError
            return take()

        return checked

    return ready, lane


def _on_device(op: CachedOp, made: Compiled, ctx: Context, whole: Fixed, pooled: bool) -> Start | None:
    loaded, device, draws, sources = made.loaded, made.device, made.draws, op.sources
    _, params, kept, addresses = whole
    if any(a & ALIGNED for a in addresses):
        return None
    bound = loaded.bind(tuple(addresses))
    ready, lane = lanes(made, bound, lambda: [taking(t, ctx, pooled, made, op.kind) for t in made.outputs])
    arguments = [sources[k] for k in loaded.layout.moving if k < len(sources)]
    reads_state = len(sources) in loaded.layout.moving
    libraries = bool(loaded.layout.libraries)
    stream, current, elsewhere = loaded.driver.stream, device.current, device.elsewhere

    def here(moving: list[int], args: Sequence[NDArray]) -> tuple[list[NDArray], Any] | None:
        run, takes = ready.streams.get(stream().ptr) or lane()
        words = made.next_rng_state(ctx)
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
        try:
            if elsewhere():
                with current():
                    return here(moving, args)
            return here(moving, args)
        except CapturedError:
            return None

    return start


def taking(type: Any, ctx: Context, pooled: bool, made: Compiled, kind: Any = None) -> Callable[[], NDArray]:
    """What gives an array, of ``kind`` as for ``wrap``, for a result: of a pool, or a new one each time."""
    device = made.device
    if pooled:
        host = made.program is not None and made.program.target != "cuda"
        return OutputPool(type, ctx, kind).take if host else DevicePool(type, ctx, device, kind).take
    xp, shape, dtype = device.xp, type.shape, type.dtype.np

    def take() -> NDArray:
        array: NDArray = wrap(empty(xp, shape, dtype), ctx, kind)
        array._address = device.address(array._data)
        return array

    return take

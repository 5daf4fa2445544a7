# SPDX-License-Identifier: Apache-2.0
"""The compiled graph of a hybridized block: one program a signature, and a prepared call for the last one.

A *signature* is the types of the inputs (shape, element type, device) and the training flag. Types
are interned, so recognising the last signature takes a few identity checks. Nothing falls back to
eager execution in silence: a new signature compiles, and is reported with the input that changed.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import recording
from ..context import Context
from ..explain import Explanation, LibraryCall, StagedExplanation
from ..locks import Lock
from ..ndarray.array import ArrayType, NDArray
from ..ndarray.tape import tracked
from ..symbol import Symbol
from ..symbol.lowering import structure
from ..symbol.node import topological
from .epoch import epoch
from .pool import OutputPool
from .program import Compiled, compiled
from .stages import Stages, ends_program
from .training import Training, training_program

__all__ = ["FLAGS", "CachedOp"]

#: what ``hybridize`` takes, as MXNet's CachedOp
FLAGS = ("static_alloc", "static_shape", "inline_limit", "forward_bulk_size", "backward_bulk_size")

_LIMIT = 256  #: signatures that a block remembers; others are looked up among those of all blocks
_keeping = Lock()
_WARN_AFTER = 16  #: signatures of one block after which the dimension that keeps changing is named


class CachedOp:
    """A Symbol with the parameters of a block bound to its variables.

    Args:
        symbol: the traced graph.
        data: names of the variables that are arguments, in call order.
        params: parameters by name.
        name: of the block, for reports.
    """

    def __init__(self, symbol: Symbol, data: Sequence[str], params: Mapping[str, Any], name: str) -> None:
        self.symbol, self.name = symbol, name
        self.data = list(data)
        names = symbol.list_inputs()
        twice = [n for n in dict.fromkeys(names) if names.count(n) > 1]
        if twice:
            from ..base import MXNetError

            raise MXNetError(
                f"variable name {twice[0]!r} occurs twice in the graph of {name}; give the two variables different names"
            )
        position = {n: k for k, n in enumerate(self.data)}
        #: for each variable of the graph, the argument's number or the parameter
        self.sources: list[Any] = [position[n] if n in position else params[n] for n in names]
        self.fixed = frozenset(k for k, s in enumerate(self.sources) if not isinstance(s, int))
        self._structure = structure(symbol)
        self.stages: Stages | None = None
        if any(map(ends_program, topological(symbol._heads))):
            self.stages = Stages(symbol, self._stage)
        self._last: tuple[list[ArrayType], bool] | None = None
        self._changes: dict[str, int] = {}
        self._count = 0
        self._seen: dict[Any, Compiled] = {}
        self._latest: tuple[list[ArrayType], bool, Compiled] | None = None  #: what the last call ran
        self._trained: dict[Any, Training] = {}

    def _stage(self, symbol: Symbol, names: list[str]) -> CachedOp:
        return CachedOp(symbol, names, {}, f"{self.name} stage")

    # -- the general way

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The results, one array an output of the graph.

        Raises:
            DeferredInitializationError: a parameter still waits for its shape.
            MXNetError: inputs that do not fit; the node is named.
        """
        ctx = arrays[0].context
        inputs = self.inputs(arrays, ctx)
        if self.stages is not None:
            return self.stages(inputs)
        if tracked(inputs):
            return self.training_for(inputs, ctx).call(inputs, ctx)
        return self.compiled_for(inputs, ctx).run(inputs, ctx)

    def training_for(self, inputs: Sequence[NDArray], ctx: Context) -> Training:
        """The forward and backward programs for the types of ``inputs`` and the gradients they want."""
        training = recording.state.training
        types = [x._type for x in inputs]
        wanted = tuple(_wanted(x) for x in inputs)
        key = (tuple(types), training, wanted)
        found = self._trained.get(key)
        if found is None:
            reason = self._reason(types, training)
            found = training_program(
                self.symbol,
                [t.tensor for t in types],
                training,
                wanted,
                ctx,
                self.fixed,
                self.name,
                reason,
                self._structure,
            )
            _keep(self._trained, key, found)
            self._last = (types, training)
        return found

    def inputs(self, arrays: Sequence[NDArray], ctx: Context) -> list[NDArray]:
        """Arrays for all variables of the graph, parameters included."""
        return [arrays[s] if isinstance(s, int) else s.data(ctx) for s in self.sources]

    def compiled_for(self, inputs: Sequence[NDArray], ctx: Context) -> Compiled:
        """The program for the types of ``inputs``."""
        training = recording.state.training
        types = [x._type for x in inputs]
        key = (tuple(types), training)
        found = self._seen.get(key)
        if found is None:
            reason = self._reason(types, training)
            found = compiled(
                self.symbol, [t.tensor for t in types], training, ctx, self.fixed, self.name, reason, self._structure
            )
            _keep(self._seen, key, found)
            self._last = (types, training)
        self._latest = (types, training, found)
        return found

    def _reason(self, types: list[ArrayType], training: bool) -> str:
        """Why a new program is needed, in words; warns once about a dimension that keeps changing."""
        self._count += 1
        if self._last is None:
            return "first call"
        old, old_training = self._last
        names = self.symbol.list_inputs()
        parts = []
        for n, a, b in zip(names, old, types, strict=True):
            if a is b:
                continue
            if a.dtype is b.dtype and len(a.shape) == len(b.shape) and a.ctx == b.ctx:
                axes = [k for k, (d, e) in enumerate(zip(a.shape, b.shape, strict=True)) if d != e]
                parts.append(f"{n} axis {', '.join(map(str, axes))}: {a.shape} -> {b.shape}")
                for k in axes:
                    self._changes[f"axis {k} of {n}"] = self._changes.get(f"axis {k} of {n}", 0) + 1
            else:
                parts.append(f"{n}: {a!r} -> {b!r}")
        if training != old_training:
            parts.append(f"training: {old_training} -> {training}")
        if self._count == _WARN_AFTER and self._changes:
            worst = max(self._changes, key=lambda k: self._changes[k])
            warnings.warn(
                f"block {self.name} has been prepared for {self._count} signatures; {worst} keeps changing. Kernels that do not depend on it "
                "are reused, but padding it to a few sizes saves preparation time.",
                stacklevel=6,
            )
        return "; ".join(parts) or "another signature in between"

    # -- the prepared call

    def prepared(self, slow: Callable[..., Any]) -> Callable[..., Any] | None:
        """A function that repeats the last call with almost no Python, or None where there is none.

        It checks that the arguments have the same types, the training flag is the same and no
        parameter moved; otherwise it calls ``slow``. Only single results on the host so far, of graphs that
        read all their arguments.
        """
        if self.stages is not None or self._latest is None or recording.state.recording:
            return None
        types, training, program = self._latest
        if (
            program.program is None
            or program.draws
            or program.writes
            or len(program.outputs) != 1
            or getattr(program.loaded, "single", None) is None
            or not set(range(len(self.data))).issubset(s for s in self.sources if isinstance(s, int))
        ):
            return None
        return _prepare(self, types, training, program, slow)

    # -- reports

    def explain(self, arrays: Sequence[NDArray]) -> Explanation:
        """See HybridBlock.explain."""
        ctx = arrays[0].context
        inputs = self.inputs(arrays, ctx)
        if self.stages is None:
            return Explanation(self.name, self.compiled_for(inputs, ctx))
        parts: list[Explanation | LibraryCall] = []

        def watch(what: Any, values: list[NDArray]) -> None:
            if isinstance(what, CachedOp):
                parts.append(what.explain(values))
            else:
                parts.append(LibraryCall(what.op.name, what.name, sum(v._type.tensor.nbytes for v in values)))

        with recording.pause(recording.state.training):
            self.stages(inputs, watch)
        return StagedExplanation(self.name, parts)

    def internals(self, arrays: Sequence[NDArray], monitor_all: bool) -> list[tuple[str, str, NDArray]]:
        """(name, operator, value) of every result inside the graph, computed without fusion across them.

        ``monitor_all`` gives the inputs of each node, too, before its results.
        """
        ctx = arrays[0].context
        inputs = self.inputs(arrays, ctx)
        inner = self.symbol.get_internals()
        heads = [(n, k) for n, k in inner._heads if n.op is not None or monitor_all]
        group = Symbol(heads)
        program = compiled(
            group, [x._type.tensor for x in inputs], recording.state.training, ctx, name=f"{self.name} monitored"
        )
        values = program.run(inputs, ctx)
        of = {(id(n), k): v for (n, k), v in zip(heads, values, strict=True)}
        found = []
        for node in topological(self.symbol._heads):
            if node.op is None:
                continue
            if monitor_all:
                names = node.op.monitored_names(node.values, len(node.inputs))
                found += [
                    (f"{node.name}_{key}", node.op.name, of[id(source), k])
                    for key, (source, k) in zip(names, node.inputs, strict=True)
                ]
            found += [(node.output_name(k), node.op.name, of[id(node), k]) for k in range(node.num_visible)]
        return found


def _keep(programs: dict[Any, Any], key: Any, made: Any) -> None:
    """Remember a program; beyond the limit the oldest goes."""
    with _keeping:
        if len(programs) >= _LIMIT:
            del programs[next(iter(programs))]
        programs[key] = made


def _wanted(x: NDArray) -> bool:
    info = recording.history(x)
    return info is not None and (info.node is not None or info.grad_req != "null")


def _prepare(
    op: CachedOp, types: Sequence[ArrayType], training: bool, made: Compiled, slow: Callable[..., Any]
) -> Callable[..., Any]:
    """Build the prepared call: every name it uses is a local of this function."""
    loaded = made.loaded
    entry, table = loaded.single, loaded.table
    wanted = {s: t for s, t in zip(op.sources, types, strict=True) if isinstance(s, int)}
    ctx = wanted[0].ctx
    params = [op.sources[k].data(ctx) for k in sorted(op.fixed)]
    pointers = loaded.pointers([p.address for p in params])
    fixed = ctypes.addressof(pointers)
    arguments = [s for s in op.sources if isinstance(s, int)]
    pool = OutputPool(made.outputs[0], ctx)
    take = pool.take
    state, born = recording.state, epoch[0]
    free, release = loaded._free, loaded.release
    has_arena = bool(made.program and made.program.arena_bytes)
    make_arena = loaded.arena
    keep = (pointers, params)

    if len(op.data) == 1 and arguments == [0] and not has_arena:
        only = wanted[0]

        def call_one(*args: Any) -> Any:
            if len(args) == 1:
                x = args[0]
                if (
                    x.__class__ is NDArray
                    and x._type is only
                    and epoch[0] == born
                    and state.training is training
                    and not state.recording
                ):
                    y = take()
                    entry(0, table, fixed, x._address or x.address, y._address)
                    return y
            return slow(args)

        call_one.keep = keep  # type: ignore[attr-defined]
        return call_one

    count = len(op.data)
    in_order = [wanted[k] for k in range(count)]

    def call_several(*args: Any) -> Any:
        if len(args) == count and epoch[0] == born and state.training is training and not state.recording:
            for x, t in zip(args, in_order):
                if x.__class__ is not NDArray or x._type is not t:
                    return slow(args)
            y = take()
            addresses = [args[k]._address or args[k].address for k in arguments]
            arena = (free.pop() if free else make_arena()) if has_arena else (None, 0)
            entry(arena[1], table, fixed, *addresses, y._address)
            if has_arena:
                release(arena)
            return y
        return slow(args)

    call_several.keep = keep  # type: ignore[attr-defined]
    return call_several

# SPDX-License-Identifier: Apache-2.0
"""The compiled graph of a hybridized block: one program a signature, and a prepared call for the last one.

A *signature* is the types of the inputs (shape, element type, device) and the training flag. Types
are interned, so recognising the last signature takes a few identity checks. Nothing falls back to
eager execution in silence: a new signature compiles, and is reported with the input that changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..backends.base import Mode
from ..backends.devices import device_of
from ..backends.write_tracking import is_exported
from ..base import MXNetError
from ..context import Context
from ..core import autograd_state
from ..core.settings import numeric_mode, tf32
from ..core.source_location import user_frame
from ..ndarray.apply import numpy_class
from ..ndarray.binding_version import binding_version
from ..ndarray.ndarray import NDArray
from ..ndarray.tape import tracked
from ..ndarray.types import ArrayType
from ..ndarray.versions import exchanging, pinned
from ..symbol import Symbol
from ..symbol.lowering import depends_on_np_shape, structure, written_variables
from ..symbol.node import topological
from ..util import is_np_shape
from .compilation import Compiled, compiled, target_of
from .dispatch.call_cache import CallCache, call_key
from .dispatch.entries import Entry, remember
from .dispatch.prepare import LastCall, prepare
from .folded_parameters import FoldedParameters
from .graph_breaks import PartitionedGraph, is_graph_break
from .recorded_program import RecordedProgram, recorded_program
from .reports.events import modules_compiled
from .reports.explain import Explanation, LibraryCall, RecordedExplanation, StagedExplanation

if TYPE_CHECKING:
    from ..compiler.ir.types import TensorType
    from ..compiler.target import Target
    from ..tracing import TracedGraph

__all__ = ["CachedOp", "is_compiled"]

_SETS = 32  #: sets of values computed from parameters that a block keeps: devices and kinds of signatures
_LIMIT = 512  #: signatures that a block remembers; others are looked up among those of all blocks
_parameters: WeakSet[Any] = WeakSet()  #: of all graphs
_WARN_AFTER = 16  #: signatures of one block after which the dimension that keeps changing is named, …
_COMPILED = 8  #: … if at least so many of them called for a compiler


def is_compiled(parameter: Any) -> bool:
    """Whether a graph, which is compiled, has this parameter."""
    return parameter in _parameters


class CachedOp:
    """A Symbol with the parameters of a block bound to its variables.

    Args:
        symbol: the traced graph.
        data: names of the variables that are arguments, in call order.
        params: parameters by name.
        name: of the block, for reports.
        mode: how calls are repeated on a GPU; this and the others as ``hybridize_flags.call_options`` gives them.
        numeric: the numeric mode, the environment's for None.
        background: programs are made in another thread, and operators run one by one until they are there.
        first: why there are programs of it at all, for reports.

    Attributes:
        kind: the class of the results, as for ``wrap``: arrays of np where the Symbol is of np.
    """

    def __init__(
        self,
        symbol: Symbol,
        data: Sequence[str],
        params: Mapping[str, Any],
        name: str,
        mode: Mode = Mode.EAGER_ALLOC,
        numeric: str | None = None,
        background: bool = False,
        first: str = "first call",
    ) -> None:
        self._first = first
        self.kind: Any = None if symbol._kind is None else numpy_class()
        self.symbol, self.name, self.mode, self.numeric = symbol, name, mode, numeric_mode(numeric)
        self.background = background
        self.data = list(data)
        order = topological(symbol._heads)
        names = [n.name for n in order if n.op is None]
        twice = [n for n in dict.fromkeys(names) if names.count(n) > 1]
        if twice:
            raise MXNetError(
                f"variable name {twice[0]!r} occurs twice in the graph of {name}; give the two variables different names"
            )
        position = {n: k for k, n in enumerate(self.data)}
        #: for each variable of the graph, the argument's number or the parameter
        self.sources: list[Any] = [position[n] if n in position else params[n] for n in names]
        self.fixed = frozenset(k for k, s in enumerate(self.sources) if not isinstance(s, int))
        _parameters.update(self.sources[k] for k in self.fixed)
        self._structure = structure(symbol, order)
        #: whether the same call has other shapes under NumPy shape semantics
        self.reads_np_shape = self.kind is None and depends_on_np_shape(order)
        self.partitioned: PartitionedGraph | None = None
        if any(map(is_graph_break, order)):
            self.partitioned = PartitionedGraph(symbol, self._stage)
        self.last_signature: tuple[list[ArrayType], bool] | None = None
        self._changes: dict[str, int] = {}
        #: of the first signature: what differs from it later is symbolic
        self._first_types: Sequence[TensorType] = ()
        self._count = 0
        self._modules = self._compiled = 0
        self._warned = False
        #: by signature: programs of plain calls and of recorded ones, and what is being made
        self.entries: dict[Any, Entry[Any]] = {}
        self.last_call: LastCall | None = None  #: what the last call ran
        #: the same of calls under ``autograd.record``, most of which are recorded
        self.last_recorded: LastCall | None = None
        #: parameters whose memory others may write without telling: nothing is kept that depends on them
        self.exported_params: frozenset[int] = frozenset()
        self._folded: dict[Any, FoldedParameters] = {}
        self._calls = CallCache()
        #: how arguments and results are nested, of a block's graph
        self.formats: tuple[Any, Any] = (None, None)
        #: of a graph that was traced on arrays, which may have no arguments: what it was made from, and the device
        self.traced: TracedGraph | None = None
        self.ctx: Context | None = None
        self._written: dict[bool, frozenset[int]] = {}

    def written_inputs(self) -> frozenset[int]:
        """Positions of the inputs that a call in this mode, or its backward pass, writes."""
        training = autograd_state.state.training
        positions = self._written.get(training)
        if positions is None:
            positions = self._written[training] = written_variables(self.symbol, training)
        return positions

    def _stage(self, symbol: Symbol, names: list[str]) -> CachedOp:
        return CachedOp(symbol, names, {}, f"{self.name} stage", self.mode, self.numeric, self.background)

    # -- the general way

    def __call__(self, arrays: Sequence[NDArray], ctx: Context | None = None) -> list[NDArray]:
        """The results, one array an output of the graph.

        Args:
            ctx: where a graph without arguments runs, such as a stage of constants.

        Raises:
            DeferredInitializationError: a parameter still waits for its shape.
            MXNetError: inputs that do not fit; the node is named.
        """
        ctx = self._where(arrays, ctx)
        inputs = self.inputs(arrays, ctx)
        if self.partitioned is not None:
            return [_of_kind(x, self.kind) for x in self.partitioned(inputs, ctx)]
        if tracked(inputs):
            recorded = self.recorded_program_for(inputs, ctx)
            self.last_recorded = LastCall([x._type for x in inputs], recorded.training, recorded)
            return recorded.call(inputs, ctx, self.kind)
        while True:
            program = self.program_for(inputs, ctx)
            folded = self.folded_for(program, inputs, ctx)
            if folded is not None:
                if autograd_state.state.recording:  # and none of the inputs is of the recorded graph
                    self.last_recorded = self.last_call
                return program.run(inputs, ctx, folded, self.kind)

    def _where(self, arrays: Sequence[NDArray], otherwise: Context | None = None) -> Context:
        if arrays:
            return arrays[0].context
        ctx = otherwise or self.ctx
        assert ctx is not None
        return ctx

    def recorded_program_for(self, inputs: Sequence[NDArray], ctx: Context, wait: bool = False) -> RecordedProgram:
        """The forward and backward programs for the types of ``inputs`` and the gradients they want; ``wait`` as below."""
        training = autograd_state.state.training
        types = [x._type for x in inputs]
        wanted = tuple(autograd_state.wants_gradient(autograd_state.history(x)) for x in inputs)

        def make(target: Target | None, reason: str, interpreted: bool = False) -> RecordedProgram:
            plain, first = self._with_first(types)
            options = (self.fixed, self.name, reason, self._structure, self.numeric, interpreted)
            program = recorded_program(self.symbol, plain, training, wanted, ctx, *options, target=target, first=first)
            return program.in_mode(self.mode)

        recorded: RecordedProgram = self.get_or_compile(wanted, types, training, ctx, make, wait)
        return recorded

    def _with_first(self, types: list[ArrayType]) -> tuple[list[TensorType], Sequence[TensorType]]:
        """The types without devices, and those of the first signature."""
        plain = [t.tensor for t in types]
        self._first_types = self._first_types or plain
        return plain, self._first_types

    def get_or_compile(
        self,
        wanted: Any,
        types: list[ArrayType],
        training: bool,
        ctx: Context,
        make: Callable[..., Any],
        wait: bool = False,
    ) -> Any:
        """A signature's program, or what answers while it is made in the background.

        Args:
            wanted: what tells it from others of these types: the gradients that are wanted, or the parameters that are folded.
            make: function (target, reason, whether operators are to run one by one) -> program.
        """
        key = (tuple(types), training, wanted, tf32(), is_np_shape())
        entry = self.entries.get(key)
        if entry is None:
            entry = remember(self.entries, key, _LIMIT, lambda: Entry(self._reason(types, training)))
        if entry.program is not None:
            return entry.program
        target = target_of(device_of(ctx), self.mode)  # as settings are now, whoever makes the program
        return entry.get(partial(make, target), self.background, wait)

    def inputs(self, arrays: Sequence[NDArray], ctx: Context) -> list[NDArray]:
        """Arrays for all variables of the graph, parameters included, all in one version."""
        with exchanging.raw:
            return [pinned(arrays[s] if isinstance(s, int) else s.data(ctx)) for s in self.sources]

    def program_for(self, inputs: Sequence[NDArray], ctx: Context, wait: bool = False) -> Compiled:
        """The program for the types of ``inputs``; ``wait`` for it if it is being made in the background."""
        training = autograd_state.state.training
        types = [x._type for x in inputs]
        # in training parameters change at every call: nothing is kept
        constant: frozenset[int] = frozenset() if training else self.fixed - self.exported_params

        def make(target: Target | None, reason: str, interpreted: bool = False) -> Compiled:
            plain, first = self._with_first(types)
            options = (self.fixed, self.name, reason, self._structure, self.numeric, interpreted, constant)
            return compiled(self.symbol, plain, training, ctx, *options, target=target, first=first).in_mode(self.mode)

        program: Compiled = self.get_or_compile(constant, types, training, ctx, make, wait)
        self.last_call = LastCall(types, training, program)
        return program

    def folded_for(
        self, program: Compiled, inputs: Sequence[NDArray] | Mapping[int, NDArray], ctx: Context
    ) -> Sequence[Any] | None:
        """The folded values that ``program`` takes behind its other inputs; None if they cannot be kept: another program is needed.

        Args:
            inputs: the variables' arrays, at least those of the parameters.
        """
        prelude = program.prelude
        if prelude is None:
            return ()
        key = (prelude.key, prelude.takes, ctx.device_typeid, ctx.device_id)
        folded = self._folded.get(key)
        if folded is None:
            folded = remember(self._folded, key, _SETS, lambda: FoldedParameters(prelude))
        arrays = [inputs[k]._data for k in prelude.takes]
        values = folded.values(arrays)
        if values is None:
            self.exported_params |= {k for k, a in zip(prelude.takes, arrays, strict=True) if is_exported(a)}
        return values

    def _reason(self, types: list[ArrayType], training: bool) -> str:
        """Why a new program is needed, in words; warns once about a dimension that keeps changing."""
        self._count += 1
        before, self._modules = self._modules, modules_compiled()
        last, self.last_signature = self.last_signature, (types, training)
        if last is None:
            return self._first
        self._compiled += self._modules > before  # (for the signature before, its backward pass included)
        old, old_training = last
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
        if self._count >= _WARN_AFTER and self._compiled >= _COMPILED and self._changes and not self._warned:
            self._warned = True
            worst = max(self._changes, key=lambda k: self._changes[k])
            warnings.warn(
                f"block {self.name} has been prepared for {self._count} signatures, and the compiler ran for most of them; "
                f"{worst} keeps changing. Kernels that do not depend on it are reused; the others are compiled for every "
                "new size. Pad it to a few sizes (buckets) with a mask, or sort examples into batches of one size; "
                "mx.compile_report() lists what was compiled and why.",
                stacklevel=user_frame(),
            )
        return "; ".join(parts) or "another signature in between"

    # -- the prepared call

    def prepared(
        self,
        general_call: Callable[..., Any],
        args: Sequence[Any],
        form: Sequence[Any],
        results: Any,
        install: Callable[[Callable[..., Any]], None],
    ) -> Callable[..., Any] | None:
        """A function that repeats the last call with almost no Python, or None where there is none.

        It checks that the arguments have the same types, the training flag is the same and no
        parameter moved; otherwise it takes the prepared call of such arguments (runtime/dispatch/call_cache.py), or calls ``general_call``,
        which has to be the same function for every call. See runtime/dispatch/prepare.py for the graphs that have one.

        Args:
            args: of the last call.
            form: their format (see :mod:`hybridgpu.core.pytree`); ``general_call`` takes them as a tuple.
            results: the format of the results, the same for every call.
            install: what is done with another prepared call when it is taken.
        """
        key = call_key(args)
        if self.partitioned is not None or key is None or not self.data:
            return None
        # Looked at once: another thread may call meanwhile, in the other mode or with other arguments. The call is then
        # made for the types of that one, under the key of ours. Each call checks its own types and leaves others to
        # the call of their key, that of its key to ``general_call``: the first of ours comes here again, where it is replaced.
        last = self.last_recorded if key.recording else self.last_call
        if last is None:
            return None
        call = self._calls.find(key, last.program)
        if call is None:
            version = binding_version[0]
            others = self._calls.dispatch_other(key, general_call, install)
            call = prepare(self, key, last, others, form, results)
            if call is not None:
                self._calls.keep(key, version, last.program, call)
        return call

    # -- reports

    def explain(self, arrays: Sequence[NDArray], ctx: Context | None = None) -> Explanation:
        """See HybridBlock.explain."""
        explanation = self._explained(arrays, ctx)
        if self.traced is not None:
            explanation.captured = [str(c) for c in self.traced.captured]
        return explanation

    def _explained(self, arrays: Sequence[NDArray], ctx: Context | None) -> Explanation:
        ctx = self._where(arrays, ctx)
        inputs = self.inputs(arrays, ctx)
        if self.partitioned is None and tracked(inputs):
            pair = self.recorded_program_for(inputs, ctx, wait=True)
            back = None if pair.backward is None else Explanation(f"{self.name}_backward", pair.backward)
            return RecordedExplanation(self.name, Explanation(self.name, pair.forward), back)
        if self.partitioned is None:
            return Explanation(self.name, self.program_for(inputs, ctx, wait=True))
        parts: list[Explanation | LibraryCall] = []

        def watch(what: Any, values: list[NDArray]) -> None:
            if isinstance(what, CachedOp):
                explanation = what.explain(values, ctx)
                parts.extend(explanation.parts if isinstance(explanation, RecordedExplanation) else [explanation])
            else:
                parts.append(LibraryCall(what.op.name, what.name, sum(v._type.tensor.nbytes for v in values)))

        self.partitioned(inputs, ctx, watch)
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
            group,
            [x._type.tensor for x in inputs],
            autograd_state.state.training,
            ctx,
            name=f"{self.name} monitored",
            numeric=self.numeric,
        )
        values = program.run(inputs, ctx, kind=self.kind)
        of = {(id(n), k): v for (n, k), v in zip(heads, values, strict=True)}
        results = []
        for node in topological(self.symbol._heads):
            if node.op is None:
                continue
            if monitor_all:
                names = node.op.monitored_names(node.values, len(node.inputs))
                results += [
                    (f"{node.name}_{key}", node.op.name, of[id(source), k])
                    for key, (source, k) in zip(names, node.inputs, strict=True)
                ]
            results += [(node.output_name(k), node.op.name, of[id(node), k]) for k in range(node.num_visible)]
        return results


def _of_kind(x: NDArray, kind: Any) -> NDArray:
    """The same array with the interface of nd or of np."""
    if x._kind is kind:
        return x
    return x.as_nd_ndarray() if kind is None else x.as_np_ndarray()  # type: ignore[no-any-return]

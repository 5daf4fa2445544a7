# SPDX-License-Identifier: Apache-2.0
"""Hybridized calls under ``autograd.record``: a forward and a backward program.

The forward program returns, beside the results, the values that the backward program takes over
(results of matrix products, reductions and the like); the rest is computed again, inside the fused
kernels of the backward program. Both are cached as every program is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

from ..backends.base import Mode
from ..backends.devices import Device, device_of
from ..backends.write_tracking import assign
from ..cache.disk_cache import default_store
from ..compiler.ir.dims import Scope
from ..compiler.ir.graph import Graph, Node, reachable
from ..compiler.ir.types import TensorType
from ..compiler.passes.differentiate import Derivative, differentiate, residuals
from ..compiler.program import Program
from ..compiler.target import Target
from ..context import Context
from ..core import autograd_state
from ..core.fork_safe_lock import Lock
from ..core.name_table import GRAPH, NameTable
from ..core.settings import numeric_mode
from ..ndarray.ndarray import NDArray, refuse_in_place, wrap
from ..ndarray.tape import StatefulCall
from ..ndarray.versions import Reader, latest
from ..symbol.lowering import Structure, backward_mutations, lower_symbol, mutations
from ..symbol.symbol import Symbol
from ..util import is_np_shape
from .compilation import (
    LIMIT,
    Compilation,
    Compiled,
    compiler_key,
    interpret,
    store_key,
    target_of,
)
from .dimensions import ChangedTypes, Sizes, Templates, changed_types, symbolic_types
from .dispatch.backward import BackwardTemplate, sweep
from .operator_gradients import OperatorFunctions
from .reports.events import Dumper

__all__ = ["RecordedCall", "RecordedProgram", "recorded_program"]


class StateWrite(NamedTuple):
    """An input that takes a result, as :class:`~hybridgpu.symbol.lowering.Mutation` says."""

    position: int
    keep: float
    needs: int = 0


class RecordedProgram:
    """The two programs of one signature.

    Attributes:
        forward: its results are the heads, the values of the writes, and the kept values.
        backward: None if no wanted input gets a gradient.
        heads: number of heads; each has a cotangent, zeros where the user gives none.
        backward_writes: the inputs that take new values when the backward pass runs, in order of the results.
        forward_writes: the same for the call itself; these results follow those of backward_writes.
        residuals: positions of the values kept for the backward pass among the results of the forward program.
        input_map, output_map: see Derivative; residuals stand between inputs and cotangents.
        overwritten: the inputs that the heads read and the call itself writes, operators' states excepted: the backward pass
            takes their old values.
    """

    def __init__(
        self,
        symbol: Symbol,
        types: list[TensorType],
        training: bool,
        wanted: tuple[bool, ...],
        changed: ChangedTypes = (),
    ) -> None:
        self.symbol, self.types, self.training, self.wanted = symbol, types, training, wanted
        self._changed = changed  # from the first signature
        self._scope: Scope | None = None  # of the dimensions, while it is made
        self.backward_writes = [
            StateWrite(m.position, m.keep, m.needs) for m in backward_mutations(symbol, training, wanted)
        ]
        self.forward_writes = [StateWrite(m.position, m.keep) for m in mutations(symbol, training, recorded=True)]
        self.heads = len(symbol._heads)
        self._graph: Graph | None = None
        self._derivative: Derivative | None = None
        self._operators: OperatorFunctions | None = None
        self._residual_nodes: Sequence[Node] = ()
        self.forward: Compiled
        self.backward: Compiled | None = None
        self.residuals: list[int] = []
        self.input_map: tuple[int, ...] = ()
        self.output_map: tuple[int | None, ...] = ()
        self.overwritten: tuple[int, ...] = ()
        self._exact = True  # as for differentiate; so of what operators compute one by one
        self._target: Target | None = None  # whose library decides what is kept

    @property
    def interpreted(self) -> bool:
        """Whether operators run one by one until the programs are there."""
        return self.forward.interpreted

    def in_mode(self, mode: Mode) -> RecordedProgram:
        """The same programs, called in another way; see :meth:`Compiled.in_mode`."""
        if mode is Mode.EAGER_ALLOC:
            return self
        other = copy.copy(self)
        other.forward = self.forward.in_mode(mode)
        other.backward = None if self.backward is None else self.backward.in_mode(mode)
        return other

    def of(self, symbol: Symbol, names: NameTable) -> RecordedProgram:
        """The same programs as those of another graph of this structure."""
        other = copy.copy(self)
        other.symbol = symbol
        other._graph = other._derivative = other._operators = None
        other._residual_nodes = other._changed = ()
        other.forward = self.forward.named(names)
        other.backward = None if self.backward is None else self.backward.named(names)
        return other

    def graph(self) -> Graph:
        """The graph of the heads and the writes."""
        if self._graph is None:
            named = dict(
                zip(self.symbol.list_inputs(), symbolic_types(self.types, self._changed, self._scope), strict=True)
            )
            writes = [
                *backward_mutations(self.symbol, self.training, self.wanted),
                *mutations(self.symbol, self.training, recorded=True),
            ]
            self._graph = lower_symbol(self.symbol, named, self.training, writes=writes, shared=True)
        return self._graph

    def operators(self) -> OperatorFunctions:
        """The operators one by one, for gradients that the programs do not compute."""
        if self._operators is None:
            named = dict(zip(self.symbol.list_inputs(), self.types, strict=True))
            self._operators = OperatorFunctions(self.symbol, named, self.training)
        return self._operators

    def interpret(self, device: Device, names: NameTable, reason: str, compiled_at: int | None = None) -> None:
        """Compile nothing: operators run one by one; ``compiled_at``: as for ``compilation.interpret``."""
        self._follow(self._plan())
        graph = self._forward_graph()
        self.forward = interpret(graph, self.types, device, names.graph, reason, names, compiled_at)
        if any(g is not None for g in self.output_map):
            types, name = self._backward_types(self.forward.outputs), f"{names.graph}_backward"
            self.backward = interpret(self.derivative().graph, types, device, name, reason, names, compiled_at)

    def make(
        self,
        device: Device,
        fixed: frozenset[int],
        names: NameTable,
        reason: str,
        identity: str,
        numeric: str,
        target: Target | None,
        scope: Scope | None,
        given: tuple[dict[str, Any], Program, Program | None] | None,
    ) -> tuple[dict[str, Any], Program, Program | None] | None:
        """Compile both programs, or find them in the store; ``identity``, ``names``: as for ``Compilation``.

        Args:
            target: whose libraries decide what is kept; None: none does.
            scope: as for ``Compilation``.
            given: the plan and the programs that a template has given.

        Returns:
            The plan and the programs with dimensions in them, None where they were found.
        """
        self._scope = scope
        self._exact = numeric == "strict"
        backend = device.backend()
        self._target = target and target.with_numeric(numeric)
        plan, forward_program, backward_program = given or (None, None, None)
        if given is None and backend:
            plan = default_store().get_json("training", store_key(identity))
        if not isinstance(plan, dict) or set(plan) != {"residuals", "input_map", "output_map", "overwritten"}:
            plan = self._plan()
            if backend:
                default_store().put_json("training", store_key(identity), plan)
        self._follow(plan)

        def forward(dumper: Dumper, scope: Scope | None) -> Graph:
            self._in_scope(scope)
            if dumper.folder is not None:
                dumper.write("00_symbol.json", self.symbol.tojson())
            return self._forward_graph()

        def backward(dumper: Dumper, scope: Scope | None) -> Graph:
            self._in_scope(scope)
            graph = self.derivative().graph
            return Graph(f"{GRAPH}_backward", graph.inputs, graph.outputs)

        name, own = names.graph, f"{identity} forward"
        first = Compilation(
            forward,
            self.types,
            device,
            fixed,
            name,
            reason,
            own,
            numeric,
            names=names,
            target=target,
            scope=scope,
            program=forward_program,
        )
        with first:
            if all(g is None for g in self.output_map):
                self.forward = first.finish()
                return None if first.planned is None else (plan, first.planned, None)
            first.start()  # while the other one is planned
            second = Compilation(
                backward,
                self._backward_types(first.outputs),
                device,
                frozenset(i for i, k in enumerate(self.input_map) if k in fixed),
                f"{name}_backward",
                reason,
                f"{identity} backward",
                numeric,
                names=names,
                target=target,
                scope=scope,
                program=backward_program,
            )
            with second:
                second.start()
                self.forward, self.backward = first.finish(), second.finish()
        if first.planned is None or second.planned is None:
            return None
        return plan, first.planned, second.planned

    def _in_scope(self, scope: Scope | None) -> None:
        """Forget graphs with dimensions before plain ones are asked for."""
        if scope is not self._scope:
            self._scope, self._graph, self._derivative = scope, None, None

    def _follow(self, plan: dict[str, Any]) -> None:
        self.residuals, self.input_map, self.output_map = (
            list(plan["residuals"]),
            tuple(plan["input_map"]),
            tuple(plan["output_map"]),
        )
        self.overwritten = tuple(plan["overwritten"])

    def _forward_graph(self) -> Graph:
        graph = self.graph()
        self.derivative()
        extra = [n for n in self._residual_nodes if n not in graph.outputs]
        return Graph(GRAPH, graph.inputs, (*graph.outputs, *extra))

    def _backward_types(self, outputs: Sequence[TensorType]) -> list[TensorType]:
        arguments = [*self.types, *(outputs[k] for k in self.residuals), *outputs[: self.heads]]
        return [arguments[k] for k in self.input_map]

    def derivative(self) -> Derivative:
        """The backward graph, and what is kept for it, which it notes in ``_residual_nodes``; once, until another scope."""
        if self._derivative is None:
            graph = self.graph()
            flags = tuple(k < self.heads for k in range(len(graph.outputs)))
            by_library = None
            if self._target is not None:
                from ..compiler.select import library_computes

                by_library = library_computes(self._target)
            self._residual_nodes = residuals(graph, flags, self.wanted, self._exact, by_library)
            self._derivative = differentiate(graph, self._residual_nodes, flags, self.wanted, self._exact)
        return self._derivative

    def _plan(self) -> dict[str, Any]:
        derivative, graph = self.derivative(), self.graph()
        positions, extra = [], len(graph.outputs)
        for node in self._residual_nodes:
            if node in graph.outputs:
                positions.append(graph.outputs.index(node))
            else:
                positions.append(extra)
                extra += 1
        return {
            "residuals": positions,
            "input_map": list(derivative.input_positions),
            "output_map": list(derivative.output_positions),
            "overwritten": self._overwritten(graph) if derivative.graph.outputs else [],
        }

    def _overwritten(self, graph: Graph) -> list[int]:
        variables = self.symbol.list_inputs()
        # an operator's own states, such as running averages, show in its result by rounding at most
        states = {
            m.node.inputs[k][0].name
            for m in mutations(self.symbol, self.training, recorded=True)
            for k in m.node.auxiliary_inputs()
        }
        positions = [m.position for m in self.forward_writes if variables[m.position] not in states]
        read = set(reachable(graph.outputs[: self.heads])) if positions else set()
        return [k for k in positions if graph.inputs[k] in read]

    def call(self, inputs: Sequence[NDArray], ctx: Context, kind: Any = None) -> list[NDArray]:
        """Run the forward program and record the call; results are of ``kind`` as for ``wrap``."""
        for m in self.forward_writes:
            info = autograd_state.history(inputs[m.position])
            if (
                info is not None and info.node is not None
            ):  # gradients of what is written would go to what was there before
                refuse_in_place(inputs[m.position])
        arrays = [x._data for x in inputs]
        seed = self.forward.next_rng_state(ctx)
        results = self.forward.results(arrays, seed)
        first = self.heads + len(self.backward_writes)
        with self.forward.device.current():
            old = {k: arrays[k].copy() for k in self.overwritten}
            for k, m in enumerate(self.forward_writes):
                assign(arrays[m.position], results[first + k])
        late = [(arrays[m.position], results[self.heads + k], m.keep) for k, m in enumerate(self.backward_writes)]
        heads = [wrap(r, ctx, kind) for r in results[: self.heads]]
        RecordedCall(self, inputs, heads, ctx, seed, [results[k] for k in self.residuals], late, old)
        return heads


class RecordedCall(StatefulCall):
    """A recorded call of a hybridized graph.

    Attributes:
        template: of a prepared call, with ``addresses`` and ``residual_addresses``; see runtime/dispatch/backward.py.
        mark: as long as it may read its inputs; see ndarray/versions.py.
        scratch: where its kept values, what it writes later and its seed lie, if they lie together (runtime/dispatch/pools.py).
    """

    __slots__ = ("addresses", "mark", "program", "residual_addresses", "residuals", "scratch", "template")

    def __init__(
        self,
        program: RecordedProgram,
        inputs: Sequence[NDArray],
        heads: Sequence[NDArray],
        ctx: Context,
        seed: Any,
        residuals: list[Any],
        writes: list[tuple[Any, Any, float]],
        old: Mapping[int, Any],
    ) -> None:
        super().__init__(inputs, heads, ctx, seed, writes)
        for k, values in old.items():  # of inputs that the call has written
            self.arrays[k] = values
        self.program, self.residuals = program, residuals
        self.template: BackwardTemplate | None = None
        self.addresses: list[int] = []
        self.residual_addresses: list[int] = []
        self.scratch: Any = None
        self.mark: Any = Reader(self.arrays).mark

    def sweep(self, retain: bool) -> bool:
        return sweep(self, retain)

    def release(self) -> None:
        super().release()
        self.residuals = []
        self.scratch = self.mark = None

    def _needs(self) -> Sequence[int]:
        return [m.needs for m in self.program.backward_writes]

    def _gradients(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        program, device = self.program, self.program.forward.device
        arrays = list(map(latest, self.arrays))
        before = self.mark.values_before(self.arrays, device)
        written = self.mark.written_results(self)
        # recorded, for derivatives of derivatives: what is written in between shows in them as well
        if autograd_state.state.recording or written or not all(map(is_, arrays, before)):
            return program.operators().gradients(self, before, written, cotangents, wanted)
        filled = [(self.zeros(k) if c is None else c)._data for k, c in enumerate(cotangents)]
        if program.backward is None:
            return [None] * sum(wanted)
        arguments = [*arrays, *self.residuals, *filled]
        results = program.backward.results([arguments[k] for k in program.input_map], self.seed)
        every = iter(program.output_map)
        of_input = [next(every) if w else None for w in program.wanted]
        return [
            None if of_input[k] is None else wrap(results[of_input[k]], self.ctx)  # type: ignore[index]
            for k, w in enumerate(wanted)
            if w
        ]


_NOTHING = Symbol([])  # in the place of a graph: what others share holds none
_memory: dict[Any, RecordedProgram] = {}
_templates: Templates = {}
_building = Lock()


def recorded_program(
    symbol: Symbol,
    types: Sequence[TensorType],
    training: bool,
    wanted: tuple[bool, ...],
    ctx: Context,
    fixed: frozenset[int],
    name: str,
    reason: str,
    structure: Structure,
    numeric: str | None = None,
    interpreted: bool = False,
    target: Target | None = None,
    first: Sequence[TensorType] = (),
    compiled_at: int | None = None,
) -> RecordedProgram:
    """The forward and backward programs of ``symbol`` for input types in ``list_inputs`` order.

    Args:
        wanted: for each input, whether its gradient may be asked for.
        fixed, name, reason, structure, numeric, interpreted, target, first, compiled_at: as for ``compiled``.
    """
    device = device_of(ctx)
    backend = device.backend()
    target = target or target_of(device)
    compiler = compiler_key(backend, target)
    numeric = numeric_mode(numeric)
    dims = () if interpreted or backend is None else changed_types(types, first, fixed)
    key = (structure.hash, tuple(types), training, wanted, fixed, numeric, compiler, is_np_shape(), dims, id(device))
    names = structure.table(name)
    program = _memory.get(key)
    if program is None and interpreted:
        program = RecordedProgram(symbol, list(types), training, wanted)
        program.interpret(device, names, reason, compiled_at)
        return program
    if program is None:
        with _building:
            program = _memory.get(key)
            if program is None:
                program = RecordedProgram(symbol, list(types), training, wanted, dims)
                sizes = Sizes(_templates, (key[0], *key[2:8], id(device)), types, dims)
                identity = f"training {key[:9]!r}"
                with sizes.scope() as scope:
                    planned = program.make(device, fixed, names, reason, identity, numeric, target, scope, sizes.found)
                sizes.keep(planned)
                if len(_memory) >= LIMIT:
                    del _memory[next(iter(_memory))]
                program = _memory[key] = program.of(_NOTHING, NameTable())
    return program.of(symbol, names)

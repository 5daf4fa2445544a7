# SPDX-License-Identifier: Apache-2.0
"""Prepared calls: one Python function a call key, which repeats a call with almost no Python of its own.

It is generated from top to bottom in the order in which it runs: guard, memory of results, launch, writes of states,
node of the recorded graph, result. Which parts there are depends on the call:

* the guard compares arguments, flags and the binding version with those of the call that was prepared, and what it does
  not fit goes to ``dispatch_other``: every guard of every kind of call is in :meth:`_Writer.guard`;
* a program on the host is one foreign call, written out, or (where libraries compute some of it) a call of its steps;
  on a GPU it is started on the current stream, with results from a pool of thread and stream;
* under ``autograd.record`` results get a place in the recorded graph, where a gradient may be wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple

from ...backends.write_tracking import assign
from ...context import Context, current_context
from ...core.autograd_state import GradientInfo, ResultInfo, history, state, wants_gradient
from ...core.rng import drawing
from ...ndarray.binding_version import binding_version
from ...ndarray.ndarray import NDArray
from ...ndarray.types import ArrayType, array_type
from ...ndarray.versions import Reader
from ...util import _everywhere as np_everywhere
from ...util import _flags as np_flags
from ..captured import CapturedError
from ..compilation import Compiled
from ..recorded_program import RecordedCall, RecordedProgram
from .backward import BackwardTemplate
from .call_cache import CallKey
from .overlaps import overlap_test
from .parameters import BoundParameters, argument_types, bind_parameters
from .pools import REFS_ONE, REFS_TWO, REUSED_BYTES, OutputPool, ScratchPool, StoragePool, result_allocator
from .source import Call, CallSource, indented, listed
from .streams import StreamStates

if TYPE_CHECKING:
    from ..cached_op import CachedOp

__all__ = ["ALIGNED", "LastCall", "prepare"]

ALIGNED = 15  #: bits of an address that kernels of a GPU want to be zero


class LastCall(NamedTuple):
    """The last call: what it ran.

    Attributes:
        types: of all inputs.
        training: the flag.
        program: with a backward program where a gradient may be wanted.
    """

    types: list[ArrayType]
    training: bool
    program: Compiled | RecordedProgram


def prepare(
    op: CachedOp, key: CallKey, last: LastCall, dispatch_other: Call, form: Sequence[Any], results: Any
) -> Call | None:
    """A function that repeats a call, or None where there is none.

    Graphs that do not read all their arguments have none (the types of the others are not known), nor have those that are
    interpreted; and there is none where a parameter lies so that kernels cannot read it, or may be written by others
    without telling.

    Args:
        key: of the call.
        last: what it ran.
        dispatch_other: takes the arguments, as a tuple, of all other calls.
        form, results: the formats of arguments and results.
    """
    version = binding_version[0]  # before the parameters are looked at, which another thread may move
    program = last.program
    recorded = isinstance(program, RecordedProgram)
    forward: Compiled = program.forward if isinstance(program, RecordedProgram) else program
    if forward.program is None or not set(range(len(op.data))).issubset(s for s in op.sources if isinstance(s, int)):
        return None
    ctx, types = argument_types(op, last.types)
    parameters = bind_parameters(op, last.types, forward, ctx)
    if parameters is None:
        return None
    writer = _Writer(op, forward, ctx, types, parameters, form, dispatch_other)
    if isinstance(program, RecordedProgram) and not writer.record(program, version):
        return None
    writer.guard(key, last.training, version)
    if forward.program.target != "cuda":
        writer.launch_on_host()
        writer.write_states()
    elif any(a & ALIGNED for a in parameters.addresses):
        return None
    else:
        writer.launch_on_device()
    if recorded:
        writer.node()
    return writer.finish("call_recorded" if recorded else "call_prepared", results)


class _Writer(CallSource):
    """The parts of a prepared call.

    Args:
        op: the graph.
        program: what it runs.
        types: of the arguments' arrays, in order.

    Attributes:
        heads: how many of the program's results the caller sees; they are y0, y1 … in the end.
        writes: (number of a result, of the input that it is the new value of).
        arguments: number of an input -> of the argument that it is.
        recorded: both programs of a recorded call.
        device: whether the program runs on a GPU.
    """

    def __init__(
        self,
        op: CachedOp,
        program: Compiled,
        ctx: Context,
        types: Sequence[ArrayType],
        parameters: BoundParameters,
        form: Sequence[Any],
        dispatch_other: Call,
    ) -> None:
        super().__init__(form, dispatch_other, op.traced is not None)
        self.op, self.program, self.ctx, self.types, self.parameters = op, program, ctx, types, parameters
        self.heads = len(program.outputs) - len(program.writes)
        self.writes = list(enumerate(program.writes, self.heads))
        self.arguments = {k: s for k, s in enumerate(op.sources) if isinstance(s, int)}
        self.recorded: RecordedProgram | None = None
        self.device = program.program is not None and program.program.target == "cuda"
        self._tail: list[str] = []
        self.names |= {"assign": assign, "new": object.__new__, "parameters": parameters}
        self.names |= {f"p{k}": p._data for k, p in parameters.params.items()}

    def record(self, program: RecordedProgram, version: int) -> bool:
        """Make it a recorded call, if gradients are wanted of what the program was made for."""
        count, parameters = len(self.op.sources), self.parameters
        if any(program.wanted[m.position] and m.position in self.arguments for m in program.forward_writes):
            return False  # whether the argument may be written is asked at every call
        infos: list[GradientInfo | None] = [None] * count
        for k, p in parameters.live.items():
            infos[k] = history(p)
            has_node = p._autograd is not None and p._autograd.node is not None
            if wants_gradient(infos[k]) is not program.wanted[k] or has_node:
                return False
        template = None
        backward = program.backward
        # else the backward pass takes copies, not what lies at the addresses of the inputs
        if not program.overwritten and not self.device and backward is not None and backward.program is not None:
            template = BackwardTemplate(program, self.ctx, parameters.params, list(self.arguments), version)
        self.names |= {
            "infos": infos,
            "data": [parameters.params[k]._data if k in parameters.params else None for k in range(count)],
            "template": template,
            "reader": Reader(p._data for p in parameters.params.values()),
        }
        self.recorded = program
        self.heads = program.heads
        self.writes = [
            (self.heads + len(program.backward_writes) + k, m.position) for k, m in enumerate(program.forward_writes)
        ]
        return True

    # -- the guard

    def guard(self, key: CallKey, training: bool, version: int) -> None:
        """Lines that leave all calls to others but those that are as the one that was prepared."""
        op, live, recorded = self.op, self.parameters.live, self.recorded
        self.names |= {"array": key.array, "state": state, "training": training, "history": history}
        self.names |= {"binding_version": binding_version, "version": version}
        self.names |= {f"t{k}": t for k, t in enumerate(self.types)}
        arrays = [f"x{k}.__class__ is array and x{k}._type is t{k}" for k in range(len(self.types))]
        flags = ["binding_version[0] == version", "state.training is training"]
        flags.append("state.recording" if key.recording else "not state.recording")
        if op.traced is not None or op.reads_np_shape:
            self.names |= {"np_flags": np_flags, "np_everywhere": np_everywhere, "np_shape": key.semantics[0]}
            flags.append("(np_flags.shape or np_everywhere[0]) is np_shape")
        if op.traced is not None:  # Python code may have looked at them
            self.names["np_array"] = key.semantics[1]
            flags.append("np_flags.array is np_array")
            if op.traced.asks_context:
                self.names |= {"current_context": current_context, "context": key.context}
                flags.append("current_context() == context")
        self.unpack(arrays, flags)
        if recorded is not None:  # what arrays know of gradients is as it was, and stands in ``inputs``
            self._histories(recorded.wanted)
        elif key.recording:  # nothing of the recorded graph goes into it
            for k in range(len(self.types)):
                self.refuse_if(f"x{k}._autograd is not None and history(x{k}) is not None")
            for k, p in live.items():
                self.names[f"f{k}"] = p
                self.refuse_if(f"f{k}._autograd is not None")
        written = [k for _, k in self.writes]
        if recorded is not None:
            written += [m.position for m in recorded.backward_writes]
        shares_memory = overlap_test(op, self.types, written, self.parameters.params)
        if shares_memory is not None:
            self.names["shares_memory"] = shares_memory
            self.refuse_if(f"shares_memory({listed(f'x{k}' for k in range(len(self.types)))})")
        if self.device:
            moving = self._moving()
            self.lines += [f"a{s} = x{s}._address or x{s}.address" for s in dict.fromkeys(moving)]
            if moving:
                self.refuse_if(f"({' | '.join(f'a{s}' for s in moving)}) & {ALIGNED}")

    def _histories(self, wanted: Sequence[bool]) -> None:
        live = self.parameters.live
        for k, p in live.items():
            self.names |= {f"f{k}": p, f"g{k}": p._autograd}
        if live:
            self.refuse_unless(*(f"f{k}._autograd is g{k}" for k in live))
        self.lines += ["inputs = infos.copy()", "arrays = data.copy()"]
        for k, s in self.arguments.items():
            self.lines += [f"arrays[{k}] = x{s}._data", f"i = x{s}._autograd"]
            self.lines += ["if i is not None:", f"    i = inputs[{k}] = history(x{s})"]
            condition = "i is not None and (i.node is not None or i.grad_req != 'null')"
            self.refuse_if(f"not ({condition})" if wanted[k] else condition)

    # -- memory and launch

    def launch_on_host(self) -> None:
        """Lines that run the program. Everything that the caller does not see lies in one scratch, so that it costs one look
        at what is free."""
        program, reuse = self.program, self._reuses()
        bound = program.loaded.bind(self.parameters.addresses)
        hidden = range(self.heads, len(program.outputs))
        scratch = [*(f"d{k}" for k in hidden), *(f"at{k}" for k in hidden)]
        if program.draws:
            self.names["draw"] = drawing(self.ctx)
            scratch += ["words", "seed", "seed_at"]
        if scratch:
            self.names["take_scratch"] = ScratchPool(program.outputs[self.heads :], program.draws, reuse).take
            self.lines.append(f"{', '.join(scratch)}, = scratch = take_scratch()")
        if program.draws:
            self.lines.append("words[:] = draw()")
        for k, t in enumerate(program.outputs[: self.heads]):
            if self.recorded is None:
                self.names[f"take{k}"] = OutputPool(t, self.ctx, self.op.kind).take
                self.lines.append(f"y{k} = take{k}()")
            else:
                self._take_storage(k, StoragePool(t, reuse))
        results = range(len(program.outputs))
        if bound.whole:
            self.names |= bound.names
            addresses = [f"x{s}._address or x{s}.address" for s in self.arguments.values()]
            addresses += ["seed_at"] if program.draws else []
            self.lines += bound.lines(", ".join([*addresses, *map(self._address, results)]))
        else:
            self.names["run"] = bound
            self.lines.append(f"run({self._inputs()}, {listed(map(self._data, results))})")

    def _take_storage(self, k: int, pool: StoragePool) -> None:
        """Lines that take the data of result k: most often what the last call had is free, which is seen without a call."""
        self.names[f"take{k}"] = pool.take
        if not pool.reuse:
            self.lines.append(f"d{k}, _, at{k} = take{k}()")
            return
        self.names |= {f"last{k}": pool.entry(), "count": getrefcount, "one": REFS_ONE, "two": REFS_TWO}
        self.lines.append(f"d{k}, m, at{k} = last{k}")
        self.lines.append(f"if count(d{k}) != one or count(m) != two: d{k}, m, at{k} = take{k}()")

    def launch_on_device(self) -> None:
        """Lines that start the program on the current stream, and write states; a stream that the user captures is left to
        others."""
        program, ctx, kind = self.program, self.ctx, self.op.kind
        loaded, device = program.loaded, program.device
        bound = loaded.bind(tuple(self.parameters.addresses))
        reuse = self._reuses()

        def allocators() -> list[Any]:
            return [result_allocator(t, ctx, device, False, reuse, kind) for t in program.outputs]

        streams = StreamStates(program, bound, allocators)
        self.names |= {"streams": streams, "add_stream": streams.add, "stream": loaded.driver.stream}
        self.names |= {"needs_switch": device.needs_switch, "device": device.current, "CapturedError": CapturedError}
        guards, self.lines = self.lines, []
        results = range(len(program.outputs))
        takes = "".join(f"take{k}, " for k in results)
        self.lines.append(f"run, ({takes}) = streams.known.get(stream().ptr) or add_stream()")
        if program.draws:
            self.names |= {"next_rng_state": program.next_rng_state, "ctx": ctx, "address": device.address}
            self.lines.append("seed = next_rng_state(ctx)")
        self.lines += [f"{self._array(k)} = take{k}()" for k in results]
        addresses = [f"a{s}" for s in self._moving()]
        if len(self.op.sources) in loaded.layout.moving:
            addresses.append("address(seed)")
        addresses += map(self._address, results)
        arrays = f", {self._inputs()}, {listed(map(self._data, results))}" if loaded.layout.libraries else ""
        self.lines.append(f"run(({''.join(f'{a}, ' for a in addresses)}){arrays})")
        self.write_states()
        launch, self.lines = self.lines, guards
        self.lines += ["try:", "    if needs_switch():", "        with device():", *indented(launch, 3)]
        self.lines += ["    else:", *indented(launch, 2), "except CapturedError:", "    pass", "else:"]
        self._tail = [self.refusal]

    def _moving(self) -> list[int]:
        """The arguments whose addresses a program on a GPU takes, in order."""
        sources = self.op.sources
        return [sources[k] for k in self.program.loaded.layout.moving if k < len(sources)]

    def _inputs(self) -> str:
        """The expression of all arrays that the program takes, for libraries."""
        of_sources = [f"x{s}._data" if isinstance(s, int) else f"p{k}" for k, s in enumerate(self.op.sources)]
        return listed([*of_sources, *(["seed"] if self.program.draws else []), "*parameters.folded"])

    def _reuses(self) -> bool:
        return self.recorded is None or sum(t.nbytes for t in self.program.outputs) <= REUSED_BYTES

    def _array(self, k: int) -> str:
        """The name of the array of result k, where it comes as one."""
        return f"y{k}" if k < self.heads and self.recorded is None else f"s{k}"

    def _data(self, k: int) -> str:
        """The expression of the memory of result k."""
        return f"{self._array(k)}._data" if self._is_array(k) else f"d{k}"

    def _address(self, k: int) -> str:
        return f"{self._array(k)}._address" if self._is_array(k) else f"at{k}"

    def _is_array(self, k: int) -> bool:
        return self.device or (k < self.heads and self.recorded is None)

    # -- what follows

    def write_states(self) -> None:
        """Lines that give inputs their new values."""
        overwritten = self.recorded.overwritten if self.recorded else ()
        if overwritten:
            self.lines.append("old = arrays.copy()")
            self.lines += [f"old[{k}] = arrays[{k}].copy()" for k in overwritten]
        for result, k in self.writes:
            source = self.op.sources[k]
            target = f"x{source}._data" if isinstance(source, int) else f"p{k}"
            self.lines.append(f"assign({target}, {self._data(result)})")

    def node(self) -> None:
        """Lines that make the node of a recorded call, and its results, which are arrays of their own: one that waits in a
        pool would hold the recorded graph."""
        program, forward = self.recorded, self.program
        assert program is not None
        types = [array_type(t.shape, t.dtype.np, self.ctx) for t in forward.outputs[: self.heads]]
        self.names |= {
            "RecordedCall": RecordedCall,
            "ResultInfo": ResultInfo,
            "program": program,
            "types": types,
            "made": self.op.kind or NDArray,
            "ctx": self.ctx,
        }
        has_scratch = not self.device and (len(forward.outputs) > self.heads or forward.draws)
        late = [(m.position, self._data(self.heads + k), m.keep) for k, m in enumerate(program.backward_writes)]
        values = {
            "inputs": "inputs",
            "types": "types",
            "released": "False",
            "arrays": "old" if program.overwritten else "arrays",
            "ctx": "ctx",
            "seed": "seed" if forward.draws else "None",
            "writes": listed(f"(arrays[{k}], {value}, {keep!r})" for k, value, keep in late),
            "program": "program",
            "residuals": listed(map(self._data, program.residuals)),
            "template": "template",
            "addresses": listed(f"x{s}._address or x{s}.address" for s in self.arguments.values()),
            "residual_addresses": listed(map(self._address, program.residuals)),
            "scratch": "scratch" if has_scratch else "None",
            "mark": "reader.mark",
        }
        lines = ["node = new(RecordedCall)", *(f"node.{name} = {value}" for name, value in values.items())]
        for k, t in enumerate(types):
            self.names[f"r{k}"] = t
            lines += [f"y{k} = new(made)", f"y{k}._data = {self._data(k)}", f"y{k}._type = r{k}"]
            lines += [f"y{k}._address = {self._address(k)}", f"y{k}._autograd = i = new(ResultInfo)"]
            lines += ["i.node = node", f"i.index = {k}", "i.fresh = False"]
        self._add(lines)

    def finish(self, name: str, results: Any) -> Call:
        """The function, whose results are put together as the format says."""
        self._add([f"return {self.pack(results)}"])
        self.lines += self._tail
        return self.define(name)

    def _add(self, lines: list[str]) -> None:
        """Add lines that follow the launch."""
        self.lines += indented(lines) if self._tail else lines

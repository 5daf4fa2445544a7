# SPDX-License-Identifier: Apache-2.0
"""Executor: a Symbol bound to arrays, its forward and backward passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.devices import HostDevice, device_of
from ..backends.write_tracking import assign
from ..base import MXNetError
from ..compiler.interpreter_cost import interpreted_seconds
from ..compiler.ir.types import TensorType
from ..context import Context
from ..core import autograd_state
from ..core.autograd_state import GradientInfo
from ..core.dtypes import DType, f32
from ..core.rng import position, set_position
from ..core.settings import numeric_mode, tf32
from ..ndarray.backward_pass import backward
from ..ndarray.device_scope import zeros_on
from ..ndarray.ndarray import NDArray, allocate, wrap
from ..runtime.cached_op import CachedOp
from ..runtime.compilation import Compiled, compiled
from ..runtime.graph_breaks import is_graph_break
from ..runtime.interpreter import NodeInterpreter
from ..runtime.recorded_program import RecordedCall, RecordedProgram, recorded_program
from ..symbol.ctx_groups import head_contexts
from ..symbol.inference import Inference
from ..symbol.lowering import lower_symbol, structure
from ..symbol.node import SymbolNode, topological
from ..symbol.symbol import Symbol
from ..util import is_np_shape

__all__ = ["Executor"]

#: calls of an executor that are interpreted before its graph is compiled, at most: compiling costs as much as some tens of them
_COMPILE_AFTER = 32
#: estimated seconds of those calls, but one call at least: a network of which this is few calls takes 2 to 6 s to compile, and
#: NumPy some times longer than the estimate
_INTERPRETED_SECONDS = 1.0
_RECORDED = 3  #: times what its forward pass costs: a call with its backward pass, which computes two products for each
_PLAN_AFTER = 4  #: the same of one made from another that is compiled, whose kernels it has: no compiler runs


class Executor:
    """A Symbol with arrays for its variables; make it with ``Symbol.bind`` or ``simple_bind``.

    Its first calls are interpreted operator by operator, the fewer the more its graph computes; an executor that goes on is
    compiled.

    With groups (``group2ctx``) arrays, gradients and outputs lie on the devices of their groups; the graph runs on
    ``ctx``, where arguments are copied for each call, and from where gradients, states and outputs are copied back.

    Attributes:
        arg_arrays, grad_arrays, aux_arrays: in the order of ``list_arguments`` and ``list_auxiliary_states``;
            a gradient is None where none is wanted.
        outputs: the results of the last ``forward``.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context,
        arg_arrays: Sequence[NDArray],
        grad_arrays: Sequence[NDArray | None],
        requests: Mapping[str, str],
        aux_arrays: Sequence[NDArray],
        wants_gradients: bool,
        groups: Mapping[str, Context] | None = None,
        relative: Executor | None = None,
    ) -> None:
        self._symbol, self._ctx, self._groups = symbol, ctx, dict(groups or {})
        self.arg_arrays, self.aux_arrays = list(arg_arrays), list(aux_arrays)
        self._gradients, self._requests = list(grad_arrays), dict(requests)
        self._wants_gradients = wants_gradients
        self._arguments, self._states = symbol.list_arguments(), symbol.list_auxiliary_states()
        for kind, names in (("arguments", self._arguments), ("auxiliary states", self._states)):
            twice = [n for n in dict.fromkeys(names) if names.count(n) > 1]
            if twice:
                raise ValueError(f"Duplicate names detected, {names} ({twice[0]!r} is twice among the {kind})")
        self._places = self._outputs_places()
        #: pairs of a copy where the graph runs and the array it is of: states and gradients of the last call
        self._moved_states: list[tuple[NDArray, NDArray]] = []
        self._moved_gradients: list[tuple[NDArray, NDArray, str]] = []
        self._sent: list[NDArray] | None = None
        self._structure, self._numeric = structure(symbol), numeric_mode()
        self._results: list[NDArray] | None = None
        self._monitor: tuple[Callable[..., None], bool] | None = None
        self._watched: Callable[[], bool] = lambda: False
        self._steps: NodeInterpreter | None = None
        self._programs: dict[Any, Compiled | RecordedProgram] = {}
        self._interpreted_calls: dict[Any, int] = {}
        #: by structure, of all executors that were made from one another: what differs from the first types is symbolic
        self._first_types: dict[str, list[TensorType]] = relative._first_types if relative is not None else {}
        # operators that end programs run between compiled ones
        self._stages: CachedOp | None = None
        if relative is not None and relative._symbol is symbol:
            self._stages = relative._stages
        elif any(map(is_graph_break, topological(symbol._heads))):
            self._stages = CachedOp(symbol, symbol.list_inputs(), {}, self._name(), numeric=self._numeric)
        self._calls = self._position = 0
        self._needs_heads = True

    # -- arrays by name

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """Arguments by name."""
        return dict(zip(self._arguments, self.arg_arrays, strict=True))

    @property
    def grad_arrays(self) -> list[NDArray | None] | None:
        """Gradients of the arguments, None if the executor was bound without any."""
        return self._gradients if self._wants_gradients else None

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Gradients by the names of the arguments."""
        return dict(zip(self._arguments, self._gradients, strict=True))

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """Auxiliary states by name."""
        return dict(zip(self._states, self.aux_arrays, strict=True))

    @property
    def outputs(self) -> list[NDArray]:
        """The results of the last ``forward``; uninitialised before it."""
        own = self._own_outputs()
        if all(p == self._ctx for p in self._places):
            return own
        if self._sent is None:
            self._sent = [x.detach().as_in_context(p) for x, p in zip(own, self._places, strict=True)]
        return self._sent

    def _own_outputs(self) -> list[NDArray]:
        """The results where the graph runs."""
        if self._results is None:
            self._results = [allocate(shape, self._ctx, dtype.np) for shape, dtype in self._types()]
        return self._results

    def _outputs_places(self) -> list[Context]:
        arrays = {**self.arg_dict, **self.aux_dict}
        return head_contexts(self._symbol, self._ctx, self._groups, {n: x.context for n, x in arrays.items()})

    def get_optimized_symbol(self) -> Symbol:
        """The graph as it runs; what fusion makes of it is no Symbol, see ``explain``."""
        return self._symbol

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The results by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs, strict=True))

    def _types(self) -> list[tuple[tuple[int, ...], DType]]:
        """Shapes and element types of the outputs; no elements where the shape depends on values."""
        arrays = dict(zip(self._symbol.list_inputs(), self._ordered(), strict=True))
        shapes = {n: x.shape for n, x in arrays.items()}
        inference = Inference(self._symbol, shapes, {n: x._type.dtype for n, x in arrays.items()})
        inference.run()
        keys = [(id(n), k) for n, k in self._symbol._heads]
        return [(inference.shapes.get(key, (0,)), inference.dtypes.get(key, f32)) for key in keys]

    def _ordered(self) -> list[NDArray]:
        arrays = {**self.arg_dict, **self.aux_dict}
        return [arrays[n] for n in self._symbol.list_inputs()]

    # -- running

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Run the graph.

        Args:
            is_train: training behaviour, and gradients may be asked for afterwards.
            kwargs: new values of arguments, by name.

        Returns:
            The outputs.

        Raises:
            TypeError: an unknown argument.
            ValueError: an array of another shape.
        """
        arguments = self.arg_dict
        for name, value in kwargs.items():
            if not isinstance(value, (NDArray, np.ndarray)):
                raise ValueError("only accept keyword argument of NDArrays and numpy.ndarray")
            if name not in arguments:
                raise TypeError(f"Unknown argument {name}")
            if arguments[name].shape != value.shape:
                raise ValueError(
                    f"Shape not match! Argument {name}, need: {arguments[name].shape}, received: {value.shape}"
                )
            arguments[name][:] = value
        self._steps = None
        if self._watched():
            self._show([x.detach().as_in_context(self._ctx) for x in self._ordered()], is_train)
        self._calls += 1
        self._position = position(self._ctx)
        results = self._evaluate(is_train, is_train)
        self._move_back(self._moved_states)
        if self._stages is not None:  # shapes may depend on values
            self._results, self._sent = results, None
            return self.outputs
        # the memory of the outputs stays; what is seen through them is always the last call
        for own, r in zip(self._own_outputs(), results, strict=True):
            with device_of(r.context).current():
                assign(own._data, r._data)
            r._data, r._address = own._data, None
        self._results = results
        for r, sent in zip(results, self._sent or (), strict=False):
            if sent.context != self._ctx:
                r.detach().copyto(sent)
        return self.outputs

    @staticmethod
    def _move_back(pairs: Sequence[tuple[NDArray, NDArray]]) -> None:
        for copy, array in pairs:
            copy.copyto(array)

    def _here(self, record: bool) -> list[NDArray]:
        """The arrays of all variables where the graph runs, those to be recorded with their gradients."""
        # arrays of the caller's may have a history of their own: ours are views without one
        names, arrays = self._symbol.list_inputs(), self._ordered()
        inputs = [x.detach().as_in_context(self._ctx) for x in arrays]
        states = set(self._states)
        self._moved_states = [
            (x, a) for n, x, a in zip(names, inputs, arrays, strict=True) if n in states and a.context != self._ctx
        ]
        self._moved_gradients = []
        gradients = self.grad_dict
        if record:
            for x, n in zip(inputs, names, strict=True):
                request, g = self._requests.get(n, "null"), gradients.get(n)
                if request == "null" or g is None:
                    continue
                near = g
                if g.context != self._ctx:
                    near = g.detach().copyto(self._ctx)
                    self._moved_gradients.append((near, g, request))
                x._autograd = GradientInfo(near, request)
        return inputs

    def _evaluate(self, is_train: bool, record: bool) -> list[NDArray]:
        old = autograd_state.state.recording, autograd_state.state.training
        autograd_state.state.recording, autograd_state.state.training = record, is_train
        try:
            inputs = self._here(record)
            if self._stages is not None:
                self._needs_heads = False  # what the last stage needs shows when it runs
                return self._stages(inputs, self._ctx)
            needs_grad = tuple(x._autograd is not None for x in inputs)
            return self._run(inputs, is_train, needs_grad)
        finally:
            autograd_state.state.recording, autograd_state.state.training = old

    def _run(self, inputs: list[NDArray], is_train: bool, needs_grad: tuple[bool, ...]) -> list[NDArray]:
        """By the compiled program, or operator by operator: an executor that runs a few times only is not worth a compilation."""
        types = [x._type.tensor for x in inputs]
        count = self._calls_to_interpret(types, is_train, any(needs_grad))
        compiled_at = count + 1 if self._calls <= count else None
        if any(needs_grad):
            program = self._trained(types, is_train, needs_grad, compiled_at)
            first = len(types) + len(program.residuals)
            self._needs_heads = any(k >= first for k in program.input_map)
            return program.call(inputs, self._ctx)
        executable = self._compiled(types, is_train, compiled_at)
        return executable.run(inputs, self._ctx)

    def _calls_to_interpret(self, types: list[TensorType], is_train: bool, recorded: bool) -> int:
        """The number of calls that are interpreted, by the graph alone: results of the two differ in their last bits."""
        # (relatives are compiled: its kernels are there)
        known = self._structure.hash in self._first_types
        most = min(_PLAN_AFTER, _COMPILE_AFTER) if known else _COMPILE_AFTER
        if most <= 1 or self._calls > most:
            return most
        key = (tuple(types), is_train, recorded, is_np_shape())
        count = self._interpreted_calls.get(key)
        if count is None:
            graph = lower_symbol(self._symbol, dict(zip(self._symbol.list_inputs(), types, strict=True)), is_train)
            host = isinstance(device_of(self._ctx), HostDevice)
            seconds = interpreted_seconds(graph, "cpu" if host else "cuda") * (_RECORDED if recorded else 1)
            count = self._interpreted_calls[key] = max(1, int(_INTERPRETED_SECONDS / max(seconds, 1e-9)))
        return min(most, count)

    def _compiled(self, types: list[TensorType], is_train: bool, compiled_at: int | None = None) -> Compiled:
        """The program; operators one by one if it is compiled at a later call."""
        interpreted = compiled_at is not None
        key = (tuple(types), is_train, is_np_shape(), interpreted, tf32())
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = compiled(
                self._symbol,
                types,
                is_train,
                self._ctx,
                name=self._name(),
                structure=self._structure,
                numeric=self._numeric,
                interpreted=interpreted,
                first=self._first_signature(types, interpreted),
                compiled_at=compiled_at,
            )
        assert isinstance(program, Compiled)
        return program

    def _trained(
        self, types: list[TensorType], is_train: bool, needs_grad: tuple[bool, ...], compiled_at: int | None = None
    ) -> RecordedProgram:
        interpreted = compiled_at is not None
        key = (tuple(types), is_train, is_np_shape(), needs_grad, interpreted, tf32())
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = recorded_program(
                self._symbol,
                types,
                is_train,
                needs_grad,
                self._ctx,
                frozenset(),
                self._name(),
                "executor",
                self._structure,
                self._numeric,
                interpreted,
                first=self._first_signature(types, interpreted),
                compiled_at=compiled_at,
            )
        assert isinstance(program, RecordedProgram)
        return program

    def _first_signature(self, types: list[TensorType], interpreted: bool) -> list[TensorType]:
        """The types that were compiled first for a graph of this structure; an interpreted call decides nothing."""
        return types if interpreted else self._first_types.setdefault(self._structure.hash, types)

    def _name(self) -> str:
        return self._symbol.name or "group"

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Write the gradients of the last ``forward(is_train=True)``.

        Args:
            out_grads: gradients of the outputs: an array, a list, or a dict by output name. Only graphs
                that end in losses go without.

        Raises:
            MXNetError: gradients are missing.
        """
        results = self._results
        if results is None:  # without a forward pass before: the values it would have found
            results = self._evaluate(is_train, True)
        elif all(r._autograd is None for r in results):  # after forward(is_train=False): once more, recorded
            now = set_position(self._ctx, self._position)  # with the same random numbers
            try:
                results = self._evaluate(False, True)
            finally:
                set_position(self._ctx, max(now, position(self._ctx)))
            if all(r._autograd is None for r in results):
                return  # no gradient is wanted
        if out_grads is None:
            if self._needs_heads:
                raise MXNetError(
                    "Check failed: i < head_grads.size() && !head_grads[i].is_none(): Because the last operator is not Loss "
                    "function, head_gradient is required when calling backward. If you are attempting to minimize the output "
                    "as an objective, please modify your network and pass it through the make_loss symbol."
                )
            grads: list[Any] = [None] * len(results)
        elif isinstance(out_grads, NDArray):
            grads = [out_grads]
        elif isinstance(out_grads, dict):
            grads = [out_grads[n] for n in self._symbol.list_outputs()]
        else:
            grads = list(out_grads)
        for g in grads:
            if g is not None and not isinstance(g, NDArray):
                raise TypeError("inputs must be NDArray")
        if not self._needs_heads and self._stages is None:
            grads = [None] * len(results)  # the derivative reads none: of no matter what shape they are
        pairs = [  # each gradient goes into a buffer of its output's kind
            (r, g if g is None else g.as_in_context(r.context).astype(r.dtype, copy=False))
            for r, g in zip(results, grads, strict=False)
        ]
        if self._steps is not None:
            self._show_gradients([g for _, g in pairs])
        for near, g, request in self._moved_gradients:
            if request == "add":  # the caller may have changed it since
                g.copyto(near)
        backward([r for r, _ in pairs], [g for _, g in pairs], None, True, False, is_train)
        for r in results:  # the graph stays, for another pass; but no copies of weights that are updated now
            node = r._autograd.node if r._autograd is not None else None
            if isinstance(node, RecordedCall):
                node.mark.close()
        self._move_back([(near, g) for near, g, _ in self._moved_gradients])
        self._move_back(self._moved_states)

    # -- parameters

    def copy_params_from(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy values into arguments and auxiliary states.

        Raises:
            ValueError: an unknown name, unless ``allow_extra_params``.
        """
        for params, own, what in (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        ):
            for name, array in params.items():
                if name in own:
                    array.astype(own[name].dtype).copyto(own[name])
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {what}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """An executor for other input shapes that shares the arrays whose shapes stay.

        Args:
            partial_shaping: arguments that are not named may change their shapes too.
            allow_up_sizing: arrays may grow.

        Raises:
            MXNetError: shapes that do not fit, change unnamed, or grow without leave.
        """
        shapes, _, aux_shapes = self._symbol.infer_shape(**kwargs)
        if shapes is None:
            raise ValueError("Insufficient argument shapes provided.")

        def renew(name: str, array: NDArray | None, shape: tuple[int, ...], what: str) -> NDArray | None:
            if array is None or array.shape == shape:
                return array
            if not (partial_shaping or name in kwargs):
                raise MXNetError(
                    f"Shape of unspecifie {what}: {name} changed. This can cause the new executor to not share "
                    "parameters with the old one. Please check for error in network.If this is intended, set "
                    "partial_shaping=True to suppress this warning."
                )
            size = prod(shape)
            if size > array.size:
                if not allow_up_sizing:
                    raise MXNetError(
                        f"Check failed: allow_up_sizing: New shape of {what}: {name} is larger than original."
                        "First making a big executor and then down sizing it is more efficient than the reverse."
                        "If you really want to up size, set allow_up_sizing=True to enable allocation of new arrays."
                    )
                return wrap_like(array, shape)
            return array._sharing(lambda data: data.reshape(-1)[:size].reshape(shape))

        arguments = [renew(n, a, s, "arg") for n, a, s in zip(self._arguments, self.arg_arrays, shapes, strict=True)]
        gradients = [renew(n, g, s, "grad") for n, g, s in zip(self._arguments, self._gradients, shapes, strict=True)]
        states = [renew(n, a, s, "aux") for n, a, s in zip(self._states, self.aux_arrays, aux_shapes, strict=True)]
        executor = Executor(
            self._symbol,
            self._ctx,
            arguments,  # type: ignore[arg-type]
            gradients,
            self._requests,
            states,  # type: ignore[arg-type]
            self._wants_gradients,
            self._groups,
            self,
        )
        executor._share(self._own_outputs())
        executor._monitor, executor._watched = self._monitor, self._watched
        return executor

    def _share(self, old: Sequence[NDArray]) -> None:
        """Put the outputs into the memory of another executor's where they fit."""
        self._results = [
            wrap(b._data.reshape(-1)[: a.size].reshape(a.shape), self._ctx)
            if b.size >= a.size and a.dtype == b.dtype
            else a
            for a, b in zip(self._own_outputs(), old, strict=True)
        ]

    # -- looking inside

    def set_monitor_callback(
        self, callback: Callable[..., None], monitor_all: bool = False, active: Callable[[], bool] = lambda: True
    ) -> None:
        """Call ``callback(name, array)`` for every result inside the graph; with ``monitor_all`` also for every input.

        ``backward`` shows the gradients that each operator gives to its inputs, as ``<name>_backward_output<number>``.
        As in MXNet the name is bytes: ``mx.base.py_str`` makes text of it.

        Args:
            active: whether there is anything to show now; the graph is run operator by operator for it.
        """
        self._monitor, self._watched = (callback, monitor_all), active

    def _show(self, inputs: Sequence[NDArray], is_train: bool) -> None:
        assert self._monitor is not None
        callback, everything = self._monitor
        seen: list[tuple[str, tuple[SymbolNode, int]]] = []
        for node in topological(self._symbol._heads):
            if node.op is None:
                continue
            names = node.op.monitored_names(node.values, len(node.inputs)) if everything else []
            for name, (source, k) in zip(names, node.inputs, strict=False):
                if source.op is None:
                    seen.append((source.name, (source, k)))
                seen.append((f"{node.name}_{name}", (source, k)))
            seen += [(node.output_name(k), (node, k)) for k in range(node.num_outputs)]  # hidden ones too
        steps = NodeInterpreter(self._symbol, inputs, is_train, self._ctx)
        for name, (node, k) in seen:
            value = steps.values.get((node, k))
            # hidden results of what ends programs are not there, and scratch memory of MXNet's is empty here
            if value is not None and (k < node.num_visible or value.size):
                callback(name.encode(), value)
        self._steps = steps if is_train else None

    def _show_gradients(self, head_grads: Sequence[NDArray | None]) -> None:
        assert self._monitor is not None and self._steps is not None
        names = {n for n, g in self.grad_dict.items() if g is not None and self._requests.get(n, "null") != "null"}
        for node, gradients in self._steps.backward(head_grads, names):
            for k, g in enumerate(gradients):
                number = k if len(gradients) > 1 else ""
                self._monitor[0](f"{node.name}_backward_output{number}".encode(), g)
        self._steps = None

    def debug_str(self) -> str:
        """The graph as text, and the memory that its programs take for what is between inputs and results.

        They are compiled for it. Without a compiler, and for graphs whose shapes depend on values, nothing is planned
        and nothing is said of memory.
        """
        text, nbytes = self._symbol.debug_str(), self._intermediate_bytes()
        if nbytes is None:
            return text
        # programs look for the sum in the line before the last, which counts what operators ask for besides: none here
        return f"{text}Total {nbytes >> 20} MB allocated\nTotal 0 TempSpace resource requested\n"

    def _intermediate_bytes(self) -> int | None:
        """Bytes of intermediate results, those that are kept for the backward pass included; None if unknown."""
        if self._stages is not None:
            return None
        inputs, gradients = self._ordered(), self.grad_dict
        types = [x._type.tensor for x in inputs]
        needs_grad = tuple(gradients.get(n) is not None for n in self._symbol.list_inputs())
        if not any(needs_grad):
            executable = self._compiled(types, False)
            return executable.program.arena_bytes if executable.program else None
        programs = self._trained(types, True, needs_grad)
        forward, backward = programs.forward.program, programs.backward and programs.backward.program
        if forward is None:
            return None
        visible = programs.heads + len(programs.backward_writes) + len(programs.forward_writes)
        residual_bytes = sum(t.nbytes for t in programs.forward.outputs[visible:])
        return residual_bytes + forward.arena_bytes + (backward.arena_bytes if backward else 0)


def wrap_like(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """A new zero array of another shape with the type and device of ``array``."""
    return zeros_on(array.context, shape, array._data.dtype)

# SPDX-License-Identifier: Apache-2.0
"""Trace: the Symbol graph that operators make while a function runs on arrays without values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .. import name as names
from ..attribute import AttrScope
from ..backends.devices import device_of
from ..base import MXNetError
from ..compiler.ir.graph import Provenance
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from ..context import Context, cpu
from ..core import autograd_state
from ..core.dtypes import DType
from ..core.source_location import current_block, user_line
from ..ndarray.apply import first_target, like, numpy_class, operator_graph
from ..ndarray.ndarray import NDArray, wrap
from ..ndarray.types import array_type
from ..ops.functions import spelled_hint
from ..ops.params import Values
from ..ops.record import Operator, shape_text
from ..symbol import Group, Symbol
from ..symbol.node import Entry, SymbolNode, topological
from ..symbol.node_factory import make_node, var
from ..symbol.subgraph import lower_node
from ..util import is_np_array
from .arrays import GRADIENTS, Traced, Value, check_memory, node, traced_class
from .error import TracingError, needs_values, not_traced
from .unknown import Open, unknown_class

__all__ = ["Captured", "Trace", "TracedGraph", "tracing"]


_MISSING: Any = object()


class Captured:
    """An array that a traced function met: an input of its graph that is this array at every call.

    Attributes:
        name: of its variable.
        array: the array itself, so that writing into it later shows.
        place: the user's line.
    """

    def __init__(self, name: str, array: NDArray, place: str) -> None:
        self.name, self.array, self.place = name, array, place

    def data(self, ctx: Context | None = None) -> NDArray:
        """The array."""
        return self.array

    def _reduce(self) -> NDArray:
        """A copy on the host, for files."""
        return self.array.copyto(cpu())

    def __str__(self) -> str:
        t = self.array._type.tensor
        return f"{self.name} {t.dtype.name}{shape_text(t.shape)}" + (f", met at {self.place}" if self.place else "")


class TracedGraph(NamedTuple):
    """The result of a trace.

    Attributes:
        inputs: variables of the arguments, in order.
        symbol: the results, of which the first also makes the writes.
        sources: parameters and arrays that were met, by the name of their variable.
        types: of their arrays when they were met.
        asks_context: whether Python code has asked for the current context.
    """

    inputs: list[Symbol]
    symbol: Symbol
    sources: dict[str, Any]
    types: dict[str, Any]
    asks_context: bool = False

    @property
    def captured(self) -> list[Captured]:
        """The arrays that were met."""
        return [s for s in self.sources.values() if isinstance(s, Captured)]

    def fits(self, ctx: Context) -> bool:
        """Whether what was met has the types that it had."""
        for name, source in self.sources.items():
            try:
                if source.data(ctx)._type.plain is not self.types[name]:
                    return False
            except RuntimeError:  # it is no longer there
                return False
        return True


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """While entered, operators of this thread make nodes of ``trace``."""
    state = autograd_state.state
    autograd_state.traces.append(trace)
    before, state.trace = state.trace, trace
    try:
        yield trace
    finally:
        state.trace = before
        autograd_state.traces.remove(trace)


class Trace:
    """A graph in the making.

    Args:
        ctx: the device of all its arrays.

    Attributes:
        levels: of the function and the bodies of loops and branches that are being traced, marks of their values.
        hint: (name of the function, name of the node) of the call that is about to be made.
        blocks: that were called, by identity.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.training, self.recording = autograd_state.state.training, autograd_state.state.recording
        self.levels: list[object] = [object()]
        self.hint: tuple[str, str | None] | None = None
        self.blocks: dict[int, Any] = {}
        self.inputs: list[Symbol] = []
        self.sources: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self._tensors: dict[tuple[int, int], TensorType | None] = {}  #: of the results of nodes
        self._nodes: list[Symbol] = []  # held, or another node could have the identity of one that is gone
        self._traced_by_id: dict[
            int, tuple[Any, Any]
        ] = {}  #: identity of a parameter or an array -> it, and what stands for it
        self._states: list[Value] = []  #: values that were there before, in order

    # -- arrays

    def value(self, symbol: Symbol) -> Value:
        """A value of its own."""
        return Value(self, symbol)

    def wrap(self, value: Value, shape: tuple[int, ...], dtype: DType, kind: type[NDArray] | None) -> Any:
        """An array of the graph.

        Args:
            kind: the class, None for NDArray.
        """
        cls: Any = traced_class(kind or NDArray)
        array = cls.__new__(cls)
        array._data, array._type = value, array_type(tuple(shape), dtype.np, self.ctx)
        array._address = array._autograd = None
        return array

    def argument(self, name: str, like: NDArray) -> Any:
        """The stand-in of an argument of the function."""
        variable = var(name)
        self.inputs.append(variable)
        return self._variable(variable, like)

    def _variable(self, variable: Symbol, array: NDArray) -> Any:
        t = array._type.tensor
        self._note(variable, [t])
        value = Value(self, variable)
        value.level, value.variable, value.array = self.levels[0], variable, array
        self._states.append(value)
        return self.wrap(value, t.shape, t.dtype, array._kind)

    def _note(self, symbol: Symbol, types: Sequence[TensorType | None]) -> None:
        self._nodes.append(symbol)
        for (symbol_node, k), t in zip(symbol._heads, types, strict=True):
            self._tensors[id(symbol_node), k] = t

    def lift(self, x: Any) -> Any:
        """``x`` as an array of the graph: one that has values is an input of it."""
        if isinstance(x, Traced):
            return x
        if not isinstance(x, NDArray):
            raise TypeError(f"an array is needed, not {type(x)}")
        cached = self._traced_by_id.get(id(x))
        if cached is not None:
            traced = cached[1]
            return traced if traced._kind is x._kind else traced._as(x._kind)
        ctx = x._type.ctx
        if ctx is not self.ctx and 2 in (ctx.device_typeid, self.ctx.device_typeid) and ctx != self.ctx:
            raise not_traced(
                f"an array from outside lies on {ctx}, and the arguments on {self.ctx}",
                f"Move it there first: as_in_context({self.ctx}).",
            )
        name = self._name("constant")
        captured = Captured(name, x, user_line())
        self.sources[name], self.types[name] = captured, x._type.plain
        traced = self._variable(_outside(name), x)
        self._traced_by_id[id(x)] = x, traced
        return traced

    def constant(self, values: np.ndarray) -> Symbol:
        """The symbol of values that are known."""
        array = self.host(values, NDArray)
        symbol: Symbol = self.lift(array)._data.symbol()
        return symbol

    def host(self, values: Any, kind: type[NDArray]) -> NDArray:
        """An array, with values, of what NumPy makes one of."""
        if isinstance(values, (list, tuple)) and any(isinstance(v, Traced) for v in values):
            raise not_traced(
                "a list of traced arrays is no array",
                "Join them first: nd.stack(*arrays), or np.stack(arrays).",
            )
        try:
            host = np.asarray(values)
            if host.dtype.kind not in "biuf":
                raise TypeError
        except (TypeError, ValueError):
            raise TypeError(
                f"{kind} does not support assignment with non-array-like object {values} of type {type(values)}"
            ) from None
        return wrap(device_of(self.ctx).from_host(host), self.ctx)

    def _name(self, hint: str) -> str:
        while True:
            name = names.current().get(None, hint)
            if name not in self.sources and all(i.name != name for i in self.inputs):
                return name

    # -- parameters

    def parameter(self, p: Any, ctx: Context | None = None) -> Any:
        """The stand-in of a parameter's array."""
        cached = self._traced_by_id.get(id(p))
        if cached is not None:
            return cached[1]
        if p._data is None and p._deferred_init:
            shape = p.shape
            if shape is None or not all(d > 0 for d in shape):
                return self._open(p)
            p._finish_deferred_init()
        array = p._hg_on(p._data, self.ctx if ctx is None else ctx)
        variable, name = _unmarked(p.var), p.name
        if name in self.sources or any(i.name == name for i in self.inputs):
            name = self._name(name)
            variable = _outside(name)
        self.sources[name], self.types[name] = p, array._type.plain
        traced = self._variable(variable, array)
        self._traced_by_id[id(p)] = p, traced
        self._traced_by_id[id(array)] = array, traced
        return traced

    def _open(self, p: Any) -> Any:
        """What stands for a parameter whose shape is not known until an operator takes it."""
        cls: Any = unknown_class(traced_class(numpy_class() if is_np_array() else NDArray))
        array = cls.__new__(cls)
        array._data, array._type, array._address, array._autograd = Open(self, p), None, None, None
        return array

    def _completed(self, op: Operator, inputs: Sequence[Any], values: Values) -> list[Any]:
        """The inputs, with parameters that wait for their shapes completed from the others."""
        shapes = [None if isinstance(x._data, Open) else x.shape for x in inputs]
        filled_shapes = op.fill_shapes(values, list(shapes))
        completed = []
        for x, shape in zip(inputs, filled_shapes, strict=True):
            if isinstance(x._data, Open):
                p = x._data.parameter
                if shape is None or not all(d > 0 for d in shape):
                    raise ValueError(
                        f"Deferred initialization failed because shape cannot be inferred. '{p.name}'\n"
                        f"It does not follow from the other operands of {op.name}: give its shape where it is made, "
                        "or define infer_shape(self, x) in the block, which sets it."
                    )
                p.shape = tuple(shape)
                x = self.parameter(p)
            completed.append(x)
        return completed

    # -- operators

    def apply(
        self,
        op: Operator,
        inputs: Sequence[Any],
        values: Values,
        out: Any = None,
        ctx: Context | None = None,
        kind: type[NDArray] | None = None,
    ) -> Any:
        """The node of an operator call: its result, a list where callers see several, or ``out``."""
        hint, self.hint = self.hint, None
        if ctx is not None and not inputs and ctx != self.ctx and 2 in (ctx.device_typeid, self.ctx.device_typeid):
            raise not_traced(
                f"a traced function is one graph on one device, {self.ctx}, and makes an array on {ctx}",
                "Make it where the arguments are: ctx=x.context.",
            )
        lifted = [self.lift(x) for x in inputs]
        if any(isinstance(x._data, Open) for x in lifted):
            lifted = self._completed(op, lifted, values)
        symbols = [x._data.symbol() for x in lifted]
        types = [self._tensor(x) for x in lifted]
        results = self._types_of_results(op, values, types)
        spelled, name = hint or (op.name, None)
        given = values.__dict__.get("given")
        attributes = dict(given) if given is not None else {k: v for k, v in values.as_dict().items() if v is not None}
        if kind is not None:  # as in the files of np's graphs
            attributes = {k: v for k, v in attributes.items() if not (k == "dtype" and v is None)}
            if not inputs and "ctx" in op.params:
                attributes["ctx"] = str(self.ctx)
        if first_target(out) is not None and not inputs:
            attributes, results = self._like(first_target(out), op, values, attributes)
        input_names = op.input_names(values, len(symbols))
        by_name = dict(zip(input_names, symbols, strict=True))
        operands = symbols if op.variadic else [by_name.get(n) for n in op.inputs]
        symbol = make_node(op, spelled_hint(spelled), operands, attributes, name, None)
        self._note(symbol, results)
        self._check_writes(op, values, symbol)
        parts = [Symbol([h]) for h in symbol._heads]
        if self.recording and not autograd_state.state.recording:  # under autograd.pause(): no gradient comes back
            parts = [self._stopped(s, t) for s, t in zip(parts, results, strict=True)]
        if out is not None:
            return self._write_out(op, parts, results, out, exact=bool(inputs))
        arrays = [self.result(s, t, kind) for s, t in zip(parts, results, strict=True)]
        return arrays[0] if len(arrays) == 1 else arrays

    def _tensor(self, x: Any) -> TensorType | None:
        return None if x._type is None else x._type.tensor

    def result(self, symbol: Symbol, t: TensorType | None, kind: type[NDArray] | None) -> Any:
        """The stand-in of a symbol's array; without a type its shape depends on values."""
        if t is not None:
            return self.wrap(Value(self, symbol), t.shape, t.dtype, kind)
        cls: Any = unknown_class(traced_class(kind or NDArray))
        array = cls.__new__(cls)
        array._data, array._type, array._address, array._autograd = Value(self, symbol), None, None, None
        return array

    def _stopped(self, symbol: Symbol, t: TensorType | None) -> Symbol:
        stopped = node("BlockGrad", [symbol])
        self._note(stopped, [t])
        return stopped

    def _types_of_results(
        self, op: Operator, values: Values, types: Sequence[TensorType | None]
    ) -> list[TensorType | None]:
        """Types of the visible results; None where extents depend on values."""
        count = op.num_visible(values)
        known_types = [t for t in types if t is not None]
        if len(known_types) == len(types) and op.infer_results is not None:
            result_types: list[TensorType | None] = [*op.infer_results(values, known_types)]
            return result_types[:count]
        if len(known_types) < len(types) or op.eager is not None or op.python is not None:
            return [None] * count
        training = autograd_state.state.training
        try:
            graph, draws = operator_graph(op, values, known_types, training)
        except MXNetError as e:
            _add_named(e, op, values, known_types)
            raise
        if training is not self.training and (draws or op.mutates):
            other, _ = operator_graph(op, values, known_types, self.training)
            if str(other) != str(graph):
                raise not_traced(
                    f"{op.name} would run {'in' if training else 'outside of'} training mode, the call of the whole function "
                    f"{'is not' if training else 'is'}",
                    "Leave autograd.train_mode() and predict_mode() out of the function, or use them around its call.",
                )
        return list(map(_type_of, graph.outputs[:count]))

    def _like(
        self, target: NDArray | None, op: Operator, values: Values, attributes: dict[str, Any]
    ) -> tuple[dict[str, Any], list[TensorType | None]]:
        """Attributes of an operator without inputs whose result goes into ``target``, and the types of its results."""
        assert target is not None
        new_values = like(target, values)
        changed = {k: v for k, v in new_values.as_dict().items() if v != values.as_dict().get(k)}
        attributes = {**attributes, **changed}
        return attributes, self._types_of_results(op, op.parse(attributes), [])

    def _write_out(
        self, op: Operator, parts: Sequence[Symbol], types: Sequence[TensorType | None], out: Any, exact: bool
    ) -> Any:
        """Give the arrays of ``out=`` the results."""
        targets = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(targets) != len(parts):
            raise MXNetError(f"Check failed: Operator expects {len(parts)} outputs, but got {len(targets)} instead.")
        for k, (target, t) in enumerate(zip(targets, types, strict=True)):
            if not isinstance(target, NDArray):
                raise TypeError(f"out must be an NDArray or a list of them, not {type(target)}")
            own = self._tensor(self.lift(target))
            if t is None or own is None:
                written = "out" if own is None else "result"
                raise not_traced(f"the shape of {op.name}'s {written} depends on values", "Leave out= away.")
            if own.shape != t.shape or (exact and own.dtype is not t.dtype):
                expected, got = (
                    (shape_text(t.shape), shape_text(own.shape))
                    if own.shape != t.shape
                    else (t.dtype.name, own.dtype.name)
                )
                raise MXNetError(
                    f"Incompatible attr in node  at {k}-th output: expected {expected}, got {got}\n"
                    "out= must be an array of the shape and the type of the result: leave it away, or cast the inputs."
                )
        for target, symbol, t in zip(targets, parts, types, strict=True):
            assert t is not None
            own = self.lift(target)
            if own._type.tensor.dtype is not t.dtype:
                symbol = node("Cast", [symbol], dtype=own._type.tensor.dtype.name)
            own._data.assign(symbol)
        return out

    def _check_writes(self, op: Operator, values: Values, symbol: Symbol) -> None:
        """Raise TracingError for an operator that would change an intermediate result."""
        for write in op.writes(values, self.training) if op.mutates else ():
            source = symbol._heads[0][0].inputs[write.target][0]
            if source.op is not None:
                raise not_traced(
                    f"{op.name} writes into its operand {op.input_names(values, len(op.inputs))[write.target]}, "
                    "which the function has computed or written itself",
                    "Give it a parameter, an argument, or an array from outside that nothing else writes.",
                )

    def type_of(self, entry: tuple[SymbolNode, int]) -> TensorType | None:
        """The type of a value that was made in this trace; None where its shape depends on values."""
        result_type = self._tensors.get((id(entry[0]), entry[1]), _MISSING)
        if result_type is _MISSING:  # of nodes that no operator call made: parts of arrays, loops, other graphs
            for symbol_node in topological([entry], lambda n: [] if (id(n), 0) in self._tensors else n.inputs):
                if symbol_node.op is not None and (id(symbol_node), 0) not in self._tensors:
                    inputs = [self.type_of(e) for e in symbol_node.inputs]
                    if symbol_node.subgraphs:
                        types = self._types_of_loop(symbol_node, inputs)
                    else:
                        types = self._types_of_results(symbol_node.op, symbol_node.values, inputs)
                    self._note(Symbol([(symbol_node, k) for k in range(len(types))]), types)
            result_type = self._tensors[id(entry[0]), entry[1]]
        return result_type  # type: ignore[no-any-return]

    def _types_of_loop(self, symbol_node: SymbolNode, inputs: Sequence[TensorType | None]) -> list[TensorType | None]:
        """Types of the results of a loop or branch."""
        known_types = [t for t in inputs if t is not None]
        assert symbol_node.op is not None
        if len(known_types) < len(inputs):
            raise not_traced(
                f"{symbol_node.op.name.strip('_')} needs to know the shapes of what its body reads",
                "What depends on an array whose extents depend on values is computed outside of loops and branches.",
            )
        b = builder(autograd_state.state.training)
        b.prov = Provenance(symbol_node.op.name, symbol_node.name)
        lowered = lower_node(b, symbol_node, [b.input(t, f"in{k}") for k, t in enumerate(known_types)])
        return list(map(_type_of, lowered[: symbol_node.num_visible]))

    def compose(self, symbol: Symbol, given: Mapping[str, Any]) -> list[Any]:
        """The results of another graph as part of this one.

        Args:
            given: arrays by the names of its variables.
        """
        lifted = {n: self.lift(x) for n, x in given.items()}
        symbols = {n: x._data.symbol() for n, x in lifted.items()}
        table: dict[int, SymbolNode] = {}
        outside: dict[int, Entry] = {}

        def entry(e: Entry) -> Entry:
            return outside[id(e[0])] if id(e[0]) in outside else (table[id(e[0])], e[1])

        for old in topological(symbol._heads):
            if old.op is None:
                outside[id(old)] = symbols[old.name]._heads[0]
                continue
            inputs = [entry(e) for e in old.inputs]
            table[id(old)] = SymbolNode(
                old.op, old.name, dict(old.attrs), inputs, list(old.subgraphs), old.line, current_block()
            )
        results = []
        for head in map(entry, symbol._heads):
            part, t = Symbol([head]), self.type_of(head)
            if self.recording and not autograd_state.state.recording:
                part = self._stopped(part, t)
            results.append(self.result(part, t, numpy_class() if symbol._kind is not None else None))
        return results

    # -- the result

    def graph(self, outputs: Sequence[Any]) -> TracedGraph:
        """The graph of these arrays, and of what was written into arrays from outside."""
        heads: list[Symbol] = [self.lift(x)._data.symbol() for x in outputs]
        met = self._states[len(self.inputs) :]
        for value in self._states:
            current = value.symbol()
            if value.variable is None or current._heads == value.variable._heads:
                continue
            if value in met:
                check_memory(value, met)
            first = heads[0] if heads else current
            written = node("_write_state", [first, value.variable, current])
            heads[:1] = [written]
        if not heads:
            raise not_traced(
                "the function gives no array and writes into none",
                "Return what it computes; there is nothing to compile otherwise.",
            )
        kinds = {x._kind for x in outputs}
        if len(kinds) > 1:
            raise not_traced(
                "the function gives arrays of nd and of np",
                "Make them one kind: x.as_np_ndarray(), or x.as_nd_ndarray().",
            )
        symbol = Group(heads)
        if kinds and None not in kinds:
            symbol = symbol.as_np_ndarray()
        return TracedGraph(self.inputs, symbol, dict(self.sources), dict(self.types))

    def no_gradients(self) -> TracingError:
        """The error for ``autograd.grad`` and ``backward`` of the function's own."""
        return needs_values("a gradient", GRADIENTS)

    # -- what functions that are no operators become

    def array(self, source: NDArray, dtype: Any) -> Any:
        """A copy of an array, of element type ``dtype`` if it is not None."""
        lifted = self.lift(source).detach()
        return lifted.copy() if dtype is None else lifted.astype(dtype)

    def get_item(self, x: Any, key: Any) -> Any:
        """``x[key]`` of an array with values: of its part when the graph runs."""
        return self.lift(x)[key]

    def set_item(self, x: Any, key: Any, value: Any) -> None:
        """``x[key] = value``."""
        self.lift(x)[key] = value

    def foreach(self, *args: Any, **kwargs: Any) -> Any:
        """See ``nd.contrib.foreach``."""
        from . import control_flow

        return control_flow.foreach(self, *args, **kwargs)

    def while_loop(self, *args: Any, **kwargs: Any) -> Any:
        """See ``nd.contrib.while_loop``."""
        from . import control_flow

        return control_flow.while_loop(self, *args, **kwargs)

    def cond(self, *args: Any, **kwargs: Any) -> Any:
        """See ``nd.contrib.cond``."""
        from . import control_flow

        return control_flow.cond(self, *args, **kwargs)

    @contextmanager
    def body(self) -> Iterator[None]:
        """While entered, values are made in the body of a loop or branch."""
        self.levels.append(object())
        try:
            yield
        finally:
            self.levels.pop()


def _outside(name: str) -> Symbol:
    """A variable that is no part of the body that is being traced."""
    return _unmarked(lambda: var(name))


def _unmarked(make: Callable[[], Symbol]) -> Symbol:
    """A variable made by ``make``, without the mark of the body that is being traced."""
    with AttrScope(__subgraph_name__=""):
        variable = make()
    attrs = variable._heads[0][0].attrs
    if attrs.get("__subgraph_name__") == "":
        del attrs["__subgraph_name__"]
    return variable


def _add_named(error: Any, op: Operator, values: Values, types: Sequence[TensorType]) -> None:
    """End an error with the operator and its operands, as those of arrays end."""
    from ..core.source_location import note_location
    from ..hints.op_errors import add_details

    names = op.input_names(values, len(types))
    error.args = (f"{error}{add_details(error, op, values, names, list(types))}",)
    note_location(error)


def _type_of(node: Any) -> TensorType | None:
    result_type: TensorType = node.type
    return result_type

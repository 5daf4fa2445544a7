# SPDX-License-Identifier: Apache-2.0
"""A graph run operator by operator, for monitors: programs keep nothing of what is between their inputs and results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..backends.devices import device_of
from ..compiler.ir.graph import Graph
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from ..context import Context
from ..core import autograd_state
from ..core.rng import next_state, position, set_position
from ..ndarray.apply import apply, zeros_like
from ..ndarray.backward_pass import backward
from ..ndarray.ndarray import NDArray, wrap
from ..ndarray.tape import DifferentiableGraph, FunctionCall, SizedGraph
from ..symbol.lowering import completed_shapes
from ..symbol.node import Entry, SymbolNode, topological
from ..symbol.subgraph import lower_node
from ..symbol.symbol import Symbol
from .graph_breaks import is_graph_break

__all__ = ["NodeInterpreter"]


class NodeInterpreter:
    """One run of a graph. States stay as they are, and so does the sequence of random numbers.

    Args:
        inputs: arrays in the order of ``list_inputs``.
        training: training behaviour, and ``backward`` may be called.

    Attributes:
        values: the results of all nodes.
    """

    def __init__(self, symbol: Symbol, inputs: Sequence[NDArray], training: bool, ctx: Context) -> None:
        self._symbol, self._ctx, self._training = symbol, ctx, training
        arrays = dict(zip(symbol.list_inputs(), inputs, strict=True))
        self.values: dict[Entry, NDArray] = {}
        self._calls: list[tuple[SymbolNode, list[NDArray], list[NDArray]]] = []
        order = topological(symbol._heads)
        types = {n: x._type.tensor for n, x in arrays.items()}
        self._open = completed_shapes(symbol, order, types, training)
        before = position(ctx)
        try:
            with autograd_state.record() if training else autograd_state.pause():
                for node in order:
                    if node.op is None:
                        with autograd_state.pause():
                            self.values[node, 0] = arrays[node.name].copy()
                    else:
                        self._run(node)
        finally:
            set_position(ctx, before)

    def _run(self, node: SymbolNode) -> None:
        inputs = [self.values[entry].detach() for entry in node.inputs]
        if self._training:
            for x in inputs:
                if x._type.dtype.is_float:
                    x.attach_grad()
        results = self._call(node, inputs)
        self._calls.append((node, inputs, results))
        self.values.update(((node, k), r) for k, r in enumerate(results))

    def _call(self, node: SymbolNode, inputs: list[NDArray]) -> list[NDArray]:
        assert node.op is not None
        if is_graph_break(node):
            output = apply(node.op, inputs, node.values, ctx=self._ctx)
            return list(output) if isinstance(output, (list, tuple)) else [output]

        def lower(types: Sequence[TensorType]) -> Graph:
            b = builder(self._training)
            arguments = [b.input(t, str(k)) for k, t in enumerate(types)]
            lowered = lower_node(b, node, arguments, self._open.get(id(node)))
            return b.finish(list(lowered)[: node.num_outputs], node.name)

        types = [x._type.tensor for x in inputs]
        graph = lower(types)
        function = DifferentiableGraph(graph, SizedGraph(types, lower, str(graph)))
        device = device_of(self._ctx)
        seed = device.from_host(next_state(self._ctx)) if function.draws else None
        arrays = [x._data for x in inputs]
        raw = function.run(device, [*arrays, seed] if function.draws else arrays)
        results = [wrap(r, self._ctx) for r in raw]
        if self._training and any(x._autograd is not None for x in inputs):
            FunctionCall(function, inputs, results, self._ctx, seed)
        return results

    def backward(
        self, head_grads: Sequence[NDArray | None], wanted: Collection[str]
    ) -> Iterator[tuple[SymbolNode, list[NDArray]]]:
        """Gradients that each node gives to its inputs, states left out, from the last node on.

        Args:
            head_grads: gradients of the heads, None for losses.
            wanted: names of the variables that gradients are wanted for; nodes before which there is none are left out.
        """
        cotangents: dict[Entry, NDArray] = {}
        for entry, g in zip(self._symbol._heads, head_grads, strict=True):
            value = self.values[entry]
            _add(cotangents, entry, value.ones_like() if g is None else g)
        needed = {id(n) for n in topological(self._symbol._heads) if n.op is None and n.name in wanted}
        for node, _, _ in self._calls:
            if any(id(source) in needed for source, _ in node.inputs):
                needed.add(id(node))
        for node, inputs, results in reversed(self._calls):
            pairs = [(r, cotangents[node, k]) for k, r in enumerate(results) if (node, k) in cotangents]
            pairs = [(r, c) for r, c in pairs if r._autograd is not None]
            if id(node) not in needed or not pairs:
                continue
            backward([r for r, _ in pairs], [c for _, c in pairs], None, False, False, True)
            states = node.auxiliary_inputs()
            gradients = []
            for k, (x, entry) in enumerate(zip(inputs, node.inputs, strict=True)):
                if k not in states:
                    gradients.append(zeros_like(x) if x.grad is None else x.grad)
                    _add(cotangents, entry, gradients[-1])
            yield node, gradients


def _add(sums: dict[Entry, NDArray], entry: Entry, value: NDArray) -> None:
    sums[entry] = sums[entry] + value if entry in sums else value

# SPDX-License-Identifier: Apache-2.0
"""Lowering of a Symbol to a graph of primitives, for given input types."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..base import MXNetError
from ..compiler.ir import Builder, Graph, Node
from ..compiler.ir.graph import Provenance
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from ..core.name_table import GRAPH, NameTable, input_placeholder, name_placeholder, place_placeholder
from ..ops.mutation import When, Write, backward_order
from .inference import Inference
from .node import SymbolNode, is_hidden, topological
from .subgraph import incomplete, lower_node, lower_nodes, place_of
from .symbol import Symbol

__all__ = [
    "Mutation",
    "Structure",
    "backward_mutations",
    "completed_shapes",
    "depends_on_np_shape",
    "lower_operators",
    "lower_symbol",
    "mutations",
    "structure",
    "written_variables",
]


class Mutation(NamedTuple):
    """An input that takes the value of a result after a call: running averages, optimizer states.

    Attributes:
        node, result: what it takes.
        position: of the variable in ``list_inputs``.
        keep: how much of the old value stays, see ``ops.mutation.Write``.
        needs: of a write in the backward pass: bits of the variables, in the same order, of which one's gradient has to
            be wanted for it to happen.
    """

    node: SymbolNode
    result: int
    position: int
    keep: float
    needs: int = 0


def mutations(symbol: Symbol, training: bool, recorded: bool) -> list[Mutation]:
    """The variables that a call of the graph changes.

    Raises:
        MXNetError: an operator that would have to change something other than a variable.
    """
    when = (When.CALL, When.RECORDED) if recorded else (When.CALL,)
    order = topological(symbol._heads)
    return [m for m, w in _writes(order, training) if w.when in when]


def written_variables(symbol: Symbol, training: bool) -> frozenset[int]:
    """Positions of the variables that a call of the graph changes, or its backward pass."""
    return frozenset(m.position for m, _ in _writes(topological(symbol._heads), training))


def backward_mutations(symbol: Symbol, training: bool, wanted: Sequence[bool]) -> list[Mutation]:
    """The variables that a backward pass changes if all gradients are computed that are ``wanted``, in order.

    An operator's backward pass, which writes, is run only for a gradient that somebody wants: that of a variable from
    which gradients flow back through the operator.

    Args:
        wanted: for each variable in ``list_inputs`` order.

    Raises:
        MXNetError: as ``mutations``.
    """
    order = topological(symbol._heads)
    writes = [(m, w) for m, w in _writes(order, training) if w.when is When.BACKWARD]
    if not writes:
        return []
    operators = [n for n in order if n.op is not None]
    variables = [n for n in order if n.op is None]
    reads = {n: [n.inputs[k] for k in n.op.inputs_with_gradient(n.values, len(n.inputs))] for n in operators if n.op}
    needs = {n: 1 << k for k, n in enumerate(variables)}
    for node in operators:
        needs[node] = 0
        for source, _ in reads[node]:
            needs[node] |= needs[source]
    run = backward_order(
        operators,
        reads.__getitem__,
        lambda node: [(node, k) for k in range(node.num_outputs)],
        [(n, 0) for n, w in zip(variables, wanted, strict=True) if w],
    )
    place = {n: k for k, n in enumerate(run)}
    reached = [m._replace(needs=needs[m.node]) for m, _ in writes if m.node in place]
    return sorted(reached, key=lambda m: place[m.node])


def _writes(order: Sequence[SymbolNode], training: bool) -> list[tuple[Mutation, Write]]:
    writes = []
    position = {n.name: k for k, n in enumerate([n for n in order if n.op is None])}
    for node in order:
        if node.op is None or not node.op.mutates:
            continue
        for write in node.op.writes(node.values, training):
            source = node.inputs[write.target][0]
            if source.op is None:
                writes.append((Mutation(node, write.result, position[source.name], write.keep), write))
            elif write.target in node.auxiliary_inputs():
                raise MXNetError(f"operator {node.name} changes its input {write.target}, which must be a variable")
    return writes


def lower_symbol(
    symbol: Symbol,
    types: Mapping[str, TensorType],
    training: bool,
    name: str = "graph",
    writes: Sequence[Mutation] = (),
    shared: bool = False,
) -> Graph:
    """The graph whose inputs are the symbol's variables in ``list_inputs`` order.

    Its results are the heads, then the values of ``writes``. Graphs that draw random numbers get one
    more input, RANDOM_STATE, at the end.

    Args:
        shared: for a program that graphs of the same structure share: placeholders stand for all names.

    Raises:
        MXNetError: a node whose inputs do not fit; it is named, with the line that made it.
    """
    b, results = _lowered(symbol, types, training, shared)
    heads = [results[id(n)][k] for n, k in symbol._heads]
    return b.finish([*heads, *(results[id(w.node)][w.result] for w in writes)], GRAPH if shared else name)


def lower_operators(
    symbol: Symbol, types: Mapping[str, TensorType], training: bool
) -> Iterator[tuple[SymbolNode, Graph]]:
    """Each operator in order, with a graph of its own: one input an argument, and the random numbers that it draws among all.

    Together they compute what :func:`lower_symbol`'s graph computes.
    """
    order = topological(symbol._heads)
    shapes = completed_shapes(symbol, order, types, training)
    entry_types = {id(n): [types[n.name]] for n in order if n.op is None}
    streams = 0
    for node in order:
        if node.op is not None:
            b = builder(training, streams)
            b.prov = Provenance(node.op.name, node.name, place_of(node))
            arguments = [b.input(entry_types[id(source)][k], source.name) for source, k in node.inputs]
            results = lower_node(b, node, arguments, shapes.get(id(node)))
            entry_types[id(node)] = [r.type for r in results]
            streams = b.streams
            yield node, b.finish(results, node.name)


def _lowered(
    symbol: Symbol, types: Mapping[str, TensorType], training: bool, shared: bool
) -> tuple[Builder, dict[int, Sequence[Node]]]:
    """The results of each node of ``symbol``, by its identity."""
    b = builder(training)
    results: dict[int, Sequence[Node]] = {}
    order = topological(symbol._heads)
    number = {id(n): k for k, n in enumerate(_every(order))} if shared else {}
    labels = {n: (name_placeholder(k), place_placeholder(k)) for n, k in number.items()}
    for node in order:
        if node.op is None:
            label = input_placeholder(number[id(node)]) if shared else node.name
            results[id(node)] = (b.input(types[node.name], label),)
    lower_nodes(b, order, results, completed_shapes(symbol, order, types, training), labels)
    return b, results


def completed_shapes(
    symbol: Symbol, order: Sequence[SymbolNode], types: Mapping[str, TensorType], training: bool
) -> dict[int, tuple[int, ...]]:
    """Shapes of the nodes that leave extents open, by identity."""
    if all(incomplete(n) is None for n in order):
        return {}
    inference = Inference(
        symbol, {n: t.shape for n, t in types.items()}, {n: t.dtype for n, t in types.items()}, training
    )
    inference.run()
    return inference.completed()


class Structure(NamedTuple):
    """The structure that the compiled form of a graph depends on, and the names of its nodes, on which that does not depend.

    Attributes:
        hash: of operators, attributes and edges.
        nodes, places: see :class:`~hybridgpu.core.name_table.NameTable`.
    """

    hash: str
    nodes: tuple[str, ...]
    places: tuple[str, ...]

    def table(self, name: str) -> NameTable:
        """The names of a graph of this structure that is called ``name``."""
        return NameTable(name, self.nodes, self.places)


def structure(symbol: Symbol, order: Sequence[SymbolNode] | None = None) -> Structure:
    """The structure of ``symbol``; ``order``: its nodes, if they are known."""
    order = order or topological(symbol._heads)
    every = list(_every(order))
    return Structure(_hash(symbol, order), tuple([n.name for n in every]), tuple([place_of(n) for n in every]))


def depends_on_np_shape(order: Sequence[SymbolNode]) -> bool:
    """Whether NumPy shape semantics change the shapes of a graph, whose nodes are given."""
    return any(n.op is not None and n.op.np_shape for n in _every(order))


def _every(order: Sequence[SymbolNode]) -> Iterator[SymbolNode]:
    """The nodes in the order of their numbers: those of subgraphs behind the node they belong to."""
    for node in order:
        yield node
        for s in node.subgraphs:
            yield from _every(topological(s._heads))


def _hash(symbol: Symbol, order: Sequence[SymbolNode]) -> str:
    digest = hashlib.sha256()
    number = {id(n): k for k, n in enumerate(order)}
    first: dict[str, int] = {}  # variables of one name have one type
    for k, node in enumerate(order):
        if node.op is None:
            digest.update(f"variable {first.setdefault(node.name, k)};".encode())
            continue
        inputs = [(number[id(s)], k) for s, k in node.inputs]
        attributes = sorted(item for item in node.attrs.items() if not is_hidden(item[0]))
        digest.update(repr((node.op.name, node.op.identity, attributes, inputs)).encode())
        for s in node.subgraphs:
            digest.update(_hash(s, topological(s._heads)).encode())
    digest.update(repr([(number[id(n)], k) for n, k in symbol._heads]).encode())
    return digest.hexdigest()

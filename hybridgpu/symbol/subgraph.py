# SPDX-License-Identifier: Apache-2.0
"""Lowering of nodes, those with graphs of their own (control flow) included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.graph import Provenance
from ..hints.node_errors import node_error, origin
from ..ops.mutation import When
from ..ops.params import Shape, Values
from ..util import is_np_shape
from .late_bindings import late
from .node import SymbolNode, topological
from .symbol import Symbol

__all__ = ["Subgraph", "fill_shapes", "incomplete", "lower_node", "lower_nodes", "place_of"]

Labels = Mapping[int, tuple[str, str]]


def incomplete(node: SymbolNode) -> tuple[int, ...] | None:
    """The shape of a node without inputs that leaves extents open, such as the zeros of a first state.

    It is () where even the number of axes is open.
    """
    if node.op is None or node.inputs:
        return None
    if getattr(node.values, "infer_range", False) and node.values.stop is None:
        return (-1,)
    if not isinstance(node.op.params.get("shape"), Shape):  # that of a gamma distribution is a number
        return None
    shape = node.values.shape
    if shape is None or (not shape and not is_np_shape()):
        return ()
    if all(d > 0 or (d == 0 and is_np_shape()) for d in shape):
        return None
    return tuple(shape)


def lower_node(
    b: Builder,
    node: SymbolNode,
    inputs: Sequence[Node],
    shape: tuple[int, ...] | None = None,
    labels: Labels | None = None,
) -> tuple[Node, ...]:
    """Lower one node into a builder, by its operator's record.

    Args:
        shape: what an open shape turned out to be, see :func:`incomplete`.
        labels: as for :func:`lower_nodes`.
    """
    assert node.op is not None
    values = node.values
    if shape is not None:
        values = Values({**values.as_dict(), "shape": shape})
    with b.of_operator(inputs):
        return node.op.build(b, values, inputs, node.name, [Subgraph(s, labels) for s in node.subgraphs])


def place_of(node: SymbolNode) -> str:
    """The block and the line of the user's that made a node."""
    return f"{node.block} {node.line}".strip()


def lower_nodes(
    b: Builder,
    order: Sequence[SymbolNode],
    results: dict[int, Sequence[Node]],
    shapes: Mapping[int, tuple[int, ...]],
    labels: Labels | None = None,
) -> None:
    """Lower all operators of ``order``; ``results`` has the variables and gets the rest.

    Args:
        shapes: of nodes with an open shape, by identity.
        labels: name and place of nodes in programs, by identity, where they are not their own.

    Raises:
        MXNetError: a node whose inputs do not fit; it is named, with the line that made it.
    """
    for node in order:
        if node.op is None:
            continue
        name, place = labels[id(node)] if labels else (node.name, place_of(node))
        b.prov = Provenance(node.op.name, name, place)
        inputs = [results[id(source)][k] for source, k in node.inputs]
        try:
            results[id(node)] = lower_node(b, node, inputs, shapes.get(id(node)), labels)
        except MXNetError as e:
            raise node_error(node, e, [x.type for x in inputs]) from None
    b.prov = None


class Subgraph:
    """A graph that belongs to a node, as operator records see it.

    Attributes:
        inputs: number of its variables, in ``list_inputs`` order.
        outputs: number of its results.
    """

    def __init__(self, symbol: Symbol, labels: Labels | None = None) -> None:
        self.symbol, self._labels = symbol, labels
        self.order = topological(symbol._heads)
        self.variables = [n for n in self.order if n.op is None]
        self.inputs, self.outputs = len(self.variables), len(symbol._heads)

    def lower(self, b: Builder, inputs: Sequence[Node]) -> list[Node]:
        """The results for nodes of ``b`` in the place of the variables.

        Raises:
            MXNetError: as ``lower_nodes``; also an operator that would change one of its inputs in training.
        """
        for node in self.order:
            if node.op is None or not node.op.mutates:
                continue
            writes = node.op.writes(node.values, b.training)
            if any(w.when is When.CALL or (w.when is When.BACKWARD and b.training) for w in writes):
                raise MXNetError(
                    f"operator {node.name} ({node.op.name}) changes its inputs, which is not possible inside a loop or "
                    f"branch{origin(node)}\nCompute it outside, or with use_global_stats=True."
                )
        results: dict[int, Sequence[Node]] = {id(n): (x,) for n, x in zip(self.variables, inputs, strict=True)}
        shapes: dict[int, tuple[int, ...]] = {}
        if any(incomplete(n) is not None for n in self.order):
            input_shapes = {n.name: x.shape for n, x in zip(self.variables, inputs, strict=True)}
            inference = late.Inference(
                self.symbol, input_shapes, {n.name: x.dtype for n, x in zip(self.variables, inputs, strict=True)}
            )
            inference.run()
            shapes = inference.completed()
        prov = b.prov
        lower_nodes(b, self.order, results, shapes, self._labels)
        b.prov = prov
        return [results[id(n)][k] for n, k in self.symbol._heads]

    def infer(self, shapes: Sequence[tuple[int, ...] | None]) -> list[tuple[int, ...] | None]:
        """Shapes of all variables, as far as they follow from the known ones."""
        input_shapes = {n.name: s for n, s in zip(self.variables, shapes, strict=True) if s is not None}
        inference = late.Inference(self.symbol, input_shapes, {})
        inference.run()
        return [inference.shapes.get((id(n), 0)) for n in self.variables]


def fill_shapes(node: SymbolNode, shapes: list[Any]) -> list[Any]:
    """Input shapes of a node, as far as they follow from each other."""
    assert node.op is not None
    if node.subgraphs and node.op.infer_with_graphs is not None:
        try:
            return list(node.op.infer_with_graphs(node.values, [Subgraph(s) for s in node.subgraphs], shapes))
        except (IndexError, KeyError, ValueError, TypeError) as e:  # a file whose attributes do not fit its subgraphs
            raise MXNetError(f"Error in operator {node.name}: its attributes do not fit its subgraphs: {e}") from e
    try:
        return node.op.fill_shapes(node.values, shapes)
    except MXNetError as e:
        raise node_error(node, e, [None if s is None else tuple(s) for s in shapes]) from None

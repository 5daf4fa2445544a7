# SPDX-License-Identifier: Apache-2.0
"""From a Symbol to a graph of primitives, for given input types."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ..base import MXNetError
from ..compiler.ir import Graph, Node
from ..compiler.ir.graph import Provenance
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from .inference import lower_node, origin
from .node import topological
from .symbol import Symbol

__all__ = ["lower_symbol", "structure"]


def lower_symbol(symbol: Symbol, types: Mapping[str, TensorType], training: bool, name: str = "graph") -> Graph:
    """The graph whose inputs are the symbol's variables in ``list_inputs`` order.

    Graphs that draw random numbers get one more input, RANDOM_STATE, at the end.

    Raises:
        MXNetError: a node whose inputs do not fit; it is named, with the line that made it.
    """
    b = builder(training)
    results: dict[int, Sequence[Node]] = {}
    order = topological(symbol._heads)
    for node in order:
        if node.op is None:
            results[id(node)] = (b.input(types[node.name], node.name),)
    for node in order:
        if node.op is None:
            continue
        where = f"{node.block} {node.line}".strip()
        b.prov = Provenance(node.op.name, node.name, where)
        inputs = [results[id(source)][k] for source, k in node.inputs]
        try:
            results[id(node)] = lower_node(b, node, inputs)
        except MXNetError as e:
            raise MXNetError(f"Error in operator {node.name}: {e}{origin(node)}") from None
    b.prov = None
    return b.finish([results[id(n)][k] for n, k in symbol._heads], name)


def structure(symbol: Symbol) -> str:
    """A hash of everything about a graph that its compiled form depends on."""
    digest = hashlib.sha256()
    order = topological(symbol._heads)
    number = {id(n): k for k, n in enumerate(order)}
    for node in order:
        inputs = [(number[id(s)], k) for s, k in node.inputs]
        parts = (node.op.name if node.op else "", node.name, sorted(node.attrs.items()), inputs, node.line, node.block)
        digest.update(repr(parts).encode())
        for s in node.subgraphs:
            digest.update(structure(s).encode())
    digest.update(repr([(number[id(n)], k) for n, k in symbol._heads]).encode())
    return digest.hexdigest()

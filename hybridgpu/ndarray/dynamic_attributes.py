# SPDX-License-Identifier: Apache-2.0
"""Eager calls with dynamic attributes, which change from call to call, such as a learning rate.

Each value would ask for a lowering of its own. Instead such attributes are arguments of the operator's graph
(ops/dynamic_attributes.py), which is lowered once for all their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiler.ir.graph import Graph, Provenance, to_scalar
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from ..core.dtypes import DType
from ..ops.dynamic_attributes import DynamicSlot, DynamicValues, as_stored
from ..ops.params import Values
from ..ops.precision import active, cast_inputs
from ..ops.record import Operator
from ..util import is_np_shape
from .tape import DifferentiableGraph, SizedGraph

__all__ = ["DynamicCall", "dynamic_call", "dynamic_key"]


class DynamicCall(NamedTuple):
    """An operator for all values of its attributes that vary.

    Attributes:
        function: takes the operator's arrays, then the numbers, the random state last.
        slots: what the numbers are, and their types.
    """

    function: DifferentiableGraph
    slots: tuple[tuple[DynamicSlot, DType], ...]

    def numbers(self, values: Values) -> list[Any]:
        """The arguments behind the arrays, as zero-dimensional arrays of NumPy."""
        attributes = values.__dict__
        scalars = []
        for slot, dtype in self.slots:
            number = as_stored(slot.value(attributes), dtype)
            scalars.append(np.asarray(to_scalar(number, dtype), dtype.np))
        return scalars


def dynamic_key(op: Operator, values: Values) -> tuple[Any, ...]:
    """The part of the attributes that decides the graph: the constant ones, and the lengths of lists."""
    items, negative_zeros = values.key
    varies = op.varies
    return negative_zeros, *[(n, len(v) if isinstance(v, tuple) else None) if n in varies else (n, v) for n, v in items]


def dynamic_call(op: Operator, values: Values, types: Sequence[TensorType], training: bool) -> DynamicCall:
    """Lower an operator whose record says that attributes vary."""
    graph, slots, numbers = _lowered(op, values, types, training)

    def lower(types: Sequence[TensorType]) -> Graph:
        return _lowered(op, values, types, training)[0]

    key = op, "dynamic", dynamic_key(op, values), training, is_np_shape(), active()
    function = DifferentiableGraph(graph, SizedGraph(types, lower, key))
    return DynamicCall(function, tuple(zip(slots, numbers, strict=True)))


def _lowered(
    op: Operator, values: Values, types: Sequence[TensorType], training: bool
) -> tuple[Graph, Sequence[DynamicSlot], list[DType]]:
    """(the graph, what its arguments behind the arrays are, their types)."""
    b = builder(training)
    b.prov = Provenance(op.name, "")  # what errors name
    nodes = [b.input(t, n) for t, n in zip(types, op.input_names(values, len(types)), strict=False)]
    late = DynamicValues(b)
    attributes = values.as_dict()
    lengths = {n: len(v) for n, v in attributes.items() if isinstance(v, tuple)}
    inputs = cast_inputs(b, op, values, nodes)
    graph = b.finish(op.build(b, late.values(op, 0, attributes, lengths), inputs), op.name.strip("_"))
    numbers = [n.dtype for n in graph.inputs[len(nodes) : len(graph.inputs) - graph.draws]]
    return graph, late.slots, numbers

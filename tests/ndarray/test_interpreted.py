# SPDX-License-Identifier: Apache-2.0
"""Interpreted operators: what is not spread out, and the Python that repeats a graph, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import Interpreter, _held_shapes
from hybridgpu.core.dtypes import f32
from hybridgpu.core.rng import next_state
from hybridgpu.ndarray import apply
from hybridgpu.ndarray.interpreted import InterpretedGraph
from hybridgpu.ops import OPERATORS

RANDOM = np.random.default_rng(3)


def test_numbers_stay_numbers_until_an_array_meets_them():
    """Two numbers are multiplied once, not for every element."""
    b = builder()
    x, s, t = (b.input(tensor_type(shape, f32), name) for name, shape in (("x", (4, 8)), ("s", ()), ("t", ())))
    spread = [b.broadcast(b.reshape(n, (1, 1)), (4, 8)) for n in (s, t)]
    product = spread[0] * spread[0] + 1.0
    twice = b.sum(spread[1], (1,))  # needs an array
    graph = b.finish([x * product, twice, b.broadcast(b.reshape(s, (1,)), (3,))], "g")
    held = _held_shapes(graph)
    assert (held[product], held[spread[0]], held[spread[1]]) == ((), (), (4, 8))
    data = RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)
    got = Interpreter(graph)(data, np.float32(3) + np.zeros((), np.float32), np.asarray(5, np.float32))
    np.testing.assert_array_equal(got[0], data * np.float32(10))
    np.testing.assert_array_equal(got[1], np.full(4, 40, np.float32))
    np.testing.assert_array_equal(got[2], np.full(3, 3, np.float32))


ROW, COLUMN, WHOLE = (1, 8), (4, 1), (4, 8)
#: name -> (shapes of the arguments, a function of a builder and these broadcast to WHOLE, how its result is held)
HELD = {
    "two rows": ([ROW, ROW], lambda b, x, y: x + y, ROW),
    "a row and a column": ([ROW, COLUMN], lambda b, x, y: x + y, WHOLE),
    "a row and a number": ([ROW, ROW], lambda b, x, y: b.exp(x) * 2.0, ROW),
    "a choice of rows": ([ROW, ROW], lambda b, x, y: b.select(b.gt(x, y), x, b.full_like(x, 0)), ROW),
    "turned": ([ROW, ROW], lambda b, x, y: b.transpose(x, (1, 0)), None),
    "another shape": ([ROW, ROW], lambda b, x, y: b.reshape(x, (8, 4)), None),
    "a product": ([ROW, COLUMN], lambda b, x, y: b.dot(x, b.transpose(y, (1, 0))), None),
}


@pytest.mark.parametrize("name", HELD)
def test_what_is_broadcast_is_not_spread_out(name):
    shapes, function, held = HELD[name]
    b = builder()
    given = [b.input(tensor_type(s, f32), f"x{k}") for k, s in enumerate(shapes)]
    y = function(b, *(b.broadcast(x, WHOLE) for x in given))
    whole = b.input(tensor_type(y.shape, f32), "whole")
    graph = b.finish([whole * y, y], "g")
    inside = b.finish([whole * y], "g")
    assert _held_shapes(inside)[y] == (held or y.shape)
    assert _held_shapes(graph)[y] == y.shape
    arrays = [RANDOM.uniform(-1, 1, s).astype(np.float32) for s in (*shapes, whole.shape)]
    want = Interpreter(graph)(*arrays)
    np.testing.assert_array_equal(Interpreter(inside)(*arrays)[0], arrays[-1] * want[1])


def called():
    named = {id(op): op for op in OPERATORS.values() if not op.eager}
    return [(op, k) for op in named.values() for k in range(len(op.samples))]


@pytest.mark.long_table
@pytest.mark.parametrize(("op", "k"), called(), ids=lambda v: v.name if hasattr(v, "name") else str(v))
def test_python_repeats_a_graph(op, k):
    """Every sample of every record, at a call before Python is written and at one of it: whole arrays of their own."""
    sample = op.samples[k]
    values = op.parse(sample.attributes)
    low, high = op.domain
    shapes = sample.shapes or [(2, 3)] * len(op.input_names(values, 1))
    values_of = [RANDOM.uniform(low, high, s) for s in shapes]
    try:
        arrays = [nd.array(v) for v in values_of]
        graph, draws = apply.operator_graph(op, values, [a._type.tensor for a in arrays], False)
    except mx.MXNetError:  # an operator of whole numbers
        arrays = [nd.array(v, dtype="int32") for v in values_of]
        graph, draws = apply.operator_graph(op, values, [a._type.tensor for a in arrays], False)
    data = [a._data for a in arrays] + ([next_state(mx.cpu())] if draws else [])
    graph = simplify(graph)
    run = InterpretedGraph(graph, np, None)
    calls = [run(*data) for _ in range(4)]
    for first, last, node in zip(calls[0], calls[-1], graph.outputs, strict=True):
        assert isinstance(last, np.ndarray) and last.shape == node.shape and last.dtype == first.dtype
        assert last.tobytes() == first.tobytes() and last.flags.c_contiguous
        assert not any(np.shares_memory(last, a) for a in data if isinstance(a, np.ndarray))

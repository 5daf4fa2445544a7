# SPDX-License-Identifier: Apache-2.0
"""Joins of hundreds of arrays: in steps that are small texts, with the values of one join."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.one_pass import run_pass
from compiler.test_graphs import fresh, on_device

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA

TARGETS = pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)


def joined(count: int, axis: int, function: str = "") -> Graph:
    """Of arrays (2 … 4, 3) or (3, 2 … 4)."""
    b = builder()
    shapes = [f"f32[{2 + k % 3},3]" if axis == 0 else f"f32[3,{2 + k % 3}]" for k in range(count)]
    xs = [b.input(parse(s), f"x{k}") for k, s in enumerate(shapes)]
    return b.finish([b.concat([getattr(b, function)(x) for x in xs] if function else xs, axis) * 2.0], "joined")


@TARGETS
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("count", "function"), [(25, ""), (70, "exp"), (300, "")])
def test_values(target, count, axis, function, compiler, cuda_driver):
    graph = joined(count, axis, function)
    program = compile_graph(graph, target)
    inputs, outputs = [on_device(a) for a in arrays(graph)], fresh(program)
    if target is CPU:
        cpu_backend().load(program)(inputs, outputs)
    else:
        CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(inputs, outputs)
    np.testing.assert_allclose(outputs[0], evaluate(graph, inputs)[0], rtol=1e-6)


@pytest.mark.no_host_code
@pytest.mark.long_table
@TARGETS
@pytest.mark.parametrize("count", [100, 400, 1600])
def test_texts_do_not_grow_with_the_number_of_operands(target, count):
    program = compile_graph(joined(count, 0), target)
    assert all(len(s.buffers) <= (66 if target is CPU else 250) for s in program.steps)
    assert max(len(k.text) for k in program.kernels) < 40_000
    # every operand is moved once a step of the way: twice up to 144 (CUDA) or 2048 (CPU), and so on
    assert program.bytes_moved <= program.bytes_min * (2 if target is CPU or count == 100 else 3)


@pytest.mark.no_host_code
@TARGETS
def test_steps_of_neighbours_share_a_text(target):
    b = builder()
    xs = [b.input(parse("f32[1,8]"), f"x{k}") for k in range(192)]
    program = compile_graph(b.finish([b.concat(xs, 0)], "alike"), target)
    assert len({k.name for k in program.kernels}) <= 3


@TARGETS
def test_few_operands_are_one_kernel(target):
    graph = joined(24, 0)
    assert run_pass("split_wide_concats", graph, target) is graph
    assert len(compile_graph(graph, target).steps) == 1


def gated(gate: str, parts: int) -> Graph:
    """The gradient of a gated linear unit: its parts share the gate."""
    b = builder()
    x, g, dy = (b.input(parse("f32[37,50]"), name) for name in ("x", "g", "dy"))
    e = getattr(b, gate)(g)
    found = [dy * g * e, dy * x * (e + g * e * (1.0 - e)), dy * e]
    return b.finish([b.concat(found[:parts], 1)], "gated")


@pytest.mark.parametrize(
    ("gate", "parts", "kernels"),
    [("sigmoid", 2, 1), ("erf", 2, 1), ("tanh", 2, 1), ("softplus", 2, 1), ("sigmoid", 3, 1)],
)
def test_what_parts_share_is_computed_once_or_by_both(gate, parts, kernels, compiler):
    """A host spends less time on one more exponential an element than on writing and reading it.

    Where it would not, one kernel computes what is shared, and stores into all parts (test_inplace_concat.py).
    """
    graph = gated(gate, parts)
    program = compile_graph(graph, CPU)
    inputs, outputs = [on_device(a) for a in arrays(graph)], fresh(program)
    assert len(program.steps) == kernels
    assert (program.bytes_moved < 1.4 * program.bytes_min) == (kernels == 1)
    cpu_backend().load(program)(inputs, outputs)
    np.testing.assert_allclose(outputs[0], evaluate(graph, inputs)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("count", "kinds"), [(2, ["reduce"]), (3, ["map", "reduce"]), (9, ["map", "reduce"])])
def test_reductions_of_what_is_made_of_a_join(count, kinds):
    """Loops of a reduction are not cut: each element would be chosen among all parts of the join."""
    b = builder()
    parts = [b.input(parse("f32[2,4,7,7]")) for _ in range(count)]
    graph = b.finish([b.sum(b.max(b.concat(parts, 1), 0.0), (2, 3))], "g")
    assert [k.kind for k in compile_graph(graph, CPU).kernels] == kinds


def test_reductions_of_a_join_of_joins():
    """Each layer of a DenseNet joins what came before with its own results."""
    b = builder()
    parts = [b.input(parse("f32[2,4,7,7]")) for _ in range(6)]
    graph = b.finish([b.sum(b.max(reduce(lambda x, y: b.concat((x, y), 1), parts), 0.0), (2, 3))], "g")
    assert [k.kind for k in compile_graph(graph, CPU).kernels] == ["map", "reduce"]


def test_what_follows_a_reduction_of_a_join_stays_with_it():
    b = builder()
    x = b.concat([b.input(parse("f32[8,16]")) for _ in range(3)], 1)
    graph = b.finish([x - b.mean(x, (1,), keepdims=True)], "g")
    assert len(compile_graph(graph, CPU).kernels) == 1

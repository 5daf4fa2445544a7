# SPDX-License-Identifier: Apache-2.0
"""Rows and values of these rows as results of one program: one kernel that reads the rows once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from emulated import aligned, run_program

from hybridgpu.compiler.ir import Builder, Graph, Node, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32

Axes = tuple[int, ...]


def flat(b: Builder, y: Node, axes: Axes) -> Node:
    """A value of each row without the axes of the rows."""
    return b.reshape(y, tuple(d for k, d in enumerate(y.shape) if k not in axes))


def softmax_and_logarithm(b: Builder, x: Node, axes: Axes) -> Sequence[Node]:
    largest = b.reduce("amax", x, axes, keepdims=True)
    e = b.exp(x - largest)
    total = b.sum(e, axes, keepdims=True)
    return e / total, flat(b, b.log(total) + largest, axes)


def normalised(b: Builder, x: Node, axes: Axes) -> tuple[Node, Node, Node]:
    mean = b.mean(x, axes, keepdims=True)
    d = x - mean
    variance = b.mean(d * d, axes, keepdims=True)
    return d * b.rsqrt(variance + 1e-5), mean, variance


def with_mean_and_deviation(b: Builder, x: Node, axes: Axes) -> Sequence[Node]:
    y, mean, variance = normalised(b, x, axes)
    return y, mean, b.sqrt(variance + 1e-5)


def with_running_averages(b: Builder, x: Node, axes: Axes) -> Sequence[Node]:
    """As training a BatchNorm; the averages come first."""
    y, mean, variance = normalised(b, x, axes)
    old = b.input(mean.type, "old")
    return old * 0.9 + mean * 0.1, old * 0.9 + variance * 0.1, b.max(y, 0.0)


def with_several_of_the_sum(b: Builder, x: Node, axes: Axes) -> Sequence[Node]:
    total = b.sum(x, axes, keepdims=True)
    return b.exp(total * 0.01), b.abs(total), x - total, flat(b, b.tanh(total), axes)


def of_a_gradient(b: Builder, x: Node, axes: Axes) -> Sequence[Node]:
    """Rows, a value of each, and what is made of both again."""
    y, _, variance = normalised(b, x, axes)
    scale = b.rsqrt(variance + 1e-5)
    w = y * 2.0 + x
    return scale * (w - b.mean(w * y, axes, keepdims=True)), b.log(variance + 1.0), scale


MAKERS = {
    f.__name__: f
    for f in (
        softmax_and_logarithm,
        with_mean_and_deviation,
        with_running_averages,
        with_several_of_the_sum,
        of_a_gradient,
    )
}
SHAPES: list[tuple[tuple[int, ...], Axes]] = [
    ((6, 40), (1,)),
    ((64, 64), (0,)),
    ((5, 1000), (1,)),
    ((3, 7, 5), (1,)),
    ((4, 3, 5, 6), (0, 2, 3)),
    ((2, 3, 4, 33), (1, 3)),
    ((300,), (0,)),
    ((1, 40), (1,)),
]


def graph_of(make: Callable[..., Sequence[Node]], shape: tuple[int, ...], axes: Axes) -> Graph:
    b = builder()
    return b.finish(list(make(b, b.input(tensor_type(shape, f32), "x"), axes)), make.__name__)


def check(graph: Graph, driver: Any) -> list[Program]:
    """The programs for both targets, whose results are right."""
    rng, inputs = np.random.default_rng(4), []
    for node in graph.inputs:
        inputs.append(aligned(node.shape, np.float32))
        inputs[-1][...] = rng.normal(size=node.shape) + 0.5
    wanted = evaluate(graph, inputs, wide=True)
    programs = [compile_graph(graph, target) for target in (CPU, CUDA)]
    for program in programs:
        for got, want in zip(run_program(program, inputs, driver), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=5e-5)
    return programs


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("make", MAKERS)
def test_one_kernel(make, shape, axes, cuda_driver, compiler):
    for program in check(graph_of(MAKERS[make], shape, axes), cuda_driver):
        assert len(program.steps) == 1 and program.bytes_moved == program.bytes_min


def too_many(b: Builder, x: Node) -> Sequence[Node]:
    """The reduction does not fit into the kernel of its readers any more."""
    total = b.sum(b.exp(b.exp(x)), (1,), keepdims=True)
    y = x - total
    for k in range(300):
        y = b.tanh(y * (1.0 + k))
    return y, b.log(total)


def of_two_directions(b: Builder, x: Node) -> Sequence[Node]:
    rows, columns = b.sum(x, (1,), keepdims=True), b.sum(x, (0,), keepdims=True)
    return x - rows - columns, b.tanh(rows), b.tanh(columns)


def turned(b: Builder, x: Node) -> Sequence[Node]:
    """Values of rows are read by columns of a square."""
    total = b.sum(x, (1,))
    return x * b.reshape(total, (1, 24)), b.tanh(total)


def of_another_array(b: Builder, x: Node) -> Sequence[Node]:
    total = b.sum(b.transpose(x * 2.0, (1, 0)), (1,), keepdims=True)
    return x + total, b.tanh(total)


@pytest.mark.parametrize(
    ("make", "one"),
    [(too_many, False), (of_two_directions, False), (turned, True), (of_another_array, True)],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_reductions_of_other_rows(make, one, cuda_driver, compiler):
    b = builder()
    graph = b.finish(list(make(b, b.input(tensor_type((24, 24), f32), "x"))), make.__name__)
    assert all((len(p.steps) == 1) is one for p in check(graph, cuda_driver))

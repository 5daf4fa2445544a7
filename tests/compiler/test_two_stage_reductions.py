# SPDX-License-Identifier: Apache-2.0
"""Sums over a batch of rows and along them: the kernel of the rows takes their inner part on its way."""

from __future__ import annotations

import random

import numpy as np
import pytest
from compiler.cases import parse
from compiler.test_column_sums import Made, check, operands, run
from compiler.test_rows_cuda import check as check_cuda

from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA


def statistics(b: Builder, x: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    d = x - b.mean(x, axes, keepdims=True)
    r = b.rsqrt(b.mean(d * d, axes, keepdims=True) + 1e-5)
    return d * r, r


def derivative(b: Builder, n: Node, r: Node, w: Node, axes: tuple[int, ...]) -> Node:
    return r * (w - b.mean(w, axes, keepdims=True) - n * b.mean(w * n, axes, keepdims=True))


def instance_norm(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """``x``: batch, channels, elements of one; ``g``: a number a channel."""
    n, r = statistics(b, x, (2,))
    return derivative(b, n, r, dy * b.reshape(g, (1, *g.shape, 1)), (2,)), b.sum(dy * n, (0, 2)), b.sum(dy, (0, 2))


def of_planes(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """The same of images, whose slopes are summed over other axes than statistics."""
    flat = (*x.shape[:2], x.shape[2] * x.shape[3])
    dx, dg, _ = instance_norm(b, b.reshape(x, flat), b.reshape(dy, flat), g)
    return b.reshape(dx, x.shape), dg * 0.5, b.sum(dy, (0, 2, 3))


def slopes_behind(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """What follows a slope, and a value of each row."""
    dx, dg, db = instance_norm(b, x, dy, g)
    return dx, g - dg * 0.1, b.tanh(db) * g, b.reduce("amax", x, (2,))


def given(b: Builder, shape: tuple[int, ...], dtype: str) -> list[Node]:
    kinds = (shape, shape, shape[1:2])
    return [b.input(parse(f"{dtype}[{','.join(map(str, s))}]"), f"x{k}") for k, s in enumerate(kinds)]


def graph_of(make, shape: tuple[int, ...], dtype: str = "f32") -> Graph:
    b = builder()
    return b.finish(list(make(b, *given(b, shape, dtype))), make.__name__)


CASES = [
    *((f, s) for f in (instance_norm, slopes_behind) for s in ((4, 6, 100), (3, 2, 1030), (16, 8, 64), (2, 3, 17))),
    *((of_planes, s) for s in ((4, 6, 10, 12), (2, 3, 7, 5))),
]


@pytest.mark.parametrize(("make", "shape"), CASES, ids=lambda v: getattr(v, "__name__", None) or str(v))
def test_rows_are_read_once(make, shape, compiler):
    graph = graph_of(make, shape)
    program = check(graph, 1e-4)
    values = 16 * shape[0] * shape[1] + 64 * shape[1]  # slopes of each row, written and read, and what follows them
    assert program.bytes_moved - program.bytes_min <= values
    assert len(program.steps) == 3


@pytest.mark.no_host_code
@pytest.mark.parametrize(("make", "shape"), CASES, ids=lambda v: getattr(v, "__name__", None) or str(v))
def test_rows_are_read_once_on_cuda(make, shape, cuda_driver):
    program = check_cuda(cuda_driver, graph_of(make, shape))
    assert program.bytes_moved - program.bytes_min <= 16 * shape[0] * shape[1] + 64 * shape[1]
    assert len(program.steps) == 3


@pytest.mark.parametrize(("dtype", "rtol"), [("f16", 3e-3), ("bf16", 3e-2), ("f64", 1e-12)])
def test_every_float(dtype, rtol, compiler, cuda_driver):
    """Sums of halves are not rounded on the way."""
    graph = graph_of(instance_norm, (5, 4, 300), dtype)
    check(graph, rtol)
    check_cuda(cuda_driver, graph)


def test_sums_of_halves_beyond_their_range(compiler):
    """Of a row alone they are beyond it, of the batch they are not."""
    b = builder()
    x, dy, g = given(b, (2, 3, 4096), "f16")
    graph = b.finish(list(instance_norm(b, x, dy, g)), "beyond")
    inputs = operands(graph)
    inputs[1][0], inputs[1][1] = 20, -20
    found = run(compile_graph(graph, CPU), inputs)
    for got, want in zip(found[1:], evaluate(graph, inputs, wide=True)[1:], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-2, atol=2.0)


def batch_norm(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Statistics are sums over the batch themselves: there are no rows of an image."""
    n, r = statistics(b, x, (0, 2))
    return derivative(b, n, r, dy, (0, 2)), b.sum(dy * n, (0, 2))


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_sums_without_rows_stay_one(target):
    for make in (batch_norm, lambda b, x, dy, g: [b.sum(x, (0, 2)), x + dy]):
        b = builder()
        program = compile_graph(b.finish(list(make(b, *given(b, (8, 6, 200), "f32"))), "whole"), target)
        # no value for each row of an image goes through memory
        assert all(buffer.shape != (8, 6) for buffer in program.buffers)


def test_a_new_batch_size_has_the_same_texts():
    for target in (CPU, CUDA):
        texts = {
            tuple(k.text for k in compile_graph(graph_of(instance_norm, (n, 16, 400)), target).kernels)
            for n in (8, 9, 24, 32)
        }
        assert len(texts) == 1


def levels(seed: int) -> Graph:
    """Rows of several levels: values of rows, of the batch, and elements made of both."""
    r, b = random.Random(seed), builder()
    n, c, s = r.choice([(4, 6, 70), (9, 3, 128), (2, 5, 33)])
    full = [b.input(parse(f"f32[{n},{c},{s}]"), f"x{k}") for k in range(2)]
    row = [b.input(parse(f"f32[{n},{c},1]"), "s")]
    channel = [b.input(parse(f"f32[1,{c},1]"), "g")]
    for _ in range(r.randint(5, 14)):
        kind, f = r.random(), r.choice(full[-4:])
        if kind < 0.35:
            other = r.choice([r.choice(full), r.choice(row), r.choice(channel)])
            full.append(r.choice([f * other, f + other, b.tanh(f) - other]))
        elif kind < 0.6:
            row.append(b.sum(f, (2,), keepdims=True) * (1.0 / s))
        elif kind < 0.8:
            channel.append(b.sum(f, (0, 2), keepdims=True) * (1.0 / (n * s)))
        elif kind < 0.9:
            row.append(b.sum(r.choice(row) * r.choice(channel), (1,), keepdims=True) * r.choice(row))
        else:
            channel.append(b.sum(r.choice(row), (0,), keepdims=True) * r.choice(channel))
    outputs = dict.fromkeys([full[-1], *(x for x in full[2:] + row[1:] if r.random() < 0.4), *channel[1:4]])
    return b.finish([x for x in outputs if x.prim.name != "input"] or [full[0] + 1.0], "levels")


@pytest.mark.parametrize("seed", range(16))
def test_rows_of_several_levels(seed, compiler):
    check(levels(seed), 1e-4)


@pytest.mark.no_host_code
@pytest.mark.parametrize("seed", range(16, 26))
def test_rows_of_several_levels_on_cuda(seed, cuda_driver):
    check_cuda(cuda_driver, levels(seed))

# SPDX-License-Identifier: Apache-2.0
"""Sums of float16 and bfloat16 in several kernels: what is made of them is within bounds that they leave themselves."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import parse
from compiler.one_pass import run_pass
from emulated import run_program

from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import Interpreter, evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32

TYPES = {"f16": 2e-3, "bf16": 2e-2}


def mean_beside_others(b: Builder, x: Node) -> list[Node]:
    """A sum beyond halves by the kernel of the elements, divided by that of another sum."""
    y = x / (b.abs(x) + 1.0)
    rows = b.sum(x, (1,)) * 0.01
    return [b.mean(y * y * 4.0) + b.mean(rows * rows), y]


def norms_of_columns(b: Builder, x: Node) -> list[Node]:
    """Norms beyond halves, by which another kernel divides."""
    big = x * 20000.0
    norm = b.sqrt(b.sum(big * big, (0,), keepdims=True)) + 1.0
    return [b.sum(big / norm, (1,)), b.mean(big / norm, (0,)), norm * 0.001]


def mean_of_means(b: Builder, x: Node) -> list[Node]:
    big = x * 10000.0
    return [b.mean(b.mean(big, (1,)), (0,)), b.mean(b.mean(big, (0,)))]


def slope_of_a_mean(b: Builder, x: Node) -> list[Node]:
    """A millionth has four bits as a half."""
    rows = b.tanh(b.mean(x, (1,), keepdims=True)) * 1e-6
    return [b.sum(x * rows, (0,)) * 1e4, (x * rows) * 1e6]


CASES = [
    (mean_beside_others, (700, 352)),
    (norms_of_columns, (300, 40)),
    (mean_of_means, (96, 130)),
    (slope_of_a_mean, (90, 40)),
]


def made(make, shape: tuple[int, ...], dtype: str) -> tuple[Graph, list[np.ndarray]]:
    b = builder()
    x = b.input(parse(f"{dtype}[{','.join(map(str, shape))}]"), "x")
    graph = b.finish(make(b, x), make.__name__)
    return graph, [(1 + np.random.default_rng(0).random(shape)).astype(x.dtype.np)]


def close(found: list[np.ndarray], graph: Graph, inputs: list[np.ndarray], rtol: float) -> None:
    for got, want in zip(found, evaluate(graph, inputs, wide=True), strict=True):
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=rtol * abs(want).max() / 8)


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("make", "shape"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_where_kernels_end_makes_no_difference(make, shape, dtype, target, numeric, compiler, cuda_driver):
    graph, inputs = made(make, shape, dtype)
    program = compile_graph(graph, target.with_numeric(numeric))
    assert len(program.steps) > 1
    close(run_program(program, inputs, cuda_driver, exact=False), graph, inputs, TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_in_parts(dtype, cuda_driver):
    """On a GPU a long row is summed in parts, whose sums another kernel adds up."""
    graph, inputs = made(lambda b, x: [b.mean(x * 100.0, (1,))], (1, 5000), dtype)
    program = compile_graph(graph, CUDA.changed(launch_seconds=0.0, part_elements=256))
    assert len(program.steps) == 2
    close(run_program(program, inputs, cuda_driver, exact=False), graph, inputs, TYPES[dtype])


def test_a_sum_that_is_a_result_is_what_it_is_as_a_half(compiler):
    graph, inputs = made(lambda b, x: [b.sum(x), b.mean(x)], (700, 352), "f16")
    program = compile_graph(graph, CPU)
    assert [r.tolist() for r in run_program(program, inputs, None)] == [np.inf, pytest.approx(1.5, rel=1e-3)]
    assert [r.tolist() for r in Interpreter(graph)(*inputs)] == [np.inf, pytest.approx(1.5, rel=1e-3)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [20000, 5_000_000, 1 << 26])
def test_means_of_any_number(count, dtype):
    """As a half 1 / count has few digits, and none at all from 2**25 on."""
    b = builder()
    x = b.input(parse(f"{dtype}[1]"), "x")
    graph = b.finish([b.mean(b.broadcast(x, (count,)))], "many")
    (got,) = Interpreter(graph)(np.full(1, 1.5, x.dtype.np))
    assert float(got) == 1.5
    factor = next(i for n in graph.nodes if n.prim.name == "mul" for i in n.inputs if i.prim.name == "full")
    assert factor.dtype is f32 and factor.params["value"] == np.float32(1 / count)


def test_few_numbers_are_kept_wide():
    """Until there are as many of them as elements, or the graph rounds them."""
    b = builder()
    x = b.input(parse("f16[64,32]"), "x")
    s = b.reshape(b.sum(x, (1,)), (64, 1))
    root = b.sqrt(s + 1.0)
    rounded = b.cast(b.cast(root, f32) * 2.0, x.dtype)
    most = b.reduce("amax", b.reshape(root, (8, 8)), (1,))
    pairs = b.sum(b.reshape(x, (64, 16, 2)), (2,)) * 3.0
    graph = run_pass("promote_small_results", b.finish([x / root, b.neg(rounded), most, pairs]), CPU)
    types = [(n.prim.name, n.dtype.short) for n in graph.nodes if n.prim.family in ("elementwise", "reduce")]
    assert sorted(types) == sorted(
        [("sum", "f32"), ("add", "f32"), ("sqrt", "f32"), ("amax", "f32"), ("mul", "f32"), ("sum", "f32")]
        + [(name, "f16") for name in ("div", "cast", "neg", "mul")]
    )

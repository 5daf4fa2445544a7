# SPDX-License-Identifier: Apache-2.0
"""Totals: reductions over all rows of one value of each, as a loss's mean is, in the host's kernel that walks the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from compiler.cases import parse
from compiler.cases.windows import spread_windows
from emulated import aligned

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import from_short

Made = Sequence[Node]


def log_softmax(b: Builder, x: Node) -> Node:
    d = x - b.reduce("amax", x, (-1,), keepdims=True)
    return d - b.log(b.sum(b.exp(d), (-1,), keepdims=True))


def picked(b: Builder, x: Node, label: Node) -> Node:
    at = b.max(b.min(b.cast(label, b.iota((1,), 0, parse("i32[1]").dtype).dtype), x.shape[-1] - 1), 0)
    found = b.take_along(log_softmax(b, x), b.reshape(at, (*at.shape, 1)), axis=x.ndim - 1)
    return b.reshape(found, at.shape)


def every(x: Node) -> tuple[int, ...]:
    return tuple(range(x.ndim))


def cross_entropy(b: Builder, x: Node, label: Node) -> Made:
    loss = b.neg(picked(b, x, label))
    return [b.mean(loss, every(loss))]


def focal(b: Builder, x: Node, label: Node) -> Made:
    p = picked(b, x, label)
    q = 1.0 - b.exp(p)
    return [b.sum(b.neg(q * q * p), every(p)) * 0.25]


def norms(b: Builder, x: Node, label: Node) -> Made:
    """No result but totals, two of them, and what follows them."""
    n = b.sqrt(b.sum(x * x, (-1,)))
    return [b.mean(n, every(n)), b.exp(b.neg(b.reduce("amax", n, every(n)))), b.reduce("amin", n, every(n))]


def least(b: Builder, x: Node, label: Node) -> Made:
    """A value of each row is a result, too."""
    found = b.reduce("amin", log_softmax(b, x), (-1,))
    return [found, b.mean(found, every(found))]


def softmax_and_mean(b: Builder, x: Node, label: Node) -> Made:
    """So is something of every element."""
    y = log_softmax(b, x)
    found = b.reduce("amin", y, (-1,))
    return [b.exp(y), found, b.mean(found, every(found))]


def product(b: Builder, x: Node, label: Node) -> Made:
    v = b.cast(b.gt(b.sum(x, (-1,)), 30.0), x.dtype) * 2.0 - 1.0
    return [b.reduce("prod", v, every(v))]


def counted(b: Builder, x: Node, label: Node) -> Made:
    """How many rows are like their label: integers of a search's results."""
    right = b.eq(b.cast(b.reduce("argmax", x, (-1,)), label.dtype), label)
    return [b.sum(b.cast(right, label.dtype), every(label))]


def weighted(b: Builder, x: Node, label: Node) -> Made:
    """Of rows that lie in columns of a matrix."""
    v = b.sum(x * x, (0,))
    return [b.sum(b.sqrt(v), every(v))]


MAKERS = {f.__name__: f for f in (cross_entropy, focal, norms, least, product, counted, weighted)}
#: rows of a tile, of lanes, of lengths that are told, of several walks together, of parts; several axes of rows
SHAPES = [(6, 64), (200, 10), (65, 257), (3, 70, 96), (5, 3, 12), (2, 1500), (4200, 70), (130, 17)]


def graph_of(make: Callable[..., Made], shape: tuple[int, ...], dtype: str = "f32") -> Graph:
    b = builder()
    kinds = (f"{dtype}[{','.join(map(str, shape))}]", f"i32[{','.join(map(str, shape[:-1]))}]")
    return b.finish(list(make(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(kinds)))), make.__name__)


def operands(graph: Graph) -> list[np.ndarray]:
    rng, found = np.random.default_rng(4), []
    for node in graph.inputs:
        found.append(aligned(node.shape, node.dtype.np))
        integer = node.dtype.kind == "i"
        found[-1][...] = rng.integers(0, 10, node.shape) if integer else rng.normal(size=node.shape) + 0.5
    return found


def run(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    cpu_backend().load(program)(inputs, outputs)
    return outputs


def check(graph: Graph, rtol: float = 2e-5) -> Program:
    program, inputs = compile_graph(graph, CPU), operands(graph)
    found = run(program, inputs)
    for got, want in zip(found, evaluate(graph, inputs, wide=True), strict=True):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, np.abs(want).max()))
    for got, again in zip(found, run(program, inputs), strict=True):
        assert got.tobytes() == again.tobytes()
    return program


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", MAKERS)
def test_one_kernel_reads_everything_once(make, shape, compiler):
    program = check(graph_of(MAKERS[make], shape))
    assert len(program.steps) == 1 and program.bytes_moved == program.bytes_min
    assert program.kernels[0].choice["full_reductions"] == {"norms": 3}.get(make, 1)


@pytest.mark.parametrize(("dtype", "rtol"), [("f16", 2e-3), ("bf16", 2e-2), ("f64", 1e-12)])
@pytest.mark.parametrize("shape", [(70, 90), (70, 10)], ids=str)
@pytest.mark.parametrize("make", ["cross_entropy", "norms", "least"])
def test_every_float(make, shape, dtype, rtol, compiler):
    assert len(check(graph_of(MAKERS[make], shape, dtype), rtol).steps) == 1


@pytest.mark.parametrize("width", [10, 64])
def test_many_rows_are_added_up_in_parts(width, compiler):
    """A sum of 300,000 values of one sign in float32: added up one after the other they lose three digits."""
    graph = graph_of(cross_entropy, (300_000, width))
    inputs = operands(graph)
    (found,) = run(compile_graph(graph, CPU), inputs)
    (wanted,) = evaluate(graph, inputs, wide=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("make", ["cross_entropy", "norms"])
@pytest.mark.parametrize("width", [10, 96, 101])
def test_text_is_the_same_for_every_number_of_rows(make, width):
    texts = {compile_graph(graph_of(MAKERS[make], (rows, width)), CPU).kernels[0].text for rows in (65, 80, 300, 70000)}
    assert len(texts) == 1


@pytest.mark.parametrize("shape", [(6, 64), (65, 257), (3, 70, 96), (4200, 70)], ids=str)
def test_every_element_of_rows_is_stored_on_the_way(shape, compiler):
    program = check(graph_of(softmax_and_mean, shape))
    assert len(program.steps) == 1 and program.bytes_moved == program.bytes_min and not program.refusals


@pytest.mark.parametrize("shape", [(70, 100), (70, 10)], ids=str)
def test_a_total_does_not_change_results_of_rows(shape, compiler):
    """Rows from which a total is taken have the bits that they have without it, at other places, too."""
    graph = graph_of(softmax_and_mean, shape)
    inputs = operands(graph)
    both = run(compile_graph(graph, CPU), inputs)
    b = builder()
    x = b.input(parse(f"f32[{shape[0]},{shape[1]}]"), "x")
    y = log_softmax(b, x)
    alone = run(compile_graph(b.finish([b.exp(y), b.reduce("amin", y, (-1,))], "g"), CPU), [inputs[0][::-1].copy()])
    for got, want in zip(both, alone):
        assert got.tobytes() == want[::-1].copy().tobytes()


def by_its_total(b: Builder, x: Node, label: Node) -> Made:
    n = b.sum(x, (-1,))
    return [n / b.sum(n, every(n), keepdims=True)]


def about_its_mean(b: Builder, x: Node, label: Node) -> Made:
    n = b.sum(x, (-1,))
    d = n - b.mean(n, every(n), keepdims=True)
    return [b.mean(d * d, every(n))]


def where_it_is_best(b: Builder, x: Node, label: Node) -> Made:
    n = b.sum(x, (-1,))
    return [b.reduce("argmax", n, every(n))]


def beside_sums(b: Builder, x: Node, label: Node) -> Made:
    y = b.exp(log_softmax(b, x))
    n = b.reduce("amin", y, (-1,))
    return [y, b.sum(y, (0,)), b.sum(n, every(n))]


def of_windows(b: Builder, x: Node, label: Node) -> Made:
    y = b.reduce("amax", spread_windows(b, x, (3, 3), (1, 1), (1, 1)), (0, 1))
    return [b.sum(y, every(y))]


@pytest.mark.parametrize(
    "make", [by_its_total, about_its_mean, where_it_is_best, beside_sums, of_windows], ids=lambda f: f.__name__
)
def test_what_is_no_total_on_the_way(make, compiler):
    """What all rows wait for, positions, windows, and rows over which sums are taken already."""
    program = check(graph_of(make, (70, 100)))
    assert len(program.steps) > 1 and not any("full_reductions" in k.choice for k in program.kernels)


def clipped(b: Builder, x: Node, label: Node) -> Made:
    """As gradients are by their norm."""
    n = b.sum(x * x, (-1,))
    return [x * b.reshape(b.max(b.sqrt(b.sum(n, every(n))), 1.0), (1,) * x.ndim)]


def contrasted(b: Builder, x: Node, label: Node) -> Made:
    """As pictures are: the mean of what is computed of each row, added to every element; values of rows are results."""
    n = b.sum(x * 0.3, (-1,))
    return [x * 0.7 + b.reshape(b.mean(n, every(n)) * 0.3, (1,) * x.ndim), n]


@pytest.mark.parametrize("shape", [(6, 64), (200, 10), (20, 3), (65, 257), (5, 4, 3)], ids=str)
@pytest.mark.parametrize("make", [clipped, contrasted], ids=lambda f: f.__name__)
def test_elements_that_wait_for_the_total_are_a_second_walk(make, shape, compiler):
    program = check(graph_of(make, shape))
    assert [k.choice.get("full_reductions", 0) for k in program.kernels] == [1, 0]


@pytest.mark.parametrize("make", ["cross_entropy", "focal", "norms"])
def test_a_gpu_begins_behind_the_last_row_and_says_so(make):
    program = compile_graph(graph_of(MAKERS[make], (70, 100)), CUDA)
    assert len(program.steps) > 1
    assert any("is taken over all rows, which blocks of a GPU walk side by side" in why for *_, why in program.refusals)

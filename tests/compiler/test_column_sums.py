# SPDX-License-Identifier: Apache-2.0
"""Sums over all rows in the kernel that walks the rows: a normalisation's slopes beside its derivative."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from compiler.cases import parse
from emulated import aligned

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import from_short

Made = Sequence[Node]


def outer(x: Node) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1))


def normalised(b: Builder, x: Node) -> tuple[Node, Node]:
    d = x - b.mean(x, (-1,), keepdims=True)
    scale = b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)
    return d * scale, scale


def norm_slopes(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """As LayerNorm's derivative; the statistics are computed anew."""
    n, scale = normalised(b, x)
    w = dy * g
    dx = scale * (w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True))
    return dx, b.sum(dy * n, outer(x)), b.sum(dy, outer(x))


def slopes_first(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """The same results in another order, so that columns are met before rows."""
    dx, dg, db = norm_slopes(b, x, dy, g)
    return db, dg, dx


def softmax_bias(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """A row's sum and a shift's slope: what is added up is a result."""
    e = b.exp(x + g - b.reduce("amax", x + g, (-1,), keepdims=True))
    y = e / b.sum(e, (-1,), keepdims=True)
    dx = y * (dy - b.sum(dy * y, (-1,), keepdims=True))
    return dx, b.sum(dx, outer(x))


def scaled_slopes(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """What follows a sum is computed behind the last row: here the step of an optimiser."""
    dx, dg, db = norm_slopes(b, x, dy, g)
    return dx, g - dg * 0.1, b.tanh(db) * g


def rows_as_results(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Rows, a value of each, and sums over them."""
    n, scale = normalised(b, x)
    return n * dy, scale, b.sum(n * dy * g, outer(x))


def softmaxes(count: int) -> Callable[..., Made]:
    """Several of multiples of one array, each with a sum over all rows of its own."""

    def make(b: Builder, x: Node, dy: Node, g: Node) -> Made:
        made: list[Node] = []
        for k in range(count):
            e = b.exp((x - b.reduce("amax", x, (-1,), keepdims=True)) * (k + 1.0))
            y = e / b.sum(e, (-1,), keepdims=True)
            made += [y, b.sum(y * dy, outer(x))]
        return tuple(made)

    return make


MAKERS = {f.__name__: f for f in (norm_slopes, slopes_first, softmax_bias, scaled_slopes, rows_as_results)}
SHAPES = [(6, 64), (200, 100), (65, 257), (3, 70, 96), (2, 1500)]


def graph_of(make: Callable[..., Made], shape: tuple[int, ...], dtype: str = "f32") -> Graph:
    b = builder()
    kinds = (shape, shape, shape[-1:])
    nodes = [b.input(parse(f"{dtype}[{','.join(map(str, s))}]"), f"x{k}") for k, s in enumerate(kinds)]
    return b.finish(list(make(b, *nodes)), make.__name__)


def run(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    cpu_backend().load(program)(inputs, outputs)
    return outputs


def operands(graph: Graph) -> list[np.ndarray]:
    rng, found = np.random.default_rng(4), []
    for node in graph.inputs:
        found.append(aligned(node.shape, node.dtype.np))
        found[-1][...] = rng.normal(size=node.shape) + 0.5
    return found


def check(graph: Graph, rtol: float = 2e-5) -> Program:
    program, inputs = compile_graph(graph, CPU), operands(graph)
    for got, want in zip(run(program, inputs), evaluate(graph, inputs, wide=True), strict=True):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, np.abs(want).max()))
    return program


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", MAKERS)
def test_one_kernel_reads_everything_once(make, shape, compiler):
    program = check(graph_of(MAKERS[make], shape))
    assert len(program.steps) == 1 and program.bytes_moved == program.bytes_min
    assert program.kernels[0].choice["column_sums"] == {"softmax_bias": 1, "rows_as_results": 1}.get(make, 2)


TOGETHER = "sums are taken on the way over rows, "


@pytest.mark.parametrize(("count", "width", "sums"), [(2, 128, [2]), (4, 3072, [4]), (4, 4096, [0, 1, 3])])
def test_walks_with_sums_become_one_as_far_as_these_fit(count, width, sums, compiler):
    program = check(graph_of(softmaxes(count), (20, width)))
    assert sorted(k.choice.get("column_sums", 0) for k in program.kernels) == sums  # 0: the maximum, for two
    assert any(why.startswith(TOGETHER) for *_, why in program.refusals) is (len(sums) > 1)


def test_a_lone_row_has_no_sums(compiler):
    program = check(graph_of(norm_slopes, (1, 64)))
    assert not any("column_sums" in k.choice for k in program.kernels)


@pytest.mark.parametrize(("dtype", "rtol"), [("f16", 2e-3), ("bf16", 2e-2), ("f64", 1e-12)])
@pytest.mark.parametrize("make", ["softmax_bias", "rows_as_results"])
def test_every_float(make, dtype, rtol, compiler):
    program = check(graph_of(MAKERS[make], (70, 90), dtype), rtol)
    assert len(program.steps) == 1


def test_many_rows_are_added_up_in_parts(compiler):
    """A sum of 60,000 values of one sign in float32: added up one after the other they lose three digits."""
    b = builder()
    x = b.input(parse("f32[60000,64]"), "x")
    y = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    graph = b.finish([y / b.sum(y, (-1,), keepdims=True), b.sum(y, (0,))], "many")
    inputs = operands(graph)
    found, wanted = run(compile_graph(graph, CPU), inputs)[1], evaluate(graph, inputs, wide=True)[1]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_text_is_the_same_for_every_number_of_rows():
    texts = {compile_graph(graph_of(norm_slopes, (rows, 96)), CPU).kernels[0].text for rows in (5, 16, 17, 300, 70000)}
    assert len(texts) == 1


def dear_to_compute(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """What is added up is an exponential, which a sum along the row has needed before."""
    e = b.exp(x * g)
    return e / b.sum(e, (-1,), keepdims=True) * dy, b.sum(e, outer(x))


@pytest.mark.parametrize(
    ("make", "width", "reduced"),
    [(norm_slopes, 192, 4), (norm_slopes, 96, 3), (rows_as_results, 192, 2), (dear_to_compute, 192, 0)],
)
def test_which_walk_takes_sums_in(make, width, reduced, compiler):
    """The last one, where fewer states compete for registers, unless it had to compute much again for that."""
    (kernel,) = check(graph_of(make, (70, width))).kernels
    before, _ = re.split(r"part_s0\[[^]]*\] \+= ", kernel.text)
    assert before.count(".fold(") == reduced


def before_a_product(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Rows that a product waits for run before the level of results, and slopes with them."""
    dx, dg, db = norm_slopes(b, x, dy, g)
    w = b.input(parse(f"f32[{x.shape[-1]},512]"), "w")
    return b.dot(dx, w), dg, db


def of_what_a_product_reads(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """The slope of a bias is the sum of what its kernel writes for a product."""
    dx = softmax_bias(b, x, dy, g)[0]
    w = b.input(parse(f"f32[{x.shape[-1]},512]"), "w")
    return b.dot(dx, w), b.sum(dx, outer(x))


def behind_a_product(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """What is summed comes from a product that runs before."""
    w = b.input(parse(f"f32[{x.shape[-1]},{x.shape[-1]}]"), "w")
    return norm_slopes(b, x, b.dot(dy, w), g)


@pytest.mark.parametrize("make", [before_a_product, of_what_a_product_reads, behind_a_product])
def test_sums_move_to_the_level_of_their_rows(make, compiler):
    program = check(graph_of(make, (128, 256)), 1e-4)
    assert len(program.steps) == 2
    assert sum("column_sums" in k.choice for k in program.kernels) == 1


def between_products(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """What is summed needs a product of the rows themselves: these cannot wait for it."""
    dx = softmax_bias(b, x, dy, g)[0]
    w = b.input(parse(f"f32[{x.shape[-1]},{x.shape[-1]}]"), "w")
    return dx, b.sum(b.tanh(b.dot(dx, w)) * x, outer(x))


def awaited(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """A sum over rows that every element waits for."""
    n, _ = normalised(b, x)
    centred = x - b.mean(x, outer(x), keepdims=True)
    return n, centred * dy


def in_turn(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Rows that read sums over all rows of their own operand."""
    y = b.exp(x) / b.sum(b.exp(x), outer(x), keepdims=True)
    return (b.exp(y) / b.sum(b.exp(y), (-1,), keepdims=True),)


def extremes(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    n, _ = normalised(b, x)
    return n, b.reduce("amax", x, outer(x))


def turned(x: Node, b: Builder) -> Node:
    """A value of each row as one of each column, and the other way round; a square's transpose."""
    return b.transpose(x, (1, 0))


def values_of_rows_along_columns(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """As the matrix of a graph is scaled by degrees from both sides: sums over rows read those of other rows."""
    degree = b.sum(x * x, (-1,), keepdims=True)
    return x / degree, b.sum(dy * x / turned(degree, b), (0,))


def rows_and_their_transpose(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    e = b.exp(x)
    y = e / b.sum(e, (-1,), keepdims=True)
    return y, b.sum(x * turned(y, b) + y, (0,))


TURNED = [values_of_rows_along_columns, rows_and_their_transpose]


@pytest.mark.parametrize("make", TURNED)
def test_of_a_square_rows_are_not_taken_for_columns(make, compiler):
    check(graph_of(make, (72, 72)))


def softmax(b: Builder, x: Node) -> Node:
    e = b.exp(x)
    return e / b.sum(e, (-1,), keepdims=True)


def sum_of_all(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """A sum over rows and columns is none for each element of a row."""
    total = b.sum(x * dy, (0, 1))
    return softmax(b, x), total


def sum_of_sums(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """A sum over rows is added up itself."""
    s = b.sum(x, outer(x), keepdims=True)
    return softmax(b, x), b.sum(b.broadcast(s, x.shape), outer(x))


def sums_of_both(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Rows of one array are columns of the other, over which sums are taken already."""
    return b.sum(x * turned(dy, b), (-1,)), b.sum(x * 1.5, outer(x)), softmax(b, dy + 1.0)


def sums_behind_sums(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """What is added up last needs sums that are taken beside rows, which products wait for."""
    s = b.sum(x * dy, outer(x), keepdims=True)
    width = x.shape[-1]
    w = b.input(parse(f"f32[{width},{width}]"), "w")
    waited = b.dot(b.dot(softmax(b, x), w), b.reshape(b.dot(b.tanh(s), w), (width, 1)))
    return waited, b.sum(b.tanh(x * s), outer(x))


#: what may be no sum beside rows -> how many of its sums may
NONE_OR_ONE = [(sum_of_all, 0), (sum_of_sums, 0), (sums_of_both, 1), (sums_behind_sums, 1)]


@pytest.mark.parametrize(("make", "sums"), NONE_OR_ONE)
def test_what_is_no_sum_beside_rows(make, sums, compiler):
    program = check(graph_of(make, (128, 128)), 1e-4)
    assert sum(k.choice.get("column_sums", 0) for k in program.kernels) == sums


def in_pieces(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Columns that are walked by two axes, and rows by one."""
    pieces = b.reshape(x, (*x.shape[:-1], 4, x.shape[-1] // 4))
    return softmax(b, x), b.sum(pieces * b.reshape(g, (4, x.shape[-1] // 4)), outer(x))


def test_columns_of_rows_in_pieces(compiler):
    (kernel,) = check(graph_of(in_pieces, (50, 100))).kernels
    assert kernel.choice["column_sums"] == 1


REFUSED: list[tuple[Any, tuple[int, ...], str]] = [
    (between_products, (128, 256), ""),
    (awaited, (50, 100), "needs its sums over all rows before these were walked"),
    (in_turn, (50, 100), "needs its sums over all rows before these were walked"),
    (extremes, (50, 100), "which add up sums only on the way"),
    (norm_slopes, (50, 48), "whose 48 elements are too few to be walked one by one"),
    (norm_slopes, (50, 20000), "KiB of sums would have to stay in the caches"),
]


@pytest.mark.parametrize(("make", "shape", "reason"), REFUSED)
def test_what_is_refused_and_why(make, shape, reason, compiler):
    program = check(graph_of(make, shape), 1e-4)
    assert not any("column_sums" in k.choice for k in program.kernels)
    assert not reason or any(rule == "column-sums" and reason in why for _, _, rule, why in program.refusals), (
        program.refusals
    )


def test_nothing_waits_for_itself(compiler):
    """Steps run in an order in which whatever is read was written before."""
    for make in (before_a_product, of_what_a_product_reads, behind_a_product, between_products, in_turn):
        program = compile_graph(graph_of(make, (128, 256)), CPU)
        there = {k for k, buffer in enumerate(program.buffers) if buffer.space == "input"}
        for step in program.steps:
            read = step.buffers[: -step.outputs] if isinstance(step, KernelStep) else step.inputs
            written = step.buffers[-step.outputs :] if isinstance(step, KernelStep) else (step.output,)
            assert there.issuperset(read)
            there.update(written)


def mixture(seed: int) -> Graph:
    """A random graph of elements, values of rows and of columns, and products."""
    r, b = random.Random(seed), builder()
    rows, columns = r.choice([(9, 64), (70, 80), (64, 64), (33, 130)])
    full = [b.input(parse(f"f32[{rows},{columns}]"), f"x{k}") for k in range(2)]
    column, row = [b.input(parse(f"f32[1,{columns}]"), "g")], [b.input(parse(f"f32[{rows},1]"), "s")]
    w = b.input(parse(f"f32[{columns},{columns}]"), "w")
    for _ in range(r.randint(5, 14)):
        if rows == columns and r.random() < 0.3:
            here, there = r.choice([(full, full), (row, column), (column, row)])
            there.append(turned(r.choice(here), b))
        kind, f = r.random(), r.choice(full[-4:])
        if kind < 0.3:
            other = r.choice([r.choice(full), r.choice(column), r.choice(row)])
            full.append(r.choice([f * other, f + other, b.tanh(f) - other, f * 0.5 + other * b.tanh(other)]))
        elif kind < 0.55:
            row.append(b.sum(f, (1,), keepdims=True) * (1.0 / columns))
        elif kind < 0.62:
            row.append(b.reduce("amax", f, (1,), keepdims=True))
        elif kind < 0.85:
            column.append(b.sum(f, (0,), keepdims=True) * (1.0 / rows))
        elif kind < 0.9:
            full.append(b.dot(b.tanh(f), w) * (1.0 / columns))
        elif kind < 0.95:
            column.append(b.tanh(r.choice(column)) + r.choice(column))
        else:
            row.append(b.tanh(r.choice(row)) * r.choice(row))
    wanted = [n for n in full[2:] + row[1:] if r.random() < 0.4]
    outputs = dict.fromkeys([full[-1], *wanted, *column[1:4]])
    return b.finish([n for n in outputs if n.prim.name != "input"] or [full[0] + 1.0], "mixture")


@pytest.mark.parametrize("seed", range(100, 112))
def test_mixtures(seed, compiler):
    check(mixture(seed), 1e-4)


@pytest.mark.no_host_code
def test_many_mixtures_have_plans():
    """About half of them take sums beside rows."""
    programs = [compile_graph(mixture(seed), CPU) for seed in range(60)]
    assert sum(any("column_sums" in k.choice for k in p.kernels) for p in programs) > 15


def a_value_of_columns(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """Beside a sum something of its size is stored that does not wait for it."""
    dx, dg, _ = norm_slopes(b, x, dy, g)
    t = b.tanh(g)
    return dx, dg + t, t


def test_a_value_of_columns_is_stored_once(compiler):
    program = check(graph_of(a_value_of_columns, (50, 100)))
    assert len(program.steps) <= 2

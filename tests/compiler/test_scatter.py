# SPDX-License-Identifier: Apache-2.0
"""Kernels that write at computed positions: gradients of gathers, histograms, rows replaced."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from guard_pages import guarded, guarded_copy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import bf16, bool_, f16, f32, f64, from_short, i8, i32, i64, u8

pytestmark = pytest.mark.usefixtures("compiler")


def graph_of(make, *types):
    b = builder()
    return b.finish([make(b, *(b.input(tensor_type(shape, dtype), f"x{k}") for k, (shape, dtype) in enumerate(types)))])


def run(program, *arrays):
    outputs = [guarded(shape, from_short(short).np) for shape, short in program.outputs]
    cpu_backend().load(program)([guarded_copy(a) for a in arrays], outputs)
    return outputs[0]


def kinds(program):
    return [k.kind for k in program.kernels] + [s.primitive for s in program.steps if isinstance(s, LibraryStep)]


def added(updates, at, axis, extent):
    """The definition: one update after the other, in the updates' own type."""
    out = np.zeros((*updates.shape[:axis], extent, *updates.shape[axis + at.ndim :]), updates.dtype)
    flat = updates.reshape((*updates.shape[:axis], at.size, *updates.shape[axis + at.ndim :]))
    with np.errstate(over="ignore"):
        for k, row in enumerate(at.reshape(-1)):
            place = (*[slice(None)] * axis, row)
            out[place] = out[place] + flat[(*[slice(None)] * axis, k)]
    return out


SHAPES = {
    "rows": ((40, 33), (40,), 0, 7),
    "rows of a grid": ((5, 8, 16), (5, 8), 0, 9),
    "elements": ((500,), (500,), 0, 11),
    "short rows": ((90, 3), (90,), 0, 6),
    "columns": ((6, 70), (70,), 1, 5),
    "inside": ((3, 50, 4), (50,), 1, 8),
    "one place": ((64, 5), (64,), 0, 1),
    "one update": ((1, 20), (1,), 0, 4),
}


@pytest.mark.parametrize("dtype", [f32, f64, i8, u8, i32, i64], ids=lambda t: t.short)
@pytest.mark.parametrize("case", SHAPES)
def test_sums_have_the_bits_of_one_addition_after_the_other(case, dtype):
    shape, where, axis, extent = SHAPES[case]
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=axis, extent=extent), (shape, dtype), (where, i32))
    program = compile_graph(graph, CPU)
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(3)
    updates = (rng.standard_normal(shape) * 100).astype(np.int64 if dtype.kind in "iu" else np.float64).astype(dtype.np)
    at = rng.integers(0, extent, where, dtype=np.int32)
    got = run(program, updates, at)
    assert got.tobytes() == added(updates, at, axis, extent).tobytes()
    assert program.bytes_moved == updates.nbytes + at.nbytes + got.nbytes


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_along_an_axis(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axis, extent = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 6))
    graph = graph_of(lambda b, g, i: b.scatter_along(g, i, axis=axis, extent=extent), (shape, f64), (shape, i64))
    program = compile_graph(graph, CPU)
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    updates, at = rng.standard_normal(shape), rng.integers(0, extent, shape)
    want = np.zeros((*shape[:axis], extent, *shape[axis + 1 :]))
    for place in np.ndindex(*shape):
        want[(*place[:axis], at[place], *place[axis + 1 :])] += updates[place]
    assert run(program, updates, at).tobytes() == want.tobytes()


def replacing(dtype, filled):
    """(graph, its inputs, its result): 30 rows replace 8, most of them several times."""

    def make(b, x, u, i):
        return b.scatter_set(b.full((8, 12), 1, dtype) if filled else x, u, i)

    rng = np.random.default_rng(1)
    x, u = (rng.integers(0, 2 if dtype is bool_ else 90, s).astype(dtype.np) for s in ((8, 12), (30, 12)))
    at = rng.integers(0, 7, 30)
    want = np.ones_like(x) if filled else x.copy()
    for k, row in enumerate(at):
        want[row] = u[k]
    return graph_of(make, ((8, 12), dtype), ((30, 12), dtype), ((30,), i64)), (x, u, at), want


@pytest.mark.parametrize("dtype", [f32, f16, i8, bool_], ids=lambda t: t.short)
@pytest.mark.parametrize("filled", [False, True], ids=["of an array", "of a constant"])
def test_of_rows_replaced_twice_the_last_stays(dtype, filled):
    graph, inputs, want = replacing(dtype, filled)
    program = compile_graph(graph, CPU)
    assert kinds(program) == ["scatter"]
    np.testing.assert_array_equal(run(program, *inputs), want)


def test_replaced_rows_keep_their_bits():
    """What is only moved is not converted: NaNs stay the ones that they were."""
    program = compile_graph(
        graph_of(lambda b, x, u, i: b.scatter_set(x, u, i), ((6, 64), f16), ((4, 64), f16), ((4,), i32)), CPU
    )
    assert [k.choice["why"] for k in program.kernels] == ["replaces rows in the order of the updates"]
    bits = np.arange(0x7C00, 0x7C00 + 640, dtype=np.uint16).reshape(10, 64)  # infinity, then NaNs that signal or not
    x, u = bits[:6].view(np.float16), bits[6:].view(np.float16)
    want = np.concatenate([bits[:2], bits[6:]])
    assert run(program, x, u, np.arange(2, 6, dtype=np.int32)).tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [f16, bf16], ids=lambda t: t.short)
def test_halves_are_summed_in_float(dtype):
    """One by one, in their own type, ones would stop to count at 2048 (256)."""
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=0, extent=2), ((4096, 3), dtype), ((4096,), i32))
    at = np.zeros(4096, np.int32)
    np.testing.assert_array_equal(
        run(compile_graph(graph, CPU), np.ones((4096, 3), dtype.np), at).astype(np.float32), [[4096] * 3, [0] * 3]
    )


def test_what_is_no_sum_of_numbers_stays_a_library_call():
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=0, extent=3), ((9,), bool_), ((9,), i32))
    assert kinds(compile_graph(graph, CPU)) == ["scatter_add"]


def test_what_adds_up_itself_is_not_part_of_it():
    graph = graph_of(
        lambda b, g, i: b.scatter_add(b.sum(b.exp(g), (1,)), i, axis=0, extent=3), ((9, 50), f32), ((9,), i32)
    )
    program = compile_graph(graph, CPU)
    assert kinds(program) == ["reduce", "scatter"]
    assert ("sum", "scatter_add") in [cut[:2] for cut in program.refusals]
    assert any("takes elementwise work on its operands only" in cut[3] for cut in program.refusals)


def test_a_product_reads_the_table_from_memory():
    graph = graph_of(
        lambda b, g, i, w: b.dot(b.scatter_add(g, i, axis=0, extent=6), w),
        *(((20, 8), f32), ((20,), i32), ((8, 5), f32)),
    )
    program = compile_graph(graph, CPU)
    assert kinds(program) == ["scatter", "matmul"]
    rng = np.random.default_rng(2)
    g, w = (rng.standard_normal(s).astype(np.float32) for s in ((20, 8), (8, 5)))
    at = rng.integers(0, 6, 20, dtype=np.int32)
    want = added(g.astype(np.float64), at, 0, 6) @ w
    np.testing.assert_allclose(run(program, g, at, w), want, rtol=1e-5, atol=1e-5)


def test_the_number_of_updates_does_not_change_the_text():
    def text(n):
        graph = graph_of(
            lambda b, g, i: b.scatter_add(g * 2, b.max(b.min(i, 9), 0), axis=0, extent=10), ((n, 24), f32), ((n,), i32)
        )
        return compile_graph(graph, CPU).source

    assert text(7) == text(16) == text(1000)


class Bag(gluon.HybridBlock):
    """The mean of some rows of a table."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.table = gluon.nn.Embedding(50, 16)

    def hybrid_forward(self, F, x):
        return F.mean(self.table(x), axis=1)


def gradient(net, x):
    with autograd.record():
        y = net(x)
    y.backward(nd.array(np.arange(prod(y.shape)).reshape(y.shape) % 7))
    return net.table.weight.grad().asnumpy()


def test_gradient_of_a_table_is_one_kernel():
    """Positions out of bounds count as the nearest, as MXNet's Embedding has it."""
    x = nd.array([[0, 3, 3, 49], [7, 3, -2, 60]])
    net = Bag()
    net.initialize(mx.init.One())
    eager = gradient(net, x)
    net.hybridize()
    compiled = gradient(net, x)
    np.testing.assert_allclose(compiled, eager, rtol=1e-6)
    assert compiled.tobytes() == gradient(net, x).tobytes()
    want = np.zeros((50, 16))
    for row, share in zip([[0, 3, 3, 49], [7, 3, 0, 49]], np.arange(32).reshape(2, 16) % 7):
        for k in row:
            want[k] += share / 4
    np.testing.assert_allclose(compiled, want, rtol=1e-6)


def bias(b, y, c):
    return y + b.broadcast(b.reshape(c, (1, c.size)), y.shape)


#: what follows a sum of updates (40, 24) of 9 rows: (graph of sum, r (9, 24) and c (24,); the same in NumPy; its arrays)
FOLLOWS = {
    "scaled": (lambda b, y, r, c: y * 2 + 1, lambda y, r, c: y * 2 + 1, 0),
    "relu": (lambda b, y, r, c: b.max(y, 0), lambda y, r, c: np.maximum(y, 0), 0),
    "another gradient": (lambda b, y, r, c: y + r, lambda y, r, c: y + r, 1),
    "a step of gradient descent": (lambda b, y, r, c: r - (y + r * 3) * 2, lambda y, r, c: r - (y + r * 3) * 2, 1),
    "a row": (lambda b, y, r, c: bias(b, y, c) + r, lambda y, r, c: y + c + r, 2),
    "two results": (
        lambda b, y, r, c: [b.max(y, r), b.min(y, r)], lambda y, r, c: [np.maximum(y, r), np.minimum(y, r)], 1,
    ),
    "as a line": (lambda b, y, r, c: b.reshape(y, (216,)) * 2, lambda y, r, c: y.reshape(216) * 2, 0),
    "two types": (
        lambda b, y, r, c: [b.gt(y, 0), y * 2], lambda y, r, c: [y > 0, y * 2], 0,
    ),
}  # fmt: skip


def following(name, dtype, target, replaces=False):
    """(program, its arrays, its results, bytes that it has to move) of a case."""
    make, want, count = FOLLOWS[name]
    b = builder()
    g, r, c = (b.input(tensor_type(s, dtype), n) for n, s in (("g", (40, 24)), ("r", (9, 24)), ("c", (24,))))
    i = b.input(tensor_type((40,), i32), "i")
    y = b.scatter_set(b.full((9, 24), 1, dtype), g, i) if replaces else b.scatter_add(g, i, axis=0, extent=9)
    made = make(b, y, r, c)
    graph = b.finish(made if isinstance(made, list) else [made])
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-9, 9, n.shape).astype(n.dtype.np) for n in (g, r, c)] + [rng.integers(0, 8, 40, np.int32)]
    if replaces:
        table = np.ones((9, 24), arrays[0].dtype)
        for k, row in enumerate(arrays[3]):
            table[row] = arrays[0][k]
    else:
        table = added(arrays[0], arrays[3], 0, 9)
    results = want(table, *arrays[1:3])
    results = results if isinstance(results, list) else [results]
    made = [a.astype(n.dtype.np) for a, n in zip(results, graph.outputs)]
    moved = sum(a.nbytes for a in (arrays[0], arrays[3], *arrays[1 : 1 + count], *made))
    return compile_graph(graph, target), arrays, made, moved


@pytest.mark.parametrize("dtype", [f32, f64, i32, i8], ids=lambda t: t.short)
@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_is_computed_in_its_place(name, dtype):
    program, arrays, results, moved = following(name, dtype, CPU)
    assert kinds(program) == ["scatter"]
    assert program.kernels[0].choice["why"].endswith("in the order of the updates, then computes with the table")
    outputs = [guarded(shape, from_short(short).np) for shape, short in program.outputs]
    cpu_backend().load(program)([guarded_copy(a) for a in arrays], outputs)
    for got, want in zip(outputs, results, strict=True):
        assert got.tobytes() == want.reshape(got.shape).tobytes()
    assert program.bytes_moved == moved


def test_rows_replaced_are_computed_with():
    program, arrays, (want,), _ = following("a row", f32, CPU, replaces=True)
    assert kinds(program) == ["scatter"]
    assert run(program, *arrays).tobytes() == want.tobytes()


UPDATES = (((40, 24), f32), ((40,), i32))


def summed(b, g, i):
    return b.scatter_add(g, i, axis=0, extent=9)


#: graphs of updates and positions -> kernels on the CPU, on CUDA, and why they are not one
APART = {
    "read twice": (
        lambda b, g, i: [b.exp(y := summed(b, g, i)), b.slice(y, (1, 0), (5, 24)) * 2], {}, "several kernels read it",
    ),
    "a result": (lambda b, g, i: [y := summed(b, g, i), y * 2], {}, "it is a result"),
    "its updates are a result": (lambda b, g, i: [u := g * 2, summed(b, u, i) * 2], {}, "its updates are wanted"),
    "its updates are read by a library": (
        lambda b, g, i: [b.cumsum(u := g * 2, axis=0), summed(b, u, i) * 2], {}, "its updates are wanted",
    ),
    "turned": (
        lambda b, g, i: b.transpose(summed(b, g, i), (1, 0)) * 2, {}, "lie in another order",
    ),
    "a part of it": (lambda b, g, i: b.slice(summed(b, g, i), (1, 0), (5, 24)) * 2, {}, "does not read each"),
    "repeated": (
        lambda b, g, i: b.broadcast(b.reshape(summed(b, g, i), (9, 24, 1)), (9, 24, 3)) * b.iota((9, 24, 3), 2, f32),
        {}, "does not read each",
    ),
    "a library's": (lambda b, g, i: b.cumsum(summed(b, g, i), axis=0), {}, "on the table only, not cumsum"),
    "a single element": (
        lambda b, g, i: b.scatter_add(b.sum(g, (1,)), i * 0, axis=0, extent=1) * 2, {}, "is a single element",
    ),
    "rows summed": (lambda b, g, i: b.sum(summed(b, g, i) * 2, (1,)), {}, "takes elementwise work on the table only"),
    "two tables": (lambda b, g, i: summed(b, g, i) + summed(b, g * 2, i), {}, "its reader's kernel adds up scatter_add"),
    "another type": (lambda b, g, i: b.cast(summed(b, g, i), i32), {"cuda": ""}, "no result has its type"),
}  # fmt: skip


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("first", [True, False])
def test_what_reads_the_updates_too_is_another_kernel(first, target):
    b = builder()
    g, i = (b.input(tensor_type(*t), f"x{k}") for k, t in enumerate(UPDATES))
    updates = b.exp(g)
    made = [summed(b, updates, i), updates * 2] if first else [updates * 2, summed(b, updates, i)]
    program = compile_graph(b.finish(made), target)
    assert any(rule == "kernel-kind" and "is not shared" in why for *_, rule, why in program.refusals), program.refusals
    scatters = [k for k in program.kernels if k.kind == "scatter"]
    assert len(scatters) == 1 and len(program.kernels) > 1


@pytest.mark.no_host_code
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("name", APART)
def test_why_what_follows_is_another_kernel(name, target):
    make, other, reason = APART[name]
    reason = other.get(target.name, reason)
    b = builder()
    made = make(b, *(b.input(tensor_type(*t), f"x{k}") for k, t in enumerate(UPDATES)))
    program = compile_graph(b.finish(made if isinstance(made, list) else [made]), target)
    reasons = [c[3] for c in program.refusals if c[2] == "scatter" and "scatters into memory" in c[3]]
    assert any(reason in r for r in reasons) if reason else not reasons, program.refusals

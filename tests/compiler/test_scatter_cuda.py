# SPDX-License-Identifier: Apache-2.0
"""Kernels that write at computed positions, as CUDA text executed on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler.sharing import sharing
from compiler.test_scatter import FOLLOWS, SHAPES, added, following, graph_of, kinds, replacing
from emulated import run_program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.passes.reductions.scatter_cost import (
    ScatterConfig,
    ScatterWorkload,
    choose_config,
    estimate_seconds,
)
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.cuda import scatter as cuda_scatter
from hybridgpu.compiler.target import CPU, CUDA, cuda_target
from hybridgpu.core.dtypes import bf16, bool_, f16, f32, f64, i8, i32, i64, u8

FAST = CUDA.with_numeric("fast")


def run(driver, program, *arrays):
    """The first result, and what each launch did."""
    before = len(driver.launches)
    return run_program(program, arrays, driver, exact=False)[0], driver.launches[before:]


def numbers(rng, shape, dtype):
    return (rng.standard_normal(shape) * 100).astype(np.int64 if dtype.kind in "iu" else np.float64).astype(dtype.np)


def choice(program):
    return next(k.choice for k in program.kernels if k.kind == "scatter")


@pytest.mark.no_host_code
@pytest.mark.parametrize("dtype", [f32, f64, i8, u8, i32, i64], ids=lambda t: t.short)
@pytest.mark.parametrize("case", SHAPES)
def test_sums_have_the_bits_of_one_addition_after_the_other(case, dtype, cuda_driver):
    shape, where, axis, extent = SHAPES[case]
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=axis, extent=extent), (shape, dtype), (where, i32))
    program = compile_graph(graph, CUDA)
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(3)
    updates, at = numbers(rng, shape, dtype), rng.integers(0, extent, where, dtype=np.int32)
    got, (launch,) = run(cuda_driver, program, updates, at)
    assert got.tobytes() == added(updates, at, axis, extent).tobytes()
    scanned = choice(program).get("scanned", 0)
    assert program.bytes_moved == updates.nbytes + at.nbytes + got.nbytes + scanned
    assert launch.report.global_read == updates.nbytes + at.nbytes + scanned, "every access counts"
    assert launch.report.global_written == got.nbytes


#: work, and which rows a block gets: (shape of updates, positions' shape, axis, extent, machine)
SHARED_OUT = {
    "many blocks": ((300, 8), (300,), 0, 400, {"multiprocessors": 16}),
    "rows in tiles of columns": ((40, 3000), (40,), 0, 5, {}),
    "threads to spare": ((40, 768), (40,), 0, 5, {}),
    "… of narrow accesses": ((40, 201), (40,), 0, 5, {}),
    "uneven tiles": ((40, 1101), (40,), 0, 5, {}),
    "more rows than a block holds": ((50, 64), (50,), 0, 700, {"shared_total": 64 * 1024}),
    "rounds": ((2600, 4), (2600,), 0, 40, {"launch_seconds": 1.0}),
    "whole rounds": ((2048, 4), (2048,), 0, 40, {"launch_seconds": 1.0}),
    "a full list": ((6000,), (6000,), 0, 3, {"launch_seconds": 1.0}),
    "batch of columns": ((9, 40), (40,), 1, 30, {}),
    "batch of tiles": ((3, 40, 1500), (40,), 1, 4, {}),
}


@pytest.mark.no_host_code
@pytest.mark.parametrize("position", [i32, i64], ids=lambda t: t.short)
@pytest.mark.parametrize("case", SHARED_OUT)
def test_every_way_of_sharing_out(case, position, cuda_driver):
    shape, where, axis, extent, machine = SHARED_OUT[case]
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=axis, extent=extent), (shape, f32), (where, position))
    program = compile_graph(graph, CUDA.changed(**machine))
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(5)
    updates, at = numbers(rng, shape, f32), rng.integers(0, extent, where).astype(position.np)
    got, (launch,) = run(cuda_driver, program, updates, at)
    assert got.tobytes() == added(updates, at, axis, extent).tobytes()
    assert launch.report.global_read + launch.report.global_written == program.bytes_moved


@pytest.mark.no_host_code
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_along_an_axis(cuda_driver, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axis, extent = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 6))
    graph = graph_of(lambda b, g, i: b.scatter_along(g, i, axis=axis, extent=extent), (shape, f64), (shape, i64))
    program = compile_graph(graph, CUDA)
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    updates, at = rng.standard_normal(shape), rng.integers(0, extent, shape)
    want = np.zeros((*shape[:axis], extent, *shape[axis + 1 :]))
    for place in np.ndindex(*shape):
        want[(*place[:axis], at[place], *place[axis + 1 :])] += updates[place]
    got, (launch,) = run(cuda_driver, program, updates, at)
    assert got.tobytes() == want.tobytes()
    assert launch.report.global_read == updates.nbytes + at.nbytes + choice(program).get("scanned", 0)


@pytest.mark.long_test
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_shape_in_any_form(cuda_driver, data):
    """Updates and positions that are computed, stored as well, and shared out in any way that is possible."""
    few = st.lists(st.integers(1, 5), max_size=2)
    before, behind = data.draw(few), data.draw(few)
    where = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=2))
    behind = [d * data.draw(st.sampled_from([1, 4])) for d in behind]
    extent, rows = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 9))
    dtype = data.draw(st.sampled_from([f32, f16, f64, i8]))
    lanes = data.draw(st.sampled_from([1, 2, 32, 256]))

    def make(b, g, i):
        u = g * g
        return b.scatter_add(u, b.mod(i, extent), axis=len(before), extent=extent), u

    b = builder()
    g = b.input(tensor_type((*before, *where, *behind), dtype), "g")
    i = b.input(tensor_type(tuple(where), i32), "i")
    graph = b.finish(list(make(b, g, i)), "any")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            cuda_scatter,
            "choose_config",
            lambda w, target, usual_columns: ScatterConfig(lanes if w.columns > 1 else 1, 16, rows),
        )
        program = compile_graph(graph, CUDA)
    assert kinds(program).count("scatter") == 1
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    updates = rng.integers(-3, 4, g.shape).astype(dtype.np)
    at = rng.integers(-50, 50, where, dtype=np.int32)
    got, launches = run(cuda_driver, program, updates, at)
    (want, _) = evaluate(graph, [updates, at])
    np.testing.assert_array_equal(got, want)
    for launch, step in zip(launches, program.steps):
        step_choice = step.choice or program.kernels[step.kernel].choice
        assert launch.written == step.bytes_written
        assert launch.read == step.bytes_read - step_choice.get("scanned", 0)


@pytest.mark.no_host_code
@pytest.mark.parametrize("rows", [1, 3, 7, 11, 12, 40, 120])
def test_a_block_looks_through_the_updates_of_its_rows_alone(rows, cuda_driver, monkeypatch):
    """Ten examples with twelve rows each: blocks have part of one's rows, or those of several."""
    monkeypatch.setattr(cuda_scatter, "choose_config", lambda work, target, usual_columns: ScatterConfig(1, 512, rows))
    graph = graph_of(lambda b, g, i: b.scatter_along(g, i, axis=1, extent=12), ((10, 70), f32), ((10, 70), i32))
    program = compile_graph(graph, CUDA)
    rng = np.random.default_rng(0)
    updates, at = numbers(rng, (10, 70), f32), rng.integers(0, 12, (10, 70), dtype=np.int32)
    got, (launch,) = run(cuda_driver, program, updates, at)
    want = np.stack([added(u, i, 0, 12) for u, i in zip(updates, at)])
    assert got.tobytes() == want.tobytes()
    blocks = -(-120 // rows)
    examples = sum((min(k * rows + rows, 120) - 1) // 12 - k * rows // 12 + 1 for k in range(blocks))
    assert launch.report.global_read == updates.nbytes + examples * 70 * 4 == program.steps[0].bytes_read


@pytest.mark.parametrize("dtype", [f32, f16, bf16, i8, bool_], ids=lambda t: t.short)
@pytest.mark.parametrize("filled", [False, True], ids=["of an array", "of a constant"])
def test_of_rows_replaced_twice_the_last_stays(dtype, filled, cuda_driver):
    graph, inputs, want = replacing(dtype, filled)
    program = compile_graph(graph, CUDA)
    assert kinds(program) == ["scatter"]
    np.testing.assert_array_equal(run(cuda_driver, program, *inputs)[0], want)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=lambda t: t.short)
@pytest.mark.parametrize("apart", [False, True], ids=["in one table", "in parts"])
def test_halves_are_summed_in_float(dtype, apart, cuda_driver):
    """One by one, in their own type, ones would stop to count at 2048 (256)."""
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=0, extent=2), ((4096, 3), dtype), ((4096,), i32))
    program = compile_graph(graph, CUDA if apart else CUDA.changed(launch_seconds=1.0))
    assert kinds(program) == ["scatter"] + ["reduce"] * apart
    got, _ = run(cuda_driver, program, np.ones((4096, 3), dtype.np), np.zeros(4096, np.int32))
    np.testing.assert_array_equal(got.astype(np.float32), [[4096] * 3, [0] * 3])


# -- in parts

IN_PARTS = {
    "even": (lambda b, g, i: b.scatter_add(g, i, axis=0, extent=4), (4096, 8), (4096,)),
    "uneven": (lambda b, g, i: b.scatter_add(g, i, axis=0, extent=4), (4099,), (4099,)),
    "whole axes": (lambda b, g, i: b.scatter_add(g, i, axis=0, extent=5), (20, 260, 4), (20, 260)),
    "inside": (lambda b, g, i: b.scatter_add(g, i, axis=1, extent=5), (2, 3000, 4), (3000,)),
    "along": (lambda b, g, i: b.scatter_along(g, i, axis=1, extent=5), (3, 4100), (3, 4100)),
    "along an inner axis": (lambda b, g, i: b.scatter_along(g, i, axis=0, extent=5), (4100, 3), (4100, 3)),
}


@pytest.mark.no_host_code
@pytest.mark.parametrize("dtype", [f32, i64], ids=lambda t: t.short)
@pytest.mark.parametrize("case", IN_PARTS)
def test_few_rows_are_summed_in_parts(case, dtype, cuda_driver):
    make, shape, where = IN_PARTS[case]
    graph = graph_of(make, (shape, dtype), (where, i32))
    program = compile_graph(graph, CUDA)
    assert kinds(program) == ["scatter", "reduce"]
    rng = np.random.default_rng(7)
    updates, at = numbers(rng, shape, dtype), rng.integers(0, 4, where, dtype=np.int32)
    got, _ = run(cuda_driver, program, updates, at)
    assert program.steps[0].bytes_written >= 8 * got.nbytes
    (want,) = evaluate(graph, [updates, at], wide=True)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-2 if dtype is f32 else 0)
    assert got.tobytes() == run(cuda_driver, program, updates, at)[0].tobytes()


@pytest.mark.parametrize(
    "target", [CUDA, cuda_target("sm_75", 40), cuda_target("sm_86", 80)], ids=lambda t: str(t.gpu.multiprocessors)
)
@pytest.mark.parametrize("shape", [(10_000, 64, 8192), (50_000, 128, 2048), (1000, 1, 1 << 20), (7, 1024, 100)])
def test_the_chosen_form_is_the_fastest_of_all(shape, target):
    rows, columns, updates = shape
    work = ScatterWorkload(rows, 1, updates, columns, 4 if columns % 4 == 0 else 1, 4, 4)
    form = choose_config(work, target)
    assert form.rows <= form.row_capacity
    every = [estimate_seconds(work, replace(form, rows=r), target) for r in range(1, min(form.row_capacity, rows) + 1)]
    assert form.seconds <= 1.5 * min(every)
    held = form.row_capacity * form.lanes * work.vector * work.accumulator_bytes
    assert form.shared_bytes(work) in (0, held) and held + 20 * 1024 <= (
        target.gpu.shared_bytes if form.shared_bytes(work) else 48 * 1024
    )


# -- texts, and who else computes it


@pytest.mark.parametrize("columns", [1, 24, 2000])
def test_the_number_of_updates_does_not_change_the_text(columns):
    def text(n):
        graph = graph_of(
            lambda b, g, i: b.scatter_add(g * 2, b.max(b.min(i, 9), 0), axis=0, extent=10),
            ((n, columns), f32),
            ((n,), i32),
        )
        return [k.text for k in compile_graph(graph, CUDA).kernels]

    assert text(7) == text(16) == text(100)


def test_a_large_table_that_is_looked_up_often_has_more_room_on_chip():
    """The gradient of a language model's table: blocks look through many positions for each row."""
    few, many = (choose_config(ScatterWorkload(50257, 1, n, 768, 4, 4, 4), CUDA) for n in (512, 16384))
    assert few.shared_bytes(ScatterWorkload(50257, 1, 512, 768, 4, 4, 4)) == 0
    assert many.row_capacity > 3 * few.row_capacity and many.seconds < 1.6e-4


def test_nor_does_the_batch():
    """… of what has a table of its own for each example, or shares positions."""

    def text(n, make):
        return [k.text for k in compile_graph(make(n), CUDA).kernels]

    def own(n):
        return graph_of(lambda b, g, i: b.scatter_along(g, i, axis=1, extent=10), ((n, 50), f32), ((n, 50), i32))

    def shared(n):
        return graph_of(lambda b, g, i: b.scatter_add(g, i, axis=1, extent=10), ((n, 50, 4), f32), ((50,), i32))

    for make in (own, shared):
        assert text(7, make) == text(16, make) == text(40, make)


@pytest.mark.parametrize(
    ("dtype", "target", "ours"),
    [(f32, CUDA, True), (f16, CUDA, True), (f32, FAST, False), (i32, CUDA, False)],
    ids=["strict", "halves", "fast", "integers"],
)
def test_a_library_adds_what_may_be_added_in_any_order(dtype, target, ours):
    """Where blocks would look through a long list for few rows each."""
    rows, updates = 1 << 20, 1 << 21
    graph = graph_of(
        lambda b, g, i: b.scatter_add(g, i, axis=0, extent=rows), ((updates, 256), dtype), ((updates,), i32)
    )
    program = compile_graph(graph, target)
    assert kinds(program) == ["scatter" if ours else "scatter_add"]
    if not ours:
        (step,) = (s for s in program.steps if isinstance(s, LibraryStep))
        assert "by the model" in step.note and "in a library" in step.note


def test_truth_values_stay_with_the_library():
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=0, extent=3), ((9,), bool_), ((9,), i32))
    program = compile_graph(graph, CUDA)
    assert kinds(program) == ["scatter_add"]
    assert program.steps[0].note == "truth values are no sum"


def test_nothing_is_added_to_nothing(cuda_driver):
    graph = graph_of(lambda b, g, i: b.scatter_add(g, i, axis=0, extent=3), ((0, 4), f32), ((0,), i32))
    got, _ = run(cuda_driver, compile_graph(graph, CUDA), np.empty((0, 4), np.float32), np.empty(0, np.int32))
    np.testing.assert_array_equal(got, np.zeros((3, 4)))


# -- operators on a device


class Looked(gluon.HybridBlock):
    """Something made of rows of a table."""

    def __init__(self, made):
        super().__init__()
        self.made = made
        with self.name_scope():
            self.table = self.params.get("table", shape=(23, 8), init=mx.init.Uniform(1))

    def hybrid_forward(self, F, x, table):
        return self.made(F, table, x)


#: positions (floats, as MXNet has them) lie in -3 … 25, so that each mode has something to do
LOOKED = {
    "embedding": lambda F, w, x: F.Embedding(x, w, input_dim=23, output_dim=8),
    "mean of embedding": lambda F, w, x: F.mean(F.Embedding(x, w, input_dim=23, output_dim=8), axis=1),
    "relu of embedding": lambda F, w, x: F.relu(F.Embedding(x, w, input_dim=23, output_dim=8)) * 3,
    "take, clipped": lambda F, w, x: F.take(w, x, mode="clip") * 2,
    "take, wrapped, of columns": lambda F, w, x: F.take(w, x, axis=1, mode="wrap"),
    "gather_nd": lambda F, w, x: F.gather_nd(w, F.stack(F.clip(x, 0, 22), F.clip(x, 0, 7)).reshape((2, -1))),
    "pick": lambda F, w, x: F.pick(F.take(w, x, mode="clip"), F.clip(x, 0, 7)),
    "half": lambda F, w, x: F.Embedding(x, F.cast(w, "float16"), input_dim=23, output_dim=8, dtype="float16"),
    "topk": lambda F, w, x: F.topk(F.take(w, x, mode="clip"), k=3, ret_typ="value"),
}


@pytest.mark.parametrize("name", LOOKED)
def test_gradients_have_the_bits_of_the_host(name, cuda_driver, compiler):
    found = {}
    rng = np.random.default_rng(0)
    batches = [rng.integers(-3, 26, (n, 5)).astype(np.float32) for n in (6, 11)]
    heads = rng.standard_normal(23 * 8 * 55).astype(np.float32)
    for context in (mx.cpu(), mx.gpu(0)):
        net = Looked(LOOKED[name])
        mx.random.seed(1)
        net.initialize(ctx=context)
        net.table.set_data(nd.array(np.random.default_rng(1).standard_normal((23, 8))))
        net.hybridize(static_alloc=True, static_shape=True)
        found[context.device_type] = []
        for x in (*batches, batches[0]):
            with autograd.record():
                y = net(nd.array(x, ctx=context))
            y.backward(nd.array(heads[: y.size].reshape(y.shape), ctx=context, dtype=y.dtype))
            found[context.device_type].append(net.table.grad().asnumpy())
    for host, device in zip(found["cpu"], found["gpu"], strict=True):
        np.testing.assert_array_equal(host, device)
    assert any("hg::Hits" in cuda_driver.sources[launch.kernel] for launch in cuda_driver.launches)


# -- what follows


@pytest.mark.no_host_code
@pytest.mark.parametrize("dtype", [f32, f64, i32, i8], ids=lambda t: t.short)
@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_is_computed_by_the_blocks_that_own_the_rows(name, dtype, cuda_driver):
    program, arrays, results, moved = following(name, dtype, CUDA)
    assert kinds(program) == ["scatter"]
    before = len(cuda_driver.launches)
    got = run_program(program, arrays, cuda_driver, exact=False)
    (launch,) = cuda_driver.launches[before:]
    for a, want in zip(got, results, strict=True):
        assert a.tobytes() == want.reshape(a.shape).tobytes()
    scanned = choice(program).get("scanned", 0)
    assert program.bytes_moved == moved + scanned
    assert launch.report.global_written == sum(a.nbytes for a in results)
    assert launch.read == program.steps[0].bytes_read - scanned


@pytest.mark.parametrize("table", [(1,), (1, 1), (9,), (3, 1)], ids=str)
def test_what_follows_small_tables(table, cuda_driver):
    b = builder()
    g, r = (b.input(tensor_type(s, f32), n) for s, n in (((7, *table[1:]), "g"), (table, "r")))
    i = b.input(tensor_type((7,), i32), "i")
    y = b.scatter_add(g, i, axis=0, extent=table[0])
    graph = b.finish([y * 2 + r, b.gt(y, 1.0)])
    rng = np.random.default_rng(6)
    arrays = [rng.integers(-5, 5, n.shape).astype(np.float32) for n in (g, r)]
    arrays.append(rng.integers(0, table[0], 7, np.int32))
    got = run_program(compile_graph(graph, CUDA), arrays, cuda_driver, exact=False)
    for a, want in zip(got, evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize("dtype", [f16, bf16, bool_], ids=lambda t: t.short)
def test_rows_replaced_are_computed_with(dtype, cuda_driver):
    """Bits that were only moved are numbers then."""
    b = builder()
    x, u = (b.input(tensor_type(s, dtype), n) for n, s in (("x", (9, 24)), ("u", (40, 24))))
    i = b.input(tensor_type((40,), i32), "i")
    y = b.scatter_set(x, u, i)
    graph = b.finish([b.logical_not(y) if dtype is bool_ else y * 2 + x])
    program = compile_graph(graph, CUDA)
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 2, n.shape).astype(dtype.np) for n in (x, u)] + [rng.integers(0, 8, 40, np.int32)]
    (got,) = run_program(program, arrays, cuda_driver, exact=False)
    (want,) = evaluate(graph, arrays)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("dtype", [f16, bf16], ids=lambda t: t.short)
def test_what_follows_a_sum_of_halves_has_it_rounded(dtype, cuda_driver):
    """As if it had been in memory, and as on the host: 2049 is no half."""
    graph = graph_of(
        lambda b, g, i: b.scatter_add(g, i, axis=0, extent=2) * 0.5 - 1024, ((2049, 4), dtype), ((2049,), i32)
    )
    program = compile_graph(graph, CUDA.changed(launch_seconds=1.0))
    assert kinds(program) == ["scatter"]
    (got,) = run_program(program, [np.ones((2049, 4), dtype.np), np.zeros(2049, np.int32)], cuda_driver, exact=False)
    np.testing.assert_array_equal(got.astype(np.float32), [[0] * 4, [-1024] * 4])


@pytest.mark.no_host_code
@pytest.mark.parametrize("case", SHARED_OUT)
def test_what_follows_in_every_way_of_sharing_out(case, cuda_driver):
    shape, where, axis, extent, machine = SHARED_OUT[case]
    table = (*shape[:axis], extent, *shape[axis + 1 :])
    b = builder()
    g, r = b.input(tensor_type(shape, f32), "g"), b.input(tensor_type(table, f32), "r")
    c, i = b.input(tensor_type(table[-1:], f32), "c"), b.input(tensor_type(where, i32), "i")
    y = b.scatter_add(g, i, axis=axis, extent=extent)
    graph = b.finish([y * 2 + r + b.broadcast(c, table)])
    program = compile_graph(graph, CUDA.changed(**machine))
    assert kinds(program) == ["scatter"]
    rng = np.random.default_rng(5)
    updates, rest, line = (numbers(rng, n.shape, f32) for n in (g, r, c))
    at = rng.integers(0, extent, where).astype(np.int32)
    before = len(cuda_driver.launches)
    (got,) = run_program(program, [updates, rest, line, at], cuda_driver, exact=False)
    (launch,) = cuda_driver.launches[before:]
    assert got.tobytes() == (added(updates, at, axis, extent) * 2 + rest + line).tobytes()
    assert launch.read + launch.written + choice(program).get("scanned", 0) == program.bytes_moved


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_updates_and_positions_of_another_kernel(target, cuda_driver):
    """Each row less its maximum, added to the row of the table that the maximum's place names."""
    b = builder()
    g, r = (b.input(tensor_type(s, i32), n) for s, n in (((40, 9), "g"), ((9, 9), "r")))
    at = b.cast(b.reduce("argmax", g, (1,)), i32)
    less = g - b.reduce("amax", g, (1,), keepdims=True)
    graph = b.finish([b.scatter_add(less, at, axis=0, extent=9) * 2 + r, b.sum(less, (1,))])
    program = compile_graph(graph, target)
    assert kinds(program) == ["reduce", "scatter"]
    rng = np.random.default_rng(6)
    arrays = [rng.integers(-9, 9, n.shape, np.int32) for n in (g, r)]
    got = run_program(program, arrays, cuda_driver, exact=False)
    for a, want in zip(got, evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, want)


def test_the_text_does_not_depend_on_the_number_of_rows():
    def text(rows, count):
        graph = graph_of(
            lambda b, g, i, r: b.scatter_add(g, i, axis=0, extent=rows) * 2 + r,
            ((count, 64), f32), ((count,), i32), ((rows, 64), f32),
        )  # fmt: skip
        return {t.name: compile_graph(graph, t).kernels[0].text for t in (CPU, CUDA)}

    assert text(500, 40)["cpu"] == text(700, 60)["cpu"]
    assert text(500, 40)["cuda"] == text(500, 60)["cuda"]


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_results_over_operands_that_follow(target, cuda_driver):
    """On a GPU what is added may be replaced; on the CPU the first result's memory has the sums, so only by others."""
    b = builder()
    g, r, s = (b.input(tensor_type(shape, f32), n) for n, shape in (("g", (40, 24)), ("r", (9, 24)), ("s", (9, 24))))
    i = b.input(tensor_type((40,), i32), "i")
    y = b.scatter_add(g, i, axis=0, extent=9)
    # between steps of a library, so that all are in memory, and read no more behind the scatter
    p, q = b.cumsum(r, axis=0), b.cumsum(s, axis=0)
    graph = b.finish([b.cumsum(b.max(y, p) * 2, axis=0), b.cumsum(b.min(y, q) + p, axis=0)])
    with sharing("everywhere"):
        program = compile_graph(graph, target)
    (number,) = (k for k, kernel in enumerate(program.kernels) if kernel.kind == "scatter")
    shared = [len(s.in_place) for s in program.steps if isinstance(s, KernelStep) and s.kernel == number]
    assert shared == [2 if target is CUDA else 1]
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-3, 4, n.shape).astype(n.dtype.np) for n in (g, r, s)]
    arrays.append(rng.integers(0, 9, 40, np.int32))
    if target is CUDA:
        got = run_program(program, arrays, cuda_driver, exact=False)
    else:
        got = [np.empty(shape, np.float32) for shape, _ in program.outputs]
        cpu_backend().load(program)(arrays, got)
    for a, want in zip(got, evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, want)

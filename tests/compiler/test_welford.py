# SPDX-License-Identifier: Apache-2.0
"""Means and variances whose rows do not stay on chip: memory is read once, and offsets cost no digits."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from compiler.one_pass import run_pass
from emulated import run_program

import hybridgpu as mx
from hybridgpu.compiler.ir import Builder, Graph, Node, tensor_type
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.passes.reductions import reduction_splitting, welford
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA, cuda_target
from hybridgpu.core.dtypes import f16, f32, f64

#: a GPU with so little on chip that rows of test size do not stay there
SMALL = CUDA.changed(shared_bytes=16384, cluster_blocks=1, part_elements=64, multiprocessors=2, launch_seconds=1e-9)


@pytest.fixture
def small_caches(monkeypatch):
    """A CPU with caches likewise."""
    monkeypatch.setattr(reduction_splitting, "_CPU_CHUNK_BYTES", 32768)
    monkeypatch.setattr(reduction_splitting, "_CPU_ROW_BYTES", 32768)
    monkeypatch.setattr(reduction_splitting, "_CPU_REREAD_BYTES", 65536)
    monkeypatch.setattr(reduction_splitting, "_MIN_CONTIGUOUS_RUN", 0)


def statistics(shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any = f32) -> Graph:
    b = builder()
    x = b.input(tensor_type(shape, dtype), "x")
    mean = b.mean(x, axes, keepdims=True)
    centred = x - mean
    return b.finish([mean, b.mean(centred * centred, axes)], "statistics")


def normalised(shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any = f32) -> Graph:
    b = builder()
    x = b.input(tensor_type(shape, dtype), "x")
    centred = x - b.mean(x, axes, keepdims=True)
    return b.finish([centred * b.rsqrt(b.mean(centred * centred, axes, keepdims=True) + 1e-5)], "normalised")


def reads_of_input(program: Program) -> int:
    """How many steps read the graph's input."""
    at = next(k for k, b in enumerate(program.buffers) if b.space == "input")
    return sum(at in s.buffers[: len(s.buffers) - s.outputs] for s in program.steps if isinstance(s, KernelStep))


ROWS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 40960), (1,)),
    ((2, 40099), (1,)),  # a prime: the last part is shorter
    ((60000,), (0,)),
    ((5000, 6), (0,)),
    ((5003, 40), (0,)),
    ((16, 5, 40, 40), (0, 2, 3)),
    ((3, 40, 70, 4), (0, 1, 2)),
    ((2, 9000, 8), (1,)),
    ((2, 3, 4507, 2), (1, 2)),
    ((4, 17, 31, 13), (0, 1, 2, 3)),
]


@pytest.mark.parametrize(("shape", "axes"), ROWS)
@pytest.mark.parametrize("make", [statistics, normalised])
def test_values_and_traffic(make: Callable[..., Graph], shape, axes, cuda_driver, small_caches):
    graph = make(shape, axes)
    x = (np.random.default_rng(5).normal(size=shape) * 2 + 3).astype(np.float32)
    wanted = evaluate(graph, [x], wide=True)
    for target in (CPU, SMALL):
        small = run_pass("welford", simplify(graph), target)
        verify(small)
        assert len(small.nodes) > len(simplify(graph).nodes), f"{target.name}: not in parts"
        program = compile_graph(graph, target)
        got = run_program(program, [x], cuda_driver)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-5)
        assert reads_of_input(program) == (1 if make is statistics else 2)
        kinds = [program.kernels[s.kernel].kind for s in program.steps]
        assert kinds == ["reduce", "reduce"] + ["map"] * (make is normalised)


@pytest.mark.parametrize(
    ("shape", "axes", "apart"),
    [
        ((1 << 20,), (0,), True),
        ((1000003,), (0,), False),  # a prime
        ((400009, 3), (0, 1), False),  # short runs inside
        ((10007, 3, 33, 33), (0, 2, 3), True),
        ((1200007, 8), (0,), True),  # neighbours are walked together
    ],
)
def test_uneven_parts_of_contiguous_rows_on_the_cpu(shape, axes, apart):
    """They take up to four times as long as the row walked twice, and short runs are less accurate."""
    graph = simplify(statistics(shape, axes))
    assert (len(run_pass("welford", graph, CPU).nodes) > len(graph.nodes)) is apart


@pytest.mark.parametrize(
    ("make", "shape", "axes", "apart"),
    [
        (statistics, (4, 131072), (1,), False),  # 512 KiB
        (statistics, (4, 262144), (1,), False),  # as much as the second-level cache keeps
        (statistics, (4, 327680), (1,), True),
        (normalised, (4, 1 << 20), (1,), False),  # read again at once in any case
        (normalised, (1, 1 << 21), (1,), False),
        (normalised, (1, 1 << 22), (1,), True),
        (normalised, (16384, 16), (0,), False),  # neighbouring rows are walked together
        (normalised, (65536, 16), (0,), True),
        (statistics, (1024, 512), (0,), False),
        (statistics, (4096, 512), (0,), True),  # of which 128 are as many as a cache takes
    ],
)
def test_what_caches_keep_is_in_no_parts(make, shape, axes, apart):
    graph = simplify(make(shape, axes))
    assert (len(run_pass("welford", graph, CPU).nodes) > len(graph.nodes)) is apart


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1024, 4096), (1,)),
        ((1024, 65536), (1,)),
        ((64, 1 << 20), (1,)),
        ((1, 1 << 24), (1,)),
        ((100000, 64), (0,)),
        ((32, 64, 112, 112), (0, 2, 3)),
        ((32, 112, 112, 64), (0, 1, 2)),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_real_machines_read_it_once(shape, axes, arch):
    target, nbytes = cuda_target(arch, 132), 4 * prod(shape)
    for graph, times in ((statistics(shape, axes), 1), (normalised(shape, axes), 2)):
        program = compile_graph(graph, target)
        read = sum(s.bytes_read for s in program.steps)
        assert times * nbytes * (times == 1) <= read <= times * nbytes * 1.02
        assert not any(k.choice.get("reread_bytes") for k in program.kernels)


@pytest.mark.parametrize(("dtype", "offset", "bound"), [(f32, 1e4, 1e-5), (f32, 100, 2e-6), (f64, 1e8, 1e-13)])
@pytest.mark.parametrize(("shape", "axes"), [((2, 40000), (1,)), ((20000, 8), (0,)), ((2, 40009), (1,))])
def test_offsets_cost_no_digits(dtype, offset, bound, shape, axes, cuda_driver, small_caches):
    """Against float64, of numbers as they are in ``dtype``; the bound is relative, of a variance near 1."""
    graph = statistics(shape, axes, dtype)
    x = (np.random.default_rng(6).normal(size=shape) + offset).astype(dtype.np)
    wide = x.astype(np.longdouble)
    variance = wide.var(axis=axes)
    for target in (CPU, SMALL):
        program = compile_graph(graph, target)
        mean, got = run_program(program, [x], cuda_driver)
        np.testing.assert_allclose(mean.reshape(-1), wide.mean(axis=axes), rtol=4 * np.finfo(dtype.np).eps)
        np.testing.assert_allclose(got, variance.astype(np.float64), rtol=bound)
    naive = np.mean(x * x, axis=axes) - np.mean(x, axis=axes) ** 2  # what such data does to the difference of squares
    assert (np.abs(naive - variance) > 10 * bound).any()


def test_halves_are_left_alone(cuda_driver, small_caches):
    """A sum of many halves is no half, which a kernel that goes on from it in float does not mind."""
    graph = statistics((5, 40000), (1,), f16)
    x = (np.random.default_rng(7).normal(size=(5, 40000)) + 20).astype(np.float16)
    wide = x.astype(np.float64)
    for target in (CPU, SMALL.changed(launch_seconds=1.0)):
        assert run_pass("welford", graph, target) is graph
        program = compile_graph(graph, target)
        mean, variance = run_program(program, [x], cuda_driver, exact=False)
        np.testing.assert_allclose(mean[:, 0], wide.mean(axis=1), rtol=2e-3)  # (1 over the length is a half, too)
        np.testing.assert_allclose(variance, wide.var(axis=1), rtol=4e-3)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_specials(special, cuda_driver, small_caches):
    graph = statistics((3, 40960), (1,))
    x = np.ones((3, 40960), np.float32)
    x[1, 4000] = special
    for target in (CPU, SMALL):
        program = compile_graph(graph, target)
        mean, variance = run_program(program, [x], cuda_driver)
        np.testing.assert_array_equal(mean[:, 0], [1, special, 1])
        np.testing.assert_array_equal(variance, [0, np.nan, 0])


def test_the_same_bits_in_every_run_and_at_every_place(cuda_driver, small_caches):
    """Threads and blocks take turns in other orders from run to run; a row is the same whichever it is."""
    row = np.random.default_rng(8).normal(size=40000).astype(np.float32)
    for target in (CPU, SMALL):
        program = compile_graph(statistics((3, 40000), (1,)), target)
        x = np.stack([row, row, row])
        found = [run_program(program, [x], cuda_driver) for _ in range(3)]
        for outputs in zip(*found, strict=True):
            assert len({o.tobytes() for o in outputs}) == 1
            assert len({r.tobytes() for r in outputs[0]}) == 1


# -- what is recognised


def _user_written(b: Builder, x: Node) -> Any:
    mean = b.sum(x, (1,), keepdims=True) / 40960
    return b.sum((x - mean) * (x - mean), (1,)) / 40959


def _about_half_the_mean(b: Builder, x: Node) -> Any:
    about = b.mean(x, (1,), keepdims=True) * 0.5 + 1.0
    return b.sum((x - about) * (x - about), (1,))


def _two_of_one_sum(b: Builder, x: Node) -> Any:
    mean = b.mean(x, (1,), keepdims=True)
    more = mean + 1.0
    return b.mean((x - mean) * (x - mean), (1,)), b.mean((x - more) * (x - more), (1,)), b.reduce("amax", x, (1,))


def _of_a_function(b: Builder, x: Node) -> Any:
    y = b.tanh(x) * 3.0
    mean = b.mean(y, (1,), keepdims=True)
    return mean, b.mean((y - mean) * (y - mean), (1,))


def _about_a_number(b: Builder, x: Node) -> Any:
    return b.sum((x - 1.0) * (x - 1.0), (1,)), b.sum(x, (1,))


def _about_another_array(b: Builder, x: Node) -> Any:
    mean = b.mean(b.exp(x), (1,), keepdims=True)
    return b.sum((x - mean) * (x - mean), (1,))


def _about_another_axis(b: Builder, x: Node) -> Any:
    mean = b.mean(x, (0,), keepdims=True)
    return b.sum((x - mean) * (x - mean), (1,))


def _cubed(b: Builder, x: Node) -> Any:
    mean = b.mean(x, (1,), keepdims=True)
    return b.sum((x - mean) * (x - mean) * (x - mean), (1,))


PATTERNS = [
    (_user_written, 1),
    (_about_half_the_mean, 1),
    (_two_of_one_sum, 2),
    (_of_a_function, 1),
    (_about_a_number, 0),
    (_about_another_array, 0),
    (_about_another_axis, 0),
    (_cubed, 0),
]


@pytest.mark.parametrize(("function", "count"), PATTERNS)
def test_what_is_recognised(function, count, cuda_driver, small_caches):
    b = builder()
    out = function(b, b.input(tensor_type((3, 40960), f32), "x"))
    graph = b.finish([out] if isinstance(out, Node) else list(out), "pattern")
    assert sum(welford._match_deviations(n, CPU) is not None for n in simplify(graph).nodes) == count
    x = np.random.default_rng(9).normal(size=(3, 40960)).astype(np.float32)
    for target in (CPU, SMALL):
        program = compile_graph(graph, target)
        outputs = run_program(program, [x], cuda_driver, exact=count > 0)
        for got, want in zip(outputs, evaluate(graph, [x], wide=True), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_batch_normalisation_in_training():
    """Through Gluon, with channels last; the running averages are those of float64."""
    net = mx.gluon.nn.BatchNorm(axis=-1, momentum=0.0, in_channels=6)
    net.initialize()
    net.hybridize()
    x = mx.nd.array(np.random.default_rng(10).normal(size=(9000, 40, 6)) + 100, dtype="float32")
    with mx.autograd.record():
        y = net(x)
    y.backward()
    wide = x.asnumpy().astype(np.float64)
    np.testing.assert_allclose(net.running_mean.data().asnumpy(), wide.mean((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(net.running_var.data().asnumpy(), wide.var((0, 1)), rtol=1e-5)
    want = (wide - wide.mean((0, 1))) / np.sqrt(wide.var((0, 1)) + 1e-5)
    np.testing.assert_allclose(y.asnumpy(), want, atol=3e-4)

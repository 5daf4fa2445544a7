# SPDX-License-Identifier: Apache-2.0
"""Softmaxes of rows that do not stay on chip: two walks instead of three, one where only the sum is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiler.one_pass import run_pass
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture
from emulated import run_program

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import Builder, Graph, Node, tensor_type
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA, Target, cuda_target
from hybridgpu.core.dtypes import bf16, f16, f32, f64

pytestmark = pytest.mark.no_host_code

#: a GPU with so little on chip that rows of test size do not stay there
SMALL = CUDA.changed(shared_bytes=16384, cluster_blocks=1, part_elements=64, multiprocessors=2, launch_seconds=1e-9)


def parts(b: Builder, x: Node, axes: tuple[int, ...]) -> tuple[Node, Node, Node]:
    """x - maximum, the sum of its exponentials, and the maximum, in float32 at least."""
    if x.dtype.is_half:
        x = b.cast(x, f32)
    largest = b.reduce("amax", x, axes, keepdims=True)
    return x - largest, b.sum(b.exp(x - largest), axes, keepdims=True), largest


def softmax(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    d, total, _ = parts(b, x, axes)
    return b.cast(b.exp(d) / total, x.dtype)


def log_softmax(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    d, total, _ = parts(b, x, axes)
    return b.cast(d - b.log(total), x.dtype)


def sum_of_exponentials(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    _, total, largest = parts(b, x, axes)
    return b.log(total) + largest


MAKERS = {f.__name__: f for f in (softmax, log_softmax, sum_of_exponentials)}


def graph_of(make: Callable[..., Node], shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any = f32) -> Graph:
    b = builder()
    return b.finish([make(b, b.input(tensor_type(shape, dtype), "x"), axes)], make.__name__)


ROWS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 40960), (1,)),
    ((2, 40099), (1,)),  # a prime: the last part is shorter
    ((60000,), (0,)),
    ((5000, 6), (0,)),
    ((5003, 40), (0,)),
    ((2, 9000, 8), (1,)),
    ((16, 5, 40, 40), (0, 2, 3)),
    ((2, 3, 4507, 2), (1, 2)),
]


@pytest.mark.parametrize(("shape", "axes"), ROWS)
@pytest.mark.parametrize("make", MAKERS)
def test_values_and_traffic(make, shape, axes, cuda_driver):
    graph = graph_of(MAKERS[make], shape, axes)
    merged = run_pass("online_softmax", simplify(graph), SMALL)
    verify(merged)
    assert len(merged.nodes) > len(simplify(graph).nodes)
    x = (np.random.default_rng(5).normal(size=shape) * 8 + 3).astype(np.float32)
    program = compile_graph(graph, SMALL)
    (wanted,) = evaluate(graph, [x], wide=True)
    np.testing.assert_allclose(
        run_program(program, [x], cuda_driver)[0], wanted, rtol=3e-5, atol=1e-12 if make == "softmax" else 5e-6
    )
    whole = make != "sum_of_exponentials"
    assert [program.kernels[s.kernel].kind for s in program.steps] == ["reduce", "reduce"] + ["map"] * whole
    arrays = program.bytes_moved / x.nbytes
    assert (3 if whole else 1) < arrays < (3.2 if whole else 1.2)


#: what stands where in rows of 40,099 elements, of which a part holds some hundred
ROW = 40099
SPECIAL: dict[str, list[tuple[Any, float]]] = {
    "minus infinity in whole parts": [(slice(0, 9000), -np.inf)],
    "minus infinity everywhere but once": [(slice(0, ROW), -np.inf), (30000, -200.0)],
    "minus infinity in the last part": [(slice(ROW - 3000, ROW), -np.inf)],
    "minus infinity everywhere": [(slice(0, ROW), -np.inf)],
    "infinity": [(77, np.inf)],
    "infinities": [(77, np.inf), (20000, np.inf), (20001, -np.inf)],
    "NaN": [(40000, np.nan)],
    "NaN among minus infinity": [(slice(0, ROW), -np.inf), (5, np.nan)],
    "large": [(slice(0, 2000), 3e38), (30000, -3e38)],
    "far apart": [(slice(0, ROW, 2), 1000.0)],
    "signed zeros": [(slice(0, ROW), -0.0), (slice(0, ROW, 3), 0.0)],
    "subnormal": [(slice(0, ROW), 1e-41)],
}


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values(make, what, cuda_driver):
    x = np.random.default_rng(6).normal(size=(2, ROW)).astype(np.float32)
    for place, value in SPECIAL[what]:
        x[0, place] = value
    graph = graph_of(MAKERS[make], x.shape, (1,))
    (wanted,) = evaluate(graph, [x], wide=False)
    got = run_program(compile_graph(graph, SMALL), [x], cuda_driver)[0]
    np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=1e-12 if make == "softmax" else 5e-6)
    assert np.isfinite(got[1]).all()


@pytest.mark.parametrize("dtype", [f16, bf16, f64], ids=lambda d: d.name)
@pytest.mark.parametrize("make", MAKERS)
def test_types(make, dtype, cuda_driver):
    graph = graph_of(MAKERS[make], (2, 20011), (1,), dtype)
    x = np.random.default_rng(7).normal(size=(2, 20011)).astype(dtype.np)
    program = compile_graph(graph, SMALL)
    assert len(program.steps) == (2 if make == "sum_of_exponentials" else 3)
    (wanted,) = evaluate(graph, [x], wide=True)
    error = {f16: 2e-3, bf16: 2e-2, f64: 1e-12}[dtype]
    got = run_program(program, [x], cuda_driver)[0].astype(np.float64)
    np.testing.assert_allclose(got, wanted.astype(np.float64), rtol=error, atol=1e-7)


OLD = cuda_target("sm_75", 72)


@pytest.mark.parametrize(
    ("shape", "axes", "target", "kernels"),
    [
        ((64, 1000), (1,), CUDA, 1),
        ((38, 262144), (1,), CUDA, 1),  # stays in a cluster's shared memory
        ((1, 262144), (1,), CUDA, 1),  # launches would cost more
        ((38, 262144), (1,), OLD, 3),  # there are none
        ((8, 1 << 20), (1,), CUDA, 3),
        ((262144, 4), (0,), CUDA, 3),
        ((3, 262144, 2), (1,), CUDA, 1),  # one column of both stays there
        ((3, 262144, 4), (1,), CUDA, 3),
        ((64, 1000, 100), (1,), CUDA, 1),
    ],
)
def test_where_it_pays(shape, axes, target: Target, kernels):
    program = compile_graph(graph_of(softmax, shape, axes), target)
    assert len(program.steps) == kernels
    arrays = program.bytes_moved / (4 * np.prod(shape))
    assert arrays < (2.001 if kernels == 1 else 3.01)


def unlike(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    """The maximum is that of other axes."""
    largest = b.reduce("amax", x, (0, 1), keepdims=True)
    return b.sum(b.exp(x - largest), axes)


def of_another(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    return b.sum(b.exp(x - b.reduce("amax", x * 0.5, axes, keepdims=True)), axes)


def the_least(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    return b.sum(b.exp(x - b.reduce("amin", x, axes, keepdims=True)), axes)


def squared(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    e = b.exp(x - b.reduce("amax", x, axes, keepdims=True))
    return b.sum(e * e, axes)


@pytest.mark.parametrize("make", [unlike, of_another, the_least, squared], ids=lambda f: f.__name__)
def test_what_is_none(make):
    graph = simplify(graph_of(make, (8, 1 << 20), (1,)))
    assert run_pass("online_softmax", graph, CUDA) is graph


@pytest.mark.skipif(not has_nvrtc(), reason="needs NVRTC")
@pytest.mark.parametrize("arch", by_architecture(["sm_75", "sm_80", "sm_90", "sm_120"]))
@pytest.mark.parametrize(("shape", "axes"), [((8, 1 << 20), (1,)), ((262144, 4), (0,))])
def test_texts_stay_in_registers(arch, shape, axes):
    found = {k.name: k for k in compile_graph(graph_of(softmax, shape, axes), cuda_target(arch, 132)).kernels}
    report = compile_report(module_source(list(found.values())), arch, ["-default-device"], [kernels_folder()])
    assert set(report.kernels) == set(found)
    assert not {n: need for n, need in report.kernels.items() if need.spills}

# SPDX-License-Identifier: Apache-2.0
"""Kernels that become part of an earlier one that makes or reads the same array (CUDA): bytes, results, refusals."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from compiler.cases import parse
from compiler.test_fuse_plan import certify, fused
from compiler.test_rows_cuda import check
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture
from emulated import aligned

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.target import CUDA, cuda_target
from hybridgpu.core.dtypes import from_short

pytestmark = pytest.mark.no_host_code

FOUR = "f32[4,32,28,28]"
ROWS = "f32[256,512]"
CONV = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilate": (1, 1), "base_dilate": (1, 1), "groups": 1}


def product(b: Builder, y: Node) -> Node:
    """What a library makes of ``y``, and a kernel behind it: what ``y`` feeds runs two levels earlier than its sums."""
    if y.ndim == 2:
        w = b.input(parse(f"{y.dtype.short}[512,512]"), "w")
        return b.abs(b.dot(y, w))
    return b.abs(b.conv(y, b.input(parse(f"{y.dtype.short}[32,32,3,3]"), "w"), **CONV))


def bias(b: Builder, x: Node, dy: Node) -> list[Node]:
    """The gradient of an activation, for a library, and its sum over all but the channels."""
    y = b.select(b.gt(x, 0.5), dy, 0.0)
    return [product(b, y), b.sum(y, (0,) if y.ndim == 2 else (0, 2, 3))]


def twice(b: Builder, x: Node, dy: Node) -> list[Node]:
    """What two products read is computed from the same array, and one of them is waited for."""
    e = b.erf(x)
    return [product(b, dy * (1 - e * e)), b.dot(b.transpose(dy, (1, 0)), x * (e + 1))]


def stored(b: Builder, x: Node, dy: Node) -> list[Node]:
    """A result of the program, which nobody waits for."""
    y = b.exp(x)
    return [product(b, y * dy), b.abs(x) + y]


def late(b: Builder, x: Node, dy: Node) -> list[Node]:
    """What is left behind would wait until the end, when it is read with what follows the product."""
    y = b.exp(x)
    made = product(b, y)
    return [b.dot(made, b.dot(b.transpose(made, (1, 0)), b.abs(x) + y)), dy]


def behind(b: Builder, x: Node, dy: Node) -> list[Node]:
    """A sum that needs what a library makes of the same array."""
    y = b.exp(x)
    return [b.sum(product(b, y) * y, (0,)), dy]


def behind_sums(b: Builder, x: Node, dy: Node) -> list[Node]:
    """What reads sums over all rows, which the kernel that walks these takes on its way: they are known at its end."""
    e = b.exp(x)
    rows = e / b.sum(e, (1,), keepdims=True)
    sums = b.sum(x * dy, (0,), keepdims=True)
    w = b.input(parse("f32[512,512]"), "w")
    waited = b.dot(b.tanh(sums), w)
    return [b.dot(b.dot(rows, w), b.reshape(waited, (512, 1))), x * dy * sums]


def graph_of(make, of: str) -> Graph:
    b = builder()
    inputs = [b.input(parse(of), n) for n in ("x", "dy")]
    made = make(b, *inputs)
    return b.finish([o for o in made if o not in inputs], make.__name__)


def large(program: Program, size: int) -> list[tuple[int, int]]:
    """For each kernel how many arrays of ``size`` elements it reads and writes."""
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    counted = []
    for s in steps:
        arrays = [prod(program.buffers[k].shape) == size for k in s.buffers]
        counted.append((sum(arrays[: len(arrays) - s.outputs]), sum(arrays[len(arrays) - s.outputs :])))
    return [c for c in counted if any(c)]


#: what, of which arrays -> for each kernel how many such arrays it reads and writes
CASES = [
    (bias, FOUR, [(2, 1), (1, 1)]),
    (bias, "f32[3,32,30,31]", [(2, 1), (1, 1)]),
    (bias, ROWS, [(2, 1), (1, 1)]),
    (bias, "f16[300,512]", [(2, 1), (1, 1)]),
    (twice, ROWS, [(2, 2), (1, 1), (2, 0)]),
    (stored, ROWS, [(2, 2), (1, 1)]),
]


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize(("make", "of", "wanted"), CASES, ids=[f"{c[0].__name__} {c[1]}" for c in CASES])
def test_one_kernel_reads_what_two_would(make, of, wanted, numeric, cuda_driver):
    program = check(cuda_driver, graph_of(make, of), replace(CUDA, numeric=numeric), orders=2)
    assert sorted(large(program, prod(parse(of).shape))) == sorted(wanted)


@pytest.mark.long_table
@pytest.mark.parametrize("make", [late, behind, behind_sums])
def test_what_has_to_wait_waits(make, cuda_driver):
    program = check(cuda_driver, graph_of(make, ROWS))
    assert len(large(program, prod(parse(ROWS).shape))) > 1
    assert any("column_sums" in k.choice for k in program.kernels) is (make is behind_sums)
    assert (1, 2) not in large(program, prod(parse(ROWS).shape))


def test_what_became_part_of_a_kernel_is_in_no_other(cuda_driver):
    """Readers of one element: no index tells their groups apart, and one would wait for long where two others run."""
    b = builder()
    x, w, v = (b.input(parse(f"f32[{shape}]"), n) for n, shape in (("x", "1,1"), ("w", "1,8"), ("v", "8,8")))

    def products(y: Node, *factors: Node) -> Node:
        for factor in factors:
            y = b.dot(y, factor)
        return y

    first = products(b.exp(x), w, v)
    waiting = b.dot(b.abs(x), first)
    graph = b.finish([products(first, v, v), waiting, products(b.tanh(x), w, v), b.erf(x)], "element")
    program = check(cuda_driver, graph)
    certify(*fused(graph, CUDA), CUDA)
    assert sorted(large(program, 1)) == [*[(1, 0)] * 3, (1, 3)]


@pytest.mark.parametrize("of", ["f16[64,512]", "bf16[2,3,16,32]"])
def test_what_is_compared_with_its_maximum_is_rounded_before(of, cuda_driver):
    """Halves that round to one value are all the maximum; in the registers of the kernel that makes them one would be."""
    b = builder()
    x = b.input(parse(of), "x")
    y = b.abs(x * 0.0078125 + 1.0)
    axes = tuple(range(x.ndim // 2, x.ndim))
    mask = b.eq(y, b.broadcast(b.reduce("amax", y, axes, keepdims=True), y.shape))
    program = compile_graph(b.finish([b.select(mask, 1.0, 0.0)], "mask"), CUDA)
    loaded = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
    given, ((shape, short),) = aligned(x.shape, x.dtype.np), program.outputs
    given[...] = (np.arange(x.size) % 19 / 2048).reshape(x.shape).astype(x.dtype.np)
    out = aligned(shape, from_short(short).np)
    loaded([given], [out])
    rounded = (given.astype(np.float32) * np.float32(0.0078125) + 1).astype(x.dtype.np).astype(np.float32)
    np.testing.assert_array_equal(out.astype(bool), rounded == rounded.max(axes, keepdims=True))
    assert rounded.min() == rounded.max() and len(np.unique(given)) == 19


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", by_architecture(["sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]))
def test_nothing_is_spilled(arch):
    """As NVIDIA's compiler builds them, in both modes; products are no news here."""
    for numeric in ("strict", "fast"):
        target = replace(cuda_target(arch, 132), numeric=numeric)
        every = [k for make, of, _ in CASES for k in compile_graph(graph_of(make, of), target).kernels]
        found = {k.name: k for k in every if k.kind != "matmul"}
        report = compile_report(module_source(list(found.values())), arch, ["-default-device"], [kernels_folder()])
        wrong = {n: need for n, need in report.kernels.items() if need.spills}
        assert not wrong, wrong

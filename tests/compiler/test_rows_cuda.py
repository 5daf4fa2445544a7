# SPDX-License-Identifier: Apache-2.0
"""Rows and reductions on CUDA: every form at every length, executed on the CPU under checks, against float64.

The traffic of every launch is the plan's, whatever form was chosen, and results are the same in every order of threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.oracle import Oracle
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
from hybridgpu.compiler.target import CUDA, Target, cuda_target
from hybridgpu.core.dtypes import from_short

pytestmark = pytest.mark.no_host_code


def softmax(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    return e / b.sum(e, (-1,), keepdims=True)


def softmax_inner(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


def layer_norm(b: Builder, x: Node, g: Node, c: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    y = d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5) * g
    return b.cast(y, c.dtype) + c


def layer_norm_backward(b: Builder, x: Node, dy: Node, g: Node) -> Any:
    """Two arrays of rows are needed again."""
    d = x - b.mean(x, (-1,), keepdims=True)
    r = b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)
    n, w = d * r, dy * g
    return r * (w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True))


def batch_norm(b: Builder, x: Node) -> Node:
    d = x - b.mean(x, (0, 2), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (0, 2), keepdims=True) + 1e-5)


def statistics(b: Builder, x: Node) -> list[Node]:
    """Several reductions of one input."""
    return [b.sum(x, (-1,)), b.sum(x * x, (-1,)), b.reduce("amax", x, (-1,)), b.argmin(x, axes=(x.ndim - 1,))]


def column_statistics(b: Builder, x: Node) -> list[Node]:
    return [b.sum(x, (0,)), b.reduce("amin", x, (0,)), b.argmax(x, axes=(0,))]


def from_extremes(b: Builder, x: Node) -> list[Node]:
    """Positions that every thread of a row computes with."""
    largest, least = (b.reduce(name, x, (-1,), keepdims=True) for name in ("argmax", "argmin"))
    return [x + b.cast(largest, x.dtype), x * b.cast(least, x.dtype)]


def graph_of(function: Callable[..., Any], *types: str) -> Graph:
    b = builder()
    out = function(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(types)))
    return b.finish([out] if isinstance(out, Node) else list(out), function.__name__)


def check(driver: Any, graph: Graph, target: Target = CUDA, specials: bool = False, orders: int = 1) -> Program:
    """Run the program of ``graph``: right results, the plan's traffic, the same bits in all orders of threads."""
    program = compile_graph(graph, target)
    loaded = CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
    inputs = []
    for a in arrays(graph, 7, specials):
        inputs.append(aligned(a.shape, a.dtype))
        inputs[-1][...] = a
    seen: list[list[bytes]] = []
    for _ in range(orders):
        outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
        before = len(driver.launches)
        loaded(inputs, outputs)
        seen.append([a.tobytes() for a in outputs])
    assert all(s == seen[0] for s in seen), "the order of threads changes a result"
    Oracle(graph, inputs).check(outputs, f"{graph.name} {[n.shape for n in graph.inputs]}")
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    for launch, step in zip(driver.launches[before:], steps, strict=True):
        choice = program.kernels[step.kernel].choice
        again = choice.get("reread_bytes", 0)
        assert launch.read == step.bytes_read - again and launch.written == step.bytes_written, choice
        assert not again or launch.report.global_read >= step.bytes_read
    return program


def choices(program: Program) -> list[dict[str, Any]]:
    return [k.choice for k in program.kernels]


LENGTHS = [
    *(1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 33, 64, 100, 127, 128, 200, 256, 257, 511, 513, 1000, 1023, 1025),
    *(2047, 2048, 3000, 4097, 5000, 8192, 8193, 12288, 16384, 20001, 32768, 40000, 65536, 65537, 131072, 262144),
]


@pytest.mark.parametrize("length", LENGTHS)
def test_softmax_of_every_length(cuda_driver, length):
    rows = max(1, min(37, 6000 // length))
    program = check(cuda_driver, graph_of(softmax, f"f32[{rows},{length}]"))
    assert len(program.steps) == 1
    assert "reread_bytes" not in choices(program)[0]


DTYPES = ["f16", "bf16", "f32", "f64"]


@pytest.mark.parametrize("length", [5, 20, 100, 1000, 5000, 65536])
def test_every_thread_has_the_position_of_an_extreme(cuda_driver, length):
    """Whichever thread holds the first element of the row."""
    program = check(cuda_driver, graph_of(from_extremes, f"f32[6,{length}]"))
    assert [k.kind for k in program.kernels] == ["rows"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [6, 96, 801, 2500, 20000])
def test_layer_norm_of_every_float(cuda_driver, dtype, length):
    program = check(cuda_driver, graph_of(layer_norm, f"{dtype}[5,{length}]", f"{dtype}[{length}]", f"f32[{length}]"))
    assert len(program.steps) == 1


#: (what a machine lacks, what becomes of values that are needed again)
FORMS: dict[str, tuple[dict[str, int], Callable[[dict[str, Any], dict[str, int]], bool]]] = {
    "registers": ({"cluster_blocks": 1, "shared_bytes": 2048}, lambda c, launch: not launch["shared"]),
    "shared": ({"cluster_blocks": 1, "thread_items": 0}, lambda c, launch: launch["shared"] > 0),
    "usual": ({}, lambda c, launch: "reread_bytes" not in c),
    "cluster": ({"multiprocessors": 16}, lambda c, launch: c.get("cluster", 1) > 1),
    "again": (
        {"cluster_blocks": 1, "thread_items": 0, "shared_bytes": 2048},
        lambda c, launch: c["reread_bytes"] > 0 and not launch["shared"],
    ),
}
ROWS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (softmax, ("f32[2,16384]",)),
    (softmax, ("f32[3,16385]",)),
    (softmax, ("f16[2,24000]",)),
    (layer_norm_backward, ("f32[2,16384]", "f32[2,16384]", "f32[16384]")),
    (layer_norm_backward, ("f16[2,12001]", "f16[2,12001]", "f16[12001]")),
]


@pytest.mark.parametrize(("function", "types"), ROWS, ids=lambda v: v.__name__ if callable(v) else v[0])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_long_rows(cuda_driver, form, function, types):
    machine, expected = FORMS[form]
    program = check(cuda_driver, graph_of(function, *types), CUDA.changed(part_elements=1 << 30, **machine), orders=3)
    (kernel,) = program.kernels
    assert expected(kernel.choice, kernel.launch), kernel.choice


@pytest.mark.parametrize("machine", [{}, {"thread_items": 0}, {"thread_items": 0, "shared_bytes": 2048}], ids=str)
@pytest.mark.parametrize("shape", ["f32[3,7,5]", "f32[2,50,64]", "f16[2,300,24]", "f32[2,40,9]", "f64[70,33,4]"])
def test_inner_axes(cuda_driver, shape, machine):
    program = check(cuda_driver, graph_of(softmax_inner, shape), CUDA.changed(**machine), orders=3)
    assert [c["form"] for c in choices(program)] == ["columns"]


def norm_inner(b: Builder, x: Node) -> Any:
    """Its reduced values are results, too."""
    mean = b.mean(x, (1,), keepdims=True)
    d = x - mean
    return d * b.rsqrt(b.mean(d * d, (1,), keepdims=True) + 1e-5), mean


def norm_inner_backward(b: Builder, x: Node, dy: Node) -> Any:
    d = x - b.mean(x, (1,), keepdims=True)
    r = b.rsqrt(b.mean(d * d, (1,), keepdims=True) + 1e-5)
    return r * (dy - b.mean(dy, (1,), keepdims=True) - d * r * b.mean(dy * d * r, (1,), keepdims=True))


def norm_leading(b: Builder, x: Node) -> Node:
    """The length of its rows is an argument."""
    d = x - b.mean(x, (0,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (0,), keepdims=True) + 1e-5)


#: (function, operands, what the machine lacks); rows are kept in registers, in shared memory or in both
LONG_INNER = [
    (softmax_inner, ["f32[1,32768,8]"], {}),
    (softmax_inner, ["f16[2,9001,24]"], {}),
    (softmax_inner, ["f64[2,2500,6]"], {"thread_items": 0, "shared_bytes": 24 << 10}),
    (norm_inner, ["f32[3,20000,2]"], {}),
    (norm_inner, ["f32[2,9000,3]"], {}),
    (norm_inner, ["bf16[2,9000,2]"], {}),
    (norm_inner, ["f32[2,4100,6]"], {"thread_items": 0}),
    (norm_inner, ["f32[2,30000,2]"], {"thread_items": 0}),
    (norm_inner, ["f32[1,4500,2]"], {"thread_items": 0, "cluster_blocks": 2, "shared_bytes": 24 << 10}),
    (norm_inner, ["f32[5,2100,40]"], {"multiprocessors": 512}),
    (norm_inner_backward, ["f32[2,9000,5]", "f32[2,9000,5]"], {}),
    (norm_leading, ["f32[20000,6]"], {}),
]


@pytest.mark.parametrize(("function", "types", "machine"), LONG_INNER, ids=lambda v: getattr(v, "__name__", str(v)))
def test_blocks_of_a_cluster_share_rows_side_by_side(cuda_driver, function, types, machine):
    program = check(cuda_driver, graph_of(function, *types), CUDA.changed(**machine), orders=2)
    (choice,) = choices(program)
    assert choice["form"] == "columns" and choice["cluster"] > 1 and "reread_bytes" not in choice
    assert program.bytes_moved == program.bytes_min


def largest_difference(b: Builder, x: Node) -> list[Node]:
    """Positions are exchanged between blocks, too."""
    d = b.abs(x - b.reduce("amax", x, (1,), keepdims=True))
    return [b.argmax(d, axes=(1,)), b.reduce("amin", d, (1,)), b.sum(d, (1,))]


@pytest.mark.parametrize("specials", [False, True], ids=["plain", "specials"])
def test_every_state_crosses_from_block_to_block(cuda_driver, specials):
    eight = replace(CUDA, part_elements=1 << 30)
    program = check(cuda_driver, graph_of(largest_difference, "f32[2,9000,3]"), eight, specials, orders=2)
    assert choices(program)[0]["cluster"] > 1


@pytest.mark.parametrize("inner", [2, 3, 8, 64, 1000])
@pytest.mark.parametrize("outer", [1, 6, 64])
@pytest.mark.parametrize("function", [softmax_inner, norm_inner, norm_inner_backward], ids=lambda f: f.__name__)
def test_rows_along_inner_axes_are_read_once(function, outer, inner):
    """Up to what a cluster keeps of a half of a sector of memory, or of half of all columns."""
    for length in (
        1,
        2,
        7,
        100,
        1000,
        4096,
        8192,
        16384,
        32768,
        40000,
        65536,
        *([131072, 200000] if inner == 2 else []),
    ):
        arrays = function.__code__.co_argcount - 1
        kept = length <= 32768 if arrays == 2 else True  # of two arrays half as much
        if outer * length * inner <= 1 << 28 and kept:
            program = compile_graph(graph_of(function, *[f"f32[{outer},{length},{inner}]"] * arrays), CUDA)
            assert len(program.steps) == 1 and program.bytes_moved == program.bytes_min, length


@pytest.mark.long_table
@pytest.mark.parametrize("length", [300, 4100])
@pytest.mark.parametrize("inner", [2, 3, 64])
def test_a_row_along_an_inner_axis_is_the_same_in_any_batch(cuda_driver, length, inner):
    x = np.random.default_rng(length).normal(size=(1, length, inner)).astype(np.float32)
    found = []
    for batch in (1, 2, 5):
        graph = graph_of(norm_inner, f"f32[{batch},{length},{inner}]")
        program = compile_graph(graph, CUDA)
        given, outputs = (
            aligned((batch, *x.shape[1:]), np.float32),
            [aligned(s, np.float32) for s, _ in program.outputs],
        )
        given[...] = x
        CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)([given], outputs)
        found += [y.tobytes() for y in outputs[0]]
    assert len(set(found)) == 1


@pytest.mark.parametrize("shape", ["f32[4,3,8]", "f32[2,5,100]", "f32[3,2,1200]", "f16[5,3,7]", "f32[64,20,49]"])
def test_several_axes(cuda_driver, shape):
    check(cuda_driver, graph_of(batch_norm, shape))


@pytest.mark.parametrize("specials", [False, True], ids=["plain", "specials"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "f64", "i32", "i8", "u8", "i64", "i16", "u16", "u32", "u64"])
@pytest.mark.parametrize("function", [statistics, column_statistics], ids=lambda f: f.__name__)
def test_reductions_of_one_input_share_a_kernel(cuda_driver, function, dtype, specials):
    program = check(cuda_driver, graph_of(function, f"{dtype}[70,96]"), specials=specials, orders=3)
    assert len(program.steps) == 1


#: in parts of a few hundred elements, as if starting a kernel took no time
EAGER = CUDA.changed(launch_seconds=0.0, part_elements=200)
IN_PARTS = [
    (statistics, "f32[1,4096]"),
    (statistics, "f32[2,3001]"),
    (statistics, "f16[3,2048]"),
    (statistics, "i32[1,5000]"),
    (column_statistics, "f32[2048,8]"),
    (column_statistics, "f64[1009,5]"),
    (softmax, "f32[1,5000]"),
    (batch_norm, "f32[16,2,130]"),
]


@pytest.mark.parametrize("specials", [False, True], ids=["plain", "specials"])
@pytest.mark.parametrize(("function", "shape"), IN_PARTS, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_in_parts(cuda_driver, function, shape, specials):
    program = compile_graph(graph_of(function, shape), EAGER)
    whole = compile_graph(graph_of(function, shape), CUDA)
    assert len(program.steps) > len(whole.steps)
    if "3001" in shape or "1009" in shape:  # the last part is filled up: such loads are masked, their traffic a bound
        loaded = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
        inputs = arrays(graph_of(function, shape), 7, specials)
        outputs = [aligned(s, from_short(short).np) for s, short in program.outputs]
        loaded(inputs, outputs)
        Oracle(graph_of(function, shape), inputs).check(outputs, "in parts")
        return
    check(cuda_driver, graph_of(function, shape), EAGER, specials, orders=3)


def test_few_rows_of_many_elements_are_reduced_in_parts():
    for shape, steps in (("f32[16777216]", 2), ("f32[4,4194304]", 2), ("f32[16384]", 1), ("f32[65536,1024]", 1)):
        program = compile_graph(graph_of(lambda b, x: b.sum(x * x, (-1,)), shape), CUDA)
        assert len(program.steps) == steps, shape
    columns = compile_graph(graph_of(lambda b, x: b.sum(x, (0,)), "f32[65536,256]"), CUDA)
    assert len(columns.steps) == 2
    # what is left of the reduction moves next to nothing
    assert columns.bytes_moved < columns.bytes_min * 1.02


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [128, 1024, 8192, 65536])
def test_accesses_are_128_bits_wide(cuda_driver, dtype, length):
    rows = max(1, 4096 // length)
    graph = graph_of(softmax, f"{dtype}[{rows},{length}]")
    check(cuda_driver, graph)
    report = cuda_driver.launches[-1].report
    assert report.wide_loads == report.global_loads and report.wide_stores == report.global_stores


@pytest.mark.parametrize("dtype", DTYPES)
def test_ragged_rows_are_mostly_read_wide(cuda_driver, dtype):
    rows, length = 5, 1001
    check(cuda_driver, graph_of(softmax, f"{dtype}[{rows},{length}]"), CUDA.with_numeric("fast"))
    report = cuda_driver.launches[-1].report
    size = from_short(dtype).size
    ends = 2 * (16 // size - 1) * rows  # of every row, at most
    assert report.global_loads - report.wide_loads <= ends and report.global_stores - report.wide_stores <= ends


def variance(b: Builder, x: Node) -> Any:
    d = x - b.mean(x, (-1,), keepdims=True)
    return b.mean(d * d, (-1,)), b.reduce("prod", x, (-1,))


@pytest.mark.parametrize("function", [softmax, variance])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [33, 129, 1001, 4098, 20001])
def test_a_rows_result_does_not_depend_on_where_it_stands(cuda_driver, function, dtype, length):
    graph = graph_of(function, f"{dtype}[5,{length}]")
    loaded = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(
        program := compile_graph(graph, CUDA)
    )
    np_type = from_short(dtype).np
    x = aligned((5, length), np_type)
    x[...] = np.random.default_rng(length).uniform(0.5, 1.5, length).astype(np_type)
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    loaded([x], outputs)
    for y in outputs:
        assert all(row.tobytes() == y[0].tobytes() for row in y)


def test_largest_elements_have_no_order_that_rounds(cuda_driver):
    check(cuda_driver, graph_of(lambda b, x: b.reduce("amax", x, (-1,)), "f32[5,1001]"))
    report = cuda_driver.launches[-1].report
    assert report.wide_loads > report.global_loads // 2


def shared_out(b: Builder, x: Node) -> Node:
    """Walked twice, and in no parts."""
    return x / b.sum(b.abs(x), (-1,), keepdims=True)


@pytest.mark.parametrize(("arch", "kept"), [("sm_75", False), ("sm_80", True), ("sm_86", False), ("sm_90", True)])
def test_what_an_architecture_can_keep(arch, kept):
    program = compile_graph(graph_of(shared_out, "f32[1024,40000]"), cuda_target(arch, 100))
    (choice,) = choices(program)
    assert ("reread_bytes" not in choice) == kept
    assert (choice.get("cluster", 1) > 1) == (arch == "sm_90")
    assert choice["why"]


def test_a_row_that_is_read_again_counts_again():
    near, far = (
        compile_graph(graph_of(shared_out, "f32[256,40000]"), cuda_target(arch, 132)) for arch in ("sm_90", "sm_75")
    )
    assert near.bytes_moved == near.bytes_min
    assert far.bytes_moved == near.bytes_min + choices(far)[0]["reread_bytes"]


@pytest.mark.parametrize("length", [8, 128, 1000, 4096])
def test_short_rows_share_a_text_whatever_their_number(length):
    for function in (softmax, statistics):
        programs = [compile_graph(graph_of(function, f"f32[{n},{length}]"), CUDA) for n in (2, 3, 700)]
        assert len({tuple(k.text for k in p.kernels) for p in programs}) == 1


def test_launches_fit_the_machine():
    for arch in ("sm_75", "sm_80", "sm_86", "sm_90", "sm_120"):
        target = cuda_target(arch, 132)
        for length in (1, 77, 1024, 9000, 30000, 65536, 262144):
            for function, types in ((softmax, ["f32"]), (layer_norm_backward, ["f16", "f16", "f16"])):
                shapes = [f"{t}[300,{length}]" if k < 2 else f"{t}[{length}]" for k, t in enumerate(types)]
                for k in compile_graph(graph_of(function, *shapes), target).kernels:
                    assert k.launch is not None
                    assert k.launch["threads"] <= 1024 and k.launch["shared"] <= target.gpu.shared_bytes
                    gpu = target.gpu
                    most = gpu.row_cluster_blocks if k.choice.get("form") == "rows" else gpu.cluster_blocks
                    assert k.choice.get("cluster", 1) <= most


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", by_architecture(["sm_80", "sm_90"]))
def test_forms_stay_in_registers(arch):
    """As NVIDIA's compiler builds them: what is kept in registers is not spilled from them."""
    graphs = [graph_of(f, *types) for f, types in ROWS]
    graphs += [graph_of(softmax, t) for t in ("f32[300,32768]", "f16[300,32768]", "f16[300,1600]", "f64[300,4096]")]
    graphs += [graph_of(layer_norm_backward, "f16[300,9000]", "f16[300,9000]", "f16[9000]")]
    found = {}
    for machine, _ in FORMS.values():
        target = cuda_target(arch, 132)
        if target.gpu.cluster_blocks < machine.get("cluster_blocks", 1):
            continue
        for graph in graphs:
            for k in compile_graph(graph, target.changed(part_elements=1 << 30, **machine)).kernels:
                found[k.name] = k
    built_in_registers(found, arch)


def built_in_registers(found: dict[str, Any], arch: str) -> None:
    report = compile_report(module_source(list(found.values())), arch, ["-default-device"], [kernels_folder()])
    wrong = {
        n: need
        for n, need in report.kernels.items()
        if need.spills or need.registers * found[n].launch["threads"] > 1 << 16
    }
    assert not wrong, {n: (need, found[n].choice) for n, need in wrong.items()}


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", by_architecture(["sm_80", "sm_90", "sm_100", "sm_120"]))
def test_rows_side_by_side_stay_in_registers(arch):
    graphs = [graph_of(f, *types) for f, types, machine in LONG_INNER if not machine]
    graphs += [
        graph_of(softmax_inner, t) for t in ("f32[9,65536,8]", "f16[9,65536,16]", "f64[9,32768,6]", "f32[9,200000,2]")
    ]
    built_in_registers({k.name: k for g in graphs for k in compile_graph(g, cuda_target(arch, 132)).kernels}, arch)


@pytest.mark.parametrize(("length", "blocks"), [(8192, 1), (32768, 4), (65536, 8), (131072, 16), (262144, 16)])
def test_long_rows_overlap_loads_and_arithmetic(length, blocks):
    """Softmax of float32 at 0.75 of a copy by the model, with an H100's clock and bandwidth: several blocks share an SM."""
    rows = (1 << 27) // length
    target = CUDA.changed(clock=1.98e9, byte_seconds=3.3e-13)
    program = compile_graph(graph_of(softmax, f"f32[{rows},{length}]"), target)
    (kernel,) = program.kernels
    assert kernel.choice.get("cluster", 1) == blocks and kernel.launch["threads"] < 1024
    seconds = float(re.search(r"([\d.e+]+) us by the model", kernel.choice["why"])[1]) * 1e-6
    assert 8 * rows * length * target.device.byte_seconds / seconds >= 0.75

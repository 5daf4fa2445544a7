# SPDX-License-Identifier: Apache-2.0
"""Map kernels: tiles, joins cut into loops, rows of any width, positions beyond 32 bits.

Random graphs of what moves elements about, on both targets; how the memory of a GPU sees a kernel's
accesses; and what the schedule says about texts too large to run.
"""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from compiler.cases import arrays, build, parse
from compiler.test_graphs import close, fresh, on_device
from cuda_on_cpu import Buffer, Module
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from emulated import run_program

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.ir.indexing import ZERO, Condition, Expr, Var, of_var
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.cuda.index_type import index_type
from hybridgpu.compiler.schedule.index_set_splitting import breakpoints
from hybridgpu.compiler.schedule.scalar import Scalar, ScalarProgram, Store
from hybridgpu.compiler.target import CPU, CUDA, cuda_target
from hybridgpu.core.dtypes import f32, from_short


def graph_of(function, *types):
    b = builder()
    out = function(b, *[b.input(parse(t), f"x{k}") for k, t in enumerate(types)])
    return b.finish(list(out) if isinstance(out, (list, tuple)) else [out], "g")


def moves(seed: int):
    """A random graph of views and joins with a little arithmetic between them."""
    rng = random.Random(seed)
    b = builder()
    dtype = from_short(rng.choice(["f32", "f32", "f32", "f64", "f16", "bf16", "u8", "i32"]))
    rank = rng.randint(2, 4)
    shape = tuple(rng.choice([1, 3, 4, 9, 16, 33, 40, 64]) if rank > 2 else rng.randint(30, 120) for _ in range(rank))
    while np.prod(shape) > 20000:
        shape = tuple(max(1, d // 2) for d in shape)
    inputs = [b.input(tensor_type(shape, dtype), f"x{k}") for k in range(rng.randint(1, 3))]
    live = list(inputs)

    def grown(x):
        kind = rng.choice(
            ["transpose", "transpose", "concat", "concat", "pad", "slice", "reverse", "scale", "add", "bias", "split"]
        )
        if kind == "transpose":
            perm = list(range(x.ndim))
            rng.shuffle(perm)
            return b.transpose(x, tuple(perm))
        axis = rng.randrange(x.ndim)
        if kind == "concat" and x.size < 20000:
            parts = [x]
            for _ in range(rng.randint(1, 3)):
                d = rng.randint(1, x.shape[axis])
                end = tuple(d if k == axis else n for k, n in enumerate(x.shape))
                parts.append(b.slice(rng.choice([y for y in live if y.shape == x.shape] or [x]), (0,) * x.ndim, end))
            rng.shuffle(parts)
            return b.concat(parts, axis)
        if kind == "pad":
            low, high = ([rng.randint(0, 3) if k == axis else 0 for k in range(x.ndim)] for _ in range(2))
            return b.pad(x, low=tuple(low), high=tuple(high), value=3)
        if kind == "slice" and x.shape[axis] > 4:
            begin = [1 if k == axis else 0 for k in range(x.ndim)]
            step = [rng.randint(1, 2) if k == axis else 1 for k in range(x.ndim)]
            return b.slice(x, tuple(begin), x.shape, tuple(step))
        if kind == "reverse":
            return b.reverse(x, axes=(axis,))
        if kind == "add":
            same = [y for y in live if y.shape == x.shape]
            return x + rng.choice(same) if same else x * 2
        if kind == "bias":
            end = tuple(x.shape[k] if k == axis else 1 for k in range(x.ndim))
            return x + b.broadcast(b.slice(x, (0,) * x.ndim, end), x.shape)
        if kind == "split" and x.shape[axis] % 2 == 0:
            return b.reshape(x, (*x.shape[:axis], 2, x.shape[axis] // 2, *x.shape[axis + 1 :])) if x.ndim < 5 else x
        return x * 2

    for _ in range(rng.randint(3, 8)):
        live.append(grown(rng.choice(live[-3:])))
    outputs = [live[-1], *rng.sample(live[len(inputs) :], min(2, len(live) - len(inputs)))]
    return b.finish([y * 1 for y in outputs[: rng.randint(1, 3)]], f"moves{seed}")


@pytest.mark.parametrize("seed", range(24))
def test_random_moves(seed, compiler, cuda_driver):
    graph = moves(seed)
    inputs = arrays(graph, seed)
    wanted = evaluate(graph, inputs, wide=True)
    program = compile_graph(graph, CPU)
    outputs = fresh(program)
    cpu_backend().load(program)(inputs, outputs)
    for got, want in zip(outputs, wanted, strict=True):
        close(got, want, inputs, f"{graph} on the CPU")
    program = compile_graph(graph, CUDA)
    outputs = fresh(program)
    address = lambda a: int(a.__array_interface__["data"][0])  # noqa: E731
    CudaBackend(cuda_driver, np, address).load(program)([on_device(a) for a in inputs], outputs)
    for got, want in zip(outputs, wanted, strict=True):
        close(got, want, inputs, f"{graph} for CUDA")


# -- how the memory of a GPU sees it


def traced(graph, warps: int = 8):
    """Loads and stores of the first warps of a graph's only kernel, run on the CPU as written."""
    (kernel,) = (program := compile_graph(graph, CUDA)).kernels
    (step,) = program.steps
    module = Module(module_source([kernel]), include_dirs=[str(kernels_folder())], names=[kernel.name])
    memory = [on_device(a) for a in (*arrays(graph), *fresh(program))]
    buffers = [Buffer(memory[k], name=f"argument {k}") for k in step.buffers]
    launch = kernel.launch
    blocks = -(-step.extents[0] * launch["scale"] // launch["per_block"])
    numbers = [np.int64(n) for n in step.extents]
    return module[kernel.name](blocks, launch["threads"], [*buffers, *numbers], trace_warps=warps).accesses


COALESCED = {
    "transposed": (lambda b, x: b.transpose(x, (1, 0)) * 2, ("f32[96,64]",)),
    "transposed doubles": (lambda b, x: b.transpose(x, (1, 0)) * 2, ("f64[96,64]",)),
    "transposed halves": (lambda b, x: b.transpose(x, (1, 0)) * 2, ("f16[128,192]",)),
    "transposed bytes": (lambda b, x: b.transpose(x, (1, 0)) + 1, ("u8[256,128]",)),
    "two operands across": (
        lambda b, x, y, z: b.transpose(x, (1, 0)) * b.transpose(y, (1, 0)) + z,
        ("f32[96,64]", "f32[96,64]", "f32[64,96]"),
    ),
    "both ways": (lambda b, x: (b.exp(x), b.transpose(b.exp(x), (1, 0))), ("f32[64,96]",)),
    "channels last": (lambda b, x: b.transpose(x, (0, 2, 3, 1)) * 2, ("f32[2,32,8,8]",)),
    "few channels last": (lambda b, x: b.transpose(x, (0, 2, 1)) * 2, ("f32[2,8,256]",)),
    "heads": (lambda b, x: b.transpose(x, (0, 2, 1, 3)) * 2, ("f32[2,16,4,64]",)),
    "parts of a join": (lambda b, x, y: b.concat([b.transpose(x, (1, 0)), y], 1) * 2, ("f32[64,96]", "f32[96,64]")),
    "joined rows": (lambda b, x, y: b.concat([x, y], 1) * 2, ("f32[64,128]", "f32[64,64]")),
}


@pytest.mark.no_host_code
@pytest.mark.parametrize("name", COALESCED)
def test_accesses_are_coalesced_and_free_of_bank_conflicts(name):
    for access in traced(graph_of(*(lambda f, types: (f, *types))(*COALESCED[name]))):
        if access.space == "shared":
            assert access.bank_conflict <= 2, f"{access}"
        else:
            assert access.sectors <= 1.1 * access.ideal, f"{access}"


@pytest.mark.parametrize(
    ("types", "function"),
    [
        (("f32[8,1023]", "f32[8,1023]"), lambda b, x, y: x * y + 1),
        (("f32[8,1023]", "f32[1023]"), lambda b, x, y: x + y),
        (("f16[8,1023]", "f16[8,1]"), lambda b, x, y: x * y),
        (("u8[7,77]",), lambda b, x: x + 1),
        (("f64[7,77]", "f64[77]"), lambda b, x, y: x * y),
        (("bf16[7,512]", "bf16[512]"), lambda b, x, y: x * y),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, tuple) else "",
)
def test_accesses_in_order_are_128_bits_wide_whatever_the_rows(types, function):
    accesses = [a for a in traced(graph_of(function, *types), warps=4) if a.space == "global" and a.write]
    widest = max(accesses, key=lambda a: a.bytes)
    assert widest.bytes == 16


# -- several kernels in one launch


def steps(sizes, dtype="f32"):
    """An optimizer's step for arrays of some sizes."""
    b = builder()
    types = [tensor_type(s, from_short(dtype)) for s in sizes]
    pairs = [(b.input(t, f"w{k}"), b.input(t, f"g{k}")) for k, t in enumerate(types)]
    return b.finish([w - b.min(b.max(g, -1.0), 1.0) * 0.1 for w, g in pairs], "steps")


SIZES = [(k % 7 + 1, 31 * k + 2) for k in range(40)]


def test_steps_of_many_arrays_are_one_launch(cuda_driver):
    graph = steps(SIZES)
    program = compile_graph(graph, CUDA)
    assert [k.kind for k in program.kernels] == ["foreach"] and len(program.steps) == 1
    assert program.kernels[0].choice["bodies"] == 1 and program.kernels[0].choice["kernels"] == 40
    inputs = [on_device(a) for a in arrays(graph)]
    outputs = fresh(program)
    address = lambda a: int(a.__array_interface__["data"][0])  # noqa: E731
    CudaBackend(cuda_driver, np, address).load(program)(inputs, outputs)
    for got, want in zip(outputs, evaluate(graph, inputs, wide=True), strict=True):
        close(got, want, inputs, "step")
    (launch,) = cuda_driver.launches
    assert (launch.read, launch.written) == (program.steps[0].bytes_read, program.steps[0].bytes_written)


def test_the_text_of_many_steps_does_not_depend_on_sizes():
    texts = [compile_graph(steps([(n,), (3, n), (7 * n,)]), CUDA).kernels[0].text for n in (100, 102, 9999)]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize(
    ("graph", "kinds"),
    [
        (steps([(100,)]), ["map"]),
        (steps([(1 << 22,), (1 << 22,), (9,), (8,)]), ["foreach", "map", "map"]),
        (steps([(9,)] * 80), ["foreach", "foreach"]),  # the second for those that the first has no parameters for
        (graph_of(lambda b, x, y: (b.exp(x), b.transpose(y, (1, 0)) * 2), "f32[100]", "f32[64,64]"), ["map", "map"]),
        (graph_of(lambda b, x, y: (b.exp(x), b.sum(y, (1,))), "f32[100]", "f32[64,64]"), ["map", "reduce"]),
    ],
    ids=["one array", "large ones", "too many", "tiles", "reductions"],
)
def test_what_shares_a_launch(graph, kinds):
    program = compile_graph(graph, CUDA)
    assert sorted(program.kernels[s.kernel].kind for s in program.steps) == kinds
    assert all(len(s.buffers) + len(s.extents) <= 250 for s in program.steps)


def test_kernels_that_need_each_other_do_not_share_a_launch():
    graph = graph_of(lambda b, x, y: b.exp(b.sum(x, (0,))) + b.exp(y), "f32[30,40]", "f32[40]")
    assert len(compile_graph(graph, CUDA).steps) == len(compile_graph(graph, CPU).steps)


@pytest.mark.parametrize(
    ("elements", "kinds"), [(1000, ["foreach"]), (1 << 21, ["foreach"] * 3), (1 << 23, ["map"] * 6)]
)
def test_large_results_do_not_wait_for_a_launch_that_reads_little_of_them(elements, kinds):
    """They would have to live until then, all of them."""
    b = builder()
    totals = [b.cumsum(b.input(tensor_type((elements,), f32), f"x{k}"), axis=0) for k in range(6)]
    parts = [b.slice(t, (0,), (100,)) for t in totals]
    program = compile_graph(b.finish([p * 2.0 for p in parts], "parts"), CUDA)
    assert [program.kernels[s.kernel].kind for s in program.steps if isinstance(s, KernelStep)] == kinds
    assert program.peak_live_bytes <= 4 * max(6 * 1000, 2 * elements, 1 << 22)


def test_the_cpu_keeps_kernels_apart():
    assert all(k.kind == "map" for k in compile_graph(steps(SIZES[:3]), CPU).kernels)


# -- what is too large to run


def program_of(extents, load, store, conditions=()):
    variables = [Var(f"i{k}", d) for k, d in enumerate(extents)]
    b = builder()
    node = b.input(tensor_type((4,), f32), "x")
    value = Scalar("load", f32, node=node, offset=load(*variables), conditions=tuple(conditions))
    return ScalarProgram([value], [], [Store(node, value, store(*variables))], variables, [])


@pytest.mark.parametrize(
    ("extents", "load", "fits"),
    [
        ((1 << 30,), lambda i: of_var(i), True),
        (((1 << 31) - (1 << 26) - 1,), lambda i: of_var(i), True),
        ((1 << 31,), lambda i: of_var(i), False),
        ((1 << 16, 1 << 15), lambda i, j: of_var(i) * (1 << 15) + of_var(j), False),
        ((4, 1000), lambda i, j: of_var(i) * (1 << 30) + of_var(j), False),
        ((2, 1000), lambda i, j: of_var(i) * (1 << 30) + of_var(j), True),
        ((1000,), lambda i: of_var(i) * -1 + (1 << 31), False),
        ((1 << 20,), lambda i: of_var(i) * -3000 + ((1 << 31) - 1), False),
        ((8, 8), lambda i, j: ZERO, True),
    ],
)
def test_positions_of_32_bits_only_where_all_arithmetic_fits(extents, load, fits):
    found = index_type([program_of(extents, load, lambda *v: of_var(v[0]))])
    assert found == ("int" if fits else "long long")


@pytest.mark.parametrize(
    ("type_", "function", "index"),
    [
        ("u8[40000,50000]", lambda b, x: x + 1, "int"),
        ("u8[50000,50000]", lambda b, x: x + 1, "long long"),
        ("u8[50000,50000]", lambda b, x: b.transpose(x, (1, 0)) + 1, "long long"),
        ("u8[60000,50000]", lambda b, x: b.slice(x, (0, 0), (60000, 10)) + 1, "long long"),
        ("u8[60000,50000]", lambda b, x: b.slice(x, (0, 0), (10, 50000)) + 1, "int"),
        ("f32[3,30000,30000]", lambda b, x: b.exp(b.transpose(x, (0, 2, 1))), "long long"),
    ],
)
def test_texts_for_huge_arrays_count_in_64_bits(type_, function, index):
    (kernel,) = compile_graph(graph_of(function, type_), CUDA).kernels
    assert set(re.findall(r"typedef (.*) Index;", kernel.text)) == {index}


# -- the schedule


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_the_choice_of_a_tile_is_told(target):
    (kernel,) = compile_graph(build("tiled"), target).kernels
    assert re.fullmatch(r"\d+x\d+", kernel.choice["tile"])
    assert "across the innermost axis" in kernel.choice["why"]


@pytest.mark.parametrize(
    ("dtype", "arrays", "tile"), [("f16", 4, "64x64"), ("f16", 12, "32x32"), ("f64", 4, "32x32"), ("f64", 5, None)]
)
def test_tiles_fit_the_shared_memory(dtype, arrays, tile, cuda_driver):
    """As many arrays that are read across the innermost axis as others: with too many, tiles are smaller, or none."""
    b = builder()
    straight, turned = (
        [b.input(parse(f"{dtype}[{shape}]"), f"{name}{k}") for k in range(arrays)]
        for name, shape in (("x", "64,96"), ("y", "96,64"))
    )
    out = straight[0]
    for x, y in zip(straight, turned):
        out = b.max(b.min(out, x), b.transpose(y, (1, 0)))
    graph = b.finish([out], "turned")
    program = compile_graph(graph, CUDA)
    assert [k.choice.get("tile") for k in program.kernels] == [tile]
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-8, 8, n.shape).astype(n.dtype.np) for n in graph.inputs]
    np.testing.assert_array_equal(*run_program(program, inputs, cuda_driver), *evaluate(graph, inputs))


@pytest.mark.parametrize("name", ["wide_joins", "joined_rows", "wide_pad", "stacked"])
def test_joins_on_the_cpu_have_no_condition_an_element(name):
    (kernel,) = compile_graph(build(name), CPU).kernels
    assert "?" not in kernel.text


@pytest.mark.no_host_code
@pytest.mark.parametrize("step", [1, 2, 3, 7, -1, -2, -3])
@pytest.mark.parametrize("const", [-9, -1, 0, 4, 11])
@pytest.mark.parametrize("bound", [1, 5, 12])
def test_turns_are_where_a_condition_changes(step, const, bound):
    var = Var("i0", 20)
    condition = Condition(Expr(((var, step),), const), bound)
    truth = [0 <= step * k + const < bound for k in range(20)]
    found = breakpoints(program_of((20,), lambda i: ZERO, lambda i: ZERO, [condition]), var)
    changes = {k for k in range(1, 20) if truth[k] != truth[k - 1]}
    assert changes <= set(found) and all(0 < k < 20 for k in found)


def test_rows_of_numbers_are_no_reason_to_turn_an_array():
    """What is read again for every row comes from a cache; the large operands lie along the innermost axis already."""
    b = builder()
    x = b.input(tensor_type((4096, 1024), f32), "x")
    y = x
    for k in range(4):
        y = b.mul(y, b.broadcast(b.input(tensor_type((1, 1024), f32), f"v{k}"), (4096, 1024)))
    for target in (CPU, CUDA):
        (kernel,) = compile_graph(b.finish([y], "rows"), target).kernels
        assert "tile" not in kernel.choice


def test_parts_of_a_join_are_dealt_out_one_after_the_other():
    """The block that begins a part is the one behind the last of the part before."""
    (kernel,) = compile_graph(build("joined_rows"), CUDA).kernels
    turns = re.findall(r"^ *block = (.*);  // the next part", kernel.text, re.M)
    taken = [-(-64 * rows // (256 * 4)) for rows in (40, 7)]
    for blocks in (1, 4, 5, 16):
        at, before = list(range(blocks)), 0
        for turn, count in zip(turns, taken, strict=True):
            at = [eval(turn, {"block": k, "blocks": blocks}) for k in at]
            before += count
            assert at.index(0) == before % blocks and sorted(at) == list(range(blocks))


def busy(b, x, y):
    return b.erf(x) * y + y


def busy_rows(b, x, bias, y):
    return b.erf(x + b.broadcast(bias, x.shape)) + y


@pytest.mark.parametrize(
    ("graph", "always", "streaming"),
    [
        (graph_of(busy, "f32[1000]", "f32[1000]"), ["x0", "x1"], []),
        (graph_of(busy, "f64[3,300]", "f64[3,300]"), ["x0", "x1"], []),
        (graph_of(busy, "f16[513]", "f16[513]"), ["x0", "x1"], []),
        (graph_of(busy_rows, "f32[3,256]", "f32[1,256]", "f32[3,256]"), ["x0", "x2"], []),  # the bias stays in a cache
        (
            graph_of(busy_rows, "f32[3,255]", "f32[1,255]", "f32[3,255]"),
            ["x0", "x2"],
            [],
        ),  # behind the first line of a row
        (
            graph_of(lambda b, x, y: x * 0.5 + y, "f32[1000]", "f32[1000]"),
            [],
            ["x0", "x1"],
        ),  # little arithmetic: memory is the limit
        (
            graph_of(lambda b, x, y, z: b.erf(x) * y + z, *["f32[1000]"] * 3),
            [],
            ["x0", "x1", "x2"],
        ),  # little for each array
        (graph_of(lambda b, x: b.erf(x) * x, "f32[1000]"), [], ["x0"]),  # one array of a cache is left to the hardware
    ],
)
def test_what_is_fetched_ahead(graph, always, streaming, compiler):
    """Several arrays beside much arithmetic are read in blocks, and what comes later is asked for; every array where
    results are stored past the caches."""
    program = compile_graph(graph, CPU)
    (kernel,) = program.kernels
    assert list(dict.fromkeys(re.findall(r"^ *hg::prefetch_elements<true>\((x\d) \+", kernel.text, re.M))) == always
    assert re.findall(r"if \(nontemporal\) hg::prefetch_elements<true>\((x\d) \+", kernel.text) == streaming
    inputs, outputs = arrays(graph, 0), fresh(program)
    cpu_backend().load(program)(inputs, outputs)
    for got, want in zip(outputs, evaluate(graph, inputs, wide=True), strict=True):
        close(got, want, inputs, str(graph))


@pytest.mark.parametrize("perm", [(1, 2, 0), (2, 1, 0), (2, 0, 1), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("shape", [(16, 4, 73), (9, 16, 73), (9, 73, 16), (16, 73, 9), (4, 44, 9)], ids=str)
def test_results_in_two_orders(shape, perm, compiler):
    """Two axes are walked in tiles, in whatever order: the kernel is told the extent of the loop that it runs."""

    def both(b, x):
        y = b.exp(x)
        return y, b.copy(b.transpose(y, perm))

    graph = graph_of(both, f"f32[{','.join(map(str, shape))}]")
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    program = compile_graph(graph, CPU)
    outs = fresh(program)
    for out in outs:
        out[...] = np.nan
    cpu_backend().load(program)([x], outs)
    for out, want in zip(outs, evaluate(graph, [x], wide=True), strict=True):
        np.testing.assert_allclose(out, want, 1e-5)


@pytest.mark.no_host_code
@pytest.mark.parametrize(
    ("types", "arch", "unroll"),
    [
        (("f32[100000]",), "sm_90", 2),
        (("f32[100000]", "f32[100000]"), "sm_90", 1),
        (("f32[100000]", "f32[100000]"), "sm_100", 1),
        (("f32[100000]",), "sm_75", 4),  # half as many threads
        (("f16[100000]",), "sm_90", 2),
        (("f16[100000]", "f32[1]"), "sm_90", 4),  # results of four bytes: eight of halves
        (("f64[100000]",), "sm_90", 1),  # values take two registers each
        (("i8[100000]",), "sm_100", 2),
    ],
    ids=str,
)
def test_loads_at_once_keep_memory_busy(types, arch, unroll):
    """So many steps of a thread that the loads of a full multiprocessor are what its memory wants, and not more."""
    target = cuda_target(arch, 132)
    b = builder()
    xs = [b.input(parse(t), f"x{k}") for k, t in enumerate(types)]
    total = xs[0] if len(xs) == 1 else b.cast(xs[0], xs[1].dtype) + xs[1]
    (kernel,) = compile_graph(b.finish([b.abs(total)], "loads"), target).kernels
    assert kernel.choice.get("unroll", 1) == unroll
    if has_nvrtc():  # all threads that a multiprocessor holds still have room
        options = ["-default-device", *NUMERIC["strict"]]
        report = compile_report(module_source([kernel]), arch, options, [kernels_folder()])
        assert not report.stack
        if unroll > 1:
            assert report.registers * target.gpu.resident_threads <= target.gpu.registers


@pytest.mark.parametrize(
    ("shape", "runs"), [((40, 56, 3, 3), 9), ((37, 50, 2, 4), 8), ((40, 56, 5, 5), 0), ((8, 300, 3, 3), 0)], ids=str
)
def test_runs_shorter_than_a_line_change_places_some_at_a_time(shape, runs, compiler):
    """As a convolution's gradient has its weight: channels exchanged, each kernel from its end to its start."""
    graph = graph_of(
        lambda b, x: b.reverse(b.transpose(x, (1, 0, 2, 3)), axes=(2, 3)), f"f32[{','.join(map(str, shape))}]"
    )
    program = compile_graph(graph, CPU)
    (kernel,) = program.kernels
    tile = kernel.choice.get("tile", "")
    assert tile == f"16 runs of {runs}" if runs else "runs" not in tile
    steps = max(1, 4096 // (16 * 4 * runs)) if runs else 0  # that the hardware does not see coming
    ahead = (
        f"prefetch_elements<true>(x0 + (i1 * {shape[1] * runs} + b0 * {runs} + {steps * shape[1] * runs}), {16 * runs})"
    )
    assert (ahead in kernel.text) == bool(runs)
    inputs, outputs = arrays(graph, 0), fresh(program)
    cpu_backend().load(program)(inputs, outputs)
    np.testing.assert_array_equal(outputs[0], inputs[0].transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])

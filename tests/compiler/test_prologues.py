# SPDX-License-Identifier: Apache-2.0
"""Products that compute an operand as they load it: every producer before every form, on both targets.

Each is compared with the reference in float64, and bit by bit with the kernels that one gets with the pass off.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from compiler.cases import arrays, parse, plain
from compiler.oracle import Oracle
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture
from emulated import aligned

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.devices.cpu import CpuConstants
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.schedule import fuse_prologues as prologues
from hybridgpu.compiler.schedule.matmul import config_cuda
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32, from_short

# -- producers: (builder, function that makes an input, shape, dtype) -> node of that shape and dtype


def chain(b, given, shape, dtype):
    x = given(shape, dtype)
    return b.max(x * 2 - 1, 0)


def scaled(b, given, shape, dtype):
    x, scale, shift = given(shape, dtype), given((*shape[:-2], 1, shape[-1]), dtype), given((shape[-2], 1), dtype)
    return b.max(x * scale + shift, 0)


def narrow(b, given, shape, dtype):
    return b.cast(given(shape, "i8" if dtype not in ("f32", "f64") else "f16"), from_short(dtype))


def wide(b, given, shape, dtype):
    return b.cast(given(shape, "f64" if dtype != "f64" else "bf16") * 0.5, from_short(dtype))


def dequantised(b, given, shape, dtype):
    q, scale = given(shape, "u8"), given((shape[-2], 1), dtype)
    return (b.cast(q, from_short(dtype)) - 3) * scale


def sliced(b, given, shape, dtype):
    x = given((*shape[:-2], 2 * shape[-2] + 1, shape[-1] + 3), dtype)
    front = tuple(0 for _ in shape[:-2])
    stop = (*shape[:-2], 2 * shape[-2] + 1, shape[-1] + 2)
    return b.abs(b.slice(x, (*front, 2, 2), stop, (*(1 for _ in front), 2, 1)))


def turned(b, given, shape, dtype):
    """Stored the other way round than it is computed."""
    x = given((*shape[:-2], shape[-1], shape[-2]), dtype)
    return b.transpose(x, (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)) + 1


def reshaped(b, given, shape, dtype):
    """A scale for every third of a line, as of channels before a flattening."""
    *front, rows, columns = shape
    x, scale = given((*front, rows, 3, columns // 3), dtype), given((3, 1), dtype)
    return b.reshape(x * scale, shape)


def padded(b, given, shape, dtype):
    *front, rows, columns = shape
    x = given((*front, rows, columns - 2), dtype)
    zeros = (0,) * (len(front) + 1)
    return b.pad(x, low=(*zeros, 1), high=(*zeros, 1), value=2)


def joined(b, given, shape, dtype):
    *front, rows, columns = shape
    half = columns // 2
    return b.concat(
        [given((*front, rows, half), dtype) * 2, given((*front, rows, columns - half), dtype)], len(shape) - 1
    )


def gathered(b, given, shape, dtype):
    """Rows of a table, and something added to them."""
    *front, rows, columns = shape
    at = b.max(b.min(given((*front, rows), "i32"), 6), 0)
    return b.take(given((7, columns), dtype), at, axis=0) + given((rows, columns), dtype)


def masked(b, given, shape, dtype):
    state = given((4,), "u32")
    bits = b.apply(b._table["random_bits"], (state,), {"shape": shape, "stream": 3})
    x = given(shape, dtype)
    return b.select(b.ge(b.cast(bits / 256, from_short("f32")) * 2.0**-24, 0.4), x, b.full_like(x, 0))


PRODUCERS = [chain, scaled, narrow, wide, dequantised, sliced, turned, reshaped, gathered, joined, padded, masked]

#: (dtype, batch, m, k, n, whether the right operand is stored by columns)
PRODUCTS = [
    ("f32", 0, 1, 48, 40, True),
    ("f32", 0, 1, 72, 33, False),
    ("f32", 0, 5, 264, 19, True),
    ("f32", 0, 3, 96, 42, False),
    ("f32", 0, 35, 150, 50, True),
    ("f32", 0, 200, 24, 21, False),
    ("f32", 3, 5, 24, 18, True),
    ("f32", 2, 20, 30, 18, False),
    ("f64", 0, 6, 72, 24, True),
    ("f16", 0, 4, 48, 18, True),
    ("bf16", 0, 9, 36, 24, False),
    ("i32", 0, 17, 9, 18, False),
]  # fmt: skip


def graph(producer, product, made="left", bias=True):
    """A product with operands that ``producer`` makes, and a bias."""
    dtype, batch, m, k, n, by_columns = product
    b = builder()

    def given(shape, short):
        return b.input(parse(f"{short}[{','.join(map(str, shape))}]"), f"x{len(b.inputs)}")

    front = (batch,) if batch else ()
    left, right = (*front, m, k), (*front, n, k) if by_columns else (*front, k, n)
    x = producer(b, given, left, dtype) if made != "right" else given(left, dtype)
    w = producer(b, given, right, dtype) if made != "left" else given(right, dtype)
    if by_columns:
        w = b.transpose(w, (*range(len(front)), len(front) + 1, len(front)))
    y = b.dot(x, w)
    return b.finish([y + given((n,), dtype) if bias else y], "product")


def run(program, inputs, cuda_driver):
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    if program.target == "cpu":
        cpu_backend().load(program)(inputs, outputs)
        return outputs
    loaded = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
    before = len(cuda_driver.launches)
    loaded(inputs, outputs)
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    for launch, step in zip(cuda_driver.launches[before:], steps, strict=True):
        assert launch.written == step.bytes_written
        exact = not re.search(r"take|slice|stride=\([^1]", program.graph)
        assert launch.read == step.bytes_read if exact else launch.read <= step.bytes_read
    return outputs


def given_to(made, seed=0):
    found = []
    for a in arrays(made, seed):
        found.append(aligned(a.shape, a.dtype))
        found[-1][...] = a
    return found


@pytest.fixture
def generous(monkeypatch):
    """On the host arithmetic costs nothing, arrays may be read in any order, and any matrix is large enough."""
    monkeypatch.setitem(vars(CPU.device), "strided_read_bytes", 1 << 40)
    monkeypatch.setattr(CpuConstants, "panel_overhead", 0.0)
    monkeypatch.setattr(prologues, "_MIN_MATRIX_ELEMENTS", 0)


def check(made, target, cuda_driver, kinds=("matmul",), seed=0):
    program = compile_graph(made, target)
    assert [program.kernels[s.kernel].kind for s in program.steps] == list(kinds), program.refusals
    inputs = given_to(made, seed)
    got = run(program, inputs, cuda_driver)
    Oracle(made, inputs).check(got, target.name)
    separate = compile_graph(made, target.changed(disabled_passes=("fuse_prologues",)))
    assert len(separate.steps) > len(program.steps)
    assert program.bytes_moved < separate.bytes_moved
    for a, b in zip(got, run(separate, inputs, cuda_driver), strict=True):
        np.testing.assert_array_equal(plain(a), plain(b))
    return program


@pytest.mark.parametrize("made", ["left", "right", "both"])
@pytest.mark.parametrize("producer", PRODUCERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_every_producer(generous, compiler, cuda_driver, target, producer, made):
    """Before another product for each producer and operand."""
    product = PRODUCTS[(PRODUCERS.index(producer) + ["left", "right", "both"].index(made) * 3) % 5]
    check(graph(producer, product, made), target, cuda_driver)


@pytest.mark.parametrize(
    ("product", "made"),
    [(p, m) for p in PRODUCTS for m in ("left", "right", "both") if m != "both" or p[2] <= 192],
    ids=lambda p: p if isinstance(p, str) else "-".join(map(str, p)),
)  # computing both is for few rows
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_every_product(generous, compiler, cuda_driver, target, product, made):
    check(graph(dequantised, product, made), target, cuda_driver)


# -- convolutions


def convolution(rank, dtype="f32", stride=1, base=1):
    """A normalised and clipped operand, a convolution, and something after it."""
    b = builder()
    size = (9, 12, 18)[-rank:]
    x = b.input(parse(f"{dtype}[3,4,{','.join(map(str, size))}]"), "x")
    scale, shift = (b.input(parse(f"{dtype}[4{',1' * rank}]"), f"s{k}") for k in range(2))
    w = b.input(parse(f"{dtype}[6,2{',3' * rank}]"), "w")
    ones = (1,) * rank
    steps = {"stride": (stride,) * rank, "dilate": ones, "base_dilate": (base,) * rank}
    # (no padding where NumPy multiplies it)
    y = b.conv(b.max(x * scale + shift, 0), w, groups=2, low=ones, high=ones, **steps)
    return b.finish([b.tanh(y)], "convolution")


CONVOLUTIONS = [(1, "f32", 1), (2, "f32", 1), (2, "f64", 2), (3, "f32", 1), (1, "f32", 3)]


@pytest.mark.parametrize(
    ("target", "rank", "dtype", "stride"),
    [(t, *c) for t in (CPU, CUDA) for c in CONVOLUTIONS] + [(CUDA, 2, "f16", 1)],  # a library has the CPU's of halves
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_convolutions(generous, compiler, cuda_driver, target, rank, dtype, stride):
    check(convolution(rank, dtype, stride), target, cuda_driver, ("conv",))


def test_a_join_before_windows(compiler, cuda_driver):
    """Tests of windows ask for a row's place, which is known where the loops of a panel of rows begin; those of joins split them."""
    b = builder()
    x, y = (b.input(tensor_type((8, 32, 17, 3), f32), name) for name in "xy")
    w = b.input(tensor_type((16, 64, 5, 5), f32), "w")
    one, two = (1, 1), (2, 2)
    z = b.conv(b.concat([x, y], 1), w, stride=one, low=two, high=two, dilate=one, base_dilate=one, groups=1)
    made = b.finish([z])
    program = compile_graph(made, CPU)
    assert program.kernels[-1].kind == "matmul"  # three columns of five taps: unfolded
    inputs = given_to(made)
    Oracle(made, inputs).check(run(program, inputs, cuda_driver), "cpu")


# -- the rule


def gelu(b, x):
    return x * 0.5 * (b.erf(x * 0.70710678) + 1)


def product_of(shapes, make):
    b = builder()
    inputs = [b.input(parse(t), f"x{k}") for k, t in enumerate(shapes)]
    made = make(b, *inputs)
    return b.finish(made if isinstance(made, list) else [made], "product")


def two(b, made, w, v):
    return [b.dot(made, w), b.dot(made, v)]


def turn(b, x):
    return b.transpose(x, (1, 0))


#: (inputs, graph, target, the rule that leaves an operand in memory or None, part of its reason)
RULES = {
    "cheap": (["f32[16,512]", "f32[512,256]"], lambda b, x, w: b.dot(b.max(x, 0), w), CPU, None, ""),
    "a cast weight": (
        ["f32[1,4096]", "f16[4096,4096]"],
        lambda b, x, w: b.dot(x, turn(b, b.cast(w, x.dtype))),
        CPU,
        None,
        "",
    ),
    "cheap, for two products": (
        ["f32[16,512]", "f32[512,256]", "f32[512,128]"],
        lambda b, x, w, v: two(b, b.max(x, 0), w, v),
        CPU,
        None,
        "",
    ),
    "dear, for two products": (
        ["f32[16,512]", "f32[512,256]", "f32[512,128]"],
        lambda b, x, w, v: two(b, gelu(b, x), w, v),
        CPU,
        "recompute",
        "would be computed for each of 2 products",
    ),
    "much arithmetic": (
        ["f32[2000,100]", "f32[100,10]"],
        lambda b, x, w: b.dot(gelu(b, x), w),
        CPU,
        "arithmetic",
        "recomputing it here costs more than storing it",
    ),
    "a result": (
        ["f32[16,64]", "f32[64,32]"],
        lambda b, x, w: two(b, b.max(x, 0), w, w)[:1] + [b.max(x, 0)],
        CPU,
        "already-stored",
        "is a result, and in memory anyway",
    ),
    "for a library too": (
        ["f32[16,64]", "f32[64,32]"],
        lambda b, x, w: [b.dot(b.max(x, 0), w), b.argsort(b.max(x, 0), axis=1)],
        CPU,
        "already-stored",
        "in memory anyway, for argsort",
    ),
    "an epilogue too": (
        ["f32[64,64]", "f32[64,64]"],
        lambda b, x, w: b.dot(b.max(x, 0), w) + b.max(x, 0),
        CPU,
        "already-stored",
        "for what follows the product",
    ),
    "the other way round": (
        ["f32[2,512,30]", "f32[2,512,20]"],
        lambda b, x, w: b.dot(b.transpose(b.max(x, 0), (0, 2, 1)), w),
        CPU,
        "order",
        "would be read across its rows",
    ),
    "small matrices": (
        ["f32[1000,4,4]", "f32[1000,4,4]"],
        lambda b, x, w: b.dot(b.max(x, 0), w),
        CPU,
        "order",
        "matrices of so few elements",
    ),
    "long strips": (
        ["f32[1,4096]", "f16[4096,4096]"],
        lambda b, x, w: b.dot(x, b.cast(w, x.dtype)),
        CPU,
        "panel",
        "would not fit a core's cache",
    ),
    "panels of panels": (
        ["f32[300,64]", "f32[64,64]"],
        lambda b, x, w: b.dot(b.max(x, 0), b.max(w, 0)),
        CPU,
        "panel",
        "again for every panel of the other operand",
    ),
    "zeros between": (
        ["f32[1,4,12,12]", "f32[4,4,3,3]"],
        lambda b, x, w: b.conv(
            b.max(x, 0),
            w,
            groups=1,
            low=(1, 1),
            high=(1, 1),
            stride=(1, 1),
            dilate=(1, 1),
            base_dilate=(2, 2),
        ),
        CPU,
        "panel",
        "zeros would stand between",
    ),
    "on a GPU": (["f32[16,512]", "f32[512,256]"], lambda b, x, w: b.dot(b.max(x, 0), w), CUDA, None, ""),
    "by many threads": (
        ["f32[16,4096]", "f32[4096,4096]"],
        lambda b, x, w: b.dot(gelu(b, x), turn(b, w)),
        CUDA,
        "recompute",
        "times an element, which costs more than storing it",
    ),
    "a library's": (
        ["f32[1024,1024]", "f32[1024,1024]"],
        lambda b, x, w: b.dot(b.max(x, 0), w),
        CUDA,
        "library",
        "dot is a library call, which takes its operands from memory",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name):
    shapes, make, target, rule, reason = RULES[name]
    program = compile_graph(product_of(shapes, make), target)
    kinds = [program.kernels[s.kernel].kind for s in program.steps if isinstance(s, KernelStep)]
    if rule is None:
        assert "map" not in kinds
        assert all("as it loads it" in k.choice["prologue"] for k in program.kernels)
        assert not any(why in ("memory", "recompute") for _, _, why, _ in program.refusals)
        return
    assert "map" in kinds
    assert any(why == rule and reason in words for _, _, why, words in program.refusals), program.refusals
    joined = sum("prologue" in k.choice for k in program.kernels)
    assert joined == (name == "panels of panels")  # the first of both can be computed


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("limits", "rule"),
    [({}, None), ({"max_arguments": 5}, None), ({"max_arguments": 4}, "arguments"), ({"max_nodes": 2}, "size")],
    ids=["none", "enough", "arguments", "size"],
)
def test_limits_hold_for_both_operands_together(generous, target, limits, rule):
    """One kernel makes both operands: each by itself would fit into the product's."""
    made = product_of(["f32[16,16]"] * 3, lambda b, x, y, z: b.dot(x * y, x * z))
    program = compile_graph(made, target.changed(**limits))
    assert [k.kind for k in program.kernels] == (["matmul"] if rule is None else ["map", "matmul"])
    assert {why for _, _, why, _ in program.refusals} == ({rule} if rule else set())


@pytest.mark.no_host_code
@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("arch", "numeric"), by_architecture([("sm_75", "strict"), ("sm_90", "strict"), ("sm_120", "fast")])
)
def test_loaders_stay_in_registers(monkeypatch, arch, numeric):
    """Every form of some products, with both operands made."""
    texts = {}
    for producer, product in [
        (dequantised, ("f32", 0, 16, 4096, 512, True)),
        (narrow, ("f32", 0, 1, 4096, 4096, True)),
        (narrow, ("f32", 0, 16, 512, 4096, False)),
        (scaled, ("f32", 0, 200, 200, 200, False)),
        (gathered, ("f32", 3, 40, 96, 64, True)),
        (chain, ("f16", 0, 8, 1024, 1024, True)),
        (masked, ("bf16", 0, 20, 96, 128, False)),
        (reshaped, ("f64", 2, 12, 48, 60, True)),
        (joined, ("i32", 0, 33, 66, 64, False)),
    ]:
        made = graph(producer, product, "both")
        (dot,) = (n for n in made.nodes if n.prim.name == "dot")
        found: dict[str, list] = {}
        for form in config_cuda.candidate_configs(CUDA, config_cuda.dot_shape(dot)):
            found.setdefault(form.name, []).append(form)
        # of each name the one that is shortest of registers
        for form in (max(f, key=lambda f: f.threads * f.rows * prod(f.vectors)) for f in found.values()):
            monkeypatch.setattr(config_cuda, "choose_config", lambda target, dot, form=form: form)
            monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 1.0)
            monkeypatch.setattr(config_cuda, "loads_per_element", lambda form, dot: (1, 1))
            for k in compile_graph(made, CUDA).kernels:
                if k.kind == "matmul":
                    texts[k.name] = k
    options = ["-default-device", *NUMERIC[numeric]]
    report = compile_report(module_source(list(texts.values())), arch, options, [kernels_folder()])
    assert "warning" not in report.log, report.log
    assert sum("prologue" in k.choice for k in texts.values()) > 20
    wrong = [
        f"{name}: {need.stack} bytes of stack, {need.spills} of spills, {need.registers} registers; {texts[name].choice}"
        for name, need in report.kernels.items()
        if need.stack or need.spills or need.registers * texts[name].launch["threads"] > 65536
    ]
    assert len(report.kernels) == len(texts) and not wrong, "\n".join(wrong)

# SPDX-License-Identifier: Apache-2.0
"""Steps of programs that cuBLASLt and cuDNN compute are started by addresses: no array is made on the way."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import parse
from cublaslt_on_cpu.support import PLAIN, SPLIT, FakeProducts
from cudnn_on_cpu.support import Fake
from emulated import THREAD, EmulatedStream, aligned, install, uninstall

import hybridgpu as mx
from hybridgpu.backends.cuda import ctypes_binding
from hybridgpu.backends.cuda.backend import CudaProgram
from hybridgpu.backends.devices import device_of
from hybridgpu.base import MXNetError
from hybridgpu.compiler import select
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.primitives.conv import flip_weight
from hybridgpu.compiler.program import KernelStep, LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.matmul import config_cuda
from hybridgpu.core.dtypes import from_short

LIMITS = {"f32": 1e-5, "f64": 1e-12, "f16": 1e-2, "bf16": 5e-2}


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """(cuBLASLt, cuDNN), for which everything is large enough. Rounding is test_tf32.py's subject."""
    monkeypatch.setenv("HYBRIDGPU_TF32", "0")
    monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 0.0)
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    found = FakeProducts(tmp_path), Fake(tmp_path)
    install(find_products=found[0].find, find=found[1].find)
    yield found
    uninstall()


@pytest.fixture
def alone(monkeypatch):
    """No library call is run on arrays."""

    def library(self, call, arena, inputs, outputs):
        raise AssertionError(f"{call.step.primitive} was run on arrays")

    monkeypatch.setattr(CudaProgram, "library", library)


def biased(b, y, c, axis):
    return y + b.broadcast(b.reshape(c, tuple(c.size if k == axis else 1 for k in range(y.ndim))), y.shape)


def dense(b, x, w, c):
    return biased(b, b.dot(x, b.transpose(w, (1, 0))), c, 1)


def convolved(b, x, w, groups=1, **given):
    rank = x.ndim - 2
    params = {"stride": 1, "low": 0, "high": 0, "dilate": 1, "base_dilate": 1, **given}
    return b.conv(x, w, groups=groups, **{k: (v,) * rank for k, v in params.items()})


def weights(b, x, y, groups=1, **given):
    """The derivative of a convolution by its weight, as differentiation says it."""
    (n, c, *size), rank, swap = x.shape, x.ndim - 2, (1, 0, *range(2, x.ndim))
    if groups == 1:
        x = b.transpose(x, swap)
    else:
        parts = b.transpose(b.reshape(x, (n, groups, c // groups, *size)), (2, 1, 0, *range(3, x.ndim + 1)))
        x = b.reshape(parts, (c // groups, groups * n, *size))
    y = b.transpose(y, swap)
    params = {"stride": 1, "low": 0, "high": 0, "dilate": 1, "base_dilate": 1, **given}
    made = b.conv(x, y, groups=groups, **{k: (v,) * rank for k, v in params.items()})
    return b.transpose(made, (1, 0, *range(2, made.ndim)))


def joined(b, x, w, c):
    """A convolution and one with a bias."""
    return b.concat([biased(b, convolved(b, b.exp(x), w), c, 1), convolved(b, x, w)], 1)


def fired(b, x, w, c):
    """As SqueezeNet expands."""
    return b.concat([b.max(biased(b, convolved(b, x, v), c, 1), 0.0) for v in (w, w * 2.0)], 1)


WIDE = ("f32[6,9]", "f32[16,9]", "f32[16]")
DENSE = ("f32[6,9]", "f32[5,9]", "f32[5]")
CONV = ("f32[2,3,5,6]", "f32[4,3,3,3]", "f32[4]", "f32[2,4,3,4]")
#: name -> (graph, types of its inputs)
GRAPHS = {
    "dot": (lambda b, x, w: b.dot(x, w), ("f32[6,9]", "f32[9,5]")),
    "both transposed": (
        lambda b, x, w: b.dot(b.transpose(x, (1, 0)), b.transpose(w, (1, 0))), ("f32[9,6]", "f32[5,9]"),
    ),
    "batches": (lambda b, x, w: b.dot(x, w), ("f32[2,3,6,9]", "f32[2,3,9,5]")),
    "one column": (lambda b, x, w: b.dot(x, w), ("f32[6,9]", "f32[9,1]")),
    "bias": (dense, DENSE),
    "bias, doubles": (dense, tuple(t.replace("f32", "f64") for t in DENSE)),
    "bias, half": (dense, tuple(t.replace("f32", "f16") for t in DENSE)),
    "bias, bfloat16": (dense, tuple(t.replace("f32", "bf16") for t in DENSE)),
    "two layers": (lambda b, x, w, c, v: b.tanh(b.dot(dense(b, x, w, c), v)), (*DENSE, "f32[5,4]")),
    "conv": (convolved, CONV[:2]),
    "conv, one axis": (convolved, ("f32[2,3,9]", "f32[4,3,3]")),
    "conv, half": (convolved, tuple(t.replace("f32", "f16") for t in CONV[:2])),
    "conv, bias": (lambda b, x, w, c: biased(b, convolved(b, x, w), c, 1), CONV[:3]),
    "conv, bias, array": (lambda b, x, w, c, r: biased(b, convolved(b, x, w), c, 1) + r, CONV),
    "conv, bias, array, bfloat16": (
        lambda b, x, w, c, r: biased(b, convolved(b, x, w), c, 1) + r, tuple(t.replace("f32", "bf16") for t in CONV),
    ),
    "derivative by a weight": (weights, ("f32[2,3,5,6]", "f32[2,4,4,5]")),
    "of strides": (lambda b, x, y: weights(b, x, y, dilate=2), ("f32[2,3,9,9]", "f32[2,4,4,4]")),
    "of groups": (lambda b, x, y: weights(b, x, y, 2), ("f32[2,4,5,6]", "f32[2,6,4,5]")),
    "of groups, half": (lambda b, x, y: weights(b, x, y, 4), ("f16[2,4,5,6]", "f16[2,8,4,5]")),
    "of one pixel": (weights, ("f32[2,3,5,6]", "f32[2,4,5,6]")),
    "of one pixel, bfloat16": (weights, ("bf16[2,3,5,6]", "bf16[2,4,5,6]")),
    "of one axis": (weights, ("f32[2,3,9]", "f32[2,4,7]")),
    "of three axes": (weights, ("f32[2,2,5,6,3]", "f32[2,4,4,5,3]")),
    "derivative by an operand": (
        lambda b, y, w: convolved(b, y, flip_weight(b, w, 1), base_dilate=2, low=2, high=2), ("f32[2,4,5,6]", "f32[4,3,3,3]"),
    ),
    "of an operand of groups": (
        lambda b, y, w: convolved(b, y, flip_weight(b, w, 2), 2, base_dilate=2, low=1, high=2), ("f32[2,4,5,6]", "f32[4,3,3,3]"),
    ),
    "of an operand of one axis, half": (
        lambda b, y, w: convolved(b, y, flip_weight(b, w, 1), base_dilate=3, low=2, high=2), ("f16[2,4,9]", "f16[4,3,3]"),
    ),
    "joined": (joined, CONV[:3]),
    "joined, half": (joined, tuple(t.replace("f32", "f16") for t in CONV[:3])),
    "joined, bfloat16": (joined, tuple(t.replace("f32", "bf16") for t in CONV[:3])),
    "joined samples": (lambda b, x, w, v: b.concat([convolved(b, x, w), convolved(b, x, v)], 0), (*CONV[:2], CONV[1])),
    "joined columns": (
        lambda b, x, w: b.concat([convolved(b, x, w), convolved(b, b.exp(x), w)], 3), ("f32[2,3,5,10]", "f32[4,3,3,3]"),
    ),
    "joined, one axis": (lambda b, x, w: b.concat([convolved(b, x, w), convolved(b, b.exp(x), w)], 1), ("f32[2,3,10]", "f32[4,3,3]")),
    "joined derivatives": (
        lambda b, x, w, y, v: b.concat([convolved(b, y, flip_weight(b, v, 1), base_dilate=2, low=2, high=2), convolved(b, x, w)], 1),
        ("f32[2,3,13,15]", "f32[4,3,3,3]", "f32[2,4,5,6]", "f32[4,4,3,3]"),
    ),
    "joined inside": (
        lambda b, x, w, v: convolved(b, b.concat([convolved(b, x, w), convolved(b, b.exp(x), w)], 1), v),
        (*CONV[:2], "f32[2,8,2,2]"),
    ),
    "joined products": (lambda b, x, w, c: b.concat([dense(b, x, w, c), dense(b, b.exp(x), w, c)], 1), WIDE),
    "joined products, half": (
        lambda b, x, w, c: b.concat([dense(b, x, w, c), dense(b, b.exp(x), w, c)], 1),
        tuple(t.replace("f32", "f16") for t in WIDE),
    ),
    "joined products of few": (lambda b, x, w, v: b.concat([b.dot(x, v), b.dot(x, w)], 1), ("f32[6,9]", "f32[9,11]", "f32[9,9]")),
    "joined products in rows": (lambda b, x, w: b.concat([b.dot(x, w), b.dot(b.exp(x), w)], 0), ("f32[5,9]", "f32[9,5]")),
    "joined batches": (lambda b, x, w: b.concat([b.dot(x, w), b.dot(b.exp(x), w)], 3), ("f32[2,3,6,9]", "f32[2,3,9,8]")),
    "joined batches in the middle": (
        lambda b, x, w: b.concat([b.dot(x, w), b.dot(b.exp(x), w)], 1), ("f32[2,3,6,9]", "f32[2,3,9,8]"),
    ),
    "kernels between": (lambda b, x, w, v: convolved(b, b.tanh(convolved(b, b.exp(x), w)), v), (*CONV[:2], "f32[2,4,2,2]")),
}  # fmt: skip


def loaded(function, types, numeric="strict"):
    b = builder()
    made = function(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(types)))
    graph = b.finish([made])
    backend = device_of(mx.gpu(0)).backend()
    return graph, backend.load(compile_graph(graph, replace(backend.target, numeric=numeric)))


def filled(graph, seed):
    rng, arrays = np.random.default_rng(seed), []
    for node in graph.inputs:
        arrays.append(aligned(node.shape, node.dtype.np))
        arrays[-1][...] = rng.normal(size=node.shape).astype(node.dtype.np)
    return arrays


def check(graph, program, arrays):
    (shape, short) = program.program.outputs[0]
    y = aligned(shape, from_short(short).np)
    program(arrays, [y])
    want, limit = evaluate(graph, arrays, wide=True)[0], LIMITS[short]
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=limit, atol=limit * np.abs(want).max())


#: lie apart in a way that cuBLASLt has no description for: computed elsewhere and copied
APART = ("joined batches in the middle",)


@pytest.mark.parametrize("name", [n for n in GRAPHS if n not in APART])
def test_no_step_is_run_on_arrays(fakes, alone, name):
    graph, program = loaded(*GRAPHS[name])
    assert program.layout.libraries
    for seed in (1, 2, 1):  # other addresses, those of the bias among them
        check(graph, program, filled(graph, seed))


@pytest.mark.parametrize("name", [n for n in GRAPHS if n.startswith(("of ", "derivative"))])
def test_derivatives_without_the_library(monkeypatch, name):
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    install()
    try:
        graph, program = loaded(*GRAPHS[name])
        (step,) = program.program.steps
        assert step.primitive in (
            "conv_backward_filter",
            "conv_backward_data",
        ) and "cuDNN needs a GPU" in program.describe(step)
        check(graph, program, filled(graph, 1))
    finally:
        uninstall()


@pytest.mark.parametrize("name", [n for n in GRAPHS if n.startswith("joined")])
def test_parts_of_joins_are_written_where_they_belong(fakes, name):
    """No kernel copies them."""
    _, program = loaded(*GRAPHS[name])
    made = program.program
    parts = [s for s in made.steps if isinstance(s, LibraryStep) and s.concat]
    kernels = [made.kernels[s.kernel].kind for s in made.steps if isinstance(s, KernelStep)]
    assert len(parts) == 2 and kernels in ([], ["map"]), (kernels, made.refusals)


@pytest.mark.parametrize("name", APART)
def test_parts_that_a_library_cannot_write_are_copied(fakes, name):
    graph, program = loaded(*GRAPHS[name])
    assert all(
        program.describe(s).endswith(", copied then") for s in program.program.steps if isinstance(s, LibraryStep)
    )
    for seed in (1, 2):
        check(graph, program, filled(graph, seed))


def test_relu_is_in_the_calls_that_write_parts(fakes, alone):
    """cuDNN's relu, which loses NaN, is that of fast programs."""
    graph, program = loaded(fired, CONV[:3], numeric="fast")
    parts = [s for s in program.program.steps if isinstance(s, LibraryStep)]
    assert [s.concat for s in parts] == ["concat_buffer"] * 2
    assert all(program.describe(s).endswith("bias and relu in its call") for s in parts)
    for seed in (1, 2):
        check(graph, program, filled(graph, seed))


def test_a_part_of_odd_length_is_copied_by_a_kernel(fakes):
    """What begins behind it would be misaligned."""
    types = ("f32[2,3,5,5]", "f32[3,3,3,3]", "f32[5,3,3,3]")
    graph, program = loaded(lambda b, x, v, w: b.concat([convolved(b, x, v), convolved(b, x, w)], 1), types)
    assert any(rule == "concat" and "no multiple of 16 bytes" in why for *_, rule, why in program.program.refusals)
    check(graph, program, filled(graph, 1))


REFUSED = {
    "joined": (1, ("cudnnConvolutionForward", "cudnnConvolutionBiasActivationForward")),
    "joined derivatives": (1, ("cudnnConvolutionBackwardData", "cudnnConvolutionForward")),
    "joined products": (0, ("cublasLtMatmul",)),
    "joined batches": (0, ("cublasLtMatmul",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parts_of_refused_calls(fakes, name):
    """The array module writes them, nothing beside them."""
    which, functions = REFUSED[name]
    graph, program = loaded(*GRAPHS[name])
    for function in functions:
        fakes[which].plant(function, 15 if which == 0 else 3000)
    for seed in (1, 2):
        check(graph, program, filled(graph, seed))


@pytest.mark.parametrize("name", ["joined", "joined derivatives", "joined batches"])
def test_parts_without_the_libraries(monkeypatch, name):
    monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 0.0)
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    install()
    try:
        graph, program = loaded(*GRAPHS[name])
        assert any(isinstance(s, LibraryStep) and s.concat for s in program.program.steps)
        check(graph, program, filled(graph, 1))
    finally:
        uninstall()


def test_cudnn_that_has_no_algorithm_for_strides(fakes):
    """It computes what is packed, and that is copied."""
    fakes[1].plant("no strides", 1)
    graph, program = loaded(*GRAPHS["joined"])
    steps = [s for s in program.program.steps if isinstance(s, LibraryStep)]
    assert [program.describe(s).split(", ")[0] for s in steps] == ["cuDNN 9.12.3: forward"] * 2
    assert all("copied then" in program.describe(s) for s in steps)
    check(graph, program, filled(graph, 1))


def test_the_choice_is_made_once(fakes, alone):
    graph, program = loaded(*GRAPHS["bias"])
    for seed in range(4):
        check(graph, program, filled(graph, seed))
    assert fakes[0].count("cublasLtMatmulAlgoGetHeuristic") == 1 and fakes[0].products == 4


def test_workspace_is_behind_intermediate_results(fakes):
    _, program = loaded(*GRAPHS["two layers"])
    layout, results = program.layout, program.program.arena_bytes
    assert 0 < results <= layout.offsets[-1] == layout.nbytes - 256 and layout.offsets[-1] % 256 == 0


def test_on_the_stream_of_the_call(fakes, alone):
    driver = install(find_products=fakes[0].find, find=fakes[1].find)
    graph, program = loaded(*GRAPHS["bias"])
    with driver.using(EmulatedStream(4711)):
        check(graph, program, filled(graph, 1))
    assert fakes[0].stream == 4711
    check(graph, program, filled(graph, 1))
    assert fakes[0].stream == 0


def test_an_algorithm_that_is_refused(fakes):
    """The next one is taken, and the first not tried again."""
    graph, program = loaded(*GRAPHS["bias"])
    fakes[0].plant("refuse", SPLIT)
    check(graph, program, filled(graph, 1))
    assert fakes[0].algorithm == PLAIN
    before = fakes[0].products
    check(graph, program, filled(graph, 2))
    assert fakes[0].products == before + 1


def test_a_convolution_that_is_refused(fakes):
    graph, program = loaded(*GRAPHS["conv, bias"])
    fakes[1].plant("cudnnConvolutionBiasActivationForward", 3000)
    for seed in (1, 2):
        check(graph, program, filled(graph, seed))
    assert fakes[1].count("cudnnConvolutionForward") == 2


def test_an_array_that_shares_memory_with_the_operand(fakes):
    """cuDNN forbids it; what is one array at a call may be two at the next."""
    types = ("f32[2,3,5,6]", "f32[3,3,3,3]", "f32[3]", "f32[2,3,5,6]")
    graph, program = loaded(lambda b, x, w, c, r: biased(b, convolved(b, x, w, low=1, high=1), c, 1) + r, types)
    arrays = filled(graph, 1)
    check(graph, program, arrays)
    arrays[3] = arrays[0]
    check(graph, program, arrays)


@pytest.mark.parametrize(
    ("name", "which", "function"),
    [("bias", 0, "cublasLtMatmul"), ("conv", 1, "cudnnConvolutionForward"), ("conv", 1, "cudnnSetStream")],
)
def test_failures_name_the_operator(fakes, alone, name, which, function):
    graph, program = loaded(*GRAPHS[name])
    fakes[which].plant(function, 13 if which == 0 else 5000)
    with pytest.raises(MXNetError, match=rf"^Error in operator \w+: {function} of "):
        check(graph, program, filled(graph, 1))


def test_failures_after_a_fork(fakes, alone, monkeypatch):
    """A library says no more than that it failed; CUDA is asked."""
    graph, program = loaded(*GRAPHS["bias"])
    fakes[0].plant("cublasLtMatmul", 13)
    monkeypatch.setattr(ctypes_binding, "lost_by_fork", lambda: True)
    with pytest.raises(MXNetError, match="failed.*\\nThis process was forked") as raised:
        check(graph, program, filled(graph, 1))
    assert "HYBRIDGPU_CUBLASLT" not in str(raised.value)


NO_MEMORY = [
    ("bias", 0, "cublasLtMatmul", 3),
    ("conv", 1, "cudnnConvolutionForward", 4004),
    ("conv", 1, "cudnnSetStream", 4004),
]


@pytest.mark.parametrize(("name", "which", "function", "status"), NO_MEMORY)
def test_a_second_try_where_a_library_has_no_memory(fakes, alone, monkeypatch, name, which, function, status):
    """After what is kept for reuse was given back; if that was not enough, the error says what to do."""
    graph, program = loaded(*GRAPHS[name])
    fake = fakes[which]
    given = []

    def give_back(release):
        given.append(release())
        fake.plant(function, left)
        return "1 MiB"

    monkeypatch.setattr("hybridgpu.backends.cuda.errors.give_back", give_back)
    for left in (0, status, 0):
        before = fake.count(function)
        fake.plant(function, status)
        if left:
            with pytest.raises(
                MXNetError, match=rf"^Error in operator \w+: {function} of .*\n.* no memory left"
            ) as raised:
                check(graph, program, filled(graph, 1))
            assert str(raised.value).endswith("smaller batch; drop arrays, recorded graphs and results that are no longer "
                                              "needed. That was 1 MiB, and not enough.")  # fmt: skip
        else:
            check(graph, program, filled(graph, 1))
        assert fake.count(function) == before + 2
    assert len(given) == 3


@pytest.mark.parametrize(
    ("which", "function", "status"),
    [(0, "cublasLtCreate", 3), (0, "cublasLtMatmulDescCreate", 3), (1, "cudnnCreate", 2), (1, "cudnnCreate", 4004)],
)
def test_a_second_try_of_what_is_prepared(fakes, alone, monkeypatch, which, function, status):
    monkeypatch.setattr(
        "hybridgpu.backends.cuda.errors.give_back", lambda release: fakes[which].plant(function, 0) or ""
    )
    fakes[which].plant(function, status)
    graph, program = loaded(*GRAPHS[("bias", "conv")[which]])
    check(graph, program, filled(graph, 1))


def test_threads(fakes, alone):
    """Each its own bias and workspace."""
    graph, program = loaded(*GRAPHS["two layers"])
    failures = []

    def work(seed):
        try:
            THREAD.device = 0
            for _ in range(10):
                check(graph, program, filled(graph, seed))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures

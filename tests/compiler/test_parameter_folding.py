# SPDX-License-Identifier: Apache-2.0
"""What a graph's prelude computes, and that both parts together are the graph."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.one_pass import PASS_BY_NAME
from compiler.oracle import Oracle
from compiler.random_graphs import graphs
from emulated import aligned
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir.graph import RANDOM_STATE
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.pass_context import PassContext
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.pipeline import compile_graph, run_passes
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f16, f32, from_short

SESSION = int(os.environ.get("HYBRIDGPU_RANDOM_GRAPHS", "0"))


def along(b, v, x):
    """A vector for axis 1 of x."""
    return b.broadcast(b.reshape(v, (1, v.size, *(1,) * (x.ndim - 2))), x.shape)


def batch_norm(b, x, mean, var):
    scale = b.rsqrt(var + 1e-5)
    return x * along(b, scale, x) + along(b, -mean * scale, x)


def weight_norm(b, x, v):
    return b.dot(x, b.transpose(v * b.rsqrt(b.sum(v * v, (1,), keepdims=True)), (1, 0)))


def transposed_conv(b, x, w):
    flipped = b.reverse(b.transpose(w, (1, 0, 2, 3)), axes=(2, 3))
    window = {"stride": (1, 1), "low": (2, 2), "high": (2, 2), "dilate": (1, 1), "base_dilate": (2, 2), "groups": 1}
    return b.conv(x, flipped, **window)


def table_lookup(b, x, w):
    return b.take(b.tanh(w), b.cast(x, from_short("i32")), axis=0, mode="clip")


#: name -> (function, types of inputs, positions of parameters, what is kept)
KEPT = {
    "scale and shift": (batch_norm, "f32[8,4,5,5] f32[4] f32[4]", {1, 2}, ["f32[4]", "f32[4]"]),
    "a part of the parameters": (batch_norm, "f32[8,4,5,5] f32[4] f32[4]", {2}, ["f32[4]"]),
    "nothing without parameters": (batch_norm, "f32[8,4,5,5] f32[4] f32[4]", set(), []),
    "a normalised weight": (weight_norm, "f32[4,16] f32[8,16]", {1}, ["f32[8,16]"]),
    "a copy that a convolution reads": (transposed_conv, "f32[1,3,5,5] f32[3,2,3,3]", {1}, ["f32[2,3,3,3]"]),
    "a weight that lies right already": (
        lambda b, x, w: b.dot(x, b.transpose(w, (1, 0))), "f32[16,32] f32[8,32]", {1}, []
    ),
    "rows picked from what was computed": (table_lookup, "f32[4] f32[50,6]", {1}, ["f32[50,6]"]),
    "an operand of a product": (lambda b, x, w: b.dot(x, w * 0.5), "f32[8,16] f32[16,8]", {1}, ["f32[16,8]"]),
    "fewer bytes to read": (
        lambda b, x, w: x + b.cast(w, f16), "f16[300,300] f32[300,300]", {1}, ["f16[300,300]"]
    ),
    "more bytes to read": (lambda b, x, w: x + b.cast(w, f32), "f32[300,300] f16[300,300]", {1}, []),
    "little work on many bytes": (lambda b, x, w: x + w * 0.5, "f32[300,300] f32[300,300]", {1}, []),
    "much work on many bytes": (
        lambda b, x, w: x + b.exp(b.tanh(w)), "f32[300,300] f32[300,300]", {1}, ["f32[300,300]"]
    ),
    "a large array of few numbers": (
        lambda b, x, w: x * (b.broadcast(b.reshape(w, (1, 400)), (400, 400)) * 2.0), "f32[400,400] f32[400]", {1}, []
    ),
    "a small array of fewer numbers": (
        lambda b, x, w: x * (b.broadcast(b.reshape(w, (1, 40)), (40, 40)) * 2.0), "f32[40,40] f32[40]", {1}, []
    ),
    "a sum over a parameter": (lambda b, x, w: x * b.sum(w, (0,)), "f32[3] f32[70,3]", {1}, ["f32[3]"]),
    "views only": (lambda b, x, w: x + b.transpose(w, (1, 0)), "f32[3,4] f32[4,3]", {1}, []),
    "a result of its own": (lambda b, x, w: [x + 1, b.softmax_of(w)], "f32[3] f32[3]", {1}, ["f32[3]"]),
    "no random numbers": (
        lambda b, x, w: x + w * b.cast(b.random_bits(w.shape), f32), "f32[3] f32[3]", {1}, []
    ),
    "numbers made of nothing": (
        lambda b, x: x + b.sin(b.iota((50,), 0, f32) * 0.1), "f32[50]", set(), []
    ),
    "numbers made of nothing, beside parameters": (
        lambda b, x, w: x + w + b.sin(b.iota((50,), 0, f32) * 0.1), "f32[50] f32[50]", {1}, ["f32[50]"]
    ),
}  # fmt: skip


def made(name):
    function, types, fixed, kept = KEPT[name]
    b = builder()
    b.softmax_of = lambda w: b.exp(w) / b.sum(b.exp(w), (0,), keepdims=True)
    inputs = [b.input(parse(t), f"x{k}") for k, t in enumerate(types.split())]
    found = function(b, *inputs)
    return simplify(b.finish(found if isinstance(found, list) else [found], "g")), fixed, kept


def folded(graph, fixed, target, kernel=True):
    """The cut of a graph, None without one."""
    ctx = PassContext(target, folded_inputs=frozenset(fixed), generates=lambda node: kernel)
    run_passes([PASS_BY_NAME["parameter_folding"]], graph, ctx)
    return ctx.folding


@pytest.mark.no_host_code
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_what_is_kept(name, target):
    graph, fixed, kept = made(name)
    folding = folded(graph, fixed, target)
    if folding is None:
        assert not kept
        return
    verify(folding.prelude)
    verify(folding.remainder)
    assert [repr(n.type) for n in folding.prelude.outputs] == kept
    assert set(folding.prelude_inputs) <= fixed
    assert [n for _, _, n in folding.folded_values] == [o.type.nbytes for o in folding.prelude.outputs]
    inputs = arrays(graph, 3)
    Oracle(graph, inputs).check(parts(folding, inputs), "in two parts")


def parts(folding, inputs):
    values = evaluate(folding.prelude, [inputs[k] for k in folding.prelude_inputs])
    return evaluate(folding.remainder, [*inputs, *values])


WIDE = replace(CPU, panels=True)  #: gains by panels; any other machine computes the same with them
#: (rows, depth, columns), element type, numeric mode, target -> the columns of a panel, 0 for a weight as it is
PACKED = [
    ((1, 20, 128), "f32", "strict", WIDE, 128),
    ((2, 300, 256), "f32", "strict", WIDE, 128),
    ((5, 17, 384), "f32", "fast", WIDE, 128),
    ((33, 1030, 256), "f32", "strict", WIDE, 128),
    ((9, 17, 192), "f64", "strict", WIDE, 64),
    ((8, 20, 64), "f32", "fast", WIDE, 64),
    ((9, 17, 32), "f64", "fast", WIDE, 32),
    ((16, 20, 64), "f32", "strict", WIDE, 0),  # where a row's result does not depend on the number of rows
    ((7, 20, 64), "f32", "fast", WIDE, 0),  # few rows gain nothing from narrow panels
    ((16, 20, 100), "f32", "fast", WIDE, 0),
    ((16, 20, 128), "f16", "strict", WIDE, 0),
    ((2048, 512, 128), "f32", "strict", WIDE, 0),  # a library's
    ((1, 2049, 128), "f32", "strict", WIDE, 0),
    ((1, 2048, 2176), "f32", "strict", WIDE, 0),  # so that two rows are as one
    ((16, 20, 128), "f32", "strict", CUDA, 0),
    ((16, 20, 128), "f32", "strict", CPU, 0),
]


@pytest.mark.parametrize("shape, short, numeric, target, packed", PACKED)
def test_packed_weights(compiler, shape, short, numeric, target, packed):
    rows, depth, columns = shape
    b = builder()
    types = (f"{short}[{rows},{depth}]", f"{short}[{columns},{depth}]", f"{short}[{columns}]")
    x, w, bias = (b.input(parse(t), name) for t, name in zip(types, "xwb"))
    y = b.dot(x, b.transpose(w, (1, 0)))
    graph = b.finish([b.max(y + b.broadcast(b.reshape(bias, (1, columns)), y.shape), 0.0)], "dense")
    program = compile_graph(graph, target.with_numeric(numeric), frozenset({1, 2}), None, frozenset({1, 2}))
    assert (program.prelude is not None) == bool(packed)
    if target is CUDA:
        return
    inputs = arrays(graph, 4)
    backend = cpu_backend()
    kept = []
    if packed:
        assert [k.kind for k in program.kernels] == ["matmul"], "bias and relu stay in the product's kernel"
        assert program.folded_values[0][1:] == ("products read it faster in panels of columns", inputs[1].nbytes)
        kept = run(backend, program.prelude, [inputs[k] for k in program.prelude_inputs])
        np.testing.assert_array_equal(kept[0][-1], inputs[1][-packed:].T)
    (got,) = run(backend, program, [*inputs, *kept])
    wide = [a.astype("f8") for a in inputs]
    error = {"f64": 1e-13, "f32": 1e-5, "f16": 1e-2}[short]
    np.testing.assert_allclose(got, np.maximum(wide[0] @ wide[1].T + wide[2], 0), rtol=error, atol=error * depth)


#: (plane, inputs, outputs, window, groups), element type, target -> output channels of a block, 0 for a weight as it is
PACKED_CONVS = [
    ((7, 64, 64, 3, 1), "f32", WIDE, 32),
    ((14, 130, 48, 1, 1), "f32", WIDE, 0),  # pixels fill their vectors, and the sum is short
    ((7, 130, 48, 1, 1), "f32", WIDE, 16),
    ((14, 260, 48, 1, 1), "f32", WIDE, 16),
    ((7, 20, 16, 3, 1), "f64", WIDE, 16),
    ((7, 64, 60, 3, 1), "f32", WIDE, 0),
    ((7, 64, 64, 3, 64), "f32", WIDE, 0),
    ((7, 64, 64, 3, 2), "f32", WIDE, 32),
    ((7, 64, 64, 3, 1), "f16", WIDE, 0),
    ((7, 64, 64, 3, 1), "f32", CPU, 0),
    ((7, 64, 64, 3, 1), "f32", CUDA, 0),
]


@pytest.mark.no_host_code
@pytest.mark.parametrize("shape, short, target, block", PACKED_CONVS)
def test_packed_weights_of_convolutions(shape, short, target, block):
    plane, inputs, outputs, window, groups = shape
    b = builder()
    x = b.input(parse(f"{short}[2,{inputs},{plane},{plane}]"), "x")
    w = b.input(parse(f"{short}[{outputs},{inputs // groups},{window},{window}]"), "w")
    one, pad = (1, 1), (window // 2,) * 2
    y = b.conv(x, w, stride=one, low=pad, high=pad, dilate=one, base_dilate=one, groups=groups)
    program = compile_graph(b.finish([b.tanh(y)], "conv"), target, frozenset({1}), None, frozenset({1}))
    assert (program.prelude is not None) == bool(block)
    if target is not CUDA:
        assert program.kernels[0].choice.get("block") == (block or None)
    if block:
        ((_, why, _),) = program.folded_values
        assert why == "convolutions read it faster in blocks of output channels"


@pytest.mark.parametrize("columns", [128, 512])
def test_another_number_of_rows_takes_the_same_kernel(columns):
    texts = set()
    for rows in (2, 5, 64, 100):
        b = builder()
        x, w = b.input(parse(f"f32[{rows},40]"), "x"), b.input(parse(f"f32[{columns},40]"), "w")
        graph = b.finish([b.tanh(b.dot(x, b.transpose(w, (1, 0))))], "dense")
        (kernel,) = compile_graph(graph, WIDE, frozenset({1}), None, frozenset({1})).kernels
        texts.add(kernel.text)
    assert len(texts) == 1


@pytest.mark.parametrize("depth, columns", [(20, 128), (300, 256), (1030, 128)])
def test_a_row_of_a_packed_product_does_not_depend_on_how_many_there_are(compiler, depth, columns):
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(shape).astype("f4") for shape in ((70, depth), (columns, depth)))
    results = []
    for rows in (1, 2, 3, 4, 5, 17, 70):
        b = builder()
        left, right = (b.input(parse(f"f32[{n},{depth}]"), name) for n, name in ((rows, "x"), (columns, "w")))
        graph = b.finish([b.dot(left, b.transpose(right, (1, 0)))], "dense")
        program = compile_graph(graph, WIDE, frozenset({1}), None, frozenset({1}))
        kept = run(cpu_backend(), program.prelude, [w])
        results.append(run(cpu_backend(), program, [x[70 - rows :], w, *kept])[0])
    for some in results[:-1]:
        np.testing.assert_array_equal(some, results[-1][-len(some) :])


def run(backend, part, held):
    """The results of a program."""
    outputs = [aligned(shape, from_short(short).np) for shape, short in part.outputs]
    backend.load(part)(held, outputs)
    return outputs


def test_values_that_several_read_are_kept_once():
    b = builder()
    x, w = b.input(parse("f32[5]"), "x"), b.input(parse("f32[5]"), "w")
    s = b.tanh(w)
    graph = simplify(b.finish([x * s, b.exp(x) + s, b.sin(s) - x], "g"))
    folding = folded(graph, {1}, CPU)
    assert folding is not None and len(folding.folded_values) == 2  # tanh, and the sine of it
    assert len(folding.prelude.nodes) == 3


@pytest.mark.no_host_code
def test_long_chains_take_linear_time():
    b = builder()
    x, w = b.input(parse("f32[5]"), "x"), b.input(parse("f32[5]"), "w")
    for _ in range(6000):
        w = b.tanh(w * 0.5)
        x = x + w
    graph = b.finish([x], "g")
    folding = folded(graph, {1}, CPU)
    assert folding is not None and len(folding.folded_values) == 6000


def examples(count):
    """``count`` examples, the same ones each time; a session by hand draws its own."""
    return settings(max_examples=SESSION or count, derandomize=not SESSION, database=None, deadline=None,
                    suppress_health_check=list(HealthCheck))  # fmt: skip


def parameters(graph, seed):
    """About half of the inputs, and the arrays of all."""
    count = sum(n.params["name"] != RANDOM_STATE for n in graph.inputs)
    chosen = np.random.default_rng(seed).random(count) < 0.6
    return frozenset(np.flatnonzero(chosen).tolist()), arrays(graph, seed)


@pytest.mark.no_host_code
@examples(150)
@given(graphs(), st.integers(0, 99))
def test_random_graphs_in_two_parts(graph, seed):
    fixed, inputs = parameters(graph, seed)
    note(str(graph))
    small = simplify(graph)
    for target in (CPU, CUDA):
        folding = folded(small, fixed, target, bool(seed % 2))
        if folding is not None:
            verify(folding.prelude)
            verify(folding.remainder)
            Oracle(graph, inputs).check(parts(folding, inputs), f"{folding.prelude}\n{folding.remainder}")


def both(backend, target, graph, seed):
    """The results of both programs of a graph, the prelude's first."""
    fixed, inputs = parameters(graph, seed)
    note(str(graph))
    program = compile_graph(graph, target, fixed, None, fixed)
    held = []
    for a in inputs:
        held.append(aligned(a.shape, a.dtype))
        held[-1][...] = a
    kept = run(backend, program.prelude, [held[k] for k in program.prelude_inputs]) if program.prelude else []
    assert [v.nbytes for v in kept] == [n for _, _, n in program.folded_values]
    Oracle(graph, inputs).check(run(backend, program, [*held, *kept]), f"{graph}")


@examples(25)
@given(graphs(), st.integers(0, 99))
def test_random_graphs_on_the_cpu(compiler, graph, seed):
    both(cpu_backend(), CPU, graph, seed)


@pytest.mark.no_host_code
@examples(8)
@given(graphs(size_limit=300), st.integers(0, 99))
def test_random_graphs_on_an_emulated_gpu(cuda_driver, graph, seed):
    both(CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])), CUDA, graph, seed)

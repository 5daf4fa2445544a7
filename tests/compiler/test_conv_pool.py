# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose results are reduced in windows: what is one kernel on CUDA, what stays apart and why, any shape."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from compiler.cases import arrays, build, cuda_of
from compiler.cases.convolutions import plain_conv
from compiler.cases.pooled import pooled, windows
from compiler.cases.windows import spread_windows
from emulated import aligned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridgpu import sym
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import Builder, Graph, Node, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32, f64, i32
from hybridgpu.gluon import nn
from hybridgpu.symbol.lowering import lower_symbol

pytestmark = pytest.mark.no_host_code

#: case -> (results that a window reduces, threads that share them)
POOLED = {
    "pooled_squares": (4, 4),
    "pooled_mean": (10, 2),
    "pooled_partly": (4, 4),
    "pooled_by_nines": (9, 1),
    "pooled_and_kept": (4, 4),
    "pooled_line": (4, 4),
    "pooled_volume": (12, 4),
    "pooled_with_prologue": (4, 4),
    "pooled_all": (64, 32),
    "pooled_strided": (4, 4),
    "pooled_halves": (4, 4),
    "pooled_doubles": (4, 4),
}
#: case -> (kinds of its kernels, why they are two)
APART = {
    "pooled_where_windows_meet": (
        ["conv", "reduce"],
        "windows overlap, and elements of conv would be computed more than once",
    ),
    "pooled_partly_and_kept": (
        ["conv", "reduce"],
        "conv is also needed in memory, and windows do not meet each of its elements",
    ),
    "pooled_in_one": (
        ["conv", "reduce"],
        "a window of conv holds 49 elements, too many for the threads that would share it",
    ),
    "pooled_channels": (["conv", "reduce"], "sum reduces conv over more than windows of its rows and columns"),
    "pooled_and_centred": (["conv", "rows"], "exp reads conv again with what a reduction of it gave"),
    "pooled_place": (["conv", "reduce"], "argmax reduces conv over more than windows of its rows and columns"),
}


@pytest.mark.parametrize("name", POOLED)
def test_one_kernel(name):
    (kernel,) = compile_graph(build(name), cuda_of(name)).kernels
    assert (kernel.kind, kernel.choice["window"], kernel.choice["lanes"]) == ("conv", *POOLED[name])


@pytest.mark.parametrize("name", APART)
def test_two_kernels_and_why(name):
    kinds, why = APART[name]
    program = compile_graph(build(name), cuda_of(name))
    assert [k.kind for k in program.kernels] == kinds
    assert [reason for *_, rule, reason in program.refusals if rule == "conv-pool"] == [why]


def shifted(b: Builder, y: Node) -> Node:
    """The greater of each two neighbours, in windows."""
    n, c, h, k = y.shape
    return pooled(b, b.max(b.slice(y, (0, 0, 0, 0), (n, c, h, k - 1)), b.slice(y, (0, 0, 0, 1), y.shape)), 2, 2)


def repeated(b: Builder, y: Node) -> Node:
    """Windows of three copies, each of other values."""
    cut, axes = windows(b, y, 2, 2)
    thrice = b.broadcast(b.reshape(cut, (*cut.shape, 1)), (*cut.shape, 3))
    return b.reduce("amax", thrice * b.broadcast(b.iota((3,), 0, f32), thrice.shape), axes)


def over_each_other(b: Builder, y: Node) -> Node:
    """Windows of three elements whose last ones are the next ones' first."""
    return b.amax(spread_windows(b, y, (3,), (2,), (1,)), axes=(0,))


def beside_sums(b: Builder, y: Node) -> list[Node]:
    return [b.sum(y, (2,)), b.sum(y * y, (0, 1))]


def looked_up(b: Builder, y: Node) -> Node:
    """Windows of elements of a table, the convolution says which."""
    table = b.input(tensor_type((64,), f32), "table")
    return pooled(b, b.take(table, b.cast(y, i32), axis=0), 2, 2)


_MORE = "reduces conv over more than windows of its rows and columns"
_OVERLAP = "windows overlap, and elements of conv would be computed more than once"
#: what is made of a convolution, the image's shape -> why it is no part of the convolution's kernel
REFUSED = {
    "read twice": (shifted, (10, 11), "does not read each result of the convolution once"),
    "repeated": (repeated, (10, 10), _OVERLAP),
    "windows with an element in common": (over_each_other, (13,), _OVERLAP),
    "sums over all rows beside": (beside_sums, (258,), _MORE),
    "places in a table": (looked_up, (10, 10), "needs elements at places that are computed, which no window gathers"),
    "zeros before": (lambda b, y: pooled(b, b.pad(y, (0, 0, 0, 2), (0,) * 4, 0.0), 2, 2), (10, 10), _MORE),
    "zeros behind": (lambda b, y: pooled(b, b.pad(y, (0,) * 4, (0, 0, 0, 2), 0.0), 2, 2), (10, 10), _MORE),
    "a zero behind": (lambda b, y: pooled(b, b.pad(y, (0, 0, 0), (0, 0, 1), 0.0), 2), (9,), _MORE),
    "across rows": (lambda b, y: pooled(b, b.reshape(y, (2, 4, 30)), 2), (8, 7), _MORE),
    "diagonal": (
        lambda b, y: b.reduce("amax", b.slice(b.reshape(y, (2, 4, 64)), (0, 0, 0), (2, 4, 64), (1, 1, 9)), (2,)),
        (10, 10),
        _MORE,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_window(name):
    make, image, why = REFUSED[name]
    b = builder()
    x, w = (b.input(tensor_type(s, f32), n) for s, n in (((2, 3, *image), "x"), ((4, 3, *(3,) * len(image)), "w")))
    made = make(b, plain_conv(b, x, w))
    program = compile_graph(b.finish(made if isinstance(made, list) else [made]), CUDA)
    assert program.kernels[0].kind == "conv" and "window" not in program.kernels[0].choice
    assert [reason.endswith(why) for *_, rule, reason in program.refusals if rule == "conv-pool"] == [True]


def ran(program: Program, inputs: list[np.ndarray], driver) -> list[np.ndarray]:
    outputs = [
        aligned(shape, np.dtype(np.float64 if short == "f64" else np.float32)) for shape, short in program.outputs
    ]
    held = [aligned(a.shape, a.dtype) for a in inputs]
    for h, a in zip(held, inputs, strict=True):
        h[...] = a
    CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(held, outputs)
    return outputs


@st.composite
def graphs(draw) -> Graph:
    """A convolution that is pooled."""
    rank = draw(st.integers(1, 3))
    window = [draw(st.integers(1, 4)) for _ in range(rank)]
    kernel, stride, dilate = ([draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(3))
    low, high = ([draw(st.sampled_from((0, 0, 1))) for _ in range(rank)] for _ in range(2))
    groups = draw(st.integers(1, 2))
    results = [w * draw(st.integers(1, 3)) + draw(st.integers(0, w - 1)) for w in window]
    size = [
        max(1, (r - 1) * s + (k - 1) * d + 1 - a - z)
        for r, s, k, d, a, z in zip(results, stride, kernel, dilate, low, high, strict=True)
    ]
    batch, channels, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    b = builder()
    dtype = draw(st.sampled_from((f32, f32, f64)))
    x = b.input(tensor_type((batch, channels * groups, *size), dtype), "x")
    w = b.input(tensor_type((outputs * groups, channels, *kernel), dtype), "w")
    ones = (1,) * rank
    steps = {"stride": tuple(stride), "dilate": tuple(dilate), "low": tuple(low), "high": tuple(high)}
    y = b.conv(x, w, groups=groups, base_dilate=ones, **steps)
    how = draw(st.sampled_from(("amax", "amin", "sum")))
    kept = all(d % s == 0 for d, s in zip(y.shape[2:], window, strict=True)) and draw(st.booleans())
    out = pooled(b, b.tanh(y), *window, how=how) * 0.5
    return b.finish([out, y] if kept else [out], "drawn")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_any_shape(graph, cuda_driver):
    program = compile_graph(graph, CUDA)
    inputs = arrays(graph, 7)
    cuda_driver.forget()
    with np.errstate(all="ignore"):
        want = evaluate(graph, inputs, wide=True)
    for got, w in zip(ran(program, inputs, cuda_driver), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=3e-5, atol=3e-5)
    for launch, step in zip(cuda_driver.launches, program.steps, strict=True):
        assert launch.written == step.bytes_written
        assert launch.read == step.bytes_read


def test_batches_have_one_text():
    def text(batch: int) -> str:
        b = builder()
        x, w = b.input(tensor_type((batch, 2, 10, 10), f32), "x"), b.input(tensor_type((4, 2, 3, 3), f32), "w")
        (kernel,) = compile_graph(b.finish([pooled(b, plain_conv(b, x, w), 2, 2)]), CUDA).kernels
        return kernel.text

    assert len({text(n) for n in (2, 3, 17, 64)}) == 1


# -- LeNet and its neighbours


def lenet(channels=(6, 16), kernels=(5, 3), act="relu", pool=nn.MaxPool2D, norm=False) -> nn.HybridSequential:
    net = nn.HybridSequential()
    for c, k in zip(channels, kernels, strict=True):
        net.add(nn.Conv2D(c, k, activation=None if norm else act))
        if norm:
            net.add(nn.BatchNorm(), nn.Activation(act))
        net.add(pool(2, 2))
    net.add(nn.Dense(120, activation=act), nn.Dense(84, activation=act), nn.Dense(10))
    return net


def graph_of(net: nn.HybridBlock, shape: tuple[int, ...]) -> Graph:
    symbol = net(sym.var("data"))
    arguments, _, states = symbol.infer_shape(data=shape)
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), f32) for n, s in zip(names, [*arguments, *states], strict=True)}
    return lower_symbol(symbol, types, False)


PICTURES = (1, 28, 28)
NEIGHBOURS = {
    "of the benchmark, batch 1": ({}, (1, *PICTURES)),
    "batch 4": ({}, (4, *PICTURES)),
    "batch 16": ({}, (16, *PICTURES)),
    "batch 32": ({}, (32, *PICTURES)),
    "5 x 5": ({"kernels": (5, 5)}, (16, *PICTURES)),
    "average, tanh": ({"pool": nn.AvgPool2D, "act": "tanh"}, (16, *PICTURES)),
    "BatchNorm": ({"norm": True}, (16, *PICTURES)),
    "colours": ({"kernels": (5, 5)}, (16, 3, 32, 32)),
    "odd": ({"kernels": (3, 3)}, (16, *PICTURES)),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_lenet_is_one_kernel(name):
    """By the model of costs, on 132 multiprocessors; a convolution with its pooling is one of its steps."""
    how, shape = NEIGHBOURS[name]
    program = compile_graph(graph_of(lenet(**how), shape), replace(CUDA, resident="auto"))
    (kernel,) = program.kernels
    assert kernel.choice["steps"] == ["conv", "conv", "matmul", "matmul", "matmul"] and kernel.choice["barriers"] == 4
    (said,) = program.launch_fusion_notes
    where = "a cluster of 8 blocks and a smaller grid" if kernel.choice.get("cluster") else "the grid and"
    assert said.startswith(f"5 kernels are one: one launch instead of 5 saves about 8.0 us; 4 barriers of {where}")


def test_a_large_batch_stays_apart():
    program = compile_graph(graph_of(lenet(), (128, *PICTURES)), replace(CUDA, resident="auto"))
    assert [k.kind for k in program.kernels] == ["conv", "conv", "matmul", "matmul", "matmul"]
    (said,) = program.launch_fusion_notes
    assert said.startswith(
        "5 kernels stay apart: one launch instead of 5 saves about 8.0 us; 4 barriers of the grid and"
    )


@pytest.mark.parametrize("name", ["batch 4", "average, tanh", "BatchNorm", "odd"])
def test_lenet_is_what_it_was(name, cuda_driver):
    """Executed as one kernel: results of the reference, and the bytes of the plan."""
    how, (_, *picture) = NEIGHBOURS[name]
    graph = graph_of(lenet((3, 4), **({"kernels": (5, 3)} | how)), (2, *picture))
    program = compile_graph(graph, replace(CUDA, resident="always"))
    (step,) = program.steps
    rng = np.random.default_rng(3)
    inputs = [
        np.abs(rng.standard_normal(n.shape)).astype(np.float32) * 2 / max(1, prod(n.shape[1:])) for n in graph.inputs
    ]
    cuda_driver.forget()
    (got,) = ran(program, inputs, cuda_driver)
    np.testing.assert_allclose(got, evaluate(graph, inputs, wide=True)[0], rtol=1e-4, atol=1e-6)
    (launch,) = cuda_driver.launches
    assert (launch.read, launch.written) == (step.bytes_read, step.bytes_written)

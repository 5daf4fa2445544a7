# SPDX-License-Identifier: Apache-2.0
"""Convolutions: the primitive and its kernels against a sum written out, the operators' shapes and errors."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import bf16, dtype_of, f16, f32, f64

pytestmark = pytest.mark.optimised


def summed(x, w, stride, low, high, dilate, base_dilate, groups):
    """The definition: every tap of every window, one shifted plane at a time."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    rank = w.ndim - 2
    spread = np.zeros((*x.shape[:2], *((d - 1) * s + 1 for d, s in zip(x.shape[2:], base_dilate))))
    spread[(..., *(slice(None, None, s) for s in base_dilate))] = x
    padded = np.pad(spread, [(0, 0), (0, 0), *((max(lo, 0), max(hi, 0)) for lo, hi in zip(low, high))])
    cut = [slice(max(0, -lo), d - max(0, -hi)) for d, lo, hi in zip(padded.shape[2:], low, high)]
    padded = padded[(..., *cut)]
    out = [(d - (k - 1) * e - 1) // s + 1 for d, k, e, s in zip(padded.shape[2:], w.shape[2:], dilate, stride)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per, inputs = w.shape[0] // groups, w.shape[1]
    for o in range(w.shape[0]):
        for c in range(inputs):
            for k in itertools.product(*map(range, w.shape[2:])):
                at = [slice(i * e, i * e + (n - 1) * s + 1, s) for i, e, n, s in zip(k, dilate, out, stride)]
                y[:, o] += padded[(slice(None), o // per * inputs + c, *at)] * w[(o, c, *k)]
    assert rank == len(out)
    return y


def graph_of(x, w, params, dtype, epilogue=False):
    b = builder()
    nodes = [b.input(tensor_type(a, dtype)) for a in (x, w)]
    y = b.conv(*nodes, **params)
    if epilogue:
        bias, rest = b.input(tensor_type((w[0],), dtype)), b.input(y.type)
        y = b.max(y + b.reshape(bias, (1, w[0], *(1,) * (y.ndim - 2))), 0) + rest
        y = b.reshape(y, (y.shape[0], y.size // y.shape[0]))
    return b.finish([y])


@st.composite
def convolutions(draw):
    """(x shape, w shape, parameters) of a convolution with a result."""
    rank = draw(st.integers(1, 3))
    groups, inputs, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 11))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    size, kernel = each(1, 20 if rank < 3 else 7), each(1, 4)
    params = {"stride": each(1, 3), "low": each(-1, 3), "dilate": each(1, 2), "base_dilate": each(1, 2)}
    high = []
    for d, k, lo, e, s in zip(size, kernel, params["low"], params["dilate"], params["base_dilate"]):
        short = (k - 1) * e + 1 - lo - ((d - 1) * s + 1)  # at least that much, or the window does not fit
        high.append(draw(st.integers(max(short, -1), max(short, -1) + 3)))
    shapes = (draw(st.integers(1, 3)), groups * inputs, *size), (groups * outputs, inputs, *kernel)
    return *shapes, dict(params, high=tuple(high), groups=groups)


@given(convolutions())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_primitive_on_arrays(case):
    x, w, params = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in (x, w)]
    want = summed(*arrays, **params)
    for dtype, tolerance in ((f64, 1e-12), (f32, 1e-5), (f16, 5e-3)):
        node = graph_of(x, w, params, dtype).outputs[0]
        got = TABLE["conv"].evaluate(np, [a.astype(dtype.np) for a in arrays], params, node.type)
        assert (got.shape, got.dtype) == (want.shape, dtype.np)
        np.testing.assert_allclose(got, want, tolerance, tolerance * max(1, np.abs(want).max(initial=0)))


@st.composite
def narrow_convolutions(draw):
    """The same with few elements under many taps, as derivatives of convolutions by their operand have."""
    rank = draw(st.integers(1, 2))
    groups, inputs, outputs = (draw(st.integers(1, 3)) for _ in range(3))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    size, kernel = each(1, 3), each(2, 7)
    params = {"stride": each(1, 2), "low": each(-1, 7), "dilate": each(1, 2), "base_dilate": each(1, 2)}
    high = []
    for d, k, lo, e, s in zip(size, kernel, params["low"], params["dilate"], params["base_dilate"]):
        high.append(max((k - 1) * e + 1 - lo - ((d - 1) * s + 1), -1) + draw(st.integers(0, 7)))
    shapes = (draw(st.integers(1, 3)), groups * inputs, *size), (groups * outputs, inputs, *kernel)
    return *shapes, dict(params, high=tuple(high), groups=groups)


@given(narrow_convolutions())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_convolutions_that_are_narrowed(case):
    x, w, params = case
    graph = graph_of(x, w, params, f64)
    small = simplify(graph)
    assert {n.params.get("groups") for n in small.nodes if n.prim.name == "conv"} <= {params["groups"]}
    arrays = [np.random.default_rng(0).standard_normal(s) for s in (x, w)]
    np.testing.assert_allclose(evaluate(small, arrays)[0], summed(*arrays, **params), 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("shape", "layer"),
    [
        ((2, 4, 7, 7), lambda: mx.gluon.nn.Conv2D(3, 7)),
        ((2, 4, 7, 7), lambda: mx.gluon.nn.Conv2D(4, 7, groups=2)),
        ((2, 4, 6, 5), lambda: mx.gluon.nn.Conv2D(3, (6, 4))),
        ((2, 4, 1, 1), lambda: mx.gluon.nn.Conv2D(3, 3, padding=1)),
        ((2, 4, 1, 1), lambda: mx.gluon.nn.Conv2DTranspose(3, 4)),
        ((2, 4, 1, 1), lambda: mx.gluon.nn.Conv2DTranspose(3, 4, strides=2, padding=1)),
        ((2, 4, 30), lambda: mx.gluon.nn.Conv1D(3, 28)),
    ],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients_of_kernels_as_wide_as_their_image(shape, layer, hybrid):
    net = layer()
    net.initialize(mx.init.Uniform(1))
    x = array(shape)
    x.attach_grad()
    if hybrid:
        net.hybridize()
    with autograd.record():
        y = net(x)
        loss = (y * y).sum()
    loss.backward()
    assert loss.asscalar() > 0
    step = array(shape, 1) * 1e-2  # the loss is quadratic: its central difference has no error of method
    slope = ((net(x + step) ** 2).sum() - (net(x - step) ** 2).sum()).asscalar() / 2
    np.testing.assert_allclose(slope, (x.grad * step).sum().asscalar(), 2e-3, 1e-3)


@given(convolutions(), st.sampled_from([f32, f64]), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_generated_kernel(case, dtype, epilogue):
    x, w, params = case
    graph = graph_of(x, w, params, dtype, epilogue)
    program = compile_graph(graph, CPU)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(i.shape).astype(dtype.np) for i in graph.inputs]
    outputs = [np.full(shape, np.nan, dtype.np) for shape, _ in program.outputs]
    cpu_backend().load(program)(arrays, outputs)
    want = evaluate(graph, arrays, wide=True)[0]
    tolerance = 2e-5 if dtype is f32 else 1e-12
    np.testing.assert_allclose(outputs[0], want, tolerance, tolerance * max(1, np.abs(want).max(initial=0)))


# name -> x, w, parameters that differ from (stride 1, no pads, no dilation, one group)
ON_THE_CPU = {
    "reads the operand itself": ((2, 6, 12, 12), (16, 6, 5, 5), {}),
    "copies with padding": ((1, 8, 20, 20), (8, 8, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    "two phases of a stride": ((1, 4, 33, 31), (8, 4, 3, 3), {"stride": (2, 2), "low": (1, 1), "high": (1, 1)}),
    "one phase of a stride": ((1, 16, 30, 30), (9, 16, 1, 1), {"stride": (2, 2)}),
    "several bands of rows": ((1, 64, 40, 40), (8, 64, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    "several bands of columns": ((1, 64, 3000), (6, 64, 3), {"low": (1,), "high": (1,)}),
    "bands of columns of a stride": (
        (1, 64, 3, 3001),
        (6, 64, 3, 3),
        {"stride": (1, 2), "low": (1, 1), "high": (1, 1)},
    ),
    "bands of columns, rows of zeros": ((1, 64, 2, 1500), (6, 64, 3, 3), {"low": (1, 0), "high": (1, 0)}),
    "a channel a group": ((1, 12, 14, 14), (12, 1, 3, 3), {"low": (1, 1), "high": (1, 1), "groups": 12}),
    "narrow rows": ((1, 4, 3, 3), (4, 4, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    "three axes": ((1, 3, 5, 9, 9), (7, 3, 3, 2, 3), {"low": (1, 0, 1), "high": (1, 0, 1)}),
    "zeros between elements": ((1, 3, 5, 6), (4, 3, 3, 3), {"base_dilate": (2, 2), "low": (2, 2), "high": (1, 2)}),
    "zeros between elements of a volume": (
        (1, 3, 3, 5, 6),
        (4, 3, 2, 3, 3),
        {"base_dilate": (2, 2, 2), "low": (1, 2, 2)},
    ),
    "more zeros along one axis": ((2, 3, 5, 6), (9, 3, 4, 3), {"base_dilate": (2, 3), "low": (1, 2), "high": (2, 3)}),
    "phases without a tap": ((2, 8, 9, 9), (20, 8, 1, 1), {"base_dilate": (2, 2), "high": (1, 1)}),
    "dilated taps of few phases": (
        (2, 3, 9, 8),
        (5, 3, 3, 3),
        {"base_dilate": (2, 2), "dilate": (2, 3), "low": (3, 3)},
    ),
    "several bands of phases": ((1, 40, 40, 40), (9, 40, 4, 4), {"base_dilate": (2, 2), "low": (2, 2), "high": (2, 2)}),
    "long sums of phases": ((1, 150, 6, 6), (3, 150, 4, 4), {"base_dilate": (2, 2), "low": (2, 2), "high": (2, 2)}),
    "cut phases": ((2, 3, 9, 9), (5, 3, 3, 3), {"base_dilate": (2, 2), "low": (-3, 1), "high": (1, -2)}),
    "phases of a channel a group": (
        (2, 12, 7, 7),
        (12, 1, 3, 3),
        {"base_dilate": (2, 2), "low": (1, 1), "high": (2, 2), "groups": 12},
    ),
    "phases of a line": ((3, 5, 20), (7, 5, 5), {"base_dilate": (4,), "low": (3,), "high": (6,)}),
}


def completed(x, params):
    rank = len(x) - 2
    ones, zeros = (1,) * rank, (0,) * rank
    return {"stride": ones, "low": zeros, "high": zeros, "dilate": ones, "base_dilate": ones, "groups": 1, **params}


@pytest.mark.parametrize("name", ON_THE_CPU)
def test_kernels_by_form(name):
    x, w, params = ON_THE_CPU[name]
    graph = graph_of(x, w, completed(x, params), f32, epilogue=True)
    program = compile_graph(graph, CPU)
    assert [k.kind for k in program.kernels] == ["conv"], "one kernel with its epilogue"
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(i.shape).astype("f") for i in graph.inputs]
    outputs = [np.full(shape, np.nan, "f") for shape, _ in program.outputs]
    cpu_backend().load(program)(arrays, outputs)
    want = evaluate(graph, arrays, wide=True)[0]
    np.testing.assert_allclose(outputs[0], want, 2e-5, 2e-5 * np.abs(want).max())


@pytest.mark.parametrize("dtype", [f16, bf16], ids=["f16", "bf16"])
@pytest.mark.parametrize("name", ["copies with padding", "a channel a group", "three axes", "phases of a line"])
def test_halves_are_convolved_in_float(name, dtype):
    """Kernels of float32 between casts: the sum is not rounded, the convolution is, as an operator's result."""
    x, w, params = ON_THE_CPU[name]
    graph = graph_of(x, w, completed(x, params), dtype, epilogue=True)
    program = compile_graph(graph, CPU)
    assert not any(isinstance(s, LibraryStep) for s in program.steps)
    assert [k.kind for k in program.kernels].count("conv") == 1
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(i.shape).astype(dtype.np) for i in graph.inputs]
    outputs = [np.zeros(shape, dtype.np) for shape, _ in program.outputs]
    cpu_backend().load(program)(arrays, outputs)
    want = evaluate(graph, arrays, wide=True)[0].astype("f")
    unit = 2.0**-10 if dtype is f16 else 2.0**-7
    np.testing.assert_allclose(outputs[0].astype("f"), want, 2 * unit, 2 * unit * np.abs(want).max())


@pytest.mark.parametrize(
    "target,dtype,x,w",
    [
        (CPU, f32, (1, 4, 3, 3, 3, 3), (2, 2, 2, 2, 2, 2)),  # four axes, in groups
        (CPU, f16, (1, 2, 3, 3, 3, 3), (2, 2, 2, 2, 2, 2)),  # which no kernel computes in float32 either
        (CUDA, f32, (8, 64, 56, 56), (64, 64, 3, 3)),  # much work
    ],
)
def test_what_a_library_computes(target, dtype, x, w):
    program = compile_graph(graph_of(x, w, completed(x, {"groups": x[1] // w[1]}), dtype), target)
    assert [s.primitive for s in program.steps if isinstance(s, LibraryStep)] == ["conv"]


#: operand, weight, parameters: of planes that are too small for a kernel of convolutions, and of too many axes
UNFOLDED = {
    "small planes": ((8, 512, 2, 2), (512, 512, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    "in strides": ((8, 256, 4, 4), (512, 256, 3, 3), {"low": (1, 1), "high": (1, 1), "stride": (2, 2)}),
    "padded unevenly": ((5, 512, 2, 3), (512, 512, 2, 3), {"low": (0, 2), "high": (1, 0)}),
    "with gaps": ((3, 512, 2, 2), (512, 512, 3, 3), {"low": (2, 2), "high": (2, 2), "dilate": (2, 2)}),
    "pixels": ((8, 256, 4, 4), (512, 256, 1, 1), {"stride": (2, 2)}),
    "four axes": ((2, 3, 3, 4, 3, 4), (5, 3, 2, 2, 2, 2), {"low": (0, 1, 0, 0), "high": (0, 1, 0, 0)}),
}


@pytest.mark.parametrize("dtype", [f32, f64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", UNFOLDED)
def test_unfolded_for_a_product(name, dtype, compiler):
    """By kernels alone; results are those of the convolution, with what follows it."""
    x, w, params = UNFOLDED[name]
    graph = graph_of(x, w, completed(x, params), dtype, epilogue=True)
    program = compile_graph(graph, CPU)
    assert not any(isinstance(s, LibraryStep) for s in program.steps)
    assert [k.kind for k in program.kernels].count("matmul") == 1
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(i.shape).astype(dtype.np) for i in graph.inputs]
    outputs = [np.full(shape, np.nan, dtype.np) for shape, _ in program.outputs]
    cpu_backend().load(program)(arrays, outputs)
    want = evaluate(graph, arrays, wide=True)[0]
    rounding = 2e-5 if dtype is f32 else 1e-13
    np.testing.assert_allclose(outputs[0], want, rounding, rounding * np.abs(want).max())


def test_kernels_of_the_gpu(cuda_driver):
    x, w, params = (2, 4, 7, 6), (6, 2, 3, 2), {"stride": (2, 1), "low": (1, 1), "high": (1, 0), "groups": 2}
    data, weight = (np.random.default_rng(3).standard_normal(s).astype("f") for s in (x, w))

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, w):
            return F.relu(
                F.Convolution(x, w, kernel=(3, 2), num_filter=6, num_group=2, stride=(2, 1), pad=(1, 1), no_bias=True)
            )

    net = Net()
    net.hybridize()
    got = net(*(mx.nd.array(a, ctx=mx.gpu(0)) for a in (data, weight))).asnumpy()
    full = summed(data, weight, **completed(x, {**params, "high": (1, 1)}))
    np.testing.assert_allclose(got, np.maximum(full, 0), 1e-5, 1e-5)
    assert len(cuda_driver.launches) == 1


# -- operators


def array(shape, seed=0, dtype="float32"):
    return mx.nd.array(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


@pytest.mark.parametrize(
    "attributes,data,weight,shape",
    [
        ({"kernel": (3, 3), "num_filter": 8, "num_group": 2}, (2, 4, 8, 8), (8, 2, 3, 3), (2, 8, 6, 6)),
        (
            {"kernel": (3, 3), "num_filter": 8, "num_group": 2, "layout": "NHWC"},
            (2, 8, 8, 4),
            (8, 3, 3, 2),
            (2, 6, 6, 8),
        ),
        ({"kernel": (3,), "num_filter": 8, "dilate": (2,)}, (2, 8, 8), (8, 8, 3), (2, 8, 4)),
        ({"kernel": 3, "num_filter": 8, "layout": "NWC"}, (2, 8, 5), (8, 3, 5), (2, 6, 8)),
        (
            {"kernel": (1, 2, 3), "num_filter": 4, "stride": (2, 2, 2)},
            (1, 2, 5, 6, 7),
            (4, 2, 1, 2, 3),
            (1, 4, 3, 3, 3),
        ),
    ],
)
def test_shapes_of_parameters(attributes, data, weight, shape):
    s = mx.sym.Convolution(mx.sym.var("data"), name="c", **attributes)
    assert s.list_arguments() == ["data", "c_weight", "c_bias"]
    arguments, outputs, _ = s.infer_shape(data=data)
    assert arguments == [data, weight, (attributes["num_filter"],)] and outputs == [shape]
    y = mx.nd.Convolution(array(data), array(weight), array(weight[:1]), **attributes)
    assert y.shape == shape


@pytest.mark.parametrize(
    "attributes,data,weight,shape",
    [
        ({"num_group": 2}, (2, 4, 8, 8), (4, 4, 3, 3), (2, 8, 10, 10)),
        ({"num_group": 2, "layout": "NHWC"}, (2, 8, 8, 4), (4, 3, 3, 4), (2, 10, 10, 8)),
        ({"stride": (2, 2), "adj": (1, 1)}, (2, 3, 5, 5), (3, 8, 3, 3), (2, 8, 12, 12)),
        ({"stride": (2, 2), "target_shape": (10, 9)}, (2, 3, 5, 5), (3, 8, 3, 3), (2, 8, 10, 9)),
        ({"stride": (2, 2), "target_shape": (10, 10), "pad": (1, 1)}, (2, 3, 5, 5), (3, 8, 3, 3), (2, 8, 10, 10)),
        ({"dilate": (2, 2)}, (2, 3, 5, 5), (3, 8, 3, 3), (2, 8, 9, 9)),
    ],
)
def test_shapes_of_transposed_parameters(attributes, data, weight, shape):
    s = mx.sym.Deconvolution(mx.sym.var("data"), name="d", kernel=(3, 3), num_filter=8, **attributes)
    assert s.list_arguments() == ["data", "d_weight"]
    arguments, outputs, _ = s.infer_shape(data=data)
    assert arguments == [data, weight] and outputs == [shape]


def test_a_deconvolution_is_the_transpose_of_a_convolution():
    attributes = {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 0), "dilate": (1, 2), "num_group": 2}
    x, w = array((2, 4, 7, 9)), array((6, 2, 3, 2), 1)
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Convolution(x, w, num_filter=6, no_bias=True, **attributes)
    g = array(y.shape, 2)
    y.backward(g)
    back = mx.nd.Deconvolution(g, w, num_filter=4, target_shape=(7, 9), **{**attributes, "pad": (0, 0)})
    plain = mx.nd.Deconvolution(g, w, num_filter=4, **attributes)
    assert plain.shape == (2, 4, 7, 9) == back.shape
    np.testing.assert_allclose(plain.asnumpy(), x.grad.asnumpy(), 1e-5, 1e-5)


ERRORS = {
    "kernel size exceed input": ((1, 3, 5, 5), (4, 3, 7, 7), {"kernel": (7, 7)}),
    "Shape inconsistent, Provided = [4,2,3,3], inferred shape=(4,3,3,3)": (
        (1, 3, 5, 5),
        (4, 2, 3, 3),
        {"kernel": (3, 3)},
    ),
    "incorrect stride size: [0,1]": ((1, 3, 5, 5), (4, 3, 3, 3), {"kernel": (3, 3), "stride": (0, 1)}),
    "incorrect dilate size: [0,1]": ((1, 3, 5, 5), (4, 3, 3, 3), {"kernel": (3, 3), "dilate": (0, 1)}),
    "Stride must have the same number of dimensions with kernel_size,but kernel_size is set to [3,3] while stride is [1,1,1]": (
        (1, 3, 5, 5),
        (4, 3, 3, 3),
        {"kernel": (3, 3), "stride": (1, 1, 1)},
    ),
    "Input data should be 3D in batch-num_filter-x": ((1, 3, 5, 5), (4, 3, 3), {"kernel": (3,)}),
    "Input data should be 4D in batch-num_filter-y-x": ((1, 3), (4, 3, 3, 3), {"kernel": (3, 3)}),
    "4D convolution not supported": ((1, 3, 2, 2, 2, 2), (4, 3, 1, 1, 1, 1), {"kernel": (1, 1, 1, 1)}),
    "Invalid layout for 4d shape": ((1, 3, 5, 5), (4, 3, 3, 3), {"kernel": (3, 3), "layout": "NCW"}),
    "input num_filter must divide group size": ((1, 3, 5, 5), (4, 1, 3, 3), {"kernel": (3, 3), "num_group": 2}),
    "output num_filter must divide group size": ((1, 3, 5, 5), (3, 1, 3, 3), {"kernel": (3, 3), "num_group": 3}),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    data, weight, attributes = ERRORS[text]
    with pytest.raises(MXNetError) as e:
        mx.nd.Convolution(array(data), array(weight), num_filter=4, no_bias=True, **attributes)
    assert text in str(e.value)


@pytest.mark.parametrize(
    "attributes,text",
    [
        ({"stride": (2, 2), "adj": (2, 2)}, "adj(y) must be samller than stride[0]"),
        (
            {"stride": (2, 2), "target_shape": (12, 12)},
            "o_pad[i] >= target_shape[i] (11 vs. 12) : too big target shape",
        ),
    ],
)
def test_errors_of_the_transpose(attributes, text):
    with pytest.raises(MXNetError) as e:
        mx.nd.Deconvolution(array((2, 3, 5, 5)), array((3, 4, 3, 3)), kernel=(3, 3), num_filter=4, **attributes)
    assert text in str(e.value)


@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_integers_are_refused(dtype):
    ones = mx.nd.ones((1, 1, 3, 3), dtype=dtype)
    with pytest.raises(MXNetError, match=f"only support floating point types, not {dtype}"):
        mx.nd.Convolution(ones, ones, kernel=(3, 3), num_filter=1, no_bias=True)


def test_canonical_json():
    node = json.loads(mx.sym.Convolution(mx.sym.var("x"), kernel=(3, 3), num_filter=8, name="c").tojson())["nodes"][-1]
    assert (node["op"], node["attrs"]) == ("Convolution", {"kernel": "(3, 3)", "num_filter": "8"})


class Layers(mx.gluon.HybridBlock):
    """Two convolutions with everything between them that a kernel's epilogue may take."""

    def hybrid_forward(self, F, x, w0, b0, w1):
        y = F.Convolution(x, w0, b0, kernel=(3, 3), num_filter=6, pad=(1, 1))
        z = F.Convolution(F.relu(y), w1, kernel=(3, 3), num_filter=6, pad=(1, 1), no_bias=True) + y
        return F.Pooling(F.tanh(z), kernel=(2, 2), stride=(2, 2), pool_type="avg")


@pytest.mark.parametrize("static", [False, True])
def test_hybridized_gradients(static):
    shapes = [(2, 3, 9, 8), (6, 3, 3, 3), (6,), (6, 6, 3, 3)]
    results = []
    for hybridized in (False, True):
        net = Layers()
        if hybridized:
            net.hybridize(static_alloc=static, static_shape=static)
        inputs = [array(s, k) * 0.3 for k, s in enumerate(shapes)]
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            y = net(*inputs)
        y.backward(array(y.shape, 9))
        results.append([y.asnumpy(), *(x.grad.asnumpy() for x in inputs)])
    for eager, hybrid in zip(*results):
        np.testing.assert_allclose(hybrid, eager, 1e-4, 1e-4 * np.abs(eager).max())


def test_the_epilogue_holds_bias_activation_and_residual():
    net = Layers()
    net.hybridize()
    inputs = [array(s, k) for k, s in enumerate([(2, 3, 9, 8), (6, 3, 3, 3), (6,), (6, 6, 3, 3)])]
    net(*inputs)
    kernels = str(net.explain(*inputs)).split("not fused")[0]
    assert kernels.count("  conv ") == 2 and "0 library calls" in kernels


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_im2col_and_back(dtype):
    x = array((1, 2, 5, 5), dtype=dtype)
    attributes = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}
    columns = mx.nd.im2col(x, **attributes)
    assert columns.shape == (1, 18, 9) and columns.dtype == dtype_of(dtype).type
    ones = mx.nd.col2im(mx.nd.im2col(mx.nd.ones((1, 1, 5, 5)), **attributes), output_size=(5, 5), **attributes)
    counts = np.array([1, 2, 1, 2, 1])  # in how many windows a row lies
    np.testing.assert_array_equal(ones.asnumpy()[0, 0], np.outer(counts, counts))


@pytest.mark.parametrize(
    "shape,attributes,text",
    [
        ((1, 18, 5), {"output_size": (5, 5), "kernel": (3, 3)}, "output size does not match convolution parameters"),
        (
            (1, 17, 9),
            {"output_size": (5, 5), "kernel": (3, 3)},
            "the second dim of input shape should be multiples of kernel size",
        ),
        ((1, 18, 5), {"output_size": (2, 5), "kernel": (3, 3)}, "kernel size exceed input"),
    ],
)
def test_errors_of_col2im(shape, attributes, text):
    with pytest.raises(MXNetError) as e:
        mx.nd.col2im(mx.nd.ones(shape), **attributes)
    assert text in str(e.value)


def test_zeros_around_the_operand_become_pads():
    b = builder()
    x, w = b.input(tensor_type((1, 3, 9, 9), f32)), b.input(tensor_type((4, 3, 3, 3), f32))
    padded = b.pad(x, low=(0, 0, 1, 2), high=(0, 0, 1, 0), value=0.0)
    graph = b.finish([b.conv(padded, w, **completed(x.shape, {"low": (1, 0)}))])
    program = compile_graph(graph, CPU)
    assert [k.kind for k in program.kernels] == ["conv"]
    arrays = [np.random.default_rng(k).standard_normal(i.shape).astype("f") for k, i in enumerate(graph.inputs)]
    outputs = [np.empty(shape, "f") for shape, _ in program.outputs]
    cpu_backend().load(program)(arrays, outputs)
    np.testing.assert_allclose(outputs[0], evaluate(graph, arrays)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("channels", [1, 4])
def test_gradients_of_few_channels_on_cuda(channels, groups, cuda_driver):
    """Of one channel there is no way to the next: kernels that read what they need where it lies do not look for one."""
    count = max(channels, groups)
    data, weight = np.random.randn(16, 4, 5, 7), np.random.randn(count, 4 // groups, 3, 3)

    def gradients(ctx):
        net = mx.gluon.nn.HybridLambda(
            lambda F, x, w: F.Convolution(x, w, kernel=(3, 3), num_filter=count, num_group=groups, no_bias=True)
        )
        net.hybridize(ctx != mx.cpu())
        arrays = [mx.nd.array(a, ctx=ctx) for a in (data, weight)]
        for a in arrays:
            a.attach_grad()
        with mx.autograd.record():
            y = net(*arrays)
        y.backward(mx.nd.array(np.random.default_rng(0).normal(size=y.shape), ctx=ctx))
        return [a.grad.asnumpy() for a in arrays]

    for got, want in zip(gradients(mx.gpu(0)), gradients(mx.cpu()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)

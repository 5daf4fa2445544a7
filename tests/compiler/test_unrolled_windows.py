# SPDX-License-Identifier: Apache-2.0
"""Poolings whose windows overlap or reach over the border, and their derivatives: written out on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.one_pass import run_pass

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32, i64

pytestmark = pytest.mark.usefixtures("compiler")

# name -> shape, kernel, stride, pad, convention
WINDOWS = {
    "a stem": ((2, 3, 20, 20), (3, 3), (2, 2), (1, 1), "valid"),
    "same size": ((2, 3, 9, 40), (3, 3), (1, 1), (1, 1), "valid"),
    "rows too short for a vector": ((2, 5, 7, 7), (3, 3), (1, 1), (1, 1), "valid"),
    "an odd image": ((2, 3, 19, 21), (3, 3), (2, 2), (0, 0), "valid"),
    "no padding": ((2, 3, 12, 36), (3, 3), (1, 1), (0, 0), "valid"),
    "overrun": ((1, 3, 10, 40), (3, 3), (2, 2), (0, 0), "full"),
    "windows in the padding": ((1, 3, 7, 34), (2, 2), (2, 2), (1, 1), "full"),
    "side by side, padded": ((2, 2, 10, 38), (2, 2), (2, 2), (1, 1), "valid"),
    "wide": ((1, 2, 12, 40), (5, 5), (1, 1), (2, 2), "valid"),
    "wider than cuts are": ((1, 2, 16, 40), (7, 7), (2, 2), (3, 3), "valid"),
    "gaps": ((1, 2, 13, 44), (2, 3), (3, 4), (1, 1), "valid"),
    "unequal": ((1, 2, 13, 40), (1, 3), (2, 1), (0, 1), "valid"),
    "one axis": ((2, 3, 70), (3,), (2,), (1,), "valid"),
    "one axis, same": ((2, 3, 69), (4,), (2,), (0,), "same"),
    "volumes": ((1, 2, 6, 8, 20), (3, 3, 3), (2, 2, 2), (1, 1, 1), "valid"),
    "few windows": ((1, 2, 4, 4), (3, 3), (2, 2), (1, 1), "valid"),
}
KINDS = {
    "max": {"pool_type": "max"},
    "avg": {"pool_type": "avg"},
    "without padding": {"pool_type": "avg", "count_include_pad": False},
    "sum": {"pool_type": "sum"},
    "lp": {"pool_type": "lp", "p_value": 2},
}


class Pooled(mx.gluon.HybridBlock):
    def __init__(self, **attributes):
        super().__init__()
        self.attributes = attributes

    def hybrid_forward(self, F, x):  # a prologue and an epilogue
        return F.Pooling(F.relu(x + 0.25) - 1.0, **self.attributes) * 2.0


def attributes(name, kind):
    _, kernel, stride, pad, convention = WINDOWS[name]
    return {"kernel": kernel, "stride": stride, "pad": pad, "pooling_convention": convention, **KINDS[kind]}


def ran(net, data, slopes):
    x = mx.nd.array(data, dtype=data.dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(mx.nd.array(slopes(y.shape), dtype=data.dtype))
    return y.asnumpy(), x.grad.asnumpy()


def compared(name, kind, data):
    net = Pooled(**attributes(name, kind))
    slopes = lambda shape: np.random.default_rng(1).integers(-4, 5, shape).astype(data.dtype)  # noqa: E731
    want = ran(net, data, slopes)
    net.hybridize()
    return [*zip(ran(net, data, slopes), want)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WINDOWS)
def test_as_eager(name, kind):
    data = (np.random.default_rng(0).integers(-9, 10, WINDOWS[name][0]) / 4).astype("float32")  # equals in windows
    (y, y_want), (g, g_want) = compared(name, kind, data)
    if kind == "max":
        np.testing.assert_array_equal(y, y_want)
    np.testing.assert_allclose(y, y_want, 1e-5, 1e-5)
    np.testing.assert_allclose(g, g_want, 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("name", ["a stem", "same size", "an odd image", "one axis"])
def test_other_types(name, kind, dtype):
    data = (np.random.default_rng(0).integers(-9, 10, WINDOWS[name][0]) / 4).astype(dtype)
    tolerance = {"float64": 1e-12, "float16": 4e-3}[dtype]
    for got, want in compared(name, kind, data):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype("d"), want.astype("d"), tolerance, tolerance)


@pytest.mark.parametrize("name", WINDOWS)
def test_values_that_are_no_numbers(name):
    rng = np.random.default_rng(2)
    data = rng.choice(
        np.array([np.nan, -np.inf, np.inf, -1.0, 3.0], "float32"), WINDOWS[name][0], p=[0.1, 0.5, 0.1, 0.2, 0.1]
    )
    with np.errstate(invalid="ignore"):
        for got, want in compared(name, "max", data):
            np.testing.assert_array_equal(got, want)


def windowed(b, x, kernel, stride, pad, value):
    n, low = len(kernel), (0, 0, *pad)
    padded = b.pad(x, low=low, high=low, value=value)
    extent = tuple((d - k) // s + 1 for d, k, s in zip(padded.shape[2:], kernel, stride))
    wide = b.broadcast(b.reshape(padded, (1,) * n + padded.shape), (*kernel, *padded.shape))
    return b.unfold(wide, stride=stride, dilate=(1,) * n, extent=extent)


@pytest.mark.parametrize("kind", ["amax", "amin", "sum"])
def test_the_inside_is_free_of_tests(kind):
    b = builder()
    x = b.input(tensor_type((4, 3, 40, 40), f32))
    y = b.reduce(kind, windowed(b, x, (3, 3), (2, 2), (1, 1), -1.0), (0, 1))
    graph = b.finish([y])
    program = compile_graph(graph, CPU)
    assert [(k.kind, k.choice["form"]) for k in program.kernels] == [("reduce", "unrolled")]
    assert "?" not in program.kernels[0].text
    (step,) = program.steps
    assert (step.bytes_read, step.bytes_written) == (4 * x.size, 4 * y.size)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "written"),
    [
        ((2, 3, 24, 24), (3, 3), (2, 2), True),
        ((2, 3, 24, 24), (3, 3), (1, 1), True),
        ((2, 3, 25, 27), (3, 2), (2, 1), True),
        ((2, 3, 24), (4,), (3,), True),
        ((2, 3, 24, 24), (2, 2), (5, 1), False),
        ((2, 3, 24, 24), (7, 7), (1, 1), False),
    ],
)
def test_sums_of_what_goes_back(shape, kernel, stride, written):
    n = len(kernel)
    b = builder()
    positions = tuple((d - k) // s + 1 for d, k, s in zip(shape[2:], kernel, stride))
    g = b.input(tensor_type((*kernel, *shape[:2], *positions), f32))
    y = b.sum(b.fold(g, stride=stride, dilate=(1,) * n, extent=shape[2:]), tuple(range(n)))
    cropped = b.slice(y, (0, 1, *(1,) * n), shape, (1,) * (n + 2))
    values = np.random.default_rng(0).standard_normal(g.shape).astype("f")
    for out in ([y], [cropped], [y, cropped]):
        graph = b.finish(out)
        made = run_pass("pooling_backward", graph, CPU)
        assert run_pass("pooling_backward", graph, CUDA) is graph
        assert ("fold" not in {node.prim.name for node in made.nodes}) == written
        for got, want in zip(evaluate(made, [values]), evaluate(graph, [values])):
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("kernel", "stride", "written"), [((3, 3), (2, 2), True), ((2, 2), (2, 2), False), ((5, 5), (1, 1), False)]
)
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_first_extrema(kind, kernel, stride, written, compiler):
    """Positions of maxima, beside which the maxima themselves need nothing of their own."""
    b = builder()
    x = b.input(tensor_type((2, 3, 16, 18), f32))
    over = windowed(b, x, kernel, stride, (1, 1), -2.0)
    y, most = b.reduce(kind, over, (0, 1)), b.reduce(f"a{kind[3:]}", over, (0, 1))
    assert y.dtype is i64
    rng = np.random.default_rng(0)
    values = rng.choice(np.array([np.nan, -np.inf, 0.0, -0.0, -2.0, 1.0], "f"), x.shape)
    for outputs in ([y], [y, most]):
        graph = b.finish(outputs)
        program = compile_graph(graph, CPU)
        forms = [k.choice["form"] for k in program.kernels]
        assert len(outputs) == 2 or (forms == ["unrolled"]) == written
        results = [np.empty(o.shape, o.dtype.np) for o in graph.outputs]
        cpu_backend().load(program)([values], results)
        for got, want in zip(results, evaluate(graph, [values]), strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_is_searched_is_computed_once(compiler):
    """What overlapping windows are searched in is in memory, if it is no single operation: each element lies in several."""
    b = builder()
    x, scale = b.input(tensor_type((2, 8, 56, 56), f32)), b.input(tensor_type((1, 8, 1, 1), f32))
    y = b.max(x * b.broadcast(scale, x.shape) + 1.0, b.full(x.shape, 0, f32))
    graph = b.finish([b.argmax(windowed(b, y, (3, 3), (2, 2), (1, 1), -2.0), axes=(0, 1))])
    assert [k.kind for k in compile_graph(graph, CPU).kernels] == ["map", "reduce"]

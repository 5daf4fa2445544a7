# SPDX-License-Identifier: Apache-2.0
"""Poolings and their derivatives where windows do not overlap: one kernel, tiles of windows on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f16, f32, f64, i64
from hybridgpu.ops.conv import windowed

pytestmark = pytest.mark.usefixtures("compiler")


def windows(b, x, kernel, stride):
    n = len(kernel)
    extent = tuple((d - k) // s + 1 for d, k, s in zip(x.shape[-n:], kernel, stride))
    wide = b.broadcast(b.reshape(x, (1,) * n + x.shape), (*kernel, *x.shape))
    return b.unfold(wide, stride=stride, dilate=(1,) * n, extent=extent)


def best_places(b, taken, n):
    """Which element of each window is its greatest: truth values of the windows' shape."""
    best = b.argmax(taken, axes=tuple(range(n)))
    place, step = None, 1
    for axis in reversed(range(n)):
        part = b.iota(taken.shape, axis, i64) * step
        place = part if place is None else place + part
        step *= taken.shape[axis]
    return b.eq(place, b.broadcast(b.reshape(best, (1,) * n + best.shape), taken.shape))


def pooling(b, x, kernel, stride):
    return b.amax(windows(b, x, kernel, stride), axes=tuple(range(len(kernel))))


def back(b, x, g, kernel, stride):
    """The derivative of a pooling of tanh(x + 1), and of what is pooled."""
    n = len(kernel)
    y = b.tanh(x + 1.0)
    taken = windows(b, y, kernel, stride)
    given = b.broadcast(b.reshape(g, (1,) * n + g.shape), taken.shape)
    chosen = b.select(best_places(b, taken, n), given, 0.0)
    spread = b.fold(chosen, stride=stride, dilate=(1,) * n, extent=x.shape[-n:])
    return b.sum(spread, tuple(range(n))) * (1.0 - y * y)


# name -> shape, kernel, stride, number of kernels of a derivative, whether they turn tiles of windows
SHAPES = {
    "several rows in a tile": ((3, 5, 8, 8), (2, 2), (2, 2), 1, True),
    "many rows in a tile": ((2, 3, 24, 24), (2, 2), (2, 2), 1, True),
    "a row too wide for several": ((2, 3, 4, 300), (2, 2), (2, 2), 1, True),
    "a rest of windows": ((2, 3, 5, 131), (2, 2), (2, 2), 3, True),
    "three in a row": ((2, 3, 9, 15), (3, 3), (3, 3), 1, True),
    "one axis": ((4, 3, 40), (4,), (4,), 1, True),
    "volumes": ((2, 2, 4, 6, 8), (2, 2, 2), (2, 2, 2), 1, True),
    "few windows": ((4, 3, 6, 6), (2, 2), (2, 2), 2, False),
    "rows longer than windows need": ((2, 3, 7, 9), (2, 2), (2, 2), 3, True),
    "gaps": ((2, 3, 9, 9), (2, 2), (3, 3), 0, False),
    "overlaps": ((2, 3, 9, 9), (3, 3), (2, 2), 0, False),
}


def ran(b, outputs, seed=0):
    graph = b.finish(outputs)
    program = compile_graph(graph, CPU)
    rng = np.random.default_rng(seed)
    # steps of 1/4: equals within windows, in every precision
    arrays = [(rng.integers(-9, 9, i.shape) / 4).astype(i.dtype.np) for i in graph.inputs]
    made = [np.full(o.shape, np.nan if o.dtype.is_float else 0, o.dtype.np) for o in outputs]
    cpu_backend().load(program)(arrays, made)
    return program, made, evaluate(graph, arrays, wide=True)


@pytest.mark.parametrize("dtype", [f32, f64, f16], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_derivatives(name, dtype):
    shape, kernel, stride, count, tiled = SHAPES[name]
    b = builder()
    x = b.input(tensor_type(shape, dtype))
    bias = b.input(tensor_type((shape[1], *(1,) * len(kernel)), dtype))
    taken = windows(b, x, kernel, stride)
    g = b.input(tensor_type(taken.shape[len(kernel) :], dtype))
    program, (made,), (want,) = ran(b, [back(b, x + bias, g, kernel, stride)])
    assert not count or len(program.kernels) == count
    assert ("tile_in" in program.source) == tiled
    tolerance = {f32: 1e-5, f64: 1e-12, f16: 4e-3}[dtype]
    np.testing.assert_allclose(made.astype("float64"), want, tolerance, tolerance)


#: what is costly is computed by a kernel of its own: lanes of vectors would have no window, or several the same elements
EXP_APART = {"few windows", "gaps", "overlaps"}


@pytest.mark.parametrize("name", SHAPES)
def test_poolings(name):
    shape, kernel, stride = SHAPES[name][:3]
    b = builder()
    x = b.input(tensor_type(shape, f32))
    program, (made,), (want,) = ran(b, [pooling(b, b.exp(x), kernel, stride)])
    assert [k.kind for k in program.kernels] == ["map"] * (name in EXP_APART) + ["reduce"]
    np.testing.assert_allclose(made, want, 1e-6)


def scaled(b, x, channels):
    """What batch normalisation does in prediction."""
    return x * b.broadcast(channels, x.shape) + b.broadcast(channels, x.shape)


BEFORE = {
    "nothing": lambda b, x, channels: x,
    "relu": lambda b, x, channels: b.max(x, 0.0),
    "scaled": scaled,
    "scaled, relu": lambda b, x, channels: b.max(scaled(b, x, channels), 0.0),
    "sigmoid": lambda b, x, channels: b.sigmoid(x),
    "from half": lambda b, x, channels: b.cast(x, f32),
}
#: what is pooled, its shape, kernel, stride, padding -> kernels, and how the last one's loops are made
PLANS = [
    ("nothing", (1, 64, 112, 112), 3, 2, 1, 1, "unrolled"),
    # a way through the caches costs less than three operations for every window
    ("scaled, relu", (1, 64, 112, 112), 3, 2, 1, 2, "unrolled"),
    ("scaled, relu", (1, 64, 112, 112), 3, 1, 1, 2, "unrolled"),
    ("scaled", (1, 64, 28, 28), 3, 2, 1, 2, "unrolled"),
    ("from half", (1, 64, 112, 112), 3, 2, 1, 2, "unrolled"),
    ("sigmoid", (1, 64, 112, 112), 3, 2, 1, 2, "unrolled"),
    # … and one through memory costs more
    ("scaled, relu", (8, 64, 112, 112), 3, 2, 1, 1, "unrolled"),
    ("relu", (1, 64, 112, 112), 3, 2, 1, 1, "unrolled"),
    ("relu", (1, 64, 28, 28), 3, 2, 1, 2, "unrolled"),
    # every element is in one window, so nothing is computed again
    ("scaled, relu", (1, 64, 28, 28), 2, 2, 0, 1, "columns"),
    ("sigmoid", (1, 64, 112, 112), 2, 2, 0, 1, "columns"),
    ("sigmoid", (1, 64, 7, 7), 2, 2, 0, 2, "inner"),
    ("sigmoid", (1, 64, 112, 112), 7, 7, 0, 2, "inner"),
    ("scaled, relu", (1, 64, 7, 7), 7, 7, 0, 1, "columns"),
]


@pytest.mark.no_host_code
@pytest.mark.parametrize(("before", "shape", "kernel", "stride", "pad", "count", "form"), PLANS)
def test_what_is_computed_in_windows(before, shape, kernel, stride, pad, count, form):
    b = builder()
    x = b.input(tensor_type(shape, f16 if before == "from half" else f32))
    channels = b.input(tensor_type((1, shape[1], 1, 1), f32))
    y = BEFORE[before](b, x, channels)
    out = (shape[-1] + 2 * pad - kernel) // stride + 1
    over = windowed(b, y, (kernel, kernel), (stride, stride), (1, 1), (out, out), (pad, pad), -1.0)
    program = compile_graph(b.finish([b.amax(over, axes=(0, 1))], "g"), CPU)
    assert (len(program.steps), program.kernels[-1].choice.get("form")) == (count, form)


def test_a_channels_scale_is_loaded_outside_the_window(compiler):
    """What lies in the padding is tested for where elements are loaded, not where numbers of their channel are."""
    b = builder()
    x, channels = b.input(tensor_type((8, 16, 112, 112), f32)), b.input(tensor_type((1, 16, 1, 1), f32))
    over = windowed(b, scaled(b, x, channels), (3, 3), (2, 2), (1, 1), (56, 56), (1, 1), -1.0)
    program, (made,), (want,) = ran(b, [b.amax(over, axes=(0, 1))])
    (kernel,) = program.kernels
    assert kernel.choice["form"] == "unrolled" and kernel.text.count("x0[i") == 1
    np.testing.assert_allclose(made, want, 1e-5, 1e-5)


@st.composite
def put_back(draw):
    """(kernel, lead, positions, stride, extents) of windows that do not overlap."""
    n = draw(st.integers(1, 2))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(n))  # noqa: E731
    kernel, positions, gap, rest = each(1, 3), each(1, 4), each(0, 2), each(0, 3)
    stride = tuple(k + g for k, g in zip(kernel, gap))
    extent = tuple((t - 1) * s + k + r for t, s, k, r in zip(positions, stride, kernel, rest))
    return kernel, draw(st.sampled_from([(), (2,), (2, 3)])), positions, stride, extent


@pytest.mark.no_host_code
@given(put_back(), st.sampled_from([f32, i64]))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_windows_that_are_put_back_are_a_view(case, dtype):
    kernel, lead, positions, stride, extent = case
    b = builder()
    x = b.input(tensor_type((*kernel, *lead, *positions), dtype))
    spread = b.fold(x, stride=stride, dilate=(1,) * len(kernel), extent=extent)
    graph = b.finish([b.sum(spread, tuple(range(len(kernel))))])
    small = simplify(graph)
    assert not {"fold", "sum"} & {n.prim.name for n in small.nodes}
    values = np.random.default_rng(0).integers(-3, 4, x.shape).astype(dtype.np)
    if dtype is f32:
        values[values == 1], values[values == 0] = np.nan, -0.0
    before, after = evaluate(graph, [values])[0], evaluate(small, [values])[0]
    np.testing.assert_array_equal(before, after)
    if dtype is f32 and np.prod(kernel) > 1:
        np.testing.assert_array_equal(np.signbit(before)[before == 0], np.signbit(after)[before == 0])

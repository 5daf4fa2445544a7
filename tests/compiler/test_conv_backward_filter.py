# SPDX-License-Identifier: Apache-2.0
"""Derivatives of convolutions by their weight in generated kernels of the CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import bf16, f16, f32, f64
from hybridgpu.runtime.reports.explain import Explanation

pytestmark = pytest.mark.usefixtures("compiler")


def completed(x, params):
    rank = len(x) - 2
    ones, zeros = (1,) * rank, (0,) * rank
    given = {"stride": ones, "low": zeros, "high": None, "dilate": ones, "base_dilate": ones, "groups": 1, **params}
    return {**given, "high": given["high"] or given["low"]}


def slope_graph(x, w, params, dtype, decay=False):
    """The derivative by its weight of conv(x, w), for the operand, the weight and the cotangent of the result."""
    b = builder()
    operand, weight = b.input(tensor_type(x, dtype)), b.input(tensor_type(w, dtype))
    y = b.conv(operand, weight, **params)
    g = b.input(y.type)
    slope = TABLE["conv"].vjp(b, g, y, (operand, weight), params)[1]
    return b.finish([slope * 0.5 + weight * 0.25 if decay else slope])


def summed(x, g, w, params):
    """The definition in float64, one tap after another."""
    x, g = x.astype(np.float64), g.astype(np.float64)
    p, groups, rank = params, params["groups"], x.ndim - 2
    spread = np.zeros((*x.shape[:2], *((d - 1) * s + 1 for d, s in zip(x.shape[2:], p["base_dilate"]))))
    spread[(..., *(slice(None, None, s) for s in p["base_dilate"]))] = x
    around = [(max(lo, 0), max(hi, 0)) for lo, hi in zip(p["low"], p["high"])]
    padded = np.pad(spread, [(0, 0), (0, 0), *around])
    cut = [slice(max(0, -lo), d - max(0, -hi)) for d, lo, hi in zip(padded.shape[2:], p["low"], p["high"])]
    padded = padded[(..., *cut)]
    out = np.zeros(w)
    n, per, inputs = x.shape[0], w[0] // groups, w[1]
    for k in itertools.product(*map(range, w[2:])):
        at = [
            slice(i * e, i * e + (d - 1) * s + 1, s)
            for i, e, d, s in zip(k, p["dilate"], g.shape[2:], p["stride"], strict=True)
        ]
        taken = padded[(slice(None), slice(None), *at)].reshape(n, groups, inputs, -1)
        made = np.einsum("ngop,ngcp->goc", g.reshape(n, groups, per, -1), taken)
        out[(slice(None), slice(None), *k)] = made.reshape(w[0], inputs)
    assert rank == len(k)
    return out


def run(program, arrays):
    outputs = [
        np.full(shape, np.nan, program_dtype) for (shape, _), program_dtype in zip(program.outputs, [arrays[0].dtype])
    ]
    cpu_backend().load(program)(arrays, outputs)
    return outputs[0]


def drawn(graph, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(i.shape).astype(dtype.np) for i in graph.inputs]


def library_steps(program):
    return [s.primitive for s in program.steps if isinstance(s, LibraryStep)]


# name -> operand, weight, parameters that differ from (stride 1, no pads, no dilation, one group)
FORMS = {
    "whole samples": ((5, 4, 9, 8), (20, 4, 3, 2), {}),
    "an operand of one channel": ((3, 1, 14, 14), (20, 1, 5, 5), {}),
    "one sample": ((1, 3, 9, 9), (17, 3, 3, 3), {"low": (1, 1)}),
    "rows of taps left over": ((2, 1, 15, 14), (6, 1, 7, 7), {}),
    "several rows of a padded copy": ((2, 5, 33, 30), (18, 5, 3, 3), {"low": (1, 1)}),
    "parts of rows": ((2, 2, 3, 300), (6, 2, 3, 3), {"low": (1, 1)}),
    "several strips of channels": ((1, 110, 7, 7), (50, 110, 3, 3), {"low": (1, 1)}),
    "a rest of vectors": ((2, 3, 12, 12), (70, 3, 3, 3), {}),
    "pixels": ((2, 45, 9, 9), (33, 45, 1, 1), {}),
    "pixels of many channels": ((2, 12, 8, 8), (7, 12, 1, 1), {}),
    "pixels a stride apart": ((2, 8, 13, 13), (16, 8, 1, 1), {"stride": (2, 2)}),
    "stride and pads": ((2, 6, 17, 16), (16, 6, 3, 3), {"stride": (2, 2), "low": (1, 1)}),
    "stride, dilation, uneven pads": ((2, 3, 16, 13), (8, 3, 3, 2), {"stride": (2, 1), "dilate": (2, 3), "low": (2, 1), "high": (0, 3)}),
    "cut ends": ((2, 3, 12, 12), (8, 3, 3, 3), {"low": (-1, -2), "high": (-2, 1)}),
    "two groups": ((2, 8, 10, 10), (32, 4, 3, 3), {"groups": 2, "low": (1, 1)}),
    "groups of a few channels": ((2, 24, 9, 9), (48, 2, 3, 3), {"groups": 12, "low": (1, 1)}),
    "a channel a group": ((2, 20, 12, 12), (20, 1, 3, 3), {"groups": 20, "low": (1, 1)}),
    "a channel a group with a stride": ((3, 36, 11, 11), (36, 1, 3, 3), {"groups": 36, "low": (1, 1), "stride": (2, 2)}),
    "a channel a group, not padded": ((2, 70, 9, 9), (70, 1, 3, 3), {"groups": 70}),
    "one axis": ((4, 5, 40), (12, 5, 3), {"low": (1,)}),
    "one axis, a wide window": ((2, 3, 400), (9, 3, 31), {"stride": (3,)}),
    "one axis, a wide window with holes": ((2, 3, 140), (9, 3, 31), {"dilate": (3,)}),
    "one axis, a wide window with holes, a channel a group": ((2, 20, 140), (20, 1, 31), {"dilate": (2,), "groups": 20}),
    "one axis, a channel a group": ((2, 20, 50), (20, 1, 5), {"groups": 20, "low": (2,)}),
    "three axes": ((2, 3, 5, 9, 8), (10, 3, 3, 2, 3), {"low": (1, 0, 1)}),
    "three axes with strides": ((2, 4, 6, 9, 8), (17, 4, 2, 3, 3), {"stride": (2, 1, 2), "dilate": (1, 2, 1), "low": (1, 2, 1)}),
    "three axes, a channel a group": ((2, 18, 5, 6, 7), (18, 1, 3, 3, 3), {"groups": 18, "low": (1, 1, 1)}),
    "a spread operand": ((2, 18, 7, 6), (5, 18, 3, 3), {"base_dilate": (2, 2), "low": (2, 2)}),
    "a spread operand, uneven": ((2, 18, 7, 6), (5, 18, 4, 3), {"base_dilate": (2, 3), "low": (1, 2), "high": (2, 0)}),
    "a spread operand of groups": ((2, 20, 7, 6), (20, 1, 4, 4), {"base_dilate": (2, 2), "low": (2, 2), "groups": 20}),
    "a spread volume": ((2, 3, 4, 5, 5), (4, 3, 2, 3, 3), {"base_dilate": (2, 1, 2), "low": (1, 2, 2)}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name, dtype):
    x, w, params = FORMS[name]
    params = completed(x, params)
    graph = slope_graph(x, w, params, dtype)
    program = compile_graph(graph, CPU)
    assert [k.kind for k in program.kernels] == ["conv"] and not library_steps(program)
    arrays = drawn(graph, dtype)
    want = summed(arrays[0], arrays[-1], w, params)
    tolerance = 2e-5 if dtype is f32 else 1e-12
    np.testing.assert_allclose(run(program, arrays), want, tolerance, tolerance * np.abs(want).max())


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize(
    "name", ["whole samples", "several rows of a padded copy", "pixels", "a channel a group", "a spread operand"]
)
def test_half_precision_is_summed_in_float(name, dtype):
    x, w, params = FORMS[name]
    params = completed(x, params)
    graph = slope_graph(x, w, params, dtype)
    program = compile_graph(graph, CPU)
    assert [k.kind for k in program.kernels] == ["conv"]
    arrays = drawn(graph, dtype)
    want = summed(arrays[0], arrays[-1], w, params)
    made = run(program, arrays).astype(np.float64)
    unit = 2.0 ** (-11 if dtype is f16 else -8)  # half a unit of the result's last place, and nothing of the sum's
    np.testing.assert_allclose(made, want, unit * 1.01, 1e-5 * np.abs(want).max())


@pytest.mark.parametrize("name", ["whole samples", "a channel a group", "a spread operand", "three axes", "one axis"])
def test_what_follows_is_part_of_the_kernel(name):
    x, w, params = FORMS[name]
    params = completed(x, params)
    graph = slope_graph(x, w, params, f32, decay=True)
    program = compile_graph(graph, CPU)
    assert [k.kind for k in program.kernels] == ["conv"]
    arrays = drawn(graph, f32)
    want = summed(arrays[0], arrays[2], w, params) * 0.5 + arrays[1] * 0.25
    np.testing.assert_allclose(run(program, arrays), want, 2e-5, 2e-5 * np.abs(want).max())


@st.composite
def convolutions(draw):
    """(operand, weight, parameters) of a convolution with a result."""
    rank = draw(st.integers(1, 3))
    groups, inputs, outputs = draw(st.sampled_from([1, 1, 2, 3, 17])), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    size, kernel = each(1, 20 if rank < 3 else 7), each(1, 4)
    params = {"stride": each(1, 3), "low": each(-1, 3), "dilate": each(1, 2), "base_dilate": each(1, 2)}
    high = []
    for d, k, lo, e, s in zip(size, kernel, params["low"], params["dilate"], params["base_dilate"]):
        short = (k - 1) * e + 1 - lo - ((d - 1) * s + 1)  # at least that much, or the window does not fit
        high.append(draw(st.integers(max(short, -1), max(short, -1) + 3)))
    shapes = (draw(st.integers(1, 5)), groups * inputs, *size), (groups * outputs, inputs, *kernel)
    return *shapes, dict(params, high=tuple(high), groups=groups)


@given(convolutions(), st.sampled_from([f32, f64]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_convolution(case, dtype):
    x, w, params = case
    graph = slope_graph(x, w, params, dtype)
    program = compile_graph(graph, CPU)
    arrays = drawn(graph, dtype)
    want = summed(arrays[0], arrays[-1], w, params)
    tolerance = 2e-5 if dtype is f32 else 1e-12
    np.testing.assert_allclose(run(program, arrays), want, tolerance, tolerance * max(1, np.abs(want).max(initial=0)))


@pytest.mark.parametrize("name", ["whole samples", "pixels", "a channel a group", "several rows of a padded copy"])
def test_one_text_for_every_batch(name):
    (_, *x), w, params = FORMS[name]
    params = completed((1, *x), params)
    texts = {compile_graph(slope_graph((n, *x), w, params, f32), CPU).source for n in (2, 3, 64)}
    assert len(texts) == 1


def test_results_are_the_same_in_every_run():
    x, w, params = FORMS["several rows of a padded copy"]
    graph = slope_graph(x, w, completed(x, params), f32)
    program, arrays = compile_graph(graph, CPU), drawn(graph, f32)
    first = run(program, arrays)
    assert all(np.array_equal(first, run(program, [a.copy() for a in arrays])) for _ in range(3))


@pytest.mark.parametrize(
    "x,w,params",
    [
        ((40, 2, 60, 60), (4, 2, 3, 3), {"low": (1, 1)}),
        ((3000, 2, 6, 6), (4, 2, 3, 3), {}),
        ((8, 16, 60, 60), (16, 1, 3, 3), {"groups": 16}),
        ((8, 3, 20000), (5, 3, 1), {}),
    ],
)
def test_rounding_errors_of_long_sums(x, w, params):
    params = completed(x, params)
    graph = slope_graph(x, w, params, f32)
    program = compile_graph(graph, CPU)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0, 1, i.shape).astype("f") for i in graph.inputs]
    arrays[-1] = rng.standard_normal(arrays[-1].shape).astype("f")
    error = run(program, arrays) - summed(arrays[0], arrays[-1], w, params)
    terms = arrays[-1].size / arrays[-1].shape[1]
    # in units of the last place of a result; sums of one term after another have several times as much
    assert np.sqrt((error**2).mean()) < 6e-8 * np.sqrt(terms / 3) * 8


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_elements_that_no_tap_meets_do_not_matter(value):
    """A stride leaves the last row and column out, and a transposed operand's zeros are no factors."""
    x, w, params = (2, 3, 8, 8), (8, 3, 3, 3), completed((2, 3, 8, 8), {"stride": (2, 2)})
    graph = slope_graph(x, w, params, f32)
    arrays = drawn(graph, f32)
    want = summed(arrays[0], arrays[-1], w, params)
    arrays[0][:, :, -1], arrays[0][:, :, :, -1] = value, value
    np.testing.assert_allclose(run(compile_graph(graph, CPU), arrays), want, 2e-5, 2e-4)


@pytest.mark.parametrize(
    "dtype,x,w,params",
    [
        (f32, (1, 2, 3, 3, 3, 3), (2, 2, 2, 2, 2, 2), {}),  # four axes
        (f32, (2, 3, 30, 30), (4, 3, 25, 25), {"low": (3, 3)}),  # hundreds of sums a channel
        (f32, (2, 3, 7, 7), (4, 3, 3, 3), {"base_dilate": (2, 2), "stride": (3, 3)}),  # both are spread
    ],
)
def test_what_is_no_such_kernel(dtype, x, w, params):
    graph = slope_graph(x, w, completed(x, params), dtype)
    program = compile_graph(graph, CPU)
    assert all("hg::conv_backward_filter" not in k.text for k in program.kernels)
    arrays = drawn(graph, dtype)
    np.testing.assert_allclose(run(program, arrays), evaluate(graph, arrays, wide=True)[0], 2e-4, 2e-4)


@pytest.mark.parametrize("x,w", [((2, 4, 12, 12), (8, 4, 3, 3)), ((64, 64, 56, 56), (64, 64, 3, 3))])
def test_a_gpu_computes_them_as_it_did(x, w):
    program = compile_graph(slope_graph(x, w, completed(x, {}), f32), CUDA)
    assert all("hg::conv_backward_filter" not in k.text for k in program.kernels)
    assert library_steps(program) == (["conv_backward_filter"] if x[0] == 64 else [])


@pytest.mark.parametrize(
    "shape,layer",
    [
        ((3, 4, 9, 9), lambda: mx.gluon.nn.Conv2D(18, 3, padding=1, in_channels=4)),
        ((3, 4, 9, 9), lambda: mx.gluon.nn.Conv2D(6, 3, strides=2, dilation=2, padding=2, in_channels=4, groups=2)),
        ((3, 20, 9, 9), lambda: mx.gluon.nn.Conv2D(20, 3, padding=1, in_channels=20, groups=20)),
        ((3, 4, 7, 7), lambda: mx.gluon.nn.Conv2DTranspose(6, 3, strides=2, padding=1, in_channels=4)),
        ((3, 4, 30), lambda: mx.gluon.nn.Conv1D(5, 3, in_channels=4)),
        ((2, 3, 5, 6, 7), lambda: mx.gluon.nn.Conv3D(5, 3, padding=1, in_channels=3)),
    ],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients_of_layers(shape, layer, hybrid):
    net = layer()
    net.initialize(mx.init.Uniform(1))
    x = mx.nd.array(np.random.default_rng(0).standard_normal(shape), dtype="float64")
    net.cast("float64")
    if hybrid:
        net.hybridize()
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    weight = net.weight.data()
    step = np.random.default_rng(1).standard_normal(weight.shape) * 1e-2
    slope, held = float((net.weight.grad().asnumpy() * step).sum()), weight.asnumpy()
    ends = []
    for sign in (1, -1):  # the loss is quadratic: its central difference has no error of method
        net.weight.set_data(mx.nd.array(held + sign * step, dtype="float64"))
        ends.append((net(x) ** 2).sum().asscalar())
    np.testing.assert_allclose((ends[0] - ends[1]) / 2, slope, 1e-9, 1e-9)


def test_explanations_say_why():
    net = mx.gluon.nn.Conv2D(20, 3, in_channels=4)
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((2, 4, 8, 8))
    with autograd.record():
        y = net(x)
    y.backward()
    (trained,) = [e.program for e in net._cached_op.entries.values()]
    text = str(Explanation("backward", trained.backward))
    assert "[derivative by a weight; vectors along 20 channels]" in text


def test_why_others_are_unfolded():
    program = compile_graph(slope_graph((1, 4, 3, 3, 3, 3), (2,) * 6, completed((1,) * 6, {"groups": 2}), f32), CPU)
    stored = type(program).from_bytes(program.to_bytes())
    for p in (program, stored):
        notes = [s.note for s in p.steps if isinstance(s, LibraryStep)]
        assert notes == ["unfolded, for a product: more than three spatial axes"]

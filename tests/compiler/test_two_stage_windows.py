# SPDX-License-Identifier: Apache-2.0
"""Maxima over large windows on the host in two steps, with the same bits as in one, and sums, with an error as small."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import parse
from compiler.test_graphs import fresh

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32
from hybridgpu.ops.conv import windowed

#: type of the image, kernel, stride, dilation, windows, padding, kernels of the program
CASES = {
    "5 x 5, stride 2": ("f32[2,3,23,40]", (5, 5), (2, 2), (1, 1), (12, 20), (2, 2), 2),
    "5 x 5, stride 1": ("f32[1,4,12,33]", (5, 5), (1, 1), (1, 1), (12, 33), (2, 2), 2),
    "4 x 4, more behind": ("f32[2,2,15,18]", (4, 4), (2, 2), (1, 1), (8, 9), (1, 1), 2),
    "3 x 7, dilated": ("f32[1,2,20,40]", (3, 7), (1, 2), (2, 3), (16, 11), (0, 0), 2),
    "half": ("f16[1,4,14,29]", (5, 5), (1, 1), (1, 1), (14, 29), (2, 2), 2),
    "double": ("f64[1,4,14,29]", (5, 5), (2, 2), (1, 1), (7, 15), (2, 2), 2),
    "integers": ("i32[1,4,14,29]", (5, 5), (1, 1), (1, 1), (10, 25), (0, 0), 2),
    "three axes": ("f32[1,2,9,10,17]", (3, 3, 3), (1, 1, 1), (1, 1, 1), (9, 10, 17), (1, 1, 1), 2),
    "one row of windows": ("f32[2,3,5,40]", (5, 5), (1, 1), (1, 1), (1, 36), (0, 0), 1),
    "3 x 3": ("f32[1,2,20,40]", (3, 3), (2, 2), (1, 1), (10, 20), (1, 1), 1),
    "3 x 3, stride 1": ("f32[1,2,20,40]", (3, 3), (1, 1), (1, 1), (20, 40), (1, 1), 1),
    "9 x 2": ("f32[1,2,20,40]", (9, 2), (1, 1), (1, 1), (12, 39), (0, 0), 1),
    "apart": ("f32[1,2,20,40]", (4, 4), (4, 4), (1, 1), (5, 10), (0, 0), 1),
    "along rows": ("f32[1,2,500]", (17,), (1,), (1,), (484,), (0,), 1),
}


def pooled(name, reduction="amax"):
    type, kernel, stride, dilate, count, pad, _ = CASES[name]
    b = builder()
    x = b.input(parse(type), "x")
    outside = 0.0
    if x.dtype.is_float and reduction != "sum":
        outside = float(x.dtype.finfo.min if reduction == "amax" else x.dtype.finfo.max)
    y = b.reduce(reduction, windowed(b, x, kernel, stride, dilate, count, pad, outside), tuple(range(len(kernel))))
    return b.finish([y], "g")


def image(type):
    """Small numbers, zeros of both signs, infinities, and NaNs that differ in their bits."""
    rng = np.random.default_rng(5)
    if not type.dtype.is_float:
        return rng.integers(-9, 9, type.shape).astype(type.dtype.np)
    x = rng.integers(-2, 2, type.shape).astype(type.dtype.np)
    x[x == -2] = -0.0
    x[rng.random(type.shape) < 0.3] = -np.inf
    nans = rng.random(type.shape) < 0.01
    bits = x.view(f"u{x.itemsize}")
    bits[nans] = np.full(1, np.nan, x.dtype).view(bits.dtype) + rng.integers(0, 99, nans.sum()).astype(bits.dtype)
    return x


def run(program, x):
    outputs = fresh(program)
    cpu_backend().load(program)([x], outputs)
    return outputs[0]


@pytest.mark.parametrize("reduction", ["amax", "amin"])
@pytest.mark.parametrize("name", CASES)
def test_same_bits(name, reduction, compiler):
    graph = pooled(name, reduction)
    program = compile_graph(graph, CPU)
    assert len(program.steps) == CASES[name][-1]
    plain = compile_graph(graph, CPU.changed(disabled_passes=("two_stage_reductions",)))
    assert len(plain.steps) == 1
    x = image(graph.inputs[0].type)
    assert run(program, x).tobytes() == run(plain, x).tobytes()


@pytest.mark.parametrize("name", CASES)
def test_sums(name, compiler):
    graph = pooled(name, "sum")
    program = compile_graph(graph, CPU)
    x = image(graph.inputs[0].type)
    if graph.inputs[0].dtype.is_float:
        x = np.random.default_rng(3).standard_normal(x.shape).astype(x.dtype)
    assert len(program.steps) == (1 if name == "half" else CASES[name][-1])
    (want,) = evaluate(graph, [x], wide=True)
    (size,) = evaluate(graph, [abs(x)], wide=True)
    error = {"half": 2**-10, "double": 2**-50}.get(name, 2**-21)
    assert (abs(run(program, x) - want) <= error * size).all()


def test_a_sum_does_not_depend_on_the_number_of_images(compiler):
    type, kernel, stride, dilate, count, pad, _ = CASES["5 x 5, stride 1"]
    x = np.random.default_rng(3).standard_normal((3, *parse(type).shape[1:])).astype(np.float32)

    def of(images):
        b = builder()
        over = windowed(b, b.input(tensor_type(images.shape, f32), "x"), kernel, stride, dilate, count, pad, 0.0)
        return run(compile_graph(b.finish([b.reduce("sum", over, (0, 1))], "g"), CPU), np.ascontiguousarray(images))

    whole = of(x)
    for k in range(3):
        assert of(x[k : k + 1])[0].tobytes() == whole[k].tobytes()


def test_maxima_along_some_axes_of_windows(compiler):
    """What is left of a window has axes of its own."""
    b = builder()
    x = b.input(parse("f32[1,2,20,40]"), "x")
    y = b.reduce("amax", windowed(b, x, (5, 5), (1, 1), (1, 1), (16, 36), (0, 0), 0.0), (0,))
    program = compile_graph(b.finish([y], "g"), CPU)
    image = np.random.default_rng(0).standard_normal((1, 2, 20, 40), np.float32)
    columns = np.lib.stride_tricks.sliding_window_view(image, (5, 5), (2, 3)).max(4)
    np.testing.assert_array_equal(run(program, image), np.moveaxis(columns, 4, 0))


def test_windows_whose_places_differ(compiler):
    """What is reduced is no image alone: each place of a window has numbers of its own."""
    b = builder()
    x = b.input(parse("f32[5,5,1,1,20,40]"), "x")
    over = b.unfold(b.broadcast(x, (5, 5, 1, 2, 20, 40)), stride=(1, 1), dilate=(1, 1), extent=(16, 36))
    graph = b.finish([b.reduce("amax", over, (0, 1))], "g")
    values = np.random.default_rng(0).standard_normal((5, 5, 1, 1, 20, 40), np.float32)
    np.testing.assert_array_equal(run(compile_graph(graph, CPU), values), evaluate(graph, [values])[0])


def test_a_gpu_keeps_one_kernel():
    assert len(compile_graph(pooled("5 x 5, stride 2"), CUDA).steps) == 1

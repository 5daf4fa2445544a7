# SPDX-License-Identifier: Apache-2.0
"""Gradients of a convolution's weight on CUDA: a library takes both operands as they lie, and writes what is wanted."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import arrays
from emulated import aligned

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import Builder, Graph, Node, tensor_type
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.primitives.conv import flip_weight
from hybridgpu.compiler.primitives.loop import inline
from hybridgpu.compiler.program import KernelStep, LibraryStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32, from_short

pytestmark = pytest.mark.no_host_code


def gradients(
    x: tuple[int, ...], w: tuple[int, ...], around: bool = False, turned: bool = False, **params: object
) -> Graph:
    """Those of a convolution by both operands; ``around``: there is work before it and behind.

    ``turned``: the weight is given as a Deconvolution's is, with its first axes exchanged and the others reversed.
    """
    w = (w[1], w[0], *w[2:]) if turned else w
    rank = len(x) - 2
    usual = {"stride": 1, "low": 1, "high": 1, "dilate": 1, "base_dilate": 1} | params
    groups = usual.pop("groups", 1)
    spread = {k: v if isinstance(v, tuple) else (v,) * rank for k, v in usual.items()}

    def net(b: Builder, a: Node, k: Node) -> Node:
        a = b.max(a, 0.0) if around else a
        k = flip_weight(b, k, 1) if turned else k
        y = b.conv(a, k, **spread, groups=groups)
        return b.tanh(y) if around else y

    s = builder()
    step = s.finish([net(s, s.input(tensor_type(x, f32), "x"), s.input(tensor_type(w, f32), "w"))])
    made = differentiate(step, [], [True], [True, True])
    b = builder()
    given = [b.input(tensor_type(x, f32), "x"), b.input(tensor_type(w, f32), "w")]
    given.append(b.input(step.outputs[0].type, "dy"))
    return b.finish(inline(b, made.graph, [given[k] for k in made.input_positions]), "gradients")


def run(program: Program, inputs: list[np.ndarray], driver) -> list[np.ndarray]:
    held = [aligned(a.shape, a.dtype) for a in inputs]
    for h, a in zip(held, inputs, strict=True):
        h[...] = a
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(held, outputs)
    return outputs


#: name -> (operand, weight, parameters)
CASES = {
    "plain": ((4, 32, 28, 28), (32, 32, 3, 3), {}),
    "work around": ((4, 32, 28, 28), (32, 32, 3, 3), {"around": True}),
    "strides": ((8, 64, 57, 57), (48, 64, 3, 3), {"stride": 2}),
    "dilated": ((4, 32, 28, 28), (32, 32, 3, 3), {"dilate": 2, "low": 2, "high": 2}),
    "a line": ((8, 64, 400), (64, 64, 3), {}),
    "a volume": ((2, 32, 10, 10, 10), (32, 32, 3, 3, 3), {}),
    "groups": ((4, 32, 28, 28), (64, 16, 3, 3), {"groups": 2}),
    "a group a channel": ((4, 256, 28, 28), (256, 1, 5, 5), {"groups": 256, "low": 2, "high": 2}),
    "pixels": ((8, 128, 28, 28), (128, 128, 1, 1), {"low": 0, "high": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_weights_take_operands_as_they_lie(name, cuda_driver):
    x, w, params = CASES[name]
    graph = gradients(x, w, **params)
    program = compile_graph(graph, CUDA)
    (step,) = [s for s in program.steps if isinstance(s, LibraryStep) and s.primitive == "conv_backward_filter"]
    assert step.input_shapes == (x, graph.inputs[2].shape)
    assert program.buffers[step.output].space == "output" and program.buffers[step.output].shape == w
    assert "around" in params or [program.buffers[b].space for b in step.inputs] == ["input"] * 2
    inputs = arrays(graph, 1)
    got, want = run(program, inputs, cuda_driver), evaluate(graph, inputs, wide=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_a_transposed_convolution_turns_nothing_round(cuda_driver):
    """Gradients of a Deconvolution: operands of both convolutions lie as they are, reversed and exchanged for nobody."""
    params = {"stride": 1, "low": 2, "high": 2, "base_dilate": 2}
    graph = gradients((16, 64, 16, 16), (48, 64, 4, 4), turned=True, **params)
    program = compile_graph(graph, CUDA)
    assert [s.primitive for s in program.steps if isinstance(s, LibraryStep)] == ["conv", "conv_backward_filter"]
    (x, w, dy), weight = (n.type.nbytes for n in graph.inputs), 4 * 64 * 48 * 16
    assert w == weight and program.bytes_moved == (dy + w + x) + (dy + x + w)
    inputs = arrays(graph, 1)
    got, want = run(program, inputs, cuda_driver), evaluate(graph, inputs, wide=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_part_of_an_array_is_copied_once():
    """A gradient that is part of an array is copied as it lies, which both convolutions take."""
    b = builder()
    x, w = b.input(tensor_type((4, 32, 28, 28), f32), "x"), b.input(tensor_type((32, 32, 3, 3), f32), "w")
    dy = b.input(tensor_type((4, 40, 28, 28), f32), "dy")
    part = b.slice(dy, (0, 8, 0, 0), dy.shape)
    same = dict.fromkeys(("stride", "low", "high", "dilate", "base_dilate"), (1, 1))
    of_x = b.conv(part, b.transpose(b.reverse(w, axes=(2, 3)), (1, 0, 2, 3)), **same, groups=1)
    of_w = b.conv(b.transpose(x, (1, 0, 2, 3)), b.transpose(part, (1, 0, 2, 3)), **same, groups=1)
    program = compile_graph(b.finish([of_x, b.transpose(of_w, (1, 0, 2, 3))]), CUDA)
    copies = [b for s in program.steps if isinstance(s, KernelStep) for b in s.buffers[-s.outputs :]]
    assert [program.buffers[k].nbytes for k in copies].count(x.type.nbytes) == 1


@pytest.mark.unsanitized("measures an arena, which has gaps there")
def test_nothing_is_copied():
    """Two operands and two results for two convolutions: what else is moved is the weight, turned once."""
    x, w, _ = CASES["plain"]
    program = compile_graph(gradients(x, w), CUDA)
    weights = 4 * int(np.prod(w))
    large = 4 * int(np.prod(x))
    assert program.bytes_moved == 4 * large + 4 * weights
    assert program.arena_bytes == weights
    assert Program.from_bytes(program.to_bytes()) == program

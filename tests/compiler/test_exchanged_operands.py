# SPDX-License-Identifier: Apache-2.0
"""Gradients of a convolution's weight on CUDA: a library takes both operands as they lie, with two axes exchanged."""

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
from hybridgpu.compiler.primitives.loop import inline
from hybridgpu.compiler.program import HostStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA
from hybridgpu.dtypes import f32, from_short


def gradients(x: tuple[int, ...], w: tuple[int, ...], around: bool = False, **params: object) -> Graph:
    """Those of a convolution by both operands; ``around``: there is work before it and behind."""
    rank = len(x) - 2
    usual = {"stride": 1, "low": 1, "high": 1, "dilate": 1, "base_dilate": 1} | params
    groups = usual.pop("groups", 1)
    spread = {k: v if isinstance(v, tuple) else (v,) * rank for k, v in usual.items()}

    def net(b: Builder, a: Node, k: Node) -> Node:
        a = b.max(a, 0.0) if around else a
        y = b.apply(b.primitive("conv"), [a, k], {**spread, "groups": groups})
        return b.tanh(y) if around else y

    s = builder()
    step = s.finish([net(s, s.input(tensor_type(x, f32), "x"), s.input(tensor_type(w, f32), "w"))])
    made = differentiate(step, [], [True], [True, True])
    b = builder()
    given = [b.input(tensor_type(x, f32), "x"), b.input(tensor_type(w, f32), "w")]
    given.append(b.input(step.outputs[0].type, "dy"))
    return b.finish(inline(b, made.graph, [given[k] for k in made.takes]), "gradients")


def run(program: Program, inputs: list[np.ndarray], driver) -> list[np.ndarray]:
    held = [aligned(a.shape, a.dtype) for a in inputs]
    for h, a in zip(held, inputs, strict=True):
        h[...] = a
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(held, outputs)
    return outputs


#: name -> (operand, weight, parameters, whether the gradient of the weight takes each operand exchanged)
CASES = {
    "plain": ((4, 32, 28, 28), (32, 32, 3, 3), {}, (True, True)),
    "work around": ((4, 32, 28, 28), (32, 32, 3, 3), {"around": True}, (True, True)),
    "strides": ((8, 64, 57, 57), (48, 64, 3, 3), {"stride": 2}, (True, True)),
    "dilated": ((4, 32, 28, 28), (32, 32, 3, 3), {"dilate": 2, "low": 2, "high": 2}, (True, True)),
    "a line": ((8, 64, 400), (64, 64, 3), {}, (True, True)),
    "a volume": ((2, 32, 10, 10, 10), (32, 32, 3, 3, 3), {}, (True, True)),
    # samples and channels of a group are one axis there
    "groups": ((4, 32, 28, 28), (64, 16, 3, 3), {"groups": 2}, (False, True)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_weights_take_operands_as_they_lie(name, cuda_driver):
    x, w, params, turned = CASES[name]
    graph = gradients(x, w, **params)
    program = compile_graph(graph, CUDA)
    (step,) = [s for s in program.steps if isinstance(s, HostStep) and any(s.transposed)]
    assert step.primitive == "conv" and step.transposed == turned
    assert step.input_shapes[1][:2] == (x[0], w[0])  # the cotangent as it is
    inputs = arrays(graph, 1)
    got, want = run(program, inputs, cuda_driver), evaluate(graph, inputs, wide=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_nothing_is_copied():
    """Two operands and two results for two convolutions: what else is moved belongs to the weight, turned twice."""
    x, w, _, _ = CASES["plain"]
    program = compile_graph(gradients(x, w), CUDA)
    weights = 4 * int(np.prod(w))
    large = 4 * int(np.prod(x))
    assert program.bytes_moved == 4 * large + 6 * weights
    assert program.arena_bytes == 2 * weights
    assert Program.from_bytes(program.to_bytes()) == program

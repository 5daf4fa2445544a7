# SPDX-License-Identifier: Apache-2.0
"""Results in the memory of arguments: where that is done, and that nothing else can be seen of it."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import arrays, parse
from emulated import aligned

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f16, f32

#: name -> (function, types of inputs, wanted: result -> argument, done)
CASES = {
    "element by element": (lambda b, w, g: [w - g * 0.5], "f32[40] f32[40]", {0: 0}, {0: 0}),
    "two results of one kernel": (
        lambda b, w, m: [w + (m * 0.5), m * 0.5], "f32[40] f32[40]", {0: 0, 1: 1}, {0: 0, 1: 1}
    ),
    "results change places": (lambda b, x, y: [x * 2.0, y * 3.0], "f32[40] f32[40]", {0: 1, 1: 0}, None),
    "an argument that nobody reads": (
        lambda b, half, w: [b.cast(w * 2.0, f16), w * 2.0], "f16[40] f32[40]", {0: 0, 1: 1}, {0: 0, 1: 1}
    ),
    "another element of the argument": (lambda b, x: [b.reverse(x, axes=(0,))], "f32[40]", {0: 0}, {}),
    "a transposed argument": (lambda b, x: [b.transpose(x, (1, 0)) * 2.0], "f32[8,8]", {0: 0}, {}),
    "an argument that is read again later": (
        lambda b, x: [x * 2.0, b.dot(b.exp(x), x)], "f32[16,16]", {0: 0}, None
    ),
    "a norm before the step": (
        lambda b, w, g: [w - g * b.broadcast(b.reshape(b.sqrt(b.sum(w * w)), (1,)), (3000,))],
        "f32[3000] f32[3000]", {0: 0}, {0: 0},
    ),
    "two results for one argument": (lambda b, x: [x * 2.0, x * 3.0], "f32[40]", {0: 0, 1: 0}, {0: 0}),
    "other results stay": (lambda b, x, y: [x + y, x * y], "f32[40] f32[40]", {1: 0}, {1: 0}),
    "a result that is an argument": (lambda b, x, y: [y, x + y], "f32[40] f32[40]", {0: 0}, None),
    "a result of another size": (lambda b, x: [b.cast(x, f32)], "f16[40]", {0: 0}, {}),
    "nothing": (lambda b, x: [x * 2.0], "f32[0]", {0: 0}, {}),
}  # fmt: skip


def copied(a):
    held = aligned(a.shape, a.dtype)
    held[...] = a
    return held


def built(name):
    make, types, over, done = CASES[name]
    b = builder()
    nodes = [b.input(parse(t), f"x{k}") for k, t in enumerate(types.split())]
    return b.finish(make(b, *nodes)), over, done


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", CASES)
def test_where_it_is_done(name, target, request):
    if target is CPU:
        request.getfixturevalue("compiler")
        backend = cpu_backend()
    else:
        driver = request.getfixturevalue("cuda_driver")
        backend = CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0]))
    graph, over, done = built(name)
    expected = evaluate(graph, arrays(graph))
    program = compile_graph(graph, target, frozenset(range(len(graph.inputs))), donated=over)
    assert done is None or dict(program.input_output_aliases) == done
    assert set(program.input_output_aliases) <= set(over.items())
    assert Program.from_bytes(program.to_bytes()) == program
    assert len(program.outputs) + len(program.input_output_aliases) == len(graph.outputs)
    inputs = [copied(a) for a in arrays(graph)]
    before = [a.copy() for a in inputs]
    rest = [k for k in range(len(graph.outputs)) if k not in dict(program.input_output_aliases)]
    outputs = [aligned(expected[k].shape, expected[k].dtype) for k in rest]
    backend.load(program)(inputs, outputs)
    for k, y in zip(rest, outputs, strict=True):
        np.testing.assert_allclose(y.astype(np.float64), expected[k], rtol=1e-5, atol=1e-5)
    for k, j in program.input_output_aliases:
        np.testing.assert_allclose(
            inputs[j].astype(np.float64), expected[k], rtol=1e-3 if inputs[j].itemsize == 2 else 1e-5
        )
    for j, (a, old) in enumerate(zip(inputs, before, strict=True)):
        if j not in dict(program.input_output_aliases).values():
            assert a.tobytes() == old.tobytes()

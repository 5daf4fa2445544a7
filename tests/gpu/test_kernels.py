# SPDX-License-Identifier: Apache-2.0
"""Every case graph as CUDA on the device, against the reference in float64."""

from __future__ import annotations

import pytest
from compiler.cases import CASES, arrays, build, cuda_of
from compiler.test_graphs import close, wanted

from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.core.dtypes import from_short

#: on the emulated device some are enough: tests/compiler/test_graphs.py has all of them there
EVERYWHERE = [("emulated", name) for name in list(CASES)[::6]]
REAL = [pytest.param("real", name, marks=pytest.mark.gpu) for name in CASES]


@pytest.mark.parametrize(("gpu", "name"), EVERYWHERE + REAL, indirect=["gpu"])
def test_case(name, gpu):
    graph = build(name)
    program = compile_graph(graph, cuda_of(name, gpu.driver.arch))
    loaded = gpu.backend.load(program)
    for seed, specials in ((3, False), (4, True)):
        inputs = arrays(graph, seed, specials)
        # whatever is left unwritten is NaN, or the largest integer
        outputs = [gpu.filled(shape, from_short(short).np) for shape, short in program.outputs]
        loaded([gpu.put(a) for a in inputs], outputs)
        for k, (got, want) in enumerate(zip(map(gpu.get, outputs), wanted(graph, inputs), strict=True)):
            close(got, want, inputs, f"{name} output {k}")


@pytest.mark.parametrize("name", ["softmax", "bias", "columns", "dense"])
def test_same_inputs_same_bits(name, gpu):
    graph = build(name)
    program = compile_graph(graph, cuda_of(name, gpu.driver.arch))
    loaded = gpu.backend.load(program)
    inputs = [gpu.put(a) for a in arrays(graph, 5)]
    results = []
    for _ in range(3):
        outputs = [gpu.filled(shape, from_short(short).np) for shape, short in program.outputs]
        loaded(inputs, outputs)
        results.append([gpu.get(a).tobytes() for a in outputs])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_unaligned_inputs(gpu, offset):
    graph = build("chain")
    program = compile_graph(graph, gpu.backend.target)
    (x,) = arrays(graph, 6)
    room = gpu.filled((x.size + 4,), x.dtype)
    room[offset : offset + x.size] = gpu.put(x)
    out = gpu.filled(*((program.outputs[0][0], x.dtype)))
    gpu.backend.load(program)([room[offset : offset + x.size]], [out])
    close(gpu.get(out), wanted(graph, [x])[0], [x], "unaligned")

# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions on a GPU whose threads compute neighbours: the bits of those that compute one result a thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.test_graphs import fresh, on_device
from cuda_on_cpu.static_checks import compile_report, has_nvrtc

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.target import CUDA

pytestmark = pytest.mark.no_host_code

FEW = CUDA.changed(multiprocessors=1)  #: a small result keeps it busy
#: operand, kernel, low, high, stride, dilate, base dilation, groups -> neighbours of a thread
SHAPES = {
    "padded": ("f32[2,3,7,16]", "f32[4,3,3,3]", (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), 1, 4),
    "wide kernel": ("f32[2,1,9,20]", "f32[6,1,5,5]", (2, 2), (2, 2), (1, 1), (1, 1), (1, 1), 1, 4),
    "strided": ("f32[2,3,15,32]", "f32[4,3,3,3]", (1, 1), (1, 1), (2, 2), (1, 1), (1, 1), 1, 4),
    "dilated": ("f32[2,3,9,16]", "f32[4,3,3,3]", (2, 2), (2, 2), (1, 1), (2, 2), (1, 1), 1, 4),
    "spread": ("f32[2,3,6,9]", "f32[4,3,3,3]", (1, 1), (2, 2), (1, 1), (1, 1), (2, 2), 1, 2),
    "pixels": ("f32[2,5,8,12]", "f32[6,5,1,1]", (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), 1, 4),
    "groups of halves": ("f16[2,4,9,14]", "f16[8,2,3,3]", (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), 2, 2),
    "doubles": ("f64[1,3,9,16]", "f64[4,3,3,3]", (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), 1, 4),
    "line": ("f32[3,4,64]", "f32[5,4,3]", (1,), (1,), (1,), (1,), (1,), 1, 4),
    "volume": ("f32[1,2,4,6,16]", "f32[3,2,2,3,3]", (0, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, 4),
}


def graph_of(name: str) -> Graph:
    x, w, low, high, stride, dilate, base, groups, _ = SHAPES[name]
    b = builder()
    nodes = [b.input(parse(t), n) for t, n in ((x, "x"), (w, "w"))]
    y = b.conv(*nodes, groups=groups, low=low, high=high, stride=stride, dilate=dilate, base_dilate=base)
    return b.finish([y * 2.0 + 1.0], name)


def results(program: Program, inputs: list[Any], driver: Any) -> list[bytes]:
    backend = CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0]))
    outputs = fresh(program)
    backend.load(program)([on_device(a) for a in inputs], outputs)
    return [a.tobytes() for a in outputs]


def neighbours(program: Program) -> int:
    (kernel,) = (k for k in program.kernels if k.kind == "conv")
    return kernel.choice.get("neighbours", 1)


@pytest.mark.parametrize("specials", [False, True], ids=["plain", "specials"])
@pytest.mark.parametrize("name", SHAPES)
def test_neighbours_have_the_bits_of_one_result_a_thread(name, specials, cuda_driver):
    graph = graph_of(name)
    alone, together = compile_graph(graph, CUDA), compile_graph(graph, FEW)
    assert (neighbours(alone), neighbours(together)) == (1, SHAPES[name][-1])
    inputs = arrays(graph, 11, specials)
    assert results(alone, inputs, cuda_driver) == results(together, inputs, cuda_driver)


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_neighbours_load_less():
    """Loads of the inner loops for each multiplication, and registers that leave a multiprocessor its 2048 threads."""
    for name, most in (("padded", 1.0), ("wide kernel", 0.8), ("pixels", 1.5)):
        program = compile_graph(graph_of(name), FEW)
        options = ["-default-device", *NUMERIC["strict"]]
        report = compile_report(module_source(program.kernels), "sm_90", options, [kernels_folder()], count=True)
        assert not report.stack and report.registers <= 48
        if report.instructions:  # nvdisasm is installed
            assert report.instructions["ldg"] <= most * report.instructions["fma"], name

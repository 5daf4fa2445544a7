# SPDX-License-Identifier: Apache-2.0
"""Indices of CUDA kernels have 32 bits where every position fits, else 64: both run, and long arrays get the right one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiler.cases import arrays, build, cuda_of, parse
from compiler.test_graphs import close, fresh, on_device, wanted
from cuda_on_cpu import Buffer, Module
from cuda_on_cpu.static_checks import compile_report, has_nvrtc

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.schedule.cuda import index_type
from hybridgpu.compiler.target import CUDA

pytestmark = pytest.mark.no_host_code


def widths(program: Program) -> set[str]:
    """The types of indices in the texts of its kernels."""
    return {t for k in program.kernels for t in re.findall(r"typedef ([\w ]+) Index;", k.text)}


#: a case of every template, and of their forms
CASES = (
    *("chain", "transposed_sum", "many_axes", "concats", "angles", "softmax", "softmax_ragged", "softmax_long"),
    *(
        "normalised_columns",
        "statistics_of_columns",
        "cross_entropy",
        "take",
        "dense",
        "dense_with_prologue",
        "batched",
    ),
    *("convolved", "convolved_with_prologue", "convolved_volume", "pooled_and_kept", "scatter", "scatter_of_means"),
    *("steps_lenet", "looped"),
)


@pytest.mark.parametrize("name", CASES)
def test_either_computes_the_same(name, cuda_driver, monkeypatch):
    """What takes 32 bits is forced to take 64."""
    graph = build(name)
    assert widths(compile_graph(graph, cuda_of(name))) == {"int"}
    monkeypatch.setattr(index_type, "_LIMIT", 0)
    program = compile_graph(graph, cuda_of(name))
    assert widths(program) == {"long long"}
    backend = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0]))
    inputs, outputs = [on_device(a) for a in arrays(graph, 5, False)], fresh(program)
    backend.load(program)(inputs, outputs)
    for k, (got, want) in enumerate(zip(outputs, wanted(graph, inputs), strict=True)):
        close(got, want, inputs, f"{name} output {k}")


def softmax(b: Any, x: Any) -> Any:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


def convolution(b: Any, x: Any, w: Any) -> Any:
    zero, one = (0, 0), (1, 1)
    return b.conv(x, w, stride=(4096, 4096), low=zero, high=zero, dilate=one, base_dilate=one, groups=1)


#: graph, types with N for the number that is tried, elements a row of it
LONG: dict[str, tuple[Any, tuple[str, ...], int]] = {
    "map": (lambda b, x: b.neg(x), ("f32[N]",), 1),
    "slice": (lambda b, x: b.slice(x, (0, 0), (x.shape[0], 1), (1, 1)), ("f32[N,64]",), 64),
    "turned": (lambda b, x: b.transpose(x, (1, 0)), ("f32[N,64]",), 64),
    "sum": (lambda b, x: b.sum(x, (1,)), ("f32[N,64]",), 64),
    "columns": (lambda b, x: b.sum(x, (0,)), ("f32[N,64]",), 64),
    "softmax": (softmax, ("f32[N,512]",), 512),
    "conv": (convolution, ("f32[1,1,N,32768]", "f32[1,1,1,1]"), 32768),
    "product": (lambda b, x, y: b.dot(x, y), ("f32[2,N]", "f32[N,4]"), 4),
    "gather": (lambda b, x, at: b.take(x, b.max(b.min(at, 9), 0), axis=0), ("f32[N,64]", "i32[8]"), 64),
    "scatter": (
        lambda b, x, at: b.scatter_add(x, b.max(b.min(at, 7), 0), axis=0, extent=8),
        ("f32[N,64]", "i32[N]"),
        64,
    ),
}


def compiled(name: str, elements: int) -> Program:
    function, types, row = LONG[name]
    b = builder()
    nodes = [b.input(parse(t.replace("N", str(elements // row))), f"x{k}") for k, t in enumerate(types)]
    return compile_graph(b.finish([function(b, *nodes)], name), replace(CUDA, library_products=False))


@pytest.mark.parametrize("name", LONG)
def test_arrays_beyond_32_bits_have_64(name):
    small, large = compiled(name, 1 << 30), compiled(name, (1 << 31) + (1 << 20))
    assert widths(small) == {"int"}
    assert "long long" in widths(large)
    if has_nvrtc():
        report = compile_report(
            module_source(large.kernels), "sm_90", ["-default-device", *NUMERIC["strict"]], [kernels_folder()]
        )
        assert not report.spills and not report.stack


def test_an_element_behind_32_bits_is_found():
    """Executed: every so many-th row of a sparse array of bytes, whose last one begins at 2^31."""
    rows, row, apart = (1 << 19) + 1, 4096, 1 << 13
    count = rows // apart + 1
    b = builder()
    x = b.input(parse(f"i8[{rows},{row}]"), "x")
    program = compile_graph(b.finish([b.neg(b.slice(x, (0, 0), (rows, 1), (apart, 1)))], "rows"), CUDA)
    (kernel,) = program.kernels
    (step,) = program.steps
    held = np.zeros((rows, row), np.int8)  # pages that nobody touches take no memory
    held[::apart, 0] = np.arange(count)
    source, result = Buffer.over(held, name="x"), Buffer.empty((count,), np.int8, name="y")
    module = Module(module_source([kernel]), include_dirs=[str(kernels_folder())], names=[kernel.name])
    module[kernel.name](1, kernel.launch["threads"], (source, result, *map(np.int64, step.extents)))
    np.testing.assert_array_equal(result.get(), -np.arange(count))

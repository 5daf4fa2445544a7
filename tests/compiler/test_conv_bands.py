# SPDX-License-Identifier: Apache-2.0
"""Bands of convolutions on the CPU: rows of the result that are computed together."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler import reference
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32, from_short

#: plane, channels, groups -> rows: of a plane of 7 the last of four bands of two rows would compute one again
ROWS = {(7, 1024, 1024): 7, (7, 512, 1): 7, (7, 128, 1): 7, (14, 512, 512): 14, (16, 64, 1): 16}


@pytest.mark.no_host_code
@pytest.mark.parametrize(("plane", "channels", "groups"), ROWS)
def test_rows_of_a_band(plane, channels, groups):
    b = builder()
    x = b.input(tensor_type((8, channels, plane, plane), f32))
    w = b.input(tensor_type((channels, channels // groups, 3, 3), f32))
    one, same = (1, 1), {"dilate": (1, 1), "base_dilate": (1, 1), "groups": groups}
    program = compile_graph(b.finish([b.conv(x, w, stride=one, low=one, high=one, **same)]), CPU)
    (kernel,) = program.kernels
    assert kernel.choice["rows"] == ROWS[plane, channels, groups]


#: plane, inputs, outputs -> rows of a band that is no copy: in the first level of cache, in the second, or the whole plane
DIRECT = {
    (56, 64, 256): 2,
    (61, 64, 64): 2,  # the last band begins a row before the one before ends
    (112, 32, 64): 2,
    (56, 256, 64): 8,
    (56, 256, 24): 56,  # read by few blocks of output channels
    (28, 256, 256): 28,
    (14, 1024, 256): 14,
}


@pytest.mark.parametrize(("plane", "inputs", "outputs"), DIRECT)
def test_rows_of_a_band_that_is_no_copy(plane, inputs, outputs, compiler):
    b = builder()
    x = b.input(tensor_type((1, inputs, plane, plane), f32))
    w = b.input(tensor_type((outputs, inputs, 1, 1), f32))
    none, one = (0, 0), (1, 1)
    graph = b.finish([b.conv(x, w, stride=one, low=none, high=none, dilate=one, base_dilate=one, groups=1)])
    program = compile_graph(graph, CPU)
    (kernel,) = program.kernels
    assert kernel.choice["rows"] == DIRECT[plane, inputs, outputs] and not kernel.choice["copies"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(i.shape, np.float32) for i in graph.inputs]
    found = np.full((1, outputs, plane, plane), np.nan, np.float32)
    cpu_backend().load(program)(arrays, [found])
    want = np.einsum("nchw,oc->nohw", arrays[0].astype(np.float64), arrays[1][:, :, 0, 0].astype(np.float64))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)


#: copies whose columns are thinned out, and whose rows are not: operand, weight, strides, zeros around, element type
THINNED = {
    "six of sixteen": ((2, 1, 5, 16), (4, 1, 2, 1), (1, 3), ((1, 0), (2, 1)), "f32"),
    "two phases": ((1, 2, 8, 15), (4, 2, 2, 3), (1, 2), ((0, 0), (1, 1)), "f32"),
    "three phases": ((1, 1, 14, 28), (4, 1, 5, 5), (1, 3), ((2, 0), (2, 2)), "f32"),
    "short rows": ((1, 2, 7, 3), (4, 2, 3, 1), (1, 2), ((1, 0), (1, 0)), "f32"),
    "doubles": ((1, 2, 14, 3), (4, 2, 3, 1), (1, 2), ((1, 0), (1, 0)), "f64"),
    "many rows": ((1, 2, 16, 7), (4, 2, 2, 1), (1, 3), ((0, 0), (1, 0)), "f32"),
}


@pytest.mark.as_shipped
@pytest.mark.parametrize("name", THINNED)
def test_columns_are_thinned_out(name, compiler):
    """GCC 12 mixed up rows here where it vectorised over them."""
    shape, weight, stride, (low, high), short = THINNED[name]
    rng, dtype = np.random.default_rng(0), from_short(short)
    b = builder()
    x, w = (b.input(tensor_type(s, dtype)) for s in (shape, weight))
    y = b.conv(x, w, stride=stride, low=low, high=high, dilate=(1, 1), base_dilate=(1, 1), groups=1)
    graph, arrays = b.finish([y]), [rng.integers(-4, 5, s).astype(dtype.np) for s in (shape, weight)]
    program = compile_graph(graph, CPU)
    assert program.kernels[0].choice["copies"]
    found = np.full(y.shape, np.nan, dtype.np)
    cpu_backend().load(program)(arrays, [found])
    np.testing.assert_array_equal(found, reference.evaluate(graph, arrays)[0])


#: what a tile of pixels is -> operand, weight, block, steps that differ from one, element type
PACKED = {
    "two rows and one": ((2, 64, 7, 7), (64, 64, 3, 3), 32, {"low": (1, 1), "high": (1, 1)}, "f32"),
    "one row": ((1, 40, 14, 14), (48, 40, 3, 3), 16, {"low": (1, 1), "high": (1, 1)}, "f32"),
    "parts of a row": ((1, 8, 9, 40), (32, 8, 3, 3), 32, {"low": (1, 1), "high": (1, 1)}, "f32"),
    "a plane": ((3, 130, 7, 7), (64, 130, 1, 1), 32, {}, "f32"),
    "every other pixel": ((2, 160, 9, 9), (32, 160, 1, 1), 32, {"stride": (2, 2)}, "f32"),
    "phases": ((1, 9, 14, 15), (32, 9, 3, 3), 16, {"stride": (2, 2), "low": (1, 1), "high": (1, 1)}, "f32"),
    "phases of three": ((1, 5, 17, 20), (16, 5, 5, 5), 16, {"stride": (3, 3), "low": (2, 2), "high": (1, 2)}, "f32"),
    "groups": ((2, 64, 5, 5), (64, 32, 3, 3), 32, {"groups": 2, "low": (1, 1), "high": (1, 1)}, "f32"),
    "far apart": ((1, 6, 12, 12), (16, 6, 3, 3), 16, {"dilate": (2, 2)}, "f32"),
    "bands": ((1, 260, 24, 24), (32, 260, 3, 3), 32, {"low": (1, 1), "high": (1, 1)}, "f32"),
    "one column": ((1, 64, 10, 1), (32, 64, 3, 1), 32, {"low": (1, 0), "high": (1, 0)}, "f32"),
    "a line": ((2, 30, 50), (32, 30, 3), 16, {"low": (1,), "high": (1,)}, "f32"),
    "a volume": ((1, 5, 4, 6, 7), (16, 5, 3, 3, 3), 16, {"low": (1,) * 3, "high": (1,) * 3}, "f32"),
    "one picture": ((1, 256, 7, 7), (32, 256, 1, 1), 32, {}, "f32"),
    "doubles": ((1, 20, 7, 7), (16, 20, 3, 3), 16, {"low": (1, 1), "high": (1, 1)}, "f64"),
}


#: blocks as a program's own views have them, which the kernel does not compute with: the weight is copied
COPIED = {
    "three channels": ((2, 64, 7, 7), (9, 64, 3, 3), 3, {}, "f32"),
    "a transposed matrix": ((2, 64, 7, 7), (10, 64, 1, 1), 10, {}, "f32"),
    "a vector and a half": ((2, 64, 7, 7), (48, 64, 3, 3), 24, {}, "f32"),
    "half a vector": ((2, 64, 7, 7), (16, 64, 3, 3), 4, {}, "f64"),
    "four vectors": ((2, 64, 7, 7), (64, 64, 3, 3), 64, {}, "f32"),
    "two groups in a block": ((2, 64, 7, 7), (32, 32, 3, 3), 32, {"groups": 2}, "f32"),
    "a channel of a group": ((2, 64, 7, 7), (64, 1, 3, 3), 32, {"groups": 64}, "f32"),
    "zeros between elements": ((2, 64, 7, 7), (32, 64, 3, 3), 16, {"base_dilate": (2, 2)}, "f32"),
    "halves": ((2, 64, 7, 7), (32, 64, 3, 3), 16, {}, "f16"),
}


@pytest.mark.parametrize("name", {**PACKED, **COPIED})
def test_a_packed_weight_gives_the_same_bits(name, compiler):
    shape, weight, block, steps, short = {**PACKED, **COPIED}[name]
    rng, n = np.random.default_rng(0), len(shape) - 2
    plain = dict.fromkeys(("stride", "dilate", "base_dilate"), (1,) * n) | dict.fromkeys(("low", "high"), (0,) * n)
    x, w = (rng.standard_normal(s).astype(from_short(short).np) for s in (shape, weight))
    blocks = w.reshape((-1, block, *weight[1:]))
    packed = np.ascontiguousarray(np.moveaxis(blocks, 1, -1))
    results = []
    for is_packed in (False, True):
        b = builder()
        data = b.input(tensor_type(shape, from_short(short)), "x")
        node = b.input(tensor_type((packed if is_packed else w).shape, from_short(short)), "w")
        seen = b.reshape(b.transpose(node, (0, n + 2, *range(1, n + 2))), weight) if is_packed else node
        y = b.conv(data, seen, **{"groups": 1, **plain, **steps})
        program = compile_graph(b.finish([y]), CPU)
        if name in PACKED:
            (kernel,) = program.kernels
            assert kernel.choice.get("block") == (block if is_packed else None)
        found = np.full(y.shape, np.nan, x.dtype)
        cpu_backend().load(program)([x, packed if is_packed else w], [found])
        results.append(found)
    np.testing.assert_array_equal(results[1], results[0])

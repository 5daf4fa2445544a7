# SPDX-License-Identifier: Apache-2.0
"""Bands of convolutions on the CPU: rows of the result that are computed together."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32

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

# SPDX-License-Identifier: Apache-2.0
"""Bands of convolutions on the CPU: rows of the result that are computed together."""

from __future__ import annotations

import pytest

from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.no_host_code

#: plane, channels, groups -> rows: of a plane of 7 the last of four bands of two rows would compute one again
ROWS = {(7, 1024, 1024): 7, (7, 512, 1): 7, (7, 128, 1): 7, (14, 512, 512): 14, (16, 64, 1): 16}


@pytest.mark.parametrize(("plane", "channels", "groups"), ROWS)
def test_rows_of_a_band(plane, channels, groups):
    b = builder()
    x = b.input(tensor_type((8, channels, plane, plane), f32))
    w = b.input(tensor_type((channels, channels // groups, 3, 3), f32))
    one, same = (1, 1), {"dilate": (1, 1), "base_dilate": (1, 1), "groups": groups}
    program = compile_graph(b.finish([b.conv(x, w, stride=one, low=one, high=one, **same)]), CPU)
    (kernel,) = program.kernels
    assert kernel.choice["rows"] == ROWS[plane, channels, groups]

# SPDX-License-Identifier: Apache-2.0
"""kernels/reduce_cuda.h: rows in wide accesses, wherever they begin. Every element is moved once, and none beside them."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_cpu import Buffer
from cuda_on_cpu.support import launch

from hybridgpu.cache.package_files import kernels_folder

ROWS = 5
TEXT = """
typedef int Index;
#include "cuda.h"
#include "reduce.h"
#include "reduce_cuda.h"
extern "C" __global__ void k(const TYPE* x, TYPE* read, TYPE* written, int width, int spans) {
  const int row = blockIdx.x;
  const int lead = row * width % SPAN;  // elements of the row before in the span that this one begins in
  for (int t = threadIdx.x; t < spans; t += blockDim.x) {
    const int at = t * SPAN - lead;
    const auto s = hg::read_inside<SPAN>(x + row * width, at, width);
    hg::write(read + (row * spans + t) * SPAN, s);
    hg::write_inside(written + row * width, at, width, s);
  }
}
"""
TYPES = {"float": np.float32, "double": np.float64, "unsigned char": np.uint8, "short": np.int16}


@pytest.mark.parametrize("width", [1, 3, 8, 37, 64, 129])
@pytest.mark.parametrize(
    ("name", "span"), [(t, v) for t, d in TYPES.items() for v in (1, 2, 4, 8, 16) if v * np.dtype(d).itemsize <= 32]
)
def test_rows_are_moved_in_spans(name, span, width):
    dtype = np.dtype(TYPES[name])
    spans = -(-(width + span - 1) // span)
    x = np.random.default_rng(width).integers(1, 100, (ROWS, width)).astype(dtype)
    read, written = Buffer.empty(ROWS * spans * span, dtype, name="read"), Buffer.empty(x.size, dtype, name="written")
    options = [f"-DTYPE={name}", f"-DSPAN={span}"]
    given = Buffer(x.ravel(), name="x"), read, written, np.int32(width), np.int32(spans)
    report = launch(TEXT, *given, grid=ROWS, options=options, include_dirs=[kernels_folder()])
    np.testing.assert_array_equal(written.get().reshape(x.shape), x)
    wanted, wide = np.zeros((ROWS, spans * span), dtype), 0
    for r in range(ROWS):
        lead = r * width % span
        wanted[r, lead : lead + width] = x[r]
        wide += max(0, (lead + width) // span - -(-lead // span))  # spans of which all elements are the row's
    np.testing.assert_array_equal(read.get().reshape(wanted.shape), wanted)
    assert (report.traffic["x"].read, report.traffic["written"].written) == (x.nbytes, x.nbytes)
    accesses = span * dtype.itemsize // 16  # of a span, of 16 bytes
    assert (report.wide_loads, report.wide_stores) == (wide * accesses, (wide + ROWS * spans) * accesses)

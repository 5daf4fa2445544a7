# SPDX-License-Identifier: Apache-2.0
"""Rounding errors of long sums in generated products: those of partial sums, not of one sum after another."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(4, 16384, 64), (1, 20000, 37), (2, 60000, 8), (3, 16385, 5)])
def test_products(m, k, n, transposed):
    b = builder()
    x, w = b.input(tensor_type((m, k), f32)), b.input(tensor_type((n, k) if transposed else (k, n), f32))
    program = compile_graph(b.finish([b.dot(x, b.transpose(w, (1, 0)) if transposed else w)]), CPU)
    assert [kernel.kind for kernel in program.kernels] == ["matmul"]
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0, 1, (m, k)).astype("f"), rng.standard_normal(w.shape).astype("f")]
    y = np.empty((m, n), "f")
    cpu_backend().load(program)(arrays, [y])
    wide = [a.astype("float64") for a in arrays]
    error = y - wide[0] @ (wide[1].T if transposed else wide[1])
    # in units of the last place of a result; sums of one term after another have several times as much
    assert np.sqrt((error**2).mean()) < 6e-8 * np.sqrt(k / 3) * (8 if transposed else 14)

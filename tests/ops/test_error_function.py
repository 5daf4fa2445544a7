# SPDX-License-Identifier: Apache-2.0
"""erf of arrays, which NumPy lacks, against the standard library's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hybridgpu import nd
from hybridgpu.ndarray.apply import forget_graphs

pytestmark = pytest.mark.optimised

X = np.concatenate([np.linspace(-6.5, 6.5, 20001), np.geomspace(1e-45, 6, 20000), -np.geomspace(1e-45, 6, 20000)])


@pytest.mark.parametrize(("dtype", "ulp"), [("float16", 0.5), ("float32", 0.6), ("float64", 9)])
def test_erf_of_arrays(dtype, ulp, monkeypatch):
    """What evaluates graphs primitive by primitive; kernels have another formula (docs/numbers.md)."""
    monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", "never")
    forget_graphs()
    x = X.astype(dtype)
    got = nd.erf(nd.array(x, dtype=dtype)).asnumpy()
    assert got.dtype == dtype
    want = np.array([math.erf(v) for v in x.tolist()])
    wrong = np.abs(got.astype("float64") - want) / np.spacing(np.abs(want).astype(dtype)).astype("float64")
    assert wrong.max() <= ulp, x[wrong.argmax()]
    small = nd.erf(nd.array(x[:100], dtype=dtype)).asnumpy()  # computed in one part
    np.testing.assert_array_equal(small, got[:100])


def test_erf_of_what_is_no_usual_number():
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e30], "float32")
    got = nd.erf(nd.array(x)).asnumpy()
    np.testing.assert_array_equal(got, [0, 0, 1, -1, np.nan, 1])
    assert np.signbit(got[:2]).tolist() == [False, True]

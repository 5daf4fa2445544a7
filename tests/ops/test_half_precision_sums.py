# SPDX-License-Identifier: Apache-2.0
"""Normalisations of more float16 elements than the largest float16 number counts: eager results and gradients are finite."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import autograd, nd

N = 70_001  #: sums of ones, and the count itself, are infinite in float16
ROWS, COLUMNS, PLANES = (2, N), (N, 2), (1, 2, N)
#: name -> (function of data and of parameters of its element type and of the statistics', shape)
TABLE = {
    "LayerNorm": (lambda x, p, q: nd.LayerNorm(x, p((N,)), p((N,))), ROWS),
    "LayerNorm of columns": (lambda x, p, q: nd.LayerNorm(x, p((N,)), p((N,)), axis=0), COLUMNS),
    "LayerNorm's deviation": (lambda x, p, q: nd.LayerNorm(x, p((N,)), p((N,)), output_mean_var=True)[2], ROWS),
    "BatchNorm": (lambda x, p, q: nd.BatchNorm(x, *(q((2,)) for _ in range(4)), fix_gamma=False), COLUMNS),
    "InstanceNorm": (lambda x, p, q: nd.InstanceNorm(x, p((2,)), p((2,))), PLANES),
    "GroupNorm": (lambda x, p, q: nd.GroupNorm(x, p((2,)), p((2,)), num_groups=2), PLANES),
    "L2Normalization": (lambda x, p, q: nd.L2Normalization(x), ROWS),
    "L2Normalization, spatial": (lambda x, p, q: nd.L2Normalization(x, mode="spatial"), PLANES),
    "moments": (lambda x, p, q: nd.moments(x, axes=1)[1], ROWS),
    "norm": (lambda x, p, q: nd.norm(x, axis=1), ROWS),
}


def computed(function, values, heads, dtype, statistics):
    x = nd.array(values, dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = function(x, lambda s: nd.ones(s, dtype=dtype), lambda s: nd.ones(s, dtype=statistics))
    y.backward(heads(y.shape).astype(dtype))
    return y.asnumpy().astype("float64"), x.grad.asnumpy().astype("float64")


@pytest.mark.parametrize("heads", ["ones", "large", "random"])
@pytest.mark.parametrize("name", TABLE)
def test_normalisations_of_many_elements(name, heads):
    function, shape = TABLE[name]
    rng = np.random.RandomState(3)
    values = rng.standard_normal(shape).astype("float16")
    drawn = rng.standard_normal(2 * N).astype("float16")

    def head(of):
        if heads == "random":
            return nd.array(drawn[: int(np.prod(of))].reshape(of), dtype="float16")
        return nd.full(of, {"ones": 1, "large": 1000}[heads], dtype="float16")

    got = computed(function, values, head, "float16", "float32")
    want = computed(function, values, head, "float64", "float64")
    scale = 1000 if heads == "large" else 1
    for a, b, atol in zip(got, want, (2e-3, 2e-3 * scale), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=atol)

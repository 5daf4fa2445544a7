# SPDX-License-Identifier: Apache-2.0
"""Arrays without axes (NumPy shape semantics): reductions give (1,), or () with ``keepdims``, as MXNet's do."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import nn

#: operator -> its results for 2 and for NaN, and the gradient at 2
REDUCTIONS = {
    "sum": (2, np.nan, 1),
    "mean": (2, np.nan, 1),
    "prod": (2, np.nan, 1),
    "nansum": (2, 0, 1),
    "nanprod": (2, 1, 1),
    "max": (2, np.nan, 1),
    "min": (2, np.nan, 1),
}


@pytest.fixture(autouse=True)
def numpy_shapes():
    with mx.util.np_shape(True):
        yield


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, keepdims, hybridized, compiler):
    net = nn.HybridLambda(lambda F, x: getattr(F, name)(x, keepdims=keepdims))
    net.hybridize(hybridized)
    *results, gradient = REDUCTIONS[name]
    for value, want in zip((2.0, np.nan), results, strict=True):
        got = net(nd.full((), value))
        assert got.shape == (() if keepdims else (1,))
        np.testing.assert_array_equal(got.asnumpy().reshape(()), np.float32(want))
    x = nd.full((), 2.0)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert x.grad.shape == () and x.grad.asnumpy() == gradient


@pytest.mark.parametrize(
    "make",
    [
        nd.zeros,
        nd.ones,
        lambda shape: nd._internal._full(shape=shape, value=2),
        lambda shape: nd.random.uniform(shape=shape),
    ],
)
def test_what_was_made_under_numpy_shapes_is_not_remembered_without_them(make):
    assert make((0, 7)).shape == (0, 7)
    with mx.util.np_shape(False), pytest.raises(mx.MXNetError, match="inferring shapes failed"):
        make((0, 7))
    assert make((0, 7)).shape == (0, 7)

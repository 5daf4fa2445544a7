# SPDX-License-Identifier: Apache-2.0
"""Functions that jump, of float16 and bfloat16: kernels give them what operators one by one do, rounded numbers."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import nn

VALUES = [0.9, 1.8, 2.7, 0.3, 0.7, -0.9, -2.3]  # whose tenfold is a whole number once it is rounded
#: of a tenfold, and of the table's rows
JUMPS = {
    "to whole numbers": lambda y, rows: nd.cast(y, "int32"),
    "to whole numbers, unsigned": lambda y, rows: nd.cast(nd.abs(y), "uint8"),
    "floor": lambda y, rows: nd.floor(y),
    "ceil": lambda y, rows: nd.ceil(y),
    "fix": lambda y, rows: nd.fix(y),
    "round": lambda y, rows: nd.round(y + 0.5),
    "remainder": lambda y, rows: y % 1,
    "equal": lambda y, rows: y == 9,
    "not equal": lambda y, rows: y != 27,
    "less": lambda y, rows: y < 27,
    "at least": lambda y, rows: y >= nd.floor(y + 0.01),
    "sign of what underflows": lambda y, rows: nd.sign(y * 1e-38 * 1e-8),
    "take": lambda y, rows: nd.take(rows, nd.abs(y)),
    "Embedding": lambda y, rows: nd.Embedding(nd.abs(y), rows, 40, 1),
    "one_hot": lambda y, rows: nd.one_hot(nd.abs(y), 40),
    "sum": lambda y, rows: nd.floor(nd.sum(nd.abs(y) * 0.1) * 10),
}


@pytest.mark.parametrize("context", ["cpu", "gpu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", JUMPS)
def test_kernels_round_what_jumps(name, dtype, context, request):
    if context == "gpu":
        request.getfixturevalue("cuda_driver")
    with mx.gpu(0) if context == "gpu" else mx.cpu():
        x, rows = nd.array(VALUES).astype(dtype), nd.arange(40).reshape((40, 1)).astype("float32")
        function = lambda x, rows: JUMPS[name](x / 0.1, rows)  # noqa: E731
        eager, compiled = function(x, rows), mx.hybridize(function)(x, rows)
        np.testing.assert_array_equal(compiled.astype("float32").asnumpy(), eager.astype("float32").asnumpy())


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_have_their_maximum(dtype, numeric):
    """All that are equal once they are rounded, and nothing is less than the least."""

    class Extremes(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.tanh(x) * 1.7 + x
            greatest, least = F.max(y, axis=1, keepdims=True), F.min(y, axis=1, keepdims=True)
            return F.broadcast_equal(y, greatest), F.broadcast_lesser(y, least), y

    x = (nd.arange(64 * 200).reshape((64, 200)) % 97 / 4096 + 1).astype(dtype)
    net = Extremes()
    net.hybridize(numeric=numeric)
    equal, less, y = (a.astype("float32").asnumpy() for a in net(x))
    np.testing.assert_array_equal(equal, y == y.max(axis=1, keepdims=True))
    assert not less.any() and equal.sum() > len(y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("layers", "rows"),
    [
        (lambda: [nn.Dense(6, activation="relu"), nn.BatchNorm()], 1),
        (lambda: [nn.Dense(6), nn.BatchNorm()], 1),
        (lambda: [nn.Dense(1), nn.LayerNorm()], 4),
    ],
    ids=["BatchNorm of relu", "BatchNorm", "LayerNorm"],
)
def test_what_equals_its_mean_has_no_gradient(layers, rows, dtype):
    net = nn.HybridSequential()
    net.add(*layers())
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.4))
    net.cast(dtype)
    net.hybridize()
    x = nd.random.normal(shape=(rows, 5)).astype(dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(nd.ones_like(y) * 0.125)
    for gradient in [x.grad, net[0].weight.grad(), net[0].bias.grad(), net[1].gamma.grad()]:
        assert (gradient.astype("float32").asnumpy() == 0).all()

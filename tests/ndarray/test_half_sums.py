# SPDX-License-Identifier: Apache-2.0
"""Eager operators on half precision: sums and other values on the way may be larger than any float16."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.compiler import reference
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives import builder
from hybridgpu.core.dtypes import f16, f32

nd = mx.nd

ROWS = np.full((2, 30000), 4.0)  # sums to 120,000
LARGE = np.full((2, 400), 300.0)  # whose square is 90,000
BOTH = np.tile([200.0, -200.0], (2, 100))  # whose squares sum to 8,000,000

OPERATORS = [
    ("mean", ROWS, lambda F, x: F.mean(x, axis=1), lambda x: x.mean(1)),
    ("mean of columns", ROWS, lambda F, x: F.mean(F.transpose(x), axis=0), lambda x: x.mean(1)),
    ("mean of all", ROWS, lambda F, x: F.mean(x), lambda x: x.mean(keepdims=True)[0]),
    ("norm", LARGE, lambda F, x: F.norm(x, axis=1), lambda x: np.sqrt((x**2).sum(1))),
    ("moments", ROWS, lambda F, x: F.moments(x, axes=(1,))[0], lambda x: x.mean(1)),
    ("variance", BOTH, lambda F, x: F.moments(x, axes=(1,))[1], lambda x: x.var(1)),
    ("global average", ROWS, lambda F, x: F.Pooling(F.reshape(x, (1, 2, 1, -1)), pool_type="avg", global_pool=True, kernel=(1, 1)), lambda x: x.mean(1).reshape(1, 2, 1, 1)),
    ("hypot", LARGE, lambda F, x: F.broadcast_hypot(x, x), lambda x: np.hypot(x, x)),
    ("L2Normalization", LARGE, lambda F, x: F.L2Normalization(x), lambda x: x / np.sqrt((x**2).sum(1, keepdims=True))),
    ("softmax", ROWS, lambda F, x: F.softmax(x, axis=1), lambda x: np.full_like(x, 1 / x.shape[1])),
    ("LayerNorm", ROWS, lambda F, x: F.LayerNorm(x, F.ones_like(F.slice_axis(x, axis=0, begin=0, end=1)).reshape((-1,)), F.ones_like(F.slice_axis(x, axis=0, begin=0, end=1)).reshape((-1,))), np.ones_like),
]  # fmt: skip


class Net(mx.gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(F, x)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("data", "function", "want"), [o[1:] for o in OPERATORS], ids=[o[0] for o in OPERATORS])
def test_what_is_computed_on_the_way_may_be_large(data, function, want, dtype, hybridized):
    net = Net(function)
    net.hybridize(hybridized)
    got = nd.cast(net(nd.cast(nd.array(data), dtype=dtype)), dtype="float32").asnumpy()
    np.testing.assert_allclose(got, want(data), rtol=2e-3 if dtype == "float16" else 1e-2, atol=5e-3)


def graph(make):
    b = builder()
    return b.finish([make(b, b.input(tensor_type((4, 8), f16), "x"))], "g")


@pytest.mark.parametrize(
    ("make", "held"),
    [
        (lambda b, x: b.exp(x), False),
        (lambda b, x: b.exp(b.transpose(x, (1, 0))), False),
        (lambda b, x: b.sum(x, (1,)), False),
        (lambda b, x: b.cast(b.exp(b.cast(x, f32)), f16), False),
        (lambda b, x: b.sum(x, (1,)) * 0.125, True),
        (lambda b, x: b.sqrt(b.reshape(b.exp(x), (32,))), True),
        (lambda b, x: b.dot(b.exp(x), b.transpose(x, (1, 0))), False),
    ],
    ids=["one", "moved", "sum", "cast", "mean", "reshaped between", "product"],
)  # fmt: skip
def test_float16_is_held_in_float32_where_one_computed_value_goes_into_another(make, held):
    made = graph(make)
    assert (f16 in reference._halves(made)) == held
    x = np.random.default_rng(0).uniform(-1, 1, (4, 8)).astype(np.float16)
    (got,) = reference.evaluate(made, [x])
    (want,) = reference.evaluate(made, [x], wide=True)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-3)

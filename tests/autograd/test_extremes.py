# SPDX-License-Identifier: Apache-2.0
"""Gradients of maxima and minima of computed values: whoever holds the extreme gets them, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import nn

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.optimised]

SHAPE = (4, 32, 8)


def also_the_product(F, a, b):
    """The forward pass stores the product, so that it is rounded there; the backward pass may contract it."""
    t = (a * 0.7 + b) * a
    return F.broadcast_add(F.max(t + b, axis=2, keepdims=True), t)


def of_sums(F, a, b):
    z = F.broadcast_mul(a + b * 1.245, F.sum(a, axis=2, keepdims=True)) + a * 0.3
    t = z * a
    return F.broadcast_add(F.min(t + b, axis=2, keepdims=True), t)


def distance(F, a, b):
    z = a * b + a
    return F.broadcast_sub(z, F.max(z, axis=1, keepdims=True))


def logsumexp(F, a, b):
    z = a * b + a
    m = F.max(z, axis=2, keepdims=True)
    return F.log(F.sum(F.exp(F.broadcast_sub(z, m)), axis=2, keepdims=True)) + 2 * m


def mask(F, a, b):
    z = F.reshape(a * b + a, (0, -1))
    return z * F.broadcast_greater_equal(z, F.max(z, axis=1, keepdims=True))


def of_everything(F, a, b):
    return F.min(F.square(a) * b - a * 0.3)


def of_columns(F, a, b):
    t = F.relu(a) * b - F.relu(b) * a
    return F.max(F.transpose(t, (2, 0, 1)), axis=(0, 1))


def of_extremes(F, a, b):
    return F.min(F.tanh(F.max(a * b + b, axis=1) * 0.1 + F.max(a, axis=1) * 0.1), axis=0)


def in_a_loop(F, a, b):
    def step(x, states):
        z = x * states[0] + x
        m = F.max(z, axis=0)
        return m, [F.broadcast_sub(z, m)]

    outputs, _ = F.contrib.foreach(step, a, [F.squeeze(F.slice_axis(b, axis=0, begin=0, end=1), axis=0)])
    return outputs


NETS = [also_the_product, of_sums, distance, logsumexp, mask, of_everything, of_columns, of_extremes, in_a_loop]


def gradients(function, dtype, ctx, numeric=None):
    net = nn.HybridLambda(function)
    if numeric:
        net.hybridize(numeric=numeric)
    rng = np.random.default_rng(3)
    a, b = (nd.array(rng.uniform(-2, 2, SHAPE), ctx=ctx).astype(dtype) for _ in range(2))
    a.attach_grad()
    b.attach_grad()
    with autograd.record():
        y = net(a, b)
    y.backward()
    return [x.grad.astype("float32").asnumpy() for x in (a, b)]


@pytest.mark.parametrize("context", ["cpu", "gpu"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize("function", NETS, ids=lambda f: f.__name__)
def test_gradients_are_the_eager_ones(function, numeric, dtype, context, request):
    if context == "gpu":
        request.getfixturevalue("cuda_driver")
    ctx = mx.gpu(0) if context == "gpu" else mx.cpu()
    got = gradients(function, dtype, ctx, numeric)
    want = gradients(function, dtype, mx.cpu())
    for g, w in zip(got, want, strict=True):
        # a gradient that is lost, or that another element gets, is as large as gradients are
        np.testing.assert_allclose(g, w, atol={"float16": 0.02, "bfloat16": 0.1}.get(dtype, 1e-4) * abs(w).max())


@pytest.mark.parametrize("context", ["cpu", "gpu"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("numeric", ["strict", "fast"])
def test_the_largest_sum_gets_the_gradient(numeric, dtype, context, request):
    """A sum of halves is kept as the float that it is, its maximum as a half: neither equals the other."""
    if context == "gpu":
        request.getfixturevalue("cuda_driver")
    net = nn.HybridLambda(lambda F, x: F.max(F.sum(x, axis=1)))
    net.hybridize(numeric=numeric)
    ctx = mx.gpu(0) if context == "gpu" else mx.cpu()
    x = nd.array(np.random.default_rng(0).standard_normal((30, 100)), ctx=ctx).astype(dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    sums = x.astype("float32").asnumpy().sum(1)
    want = np.where(sums == sums.max(), np.float32(1), np.float32(0))[:, None]
    np.testing.assert_array_equal(x.grad.astype("float32").asnumpy(), np.broadcast_to(want, x.shape))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("numeric", ["strict", "fast"])
def test_ties_all_get_the_whole_gradient(numeric, dtype):
    """As in MXNet: ties of what the operator computes, which is rounded to its type."""
    net = nn.HybridLambda(lambda F, x: F.max(x * 1.5 + 1, axis=1))
    net.hybridize(numeric=numeric)
    x = nd.array([[1, 3, 3, 2], [1 + 2**-10, 1, 1 + 2**-10, 0]]).astype(dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    tie = dtype == "bfloat16"  # to which 1 + 2**-10 is 1
    np.testing.assert_array_equal(x.grad.astype("float32").asnumpy(), [[0, 1.5, 1.5, 0], [1.5, 1.5 * tie, 1.5, 0]])


def test_strict_float32_keeps_the_maximum():
    """What has the same bits again is neither stored nor searched again."""

    def kernels(numeric):
        known = len(mx.compile_report().events)
        gradients(lambda F, a, b: F.max(a * b - 0.7, axis=0), "float32", mx.cpu(), numeric)
        (backward,) = [e for e in mx.compile_report().events[known:] if e.name.endswith("_backward")]
        return backward.kernels

    assert kernels("strict") == 1 < kernels("fast")

# SPDX-License-Identifier: Apache-2.0
"""Nets whose results are joins that several kernels write: in every manner of calling, and with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import HybridBlock


class Joined(HybridBlock):
    """Two softmaxes and what is made of their join; the results begin where the others' vectors do not."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def hybrid_forward(self, F, x, y):
        joined = F.concat(F.softmax(x), F.softmax(y), dim=self.dim)
        return joined, F.stack(F.softmax(y), F.log_softmax(y)), F.sum(joined, axis=1)


MANNERS = [{}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}]
SHAPES = [((6, 67), (3, 67), 0), ((6, 64), (6, 96), 1), ((6, 67), (6, 96), 1)]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("manner", MANNERS, ids=["plain", "kept", "graph"])
@pytest.mark.parametrize("ctx", [mx.cpu(), mx.gpu(0)], ids=["cpu", "cuda"])
def test_every_manner_of_calling(ctx, manner, shapes, compiler, cuda_driver):
    *shapes, dim = shapes
    net, eager = Joined(dim), Joined(dim)
    net.hybridize(**manner)
    held = []
    for seed in range(3):  # results of one call are others' memory in the next
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        got = net(*(nd.array(a, ctx=ctx) for a in arrays))
        held.append(got)
        for a, b in zip(got, eager(*(nd.array(a) for a in arrays)), strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=2e-5, atol=1e-6)
    assert "writes its part of" in str(net.explain(*(nd.array(a, ctx=ctx) for a in arrays)))


@pytest.mark.parametrize("ctx", [mx.cpu(), mx.gpu(0)], ids=["cpu", "cuda"])
def test_gradients(ctx, compiler, cuda_driver):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((6, 64), (6, 96))]
    found = []
    for hybrid in (False, True):
        net = Joined(1)
        if hybrid:
            net.hybridize()
        xs = [nd.array(a, ctx=ctx) for a in arrays]
        for x in xs:
            x.attach_grad()
        with autograd.record():
            joined, stacked, total = net(*xs)
            loss = (joined * joined).sum() + (stacked * nd.arange(96, ctx=ctx)).sum() + total.sum()
        loss.backward()
        found.append([x.grad.asnumpy() for x in xs])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ctx", [mx.cpu(), mx.gpu(0)], ids=["cpu", "cuda"])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_new_batch_needs_no_new_kernel(ctx, dim, compiler, cuda_driver):
    """Parts begin elsewhere then, which pointers tell."""

    class Net(HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.concat(F.softmax(x), F.softmax(y), dim=dim)

    net = Net()
    net.hybridize()
    for batch in (32, 48, 64):
        net(*(nd.ones((batch, 64), ctx=ctx) for _ in range(2))).wait_to_read()
    texts = {net.explain(*(nd.ones((n, 64), ctx=ctx) for _ in range(2))).source() for n in (32, 48, 64)}
    assert len(texts) == 1

# SPDX-License-Identifier: Apache-2.0
"""Recorded calls that are prepared, and later ones that cannot be: results, gradients and states are those of eager calls."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from hybridgpu import autograd, gluon, init, nd
from hybridgpu.base import MXNetError
from hybridgpu.gluon import nn

pytestmark = pytest.mark.usefixtures("compiler")


class Kernels(gluon.HybridBlock):
    """One foreign call; two states are others after each call, running averages behind each backward pass."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(8,))
            self.mean = self.params.get("mean", shape=(8,), grad_req="null")
            self.var = self.params.get("var", shape=(8,), grad_req="null")
            self.norm = nn.BatchNorm(in_channels=8)

    def between(self, F, x):
        return x * 1.0

    def hybrid_forward(self, F, x, w, mean, var):
        moved = F.adam_update(F.BlockGrad(w), F.ones_like(w), mean, var, lr=0.5)
        y = self.norm(self.between(F, F.broadcast_mul(x, w)))
        return F.broadcast_add(F.tanh(y), F.BlockGrad(moved)), y * 2


class Library(Kernels):
    """A library call between two kernels."""

    def between(self, F, x):
        return F.sort(x)


class Step:
    """How one step is taken.

    Attributes:
        rows: of the argument.
        gradient: what is wanted of its gradient; "made": it is a recorded value.
        scope: around the call.
        before: what is done before, to the net.
    """

    def __init__(self, rows=4, gradient=None, scope=autograd.record, before=lambda net: None):
        self.rows, self.gradient, self.scope, self.before = rows, gradient, scope, before


def requested(request):
    def before(net):
        net.w.grad_req = request

    return before


LEAF = Step(gradient="write")
#: name -> (what is repeated, what comes then)
STEPS = {
    "the same": (Step(), Step()),
    "of an argument with a gradient": (LEAF, LEAF),
    "of recorded values": (Step(gradient="made"), Step(gradient="made")),
    "another shape": (Step(), Step(rows=3)),
    "an argument whose gradient is wanted": (Step(), LEAF),
    "an argument whose gradient is not wanted": (Step(), Step(gradient="null")),
    "an argument whose gradient is not wanted any more": (LEAF, Step(gradient="null")),
    "a recorded value": (Step(), Step(gradient="made")),
    "a parameter whose gradient is not wanted any more": (LEAF, Step(gradient="write", before=requested("null"))),
    "gradients that are added": (Step(), Step(before=requested("add"))),
    "not recorded": (Step(), Step(scope=nullcontext)),
    "trained without being recorded": (Step(), Step(scope=autograd.train_mode)),
    "recorded for prediction": (Step(), Step(scope=lambda: autograd.record(train_mode=False))),
    "new memory of a parameter": (Step(), Step(before=lambda net: net.w.initialize(init.One(), force_reinit=True))),
}


def made(make, hybrid):
    net = make()
    net.initialize()
    net.w.set_data(nd.arange(8) / 4 - 1)
    net.mean.set_data(nd.ones((8,)))
    net.var.set_data(nd.ones((8,)) * 2)
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    return net


def taken(make, hybrid, repeated, then):
    """Results, gradients and states of six steps."""
    net, found = made(make, hybrid), []
    for k, step in enumerate([repeated] * 3 + [then] * 3):
        step.before(net)
        x = leaf = nd.array(np.random.default_rng(k).normal(size=(step.rows, 8)))
        if step.gradient:
            x.attach_grad("write" if step.gradient == "made" else step.gradient)
        with step.scope():
            if step.gradient == "made":
                x = leaf * 2
            results = net(x)
            assert not hybrid or k < 2 or net._hg_fast or net._hg_inner
            loss = sum((r * r).sum() for r in results)
        if step.scope in (nullcontext, autograd.train_mode):
            with pytest.raises(MXNetError):
                results[1].backward()
        elif step.gradient in ("write", "made") or net.w.grad_req != "null":
            loss.backward()
        values = [*results, *(p.data() for p in net.collect_params().values())]
        values += [net.w.grad()] if net.w.grad_req != "null" else []
        values += [leaf.grad] if step.gradient in ("write", "made") else []
        found += [v.asnumpy() for v in values]
    return found


@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("make", [Kernels, Library])
def test_steps_are_those_of_eager_calls(make, what):
    for got, want in zip(taken(make, True, *STEPS[what]), taken(make, False, *STEPS[what]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("make", [Kernels, Library])
def test_an_argument_too_many_is_refused(make):
    net, x = made(make, True), nd.ones((4, 8))
    with autograd.record():
        for _ in range(3):
            net(x)
        with pytest.raises(ValueError, match="structure"):
            net(x, x)

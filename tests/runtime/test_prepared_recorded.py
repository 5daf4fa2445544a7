# SPDX-License-Identifier: Apache-2.0
"""Recorded calls that are prepared, and later ones that cannot be: results, gradients and states are those of eager calls."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from hybridgpu import autograd, gluon, nd

pytestmark = pytest.mark.usefixtures("compiler")


class Kernels(gluon.HybridBlock):
    """One foreign call; a state is another one after each call."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(8,))
            self.state = self.params.get("state", shape=(8,), grad_req="null")

    def between(self, F, x):
        return x * 1.0

    def hybrid_forward(self, F, x, w, state):
        moved = F.sgd_mom_update(F.BlockGrad(w), F.ones_like(w), state, lr=0.5, momentum=0.5)
        y = F.Dropout(self.between(F, F.broadcast_mul(x, w)), p=1e-9)
        return F.broadcast_add(F.tanh(y), F.BlockGrad(moved)), y * 2


class Library(Kernels):
    """A library call between two kernels."""

    def between(self, F, x):
        return F.sort(x)


class Step:
    """How one step is taken: with which argument, recorded or not, and what is done before."""

    def __init__(self, rows=4, attach=False, scope=autograd.record, before=lambda net: None):
        self.rows, self.attach, self.scope, self.before = rows, attach, scope, before


def requested(request):
    def before(net):
        net.w.grad_req = request

    return before


#: name -> (what is repeated, what comes then)
STEPS = {
    "the same": (Step(), Step()),
    "of an argument with a gradient": (Step(attach=True), Step(attach=True)),
    "another shape": (Step(), Step(rows=3)),
    "an argument whose gradient is wanted": (Step(), Step(attach=True)),
    "an argument whose gradient is not wanted any more": (Step(attach=True), Step()),
    "a parameter whose gradient is not wanted any more": (
        Step(attach=True),
        Step(attach=True, before=requested("null")),
    ),
    "gradients that are added": (Step(), Step(before=requested("add"))),
    "not recorded": (Step(), Step(scope=nullcontext)),
    "recorded for prediction": (Step(), Step(scope=lambda: autograd.record(train_mode=False))),
    "new memory of a parameter": (Step(), Step(before=lambda net: net.w._init_grad())),
}


def taken(make, hybrid, repeated, then):
    """Results, gradients and states of six steps."""
    net = make()
    net.initialize()
    net.w.set_data(nd.arange(8) / 4 - 1)
    net.state.set_data(nd.ones((8,)))
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    found = []
    for k, step in enumerate([repeated] * 3 + [then] * 3):
        step.before(net)
        x = nd.array(np.random.default_rng(k).normal(size=(step.rows, 8)))
        if step.attach:
            x.attach_grad()
        with step.scope():
            results = net(x)
            assert not hybrid or k < 2 or net._fast or net._inner
            if autograd.is_recording():
                loss = sum((r * r).sum() for r in results)
        if step.scope is not nullcontext and (step.attach or net.w.grad_req != "null"):
            loss.backward()
        found += [*results, net.state.data()]
        found += [net.w.grad()] if net.w.grad_req != "null" else []
        found += [x.grad] if step.attach else []
        found = [a if isinstance(a, np.ndarray) else a.asnumpy() for a in found]
    return found


@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("make", [Kernels, Library])
def test_steps_are_those_of_eager_calls(make, what):
    for got, want in zip(taken(make, True, *STEPS[what]), taken(make, False, *STEPS[what]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

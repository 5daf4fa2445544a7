# SPDX-License-Identifier: Apache-2.0
"""Losses beside what MXNet 1.9.1 gave (``recorded/``), and their derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
from against_mxnet.recorded import losses
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.gluon import loss

RECORDED = recorded("losses")


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("name", losses.CASES)
def test_value_and_gradient(name, hybrid):
    if hybrid and name in losses.ONLY_EAGER:
        with pytest.raises(AttributeError):
            losses.measure(mx, name, hybrid)
        return
    ours = losses.measure(mx, name, hybrid)
    for key, theirs in RECORDED[name].items():
        assert same(ours[key], theirs), key


@pytest.mark.parametrize("name", [n for n in losses.CASES if "sigmoid" in n or "divergence" in n or "cosine" in n])
def test_gradient_by_differences(name):
    kind, arguments, inputs = losses.CASES[name]
    function = getattr(loss, kind)(**arguments)
    x, *rest = [nd.array(v, dtype="float64") for v in inputs]
    x.attach_grad()
    with mx.autograd.record():
        value = function(x, *rest).sum()
    value.backward()
    direction, step = np.random.RandomState(0).normal(size=x.shape), 1e-6
    up, down = (
        float(function(nd.array(x.asnumpy() + s * direction, dtype="float64"), *rest).sum().asscalar())
        for s in (step, -step)
    )
    np.testing.assert_allclose((x.grad.asnumpy() * direction).sum(), (up - down) / (2 * step), rtol=1e-5)


def test_poisson_in_full_with_counts_of_zero():
    """Stirling's formula is for counts above 1 only: a count of 0 has a value, and there is a gradient."""
    pred, counts = nd.array([[0.5, -0.5, 1.0]]), nd.array([[0.0, 1.0, 3.0]])
    pred.attach_grad()
    with mx.autograd.record():
        value = loss.PoissonNLLLoss(compute_full=True)(pred, counts)
    value.backward()
    p, c = pred.asnumpy(), counts.asnumpy()
    stirling = 3 * np.log(3) - 3 + 0.5 * np.log(6 * np.pi)
    np.testing.assert_allclose(value.asnumpy(), [((np.exp(p) - c * p).sum() + stirling) / 3], rtol=1e-5)
    np.testing.assert_allclose(pred.grad.asnumpy(), (np.exp(p) - c) / 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: loss.LogisticLoss(label_format="x"), ValueError, "label_format can only be signed or binary, recieved x."),
        (lambda: loss.CTCLoss(layout="CTN"), AssertionError, "Only 'NTC' and 'TNC' layouts for pred are supported. Got: CTN"),
        (lambda: loss.CTCLoss(label_layout="T"), AssertionError, "Only 'NT' and 'TN' layouts for label are supported. Got: T"),
        (lambda: loss.L1Loss(weight="a")(nd.ones((2, 2)), nd.ones((2, 2))), AssertionError, "weight must be a number"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()

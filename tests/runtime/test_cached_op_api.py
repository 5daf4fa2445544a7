# SPDX-License-Identifier: Apache-2.0
"""``nd.CachedOp``: Symbols as compiled functions of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd, sym

A, B = sym.var("a"), sym.var("b")
ONES = nd.ones(2), nd.ones(2)


@pytest.mark.parametrize(
    ("graph", "flags", "values"),
    [
        (A * 2 + B, (), [3, 3]),
        (A * 2 + B, [("static_alloc", True), ("static_shape", True)], [3, 3]),
        (A * 2 + B, {"inline_limit": 0}, [3, 3]),
        (sym.Group([A + B, A - B]), (), [[2, 2], [0, 0]]),
    ],
)
@pytest.mark.parametrize("given", [False, True])
def test_calls(graph, flags, values, given):
    call = nd.CachedOp(graph, flags)
    several = isinstance(values[0], list)
    out = ([nd.zeros(2), nd.zeros(2)] if several else nd.zeros(2)) if given else None
    for _ in range(2):
        found = call(*ONES, out=out) if given else call(*ONES)
        assert (found is out) == given
        np.testing.assert_array_equal([y.asnumpy() for y in found] if several else found.asnumpy(), values)


def test_gradients_and_other_shapes():
    call = nd.CachedOp(sym.FullyConnected(num_hidden=2) * 3)
    for width in (4, 5):
        x, w, c = nd.ones((3, width)), nd.ones((2, width)), nd.ones(2)
        w.attach_grad()
        with autograd.record():
            y = call(x, w, c)
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), np.full((3, 2), 3 * (width + 1)))
        np.testing.assert_array_equal(w.grad.asnumpy(), np.full((2, width), 9))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda op: op(ONES[0]), mx.MXNetError, r"inputs.size\(\) == num_inputs\(\) \(1 vs. 2\)[^$]*each of a, b"),
        (lambda op: op(1, ONES[0]), TypeError, "a must be an NDArray"),
        (lambda op: op(ONES[0], nd.ones(3)), mx.MXNetError, r"expected \[2\], got \[3\]"),
        (lambda op: op(*ONES, out=nd.zeros(3)), mx.MXNetError, r"expected \[2\], got \[3\]"),
        (lambda op: op(*ONES, out=[nd.zeros(2)] * 2), mx.MXNetError, "out has 2 arrays for 1 results"),
        (
            lambda op: nd.CachedOp(A, {"fast": 1}),
            mx.MXNetError,
            "Cannot find argument 'fast', Possible Arguments: static",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(nd.CachedOp(A * 2 + B))

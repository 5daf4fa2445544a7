# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.autograd``, the older interface."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd

old = mx.contrib.autograd


def product(x, y):
    return x * x * y


@pytest.mark.parametrize(
    ("argnum", "gradients"), [(None, [[12, 30], [4, 9]]), (0, [[12, 30]]), (1, [[4, 9]]), ([1, 0], [[4, 9], [12, 30]])]
)
def test_gradients_of_functions(argnum, gradients):
    x, y = nd.array([2, 3]), nd.array([3, 5])
    found, value = old.grad_and_loss(product, argnum)(x, y)
    np.testing.assert_array_equal([g.asnumpy() for g in found], gradients)
    np.testing.assert_array_equal(value.asnumpy(), [12, 45])
    np.testing.assert_array_equal([g.asnumpy() for g in old.grad(product, argnum)(x, y)], gradients)
    assert old.grad(product).__name__ == "product"


def test_functions_of_several_results():
    (g,) = old.grad(lambda x: [x * 2, x * 3])(nd.ones(2))
    np.testing.assert_array_equal(g.asnumpy(), [5, 5])


def test_only_arrays_have_gradients():
    with pytest.raises(AssertionError, match="type of autograd input should NDArray"):
        old.grad(product)(1, nd.ones(2))


def test_sections():
    def flags():
        return mx.autograd.is_recording(), mx.autograd.is_training()

    with old.train_section():
        assert flags() == (True, True)
        with old.test_section():
            assert flags() == (False, False)
        assert flags() == (True, True)
    assert flags() == (False, False)
    assert (old.set_is_training(True), old.set_is_training(False)) == (False, True)


@pytest.mark.parametrize(("heads", "expected"), [(None, [3, 3]), ([nd.array([2, 4]), None], [5, 9])])
def test_backward(heads, expected):
    x, g = nd.ones(2), nd.zeros(2)
    old.mark_variables([x], [g])
    with old.train_section():
        outputs = [x * 2, x * 1]
    old.backward(outputs, heads, retain_graph=True)
    np.testing.assert_array_equal(g.asnumpy(), expected)
    old.compute_gradient(outputs)
    np.testing.assert_array_equal(g.asnumpy(), [3, 3])


@pytest.mark.parametrize(("outputs", "heads"), [(nd.ones(1), None), ([nd.ones(1)], [None, None])])
def test_errors_of_backward(outputs, heads):
    with pytest.raises(AssertionError):
        old.backward(outputs, heads)

# SPDX-License-Identifier: Apache-2.0
"""np arrays on two emulated GPUs of which the other one is current: an array's own device does the work."""

import emulated
import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import np, npx


@pytest.fixture
def gpu():
    emulated.install(2)
    npx.set_np()
    yield mx.gpu(1)
    npx.reset_np()
    emulated.uninstall()


def test_printing(gpu):
    x = np.array([[1, 2], [3, 4]], ctx=gpu)
    assert repr(x) == "array([[1., 2.],\n       [3., 4.]], ctx=gpu(1))"
    assert str(x) == "[[1. 2.]\n [3. 4.]] @gpu(1)"
    assert repr(np.array(2, dtype="int32", ctx=gpu)) == "array(2, dtype=int32, ctx=gpu(1))"
    assert str(x[0, 0]) == "1.0" and f"{x[0, 0]:.2f}" == "1.00"


KEYS = [
    0,
    (1, 2),
    (slice(None), 1),
    (slice(None, None, -1), None),
    Ellipsis,
    [1, 1],
    (0, [2, 0]),
    (onp.array([0, 1]), onp.array([1, 2])),
    onp.array([True, False]),
    onp.arange(6).reshape(2, 3) > 2,
]


@pytest.mark.parametrize("k", range(len(KEYS)))
def test_indexing(gpu, k):
    key, values = KEYS[k], onp.arange(6, dtype="float32").reshape(2, 3)
    keys = [key]
    if isinstance(key, onp.ndarray):
        keys += [np.array(key), np.array(key, ctx=gpu)]
    for used in keys:
        x = np.array(values, ctx=gpu)
        assert (x[used].asnumpy() == values[key]).all() and x[used].ctx == gpu
        x.attach_grad()
        with mx.autograd.record():
            y = (x[used] * 2).sum()
        y.backward()
        expected = onp.zeros_like(values)
        onp.add.at(expected, key, 2)
        assert (x.grad.asnumpy() == expected).all() and x.grad.ctx == gpu
        for value in (5.0, np.array(values[key] + 1, ctx=gpu), np.array(values[key] + 1)):
            written, wanted = np.array(values, ctx=gpu), values.copy()
            written[used] = value
            wanted[key] = value.asnumpy() if isinstance(value, np.ndarray) else value
            assert (written.asnumpy() == wanted).all()


def test_numpy_functions_come_back_to_the_device(gpu):
    x = np.array([3.0, 1.0, 2.0], ctx=gpu)
    found = onp.partition(x, 1)
    assert type(found) is np.ndarray and found.ctx == gpu
    with pytest.raises(ValueError, match="Ambiguous to set the context"):
        onp.union1d(x, np.array([1.0]))


def test_copies(gpu):
    x = np.array([1.0, 2.0], ctx=gpu)
    assert x.as_in_ctx(gpu) is x and x.as_in_ctx(mx.gpu(0)).ctx == mx.gpu(0) and np.array(x, ctx=gpu).ctx == gpu
    target = np.zeros((2,), ctx=mx.gpu(0))
    assert x.copyto(target) is target and target.tolist() == [1, 2]
    assert (x + x).ctx == gpu and x.astype("int32").ctx == gpu and x.copy().ctx == gpu

# SPDX-License-Identifier: Apache-2.0
"""Gather, scatter, masks, coordinates, padding, diagonals, slices: results recorded from MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError

nd = mx.nd
A = [[3, 1, 2], [0, 5, 4]]
#: name -> (call, inputs, result)
CALLS = {
    "gather_nd": (lambda F, a, i: F.gather_nd(a, i), [A, [[1, 0], [0, 2]]], [0, 2]),
    "gather_nd from the end": (lambda F, a, i: F.gather_nd(a, i), [A, [[-1, 0], [0, -2]]], [0, 1]),
    "gather_nd rows": (lambda F, a, i: F.gather_nd(a, i), [A, [[1, 0]]], [[0, 5, 4], [3, 1, 2]]),
    "scatter_nd": (
        lambda F, a, i: F.scatter_nd(a, i, shape=(2, 2)),
        [[2, 3, 0], [[1, 1, 0], [0, 1, 0]]],
        [[0, 0], [2, 3]],
    ),
    "scatter_nd twice": (
        lambda F, a, i: F.scatter_nd(a, i, shape=(2, 2)),
        [[2, 3, 1], [[1, 1, 1], [0, 0, 0]]],
        [[0, 0], [1, 0]],
    ),
    "scatter_nd rows": (
        lambda F, a, i: F.scatter_nd(a, i, shape=(4, 3)),
        [A, [[1, 2]]],
        [[0, 0, 0], [3, 1, 2], [0, 5, 4], [0, 0, 0]],
    ),
    "_scatter_set_nd": (
        lambda F, a, b, i: F._internal._scatter_set_nd(a, b, i, shape=(2, 2)),
        [[[1, 1], [1, 1]], [2, 3], [[1, 0], [0, 1]]],
        [[1, 3], [2, 1]],
    ),
    "index_copy": (
        lambda F, a, i, b: F.contrib.index_copy(a, i, b),
        [np.zeros((4, 3)), [1, 3], A],
        [[0, 0, 0], [3, 1, 2], [0, 0, 0], [0, 5, 4]],
    ),
    "batch_take": (lambda F, a, i: F.batch_take(a, i), [A, [-1, 9]], [3, 4]),
    "fill_element_0index": (
        lambda F, a, b, i: F.fill_element_0index(a, b, i),
        [A, [9, 8], [1, 2]],
        [[3, 9, 2], [0, 5, 8]],
    ),
    "unravel_index": (lambda F, i: F.unravel_index(i, shape=(3, 4)), [[5, 7]], [[1, 1], [1, 3]]),
    "unravel_index open": (lambda F, i: F.unravel_index(i, shape=(-1, 4)), [[5, 50]], [[1, 12], [1, 2]]),
    "ravel_multi_index": (lambda F, i: F.ravel_multi_index(i, shape=(3, 4)), [[[1, 2], [3, 1]]], [7, 9]),
    "index_array": (
        lambda F, a: F.contrib.index_array(a, axes=(1, 0)),
        [A],
        [[[0, 0], [1, 0], [2, 0]], [[0, 1], [1, 1], [2, 1]]],
    ),
    "arange_like": (lambda F, a: F.contrib.arange_like(a, axis=1, start=2, step=0.5), [A], [2, 2.5, 3]),
    "arange_like repeat": (lambda F, a: F.contrib.arange_like(a, repeat=4), [A], [[0, 0, 0], [0, 1, 1]]),
    "allclose": (lambda F, a, b: F.contrib.allclose(a, b), [[1, np.nan], [1 + 1e-6, np.nan]], 1),
    "not allclose": (lambda F, a, b: F.contrib.allclose(a, b, equal_nan=False), [[np.nan], [np.nan]], 0),
    "boolean_mask": (
        lambda F, a, m: F.contrib.boolean_mask(a, m),
        [[[3, 0], [1, 5], [2, 4]], [1, 0, 2]],
        [[3, 0], [2, 4]],
    ),
    "slice assign": (
        lambda F, a, b: F._internal._slice_assign(a, b, begin=(1, 2), end=(2, None), step=(1, -2)),
        [A, [[9, 8]]],
        [[3, 1, 2], [8, 5, 9]],
    ),
    "slice assign scalar": (
        lambda F, a: F._internal._slice_assign_scalar(a, scalar=3, begin=(0, 0), end=(2, 3), step=(1, 2)),
        [A],
        [[3, 1, 3], [3, 5, 3]],
    ),
    "khatri_rao": (
        lambda F, a, b: F.khatri_rao(a, b),
        [[[1, -1], [2, -3]], [[1, 4], [2, 5], [3, 6]]],
        [[1, -4], [2, -5], [3, -6], [2, -12], [4, -15], [6, -18]],
    ),
    "depth_to_space": (
        lambda F, a: F.depth_to_space(a, 2),
        [np.arange(8).reshape(1, 8, 1, 1)],
        [[[[0, 2], [4, 6]], [[1, 3], [5, 7]]]],
    ),
    "space_to_depth": (
        lambda F, a: F.space_to_depth(a, 2),
        [np.arange(8).reshape(1, 2, 2, 2)],
        np.array([0, 4, 1, 5, 2, 6, 3, 7]).reshape(1, 8, 1, 1),
    ),
    "round_ste": (lambda F, a: F.contrib.round_ste(a), [[0.5, 1.5, -0.5, 2.4]], [1, 2, -1, 2]),
    "sign_ste": (lambda F, a: F.contrib.sign_ste(a), [[0.5, 0, -0.5]], [1, 0, -1]),
}


def block(function):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *args):
            return function(F, *args)

    net = Net()
    net.hybridize()
    return net


@pytest.mark.parametrize("name", CALLS)
def test_recorded(name):
    function, inputs, want = CALLS[name]
    arrays = [nd.array(x) for x in inputs]
    for run in (lambda *a: function(nd, *a), block(function)):
        np.testing.assert_array_equal(run(*arrays).asnumpy(), np.array(want))


PAD = (0, 0, 0, 0, 1, 2, 0, 1)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("rank", [4, 5])
def test_pad(mode, rank):
    x = np.random.default_rng(0).normal(size=(2, 1, 3, 2, 4)[:rank]).astype("float32")
    width = (*PAD, *(2, 3) * (rank == 5))
    options = {"constant_values": 7} if mode == "constant" else {}
    want = np.pad(x, np.array(width).reshape(-1, 2), mode, **options)

    def function(F, a):
        return F.pad(a, mode=mode, pad_width=width, constant_value=7)

    a = nd.array(x)
    for run in (lambda a: function(nd, a), block(function)):
        a.attach_grad()
        with autograd.record():
            y = run(a)
        np.testing.assert_array_equal(y.asnumpy(), want)
        y.backward()
        positions = np.pad(
            np.arange(x.size).reshape(x.shape),
            np.array(width).reshape(-1, 2),
            mode,
            **({"constant_values": -1} if mode == "constant" else {}),
        )
        counts = np.bincount(positions[positions >= 0], minlength=x.size).reshape(x.shape)
        np.testing.assert_array_equal(a.grad.asnumpy(), counts)


def test_pad_that_cuts():
    x = nd.arange(12).reshape((2, 1, 3, 2))
    y = nd.pad(x, mode="constant", pad_width=(0, 0, 0, 0, -1, 0, 0, 0))
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy()[:, :, 1:])


@pytest.mark.parametrize("k", [0, 1, -1, 2])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 3), (2, 3, 4)])
def test_diag(shape, k):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    want = np.diag(x, k) if len(shape) < 3 else np.diagonal(x, k)
    for run in (lambda a: nd.diag(a, k=k), block(lambda F, a: F.diag(a, k=k))):
        np.testing.assert_array_equal(run(nd.array(x)).asnumpy(), want)


#: name -> (call, inputs, which one, its gradient for a head gradient of ones)
GRADIENTS = {
    "gather_nd": (lambda F, a, i: F.gather_nd(a, i), [A, [[1, 1], [0, 0]]], 0, [[0, 0, 0], [2, 0, 0]]),
    "scatter_nd": (lambda F, a, i: F.scatter_nd(a * 2, i, shape=(2, 2)), [[2, 3], [[1, 0], [0, 1]]], 0, [2, 2]),
    "index_copy old": (
        lambda F, a, i, b: F.contrib.index_copy(a, i, b),
        [np.zeros((3, 3)), [2, 0], A],
        0,
        [[0, 0, 0], [1, 1, 1], [0, 0, 0]],
    ),
    "index_copy new": (
        lambda F, a, i, b: F.contrib.index_copy(a, i, b * 3),
        [np.zeros((3, 3)), [2, 0], A],
        2,
        [[3] * 3] * 2,
    ),
    "boolean_mask": (lambda F, a, m: F.contrib.boolean_mask(a * 2, m), [A, [0, 1]], 0, [[0, 0, 0], [2, 2, 2]]),
    "slice assign": (
        lambda F, a, b: F._internal._slice_assign(a, b, begin=(0, 1), end=(2, 2)),
        [A, [[7], [8]]],
        0,
        [[1, 0, 1], [1, 0, 1]],
    ),
    "slice assign value": (
        lambda F, a, b: F._internal._slice_assign(a, b * 2, begin=(0, 1), end=(2, 2)),
        [A, [[7], [8]]],
        1,
        [[2], [2]],
    ),
    "gradientmultiplier": (lambda F, a: F.contrib.gradientmultiplier(a, scalar=-3), [A], 0, [[-3] * 3] * 2),
    "round_ste": (lambda F, a: F.contrib.round_ste(a) * 2, [A], 0, [[2] * 3] * 2),
    "sign_ste": (lambda F, a: F.contrib.sign_ste(a) * 2, [A], 0, [[2] * 3] * 2),
    "diag": (lambda F, a: F.diag(a, k=1), [A], 0, [[0, 1, 0], [0, 0, 1]]),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients(name, hybrid):
    function, inputs, which, want = GRADIENTS[name]
    arrays = [nd.array(x) for x in inputs]
    arrays[which].attach_grad()
    with autograd.record():
        y = block(function)(*arrays) if hybrid else function(nd, *arrays)
    y.backward()
    np.testing.assert_array_equal(arrays[which].grad.asnumpy(), np.array(want, "float32"))


def test_results_of_unknown_extent_end_a_program():
    """What follows a mask is compiled for each extent; gradients pass through all parts."""
    net = block(lambda F, x, m: F.sum(F.contrib.boolean_mask(x * 2, m) * 3, axis=0))
    x = nd.array([[3, 0], [1, 5], [2, 4]])
    for mask in ([1, 0, 1], [0, 1, 0], [1, 1, 1]):
        m = nd.array(mask)
        x.attach_grad()
        with autograd.record():
            y = net(x, m)
        y.backward()
        chosen = np.array(mask, "float32")[:, None]
        np.testing.assert_array_equal(y.asnumpy(), (x.asnumpy() * 6 * chosen).sum(0))
        np.testing.assert_array_equal(x.grad.asnumpy(), np.broadcast_to(6 * chosen, (3, 2)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda a: nd.gather_nd(a, nd.array([[5], [0]])),
            IndexError,
            "index 5 is out of bounds for axis 0 with size 2",
        ),
        (lambda a: nd.gather_nd(a, nd.array([1, 0])), MXNetError, "at least 2 dimensions"),
        (lambda a: nd.gather_nd(a, nd.array([[1], [0], [0]])), MXNetError, "Number of indices exceeds"),
        (lambda a: nd.scatter_nd(a, nd.array([[1, 2]]), shape=(4, 4)), MXNetError, "Invalid data, indices"),
        (lambda a: nd.take(a, nd.array([5]), mode="raise"), MXNetError, "indices out of bound"),
        (lambda a: nd.take(a, nd.array([-1]), mode="raise"), MXNetError, "indices out of bound"),
        (lambda a: nd.contrib.boolean_mask(a, nd.array([1, 0, 2])), MXNetError, "2 vs. 3"),
        (lambda a: nd.contrib.boolean_mask(a, nd.array([1, 0, 2]), axis=1), MXNetError, "Not supported yet"),
        (lambda a: nd.ravel_multi_index(a, shape=(3, 4, 5)), MXNetError, "does not match shape parameter"),
        (lambda a: nd.diag(a, k=5), MXNetError, "Diagonal does not exist"),
        (lambda a: nd.diag(a, axis1=1, axis2=1), MXNetError, "cannot refer to the same axis 1"),
        (lambda a: nd.pad(a, mode="edge", pad_width=(0, 0, 1, 1)), MXNetError, "only supports 4-D or 5-D"),
        (lambda a: nd.depth_to_space(a, 2), MXNetError, "requires exactly 4D"),
        (lambda a: nd.khatri_rao(a, nd.ones((2, 2))), MXNetError, "num_columns"),
        (lambda a: nd.cast_storage(a, stype="csr"), MXNetError, "only dense arrays"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(nd.array(A))

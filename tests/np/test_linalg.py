# SPDX-License-Identifier: Apache-2.0
"""np.linalg: values against NumPy in float64, gradients against differences, errors."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError


@pytest.fixture(autouse=True)
def _numpy_semantics():
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def array(values, dtype="float64"):
    return mx.nd.array(onp.asarray(values, dtype), dtype=dtype).as_np_ndarray()


def random(*shape, seed=0):
    return onp.random.default_rng(seed).normal(size=shape)


def positive(*batch, n=4):
    a = random(*batch, n, n, seed=1)
    return a @ onp.swapaxes(a, -1, -2) + n * onp.eye(n)


def square(*batch, n=4):
    return random(*batch, n, n, seed=2) + 3 * onp.eye(n)


def t(a):
    return onp.swapaxes(a, -1, -2)


def by_svd(ut, s, v):
    return (ut * s[..., None, :]) @ v


NORMS = [
    ((5,), None, None),
    *(((5,), order, None) for order in (0, 1, 2, 3, -1, 1.5, "inf", "-inf", onp.inf)),
    *(((3, 4), order, None) for order in (None, "fro", "nuc", 1, -1, 2, -2, "inf", -onp.inf)),
    *(((4, 3), order, (0, 1)) for order in ("nuc", 2, "fro")),
    *(((2, 3, 4), order, axis) for order in (None, 1, 2) for axis in (1, (2, 0), (-1, 1))),
]


@pytest.mark.parametrize("shape, order, axis", NORMS)
@pytest.mark.parametrize("keepdims", [False, True])
def test_norm(shape, order, axis, keepdims):
    x = random(*shape)
    theirs = float(order) if order in ("inf", "-inf") else order
    got = mx.np.linalg.norm(array(x), order, axis, keepdims)
    onp.testing.assert_allclose(got.asnumpy(), onp.linalg.norm(x, theirs, axis, keepdims), 1e-10)


#: name -> (function, arguments, the same by NumPy)
CALLS = {
    "cholesky": (lambda L, a: L.cholesky(a), [positive(2)], onp.linalg.cholesky),
    "inv": (lambda L, a: L.inv(a), [square(2)], onp.linalg.inv),
    "det": (lambda L, a: L.det(a), [square(2)], onp.linalg.det),
    "det of one": (lambda L, a: L.det(a), [square()], onp.linalg.det),
    "log of det": (lambda L, a: L.slogdet(a)[1], [square(2)], lambda a: onp.linalg.slogdet(a)[1]),
    "solve": (lambda L, a, x: L.solve(a, x), [square(2), random(2, 4, 3)], onp.linalg.solve),
    "solve for a vector": (lambda L, a, x: L.solve(a, x), [square(), random(4)], onp.linalg.solve),
    "solve for vectors": (
        lambda L, a, x: L.solve(a, x),
        [square(2), random(2, 4)],
        lambda a, x: onp.linalg.solve(a, x[..., None])[..., 0],
    ),
    "tensorinv": (
        lambda L, a: L.tensorinv(a),
        [square(n=6).reshape(2, 3, 6)],
        lambda a: onp.linalg.tensorinv(a),
    ),
    "tensorsolve": (
        lambda L, a, x: L.tensorsolve(a, x, axes=(1,)),
        [square(n=6).reshape(2, 6, 3), random(2, 3)],
        lambda a, x: onp.linalg.tensorsolve(a, x, axes=(1,)),
    ),
    "singular values": (lambda L, a: L.svd(a)[1], [random(2, 3, 5)], lambda a: onp.linalg.svd(a)[1]),
    "singular vectors, of rows": (lambda L, a: L.svd(a)[0] ** 2, [random(3, 5)], lambda a: onp.linalg.svd(a)[0] ** 2),
    "singular vectors, of columns": (
        lambda L, a: L.svd(a)[2] ** 2,
        [random(3, 5)],
        lambda a: onp.linalg.svd(a, full_matrices=False)[2] ** 2,
    ),
    "norm": (lambda L, a: L.norm(a, axis=-1), [random(2, 3)], lambda a: onp.linalg.norm(a, axis=-1)),
    "norm of order 3": (lambda L, a: L.norm(a, 3, axis=0), [random(2, 3)], lambda a: onp.linalg.norm(a, 3, axis=0)),
    "spectral norm": (lambda L, a: L.norm(a, 2, axis=(0, 1)), [random(3, 2)], lambda a: onp.linalg.norm(a, 2)),
    "nuclear norm": (lambda L, a: L.norm(a, "nuc"), [random(2, 3)], lambda a: onp.linalg.norm(a, "nuc")),
}
#: without a gradient, as in MXNet
CONSTANT = {
    "pinv": (lambda L, a: L.pinv(a), [random(2, 3, 5)], onp.linalg.pinv),
    "pinv of tall ones": (lambda L, a: L.pinv(a), [random(5, 3)], onp.linalg.pinv),
    "pinv with a cut-off": (lambda L, a: L.pinv(a, 0.9), [random(3, 3)], lambda a: onp.linalg.pinv(a, 0.9)),
    "pinv with cut-offs": (
        lambda L, a, c: L.pinv(a, c),
        [random(2, 3, 3), onp.array([0.1, 0.9])],
        onp.linalg.pinv,
    ),
    "eigvalsh": (lambda L, a: L.eigvalsh(a), [positive(2)], onp.linalg.eigvalsh),
    "eigvalsh, upper": (lambda L, a: L.eigvalsh(a, "U"), [square(2)], lambda a: onp.linalg.eigvalsh(a, "U")),
    "eigvals": (lambda L, a: L.eigvals(a), [positive()], onp.linalg.eigvals),
}
every = pytest.mark.parametrize("name", [*CALLS, *CONSTANT])


@every
def test_values(name):
    call, inputs, expected = {**CALLS, **CONSTANT}[name]
    got = call(mx.np.linalg, *map(array, inputs))
    onp.testing.assert_allclose(got.asnumpy(), expected(*inputs), 1e-9, 1e-11)


@every
def test_gradient(name):
    call, inputs, expected = {**CALLS, **CONSTANT}[name]
    given = [array(x) for x in inputs]
    for x in given:
        x.attach_grad()
    with autograd.record():
        y = call(mx.np.linalg, *given)
    weights = random(*y.shape, seed=5)
    y.backward(array(weights))
    if name in CONSTANT:
        assert all((x.grad.asnumpy() == 0).all() for x in given)
        return
    for k, x in enumerate(inputs):
        direction = random(*x.shape, seed=6 + k)
        if name == "cholesky":  # only the lower triangle counts, and the gradient is symmetric
            direction = direction + t(direction)
        step = 1e-6
        ends = []
        for sign in (1, -1):
            moved = [v + sign * step * direction if j == k else v for j, v in enumerate(inputs)]
            ends.append((expected(*moved) * weights).sum())
        slope = (ends[0] - ends[1]) / (2 * step)
        onp.testing.assert_allclose((given[k].grad.asnumpy() * direction).sum(), slope, 1e-5, 1e-6)


def test_factorisations_give_the_matrix_back():
    L = mx.np.linalg
    a = random(2, 3, 5)
    onp.testing.assert_allclose(by_svd(*(x.asnumpy() for x in L.svd(array(a)))), a, 1e-10, 1e-10)
    a = positive(2)
    for function in (L.eig, L.eigh):
        w, v = (x.asnumpy() for x in function(array(a)))
        onp.testing.assert_allclose(a @ v, v * w[..., None, :], 1e-8, 1e-8)


@pytest.mark.parametrize(
    "call, shapes",
    [
        (lambda L, a: L.svd(a), [(2, 0, 2, 2), (2, 0, 2), (2, 0, 2, 3)]),
        (lambda L, a: L.svd(a[..., :0, :]), [(2, 0, 0, 0), (2, 0, 0), (2, 0, 0, 3)]),
        (lambda L, a: L.pinv(a), [(2, 0, 3, 2)]),
        (lambda L, a: L.eigh(a[..., :2]), [(2, 0, 2), (2, 0, 2, 2)]),
        (lambda L, a: L.eig(a[..., :2]), [(2, 0, 2), (2, 0, 2, 2)]),
        (lambda L, a: L.inv(a[..., :2]), [(2, 0, 2, 2)]),
        (lambda L, a: L.det(a[..., :2]), [(2, 0)]),
        (lambda L, a: L.cholesky(a[..., :2]), [(2, 0, 2, 2)]),
        (lambda L, a: L.solve(a[..., :2], a), [(2, 0, 2, 3)]),
        (lambda L, a: L.norm(a), [()]),
        (lambda L, a: L.norm(a, axis=(2, 3)), [(2, 0)]),
    ],
)
def test_no_matrices(call, shapes):
    found = call(mx.np.linalg, mx.nd.zeros((2, 0, 2, 3)).as_np_ndarray())
    assert [x.shape for x in (found if isinstance(found, (list, tuple)) else [found])] == shapes


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda L: L.eig(array([[0.0, 1], [-1, 0]])), "Complex eigvals is unsupported"),
        (lambda L: L.solve(array([[1.0, 1], [1, 1]]), array([1.0, 2])), "exactly singular"),
        (lambda L: L.cholesky(array([[-1.0]])), "not positive definite"),
        (lambda L: L.svd(array(random(3, 2))), "Input A shape wrong"),
    ],
)
def test_errors(call, words):
    with pytest.raises(MXNetError, match=words):
        call(mx.np.linalg)

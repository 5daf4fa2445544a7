# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: values against NumPy in float64, gradients against differences, hybridized as eager."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError

pytestmark = pytest.mark.optimised

L = mx.nd.linalg


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def positive(*batch, n=4):
    a = random(*batch, n, n, seed=1)
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def triangular(*batch, n=4, lower=True):
    """Well conditioned; the other triangle holds what nobody may read."""
    a = random(*batch, n, n, seed=2) * 0.3 + np.eye(n) * 2
    junk = np.triu(np.full((n, n), np.nan), 1)
    return np.where(np.isnan(junk if lower else junk.T), 99.0, a)


def tri(a, lower=True):
    return np.tril(a) if lower else np.triu(a)


def t(a):
    return np.swapaxes(a, -1, -2)


def packed(a, offset, lower):
    """Lower triangles row by row, upper ones column by column."""
    lower = lower if offset == 0 else offset < 0
    a = a if lower else t(a)
    rows, columns = np.tril_indices(a.shape[-1], -abs(offset))
    return a[..., rows, columns]


CALLS = {
    "gemm": (
        lambda F, a, b, c: F.gemm(a, b, c, transpose_b=True, alpha=2, beta=0.5),
        [random(2, 3, 4), random(2, 5, 4), random(2, 3, 5)],
        lambda a, b, c: 2 * a @ t(b) + 0.5 * c,
    ),
    "gemm axis": (
        lambda F, a, b, c: F.gemm(a, b, c, axis=0),
        [random(3, 2, 4), random(4, 2, 5), random(3, 2, 5)],
        lambda a, b, c: np.einsum("ibk,kbj->ibj", a, b) + c,
    ),
    "gemm2": (
        lambda F, a, b: F.gemm2(a, b, transpose_a=True, alpha=3),
        [random(4, 3), random(4, 5)],
        lambda a, b: 3 * a.T @ b,
    ),
    "syrk": (lambda F, a: F.syrk(a, alpha=2), [random(2, 3, 4)], lambda a: 2 * a @ t(a)),
    "syrk transposed": (lambda F, a: F.syrk(a, transpose=True), [random(3, 4)], lambda a: a.T @ a),
    "trmm": (lambda F, a, b: F.trmm(a, b, alpha=2), [triangular(2), random(2, 4, 3)], lambda a, b: 2 * tri(a) @ b),
    "trmm right": (
        lambda F, a, b: F.trmm(a, b, rightside=True, transpose=True, lower=False),
        [triangular(lower=False), random(3, 4)],
        lambda a, b: b @ tri(a, False).T,
    ),
    "trsm": (
        lambda F, a, b: F.trsm(a, b, alpha=2),
        [triangular(2), random(2, 4, 3)],
        lambda a, b: 2 * np.linalg.solve(tri(a), b),
    ),
    "trsm upper": (
        lambda F, a, b: F.trsm(a, b, lower=False),
        [triangular(lower=False), random(4, 3)],
        lambda a, b: np.linalg.solve(tri(a, False), b),
    ),
    "trsm right": (
        lambda F, a, b: F.trsm(a, b, rightside=True, transpose=True),
        [triangular(), random(3, 4)],
        lambda a, b: b @ np.linalg.inv(tri(a).T),
    ),
    "potrf": (lambda F, a: F.potrf(a), [positive(2)], np.linalg.cholesky),
    "potri": (lambda F, a: F.potri(a), [triangular(2)], lambda a: np.linalg.inv(tri(a) @ t(tri(a)))),
    "inverse": (lambda F, a: F.inverse(a), [positive(2)], np.linalg.inv),
    "det": (lambda F, a: F.det(a), [random(2, 3, 3)], np.linalg.det),
    "det of one": (lambda F, a: F.det(a), [random(3, 3)], lambda a: np.linalg.det(a)[None]),
    "slogdet": (lambda F, a: F.slogdet(a), [random(2, 3, 3)], lambda a: list(np.linalg.slogdet(a))),
    "sumlogdiag": (
        lambda F, a: F.sumlogdiag(a),
        [positive(2)],
        lambda a: np.log(np.diagonal(a, axis1=-2, axis2=-1)).sum(-1),
    ),
    **{
        f"extractdiag {k}": (
            lambda F, a, k=k: F.extractdiag(a, offset=k),
            [random(2, 4, 4)],
            lambda a, k=k: np.diagonal(a, k, -2, -1),
        )
        for k in (0, 1, -2)
    },
    **{
        f"makediag {k}": (lambda F, a, k=k: F.makediag(a, offset=k), [random(3)], lambda a, k=k: np.diag(a, k))
        for k in (0, 1, -2)
    },
    **{
        f"extracttrian {k} {low}": (
            lambda F, a, k=k, low=low: F.extracttrian(a, offset=k, lower=low),
            [random(2, 5, 5)],
            lambda a, k=k, low=low: packed(a, k, low),
        )
        for k, low in ((0, True), (0, False), (1, True), (-2, True))
    },
    **{
        f"maketrian {k} {low}": (
            lambda F, a, k=k, low=low: F.extracttrian(F.maketrian(a, offset=k, lower=low), offset=k, lower=low),
            [random(2, 6)],
            lambda a: a,
        )
        for k, low in ((0, True), (0, False), (1, True), (-2, True))
    },
}
calls = pytest.mark.parametrize("name", CALLS)


def as_list(y):
    return list(y) if isinstance(y, (list, tuple)) else [y]


class Net(mx.gluon.HybridBlock):
    """A function of ``linalg`` as a block."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F.linalg, *args)


@calls
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values(name, dtype):
    function, inputs, oracle = CALLS[name]
    arrays = [mx.nd.array(x, dtype=dtype) for x in inputs]
    want = as_list(oracle(*inputs))
    net = Net(function)
    net.hybridize()
    eager = as_list(function(L, *arrays))
    for got in (eager, as_list(net(*arrays)), as_list(net(*arrays))):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert g.dtype is getattr(np, dtype) and g.shape == w.shape
            np.testing.assert_allclose(g.asnumpy(), w, *((1e-10, 1e-10) if dtype == "float64" else (3e-4, 3e-4)))


def slope(function, inputs, directions, weights, step=1e-5):
    """Central difference of the weighted results along a direction."""

    def at(s):
        out = as_list(function(L, *[mx.nd.array(x + s * d, dtype="float64") for x, d in zip(inputs, directions)]))
        return sum(float((y.asnumpy() * w).sum()) for y, w in zip(out, weights, strict=True))

    return (at(step) - at(-step)) / (2 * step)


def gradients(function, inputs, weights, create_graph=False):
    arrays = [mx.nd.array(x, dtype="float64") for x in inputs]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        out = as_list(function(L, *arrays))
        heads = [y * mx.nd.array(w, dtype="float64") for y, w in zip(out, weights, strict=True)]
        total = sum(h.sum() for h in heads)
    return arrays, autograd.grad(total, arrays, create_graph=create_graph, retain_graph=True)


def symmetric(name, x, d):
    """Directions within what an operator takes to be symmetric."""
    return (d + t(d)) / 2 if name in ("potrf", "syevd") else d


FACTORISATIONS = {
    "gelqf": (lambda F, a: F.gelqf(a), [random(2, 3, 5)]),
    "syevd": (lambda F, a: F.syevd(a), [positive(2)]),
}
EVERY = {**{k: v[:2] for k, v in CALLS.items()}, **FACTORISATIONS}


@pytest.mark.parametrize("name", EVERY)
def test_gradient(name):
    function, inputs = EVERY[name]
    outputs = as_list(function(L, *[mx.nd.array(x, dtype="float64") for x in inputs]))
    weights = [random(*y.shape, seed=3 + k) for k, y in enumerate(outputs)]
    if name == "slogdet":
        weights[0][...] = 0  # no gradient passes through the sign
    directions = [symmetric(name, x, random(*x.shape, seed=9)) for x in inputs]
    _, grads = gradients(function, inputs, weights)
    got = sum(float((g.asnumpy() * d).sum()) for g, d in zip(grads, directions, strict=True))
    want = slope(function, inputs, directions, weights)
    assert abs(got - want) <= 1e-6 * (1 + abs(want))


@pytest.mark.parametrize(
    "name", ["trsm", "trsm right", "potri", "inverse", "det", "slogdet", "potrf", "gelqf", "syevd"]
)
def test_second_order(name):
    """The gradient's own derivative against differences of the gradient."""
    function, inputs = EVERY[name]
    outputs = as_list(function(L, *[mx.nd.array(x, dtype="float64") for x in inputs]))
    weights = [random(*y.shape, seed=3 + k) for k, y in enumerate(outputs)]
    if name == "slogdet":
        weights[0][...] = 0
    turns = [symmetric(name, x, random(*x.shape, seed=20)) for x in inputs]
    directions = [symmetric(name, x, random(*x.shape, seed=30)) for x in inputs]
    arrays = [mx.nd.array(x, dtype="float64") for x in inputs]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        out = as_list(function(L, *arrays))
        total = sum((y * mx.nd.array(w, dtype="float64")).sum() for y, w in zip(out, weights, strict=True))
        first = autograd.grad(total, arrays, create_graph=True, retain_graph=True)
        projected = sum((g * mx.nd.array(d, dtype="float64")).sum() for g, d in zip(first, turns, strict=True))
    projected.backward()
    got = sum(float((a.grad.asnumpy() * d).sum()) for a, d in zip(arrays, directions, strict=True))

    def at(s):
        moved = [x + s * d for x, d in zip(inputs, directions, strict=True)]
        _, g = gradients(function, moved, weights)
        return sum(float((x.asnumpy() * d).sum()) for x, d in zip(g, turns, strict=True))

    want = (at(1e-5) - at(-1e-5)) / 2e-5
    assert abs(got - want) <= 2e-6 * (1 + abs(want))


@pytest.mark.parametrize("name", EVERY)
def test_hybridized_gradient(name):
    function, inputs = EVERY[name]
    found = []
    for hybrid in (False, True):
        net = Net(function)
        net.hybridize(hybrid)
        arrays = [mx.nd.array(x, dtype="float64") for x in inputs]
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            out = as_list(net(*arrays))
        autograd.backward(out, [mx.nd.array(random(*y.shape, seed=4), dtype="float64") for y in out])
        found.append([a.grad.asnumpy() for a in arrays])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, 1e-9, 1e-9)


def test_factorisations():
    a = random(2, 3, 5)
    q, low = (x.asnumpy() for x in L.gelqf(mx.nd.array(a, dtype="float64")))
    np.testing.assert_allclose(low @ q, a, atol=1e-12)
    np.testing.assert_allclose(q @ t(q), np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)
    assert not np.triu(low, 1).any()
    s = positive(2)
    u, values = (x.asnumpy() for x in L.syevd(mx.nd.array(s, dtype="float64")))
    np.testing.assert_allclose(t(u) @ (values[..., None] * u), s, atol=1e-11)
    assert (np.diff(values) >= 0).all()
    largest = np.take_along_axis(u, np.abs(u).argmax(-1)[..., None], -1)
    assert (largest > 0).all()


def test_only_the_lower_triangle_counts():
    a = positive()
    junk = np.where(np.triu(np.ones_like(a), 1) > 0, 77.0, a)
    for f in (lambda x: L.potrf(x), lambda x: L.syevd(x)[1]):
        want = f(mx.nd.array(a, dtype="float64")).asnumpy()
        np.testing.assert_allclose(f(mx.nd.array(junk, dtype="float64")).asnumpy(), want, atol=1e-12)


def test_potrf_gradient_is_symmetric():
    _, (g,) = gradients(lambda F, a: F.potrf(a), [positive()], [random(4, 4, seed=3)])
    np.testing.assert_allclose(g.asnumpy(), g.asnumpy().T, atol=1e-14)


def test_det_of_singular_matrices():
    a = np.stack([np.ones((3, 3)), positive(n=3)])
    x = mx.nd.array(a, dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = L.det(x)
    y.backward()
    assert y.asnumpy()[0] == 0 and not x.grad.asnumpy()[0].any()
    np.testing.assert_allclose(x.grad.asnumpy()[1], np.linalg.det(a[1]) * np.linalg.inv(a[1]).T, rtol=1e-10)
    sign, log = L.slogdet(x)
    assert sign.asnumpy()[0] == 0 and log.asnumpy()[0] == -np.inf


def test_large_triangular_systems_are_split():
    n = 150
    a = np.tril(random(n, n) * 0.05) + np.eye(n) * 2
    b = random(n, 3)
    got = L.trsm(mx.nd.array(a, dtype="float64"), mx.nd.array(b, dtype="float64"))
    np.testing.assert_allclose(got.asnumpy(), np.linalg.solve(a, b), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: L.potrf(-mx.nd.array(positive())), "not positive definite"),
        (lambda: L.potrf(mx.nd.ones((2, 3))), "No square matrix as input to potrf"),
        (lambda: L.potrf(mx.nd.ones((2, 2), dtype="float16")), "32-bit and 64-bit"),
        (lambda: L.inverse(mx.nd.ones((2, 2))), "non-convertible"),
        (lambda: L.gelqf(mx.nd.ones((3, 2))), "Last dimension must be >="),
        (lambda: L.gemm2(mx.nd.ones((2, 3)), mx.nd.ones((2, 3))), "Incompatible matrix dimensions"),
        (lambda: L.gemm2(mx.nd.ones((2, 3)), mx.nd.ones((3, 2)), axis=1), "Invalid row axis"),
        (lambda: L.maketrian(mx.nd.ones(5)), "invalid dimension for the last axis"),
        (lambda: L.extractdiag(mx.nd.ones((3, 3)), offset=4), "Illegal offset 4"),
        (lambda: L.trsm(mx.nd.ones((2, 2)), mx.nd.ones((3, 2))), "Incompatible matrix dimensions"),
    ],
)
def test_errors(call, message):
    with pytest.raises(MXNetError, match=message):
        call().wait_to_read()


def test_library_steps_are_explained():
    net = Net(lambda F, a: F.potrf(a * 2) + 1)
    net.hybridize()
    x = mx.nd.array(positive())
    net(x)
    assert "cholesky" in str(net.explain(x))


class WithoutSolver:
    """CuPy where cuSOLVER is not installed."""

    class Solver:
        def __getattr__(self, name):
            raise ImportError('Failure finding "libcusolver.so.11": No such file: libcusolver.so.11')

    def __getattr__(self, name):
        return WithoutSolver.Solver() if name == "linalg" else getattr(np, name)


@pytest.mark.parametrize("name", ["cholesky", "inverse", "inverse_or_zero", "det", "slogdet", "lq", "eigh"])
def test_a_gpu_without_cusolver(name):
    from hybridgpu.compiler.ir.types import tensor_type
    from hybridgpu.compiler.primitives import TABLE
    from hybridgpu.core.dtypes import f32

    prim, square = TABLE[name], tensor_type((3, 3), f32)
    with pytest.raises(MXNetError, match=r'cuSOLVER.*Failure finding "libcusolver.so.11"') as caught:
        prim.evaluate(WithoutSolver(), [np.eye(3, dtype=np.float32)], {}, prim.infer([square], {}))
    assert "pip install nvidia-cusolver-cu12" in str(caught.value)

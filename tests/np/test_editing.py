# SPDX-License-Identifier: Apache-2.0
"""np.pad, insert, delete, unique, percentile, windows, polynomials: values and gradients against NumPy."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd


@pytest.fixture(autouse=True)
def _numpy_semantics():
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def array(values, dtype="float64"):
    return mx.nd.array(onp.asarray(values, dtype), dtype=dtype).as_np_ndarray()


def x(*shape, seed=0):
    return onp.random.default_rng(seed).normal(size=shape)


def whole(*values):
    return onp.array(values, "int64")


#: name -> (function of an np module, arrays); NumPy's own function is the oracle
LINEAR = {
    "pad": (lambda n, a: n.pad(a, ((1, 2), (0, 3))), [x(2, 3)]),
    "pad with a number": (lambda n, a: n.pad(a, ((1, 2), (0, 3)), constant_values=1.5), [x(2, 3)]),
    "pad one axis": (lambda n, a: n.pad(a, ((1, 2),)), [x(3)]),
    **{
        f"pad {mode}": (lambda n, a, m=mode: n.pad(a, ((4, 5), (1, 3)), mode=m), [x(3, 2)])
        for mode in ("edge", "reflect", "symmetric", "maximum", "minimum")
    },
    "pad reflect of one element": (lambda n, a: n.pad(a, ((2, 2),), mode="reflect"), [x(1)]),
    "insert a number": (lambda n, a: n.insert(a, 1, 5, axis=1), [x(2, 3)]),
    "insert flat": (lambda n, a, v: n.insert(a, -1, v), [x(2, 3), x(2, seed=1)]),
    "insert a row": (lambda n, a, v: n.insert(a, 2, v, axis=0), [x(3, 2), x(2, seed=1)]),
    "insert a column": (lambda n, a, v: n.insert(a, 1, v, axis=-1), [x(3, 2), x(3, seed=1)]),
    "insert by slice": (lambda n, a, v: n.insert(a, slice(3, None, -1), v, axis=1), [x(2, 4), x(2, 4, seed=1)]),
    "insert a number by slice": (lambda n, a: n.insert(a, slice(0, 4, 2), 7, axis=1), [x(2, 4)]),
    "insert by positions": (
        lambda n, a, v: n.insert(a, at(n, 1, 1, 0, -1), v, axis=0),
        [x(3, 2), x(4, 2, seed=1)],
    ),
    "insert at one position": (lambda n, a, v: n.insert(a, at(n, 1), v), [x(3), x(2, seed=1)]),
    "delete one": (lambda n, a: n.delete(a, -1, axis=1), [x(2, 3)]),
    "delete flat": (lambda n, a: n.delete(a, 4), [x(2, 3)]),
    "delete by slice": (lambda n, a: n.delete(a, slice(None, None, 2), axis=0), [x(5, 2)]),
    "delete by positions": (lambda n, a: n.delete(a, at(n, 0, 2, 2), axis=1), [x(2, 4)]),
    "ediff1d": (lambda n, a: n.ediff1d(a), [x(2, 3)]),
    "ediff1d with ends": (lambda n, a, e, s: n.ediff1d(a, e, s), [x(4), x(2, seed=1), x(1, seed=2)]),
    "resize": (lambda n, a: n.resize(a, (3, 5)), [x(2, 3)]),
    "polyval, coefficients": (lambda n, p: n.polyval(p, like(n, x(2, 3, seed=1))), [x(4)]),
}
CONSTANT = {
    **{
        f"percentile {mode}": (lambda n, a, m=mode: percentile(n, a, 37.5, (0, 2), m), [x(2, 3, 7)])
        for mode in ("linear", "lower", "higher", "nearest", "midpoint")
    },
    "percentiles": (lambda n, a: n.percentile(a, like(n, [0, 12.5, 100]), axis=1), [x(3, 7)]),
    "quantile": (lambda n, a: n.quantile(a, 0.3, keepdims=True), [x(3, 7)]),
    "quantiles": (lambda n, a: n.quantile(a, like(n, [0.1, 0.9])), [x(3, 7)]),
    "unique": (lambda n, a: n.unique(a), [onp.round(x(20) * 2)]),
    "unique rows": (lambda n, a: n.unique(a, axis=0, return_counts=True)[1], [onp.round(x(30, 2))]),
    "histogram": (lambda n, a: n.histogram(a, bins=5, range=(-2, 2))[0], [x(50)]),
    "histogram of edges": (lambda n, a: n.histogram(a, bins=like(n, [-2, -1, 0, 2]))[0], [x(50)]),
    "histogram of truth values": (
        lambda n, a: n.histogram(a.astype("uint8") if n is onp else a, bins=10, range=(-1, 3))[0],
        [x(50) > 0],
    ),
    "nonzero": (lambda n, a: n.nonzero(a)[1], [onp.round(x(4, 5))]),
    **{
        f"{w} {m}": (lambda n, w=w, m=m: getattr(n, w)(m), [])
        for w in ("blackman", "hamming", "hanning")
        for m in (0, 1, 2, 7)
    },
}


def like(n, values):
    return onp.asarray(values, "float64") if n is onp else array(values)


def at(n, *positions):
    return whole(*positions) if n is onp else array(positions, "int64")


def percentile(n, a, q, axis, mode):
    return n.percentile(a, q, axis, **{"method" if n is onp else "interpolation": mode})


@pytest.mark.parametrize("name", [*LINEAR, *CONSTANT])
def test_value(name):
    call, inputs = {**LINEAR, **CONSTANT}[name]
    got = call(mx.np, *map(array, inputs)).asnumpy()
    want = call(onp, *inputs)
    assert got.shape == want.shape
    onp.testing.assert_allclose(got, want, 1e-6 if not inputs else 1e-12, 1e-7 if not inputs else 1e-12)


@pytest.mark.parametrize("name", LINEAR)
def test_gradient(name):
    call, inputs = LINEAR[name]
    given = [array(v) for v in inputs]
    for v in given:
        v.attach_grad()
    with autograd.record():
        y = call(mx.np, *given)
    weights = x(*y.shape, seed=5)
    y.backward(array(weights))
    step = 1e-6
    for k, v in enumerate(inputs):
        direction = x(*v.shape, seed=6 + k)
        ends = [
            (call(onp, *(u + s * step * direction if j == k else u for j, u in enumerate(inputs))) * weights).sum()
            for s in (1, -1)
        ]
        onp.testing.assert_allclose(
            (given[k].grad.asnumpy() * direction).sum(), (ends[0] - ends[1]) / (2 * step), 1e-6, 1e-7
        )


def test_polynomial_gradient_by_its_argument():
    p, v = array([2.0, -1.0, 3.0]), array([0.5, 2.0])
    v.attach_grad()
    with autograd.record():
        y = mx.np.polyval(p, v)
    y.backward()
    onp.testing.assert_allclose(v.grad.asnumpy(), 4 * v.asnumpy() - 1)


def test_percentile_of_nan_and_of_nothing():
    a = onp.array([[1.0, onp.nan, 3.0], [3.0, 2.0, 1.0]])
    onp.testing.assert_array_equal(mx.np.percentile(array(a), 50, axis=1).asnumpy(), [onp.nan, 2.0])
    assert onp.isnan(mx.np.percentile(array(onp.zeros((0,))), 50).asnumpy())


def test_counts():
    a = array([3, 1, 1, 0], "int32")
    onp.testing.assert_array_equal(mx.np.bincount(a, minlength=6).asnumpy(), [1, 2, 0, 1, 0, 0])
    onp.testing.assert_array_equal(mx.np.bincount(a, array([1.0, 2, 3, 4])).asnumpy(), [4, 5, 0, 1])


def test_shared_memory():
    a = array([1.0, 2.0, 3.0])
    assert mx.np.shares_memory(a, a) is True and mx.np.may_share_memory(a, a[1:]) is True
    assert mx.np.shares_memory(a, a.copy()) is False


class InsertNumber(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x, positions):
        return F.np.insert(x, positions, 3, axis=1)


def test_a_number_at_positions_that_are_an_input():
    """The operator has no input for the number: positions are its second, not its third."""
    block, arguments = InsertNumber(), (mx.np.array(x(2, 4)), mx.np.array([1, 2], dtype="int64"))
    wanted = onp.insert(x(2, 4), [1, 2], 3, axis=1)
    for _ in range(2):
        onp.testing.assert_array_equal(block(*arguments).asnumpy(), wanted)
        block.hybridize()

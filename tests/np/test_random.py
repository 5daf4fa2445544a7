# SPDX-License-Identifier: Apache-2.0
"""np.random and npx.random: distribution functions, streams, gradients of the formulas, hybridized as eager."""

from __future__ import annotations

import math

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError

N = 20000


@pytest.fixture(autouse=True)
def _numpy_semantics():
    with mx.util.np_shape(True), mx.util.np_array(True):
        mx.random.seed(3)
        yield


def array(values, dtype="float32"):
    return mx.nd.array(onp.asarray(values, dtype), dtype=dtype).as_np_ndarray()


def from_density(density, low, high):
    """A distribution function, up to a factor, from a density that is 0 outside an interval."""
    x = onp.linspace(low, high, 200001)[1:-1]
    total = onp.cumsum(density(x))
    return lambda v: onp.interp(v, x, total / total[-1])


def gamma(shape, scale):
    """Substituted, so that the density is finite at 0."""
    of_root = from_density(lambda t: t ** (4 * shape - 1) * onp.exp(-(t**4) / scale), 0, (60 * scale) ** 0.25)
    return lambda v: of_root(v**0.25)


def normal(v):
    return onp.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in v])


#: function -> (parameters, distribution function)
CONTINUOUS = {
    "uniform": ((-1.0, 3.0), lambda v: (v + 1) / 4),
    "normal": ((1.0, 2.0), lambda v: normal((v - 1) / 2)),
    "gamma": ((0.5, 2.0), gamma(0.5, 2.0)),
    "beta": ((2.0, 3.0), from_density(lambda x: x * (1 - x) ** 2, 0, 1)),
    "chisquare": ((3.0,), gamma(1.5, 2.0)),
    "lognormal": ((0.5, 0.7), lambda v: normal((onp.log(v) - 0.5) / 0.7)),
    "logistic": ((1.0, 2.0), lambda v: 1 / (1 + onp.exp(-(v - 1) / 2))),
    "gumbel": ((1.0, 2.0), lambda v: onp.exp(-onp.exp(-(v - 1) / 2))),
    "exponential": ((2.0,), lambda v: 1 - onp.exp(-v / 2)),
    "rayleigh": ((2.0,), lambda v: 1 - onp.exp(-(v**2) / 8)),
    "weibull": ((1.5,), lambda v: 1 - onp.exp(-(v**1.5))),
    "pareto": ((2.5,), lambda v: 1 - (1 + v) ** -2.5),
    "power": ((2.5,), lambda v: v**2.5),
}
#: how an array parameter enters MXNet's gradient: (draws, parameters) -> one derivative a parameter, where MXNet has any
DERIVATIVES = {
    "normal": lambda y, m, s: [onp.ones_like(y), (y - m) / s],
    "lognormal": lambda y, m, s: [y, y * (onp.log(y) - m) / s],
    "logistic": lambda y, m, s: [onp.ones_like(y), (y - m) / s],
    "gumbel": lambda y, m, s: [onp.ones_like(y), (y - m) / s],
    "exponential": lambda y, s: [y / s],
    "rayleigh": lambda y, s: [y / s],
    "weibull": lambda y, a: [-y * onp.log(y) / a],
    "pareto": lambda y, a: [-onp.log1p(y) * (1 + y) / a],
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name):
    parameters, expected = CONTINUOUS[name]
    function = getattr(mx.np.random, name)
    numbers = function(*parameters, size=(N,))
    arrays = function(*map(array, parameters), size=(N,))
    mixed = function(*parameters[:-1], array([parameters[-1]] * N), size=(N,))
    for drawn in (numbers, arrays, mixed):
        assert type(drawn) is mx.np.ndarray and drawn.shape == (N,) and drawn.dtype == onp.float32
        ordered = onp.sort(drawn.asnumpy().astype("float64"))
        # exceeded once in a thousand draws
        assert onp.abs(expected(ordered) - (onp.arange(N) + 0.5) / N).max() < 1.95 / math.sqrt(N)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_seed_says_what_is_drawn(name):
    function, parameters = getattr(mx.np.random, name), CONTINUOUS[name][0]
    rows = []
    for _ in range(2):
        mx.random.seed(11)
        rows.append([function(*parameters, size=(5,)).asnumpy() for _ in range(2)])
    assert (rows[0][0] == rows[1][0]).all() and (rows[0][1] == rows[1][1]).all()
    assert (rows[0][0] != rows[0][1]).any()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradient(name):
    parameters = CONTINUOUS[name][0]
    given = [array(onp.full((2, 1) if k else (3,), p)) for k, p in enumerate(parameters)]
    for x in given:
        x.attach_grad()
    with autograd.record():
        y = getattr(mx.np.random, name)(*given, size=(2, 3))
    y.backward()
    drawn = y.asnumpy().astype("float64")
    found = [x.grad.asnumpy() for x in given]
    if name not in DERIVATIVES:
        assert all((g == 0).all() for g in found)
        return
    for g, want in zip(found, DERIVATIVES[name](drawn, *parameters), strict=True):
        onp.testing.assert_allclose(g, want.sum(0 if g.shape == (3,) else 1).reshape(g.shape), 1e-3, 1e-4)


def counts(drawn, n):
    return onp.bincount(drawn.asnumpy().ravel().astype("int64"), minlength=n)


def likely(observed, probabilities):
    """The statistic of chi squared is below what it exceeds once in ten thousand draws (at most 4 degrees of freedom)."""
    expected = onp.asarray(probabilities) * observed.sum()
    assert ((observed - expected) ** 2 / expected).sum() < 23.5


def test_integers():
    likely(counts(mx.np.random.randint(5, size=(N,)), 5), onp.full(5, 0.2))
    assert mx.np.random.randint(-3, 4, size=(N,), dtype="int32").asnumpy().min() == -3
    likely(counts(mx.np.random.choice(4, (N,)), 4), onp.full(4, 0.25))


def test_weighted_choice():
    p = [0.1, 0.2, 0.3, 0.4]
    likely(counts(mx.np.random.choice(4, (N,), p=array(p)), 4), p)
    items = mx.np.random.choice(array([10, 20, 30, 40]), (N,), p=array(p)).asnumpy()
    likely(onp.bincount((items / 10).astype(int) - 1, minlength=4), p)


@pytest.mark.parametrize("p", [None, [0.4, 0.1, 0.2, 0.1, 0.2]])
def test_choice_without_replacement(p):
    firsts = []
    for _ in range(400):
        drawn = mx.np.random.choice(5, 4, replace=False, p=None if p is None else array(p)).asnumpy()
        assert len(set(drawn)) == 4
        firsts.append(drawn[0])
    likely(onp.bincount(firsts, minlength=5), onp.full(5, 0.2) if p is None else p)
    with pytest.raises(MXNetError, match="larger sample than population"):
        mx.np.random.choice(5, 7, replace=False)


@pytest.mark.parametrize("of_array", [False, True])
def test_multinomial(of_array):
    p = [0.2, 0.3, 0.5]
    drawn = mx.np.random.multinomial(20, array(p) if of_array else p, size=(500, 2))
    assert drawn.shape == (500, 2, 3) and (drawn.asnumpy().sum(-1) == 20).all()
    likely(drawn.asnumpy().sum((0, 1)), p)
    variance = drawn.asnumpy()[..., 0].var()
    assert abs(variance - 20 * 0.2 * 0.8) < 0.5


def test_bernoulli():
    draw = mx.npx.random.bernoulli
    for drawn in (draw(0.3, size=(N,)), draw(array([0.3] * N)), draw(logit=onp.log(0.3 / 0.7), size=(N,))):
        likely(counts(drawn, 2), [0.7, 0.3])


def test_multivariate_normal():
    mean, cov = [1.0, -2.0], [[2.0, 0.6], [0.6, 1.0]]
    drawn = mx.np.random.multivariate_normal(array(mean), array(cov), size=(N,)).asnumpy()
    onp.testing.assert_allclose(drawn.mean(0), mean, atol=0.05)
    onp.testing.assert_allclose(onp.cov(drawn.T), cov, atol=0.08)


def test_shuffle_is_in_place():
    x = array(onp.arange(50))
    assert mx.np.random.shuffle(x) is None
    assert (x.asnumpy() != onp.arange(50)).any() and (onp.sort(x.asnumpy()) == onp.arange(50)).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda r, npx: r.normal(array([0.0, 0.0]), array([1.0, -1.0])),
        lambda r, npx: r.exponential(array([-1.0])),
        lambda r, npx: r.gamma(array([0.0]), 1.0),
        lambda r, npx: npx.bernoulli(array([1.5])),
        lambda r, npx: r.weibull(array([-1.0])),
        lambda r, npx: r.pareto(-1),
    ],
)
def test_parameters_that_do_not_fit(call):
    with pytest.raises(ValueError, match="expect|scale < 0"):
        call(mx.np.random, mx.npx.random)


@pytest.mark.parametrize(
    "call",
    [
        lambda F, x: F.np.random.normal(x, 2.0),
        lambda F, x: F.np.random.uniform(0.0, x, size=(3, 4)),
        lambda F, x: F.npx.random.normal_n(x, 1.0, batch_shape=(2,)),
        lambda F, x: F.np.random.choice(x, size=(6,)),
        lambda F, x: F.np.random.gamma(2.0, x),
        lambda F, x: F.npx.random.bernoulli(logit=x),
        lambda F, x: x + F.np.random.randint(0, 5, size=(4,), dtype="int32"),
    ],
    ids=["normal", "uniform", "normal_n", "choice", "gamma", "bernoulli", "randint"],
)
def test_hybridized_calls_draw_as_eager_ones(call):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return call(F, x)

    net, x, found = Net(), array([0.5, 1.0, 2.0, 3.0]), []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        mx.random.seed(7)
        found.append([net(x).asnumpy() for _ in range(3)])
    for eager, hybrid in zip(*found, strict=True):
        assert eager.shape == hybrid.shape and eager.dtype == hybrid.dtype
    assert any((found[1][0] != later).any() for later in found[1][1:])

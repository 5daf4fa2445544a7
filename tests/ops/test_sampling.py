# SPDX-License-Identifier: Apache-2.0
"""Random numbers: moments and distribution functions at fixed seeds, shapes and types, reproducibility.

Kolmogorov's distance of n numbers from their distribution exceeds 1.95 / sqrt(n) once in a thousand
draws; the seeds are fixed, so a test that passes once passes always.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError

nd = mx.nd
N = 20000


def normal_cdf(x):
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])


def gamma_cdf(shape, scale):
    """Of the gamma distribution, by the series of the incomplete gamma function."""

    def one(v):
        if v <= 0:
            return 0.0
        v /= scale
        term = total = 1 / shape
        k = 0
        while term > 1e-16 * total and k < 5000:
            k += 1
            term *= v / (shape + k)
            total += term
        return min(1.0, total * math.exp(-v + shape * math.log(v) - math.lgamma(shape)))

    return lambda x: np.array([one(v) for v in x])


#: word, parameters, mean, variance, distribution function or None
FAMILIES = [
    ("uniform", {"low": -2, "high": 3}, 0.5, 25 / 12, lambda x: (x + 2) / 5),
    ("normal", {"loc": 0, "scale": 1}, 0, 1, normal_cdf),
    ("normal", {"loc": 3, "scale": 0.5}, 3, 0.25, lambda x: normal_cdf((x - 3) / 0.5)),
    ("exponential", {"scale": 0.4}, 0.4, 0.16, lambda x: 1 - np.exp(-x / 0.4)),
    ("gamma", {"alpha": 0.3, "beta": 2}, 0.6, 1.2, gamma_cdf(0.3, 2)),
    ("gamma", {"alpha": 1, "beta": 1}, 1, 1, gamma_cdf(1, 1)),
    ("gamma", {"alpha": 9, "beta": 0.5}, 4.5, 2.25, gamma_cdf(9, 0.5)),
    ("poisson", {"lam": 0.7}, 0.7, 0.7, None),
    ("poisson", {"lam": 9.9}, 9.9, 9.9, None),
    ("poisson", {"lam": 10.1}, 10.1, 10.1, None),
    ("poisson", {"lam": 300}, 300, 300, None),
    ("negative_binomial", {"k": 3, "p": 0.4}, 4.5, 11.25, None),
    ("generalized_negative_binomial", {"mu": 2, "alpha": 0.3}, 2, 3.2, None),
    ("generalized_negative_binomial", {"mu": 2, "alpha": 0}, 2, 2, None),
]
families = pytest.mark.parametrize(
    ("word", "parameters", "mean", "variance", "cdf"), FAMILIES, ids=[f"{f[0]}{tuple(f[1].values())}" for f in FAMILIES]
)


def check_sample(x, mean, variance, cdf):
    x = x.astype("float64").reshape(-1)
    assert abs(x.mean() - mean) < 4 * math.sqrt(variance / x.size)
    assert abs(x.var() - variance) < 0.15 * variance
    if cdf is not None:
        ordered = np.sort(x)
        distance = np.abs(cdf(ordered) - (np.arange(x.size) + 0.5) / x.size).max()
        assert distance < 1.95 / math.sqrt(x.size)


@families
def test_numbers_as_parameters(word, parameters, mean, variance, cdf):
    mx.random.seed(11)
    x = getattr(nd.random, word)(**parameters, shape=(N,))
    assert x.shape == (N,) and x.dtype is np.float32
    check_sample(x.asnumpy(), mean, variance, cdf)


@families
def test_arrays_as_parameters(word, parameters, mean, variance, cdf):
    mx.random.seed(12)
    arrays = [nd.array([v, v]) for v in parameters.values()]
    x = getattr(nd.random, word)(*arrays, shape=(N // 4, 2))
    assert x.shape == (2, N // 4, 2)
    check_sample(x.asnumpy(), mean, variance, cdf)


@families
def test_hybridized(word, parameters, mean, variance, cdf):
    """A block draws anew at each call, and what a seed begins is the same each time."""

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + getattr(F.random, word)(**parameters, shape=(N,))

    net = Net()
    net.hybridize()
    zero = nd.zeros(N)
    found = []
    for _ in range(2):
        mx.random.seed(13)
        found.append([net(zero).asnumpy() for _ in range(2)])
    assert (found[0][0] != found[0][1]).any()
    np.testing.assert_array_equal(found[0], found[1])
    check_sample(found[0][0], mean, variance, cdf)


def test_probabilities_of_poisson():
    """Each frequency within five standard deviations of its probability."""
    for rate in (0.7, 6.0, 25.0):
        mx.random.seed(3)
        x = nd.random.poisson(rate, shape=(N,)).asnumpy()
        k = np.arange(60)
        p = np.exp(k * math.log(rate) - rate - np.array([math.lgamma(v + 1) for v in k]))
        counts = np.bincount(x.astype(int), minlength=60)[:60]
        assert (np.abs(counts - N * p) <= 5 * np.sqrt(N * p) + 3).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_and_bounds(dtype):
    mx.random.seed(5)
    x = nd.random.uniform(0, 1, shape=(N,), dtype=dtype)
    assert x.dtype is getattr(np, dtype)
    assert 0 <= x.asnumpy().min() and x.asnumpy().max() < 1
    assert nd.random.normal_like(nd.zeros((2, 3), dtype=dtype)).dtype is getattr(np, dtype)
    if dtype == "float64":  # more than 24 bits
        assert len(np.unique(x.asnumpy())) == N


def test_randint():
    mx.random.seed(1)
    x = nd.random.randint(-3, 4, shape=(N,))
    assert x.dtype is np.int32
    counts = np.bincount(x.asnumpy() + 3, minlength=7)
    assert counts.size == 7 and (np.abs(counts - N / 7) < 5 * math.sqrt(N / 7)).all()
    wide = nd.random.randint(0, 1 << 50, shape=(N,), dtype="int64").asnumpy()
    assert wide.min() >= 0 and abs(wide.mean() / 2**49 - 1) < 0.02


def test_multinomial():
    mx.random.seed(2)
    p = nd.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    p.attach_grad()
    with autograd.record():
        x, log = nd.random.multinomial(p, shape=(N,), get_prob=True)
    log.backward()
    assert x.shape == log.shape == (2, N) and x.dtype is np.int32
    host = p.asnumpy()
    for k in range(2):
        counts = np.bincount(x.asnumpy()[k], minlength=3)
        assert (np.abs(counts - N * host[k]) <= 5 * np.sqrt(N * host[k])).all()
        np.testing.assert_allclose(log.asnumpy()[k], np.log(host[k][x.asnumpy()[k]]), rtol=1e-5)
        np.testing.assert_allclose(p.grad.asnumpy()[k], counts / np.maximum(host[k], 1e-9) * (counts > 0), rtol=1e-4)
    assert nd.random.multinomial(p).shape == (2,)
    assert nd.random.multinomial(p[0]).shape == (1,)
    assert nd.random.multinomial(p[0], shape=(3, 2)).shape == (3, 2)
    assert nd.random.multinomial(p, dtype="float64").dtype is np.float64


def test_shuffle():
    mx.random.seed(4)
    x = nd.arange(3000).reshape((1000, 3))
    y = nd.random.shuffle(x).asnumpy()
    assert (y != x.asnumpy()).any()
    np.testing.assert_array_equal(y[np.argsort(y[:, 0])], x.asnumpy())
    firsts = [int(nd.shuffle(nd.arange(4)).asnumpy()[0]) for _ in range(400)]
    assert (np.abs(np.bincount(firsts, minlength=4) - 100) < 45).all()


def test_seeds():
    draws = []
    for seed in (7, 7, 8):
        mx.random.seed(seed)
        draws.append(np.concatenate([nd.random.normal(shape=(5,)).asnumpy(), nd.random.gamma(2, shape=(5,)).asnumpy()]))
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).all()
    assert (nd.random.uniform(shape=(5,)).asnumpy() != nd.random.uniform(shape=(5,)).asnumpy()).all()


def test_gamma_numbers_depend_on_their_own_parameter_only():
    drawn = []
    for others in (0.2, 50):
        mx.random.seed(9)
        drawn.append(nd.random.gamma(nd.array([3, others]), nd.array([1, 1]), shape=(50,)).asnumpy()[0])
    np.testing.assert_array_equal(*drawn)


def test_out_and_context():
    out = nd.zeros((2, 3), dtype="float64")
    assert nd.random.normal(0, 1, out=out) is out and (out.asnumpy() != 0).all()
    for draw in (nd.random.normal, nd.normal, nd.random_poisson):  # as many as it takes
        assert draw(out=out) is out
        assert draw(out=[out])[0] is out
    assert nd.random.normal().shape == nd.random.randint(0, 5).shape == (1,)
    assert nd.random.uniform(shape=2, ctx=mx.cpu(1)).context == mx.cpu(1)
    assert mx.random.normal(0, 1, (2, 3)).shape == (2, 3)
    assert nd.uniform(shape=(2,)).shape == nd.sample_gamma(nd.ones(2), nd.ones(2)).shape == (2,)


def test_symbols():
    s = mx.sym
    assert s.random.uniform().name == "_random_uniform0"
    assert s.random_uniform().name == "random_uniform0"
    assert s.random.normal(s.var("a"), s.var("b")).name == "_sample_normal0"
    assert s.random.multinomial(s.var("a")).list_outputs() == [f"_sample_multinomial0_output{k}" for k in (0, 1)]
    passed_over = s.random.randn(loc=1.0, data=s.ones((2, 3)))  # a Symbol that no input takes
    assert passed_over.list_arguments() == [] and '"shape": "()"' in passed_over.tojson()
    x = s.random.gamma(alpha=2, beta=1, shape=(3, 4))
    first, second = (x.eval()[0].asnumpy() for _ in range(2))
    assert first.shape == (3, 4) and (first != second).all()


def test_densities():
    def value(name, x, *parameters, **kwargs):
        arrays = [nd.array(np.atleast_1d(v)) for v in parameters]
        return getattr(nd, f"random_pdf_{name}")(nd.array(x), *arrays, **kwargs).asnumpy()

    for got, want in [  # recorded
        (value("uniform", [[0.5, 1.5]], 0, 2), [[0.5, 0.5]]),
        (value("normal", [[0.5, 3]], 0, 2, is_log=True), [[-1.6433357, -2.7370858]]),
        (value("gamma", [[0.5, 3]], 1.5, 2), [[0.830215, 0.01370231]]),
        (value("exponential", [[0.5, 3]], 1.5), [[0.70854986, 0.0166635]]),
        (value("poisson", [[0, 3]], 1.5), [[0.22313017, 0.12551072]]),
        (value("negative_binomial", [[0, 3]], 2, 0.3), [[0.09, 0.12348001]]),
        (value("generalized_negative_binomial", [[0, 3]], 2, 0.3), [[0.2087373, 0.14133248]]),
        (value("dirichlet", [[[0.2, 0.3, 0.5]]], [[1, 2, 3]]), [[4.5]]),
    ]:
        np.testing.assert_allclose(got, want, rtol=2e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nd.random.uniform(2, 1, shape=2), MXNetError, "low must be less or equal to high"),
        (lambda: nd.random.normal(0, -1, shape=2), MXNetError, "scale parameter in gaussian has to be positive"),
        (lambda: nd.random.gamma(-1, 1, shape=2), MXNetError, "alpha parameter in gamma"),
        (lambda: nd.random.exponential(-1, shape=2), MXNetError, "lambda parameter in exponential"),
        (lambda: nd.random.poisson(-1, shape=2), MXNetError, "lambda parameter in poisson"),
        (lambda: nd.random.normal(nd.ones(2), 1), AssertionError, "must all have the same type"),
        (lambda: nd.random.normal(nd.ones(2), nd.ones(1)), MXNetError, "_sample_normal inferring shapes failed"),
        (nd.random.randn, MXNetError, "_random_normal inferring shapes failed"),
        (nd.random_normal, MXNetError, "_random_normal inferring shapes failed"),
        (lambda: nd.random.normal("a", "b"), ValueError, "must be either NDArray or numbers"),
        (lambda: nd.random.uniform(shape=2, dtype="int32"), MXNetError, "Invalid Input: 'int32'"),
        (lambda: nd.random.randint(0, 5, shape=2, dtype="int8"), MXNetError, "Invalid Input: 'int8'"),
        (lambda: nd.random.multinomial(nd.ones((2, 2), dtype="int32")), MXNetError, "floating point"),
        (lambda: nd.random.uniform(shape=2, foo=1), MXNetError, "Cannot find argument 'foo'"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()

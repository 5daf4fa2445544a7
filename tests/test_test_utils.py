# SPDX-License-Identifier: Apache-2.0
"""The helpers that programs' own tests use: they must fail when they should."""

from __future__ import annotations

import os

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym
from hybridgpu import test_utils as tu


@pytest.mark.parametrize(
    ("a", "b", "options", "equal"),
    [
        ([1.0], [1.0], {}, True),
        ([1.0], [1.1], {}, False),
        ([1.0], [1.1], {"rtol": 0.2}, True),
        ([1.0], [1.1], {"atol": 0.2}, True),
        ([np.nan], [np.nan], {}, False),
        ([np.nan], [np.nan], {"equal_nan": True}, True),
        ([np.inf], [np.inf], {}, True),
        ([np.inf], [-np.inf], {}, False),
        ([1.0, 2.0], [1.0, np.nan], {}, False),
    ],
)
@pytest.mark.parametrize("kind", [np.array, nd.array])
def test_assert_almost_equal(a, b, options, equal, kind):
    a, b = kind(a), kind(b)
    assert tu.almost_equal(a, b, **options) is equal
    if equal:
        tu.assert_almost_equal(a, b, **options)
    else:
        with pytest.raises(AssertionError, match="exceeds tolerance"):
            tu.assert_almost_equal(a, b, **options)


def test_tolerances_follow_the_element_type():
    one = np.ones(1)
    assert tu.almost_equal(one.astype("float16"), one.astype("float16") * 1.01)
    assert not tu.almost_equal(one, one * 1.001)
    assert tu.get_tols(nd.ones(1), nd.ones(1), None, None) == (1e-4, 1e-3)


def test_numeric_gradient_passes_and_fails():
    x = sym.var("x")
    tu.check_numeric_gradient(sym.tanh(x) * x, [np.random.rand(2, 3)])
    with pytest.raises(AssertionError, match="NUMERICAL_x"):
        tu.check_numeric_gradient(sym.BlockGrad(x) * x, [np.random.rand(2, 3)])
    tu.check_numeric_gradient(x * sym.var("y"), [np.ones(2), np.ones(2)], grad_nodes={"x": "add", "y": "null"})


def test_symbolic_checks_pass_and_fail():
    s = sym.var("a") * sym.var("b")
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    tu.check_symbolic_forward(s, [a, b], [a * b])
    with pytest.raises(AssertionError, match="EXPECTED"):
        tu.check_symbolic_forward(s, [a, b], [a * b + 1])
    for req in ("write", "add"):
        tu.check_symbolic_backward(s, [a, b], [np.ones(2)], [b, a], grad_req=req)
        with pytest.raises(AssertionError, match="BACKWARD"):
            tu.check_symbolic_backward(s, [a, b], [np.ones(2)], [b, b], grad_req=req)
    with pytest.raises(ValueError, match="do not match"):
        tu.check_symbolic_forward(s, {"a": a}, [a])


def test_consistency_between_types():
    s = sym.sigmoid(sym.var("x"))
    entries = [{"ctx": mx.cpu(), "x": (2, 3), "type_dict": {"x": t}} for t in ("float64", "float32", "float16")]
    truth = tu.check_consistency(s, entries, rtol=1e-2, atol=1e-2)
    assert truth["x"].dtype == np.float64


def test_hybridize_consistency():
    def net():
        return mx.gluon.nn.Dense(3, activation="tanh", in_units=4)

    tu.check_gluon_hybridize_consistency(net, [nd.ones((2, 4))])

    class Differs(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + 1 if F is mx.nd else x + 2

    with pytest.raises(AssertionError):
        tu.check_gluon_hybridize_consistency(Differs, [nd.ones((2, 4))])


def test_speed():
    assert tu.check_speed(sym.exp(sym.var("x")), N=2, x=(3, 3)) > 0


def test_environment_is_restored(monkeypatch):
    monkeypatch.setenv("TEST_VARIABLE", "old")
    with tu.environment("TEST_VARIABLE", "new"):
        assert os.environ["TEST_VARIABLE"] == "new"
    with tu.environment({"TEST_VARIABLE": None}):
        assert "TEST_VARIABLE" not in os.environ
    assert os.environ["TEST_VARIABLE"] == "old"


@pytest.mark.parametrize(
    ("x", "degrees", "p"), [(18.307, 10, 0.05), (11.0705, 5, 0.05), (3.8415, 1, 0.05), (5.9915, 2, 0.05), (0, 3, 1)]
)
def test_chi_square_tail(x, degrees, p):
    from hybridgpu.test_utils.statistics import _chi_square_tail

    assert _chi_square_tail(x, degrees) == pytest.approx(p, rel=1e-3)


def test_statistics_accept_and_reject():
    rng = np.random.default_rng(5)
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda q: q, 8)
    tu.verify_generator(lambda n: rng.uniform(size=n), buckets, probs, nsamples=20000)
    with pytest.raises(AssertionError, match="chi-square tests passed"):
        tu.verify_generator(lambda n: rng.uniform(size=n) ** 2, buckets, probs, nsamples=20000)
    assert tu.mean_check(lambda n: rng.normal(size=n), 0, 1, 10000)
    assert not tu.mean_check(lambda n: rng.normal(0.2, 1, size=n), 0, 1, 10000)
    assert not tu.var_check(lambda n: rng.normal(0, 1.2, size=n), 1, 10000)


def test_small_helpers():
    assert tu.same_array((x := nd.ones(3)), x)
    assert not tu.same_array(nd.ones(3), nd.ones(3))
    a = np.arange(24.0).reshape(2, 3, 4)
    assert tu.np_reduce(a, (0, -1), True, np.sum).shape == (1, 3, 1)
    assert tu.collapse_sum_like(a, (3, 1)).shape == (3, 1)
    tu.assert_exception(lambda: nd.ones(2).asscalar(), ValueError)
    with pytest.raises(AssertionError, match="did not raise"):
        tu.assert_exception(lambda: None, ValueError)
    tries = []

    @tu.retry(3)
    def flaky():
        tries.append(1)
        assert len(tries) == 3

    flaky()
    assert tu.same_symbol_structure(sym.var("a") + 1, sym.var("b") + 1)
    assert tu.rand_ndarray((2, 3)).shape == (2, 3)


def test_star_import_brings_what_programs_rely_on():
    names: dict = {}
    exec("from hybridgpu.test_utils import *", names)
    assert {"mx", "np", "assert_almost_equal", "default_context", "use_np", "rnd"} <= set(names)


@pytest.mark.parametrize(("name", "folder"), [(None, None), ("b.txt", None), (None, "c/d"), ("b.txt", "c/d")])
def test_download(name, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "a.txt"
    for text in ("first", "second"):
        source.write_text(text)
        got = tu.download(source.as_uri(), name, folder, overwrite=text == "second")
        assert got == os.path.join(folder or "", name or "a.txt")
        assert (tmp_path / got).read_text() == text
    source.unlink()
    assert tu.download(source.as_uri(), name, folder) == got
    with pytest.raises(RuntimeError, match="Failed downloading"):
        tu.download(source.as_uri(), "e", retries=0)

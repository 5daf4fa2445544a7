# SPDX-License-Identifier: Apache-2.0
"""Functions that MXNet leaves to NumPy and that are operators here: traced, as Symbols, in graphs, and their gradients.

What they give eagerly is recorded, see ``tests/recorded/np_expressions/as_numpy.txt``.
"""

from __future__ import annotations

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon
from hybridgpu.ops.numpy import NP
from hybridgpu.ops.numpy.application import falls_back, is_on_host

np = mx.np

#: (x of (3, 4) with a NaN, y of (3, 4), line of 4 that ascends) -> arrays; NumPy computes the same of NumPy's arrays
VALUES = {
    "isclose": lambda np, x, y, line: np.isclose(x, y, rtol=0.5, equal_nan=True),
    "isclose of a number": lambda np, x, y, line: np.isclose(y, 0.5, atol=1),
    "allclose": lambda np, x, y, line: np.allclose(y, y + 1e-9),
    "array_equal": lambda np, x, y, line: np.array_equal(y, y),
    "array_equiv": lambda np, x, y, line: np.array_equiv(y, y[0]),
    "alltrue": lambda np, x, y, line: getattr(np, "alltrue", np.all)(y),
    "count_nonzero": lambda np, x, y, line: np.count_nonzero(y, axis=1),
    "signbit": lambda np, x, y, line: np.signbit(y),
    "searchsorted": lambda np, x, y, line: np.searchsorted(line, x, side="right"),
    "digitize": lambda np, x, y, line: np.digitize(y, line[::-1]),
    "isin": lambda np, x, y, line: np.isin(y, y[1]),
    "in1d": lambda np, x, y, line: np.isin(y[0], y[1]) if np is onp else np.in1d(y[0], y[1]),
}
#: of floats, through which gradients flow
DIFFERENTIABLE = {
    "nanmax": lambda np, x, y, line: np.nanmax(x, axis=1),
    "nanmin": lambda np, x, y, line: np.nanmin(x),
    "nanprod": lambda np, x, y, line: np.nanprod(x, axis=0),
    "nancumsum": lambda np, x, y, line: np.nancumsum(x, axis=1),
    "ptp": lambda np, x, y, line: np.ptp(y, axis=0),
    "positive": lambda np, x, y, line: np.positive(y),
    "real": lambda np, x, y, line: np.real(y),
    "modf": lambda np, x, y, line: np.modf(y)[0],
    "heaviside": lambda np, x, y, line: np.heaviside(y, line),
    "divmod": lambda np, x, y, line: np.divmod(y, line)[1],
    "float_power": lambda np, x, y, line: np.float_power(y * y + 1, line),
    "select": lambda np, x, y, line: np.select([y > 1, y < 0], [y * 2, y * y], 7.0),
    "rollaxis": lambda np, x, y, line: np.rollaxis(y, 1),
    "msort": lambda np, x, y, line: np.sort(y, 0) if np is onp else np.msort(y),
    "interp": lambda np, x, y, line: np.interp(y, line, line * line),
    "take_along_axis": lambda np, x, y, line: np.take_along_axis(y, np.argsort(y, axis=1), axis=1),
    "cov": lambda np, x, y, line: np.cov(y, line),
    "corrcoef": lambda np, x, y, line: np.corrcoef(y),
    "trapz": lambda np, x, y, line: (np.trapezoid if np is onp else np.trapz)(y, line),
    "unwrap": lambda np, x, y, line: np.unwrap(y * 3),
    "vander": lambda np, x, y, line: np.vander(line, 3),
    "polyadd": lambda np, x, y, line: np.polyadd(line, line[:2]),
    "polysub": lambda np, x, y, line: np.polysub(line[:2], line),
    "linalg.matrix_power": lambda np, x, y, line: np.linalg.matrix_power(y[:, :3], 3),
    "linalg.multi_dot": lambda np, x, y, line: np.linalg.multi_dot([y[:, :1], y[:1], y[:2].T, y[1:, 1:3]]),
    "size, ndim": lambda np, x, y, line: y * np.size(x) + np.ndim(y),
}
#: that take shapes of their operands, which Symbols do not have
OF_ARRAYS = ("array_equal", "array_equiv", "polyadd", "polysub", "size, ndim")
ROWS = {**VALUES, **DIFFERENTIABLE}

pytestmark = pytest.mark.filterwarnings("ignore:.*not used by any computation")
RNG = onp.random.default_rng(3)
INPUTS = [
    onp.array([[1.5, onp.nan, -0.5, 2.0], [0.3, 0.7, -1.2, 0.9], [1.0, -0.4, 0.2, 0.6]]),
    RNG.uniform(-2.2, 2.2, (3, 4)),
    onp.array([0.35, 0.8, 1.7, 2.4]),
]


@pytest.fixture(autouse=True)
def _numpy_semantics():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


@pytest.fixture(params=["cpu", "gpu"])
def ctx(request):
    if request.param == "cpu":
        return mx.cpu()
    request.getfixturevalue("cuda_driver")
    return mx.gpu(0)


def block(name, symbolic):
    """A hybridized block of a row: over arrays without values, or over Symbols."""
    function = ROWS[name]

    class OfArrays(gluon.HybridBlock):
        def forward(self, x, y, line):
            return function(np, x, y, line)

    class OfSymbols(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y, line):
            return function(F.np, x, y, line)

    net = (OfSymbols if symbolic else OfArrays)()
    net.hybridize()
    return net


def made(ctx):
    return [np.array(a, dtype="float64", ctx=ctx) for a in INPUTS]


@pytest.mark.parametrize("symbolic", [False, True], ids=["arrays", "symbols"])
@pytest.mark.parametrize("name", ROWS)
def test_in_a_graph_it_gives_what_numpy_gives(name, symbolic, ctx):
    if symbolic and name in OF_ARRAYS:
        pytest.skip("takes shapes")
    want = onp.asarray(ROWS[name](onp, *INPUTS))
    got = block(name, symbolic)(*made(ctx))
    assert isinstance(got, (np.ndarray, bool)), got
    if not isinstance(got, bool):
        assert (got.dtype, got.shape, got.ctx) == (want.dtype, want.shape, ctx)
        got = got.asnumpy()
    onp.testing.assert_allclose(got, want, 1e-9, 1e-9)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_differences(name, hybrid, ctx):
    def total(*arrays):
        y = onp.asarray(DIFFERENTIABLE[name](onp, *arrays))
        return (y * onp.cos(onp.arange(y.size)).reshape(y.shape)).sum()

    arrays = made(ctx)
    for a in arrays:
        a.attach_grad()
    net = block(name, False) if hybrid else lambda *given: DIFFERENTIABLE[name](np, *given)
    with autograd.record():
        y = net(*arrays)
    y.backward(np.array(onp.cos(onp.arange(y.size)).reshape(y.shape), dtype=y.dtype, ctx=ctx))
    step = 1e-6
    for k, a in enumerate(arrays):
        want = onp.zeros(a.shape)
        for place in onp.ndindex(a.shape):
            low, high = ([v.copy() for v in INPUTS] for _ in range(2))
            low[k][place] -= step
            high[k][place] += step
            want[place] = (total(*high) - total(*low)) / (2 * step)
        onp.testing.assert_allclose(a.grad.asnumpy(), want, 1e-5, 1e-5, err_msg=f"input {k}")


def test_every_function_has_a_row():
    named = {part for name in ROWS for part in name.split(" of ")[0].split(", ")}
    declared = {name for name, definition in NP.items() if falls_back(definition) and not is_on_host(definition)}
    assert named == declared


def test_a_mixture_with_numpy_arrays_is_numpys():
    x = np.array([1.0, 2.0])
    for got in (np.isclose(x, onp.array([1.0, 3.0])), onp.isclose(x, onp.array([1.0, 3.0]))):
        assert isinstance(got, np.ndarray)
        assert got.asnumpy().tolist() == [True, False]


def test_what_operators_do_not_take_is_refused_while_gradients_are_recorded():
    x = np.array([1.0, 2.0])
    with autograd.record(), pytest.raises(ValueError, match="Falling back to NumPy operator cov"):
        np.cov(x, aweights=x)
    with autograd.record(), pytest.raises(ValueError, match="axis 3 is out of bounds"):
        np.nanmax(x, axis=3)

# SPDX-License-Identifier: Apache-2.0
"""Functions that MXNet leaves to NumPy and that are operators here: traced, as Symbols, in graphs, and their gradients.

What they give eagerly is recorded, see ``tests/against_mxnet/recorded/np_expressions/as_numpy.txt``.
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
    "nanargmax": lambda np, x, y, line: np.nanargmax(x, axis=0),
    "nanargmin": lambda np, x, y, line: np.nanargmin(x, axis=1),
    "lexsort": lambda np, x, y, line: np.lexsort((y[0], np.floor(y[1]))),
    "argpartition": lambda np, x, y, line: np.argpartition(y, 2, axis=1)[:, 2],
    "frexp of exponents": lambda np, x, y, line: np.frexp(y)[1],
    "spacing": lambda np, x, y, line: np.spacing(y),
    "packbits": lambda np, x, y, line: np.packbits(y > 0, axis=1),
    "unpackbits": lambda np, x, y, line: np.unpackbits(np.packbits(y > 0, axis=1), axis=1, count=4),
    "linalg.matrix_rank": lambda np, x, y, line: np.linalg.matrix_rank(y[:, :2] @ y[:2]),
    "histogram_bin_edges": lambda np, x, y, line: np.histogram_bin_edges(y, 4),
    "tril_indices_from": lambda np, x, y, line: np.tril_indices_from(y)[0],
    "triu_indices_from": lambda np, x, y, line: np.triu_indices_from(y, 1)[1],
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
    "nancumprod": lambda np, x, y, line: np.nancumprod(x, axis=1),
    "nanmedian": lambda np, x, y, line: np.nanmedian(x, axis=1),
    "nanpercentile": lambda np, x, y, line: np.nanpercentile(x, [20, 70], axis=0),
    "nanquantile": lambda np, x, y, line: np.nanquantile(x, 0.3, axis=1),
    "partition": lambda np, x, y, line: np.partition(y, 2, axis=1)[:, 2],
    "i0": lambda np, x, y, line: np.i0(y * 5),
    "choose": lambda np, x, y, line: np.choose(np.argsort(y[0]), [y[0], y[1], line, line * line]),
    "frexp": lambda np, x, y, line: np.frexp(y)[0],
    "correlate": lambda np, x, y, line: np.correlate(y[0], line, "full"),
    "correlate of the longer": lambda np, x, y, line: np.correlate(line, y.reshape(-1), "same"),
    "poly": lambda np, x, y, line: np.poly(line),
    "polymul": lambda np, x, y, line: np.polymul(line, y[0]),
    "polyint": lambda np, x, y, line: np.polyint(line, 2, k=3.0),
    "polyfit": lambda np, x, y, line: np.polyfit(line, y.T, 2, w=line),
    "piecewise": lambda np, x, y, line: np.piecewise(y, [y > 1, y < 0], [np.sin, lambda v: v * v, 7.0]),
    "apply_along_axis": lambda np, x, y, line: np.apply_along_axis(lambda v: np.cumsum(v * v), 0, y),
    "apply_over_axes": lambda np, x, y, line: np.apply_over_axes(np.sum, y * y, [0, 1]),
    "compress": lambda np, x, y, line: np.compress([False, True, True], y, axis=0),
    "extract": lambda np, x, y, line: np.extract([True, False, True, True], y * y),
    "ix_": lambda np, x, y, line: np.ix_(line, y[0])[0] * np.ix_(line, y[0])[1],
    "histogram2d": lambda np, x, y, line: np.histogram2d(y[0], y[1], 3, [[-2, 2], [-2, 2]], weights=line)[0],
    "histogramdd": lambda np, x, y, line: np.histogramdd([y[0], y[1]], 2, [[-3, 3], [-3, 3]], weights=line)[0],
    "linalg.cond": lambda np, x, y, line: np.linalg.cond(y[:, :3]),
    "linalg.cond of a norm": lambda np, x, y, line: np.linalg.cond(y[:, :3], "fro"),
    "linalg.qr": lambda np, x, y, line: np.linalg.qr(y[:, :3])[0],
    "linalg.qr of tall matrices": lambda np, x, y, line: np.linalg.qr(y.T, mode="r"),
    "linalg.qr of wide matrices": lambda np, x, y, line: np.linalg.qr(y)[1],
    "linalg.lstsq": lambda np, x, y, line: np.linalg.lstsq(y.T, line, rcond=None)[0],
    "linalg.lstsq of residuals": lambda np, x, y, line: np.linalg.lstsq(y.T, line, rcond=None)[1],
    "size, ndim": lambda np, x, y, line: y * np.size(x) + np.ndim(y),
}
#: that take shapes of their operands, which Symbols do not have
OF_ARRAYS = (
    *("array_equal", "array_equiv", "polyadd", "polysub", "size, ndim", "compress", "extract"),
    *("tril_indices_from", "triu_indices_from", "apply_along_axis", "apply_over_axes"),
)
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


@pytest.mark.long_table
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


@pytest.mark.long_table
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


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("intersect1d", lambda x: np.intersect1d(x, x)),
        ("trim_zeros", lambda x: np.trim_zeros(x)),
        ("cov", lambda x: np.cov(x, aweights=x)),
        ("compress", lambda x: np.compress(x, x)),
        ("histogram2d", lambda x: np.histogram2d(x, x, "auto")),
        ("median", lambda x: onp.median(x)),
    ],
)
def test_what_depends_on_values_says_so_in_a_trace(name, call):
    with pytest.raises(
        mx.MXNetError, match=f"np.{name} with these arguments, which NumPy computes on the host, needs the values"
    ):
        mx.hybridize(call)(np.array([1.0, 2.0, 0.0]))

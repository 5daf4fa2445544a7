# SPDX-License-Identifier: Apache-2.0
"""Pooling: values and gradients recorded from MXNet 1.9.1, against windows written out, and errors."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.core.dtypes import from_short

DATA = np.array([[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]], "f").reshape(1, 1, 3, 4)
LOWEST = float(np.finfo("f").min)  # MXNet's maximum of nothing
#: recorded from MXNet: attributes besides kernel, stride and pad of 2, 2 and 1 -> result, gradient for ones
RECORDED = [
    (
        {"pool_type": "max"},
        [[3, 4, 1], [5, 9, 8]],
        [[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]],
    ),
    (
        {"pool_type": "max", "pooling_convention": "full"},
        [[3, 4, 1], [5, 9, 8], [LOWEST] * 3],
        [[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]],
    ),
    ({"pool_type": "avg"}, [[0.75, 1.25, 0.25], [2.5, 4.75, 3.5]], [[0.25] * 4] * 3),
    ({"pool_type": "sum"}, [[3, 5, 1], [10, 19, 14]], [[1] * 4] * 3),
    (
        {"pool_type": "avg", "pooling_convention": "full"},
        [[0.75, 1.25, 0.25], [2.5, 4.75, 3.5], [0, 0, 0]],
        [[0.25] * 4] * 3,
    ),
    (
        {"pool_type": "avg", "pooling_convention": "full", "count_include_pad": False},
        [[3, 2.5, 1], [5, 4.75, 7], [0, 0, 0]],
        [[1, 0.5, 0.5, 1], [0.5, 0.25, 0.25, 0.5], [0.5, 0.25, 0.25, 0.5]],
    ),
    (
        {"pool_type": "lp", "p_value": 2},
        [[3, 4.12311, 1], [7.07107, 10.90871, 10]],
        [[1, 0.24254, 0.97014, 1], [0.70711, 0.82503, 0.18334, 0.6], [0.70711, 0.27501, 0.45835, 0.8]],
    ),
    (
        {"pool_type": "lp", "p_value": 3},
        [[3, 4.02073, 1], [6.29961, 9.6154, 8.99588]],
        [[1, 0.06186, 0.98972, 1], [0.62996, 0.87609, 0.04326, 0.44485], [0.62996, 0.09734, 0.2704, 0.79085]],
    ),
    ({"pool_type": "lp", "p_value": 1}, [[3, 5, 1], [10, 19, 14]], [[1] * 4] * 3),
]


class Pooled(mx.gluon.HybridBlock):
    def __init__(self, attributes):
        super().__init__()
        self._attributes = attributes

    def hybrid_forward(self, F, x):
        return F.Pooling(x, **self._attributes)


def ran(attributes, data, hybridized):
    """(result, gradient for a head of ones)."""
    net = Pooled(attributes)
    if hybridized:
        net.hybridize()
    x = mx.nd.array(data, dtype=data.dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    return y.asnumpy(), x.grad.asnumpy()


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("attributes,result,gradient", RECORDED)
def test_recorded(attributes, result, gradient, hybridized):
    attributes = {"kernel": (2, 2), "stride": (2, 2), "pad": (1, 1), **attributes}
    y, g = ran(attributes, DATA, hybridized)
    np.testing.assert_allclose(y[0, 0], result, 1e-5, 1e-5)
    np.testing.assert_allclose(g[0, 0], gradient, 1e-4, 1e-5)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("extent", [8, 17])
def test_a_window_that_overruns_the_padding_counts_what_is_there(extent, hybridized):
    """In MXNet's forward, whose derivative this is; its own gradient of float32 divides by the whole window."""
    attributes = {"kernel": (7,), "stride": (3,), "pad": (2,), "pool_type": "avg", "pooling_convention": "full"}
    data = np.arange(1.0, extent + 1).reshape(1, 1, extent).astype("f")
    y, g = ran(attributes, data, hybridized)
    np.testing.assert_allclose(y[0, 0, [0, -1]], [15 / 7, {8: 26 / 6, 17: 62 / 6}[extent]], 1e-6)
    np.testing.assert_allclose(g[0, 0, -1], {8: 1 / 7 + 1 / 6, 17: 1 / 7 + 1 / 6}[extent], 1e-5)


#: recorded: of 3, 1, 4 in windows of 2, padded by 2, with 1, 2, … as the head's gradient
BESIDE = [
    ({"pool_type": "avg"}, [0, 1.5, 2, 2.5, 2, 0], [2.5, 3.5, 4.5]),
    ({"pool_type": "avg", "count_include_pad": False}, [0, 3, 2, 2.5, 4, 0], [3.5, 3.5, 7]),
    ({"pool_type": "max"}, [-np.inf, 3, 3, 4, 4, -np.inf], [5, 0, 9]),
    ({"pool_type": "sum"}, [0, 3, 4, 5, 4, 0], [5, 7, 9]),
]


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("attributes,result,gradient", BESIDE)
def test_windows_that_lie_in_the_padding(attributes, result, gradient, dtype, hybridized):
    attributes = {"kernel": (2,), "pad": (2,), **attributes}
    data = np.array([[[3, 1, 4]]], dtype)
    if dtype == "float32" and attributes["pool_type"] != "sum":  # refused by MXNet's library for them
        with pytest.raises(mx.MXNetError, match=r"pad_l\[0\] < kernel\[0\] \(2 vs. 2\)"):
            ran(attributes, data, hybridized)
        return
    net = Pooled(attributes)
    if hybridized:
        net.hybridize()
    x = mx.nd.array(data, dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(mx.nd.arange(1, 7).reshape((1, 1, 6)).astype(dtype))
    lowest = np.finfo(dtype).min
    np.testing.assert_allclose(y.asnumpy()[0, 0], np.maximum(result, lowest), 1e-3)
    np.testing.assert_allclose(x.grad.asnumpy()[0, 0], gradient, 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(
    "attributes,gradient",
    [
        ({"stride": (1, 1)}, [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]),
        ({"stride": (2, 2), "pad": (1, 1)}, [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 1]]),
        ({"global_pool": True}, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
    ],
)
def test_ties_give_to_the_first(attributes, gradient, hybridized, dtype):
    _, g = ran({"kernel": (2, 2), **attributes}, np.ones((1, 1, 4, 4), dtype), hybridized)
    np.testing.assert_array_equal(g[0, 0], gradient)


def by_hand(x, kind, kernel, stride, pad, full, include):
    """Windows in a loop, with MXNet's rules for what they count."""
    spatial = x.shape[2:]
    count = []
    for d, k, s, p in zip(spatial, kernel, stride, pad):
        rest = d + 2 * p - k
        count.append(1 + (-(-rest // s) if full else rest // s))
    y = np.zeros((*x.shape[:2], *count))
    for at in itertools.product(*map(range, count)):
        begin = [t * s - p for t, s, p in zip(at, stride, pad)]
        end = [min(a + k, d + p) for a, k, d, p in zip(begin, kernel, spatial, pad)]
        inside = [slice(max(a, 0), max(min(e, d), max(a, 0))) for a, e, d in zip(begin, end, spatial)]
        part = x[(..., *inside)].reshape(*x.shape[:2], -1)
        size = np.prod([e - a for a, e in zip(begin, end)]) if include else part.shape[-1]
        if kind == "max":
            y[(..., *at)] = part.max(-1) if part.shape[-1] else np.finfo("f").min
        else:
            y[(..., *at)] = part.sum(-1) / (max(size, 1) if kind == "avg" else 1)
    return y


@st.composite
def poolings(draw):
    rank = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    pad = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    size = tuple(draw(st.integers(max(1, k - 2 * p), 11)) for k, p in zip(kernel, pad))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    kind = draw(st.sampled_from(["max", "avg", "sum"]))
    return (2, draw(st.integers(1, 3)), *size), kind, kernel, stride, pad, draw(st.booleans()), draw(st.booleans())


def check_against_hand(case, hybridized):
    shape, kind, kernel, stride, pad, full, include = case
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    attributes = {"pooling_convention": "full" if full else "valid", "count_include_pad": include}
    y, g = ran({"kernel": kernel, "stride": stride, "pad": pad, "pool_type": kind, **attributes}, x, hybridized)
    np.testing.assert_allclose(y, by_hand(x, kind, kernel, stride, pad, full, include), 1e-5, 1e-5)
    step = 1e-2 * np.random.default_rng(1).standard_normal(shape)
    if kind != "max":  # linear: any step will do
        moved = by_hand(x + step, kind, kernel, stride, pad, full, include)
        np.testing.assert_allclose(
            (g * step).sum(), (moved - by_hand(x, kind, kernel, stride, pad, full, include)).sum(), 1e-3, 1e-4
        )
    else:
        assert g.sum() == (y > np.finfo("f").min).sum()


@given(poolings())
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_windows_by_hand(case):
    check_against_hand(case, hybridized=False)


@given(poolings())
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_windows_by_hand_in_kernels(case):
    check_against_hand(case, hybridized=True)


@pytest.mark.parametrize(
    "attributes,shape,result",
    [
        ({"kernel": (2, 2), "layout": "NHWC", "stride": (2, 2)}, (1, 5, 5, 2), (1, 2, 2, 2)),
        ({"kernel": (2,), "layout": "NWC", "stride": (2,), "pool_type": "avg"}, (1, 5, 2), (1, 2, 2)),
        ({"layout": "NHWC", "global_pool": True}, (1, 5, 5, 2), (1, 1, 1, 2)),
        ({"global_pool": True, "kernel": (3, 3), "stride": (2, 2)}, (2, 3, 4, 5), (2, 3, 1, 1)),
        ({"kernel": (3,), "stride": (2,), "pooling_convention": "same"}, (1, 1, 7), (1, 1, 4)),
    ],
)
def test_shapes(attributes, shape, result):
    x = mx.nd.array(np.random.default_rng(0).standard_normal(shape))
    assert mx.nd.Pooling(x, **attributes).shape == result
    assert mx.sym.Pooling(mx.sym.var("x"), **attributes).infer_shape(x=shape)[1] == [result]


@pytest.mark.parametrize(
    "extent,kernel,stride,kind,result",
    [
        (5, 3, 2, "max", [3, 5, 5]),
        (5, 3, 1, "avg", [2, 3, 4, 4.5, 5]),
        (6, 4, 3, "avg", [2.5, 5]),
        (7, 3, 2, "avg", [2, 4, 6, 7]),
        (5, 2, 3, "max", [2, 5]),
    ],
)
def test_same_convention_recorded(extent, kernel, stride, kind, result):
    """Windows start every ``stride``; what they lack at the end does not count. MXNet wants three zeros as pads."""
    x = mx.nd.arange(1, extent + 1).reshape((1, 1, extent))
    attributes = {"kernel": kernel, "stride": stride, "pool_type": kind, "pooling_convention": "same"}
    for pad in ((), (0, 0, 0)):
        y = mx.nd.Pooling(x, pad=pad, **attributes)
        np.testing.assert_allclose(y.asnumpy().ravel(), result, 1e-6)
    with pytest.raises(MXNetError, match="Same pooling convention disables the use of pad parameter"):
        mx.nd.Pooling(x, pad=1, **attributes)


def test_layouts_agree():
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 5)).astype("f")
    for kind in ("max", "avg"):
        attributes = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1), "pool_type": kind}
        first = mx.nd.Pooling(mx.nd.array(x), **attributes).asnumpy()
        last = mx.nd.Pooling(mx.nd.array(x.transpose(0, 2, 3, 1)), layout="NHWC", **attributes).asnumpy()
        np.testing.assert_array_equal(last, first.transpose(0, 2, 3, 1))


def test_nan_makes_its_windows_nan():
    x = np.array([[[1, np.nan, 2, 3, 4, 5]]], "f")
    for hybridized in (False, True):
        np.testing.assert_array_equal(ran({"kernel": (2,), "stride": (2,)}, x, hybridized)[0], [[[np.nan, 3, 5]]])


ERRORS = {
    "kernel size (7) exceeds input (5 padded to 5)": ((1, 1, 5, 5), {"kernel": (7, 7)}),
    "pad_l[0] < kernel[0] (3 vs. 3)": ((1, 1, 5, 5), {"kernel": (3, 3), "pad": (3, 3)}),
    "0D pooling not supported": ((1, 1, 5, 5), {}),
    "Input data should be 3D in (batch, channel, x)": ((1, 1, 5, 5), {"kernel": (3,)}),
    "Or 5D in (batch, channel, d, y, x)": ((2, 3), {"kernel": (3, 3)}),
    "param.p_value.has_value()": ((1, 1, 5, 5), {"kernel": (2, 2), "pool_type": "lp"}),
    "p value of 4 is not supported yet...": ((1, 1, 5, 5), {"kernel": (2, 2), "pool_type": "lp", "p_value": 4}),
    "Currently 'same' supports Max Pooling 1-D": ((1, 1, 5, 5), {"kernel": (2, 2), "pooling_convention": "same"}),
    "value [0,1]for Parameter stride is invalid": ((1, 1, 5, 5), {"kernel": (2, 2), "stride": (0, 1)}),
    "Need 2D layout": ((1, 1, 5, 5), {"kernel": (2, 2), "layout": "NWC"}),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    shape, attributes = ERRORS[text]
    with pytest.raises(MXNetError) as e:
        mx.nd.Pooling(mx.nd.ones(shape), **attributes)
    assert text in str(e.value)


@pytest.mark.parametrize(
    "attributes,rows",
    [
        ({"kernel": (2, 2)}, [0, 1, 3]),
        ({"kernel": (2, 2), "pool_type": "avg"}, [0, 1, 2]),
        ({"global_pool": True}, [0, 1, 2]),
    ],
)
def test_hidden_results_are_counted_in_files(attributes, rows):
    assert json.loads(mx.sym.Pooling(mx.sym.var("x"), **attributes).tojson())["node_row_ptr"] == rows


@pytest.mark.parametrize(
    "size,result", [((2, 3), (1, 1, 2, 3)), (3, (1, 1, 3, 3)), ((), (1, 1, 1, 1)), ((6, 5), (1, 1, 6, 5))]
)
def test_adaptive_shapes(size, result):
    assert mx.nd.contrib.AdaptiveAvgPooling2D(mx.nd.ones((1, 1, 3, 4)), output_size=size).shape == result


def test_adaptive_recorded():
    y = mx.nd.contrib.AdaptiveAvgPooling2D(mx.nd.arange(12).reshape((1, 1, 3, 4)), output_size=(2, 3))
    np.testing.assert_allclose(y.asnumpy()[0, 0], [[2.5, 3.5, 4.5], [6.5, 7.5, 8.5]], 1e-6)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "i32"])
def test_reductions_over_a_few_planes(name, dtype):
    """Window axes lead: whole planes are combined, with the same result as along any other axes."""
    out = from_short(dtype)
    x = np.random.default_rng(0).integers(-3, 4, (3, 2, 70, 2)).astype(out.np)
    if dtype != "i32":
        x[1, 0, :9] = x[2, 1, 5:20] = np.nan
    primitive = TABLE[name]
    leading, trailing = {"axes": (0, 1)}, {"axes": (2, 3)}
    type = primitive.infer([tensor_type(x.shape, out)], leading)
    with np.errstate(all="ignore"):
        got = primitive.evaluate(np, [x], leading, type)
        want = primitive.evaluate(np, [np.ascontiguousarray(x.transpose(2, 3, 0, 1))], trailing, type)
    assert got.dtype == want.dtype == type.dtype.np
    np.testing.assert_array_equal(got, want)

# SPDX-License-Identifier: Apache-2.0
"""Sorting, top k, running sums and histograms against NumPy and recorded results of MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.core.dtypes import dtype_of

nd = mx.nd
A = [[3, 1, 2], [0, 5, 4]]


def hybridized(function, *arrays):
    """The function's results as a compiled graph."""

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *args):
            return function(F, *args)

    net = Net()
    net.hybridize()
    out = net(*arrays)
    return list(out) if isinstance(out, (list, tuple)) else [out]


#: call -> results of MXNet, as (values, dtype)
RECORDED = [
    (lambda F, a: F.topk(a, axis=None, k=2), [([4, 5], "float32")]),
    (lambda F, a: F.topk(a, axis=None, k=2, ret_typ="mask"), [([[0, 0, 0], [0, 1, 1]], "float32")]),
    (lambda F, a: F.topk(a, k=2, ret_typ="mask"), [([[1, 0, 1], [0, 1, 1]], "float32")]),
    (
        lambda F, a: F.topk(a, k=2, ret_typ="both", dtype="int32", is_ascend=True),
        [([[1, 2], [0, 4]], "float32"), ([[1, 2], [0, 2]], "int32")],
    ),
    (lambda F, a: F.topk(a, k=0), [([[0, 2, 1], [1, 2, 0]], "float32")]),
    (lambda F, a: F.topk(a, k=1, axis=0, ret_typ="value"), [([[3, 5, 4]], "float32")]),
    (lambda F, a: F.sort(a, axis=None), [([0, 1, 2, 3, 4, 5], "float32")]),
    (lambda F, a: F.argsort(a, axis=None), [([3, 1, 2, 0, 5, 4], "float32")]),
    (lambda F, a: F.argsort(a, is_ascend=False, dtype="int64"), [([[0, 2, 1], [1, 2, 0]], "int64")]),
    (lambda F, a: F.cumsum(a), [([3, 4, 6, 6, 11, 15], "float32")]),
    (lambda F, a: F.cumsum(a, axis=1), [([[3, 4, 6], [0, 5, 9]], "float32")]),
    (lambda F, a: F.cumsum(a + 0.6, dtype="int32"), [([3, 4, 6, 6, 11, 15], "int32")]),
    (
        lambda F, a: F._internal._histogram(a, bin_cnt=5, range=(0, 5)),
        [([1, 1, 1, 1, 2], "int64"), ([0, 1, 2, 3, 4, 5], "float32")],
    ),
    (
        lambda F, a: F._internal._histogram(a, bin_cnt=4, range=(1, 3)),
        [([1, 0, 1, 1], "int64"), ([1, 1.5, 2, 2.5, 3], "float32")],
    ),
]


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_recorded(number):
    function, want = RECORDED[number]
    a = nd.array(A)
    eager = function(nd, a)
    eager = list(eager) if isinstance(eager, (list, tuple)) else [eager]
    for got in (eager, hybridized(function, a)):
        assert len(got) == len(want)
        for g, (values, dtype) in zip(got, want, strict=True):
            assert g.dtype is getattr(np, dtype)
            np.testing.assert_array_equal(g.asnumpy(), np.array(values, dtype))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.booleans(),
    st.sampled_from(["float16", "float32", "float64", "uint8", "int8", "int32", "int64"]),
)
def test_equal_elements_keep_their_order(values, ascending, dtype):
    x = np.abs(values).astype(dtype) if dtype == "uint8" else np.array(values, dtype)
    order = sorted(range(len(x)), key=lambda k: x[k] if ascending else -int(x[k]))
    got = nd.argsort(nd.array(x, dtype=dtype), is_ascend=ascending, dtype="int32").asnumpy()
    np.testing.assert_array_equal(got, order)
    sort = nd.sort(nd.array(x, dtype=dtype), is_ascend=ascending)
    assert sort.dtype is getattr(np, dtype)
    np.testing.assert_array_equal(sort.asnumpy(), x[order])


@pytest.mark.parametrize(
    ("dtype", "result", "last"), [("int8", "int8", -56), ("uint8", "uint8", 200), ("bool", "int64", 2)]
)
def test_cumsum_types(dtype, result, last):
    x = nd.array([100, 100] if dtype != "bool" else [1, 1], dtype=dtype)
    y = nd.cumsum(x)
    assert y.dtype is getattr(np, result) and y.asnumpy()[-1] == last


def test_histogram_functions():
    a = nd.array(A)
    counts, edges = nd.histogram(a, bins=nd.array([0, 1, 3, 4]))
    assert counts.asnumpy().tolist() == [1, 2, 2] and edges.asnumpy().tolist() == [0, 1, 3, 4]
    with pytest.warns(UserWarning, match="range is not specified"):
        counts, edges = nd.histogram(a)
    want = np.histogram(np.array(A, "float32"), 10)
    np.testing.assert_array_equal(counts.asnumpy(), want[0])
    np.testing.assert_allclose(edges.asnumpy(), want[1], rtol=1e-6)
    x = np.random.default_rng(0).normal(size=5000).astype("float32")
    counts, _ = nd.histogram(nd.array(x), bins=37, range=(-1.3, 2.1))
    np.testing.assert_array_equal(counts.asnumpy(), np.histogram(x, 37, (-1.3, 2.1))[0])
    with pytest.raises(ValueError, match="null range"):
        mx.sym.histogram(mx.sym.var("a"), 10)


#: gradients for the head gradient 1, 2, 3, …
GRADIENTS = [
    (lambda F, a: F.sort(a, axis=1), [[3, 1, 2], [4, 6, 5]]),
    (lambda F, a: F.topk(a, k=2, ret_typ="value"), [[1, 0, 2], [0, 3, 4]]),
    (lambda F, a: F.topk(a, k=2, ret_typ="both")[0], [[1, 0, 2], [0, 3, 4]]),
    (lambda F, a: F.cumsum(a, axis=1), [[6, 5, 3], [15, 11, 6]]),
    (lambda F, a: F.cumsum(a), [[21, 20, 18], [15, 11, 6]]),
]


@pytest.mark.parametrize("number", range(len(GRADIENTS)))
@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients(number, hybrid):
    function, want = GRADIENTS[number]
    a = nd.array(A)
    a.attach_grad()
    with autograd.record():
        y = hybridized(function, a)[0] if hybrid else function(nd, a)
    y.backward(nd.arange(1, y.size + 1).reshape(y.shape))
    assert a.grad.asnumpy().tolist() == want


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: nd.topk(a, k=5), "k must be smaller than 3, get k = 5"),
        (lambda a: nd.topk(a, axis=3), "axis should be between 0 and 2, found axis=3"),
        (lambda a: nd.sort(a, axis=2), "Invalid axis"),
        (lambda a: nd.sort(a.astype("bool")), "Unknown type enum 7"),
        (lambda a: nd.cumsum(a, axis=4), "axis value 4 out of range"),
    ],
)
def test_errors(call, message):
    with pytest.raises(MXNetError, match=message):
        call(nd.array(A))


def test_outputs_of_symbols():
    v = mx.sym.var("a")
    assert mx.sym.topk(v, ret_typ="both", name="t").list_outputs() == ["t_output0", "t_output1"]
    assert mx.sym.topk(v, name="t").list_outputs() == ["t_output"]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"), [((24, 100), 1), ((100, 24), 0), ((5, 30, 20), 1), ((4096,), 0), ((3, 20), 1)], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64", "uint8"])
def test_order_is_stable(dtype, shape, axis, ascending):
    """Of few elements, and of many, which are sorted as words: equal ones, zeros of both signs and NaN, which is the greatest."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, shape).astype(dtype)
    if dtype.startswith("float"):
        x -= 10
        for value in (np.nan, -np.nan, -0.0, np.inf, -np.inf):
            x[rng.random(shape) < 0.05] = value
    elif dtype == "int32":
        x[rng.random(shape) < 0.1] = np.iinfo(np.int32).min
        x -= 10  # which wraps
    b = builder()
    operand = b.input(tensor_type(shape, dtype_of(dtype)))
    graph = b.finish([b.argsort(operand, axis=axis, ascending=ascending)])
    (found,) = evaluate(graph, [x])
    keys = np.moveaxis(x, axis, -1).astype(np.float64)
    keys = np.where(np.isnan(keys), np.inf, keys) + 0.0
    nan = np.isnan(np.moveaxis(x, axis, -1).astype(np.float64))
    want = np.empty(keys.shape, np.int64)
    for row in np.ndindex(keys.shape[:-1]):
        order = [(bool(n), float(k)) for n, k in zip(nan[row], keys[row], strict=True)]
        want[row] = sorted(range(len(order)), key=order.__getitem__, reverse=not ascending)
    np.testing.assert_array_equal(np.moveaxis(found, axis, -1), want)

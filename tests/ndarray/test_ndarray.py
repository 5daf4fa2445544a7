# SPDX-License-Identifier: Apache-2.0
"""Arrays: making, element types, in-place work, printing, and exchange with other libraries."""

from __future__ import annotations

import gc
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from ndarray.support import numbered

import hybridgpu as mx
from hybridgpu.base import MXNetError
from hybridgpu.ndarray.tape import DifferentiableGraph

nd = mx.nd

# -- making

MAKE = [
    (lambda: nd.array([1, 2]), "float32", (2,)),
    (lambda: nd.array(np.ones((2, 3))), "float32", (2, 3)),
    (lambda: nd.array(np.ones(3, "int64")), "float32", (3,)),
    (lambda: nd.array([True, False]), "float32", (2,)),
    (lambda: nd.array(nd.ones(2, dtype="int32")), "int32", (2,)),
    (lambda: nd.array([1], dtype="uint8"), "uint8", (1,)),
    (lambda: nd.array(3), "float32", ()),
    (lambda: nd.array([]), "float32", (0,)),
    (lambda: nd.zeros(3), "float32", (3,)),
    (lambda: nd.full((2,), 7.9, dtype="int32"), "int32", (2,)),
    (lambda: nd.ones((2, 1), dtype=np.float16), "float16", (2, 1)),
    (lambda: nd.empty((2, 2)), "float32", (2, 2)),
    (lambda: nd.arange(5), "float32", (5,)),
    (lambda: nd.arange(2, 6, 2, repeat=2, dtype="int64"), "int64", (4,)),
    (lambda: nd.linspace(0, 1, 5), "float32", (5,)),
    (lambda: nd.eye(2, 3, 1), "float32", (2, 3)),
    (lambda: nd.zeros_like(nd.ones(2, dtype="int8")), "int8", (2,)),
    (lambda: nd.random.uniform(shape=(2, 3)), "float32", (2, 3)),
    (lambda: nd.random.normal(), "float32", (1,)),
    (lambda: nd.random.randint(0, 5, (4,)), "int32", (4,)),
    (lambda: nd.concatenate([nd.ones((1, 2))] * 3), "float32", (3, 2)),
]


@pytest.mark.parametrize(("make", "dtype", "shape"), MAKE, ids=range(len(MAKE)))
def test_making(make, dtype, shape):
    x = make()
    assert x.dtype is getattr(np, dtype) if dtype != "bool" else np.bool_
    assert (x.shape, x.size, x.ndim, x.context, x.stype) == (
        shape,
        int(np.prod(shape)),
        len(shape),
        mx.cpu(0),
        "default",
    )


@pytest.mark.parametrize(
    "source",
    ["abc", [[1], [2, 3]], 1j, object(), {"a": 1}, [None]],
    ids=["text", "ragged", "complex", "object", "dict", "None"],
)
def test_what_is_no_array(source):
    with pytest.raises(TypeError, match="source_array must be array like object"):
        nd.array(source)


@pytest.mark.parametrize("dtype", ["foo", "complex64", "datetime64", object], ids=str)
def test_unknown_dtypes_are_refused_by_name(dtype):
    x = nd.ones(2)
    for wrong in (lambda: nd.ones(2, dtype=dtype), lambda: x.astype(dtype), lambda: nd.cast(x, dtype=dtype)):
        with pytest.raises((TypeError, MXNetError)) as caught:
            wrong()
        assert str(getattr(dtype, "__name__", dtype)) in str(caught.value)


def test_seeds_repeat():
    def draw():
        mx.random.seed(3)
        return [nd.random.normal(shape=4).asnumpy(), nd.random.uniform(shape=4).asnumpy()]

    one, two = draw(), draw()
    np.testing.assert_array_equal(one, two)
    mx.random.seed(4)
    assert not np.array_equal(nd.random.normal(shape=4).asnumpy(), one[0])


def test_contexts():
    with mx.cpu(1):
        assert nd.ones(2).context == mx.cpu(1) and mx.current_context() == mx.cpu(1)
        with mx.cpu(2):
            assert nd.ones(1).ctx == mx.cpu(2)
        assert nd.ones(2, ctx=mx.cpu(0)).context == mx.cpu(0)
    assert nd.ones(2).context == mx.cpu(0)
    x = nd.ones(2)
    assert x.as_in_context(mx.cpu(0)) is x and x.as_in_context(mx.cpu(1)) is not x
    with pytest.raises(KeyError, match="tpu"):
        mx.Context("tpu", 0)


def test_a_gpu_that_is_not_there_says_what_was_looked_for():
    if mx.num_gpus():
        pytest.skip("there is a GPU")
    ctx = mx.gpu(0)  # free to make
    assert str(ctx) == "gpu(0)"
    for use in (lambda: nd.ones(2, ctx=ctx), lambda: nd.ones(2).as_in_context(ctx), lambda: nd.array([1], ctx=ctx)):
        with pytest.raises(MXNetError) as caught:
            use()
        text = str(caught.value)
        assert "gpu(0)" in text and ("CuPy" in text or "cupy" in text or "driver" in text), text


def test_mixed_contexts_are_refused_and_both_named(cuda_driver):
    a, b = nd.ones(2), nd.ones(2, ctx=mx.gpu(0))
    for mixed in (lambda: a + b, lambda: nd.concat(a, b, dim=0), lambda: a.__iadd__(b), lambda: nd.dot(b, a)):
        with pytest.raises(MXNetError) as caught:
            mixed()
        assert "cpu(0)" in str(caught.value) and "gpu(0)" in str(caught.value)
    assert a.asnumpy().tolist() == [1, 1]
    assert (a.as_in_context(mx.gpu(0)) + b).asnumpy().tolist() == [2, 2]
    assert b.copyto(mx.cpu()).context == mx.cpu(0)


# -- element types

SCALARS = [
    ("int32", [3, 4], lambda x: x * 1.5, [3, 4]),
    ("int32", [3, 4], lambda x: x + 1.7, [4, 5]),
    ("int32", [5, -5], lambda x: x / 2, [2, -2]),
    ("uint8", [3], lambda x: x - 5, [254]),
    ("int32", [-5, 5], lambda x: x % 3, [1, 2]),
    ("float32", [5.5, -5.5], lambda x: x % -3, [-0.5, -2.5]),
    ("float32", [5.0], lambda x: x % 0, [0]),
    ("float32", [1.0, -1.0], lambda x: x / 0, [np.inf, -np.inf]),
    ("float64", [0.1], lambda x: x + 0.2, [0.30000000000000004]),
    ("float32", [1, 3], lambda x: x > 2, [0, 1]),
    ("int8", [1, 3], lambda x: x == 3, [0, 1]),
    ("float16", [1, 2], lambda x: 2**x, [2, 4]),
    ("float32", [2.5, -2.5, 0.5], lambda x: x.rint(), [2, -3, 0]),
    ("float32", [2.5, -2.5, 0.5], lambda x: x.round(), [3, -3, 1]),
    ("float32", [300, -1, 2.7], lambda x: x.astype("uint8"), [44, 255, 2]),
    ("int32", [7, 8], lambda x: x.mean(), [7]),
    ("int64", [7, 8], lambda x: x.sum(), [15]),
    ("bool", [True, False], lambda x: x.astype("float32"), [1, 0]),
    ("float32", [1, 2], lambda x: x.argmax(axis=0), [1]),
]


@pytest.mark.parametrize(("dtype", "values", "function", "expected"), SCALARS, ids=range(len(SCALARS)))
def test_dtype_rules(dtype, values, function, expected):
    x = nd.array(values, dtype=dtype)
    y = function(x)
    assert y.asnumpy().tolist() == expected
    if y.shape == x.shape and dtype not in ("bool",) and y.dtype is not np.uint8:
        assert y.dtype is x.dtype


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "**", "==", "<"])
def test_no_promotion(operator):
    a, b = nd.ones((2, 3)), nd.ones((2, 3), dtype="float64")
    with pytest.raises(MXNetError, match="at 1-th input: expected float32, got float64"):
        eval(f"a {operator} b", {"a": a, "b": b})


@pytest.mark.parametrize("other", [[1], "a", None, np.ones(3), {}, (1,)], ids=repr)
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "=="])
def test_other_operands_are_refused(operator, other):
    with pytest.raises(
        TypeError,
        match=f"type <class '{type(other).__module__}.*not supported|type <class '{type(other).__name__}'> not supported",
    ):
        eval(f"x {operator} other", {"x": nd.ones(3), "other": other})


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "%="])
def test_in_place(operator):
    host = numbered((2, 3)) + 1
    x = nd.array(host)
    same, alias, address = x, x[0], x.address
    scope = {"x": x, "y": nd.array([2, 3, 4])}
    exec(f"x {operator} y\nx {operator} 2", scope)
    expected = {"host": host, "y": np.array([2, 3, 4], "float32")}
    exec(f"host {operator} y\nhost {operator} 2", expected)
    assert scope["x"] is same and x.address == address
    np.testing.assert_allclose(x.asnumpy(), expected["host"], rtol=1e-6)
    np.testing.assert_array_equal(alias.asnumpy(), x.asnumpy()[0])


def test_in_place_never_grows():
    y = nd.ones(3)
    with pytest.raises(MXNetError, match=r"Shape inconsistent, Provided = \[3\], inferred shape=\[2,3\]"):
        y += nd.ones((2, 3))
    assert y.asnumpy().tolist() == [1, 1, 1]


def test_out():
    x, y = nd.array([-1, 2]), nd.zeros(2)
    assert nd.relu(x, out=y) is y and y.asnumpy().tolist() == [0, 2]
    with pytest.raises(MXNetError, match=r"0-th output: expected \[2\], got \[3\]"):
        nd.relu(x, out=nd.zeros(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda y: nd.full((3,), 0.1, out=y),
        lambda y: nd.full((9,), nd.array([0.1], dtype="float64"), out=y),  # as it is, whatever the shape
        lambda y: nd._internal._full(shape=(3,), value=0.1, out=y),
        lambda y: nd._internal._arange(start=0.1, stop=0.35, step=0.1, out=y),
    ],
)
def test_numbers_written_to_float64_are_not_rounded_before(make):
    y = nd.zeros(3, dtype="float64")
    assert make(y) is y and y.asnumpy()[0] == 0.1


def test_full_of_nothing():
    assert nd.full((0, 3), 1).shape == (0, 3) and nd.full((2, 0), 1, dtype="int32").dtype is np.int32


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("bounds", "values"), [((np.nan, 1), [-3, 0, 1]), ((0, np.nan), [0, 0, 3]), ((np.nan, np.nan), [-3, 0, 3])]
)
def test_clip_by_nan_does_not_clip(bounds, values, dtype, hybridized):
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.clip(x, *bounds))
    net.hybridize(hybridized)
    assert net(nd.array([-3, 0, 3], dtype=dtype)).asnumpy().tolist() == values


def test_clip_is_told_a_bound_that_is_nan():
    """Bounds that change from call to call are arguments of a program."""
    x = nd.array([-3, 0, 3])
    found = [nd.clip(x, a_min=low, a_max=2).asnumpy().tolist() for low in (-1, -2, np.nan, 0, np.nan)]
    assert found == [[-1, 0, 2], [-2, 0, 2], [-3, 0, 2], [0, 0, 2], [-3, 0, 2]]


CALLS = [
    (lambda x: nd.relu(3), AssertionError, "Argument data must have NDArray type, but got 3"),
    (lambda x: nd.concat([x, x]), AssertionError, "Positional arguments must have NDArray type, but got ["),
    (lambda x: nd.FullyConnected(x, num_hidden=2), MXNetError, "Operator FullyConnected expects 3 inputs, but got 1 instead."),
    (lambda x: nd.clip(x, a_min=0, a_max=1, foo=1), MXNetError, "Cannot find argument 'foo', Possible Arguments:"),
    (lambda x: nd.clip(x, a_min=0, a_max=1e40), MXNetError, "Out of range value for a_max, value='1e+40'"),
    (lambda x: nd.LeakyReLU(x, slope=1e39), MXNetError, "Out of range value for slope, value='1e+39'"),
    (lambda x: nd.hard_sigmoid(x, alpha=-1e-39), MXNetError, "Out of range value for alpha, value='-1e-39'"),
    (lambda x: nd.sgd_update(x, x, lr=1e-46), MXNetError, "Out of range value for lr, value='1e-46'"),
    (lambda x: nd.contrib.MultiBoxPrior(x, sizes=(1e39,)), MXNetError, "Invalid Parameter format for sizes expect tuple of <float> but value='(1e+39,)'"),
    (lambda x: nd.contrib.MultiBoxPrior(x, ratios=(1, np.inf)), MXNetError, "Invalid Parameter format for ratios expect tuple of <float> but value='(1, inf)'"),
    (lambda x: nd.histogram(x, bins=2, range=(np.nan, 1)), MXNetError, "Invalid Parameter format for range expect tuple of <double> but value='(nan, 1)'"),
    (lambda x: nd.contrib.BilinearResize2D(x, scale_width=1e39), MXNetError, "Invalid Parameter format for scale_width expect float or None but value='1e+39'"),
    (lambda x: nd.FullyConnected(x, x, x), MXNetError, 'Required parameter num_hidden of int is not presented, in operator FullyConnected(name="")'),
    (lambda x: nd.Activation(x, act_type="zz"), MXNetError, "Invalid Input: 'zz', valid values are: {'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}, in operator Activation("),
    (lambda x: x + nd.ones((2, 4)), MXNetError, "operands could not be broadcast together with shapes [2,3] [2,4]"),
    (lambda x: nd.elemwise_add(x, nd.ones((1, 3))), MXNetError, "at 1-th input: expected [2,3], got [1,3]"),
    (lambda x: nd.sum(x, axis=5), MXNetError, "Reduction axis 5 Exceeds input dimensions [2,3]"),
    (lambda x: nd.dot(x, x), MXNetError, "dot shape error: [2,3] X [2,3]"),
    (lambda x: nd.softmax(x.astype("int32")), MXNetError, "This operation only support floating point types, not int32"),
    (lambda x: x.reshape((2, 2)), ValueError, "Cannot reshape array of size 6 into shape (2, 2)"),
    (lambda x: x.reshape(), AssertionError, "Shape must be provided."),
    (lambda x: x.broadcast_to((3, 3)), ValueError, "remapped shapes[original->remapped]: (2, 3) and requested shape (3, 3)"),
    (lambda x: x.asscalar(), ValueError, "The current array is not a scalar"),
    (lambda x: bool(x), ValueError, "The truth value of an NDArray with multiple elements is ambiguous."),
    (lambda x: x.copyto(5), TypeError, "copyto does not support type <class 'int'>"),
    (lambda x: x.copyto(nd.ones(3)), mx.MXNetError, "expected [2,3], got [3]"),
    (lambda x: x.item(), AttributeError, "'NDArray' object has no attribute 'item'\nWrite x.asscalar(). (test_ndarray.py:"),
    (lambda x: x.nope, AttributeError, "'NDArray' object has no attribute 'nope'"),
    (lambda x: x // 2, TypeError, "unsupported operand type(s) for //: 'NDArray' and 'int'\nWrite nd.floor(x / 2). (test_ndarray.py:"),
    (lambda x: 2 // x, TypeError, "unsupported operand type(s) for //: 'int' and 'NDArray'\nWrite nd.floor(2 / x)."),
    (lambda x: np.float32(2) // x, TypeError, "unsupported operand type(s) for //: 'float32' and 'NDArray'\nWrite nd.floor(x / y)."),
    (lambda x: divmod(x, 2), TypeError, "unsupported operand type(s) for divmod(): 'NDArray' and 'int'\nWrite nd.floor(x / 2) and x % 2."),
    (lambda x: x @ x.T, TypeError, "unsupported operand type(s) for @: 'NDArray' and 'NDArray'\nWrite nd.dot(x, y), for stacks of matrices nd.batch_dot(x, y)"),
    (lambda x: (x > 0) & (x < 1), TypeError, "unsupported operand type(s) for &: 'NDArray' and 'NDArray'\nWrite x * y for what comparisons give"),
    (lambda x: ~x, TypeError, "bad operand type for unary ~: 'NDArray'\nWrite nd.logical_not(x)."),
    (lambda x: round(x), TypeError, "type NDArray doesn't define __round__ method\nWrite nd.round(x)."),
    (lambda x: math.ceil(x), TypeError, "must be real number, not NDArray\nWrite nd.ceil(x)."),
    (lambda x: float(x), TypeError, "float() argument must be a string or a real number, not 'NDArray'\nx.asscalar() is the number"),
    (lambda x: int(x), TypeError, "int() argument must be a string, a bytes-like object or a real number, not 'NDArray'\nx.asscalar()"),
    (lambda x: range(x), TypeError, "'NDArray' object cannot be interpreted as an integer\nx.asscalar()"),
    (lambda x: f"{x:.3f}", TypeError, "unsupported format string passed to NDArray.__format__\nx.asscalar()"),
    (lambda x: np.mean(x, axis=1), MXNetError, "NumPy calls x.mean with arguments of its own: write x.mean or nd.mean, or give NumPy x.asnumpy(). (test_ndarray.py:"),
    (lambda x: x.attach_grad("foo"), KeyError, "foo"),
    (lambda x: nd.ones(()), MXNetError, "Operator _ones inferring shapes failed."),
    (lambda x: nd.zeros((0, 3)), MXNetError, "Operator _zeros inferring shapes failed."),
    (lambda x: nd.ones((2, -1)), MXNetError, ""),
    (lambda x: nd.arange(5, 2), MXNetError, "Invalid range (start, stop, step) = (5,2,1)"),
    (lambda x: nd.dot(x, nd.ones(4)), MXNetError, "in operator dot(lhs: float32[2,3], rhs: float32[4])"),
    (lambda x: x + x.astype("float64"), MXNetError, "in operator broadcast_add(lhs: float32[2,3], rhs: float64[2,3])"),
    (lambda x: nd.stack(x, nd.ones(3)), MXNetError, "in operator stack(arg0: float32[2,3], arg1: float32[3])"),
    (lambda x: nd.relu(x, out=nd.zeros((2, 3), dtype="int32")), MXNetError, "at 0-th output: expected float32, got int32"),
    (lambda x: nd.split(x, 3, out=[x[:, :1], x[:, :1], nd.ones((2, 1), dtype="float64")]), MXNetError, "at 2-th output: expected float32, got float64"),
    (lambda x: nd.tile(x, reps=(-1,)), MXNetError, "reps must not be negative, got [-1]"),
    (lambda x: nd.Dropout(x, p=1.5), MXNetError, "value 1.5 for Parameter p exceed bound [0,1]"),
    (lambda x: nd.Dropout(x, p=float("nan")), MXNetError, "for Parameter p exceed bound"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "text"), CALLS, ids=[c[2][:40] for c in CALLS])
def test_wrong_calls(wrong, error, text):
    x = nd.array(numbered((2, 3)))
    with pytest.raises(error) as caught:
        wrong(x)
    assert text in str(caught.value)
    np.testing.assert_array_equal(x.asnumpy(), numbered((2, 3)))


@pytest.mark.parametrize(
    "shape",
    [(-1,), (0, -1), (-2,), (0, -2, 1), (-3, 0), (0, -3), (-4, 1, 2, -2), (-4, -1, 2, -3), (3, 2, 4), (0, 0, 0), (24,)],
    ids=str,
)
def test_reshape_codes_agree_in_method_operator_and_graph(shape):
    x = nd.array(numbered((2, 3, 4)))
    method, operator = x.reshape(shape), nd.reshape(x, shape=shape)
    graph = mx.sym.var("x").reshape(shape).eval(x=x)[0]
    assert method.shape == operator.shape == graph.shape
    for y in (method, operator, graph):
        np.testing.assert_array_equal(y.asnumpy().ravel(), x.asnumpy().ravel())


# -- printing

PRINTED = [
    (lambda: nd.array([1.5, 2]), "\n[1.5 2. ]\n<NDArray 2 @cpu(0)>"),
    (lambda: nd.array([[1, 2, 3], [4, 5, 6]]), "\n[[1. 2. 3.]\n [4. 5. 6.]]\n<NDArray 2x3 @cpu(0)>"),
    (lambda: nd.array(3), "\n3.0\n<NDArray  @cpu(0)>"),
    (lambda: nd.array([]), "\n[]\n<NDArray 0 @cpu(0)>"),
    (lambda: nd.array([1, 2], dtype="int32", ctx=mx.cpu(1)), "\n[1 2]\n<NDArray 2 @cpu(1)>"),
    (lambda: nd.array([1, 0], dtype="bool"), "\n[ True False]\n<NDArray 2 @cpu(0)>"),
    (lambda: nd.ones((2, 1, 2), dtype="float16"), "\n[[[1. 1.]]\n\n [[1. 1.]]]\n<NDArray 2x1x2 @cpu(0)>"),
]


@pytest.mark.parametrize(("make", "text"), PRINTED, ids=range(len(PRINTED)))
def test_printing(make, text):
    assert repr(make()) == str(make()) == text


def test_printing_large_arrays_follows_numpy():
    x = nd.arange(2000).reshape((2, 1000))
    assert str(x) == f"\n{x.asnumpy()}\n<NDArray 2x1000 @cpu(0)>" and "..." in str(x)


# -- exchange


def test_array_protocol_both_ways():
    host = numbered((2, 3))
    x = nd.array(host)
    assert np.asarray(x).tolist() == host.tolist() and np.asarray(x, dtype="int64").dtype == np.int64
    copied = np.array(x)
    copied[0, 0] = 99
    assert x[0, 0].asscalar() == 0
    view = np.array(x, copy=False)
    view[0, 0] = 5
    assert x[0, 0].asscalar() == 5
    np.testing.assert_array_equal(np.sin(x.asnumpy()), nd.array(np.sin(np.asarray(x))).asnumpy())
    owned = x.asnumpy()
    owned[:] = 0
    assert x[0, 0].asscalar() == 5 and owned.flags.writeable


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"])
def test_dlpack_both_ways(dtype):
    x = nd.array(numbered((2, 3)), dtype=dtype)
    shared = np.from_dlpack(x)
    assert shared.dtype == dtype and shared.tolist() == x.asnumpy().tolist()
    x[0] = 7
    assert shared[0].tolist() == [7, 7, 7]
    host = numbered((2, 3), dtype)
    for back in (nd.from_dlpack(host), nd.from_dlpack(host.__dlpack__())):
        back[1] = 9
        assert host[1].tolist() == [9, 9, 9] and back.dtype is getattr(np, dtype)
    again = nd.from_dlpack(x.to_dlpack_for_read())
    assert again.asnumpy().tolist() == x.asnumpy().tolist()


def test_exports_outlive_the_array():
    x = nd.array(numbered((100, 100)))
    shared, view = np.from_dlpack(x), np.array(x[1:3], copy=False)
    want = x.asnumpy()
    del x
    gc.collect()
    junk = [nd.full((100, 100), -1) for _ in range(20)]
    np.testing.assert_array_equal(shared, want)
    np.testing.assert_array_equal(view, want[1:3])
    del junk


@pytest.mark.parametrize(
    "out, message",
    [
        ((4,), "expected [3], got [4]"),
        ([(3,), (3,)], "Operator expects 1 (all) or 1 (visible only) outputs, but got 2"),
    ],
    ids=["shape", "number"],
)
def test_an_out_that_does_not_fit_changes_nothing(out, message):
    weight, momentum = nd.ones((3,)), nd.zeros((3,))
    given = [nd.zeros(s) for s in out] if isinstance(out, list) else nd.zeros(out)
    with pytest.raises(MXNetError, match=re.escape(message)):
        nd.sgd_mom_update(weight, nd.ones((3,)), momentum, out=given, lr=0.1, momentum=0.9)
    np.testing.assert_array_equal(weight.asnumpy(), 1)
    np.testing.assert_array_equal(momentum.asnumpy(), 0)


@pytest.mark.parametrize("kind", [ValueError, UnicodeError, ZeroDivisionError])
def test_errors_inside_an_operator_name_their_class(monkeypatch, kind):
    """So that a defect of ours does not read like a mistake of the user's."""

    def fail(self, device, arrays):
        raise kind("too many values to unpack")

    x = nd.ones(2)
    monkeypatch.setattr(DifferentiableGraph, "run", fail)
    said = rf"operator relu cannot be computed: {kind.__name__}: too many values to unpack"
    with pytest.raises(MXNetError, match=said) as raised:
        nd.relu(x)
    assert type(raised.value.__cause__) is kind


def test_from_numpy():
    host = numbered((2, 3))
    shared = nd.from_numpy(host)
    host_address = host.__array_interface__["data"][0]
    assert shared.address == host_address
    assert nd.from_numpy(host, zero_copy=False).address != host_address


def test_importing_costs_no_library():
    """By modules, not by time: CuPy, Jinja2 and NVRTC come only with the work that needs them."""
    code = (
        "import sys, numpy; before = set(sys.modules); import hybridgpu as mx; new = set(sys.modules) - before\n"
        "heavy = ('cupy', 'cupy_backends', 'jinja2', 'nvidia', 'cuda', 'click', 'rich', 'platformdirs', 'ctypes.util', 'asyncio', 'hypothesis')\n"
        "bad = sorted(m for m in new if m.split('.')[0] in heavy or m in heavy)\n"
        "assert not bad, bad\n"
        "x = mx.nd.ones(3) + 1; assert x.asnumpy().tolist() == [2, 2, 2]\n"
        "assert 'jinja2' not in sys.modules and 'cupy' not in sys.modules\n"
        "print(len(new))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr


# -- helpers that are no operators


@pytest.mark.parametrize(("given", "parts"), [(3, [2, 2, 2]), ((1, 4), [1, 3, 2]), ([2], [2, 4])])
def test_split_v2_is_a_method(given, parts):
    x = nd.array(numbered((2, 6)))
    found = x.split_v2(given, axis=1)
    assert [p.shape for p in found] == [(2, k) for k in parts]
    assert (nd.concat(*found, dim=1).asnumpy() == x.asnumpy()).all()
    assert len(mx.sym.var("x").split_v2(given, axis=1).list_outputs()) == len(parts)


def test_onehot_encode():
    out = nd.ones((3, 4))
    assert nd.onehot_encode(nd.array([1, 0, 3]), out) is out
    assert (out.asnumpy() == np.eye(4)[[1, 0, 3]]).all()


@pytest.mark.parametrize(
    ("axes", "text"),
    [({"lhs_axes": (), "rhs_axes": ()}, "Empty axes tuple is not allowed"),
     ({"lhs_axes": (0,), "rhs_axes": ()}, "Input_axis and other_axis size does not match")],
)  # fmt: skip
def test_broadcast_like_wants_axes(axes, text):
    with pytest.raises(MXNetError, match=text):
        nd.broadcast_like(nd.ones((1, 2)), nd.ones((3, 2)), **axes)


def test_state_of_an_array_that_mxnet_pickled():
    head = b"\xc9\xfa\x93\xf9\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
    x = nd.zeros(3)
    for device in (1, 2):  # one of a GPU comes to lie on the CPU, too
        body = bytes([device, 0, 0, 0]) + bytes(4) + b"\x02\0\0\0" + b"\0<\0A"
        x.__setstate__({"handle": bytearray(head + body)})
        np.testing.assert_array_equal(x.asnumpy(), np.array([[1, 2.5]], "float16"))
        assert (x.dtype, x.context) == (np.float16, mx.cpu())


@pytest.mark.parametrize(
    "like", [nd.ones(1, dtype="int32"), np.ones(1, np.int32), np.int32(3)], ids=lambda x: type(x).__name__
)
def test_an_array_in_place_of_an_element_type(like):
    assert nd.ones((2,)).astype(like).dtype == np.int32
    assert nd.zeros((2,), dtype=like).dtype == np.int32

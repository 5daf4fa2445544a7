# SPDX-License-Identifier: Apache-2.0
"""Errors of np about shapes and types name the function and what it was given, and say what to write: eager and traced."""

from __future__ import annotations

import re

import pytest

import hybridgpu as mx
from hybridgpu import gluon, np, npx

#: call -> (the line about the operator, the line about what to write)
SAID = {
    "x + y": (
        "_npi_add(lhs: float32[2,3], rhs: float32[4]), np.add",
        "Sizes of axes, counted from the last one, are equal, or one of them is 1: reshape, slice or transpose lhs of shape "
        "(2, 3) or rhs of shape (4,).",
    ),
    "np.multiply(two, x)": (
        "_npi_multiply(lhs: float32[2], rhs: float32[2,3]), np.multiply",
        "are equal, or one of them is 1: write lhs.reshape((2, 1)) for the axes of rhs that it stands for.",
    ),
    "np.random.normal(x, y)": (
        "_npi_normal(input1: float32[2,3], input2: float32[4]), np.random.normal",
        "Sizes of axes, counted from the last one, are equal",
    ),
    "np.random.normal(y, 1.0, size=(3,))": ("_npi_normal(input1: float32[4]), np.random.normal", "with shapes [4] [3]"),
    "np.stack([x, x], axis=5)": ("_npi_stack(", "The result has 3 axes: write one of -3 to 2."),
    "np.matmul(x, x)": (
        "_npi_matmul(a: float32[2,3], b: float32[2,3]), np.matmul",
        "The sum of products needs axis 1 of a (3) as long as axis 0 of b (2): transpose one of them, such as b.T.",
    ),
    "np.dot(x, y)": ("_np_dot(a: float32[2,3], b: float32[4]), np.dot", "axis 1 of a (3) as long as axis 0 of b (4)"),
    "np.tensordot(x, x, 1)": ("_npi_tensordot_int_axes(", "axis 1 of a (3) as long as axis 0 of b (2)"),
    "np.sum(x, axis=5)": ("_np_sum(a: float32[2,3]), np.sum", "a of shape (2, 3) has 2 axes: write one of -2 to 1."),
    "np.argmax(y, axis=4)": ("_npi_argmax(data: float32[4])", "data of shape (4,) has 1 axis: write one of -1 to 0."),
    "np.flip(x, 7)": ("_npi_flip(data: float32[2,3]), np.flip", "has 2 axes: write one of -2 to 1."),
    "npx.softmax(x, axis=4)": ("softmax(data: float32[2,3])", "has 2 axes: write one of -2 to 1."),
    "np.cumsum(x, axis=5)": ("_np_cumsum(", "has 2 axes: write one of -2 to 1."),
    "np.concatenate([x, y])": ("_npi_concatenate(", "Arrays that are joined have the same sizes along every axis but"),
    "np.vstack([x, y])": ("_npi_vstack(arg0: float32[2,3], arg1: float32[4]), np.vstack", "Arrays that are joined"),
    "np.stack([y, y, x])": (
        "_npi_stack(arg0: float32[4], arg1: float32[4], arg2: float32[2,3]), np.stack",
        "Arrays that are stacked have one shape, but arg0 has (4,) and arg2 (2, 3): reshape or slice them, or join",
    ),
    "x.reshape(5, 5)": (
        "_np_reshape(",
        "A shape with as many elements fits; -1 in it stands for the size that follows",
    ),
    "np.add(x, x).reshape(7)": ("_np_reshape(a: float32[2,3]), np.reshape", "A shape with as many elements fits"),
    "np.bitwise_and(x, x)": (
        "_npi_bitwise_and(lhs: float32[2,3], rhs: float32[2,3]), np.bitwise_and",
        "Bits are those of whole numbers and of bool, not of float32: cast with astype('int32'), or compare first.",
    ),
    "np.equal(x, whole)": ("_npi_equal(lhs: float32[2,3], rhs: int32[3]), np.equal", "cast rhs with astype('float32')"),
    "np.dot(x, whole)": ("_np_dot(a: float32[2,3], b: int32[3]), np.dot", "cast b with astype('float32')."),
}
NAMES = ("x", "y", "two", "whole")


@pytest.fixture(autouse=True)
def _numpy_semantics():
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def arrays():
    return np.ones((2, 3)), np.ones((4,)), np.ones((2,)), np.ones((3,), dtype="int32")


def checked(call: str, error: BaseException) -> list[str]:
    operator, instead = SAID[call]
    lines = str(error).splitlines()
    assert any(line.startswith("in operator ") and operator in line for line in lines), lines
    assert any(instead in line for line in lines), lines
    return lines


@pytest.mark.parametrize("call", SAID)
def test_eager(call):
    with pytest.raises(mx.MXNetError) as caught:
        eval(call, {"np": np, "npx": npx, **dict(zip(NAMES, arrays(), strict=True))})
    checked(call, caught.value)


@pytest.mark.parametrize("call", SAID)
def test_traced(call):
    """In a function: the block and the line as well."""
    scope = {"np": np, "npx": npx, "mx": mx}
    text = f"@mx.hybridize\ndef traced({', '.join(NAMES)}):\n    return {call}\n"
    exec(compile(text, "program_of_a_user.py", "exec"), scope)
    with pytest.raises(mx.MXNetError) as caught:
        scope["traced"](*arrays())
    assert "(in block traced, program_of_a_user.py:3)" in checked(call, caught.value)[-1]


def test_in_hybrid_forward():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.np.matmul(x, y)

    net = Net()
    net.hybridize()
    with pytest.raises(mx.MXNetError) as caught:
        net(*arrays()[:2])
    text = str(caught.value)
    assert re.search(r"in operator _npi_matmul\(a data0: float32\[2,3\], b data1: float32\[4\]\), np\.matmul\n", text)
    assert "axis 1 of a (3) as long as axis 0 of b (4)" in text
    assert re.search(r"\(made in block net\d+, test_error_messages\.py:\d+\)", text)


def test_legacy_functions_say_the_same():
    with mx.util.np_shape(False), mx.util.np_array(False):
        x, y = mx.nd.ones((2, 3)), mx.nd.ones((2,))
        with pytest.raises(mx.MXNetError, match=r"are equal, or one of them is 1|write rhs.reshape\(\(2, 1\)\)"):
            mx.nd.broadcast_add(x, y)
        with pytest.raises(mx.MXNetError, match="has 2 axes: write one of -2 to 1"):
            mx.nd.softmax(x, axis=4)


def test_nothing_is_said_that_is_not_so():
    """A new axis may stand behind the last one."""
    with pytest.raises(mx.MXNetError, match="axis must be in the range") as caught:
        np.expand_dims(np.ones((2, 3)), 3)
    assert "write one of" not in str(caught.value) and np.expand_dims(np.ones((2, 3)), 2).shape == (2, 3, 1)


#: call -> (the class, the first line's start, the last one's)
WRITTEN = {
    "np.zeros(2, 3)": (mx.MXNetError, "Invalid Input: '3', valid values", "Write the extents as one tuple, (2, 3)."),
    "np.concatenate(x, x)": (
        mx.MXNetError,
        "Invalid Parameter format for axis",
        "axis is no array: several arrays are given as",
    ),
    "npx.softmax(x, -1)": (
        AssertionError,
        "Argument length must have NDArray type, but got -1",
        "softmax takes data, length; the others are written by name: axis,",
    ),
    "npx.batch_norm(x)": (
        mx.MXNetError,
        "Check failed: num_inputs == infered_num_inputs (1 vs. 5)",
        "BatchNorm takes data, gamma, beta, moving_mean, moving_var for these attributes.",
    ),
    "x.item()": (
        ValueError,
        "can only convert an array of size 1",
        "An array of shape (2, 3) has several numbers: write x.mean().item()",
    ),
    "float(x)": (
        TypeError,
        "only size-1 arrays can be converted",
        "An array of shape (2, 3) has several numbers: write x.mean().item()",
    ),
    "bool(x)": (
        ValueError,
        "The truth value of an ndarray with multiple",
        "Write (x > 0).all(), which says whether it holds for all",
    ),
    "x + legacy": (
        TypeError,
        "type <class 'hybridgpu.ndarray.ndarray.NDArray'>",
        "Write x.as_np_ndarray() for the array of nd",
    ),
    "npx.relu(legacy)": (
        TypeError,
        "Operator `_npx_relu` registered in backend is known as `relu`",
        "Write x.as_np_ndarray() for arrays of nd. Parameters are of nd where npx.set_np() was called after net.initialize()",
    ),
    "mx.nd.broadcast_add(x, legacy)": (
        TypeError,
        "Operator `broadcast_add` registered in backend",
        "Write x.as_np_ndarray() for an array of nd beside one of np, or functions of np and npx.",
    ),
}


@pytest.mark.parametrize("call", WRITTEN)
def test_what_is_written_instead(call):
    error, first, last = WRITTEN[call]
    with pytest.raises(error) as caught:
        eval(call, {"np": np, "npx": npx, "mx": mx, "x": np.ones((2, 3)), "legacy": mx.nd.ones((2, 3))})
    lines = str(caught.value).split("\n")
    assert lines[0].startswith(first) and lines[-1].startswith(last)

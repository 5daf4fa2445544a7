# SPDX-License-Identifier: Apache-2.0
"""Sequences of different lengths, and products of attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops.support import array, check_derivatives, gradients, runs

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.base import MXNetError

RNG = np.random.default_rng(9)


def mask(x, lengths, axis=0, value=0.0):
    y = x.copy()
    for b, n in enumerate(lengths):
        np.moveaxis(y, axis, 0)[(slice(int(n), None), b)] = value
    return y


def last(x, lengths, axis=0):
    return np.stack([np.moveaxis(x, axis, 0)[int(n) - 1, b] for b, n in enumerate(lengths)])


def reverse(x, lengths, axis=0):
    y = x.copy()
    for b, n in enumerate(lengths):
        y[: int(n), b] = x[: int(n), b][::-1]
    return y


FORMULAS = {"SequenceMask": mask, "SequenceLast": last, "SequenceReverse": reverse}
CASES = [
    ("SequenceMask", (4, 3), {"axis": 0}),
    ("SequenceMask", (4, 3, 2), {"axis": 0, "value": -1.5}),
    ("SequenceMask", (3, 4, 2, 2), {"axis": 1, "value": 2.0}),
    ("SequenceLast", (4, 3), {"axis": 0}),
    ("SequenceLast", (4, 3, 2), {"axis": 0}),
    ("SequenceLast", (3, 4, 2, 2), {"axis": 1}),
    ("SequenceReverse", (4, 3), {}),
    ("SequenceReverse", (5, 2, 3), {}),
]
cases = pytest.mark.parametrize(("operator", "shape", "attributes"), CASES)


@cases
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("length_type", ["float32", "int32", "int64"])
def test_with_lengths(operator, shape, attributes, dtype, length_type):
    axis = attributes.get("axis", 0)
    x = RNG.integers(-5, 6, shape).astype(dtype)
    lengths = RNG.integers(1, shape[axis] + 1, shape[1 - axis]).astype(length_type)
    want = FORMULAS[operator](x, lengths, **attributes)
    run = runs(operator, {**attributes, "use_sequence_length": True})[0]
    got = run(array(x), array(lengths))
    assert got.dtype == x.dtype.type
    np.testing.assert_array_equal(got.asnumpy(), want)


@cases
def test_hybridized_and_derivatives(operator, shape, attributes):
    axis = attributes.get("axis", 0)
    x, lengths = RNG.normal(size=shape), RNG.integers(1, shape[axis] + 1, shape[1 - axis])
    for run in runs(operator, {**attributes, "use_sequence_length": True}):
        np.testing.assert_array_equal(
            run(array(x), array(lengths)).asnumpy(), FORMULAS[operator](x, lengths, **attributes)
        )
        check_derivatives(run, [x, lengths], (0,), second=False)


@cases
def test_without_lengths(operator, shape, attributes):
    axis = attributes.get("axis", 0)
    x = RNG.normal(size=shape)
    want = {"SequenceMask": x, "SequenceLast": np.take(x, -1, axis), "SequenceReverse": x[::-1]}[operator]
    for run in runs(operator, attributes):
        _, (grad,), _ = gradients(run, [x], (0,))
        np.testing.assert_array_equal(run(array(x)).asnumpy(), want)
        assert grad.sum() == want.size


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_lengths(data):
    steps, batch = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    lengths = np.array(data.draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch)), "int32")
    x = np.arange(steps * batch * 2, dtype="float32").reshape(steps, batch, 2)
    for operator in ("SequenceMask", "SequenceReverse"):
        got = getattr(nd, operator)(array(x), array(lengths), use_sequence_length=True)
        np.testing.assert_array_equal(got.asnumpy(), FORMULAS[operator](x, lengths))


def test_symbols():
    s = mx.sym.SequenceMask(mx.sym.var("x"), name="m", use_sequence_length=True)
    assert s.list_arguments() == ["x", "m_sequence_length"]
    assert s.infer_shape(x=(4, 3, 2))[0] == [(4, 3, 2), (3,)]
    assert mx.sym.SequenceLast(mx.sym.var("x"), axis=1).infer_shape(x=(4, 3, 2))[1] == [(4, 2)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nd.SequenceMask(nd.ones((2, 3, 2)), axis=2), "expects axis to be 0 or 1"),
        (lambda: nd.SequenceReverse(nd.ones((2, 3)), axis=1), "expects axis to be 0."),
        (lambda: nd.SequenceLast(nd.ones((3,))), "must be of rank 2 or greater"),
        (
            lambda: nd.SequenceMask(nd.ones((2, 3)), nd.ones((2,)), use_sequence_length=True),
            r"Provided = \[2\], inferred shape=\[3\]",
        ),
        (lambda: nd.contrib.interleaved_matmul_selfatt_qk(nd.ones((2, 3)), heads=1), "should be 3D"),
        (lambda: nd.contrib.interleaved_matmul_selfatt_qk(nd.ones((2, 3, 8)), heads=1), r"multiple of heads \* 3"),
        (
            lambda: nd.contrib.interleaved_matmul_encdec_qk(nd.ones((2, 3, 4)), nd.ones((2, 3, 4)), heads=1),
            "should be equal to queries.shape",
        ),
        (
            lambda: nd.contrib.interleaved_matmul_selfatt_valatt(nd.ones((2, 3, 6)), nd.ones((4, 2, 2)), heads=1),
            "attention.shape",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(MXNetError, match=message):
        call()


# -- attention


def parts(x, heads, count):
    """(count, batch * heads, length, depth)"""
    length, batch, width = x.shape
    return x.reshape(length, batch * heads, count, width // heads // count).transpose(2, 1, 0, 3)


def scores(q, k):
    return q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])


def joined(y, batch):
    return y.transpose(1, 0, 2).reshape(y.shape[1], batch, -1)


ATTENTION = [
    ("selfatt_qk", lambda h: [(3, 2, 12)], lambda h, x: scores(*parts(x, h, 3)[:2])),
    (
        "selfatt_valatt",
        lambda h: [(3, 2, 12), (2 * h, 3, 3)],
        lambda h, x, a: joined(a @ parts(x, h, 3)[2], 2),
    ),
    (
        "encdec_qk",
        lambda h: [(3, 2, 4), (5, 2, 8)],
        lambda h, q, x: scores(parts(q, h, 1)[0], parts(x, h, 2)[0]),
    ),
    (
        "encdec_valatt",
        lambda h: [(5, 2, 8), (2 * h, 3, 5)],
        lambda h, x, a: joined(a @ parts(x, h, 2)[1], 2),
    ),
]


@pytest.mark.parametrize(("name", "shapes", "formula"), ATTENTION)
@pytest.mark.parametrize("heads", [1, 2])
def test_attention(name, shapes, formula, heads):
    inputs = [RNG.normal(size=s) for s in shapes(heads)]
    for run in runs(f"contrib.interleaved_matmul_{name}", {"heads": heads}):
        np.testing.assert_allclose(run(*map(array, inputs)).asnumpy(), formula(heads, *inputs), rtol=1e-10, atol=1e-12)
        check_derivatives(run, inputs, range(len(inputs)))

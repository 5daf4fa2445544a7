# SPDX-License-Identifier: Apache-2.0
"""Matrix products of the host: every tile, remainder and order of operands against float64, and the same for every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.gluon import HybridBlock


class Product(HybridBlock):
    """relu(x . w + 1), the operands stored as given or transposed."""

    def __init__(self, left: bool, right: bool):
        super().__init__()
        self.left, self.right = left, right

    def hybrid_forward(self, F, x, w):
        return F.relu(F.dot(x, w, transpose_a=self.left, transpose_b=self.right) + 1)


def product(x, w, left, right):
    """(the compiled block's result, the kinds of steps that compute it)."""
    net = Product(left, right)
    net.hybridize()
    a, b = nd.array(x.T if left else x, dtype=x.dtype), nd.array(w.T if right else w, dtype=w.dtype)
    y = net(a, b).asnumpy()
    report = net.explain(a, b)
    return y, [k.kind for k in report.kernels] + [c.name for c in report.library_calls]


def operands(m, k, n, dtype):
    rng = np.random.RandomState(m * 10007 + k * 101 + n)
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


def close(got, x, w):
    """Whether the result is right: its error against float64 is that of k roundings of the terms, at the most."""
    exact = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + 1, 0)
    terms = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64)) + 1
    bound = 2 * np.finfo(got.dtype).eps * np.sqrt(x.shape[1] + 4) * terms
    return got.shape == exact.shape and bool((np.abs(got - exact) <= bound).all())


#: rows, length of the sum, columns: whole tiles, remainders of each, rows that are no whole vectors, several groups
SHAPES = [
    (1, 512, 256), (1, 17, 13), (1, 300, 5), (2, 64, 6), (3, 48, 7), (4, 16, 6), (5, 33, 50), (7, 100, 47), (8, 64, 48),
    (16, 512, 256), (16, 300, 333), (63, 65, 49), (64, 64, 64), (65, 31, 96), (67, 496, 11), (68, 40, 7), (130, 40, 61),
    (16, 512, 17), (17, 513, 64), (20, 1100, 40), (6, 5000, 9), (16, 1, 16), (40, 2, 3),
    (9, 1500, 100), (530, 600, 65), (100, 1030, 24),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), [(False, True), (False, False), (True, False), (True, True)])
def test_shapes(left, right, dtype):
    """One program of all shapes would compile no faster: every one of them is a kernel of its own."""
    for m, k, n in SHAPES[:: 1 if (dtype is np.float32 and not left) else 3]:
        x, w = operands(m, k, n, dtype)
        y, _ = product(x, w, left, right)
        assert close(y, x, w), (m, k, n)


REVERSED = [(), (1,), (2,), (1, 2)]  #: axes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), [(False, True), (False, False), (True, False), (True, True)])
@pytest.mark.parametrize("extents", [(2, 17, 17, 4), (3, 20, 9, 33), (2, 1, 40, 40)])
def test_operands_that_are_read_backwards(extents, left, right, dtype):
    """Strides of -1 and of minus a row along every axis of either operand; all products are one program."""
    batch, m, k, n = extents
    rng = np.random.default_rng(m)
    a, b = (
        rng.integers(-9, 9, (batch, *(shape[::-1] if turned else shape))).astype(dtype)
        for shape, turned in (((m, k), left), ((k, n), right))
    )
    pairs = [(p, q) for p in REVERSED for q in REVERSED]

    def products(x, y):
        return [nd.batch_dot(_flipped(x, p), _flipped(y, q), transpose_a=left, transpose_b=right) for p, q in pairs]

    found = mx.hybridize(products)(nd.array(a, dtype=dtype), nd.array(b, dtype=dtype))
    for (p, q), y in zip(pairs, found, strict=True):
        x, w = np.flip(a, p), np.flip(b, q)
        expected = (x.swapaxes(1, 2) if left else x) @ (w.swapaxes(1, 2) if right else w)
        np.testing.assert_array_equal(y.asnumpy(), expected, f"{p} {q}")  # whole numbers: without rounding


def _flipped(x, axes):
    return nd.flip(x, axis=axes) if axes else x


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 80), st.integers(1, 700), st.integers(1, 130), st.booleans(), st.booleans())
def test_random_shapes(m, k, n, left, right):
    x, w = operands(m, k, n, np.float32)
    assert close(product(x, w, left, right)[0], x, w)


@pytest.mark.parametrize(
    ("k", "n", "right"),
    [(300, 50, True), (512, 64, True), (200, 70, False), (64, 333, False), (600, 128, False), (1100, 96, False)],
)
def test_a_row_does_not_depend_on_its_place(k, n, right):
    """Tiles, the rows left over, and one row alone sum in the same order."""
    x, w = operands(67, k, n, np.float32)
    whole, _ = product(x, w, False, right)
    for first, last in ((0, 1), (66, 67), (5, 8), (3, 24), (1, 67)):
        part, _ = product(x[first:last], w, False, right)
        np.testing.assert_array_equal(part, whole[first:last])


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("shape", "left", "right", "kind"),
    [
        ((16, 512, 256), False, True, "matmul"),
        ((64, 784, 256), False, True, "matmul"),
        ((64, 256, 128), False, False, "matmul"),
        ((256, 64, 784), True, False, "matmul"),
        ((4, 4096, 4096), False, True, "matmul"),
        ((512, 1024, 1024), False, True, "matmul"),
        ((64, 4096, 64), False, False, "matmul"),
    ],
)
def test_choice(shape, left, right, kind):
    """Products of floats are kernels, whatever their size."""
    assert kind in product(*operands(*shape, np.float32), left, right)[1]


def test_special_values_stay_in_their_rows():
    """Zeros that fill up a vector never meet an infinity."""
    x, w = operands(9, 37, 19, np.float32)
    x[3, 36], x[4, 0], w[36, 18] = np.inf, np.nan, -np.inf
    for right in (True, False):
        with np.errstate(invalid="ignore"):
            want = np.maximum(x.astype(np.float64) @ w + 1, 0)
        got, _ = product(x, w, False, right)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(want))

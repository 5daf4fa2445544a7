# SPDX-License-Identifier: Apache-2.0
"""Indexing of np arrays beside NumPy's, where the rules are the same; what differs is in tests/against_mxnet/parity/numpy_indexing."""

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as onp
import pytest
from hypothesis import given

import hybridgpu as mx
from hybridgpu import autograd, np, npx


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    yield
    npx.reset_np()


SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


@st.composite
def places(draw):
    """A shape, and a key of integers, slices, None and ``...``."""
    shape = draw(SHAPES)
    key = draw(arrays.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6))
    return shape, key


@st.composite
def positions(draw):
    """A shape, and a key with arrays of integers among slices and integers."""
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    found = draw(arrays.integer_array_indices(shape, result_shape=arrays.array_shapes(max_dims=2, max_side=3)))
    key = tuple(draw(st.sampled_from([k, k, slice(None), slice(None, None, -1), 0])) for k in found)
    return shape, key


@st.composite
def masks(draw):
    """A shape, and a mask of its first axes, alone or before a slice."""
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    count = draw(st.integers(1, len(shape)))
    mask = draw(arrays.arrays(bool, shape[:count]))
    return shape, draw(st.sampled_from([mask, (mask, Ellipsis)]))


KEYS = st.one_of(places(), positions(), masks())


def numbers(shape):
    return onp.arange(onp.prod(shape, dtype=int), dtype="float32").reshape(shape)


def ours(key):
    """The key with np arrays in the place of NumPy's."""
    if isinstance(key, tuple):
        return tuple(map(ours, key))
    return np.array(key) if isinstance(key, onp.ndarray) else key


def is_allowed(shape, key):
    """A lone slice must not end before it begins."""
    if not isinstance(key, slice) or key.step not in (None, 1):
        return True
    begin, end, _ = key.indices(shape[0])
    return begin <= end


@given(KEYS)
def test_what_is_read(case):
    shape, key = case
    if is_allowed(shape, key):
        expected, found = numbers(shape)[key], np.array(numbers(shape))[ours(key)]
        assert found.shape == expected.shape and type(found) is np.ndarray
        assert (found.asnumpy() == expected).all()


@given(KEYS)
def test_what_is_written(case):
    shape, key = case
    if is_allowed(shape, key):
        for value in (7.0, -1 - onp.arange(numbers(shape)[key].size).reshape(numbers(shape)[key].shape)):
            expected, found = numbers(shape), np.array(numbers(shape))
            expected[key] = value
            mask = isinstance(key, onp.ndarray) and key.dtype == bool
            found[ours(key)] = np.array(value) if mask else value
            assert (found.asnumpy() == expected).all()


@given(places())
def test_contiguous_parts_are_views(case):
    shape, key = case
    if is_allowed(shape, key):
        x, y = np.array(numbers(shape)), numbers(shape)
        part = y[(*key, Ellipsis) if isinstance(key, tuple) and Ellipsis not in key else key]
        expected = y.copy()
        if isinstance(part, onp.ndarray) and part.flags.c_contiguous:
            part[...] = 99
            expected = y
        view = x[key]
        view[()] = 99
        if isinstance(part, onp.ndarray):
            assert (x.asnumpy() == expected).all()


@given(KEYS)
def test_gradients(case):
    shape, key = case
    if is_allowed(shape, key):
        x = np.array(numbers(shape))
        x.attach_grad()
        with mx.autograd.record():
            part = x[ours(key)]
            y = (part * part).sum()
        y.backward()
        expected = onp.zeros(shape, "float32")
        onp.add.at(expected, key, 2 * numbers(shape)[key])
        assert (x.grad.asnumpy() == expected).all()


def test_second_derivatives():
    x = np.array([1.0, 2.0, 3.0])
    x.attach_grad()
    for key in (slice(1, 3), np.array([0, 0, 2], dtype="int32"), np.array([True, False, True], dtype="bool")):
        with mx.autograd.record():
            part = x[key]
            first = mx.autograd.grad((part * part * part).sum(), [x], create_graph=True)[0]
            y = (first.as_np_ndarray() * first.as_np_ndarray()).sum()
        y.backward()
        counts = onp.zeros(3)
        onp.add.at(counts, key.asnumpy() if isinstance(key, np.ndarray) else key, 1)
        # y is the sum of (3 n x²)², n times each
        assert onp.allclose(x.grad.asnumpy(), 36 * counts**2 * onp.array([1.0, 8.0, 27.0]))


@pytest.mark.parametrize("key", [2, -3, [2], [-3], (0, 3), (0, [3]), (0, -4)])
def test_positions_out_of_range_are_errors(key):
    x = np.zeros((2, 3))
    arrays_of_np = (
        tuple(np.array(k, dtype="int32") if isinstance(k, list) else k for k in key) if isinstance(key, tuple) else key
    )
    for k in (key, arrays_of_np):
        with pytest.raises(IndexError, match="out of bounds"):
            x[k]
        with pytest.raises(IndexError, match="out of bounds"):
            x[k] = 1


def test_a_mask_of_an_empty_array():
    e = np.zeros((0, 3))
    assert e[e > 0].shape == (0,) and e[np.zeros((0,), dtype="bool")].shape == (0, 3)
    e[e > 0] = 1


def test_bool_keys_of_python_and_numpy_are_masks_for_writing_too():
    """MXNet reads with them as masks and writes as if they were the positions 0 and 1."""
    for key in ([True, False], onp.array([True, False])):
        x = np.zeros((2, 2))
        x[key] = 1
        assert x.tolist() == [[1, 1], [0, 0]]


def test_a_mask_that_changes_later_does_not_change_the_gradient():
    x, mask = np.array([1.0, 2.0]), np.array([True, False], dtype="bool")
    x.attach_grad()
    with mx.autograd.record():
        y = (x[mask] * 3).sum()
    mask[:] = True
    y.backward()
    assert x.grad.tolist() == [3, 0]


@pytest.mark.parametrize("key", [False, (1, False), (None, False), (False, slice(0, 2))], ids=str)
def test_the_gradient_through_false_is_zero(key):
    x = np.ones((3, 4))
    x.attach_grad()
    x.grad[:] = 5
    with autograd.record():
        y = x[key]
    assert y.shape[0] == 0
    y.backward()
    assert x.grad.shape == (3, 4) and not x.grad.asnumpy().any()


TRUTHS = [True, False, onp.True_, onp.array(False), (True, 0), (0, True), (False, 0), (True, True), (True, False)]
TRUTHS += [(True, ...), (..., False), (None, True), (True, slice(1, None)), (slice(None), True), (True, [0, 1])]

TWO, BOTH, NONE = (
    onp.array([True, False]),
    onp.array([[True, False, True], [False, True, False]]),
    onp.zeros((2, 3), bool),
)

#: shape, key, value: masks beside other keys, places that are none, arrays without axes
TRACED = [((2, 3), key, 5) for key in TRUTHS]
TRACED += [
    ((2, 3), key, 5) for key in (TWO, BOTH, NONE, (NONE,), (TWO, 0), ([0, 1], TWO), (slice(None), onp.ones(3, bool)))
]
TRACED += [((2, 3), key, 5) for key in ((BOTH, 0), (TWO, slice(1, None), 0), (0, 5), ([0, 1], 5), (..., 0, ...))]
TRACED += [((2, 3), key, 5) for key in (onp.ones(3, bool), onp.ones((2, 3, 1), bool), slice(2, 1), (5, False, 0))]
TRACED += [((), key, 5) for key in (None, ..., (...,), 0, True, onp.array(False), ())]
TRACED += [((2, 3), key, onp.ones((4, 3), "f")) for key in (BOTH, False, (TWO,), slice(None), [0, 1])]
TRACED += [((2, 3), BOTH, [1, 2, 3]), ((), (), [1.0, 2.0]), ((0, 3), slice(None), onp.ones((2, 3), "f"))]
TRACED += [((3, 3), ([0, 1], slice(1, None)), onp.ones((1, 1, 3), "f"))]


@pytest.mark.parametrize(("shape", "key", "value"), TRACED, ids=str)
def test_keys_of_a_traced_function(no_compiler, shape, key, value):
    """What they give eagerly is recorded: tests/against_mxnet/recorded/np_expressions/indexing.txt."""

    def write(x):
        y = x.copy()
        y[key] = value
        return y

    def write_array(x):
        y = x.copy()
        y[key] = np.array(value)
        return y

    def answer(function):
        try:
            found = function(np.array(numbers(shape)))
            return found.shape, found.asnumpy().tolist()
        except (IndexError, ValueError, NotImplementedError, mx.MXNetError) as e:
            return type(e), str(e).splitlines()[0]

    for function in (lambda x: x[key], write, write_array):
        assert answer(mx.hybridize(function)) == answer(function)

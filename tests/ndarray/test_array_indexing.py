# SPDX-License-Identifier: Apache-2.0
"""Indexing arrays: like NumPy, except where MXNet has rules of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ndarray.support import numbered

import hybridgpu as mx
from hybridgpu.base import MXNetError

nd = mx.nd

KEYS = [
    0, -1, (1, 2), (0, -1, 2), slice(0, 2), slice(1, None), slice(None), slice(-2, None), (slice(None), 1),
    (slice(None), slice(0, 2)), (slice(None, None, 2),), slice(None, None, -1), (slice(None), slice(3, 0, -2)), None,
    (Ellipsis, 0), (0, Ellipsis), (None, 1, Ellipsis), (), Ellipsis, [1, 0], [[0, 1], [1, 0]], ([0, 1], [1, 2]),
    (slice(None), [2, 0]), (0, [0, 1]), ([0, 1], slice(None), 2), np.array([1, 0, 1]), np.int64(1), (np.int64(0), 1),
    slice(5, 7), slice(0, 0), ([1], None, 0), (slice(None), None, 1), range(2), ([0, -1], [-1, 0]),
]  # fmt: skip


def shown(key):
    return str(key).replace("slice", "").replace(" ", "")


@pytest.mark.parametrize("key", KEYS, ids=shown)
def test_getting(key):
    host = numbered((2, 3, 4))
    want = host[list(key) if isinstance(key, range) else key]
    got = nd.array(host)[key]
    assert got.shape == (want.shape or (1,))  # a scalar has shape (1,)
    np.testing.assert_array_equal(got.asnumpy().reshape(want.shape), want)


@pytest.mark.parametrize("key", KEYS, ids=shown)
@pytest.mark.parametrize("kind", ["number", "array", "NumPy", "list", "float to int"])
def test_setting(key, kind):
    host = numbered((2, 3, 4), "int32" if kind == "float to int" else "float32")
    x = nd.array(host, dtype=host.dtype)
    np_key = list(key) if isinstance(key, range) else key
    part = host[np_key]
    if kind == "list" and not part.size:
        pytest.skip("an empty list has lost its shape")
    values = -np.arange(part.size, dtype="float32").reshape(part.shape) - 1.75
    value = {
        "number": 7.5,
        "array": nd.array(values) if part.ndim else nd.array([values.item()]),
        "NumPy": values,
        "list": values.tolist(),
        "float to int": values,
    }[kind]
    host[np_key] = 7.5 if kind == "number" else values.astype(host.dtype)
    x[key] = value
    np.testing.assert_array_equal(x.asnumpy(), host)


def test_keys_that_are_arrays():
    host = numbered((2, 3))
    x = nd.array(host)
    np.testing.assert_array_equal(x[nd.array([1, 0])].asnumpy(), host[[1, 0]])
    # truth values are no masks but row numbers
    assert x[x > 2].shape == (2, 3, 3) and x[True].asnumpy().tolist() == [3, 4, 5]
    x[x > 2] = 0
    assert not x.asnumpy().any()


def test_views_share_memory():
    x = nd.array(numbered((3, 4)))
    x[1][:] = 9
    x[0:1][0] = 8
    x[2].reshape((2, 2))[0] = 7
    x.detach()[2, 3] = 6
    assert x.asnumpy().tolist() == [[8] * 4, [9] * 4, [7, 7, 10, 6]]
    y = x[:, 1]
    y[:] = 0
    assert x[0, 1].asscalar() == 8, "a column is a copy"


@pytest.mark.parametrize(
    ("shape", "views", "copies"),
    [
        ((2, 3, 4), "0|0,1|0,1,2|0:1,1:3|0,1:3|0,0,1:3|1,...|...|...,0:4|:,:,:|1:|None|:,None|0,None,1|-1,-2:|0:2:2|1:0:-1|()",
         ":,0|0,:,0|...,0|:,1:|0,1:,0:2|0:1,0:1,0:4:2|::-1|[1]|[0],0"),
        ((5,), "0|1:3|...|None,1|::1|0:1:3", "::2|::-1|[0, 1]"),
        ((3, 1, 2), "0|:,0|:,0,:|1:,0|:,0:1|1,0|1,0,0:1", "::-1,0|:,:,0"),
    ],
    ids=str,
)  # fmt: skip
def test_parts_in_one_piece_of_memory_are_views(shape, views, copies):
    """The parts that MXNet 1.9.1 gives as views are views here, and no others."""
    for keys, view in ((views, True), (copies, False)):
        for key in keys.split("|"):
            x = nd.array(numbered(shape))
            part = eval(f"x[{key}]")
            part[:] = -1
            assert (x.asnumpy() == -1).sum() == (part.size if view else 0), key


def test_writing_through_several_views():
    x = nd.array(numbered((4, 6)))
    x[0, 1:5][1:3] = 50
    x[1, 2:4].reshape((2, 1))[0] = 51
    x[1:3, :][1] += 100
    x.reshape((6, 4))[5, 3] = 52
    want = numbered((4, 6))
    want[0, 2:4], want[1, 2], want[3, 5] = 50, 51, 52
    want[2] += 100
    np.testing.assert_array_equal(x.asnumpy(), want)


def test_a_view_under_record_has_the_gradient_of_its_elements():
    x = nd.array(numbered((4, 6)))
    x.attach_grad()
    with mx.autograd.record():
        loss = (x[1:3, :] ** 2).sum() + x[0, 1] * 3 + x[..., 0].sum()
    loss.backward()
    want = np.zeros((4, 6))
    want[1:3] = 2 * numbered((4, 6))[1:3]
    want[0, 1] += 3
    want[:, 0] += 1
    np.testing.assert_array_equal(x.grad.asnumpy(), want)


INDEX_ERRORS = [
    (lambda x: x[2], IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    (lambda x: x[-3], IndexError, "index -3 is out of bounds for axis 0 with size 2"),
    (lambda x: x[0, 5], IndexError, "index 5 is out of bounds for axis 1 with size 3"),
    (lambda x: x[0, 1, 2], IndexError, "too many indices (3) for array with 2 dimensions"),
    (lambda x: x[1.0], ValueError, "NDArray does not support slicing with key 1.0 of type <class 'float'>."),
    (lambda x: x["a"], ValueError, "NDArray does not support slicing with key a of type <class 'str'>."),
    (lambda x: x[2:1], MXNetError, "Invalid slicing range [2, 1)"),
    (lambda x: x[[5]], IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    (lambda x: x[:, [0, -4]], IndexError, "index -4 is out of bounds for axis 1 with size 3"),
    (lambda x: x[..., np.array([[3]])], IndexError, "index 3 is out of bounds for axis 1 with size 3"),
    (lambda x: x[None, [0, 2]], IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    (lambda x: x[2, [0, 1]], IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    (lambda x: x[..., [0, 1], -4], IndexError, "index -4 is out of bounds for axis 1 with size 3"),
    (lambda x: x[nd.array([0], dtype="int32"), 3], IndexError, "index 3 is out of bounds for axis 1 with size 3"),
    (lambda x: x.__setitem__([2], 1), IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    (lambda x: x.__setitem__(5, 1), IndexError, "index 5 is out of bounds for axis 0 with size 2"),
    (lambda x: x.__setitem__(0, [1, 2]), ValueError, "remapped shapes[original->remapped]: (2,)"),
    (lambda x: x.__setitem__(0, "a"), TypeError, "does not support assignment with non-array-like object a of type <class 'str'>"),
    (lambda x: x.__setitem__(0, nd.ones((2, 3))), ValueError, "remapped shapes[original->remapped]: (2, 3)"),
    (lambda x: x.__setitem__((0, 0, 0), 1), IndexError, "too many indices (3) for array with 2 dimensions"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "text"), INDEX_ERRORS, ids=[e[2][:30] for e in INDEX_ERRORS])
def test_index_errors_change_nothing(wrong, error, text):
    x = nd.array(numbered((2, 3)))
    with pytest.raises(error) as caught:
        wrong(x)
    assert text in str(caught.value)
    np.testing.assert_array_equal(x.asnumpy(), numbered((2, 3)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_basic_index_is_numpys(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    parts = []
    for extent in shape[: data.draw(st.integers(1, len(shape)))]:
        bound = st.none() | st.integers(-extent - 1, extent + 1)
        # on the first axis MXNet refuses slices that end before they begin
        step = st.sampled_from([None, 1, 2, -1, -2])
        parts.append(
            data.draw(st.integers(-extent, extent - 1) | st.builds(slice, bound, bound, step) | st.just(slice(None)))
        )
    key = tuple(parts) if len(parts) > 1 else (parts[0],)
    host = numbered(shape)
    want = host[key]
    got = nd.array(host)[key]
    assert got.shape == (want.shape or (1,))
    np.testing.assert_array_equal(got.asnumpy().reshape(want.shape), want)
    x = nd.array(host)
    x[key] = -5
    host[key] = -5
    np.testing.assert_array_equal(x.asnumpy(), host)

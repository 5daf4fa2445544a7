# SPDX-License-Identifier: Apache-2.0
"""Edges of operators, as MXNet 1.9.1 has them: values recorded from it, shapes it infers, what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from ops.support import array, gradients, runs

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.base import MXNetError

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(
    ("arguments", "dtype", "values"),
    [
        ((1.3, 6, 1.3), "int32", [1, 2, 3, 4]),
        ((0, 2.5, 0.5), "uint8", [0, 0, 0, 0, 0]),
        ((-2.5, 3.3, 1.2), "int64", [-2, -1, 0, 1, 2]),
        ((5.5, -3.2, -1.6), "int32", [5, 4, 3, 2, 1, 0]),
        ((0, 300, 50), "uint8", [0, 50, 100, 150, 200, 250]),
        ((0.75, 2.5, 0.5), "float64", [0.75, 1.25, 1.75, 2.25]),
    ],
)
def test_arange_counts_in_its_type(arguments, dtype, values):
    assert nd.arange(*arguments, dtype=dtype).asnumpy().tolist() == values


@pytest.mark.parametrize(
    ("attributes", "values"),
    [
        ({}, [2, 3, 4, 5, 6, 7]),
        ({"step": 2}, [2, 4, 6, 8, 10, 12]),
        ({"repeat": 2}, [2, 2, 3, 3, 4, 4]),
        ({"repeat": 4}, [2, 2, 2, 2, 3, 3]),
    ],
)
def test_arange_as_long_as_needed(attributes, values):
    line = mx.sym.arange(start=2, stop=None, infer_range=True, **attributes)
    e = mx.sym.elemwise_add(line, mx.sym.zeros(shape=[6])).bind(mx.cpu(), {})
    assert e.forward()[0].asnumpy().tolist() == values


def test_arange_of_unknown_length():
    line = mx.sym.arange(start=2, stop=None, infer_range=True)
    with pytest.raises(MXNetError, match="_arange inferring shapes failed"):
        line.bind(mx.cpu(), {}).forward()


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("bounds", [(-(2.0**62), 2.0**62), (0, 2.0**62), (-(2.0**62), 9), (5, 3)])
def test_clip_keeps_whole_numbers_that_float64_rounds(bounds, hybrid):
    values = np.array([2**53 + 1, -(2**53) - 1, 123456789012345677, 5, 2**63 - 1])
    low, high = map(int, bounds)
    expected = [high if v > high else max(v, low) for v in values.tolist()]
    y = runs("clip", {"a_min": low, "a_max": high})[hybrid](nd.array(values, dtype="int64"))
    assert y.asnumpy().tolist() == expected


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("mode", ["training", "always"])
def test_dropout_of_everything_is_nothing(mode, hybrid):
    (y,), (grad,), _ = gradients(runs("Dropout", {"p": 1.0, "mode": mode})[hybrid], [np.ones(3)], [0])
    assert np.isnan(y).all() and np.isnan(grad).all()


X = -np.arange(1.0, 13).reshape(2, 3, 2) / 10
#: gamma -> the first result of each sample and channel, its gradient with respect to gamma
SLOPES = [
    (np.array([[1, 2, 3], [4, 5, 6.0]]), [-0.1, -0.6, -1.5, -2.8, -4.5, -6.6], [-0.3, -0.7, -1.1, -1.5, -1.9, -2.3]),
    (np.array([[1, 2, 3.0]]), [-0.1, -0.6, -1.5, -0.7, -1.8, -3.3], [-1.8, -2.6, -3.4]),
    (np.array([1, 2, 3.0]), [-0.1, -0.6, -1.5, -0.7, -1.8, -3.3], [-1.8, -2.6, -3.4]),
    (np.array([[2.0]]), [-0.2, -0.6, -1.0, -1.4, -1.8, -2.2], [-7.8]),
    (np.array([2.0]), [-0.2, -0.6, -1.0, -1.4, -1.8, -2.2], [-7.8]),
]


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(("gamma", "values", "slopes"), SLOPES)
def test_prelu(gamma, values, slopes, hybrid):
    (y,), (grad,), _ = gradients(runs("LeakyReLU", {"act_type": "prelu"})[hybrid], [X, gamma], [1])
    np.testing.assert_allclose(y[:, :, 0].reshape(-1), values, rtol=1e-9)
    np.testing.assert_allclose(grad.reshape(-1), slopes, rtol=1e-9)
    assert grad.shape == gamma.shape


@pytest.mark.parametrize(
    ("name", "shape", "attributes", "message"),
    [
        ("min", (5, 0), {}, r"Reduction input's size should > 0 \[5,0\]"),
        ("max", (5, 0), {"axis": 0}, r"Reduction input's size should > 0 \[5,0\]"),
        ("argmax", (0,), {}, "attempt to search an empty sequence"),
        ("argmin", (5, 0), {"axis": 1}, r"searching input tensor of shape \[5,0\] along axis = 1 of zero dim-size"),
    ],
)
def test_nothing_has_no_extreme(name, shape, attributes, message):
    with mx.np_shape(), pytest.raises(MXNetError, match=message):
        getattr(nd, name)(nd.zeros(shape), **attributes)


def test_argmax_of_no_rows():
    with mx.np_shape():
        assert nd.argmax(nd.zeros((5, 0)), axis=0).shape == (0,)


A = np.array([[4, 2, 0.5], [1, 5, 1], [0.3, 0.2, 3]])
HEAD = np.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "slope"),
    [
        (
            "potrf",
            [[2, 1, 0.25], [0, 2, 0.375], [0, 0, 1.6724]],
            [[0.1625, -0.275, -0.1997], [-0.275, 0.8497, 0.8015], [-0.1997, 0.8015, 2.3918]],
        ),
        (
            "potri",
            [[0.0726, -0.0194, -0.0028], [-0.0194, 0.0444, -0.0222], [-0.0028, -0.0222, 0.1111]],
            [[0.025, 0, -0.2], [0, -0.0022, -0.1489], [0, 0, -0.4133]],
        ),
    ],
)
def test_factors_of_the_upper_triangle(name, value, slope, hybrid):
    (y,), (grad,), _ = gradients(runs(f"linalg.{name}", {"lower": False})[hybrid], [A], [0], [HEAD])
    np.testing.assert_allclose(y, value, atol=6e-5)
    np.testing.assert_allclose(grad, slope, atol=6e-5)


@pytest.mark.parametrize("reps", [(1, 0, 3), (0,), (0, 0)])
def test_tile_makes_nothing_empty(reps):
    with pytest.raises(MXNetError, match="Operator tile inferring shapes failed"):
        nd.tile(nd.ones((2, 3)), reps=reps)
    with mx.np_shape():
        assert 0 in nd.tile(nd.ones((2, 3)), reps=reps).shape


@pytest.mark.parametrize(
    ("shape", "codes", "reverse", "result"),
    [
        ((64,), (16, 4, -4), True, (16, 4)),
        ((64,), (16, -1, -4), True, (16, 4)),
        ((1, 2, 3, 64), (-2, -1, 16, -4), True, (1, 2, 3, 4, 16)),
        ((2, 3, 5, 6), (6, 1, -2), False, (6, 1, 5, 6)),
        ((64,), (-4, 16, 4), False, (16, 4)),
        ((2, 3, 5, 5), (5, 3, 0, -1), True, (5, 3, 5, 2)),
    ],
)
def test_reshape_and_what_its_result_tells(shape, codes, reverse, result):
    assert nd.ones(shape).reshape(codes, reverse=reverse).shape == result
    for k in range(len(shape)):
        y = mx.sym.elemwise_add(mx.sym.var("data").reshape(codes, reverse=reverse), mx.sym.ones(shape=result))
        arguments, results, _ = y.infer_shape(data=(*shape[:k], 0, *shape[k + 1 :]))
        assert (arguments, results) == ([shape], [result])


@pytest.mark.parametrize(
    ("begin", "end", "step", "shape"),
    [((None, 3), (5, 10), (), (0, 7)), ((None, None), (None, 10), (), (0, 10)), ((2, 3), (None, 10), (3, 3), (0, 3))],
)
def test_slices_of_unknown_extents(begin, end, step, shape):
    """An end that a short axis would cut says nothing of the extent."""
    y = mx.sym.slice(mx.sym.var("x", shape=(0, 20)), begin=begin, end=end, step=step)
    assert y.infer_shape_partial()[1] == [shape]


def test_shapes_without_types():
    """The type of a variable comes from the other operand, though it stands first."""
    y = mx.sym.broadcast_mul(mx.sym.var("a"), mx.sym.ones((2, 2), dtype="float64"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.infer_shape(a=(2, 1)) == ([(2, 1)], [(2, 2)], [])


@pytest.mark.parametrize(("shape", "axis"), [((4096, 16), 0), ((70, 70, 3), (0, 1)), ((1000, 2, 5), 0)])
def test_sums_of_many_rows_keep_their_digits(shape, axis):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    want = x.astype("float64").sum(axis=axis)
    np.testing.assert_allclose(nd.sum(array(x), axis=axis).asnumpy(), want, rtol=0, atol=3e-5)


def test_gradients_of_inputs_that_need_none():
    module = mx.mod.Module(mx.sym.var("data") * 2, label_names=None)
    module.bind([("data", (2, 3))], for_training=True, inputs_need_grad=True, grad_req="null")
    module.init_params()
    module.forward(mx.io.DataBatch([nd.ones((2, 3))]), is_train=True)
    module.backward([nd.ones((2, 3))])
    assert module.get_input_grads() == [None]


JOINS = [("Concat", "concated"), ("stack", "stacked"), ("add_n", "summed")]


@pytest.mark.parametrize(("name", "word"), JOINS)
@pytest.mark.parametrize("kind", [nd, mx.sym])
def test_nothing_to_join(kind, name, word):
    message = (
        "value 0 for Parameter num_args should be greater equal to 1\n"
        f'num_args: Number of inputs to be {word}., in operator {name}(name="", num_args="0")'
    )
    with pytest.raises(MXNetError) as caught:
        getattr(kind, name)()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nd.concat(nd.ones(2), num_args=2, dim=0), r"num_inputs == infered_num_inputs \(1 vs. 2\)"),
        (lambda: nd.UpSampling(nd.ones((1, 1, 2, 2)), scale=0, sample_type="nearest"), "value 0 for Parameter scale"),
        (lambda: nd.FullyConnected(nd.ones((1, 2)), num_hidden=0), "num_hidden should be greater equal to 1"),
    ],
)
def test_numbers_below_their_bound(call, message):
    with pytest.raises(MXNetError, match=message):
        call()


def test_dummy_iter():
    batches = mx.test_utils.DummyIter(mx.io.NDArrayIter(nd.arange(6).reshape((3, 2)), batch_size=1))
    seen = [next(batches).data[0].asnumpy().tolist() for _ in range(5)]
    assert seen == [[[0, 1]]] * 5 and batches.batch_size == 1


@pytest.mark.parametrize(("dtype", "count"), [("uint8", 257), ("float16", 2049), ("bfloat16", 257)])
def test_categories_that_a_type_cannot_number(dtype, count):
    with pytest.raises(MXNetError, match="'dtype' does not have a sufficient precision to represent the indices"):
        nd.random.multinomial(nd.ones(count) / count, dtype=dtype)

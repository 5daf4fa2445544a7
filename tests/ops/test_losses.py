# SPDX-License-Identifier: Apache-2.0
"""Losses: results, the gradients they define, labels' shapes, connectionist temporal classification."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ops.support import array, check_derivatives, gradients, runs

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.base import MXNetError

RNG = np.random.default_rng(3)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def one_hot(label, classes, axis, smooth=0.0):
    hot = np.moveaxis(np.eye(classes)[label.astype(int)], -1, axis)
    return hot * (1 - smooth) + (1 - hot) * smooth / (classes - 1)


# -- softmax output: shape of data, shape of labels, attributes, axis of the classes

SOFTMAX = [
    ((4, 3), (4,), {}, 1),
    ((4, 3), (4,), {"grad_scale": 2.0, "normalization": "batch"}, 1),
    ((4, 3), (4,), {"use_ignore": True, "ignore_label": 1.0}, 1),
    ((4, 3), (4,), {"use_ignore": True, "ignore_label": 1.0, "normalization": "valid", "grad_scale": 0.5}, 1),
    ((4, 3), (4,), {"normalization": "valid", "ignore_label": 1.0}, 1),
    ((4, 3), (4,), {"smooth_alpha": 0.3}, 1),
    ((4, 3), (4,), {"out_grad": True}, 1),
    ((2, 3, 4), (2, 4), {"multi_output": True}, 1),
    ((2, 3, 2, 2), (2, 4), {"multi_output": True, "normalization": "batch"}, 1),
    (
        (2, 3, 2, 2),
        (2, 2, 2),
        {"multi_output": True, "normalization": "valid", "use_ignore": True, "ignore_label": 1.0},
        1,
    ),
    ((2, 3, 4), (2, 1, 4), {"multi_output": True, "out_grad": True}, 1),
    ((2, 3, 4), (2, 3), {"preserve_shape": True, "normalization": "batch"}, 2),
]


def softmax_gradient(x, label, axis, p):
    """As MXNet's documentation defines it."""
    y = softmax(x, axis)
    classes = label.reshape(np.delete(x.shape, axis))
    several = p.get("multi_output", False)
    grad = y - one_hot(classes, x.shape[axis], axis, 0 if several else p.get("smooth_alpha", 0))
    ignored = np.expand_dims(classes == p.get("ignore_label", -1.0), axis)
    if p.get("use_ignore"):
        grad = np.where(ignored, 0, grad)
    kind = p.get("normalization", "null")
    divisor = {"null": 1, "batch": len(label) if several else label.size, "valid": max((~ignored).sum(), 1)}[kind]
    if several and kind != "valid":
        divisor *= classes[0].size
    grad = grad * p.get("grad_scale", 1.0) / divisor
    return grad * y if p.get("out_grad") else grad


@pytest.mark.parametrize(("shape", "labels", "attributes", "axis"), SOFTMAX)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float32", 1e-6), ("float64", 1e-12)])
def test_softmax_output(shape, labels, attributes, axis, dtype, tolerance):
    x, label = RNG.normal(size=shape).astype(dtype), RNG.integers(0, 3, labels).astype(dtype)
    wide = x.astype("float64")
    for run in runs("SoftmaxOutput", attributes):
        heads = [RNG.normal(size=shape).astype(dtype)]  # which do not count
        out, (of_data, of_label), _ = gradients(run, [x, label], (0, 1), heads)
        np.testing.assert_allclose(out[0], softmax(wide, axis), tolerance, tolerance)
        np.testing.assert_allclose(of_data, softmax_gradient(wide, label, axis, attributes), tolerance, tolerance)
        assert not of_label.any()


def test_softmax_output_folds_what_follows_the_batch():
    x, label = RNG.normal(size=(2, 3, 2)), np.array([[0.0, 1, 1], [5, 0, 1]])
    want = softmax(x.reshape(2, 6), 1)
    for run in runs("SoftmaxOutput", {}):
        out, (grad,), _ = gradients(run, [x, label], (0,))
        np.testing.assert_allclose(out[0], want.reshape(x.shape), rtol=1e-12)
        # one label a row: MXNet reads them from the front
        np.testing.assert_allclose(
            grad, (want - one_hot(np.array([0, 1]), 6, 1)).reshape(x.shape), rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize("attributes", [{}, {"multi_output": True}, {"grad_scale": 2.0}])
def test_softmax_output_with_probabilities(attributes):
    x, label = RNG.normal(size=(2, 3)), softmax(RNG.normal(size=(2, 3)), 1)
    for run in runs("SoftmaxOutput", attributes):
        _, (grad,), _ = gradients(run, [x, label], (0,))
        np.testing.assert_allclose(grad, (softmax(x, 1) - label) * attributes.get("grad_scale", 1), rtol=1e-12)


@pytest.mark.parametrize(
    ("operator", "shape", "attributes", "label"),
    [
        ("SoftmaxOutput", (4, 3), {}, (4,)),
        ("SoftmaxOutput", (4, 3, 5), {"preserve_shape": True}, (4, 3)),
        ("SoftmaxOutput", (4, 3, 5, 6), {"multi_output": True}, (4, 30)),
        ("LinearRegressionOutput", (4, 1), {}, (4,)),
        ("LogisticRegressionOutput", (4, 3), {}, (4, 3)),
        ("SVMOutput", (4, 3, 5), {}, (4, 3)),
    ],
)
def test_shapes_of_labels_are_inferred(operator, shape, attributes, label):
    s = getattr(mx.sym, operator)(mx.sym.var("data"), name="o", **attributes)
    assert s.list_arguments() == ["data", "o_label"]
    assert s.infer_shape(data=shape) == ([shape, label], [shape], [])


# -- regression, support vectors, loss markers


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("operator", "forward", "slope"),
    [
        ("LinearRegressionOutput", lambda x: x, lambda d: d),
        ("LogisticRegressionOutput", sigmoid, lambda d: d),
        ("MAERegressionOutput", lambda x: x, np.sign),
    ],
)
@pytest.mark.parametrize(("shape", "labels"), [((4, 3), (4, 3)), ((4, 1), (4,)), ((4,), (4,)), ((2, 3, 2), (2, 6))])
def test_regression(operator, forward, slope, shape, labels):
    x, label = RNG.normal(size=shape), RNG.normal(size=labels)
    want = slope(forward(x) - label.reshape(shape)) * 2 / (label.size // len(label))
    for run in runs(operator, {"grad_scale": 2.0}):
        out, (of_data, of_label), _ = gradients(run, [x, label], (0, 1), [np.full(shape, 5.0)])
        np.testing.assert_allclose(out[0], forward(x), rtol=1e-12)
        np.testing.assert_allclose(of_data, want, rtol=1e-12)
        assert not of_label.any()


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4)])
def test_svm(linear, shape):
    x, label = RNG.normal(size=shape), RNG.integers(0, 3, shape[:-1]).astype("float64")
    sign = 2 * one_hot(label, shape[-1], -1) - 1
    short = 0.7 - sign * x
    want = np.where(short > 0, -sign * (1 if linear else 2 * short) * 1.5, 0)
    for run in runs("SVMOutput", {"use_linear": linear, "margin": 0.7, "regularization_coefficient": 1.5}):
        out, (grad,), _ = gradients(run, [x, label], (0,))
        np.testing.assert_array_equal(out[0], x)
        np.testing.assert_allclose(grad, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        ({}, lambda x: 1),
        ({"grad_scale": 3.0}, lambda x: 3),
        ({"grad_scale": 3.0, "normalization": "batch"}, lambda x: 3 / x[..., 0].size),
        ({"normalization": "valid", "valid_thresh": 0.25}, lambda x: 1 / max((x > 0.25).sum(), 1)),
        ({"normalization": "valid", "valid_thresh": 9.0}, lambda x: 1),
    ],
)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2)])
def test_make_loss(attributes, want, shape):
    x = RNG.normal(size=shape)
    for run in runs("MakeLoss", attributes):
        out, (grad,), _ = gradients(run, [x], (0,), [np.full(shape, 7.0)])
        np.testing.assert_array_equal(out[0], x)
        np.testing.assert_allclose(grad, np.full(shape, want(x)), rtol=1e-12)


def test_softmax_cross_entropy():
    x, label = RNG.normal(size=(5, 4)), RNG.integers(0, 4, 5).astype("float64")
    y = softmax(x, 1)
    for run in runs("softmax_cross_entropy", {}):
        out, (grad,), _ = gradients(run, [x, label], (0,), [np.array([3.0])])
        np.testing.assert_allclose(out[0], [-np.log(y[range(5), label.astype(int)]).sum()], rtol=1e-12)
        np.testing.assert_allclose(grad, 3 * (y - one_hot(label, 4, 1)), rtol=1e-12)
        check_derivatives(run, [x, label.astype("float64")], (0,))


def test_sparseness_penalty():
    x, average = RNG.uniform(0.2, 0.8, (4, 3)), RNG.uniform(0.2, 0.8, 3)
    head = RNG.normal(size=(4, 3))
    keep = 0.9
    new = keep * average + (1 - keep) * x.mean(0)
    want = head + 0.01 * (-0.2 / new + 0.8 / (1 - new))
    for run in runs("IdentityAttachKLSparseReg", {"sparseness_target": 0.2, "penalty": 0.01}):
        out, (grad,), arrays = gradients(run, [x, average], (0,), [head])
        np.testing.assert_array_equal(out[0], x)
        np.testing.assert_allclose(grad, want, rtol=1e-12)
        np.testing.assert_allclose(arrays[1].asnumpy(), new, rtol=1e-12)


# -- connectionist temporal classification


def collapse(path, blank):
    return [k for k, _ in itertools.groupby(path) if k != blank]


def ctc_by_enumeration(x, labels, blank):
    """-log of the summed probability of all paths that collapse to the labels; x is (time, class)."""
    p = softmax(x, 1)
    total = sum(
        np.prod([p[t, k] for t, k in enumerate(path)])
        for path in itertools.product(range(x.shape[1]), repeat=len(x))
        if collapse(path, blank) == list(labels)
    )
    return -np.log(total) if total else 0.0


CTC = [  # blank, labels, lengths of data and labels (None: not given)
    ("first", [[1, 2, 0], [2, 2, 1]], None, None),
    ("first", [[0, 0, 0], [1, 1, 0]], None, None),
    ("last", [[0, 1, -1], [1, 1, 0]], None, None),
    ("first", [[1, 2, 1], [2, 1, 2]], [4, 5], None),
    ("first", [[1, 2, 1], [2, 1, 2]], None, [1, 3]),
    ("last", [[0, 1, 0], [1, 0, 1]], [5, 3], [2, 0]),
    ("first", [[1, 1, 1], [1, 2, 0]], [4, 5], None),  # does not fit: costs nothing
]


@pytest.mark.parametrize(("blank", "labels", "times", "counts"), CTC)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("label_type", ["float32", "int32"])
def test_ctc(blank, labels, times, counts, train, label_type):
    x = RNG.normal(size=(5, 2, 3)).astype("float32")
    labels = np.array(labels, label_type)
    attributes = {"blank_label": blank}
    given, keywords = [x, labels], []
    for name, lengths in (("data_lengths", times), ("label_lengths", counts)):
        if lengths is not None:
            attributes[f"use_{name}"] = True
            given.append(np.array(lengths, "float32"))
            keywords.append(name)
    end = 0 if blank == "first" else -1
    number = 0 if blank == "first" else 2
    ends = [list(row).index(end) if end in row else len(row) for row in labels] if counts is None else counts
    steps = [5, 5] if times is None else times

    def cost(x, b):
        return ctc_by_enumeration(x[: steps[b], b].astype("float64"), labels[b, : ends[b]], number)

    want = [cost(x, b) for b in range(2)]
    slopes = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        high, low = x.astype("float64"), x.astype("float64")
        high[at] += 1e-5
        low[at] -= 1e-5
        slopes[at] = (cost(high, at[1]) - cost(low, at[1])) / 2e-5
    for F in (nd, mx.sym):

        def run(x, labels, *lengths, F=F):
            if F is nd:
                return nd.CTCLoss(x, labels, **dict(zip(keywords, lengths, strict=True)), **attributes)
            names = ["x", "labels", *keywords]
            variables = [mx.sym.var(n) for n in names]
            out = mx.sym.CTCLoss(*variables[:2], **dict(zip(keywords, variables[2:], strict=True)), **attributes)
            return mx.gluon.SymbolBlock(out, variables)(x, labels, *lengths)

        out, (grad,), _ = gradients(run, given, (0,), [np.array([1.0, -2.0], "float32")], train=train)
        np.testing.assert_allclose(out[0], want, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(grad, slopes * np.array([1, -2])[:, None], rtol=1e-4, atol=1e-5)


def test_ctc_has_no_second_derivative():
    x = array(RNG.normal(size=(4, 1, 3)).astype("float32"))
    x.attach_grad()
    with autograd.record(train_mode=False):
        loss = nd.CTCLoss(x, nd.array([[1, 2]]))
        (g,) = autograd.grad(loss, [x], create_graph=True, train_mode=False)
        total = g.sum()
    with pytest.raises(MXNetError, match="non-differentiable"):
        total.backward()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nd.SoftmaxOutput(nd.ones((2, 3)), nd.ones((3,))), r"Provided = \[3\], inferred shape=\[2\]"),
        (
            lambda: nd.SoftmaxOutput(nd.ones((2, 3, 2)), nd.ones((4,)), multi_output=True),
            r"Expecting \[2,2\] or \[2,2\]. But got \[4\]",
        ),
        (lambda: nd.LinearRegressionOutput(nd.ones((4, 3)), nd.ones((4,))), r"Provided=\[4\], inferred shape=\[4,3\]"),
        (lambda: nd.SVMOutput(nd.ones((2, 3)), nd.ones((3,))), r"Provided = \[3\], inferred shape=\[2\]"),
        (lambda: nd.softmax_cross_entropy(nd.ones((2, 3, 4)), nd.ones((2,))), "only accept 2D data"),
        (lambda: nd.softmax_cross_entropy(nd.ones((2, 3)), nd.ones((3,))), "data label shape mismatch"),
        (
            lambda: nd.SoftmaxOutput(nd.ones((2, 3), dtype="int32"), nd.ones((2,), dtype="int32")),
            "floating point types",
        ),
        (lambda: nd.CTCLoss(nd.ones((2, 3)), nd.ones((3, 2))), "number of dimensions of data array must be 3"),
        (lambda: nd.CTCLoss(nd.ones((4, 3, 5)), nd.ones((2, 2))), "batch size"),
        (lambda: nd.CTCLoss(nd.ones((2, 3, 5)), nd.ones((3, 4))), "cannot exceed"),
    ],
)
def test_errors(call, message):
    with pytest.raises(MXNetError, match=message):
        call()

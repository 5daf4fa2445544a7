# SPDX-License-Identifier: Apache-2.0
"""Operators that end a network in a loss.

Most of them return a prediction, and start the backward pass with the gradient of a loss that they never
compute; the head gradient does not count. Labels get no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import f32, i64
from .linear import need_float
from .mutation import When, Write
from .nn import stable_softmax
from .params import Bool, Enum, Float, Param, Values
from .precision import wide
from .record import operator, sample, shape_text

__all__: list[str] = []

_SCALE = Float(1.0, "factor of the gradient")
_NORMALIZATION = Enum(
    "null", "what divides the gradient: nothing, the batch, or what counts", choices=("batch", "null", "valid")
)


def _inconsistent(label: Sequence[int], expected: Sequence[int]) -> MXNetError:
    return MXNetError(f"Shape inconsistent, Provided = {shape_text(label)}, inferred shape={shape_text(expected)}")


# -- softmax with the gradient of cross entropy


def _softmax_label(p: Values, data: Sequence[int]) -> tuple[int, ...]:
    """The shape of labels that are class numbers."""
    if p.multi_output:
        return (data[0], prod(data[2:]))
    return tuple(data[:-1])


def _softmax_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data, label = shapes
    return [data, label or (None if not data else _softmax_label(p, data))]


def _rows(p: Values, shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The shape in which one axis holds the classes, and that axis."""
    if p.multi_output:
        return (shape[0], shape[1], prod(shape[2:])), 1
    if p.preserve_shape:
        return (prod(shape[:-1]), shape[-1]), 1
    return (shape[0], prod(shape[1:])), 1


@operator(
    "SoftmaxOutput Softmax",
    "data label",
    params={
        "grad_scale": _SCALE,
        "ignore_label": Float(-1.0, "label of what does not count, with use_ignore"),
        "multi_output": Bool(False, "classes lie along axis 1, one label a position"),
        "use_ignore": Bool(False, "samples labelled ignore_label do not count"),
        "preserve_shape": Bool(False, "classes lie along the last axis"),
        "normalization": _NORMALIZATION,
        "out_grad": Bool(False, "multiply the gradient by the output, as MXNet does"),
        "smooth_alpha": Float(0.0, "probability that a label gives to the other classes", within=(0, 1)),
    },
    infer_inputs=_softmax_shapes,
    samples=(
        sample([(4, 3), (4,)]),
        sample([(4, 70), (4, 70)]),
        sample([(2, 3, 5), (2, 5)], {"multi_output": True}),
        sample([(2, 3, 5), (2, 1, 5)], {"multi_output": True, "normalization": "valid"}),
        sample([(2, 3, 5), (2, 3)], {"preserve_shape": True}),
        sample([(2, 3, 5), (2, 3)]),
    ),
    dtypes="TT",
    output_names=("output",),
)
def softmax_output(b: Builder, p: Values, data: Node, label: Node) -> Node:
    """softmax, whose gradient is that of cross entropy with the label: probability - label."""
    need_float(data)
    shape = data.shape
    dense = label.shape == shape
    if p.multi_output and not dense:
        if data.ndim < 2:
            raise MXNetError(f"Check failed: multi_output needs at least 2 axes, not {data.ndim}")
        first = _softmax_label(p, shape)
        fitting = (first, (shape[0], *shape[2:]), (shape[0], 1, *shape[2:]))
        if label.shape not in fitting:
            raise MXNetError(
                f"Expecting {shape_text(first)} or {shape_text(fitting[1])}. But got {shape_text(label.shape)}"
            )
    elif not dense and label.shape != shape[:-1]:
        raise _inconsistent(label.shape, shape[:-1])
    rows, axis = _rows(p, shape)
    y = b.cast(b.reshape(stable_softmax(b, wide(b, b.reshape(data, rows)), axis), shape), data.dtype)
    static = (
        dense,
        rows,
        p.grad_scale,
        p.ignore_label if p.use_ignore else None,
        p.ignore_label,
        p.normalization,
        p.out_grad,
        p.smooth_alpha,
        p.multi_output,
    )
    return b.custom_gradient(y, data, label, rule="softmax_output", static=static)


@gradient_rule("softmax_output", exact=False)
def _softmax_output_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[Any, ...]
) -> Sequence[Node | None]:
    data, label = inputs
    dense, rows, scale, ignored, invalid, normalization, squared, smooth, several = static
    if dense:
        grad = (y - label) * scale
        return [grad * y if squared else grad, None]
    out = b.reshape(y, rows)
    label_shape = tuple(1 if k == 1 else d for k, d in enumerate(rows))
    classes = b.reshape(label, label_shape) if label.size == prod(label_shape) else None
    if classes is None:  # one label a sub-row: MXNet reads the first ones, one a row
        flat = b.reshape(label, (label.size,))
        classes = b.reshape(b.slice(flat, (0,), (label_shape[0],)), label_shape)
    picked = b.eq(b.iota(rows, 1, i64), b.broadcast(b.cast(classes, i64), rows))
    smooth = 0.0 if several else smooth
    off = smooth / max(rows[1] - 1, 1)
    grad = out - b.select(picked, b.full_like(out, 1 - smooth), b.full_like(out, off))
    if ignored is not None:
        counts = b.broadcast(b.ne(b.cast(classes, i64), int(ignored)), rows)
        grad = b.select(counts, grad, b.full_like(grad, 0))
    if normalization == "batch":
        scale /= label.shape[0] if several else label.size
    if several and normalization != "valid":
        scale /= max(rows[2], 1)
    grad = grad * scale
    if normalization == "valid":
        counted = b.select(
            b.ne(b.cast(label, i64), int(invalid)), b.full(label.shape, 1, f32), b.full(label.shape, 0, f32)
        )
        valid = b.max(b.sum(counted, keepdims=True), 1)
        grad = grad / b.broadcast(b.reshape(b.cast(valid, grad.dtype), (1,) * len(rows)), rows)
    if squared:
        grad = grad * out
    return [b.reshape(grad, data.shape), None]


@operator(
    "softmax_cross_entropy",
    "data label",
    samples=(
        sample([(4, 3), (4,)]),
        sample([(33, 70), (33,)]),
        sample([(1, 1), (1,)]),
    ),
    dtypes="TT",
)
def softmax_cross_entropy(b: Builder, p: Values, data: Node, label: Node) -> Node:
    """The sum over rows of -log(softmax(data)[label])."""
    need_float(data)
    if data.ndim != 2:
        raise MXNetError(
            f"Check failed: (*in_attrs)[0].ndim() == 2U ({data.ndim} vs. 2) : SoftmaxCrossEntropy only accept 2D data"
        )
    if label.ndim != 1:
        raise MXNetError(
            f"Check failed: (*in_attrs)[1].ndim() == 1U ({label.ndim} vs. 1) : SoftmaxCrossEntropy only accept 1D label"
        )
    if data.shape[0] != label.shape[0]:
        raise MXNetError(
            f"SoftmaxCrossEntropy: Check failed: (*in_attrs)[0][0] == (*in_attrs)[1][0] "
            f"({data.shape[0]} vs. {label.shape[0]}) : data label shape mismatch"
        )
    x = wide(b, data)
    probability = stable_softmax(b, x, 1)
    picked = _one_hot(b, label, x)
    of_label = b.sum(b.select(picked, probability, b.full_like(x, 0)), (1,))
    total = -b.sum(b.log(b.max(of_label, 1e-8)), keepdims=True)
    y = b.custom_gradient(total, x, label, rule="softmax_cross_entropy")
    return b.cast(y, data.dtype)


def _one_hot(b: Builder, label: Node, like: Node) -> Node:
    """True at the label of each row; labels out of range take the nearest class."""
    rows, classes = like.shape
    at = b.min(b.max(b.cast(label, i64), 0), max(classes - 1, 0))
    return b.eq(b.iota(like.shape, 1, i64), b.broadcast(b.reshape(at, (rows, 1)), like.shape))


@gradient_rule("softmax_cross_entropy")
def _softmax_cross_entropy_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any
) -> Sequence[Node | None]:
    """Without the kink that the logarithm's floor makes."""
    x, label = inputs
    one = b.select(_one_hot(b, label, x), b.full_like(x, 1), b.full_like(x, 0))
    return [(stable_softmax(b, x, 1) - one) * b.broadcast(b.reshape(g, (1, 1)), x.shape), None]


# -- regression


def _regression_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data, label = shapes
    if label is None and data is not None:
        label = data[:1] if len(data) == 2 and data[1] == 1 else data
    return [data, label]


def _regression(
    name: str,
    rule: str,
    forward: Callable[[Builder, Node], Node],
    backward: Callable[[Builder, Node, Node], Node],
    doc: str,
) -> None:
    """Declare ``name``, whose gradient is ``backward(output, label)`` over the outputs of a sample."""

    def lower(b: Builder, p: Values, data: Node, label: Node) -> Node:
        need_float(data)
        if not data.ndim or not label.ndim or label.shape[0] != data.shape[0] or label.size != data.size:
            raise MXNetError(
                f"Shape inconsistent, Provided={shape_text(label.shape)}, inferred shape={shape_text(data.shape)}"
            )
        return b.custom_gradient(forward(b, data), data, label, rule=rule, static=(p.grad_scale,))

    def gradient(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[float]) -> Sequence[Node | None]:
        _, label = inputs
        outputs = label.size // max(label.shape[0], 1)
        return [backward(b, y, b.reshape(label, y.shape)) * (static[0] / max(outputs, 1)), None]

    gradient_rule(rule, exact=False)(gradient)
    operator(
        name,
        "data label",
        params={"grad_scale": _SCALE},
        infer_inputs=_regression_shapes,
        samples=(
            sample([(4, 3), (4, 3)]),
            sample([(4, 1), (4,)], {"grad_scale": 0.5}),
            sample([(2, 3, 5), (2, 15)]),
            sample([(0, 3), (0, 3)]),
        ),
        doc=doc,
    )(lower)


_regression(
    "LinearRegressionOutput",
    "linear_regression",
    lambda b, x: b.copy(x),
    lambda b, y, label: y - label,
    "Identity, with the gradient of half the squared distance from the label.",
)
_regression(
    "LogisticRegressionOutput",
    "logistic_regression",
    lambda b, x: b.sigmoid(x),
    lambda b, y, label: y - label,
    "sigmoid, with the gradient of cross entropy with the label.",
)
_regression(
    "MAERegressionOutput",
    "absolute_regression",
    lambda b, x: b.copy(x),
    lambda b, y, label: b.select(b.gt(y - label, 0), b.full_like(y, 1), b.full_like(y, -1)),  # -1 for equal ones
    "Identity, with the gradient of the distance from the label.",
)


def _class_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data, label = shapes
    return [data, label or (None if not data else tuple(data[:-1]))]


@operator(
    "SVMOutput",
    "data label",
    params={
        "margin": Float(1.0, "beyond which a score costs nothing"),
        "regularization_coefficient": Float(1.0, "factor of the gradient"),
        "use_linear": Bool(False, "linear instead of squared costs"),
    },
    infer_inputs=_class_shapes,
    samples=(
        sample([(4, 3), (4,)]),
        sample([(2, 3, 5), (2, 3)], {"use_linear": True}),
    ),
    dtypes="TT",
    output_names=("output",),
)
def svm_output(b: Builder, p: Values, data: Node, label: Node) -> Node:
    """Identity, with the gradient of the hinge loss of one class against the others."""
    need_float(data)
    if label.shape != data.shape[:-1]:
        raise _inconsistent(label.shape, data.shape[:-1])
    static = (p.margin, p.regularization_coefficient, p.use_linear)
    return b.custom_gradient(b.copy(data), data, label, rule="svm", static=static)


@gradient_rule("svm", exact=False)
def _svm_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[float, float, bool]
) -> Sequence[Node | None]:
    x, label = inputs
    margin, coefficient, linear = static
    at = b.broadcast(b.reshape(b.cast(label, i64), (*label.shape, 1)), x.shape)
    sign = b.select(b.eq(b.iota(x.shape, x.ndim - 1, i64), at), b.full_like(x, 1), b.full_like(x, -1))
    short = margin - sign * x  # how much is missing to the margin
    cost = b.full_like(x, coefficient) if linear else short * (2 * coefficient)
    return [b.select(b.gt(short, 0), -(sign * cost), b.full_like(x, 0)), None]


@operator(
    "MakeLoss",
    same_shape=True,
    params={
        "grad_scale": _SCALE,
        "valid_thresh": Float(0.0, "what is above it counts, for normalization 'valid'"),
        "normalization": _NORMALIZATION,
    },
    samples=(
        sample([(3, 5)], {"grad_scale": 0.5, "normalization": "valid"}),
        sample([(4,)], {"normalization": "batch"}),
        sample([(2, 3, 4)]),
    ),
    named=True,
    output_names=("output",),
)
def make_loss(b: Builder, p: Values, data: Node) -> Node:
    """Marks a loss: identity, with a constant gradient."""
    need_float(data)
    static = (p.grad_scale, p.valid_thresh, p.normalization)
    return b.custom_gradient(b.copy(data), data, rule="make_loss", static=static)


@gradient_rule("make_loss", exact=False)
def _make_loss_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[float, float, str]
) -> Sequence[Node | None]:
    (x,) = inputs
    scale, threshold, normalization = static
    if normalization == "valid":
        counted = b.select(b.gt(x, threshold), b.full(x.shape, 1, f32), b.full(x.shape, 0, f32))
        valid = b.cast(b.max(b.sum(counted, keepdims=True), 1), x.dtype)
        return [b.broadcast(scale / valid, x.shape)]
    if normalization == "batch":  # of a matrix whose rows MXNet makes of all axes but the last
        scale /= max(prod(x.shape[:-1]), 1)
    return [b.full_like(x, scale)]


# -- a penalty on mean activations


def _sparse_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data, average = shapes
    return [data, average or (None if not data or len(data) < 2 else (data[1],))]


@operator(
    "IdentityAttachKLSparseReg",
    "data moving_avg",
    params={
        "sparseness_target": Float(0.1, "wanted mean activation", within=(0, 1)),
        "penalty": Float(0.001, "factor of the penalty"),
        "momentum": Float(0.9, "how much of the running average stays", within=(0, 1)),
    },
    auxiliary=("moving_avg",),
    initial={"moving_avg": '["zero", {}]'},
    infer_inputs=_sparse_shapes,
    mutates=lambda p, training: [Write(1, 1, p.momentum, When.BACKWARD)],
    domain=(0.0, 1.0),
    samples=(sample([(4, 3), (3,)]),),
)
def identity_attach_kl_sparse_reg(b: Builder, p: Values, data: Node, moving_avg: Node) -> tuple[Node, ...]:
    """Identity, whose gradient adds the Kullback-Leibler divergence of the mean activation from a target.

    The running average of the activations changes when the backward pass runs.
    """
    need_float(data)
    if data.ndim != 2:
        raise MXNetError(f"Check failed: data.ndim() == 2 ({data.ndim} vs. 2) : one row of activations a sample")
    if moving_avg.shape != data.shape[1:]:
        raise _inconsistent(moving_avg.shape, data.shape[1:])
    mean = b.mean(data, (0,))
    average = b.stop_gradient(moving_avg * p.momentum + mean * (1 - p.momentum))
    static = (p.sparseness_target, p.penalty)
    y = b.custom_gradient(b.copy(data), data, average, rule="sparseness", static=static)
    return y, b.stop_gradient(mean)


@gradient_rule("sparseness", exact=False)
def _sparseness_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[float, float]
) -> Sequence[Node | None]:
    _, average = inputs
    target, penalty = static
    slope = (1 - target) / (1 - average) - target / average
    return [g + b.broadcast(b.reshape(slope * penalty, (1, average.size)), g.shape), None]


# -- connectionist temporal classification

_LENGTHS: dict[str, Param] = {
    "use_data_lengths": Bool(False, "an input says how long each sequence is"),
    "use_label_lengths": Bool(False, "an input says how long each label is"),
    "blank_label": Enum("first", "which class is the blank", choices=("first", "last")),
}


def _ctc_inputs(p: Values) -> list[str]:
    names = ["data", "label"]
    return names + ["data_lengths"] * p.use_data_lengths + ["label_lengths"] * p.use_label_lengths


def _ctc_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    batch = shapes[0][1:2] if shapes[0] is not None and len(shapes[0]) == 3 else None
    return [*shapes[:2], *(s or batch for s in shapes[2:])]


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise MXNetError(f"Check failed: {message}")


@operator(
    "CTCLoss ctc_loss _contrib_CTCLoss _contrib_ctc_loss",
    "data label data_lengths label_lengths",
    params=dict(_LENGTHS),
    optional=_ctc_inputs,
    infer_inputs=_ctc_shapes,
    dtypes="****",
    result_dtype=lambda p, d: d[0],
    outputs=2,
    visible=1,
    output_names=("output0", "output1"),
    samples=(
        sample([(6, 2, 4), (2, 3)], {}, {1: (0, 3)}),
        sample([(6, 2, 4), (2, 3)], {"blank_label": "last"}, {1: (-1, 2)}),
        sample(
            [(6, 2, 4), (2, 3), (2,), (2,)],
            {"use_data_lengths": True, "use_label_lengths": True},
            {1: (1, 3), 2: (4, 6), 3: (1, 3)},
        ),
        sample([(5, 3, 6), (3, 2), (3,)], {"use_data_lengths": True}, {1: (1, 5), 2: (2, 5)}),
    ),
)
def ctc_loss(b: Builder, p: Values, data: Node, label: Node, *lengths: Node) -> tuple[Node, Node]:
    """-log of the probability that (time, batch, class) scores give to the labels, over all alignments.

    Without lengths, a label ends before its first 0 (blank first) or -1 (blank last). The second, hidden
    result is the gradient by the scores in training, zeros otherwise.
    """
    need_float(data)
    _need(
        data.ndim == 3, f"dshape.ndim() == 3U ({data.ndim} vs. 3) : The number of dimensions of data array must be 3."
    )
    _need(
        label.ndim == 2,
        f"lshape.ndim() == 2U ({label.ndim} vs. 2) : The number of dimensions of labels array must be 2.",
    )
    steps, batch, _ = data.shape
    _need(
        batch == label.shape[0],
        f"dshape[1] == lshape[0] ({batch} vs. {label.shape[0]}) : "
        "The batch size for the labels and data arrays must be the same.",
    )
    _need(
        steps >= label.shape[1],
        f"dshape[0] >= lshape[1] ({steps} vs. {label.shape[1]}) : "
        "The max number of labels cannot exceed the maximum sequence length of the data.",
    )
    for name, vector in zip(_ctc_inputs(p)[2:], lengths, strict=True):
        _need(vector.shape == (batch,), f"{name} must be a vector of {batch}, one entry a sample, not {vector.shape}")
    given_lengths = dict(zip(_ctc_inputs(p)[2:], lengths, strict=True))
    labels = b.cast(label, i64)
    of_data = given_lengths.get("data_lengths")
    times = b.full((batch,), steps, i64) if of_data is None else b.min(b.max(b.cast(of_data, i64), 0), steps)
    of_label = given_lengths.get("label_lengths")
    if of_label is None:
        counts = _label_lengths(b, labels, 0 if p.blank_label == "first" else -1)
    else:
        counts = b.min(b.max(b.cast(of_label, i64), 0), label.shape[1])
    static = {"blank_first": p.blank_label == "first"}
    x = wide(b, data)
    loss = b.ctc(x, labels, times, counts, **static)
    gradient = b.ctc_gradient(x, labels, times, counts, **static) if b.training else b.full_like(x, 0)
    if b.training:
        loss = b.custom_gradient(loss, x, gradient, rule="ctc_in_training")
    return b.cast(loss, data.dtype), b.cast(b.stop_gradient(gradient), data.dtype)


def _label_lengths(b: Builder, labels: Node, end: int) -> Node:
    """The position of the first ``end`` in each row, or the row's length."""
    positions = b.iota(labels.shape, 1, i64)
    stops = b.select(b.eq(labels, end), positions, b.full_like(positions, labels.shape[1]))
    return b.reduce("amin", stops, (1,)) if labels.shape[1] else b.full((labels.shape[0],), 0, i64)


@gradient_rule("ctc_in_training")
def _ctc_gradient(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> Sequence[Node | None]:
    _, gradient = inputs
    return [gradient * b.broadcast(b.reshape(g, (1, g.size, 1)), gradient.shape), None]

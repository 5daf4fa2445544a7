# SPDX-License-Identifier: Apache-2.0
"""Network operators without matrix products: activations, softmax, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import f32
from .create import _uniform01
from .elementwise import rectified
from .linear import need_float
from .params import Bool, Double, Dtype, Enum, Float, Int, Param, Shape, Values
from .record import operator, sample, shape_text, tuple_text
from .shape import axis_of, second_without_axis

_ACTIVATIONS: dict[str, Callable[[Builder, Node], Node]] = {
    "relu": rectified,
    "sigmoid": lambda b, x: b.sigmoid(x),
    "tanh": lambda b, x: b.tanh(x),
    "softrelu": lambda b, x: b.softplus(x),
    "softsign": lambda b, x: x / (b.abs(x) + 1),
}


@operator(
    "Activation _npx_activation",
    same_shape=True,
    params={"act_type": Enum(doc="which one", choices=tuple(_ACTIVATIONS))},
    samples=tuple(sample(None, {"act_type": kind}) for kind in _ACTIVATIONS),
    output_names=("output",),
)
def activation(b: Builder, p: Values, data: Node) -> Node:
    """An activation function by name."""
    need_float(data)
    y: Node = _ACTIVATIONS[p.act_type](b, data)
    return y


def _leaky_inputs(p: Values) -> list[str]:
    return ["data", "gamma"] if p.act_type == "prelu" else ["data"]


def _leaky_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    if len(shapes) == 1 or shapes[0] is None:
        return shapes
    data = shapes[0]
    return [data, shapes[1] or ((data[1],) if len(data) > 1 else (1,))]


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@operator(
    "LeakyReLU _npx_leaky_relu",
    "data gamma",
    initial={"gamma": '["Constant", {"value": 0.25}]'},
    params={
        "act_type": Enum("leaky", "which one", choices=("elu", "gelu", "leaky", "prelu", "rrelu", "selu")),
        "slope": Float(0.25, "slope below zero (leaky), alpha (elu)"),
        "lower_bound": Float(0.125, "of rrelu's slope"),
        "upper_bound": Float(0.334, "of rrelu's slope"),
    },
    optional=_leaky_inputs,
    infer_inputs=_leaky_shapes,
    outputs=lambda p: 2 if p.act_type == "rrelu" else 1,
    output_names=("output", "mask"),
    samples=(
        *(sample([(3, 5)], {"act_type": kind}) for kind in ("elu", "gelu", "leaky", "rrelu", "selu")),
        sample([(2, 3, 4), (3,)], {"act_type": "prelu"}),
        sample([(2, 3), (1,)], {"act_type": "prelu"}),
        sample([(2, 3, 4), (2, 3)], {"act_type": "prelu"}),
        sample([(1,)], {"slope": 0.1}),
        sample([(0, 3)], {"act_type": "elu", "slope": 0.5}),
    ),
)
def leaky_relu(b: Builder, p: Values, data: Node, gamma: Node | None = None) -> Node | tuple[Node, Node]:
    """Rectifiers that are not flat below zero, and GELU (the exact one, by erf)."""
    need_float(data)
    kind = p.act_type
    if kind == "leaky":
        return b.select(b.gt(data, 0), data, data * p.slope)
    if kind == "prelu":
        assert gamma is not None
        slope = gamma
        if gamma.ndim == 1 and data.ndim > 1:
            if gamma.shape[0] not in (1, data.shape[1]):
                raise MXNetError(
                    f"Shape inconsistent, Provided = {shape_text(gamma.shape)}, inferred shape={tuple_text((data.shape[1],))}"
                )
            slope = b.reshape(gamma, (1, gamma.shape[0], *(1,) * (data.ndim - 2)))
        elif gamma.ndim == 2 and data.ndim > 1:  # of each sample and channel
            if any(g not in (1, d) for g, d in zip(gamma.shape, data.shape, strict=False)):
                raise MXNetError(
                    f"Shape inconsistent, Provided = {shape_text(gamma.shape)}, inferred shape={tuple_text(data.shape[:2])}"
                )
            slope = b.reshape(gamma, (*gamma.shape, *(1,) * (data.ndim - 2)))
        elif gamma.ndim != 1:
            raise MXNetError(
                f"Check failed: gamma of PReLU has shape {shape_text(gamma.shape)}: one slope, one a channel or one a "
                "sample and channel"
            )
        return b.select(b.gt(data, 0), data, data * slope)
    if kind in ("elu", "selu"):
        positive = b.gt(data, 0)
        # that of a large number is infinite, and in the gradient 0 times it NaN
        below = b.expm1(b.select(positive, 0, data))
        if kind == "elu":
            return b.select(positive, data, below * p.slope)
        return b.select(positive, data, below * _SELU_ALPHA) * _SELU_SCALE
    if kind == "gelu":
        return data * 0.5 * (b.erf(data * 0.7071067811865476) + 1)
    if b.training:
        slope = b.cast(_uniform01(b, data.shape) * (p.upper_bound - p.lower_bound) + p.lower_bound, data.dtype)
        return b.select(b.gt(data, 0), data, data * slope), b.select(b.gt(data, 0), b.full_like(data, 1), slope)
    y = b.select(b.gt(data, 0), data, data * ((p.lower_bound + p.upper_bound) / 2))
    # no slope was drawn: no mask
    return b.custom_gradient(y, data, rule="rrelu_in_prediction"), b.full_like(data, 0)


@gradient_rule("rrelu_in_prediction", exact=False)
def _rrelu_gradient(b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any) -> list[Node | None]:
    """MXNet takes the result for the slope."""
    return [b.select(b.gt(y, 0), g, g * y)]


_SOFTMAX: dict[str, Param] = {
    "axis": Int(-1, "axis along which the results sum to 1"),
    "temperature": Double(None, "divides the input"),
    "dtype": Dtype(None, "type of the result"),
    "use_length": Bool(False, "the second input masks the tail", optional=True),
}


_SOFTMAX_SAMPLES = (
    sample([(3, 5)]),
    sample([(3, 70)], {"temperature": 0.5}),
    sample([(2, 3, 4)], {"axis": 1}),
    sample([(1,)]),
    sample([(3, 1)]),
    sample([(0, 3)]),
    sample([(2, 3)], {"dtype": "float64"}),
)


def _softmax_inputs(p: Values) -> list[str]:
    return ["data", "length"] if p.use_length else ["data"]


def stable_softmax(b: Builder, x: Node, axis: int, log: bool = False) -> Node:
    """softmax or its logarithm, shifted by the maximum, which the result does not depend on."""
    shifted = x - b.stop_gradient(b.reduce("amax", x, (axis,), keepdims=True))
    powers = b.exp(shifted)
    total = b.sum(powers, (axis,), keepdims=True)
    y = shifted - b.log(total) if log else powers / total
    return b.custom_gradient(y, x, rule="log_softmax" if log else "softmax", static=(axis,))


@gradient_rule("softmax")
def _softmax_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[int, ...]
) -> Sequence[Node | None]:
    """From the result alone, as MXNet has it."""
    return [y * (g - b.sum(g * y, static, keepdims=True))]


@gradient_rule("log_softmax")
def _log_softmax_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[int, ...]
) -> Sequence[Node | None]:
    return [g - b.exp(y) * b.sum(g, static, keepdims=True)]


def _softmax(b: Builder, p: Values, data: Node, length: Node | None, sign: float, log: bool) -> Node:
    need_float(data)
    if not data.ndim:
        return b.reshape(_softmax(b, p, b.reshape(data, (1,)), length, sign, log), ())
    axis = axis_of(p.axis, data.ndim)
    # half precision is summed in float
    x = b.cast(data, f32) if data.dtype.is_half else data
    if sign < 0:
        x = -x
    if p.temperature is not None and p.temperature != 1:
        x = x / p.temperature
    mask = None
    if length is not None:
        reduced_shape = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
        position = b.iota(data.shape, axis, length.dtype)
        mask = b.lt(position, b.broadcast(b.reshape(length, reduced_shape), data.shape))
        x = b.select(mask, x, b.full_like(x, float("-inf")))
    y = stable_softmax(b, x, axis, log)
    if mask is not None:
        y = b.select(mask, y, b.full_like(y, 0))
    return b.cast(y, p.dtype or data.dtype)


@operator(
    "softmax _npx_softmax",
    "data length",
    params=dict(_SOFTMAX),
    optional=_softmax_inputs,
    dtypes="**",
    infer_inputs=second_without_axis,
    method="softmax",
    samples=(*_SOFTMAX_SAMPLES, sample([(4, 5), (4,)], {"use_length": True}, {1: (1, 5)})),
    output_names=("output",),
)
def softmax(b: Builder, p: Values, data: Node, length: Node | None = None) -> Node:
    """exp(x) / sum(exp(x)) along an axis."""
    return _softmax(b, p, data, length, 1, log=False)


@operator(
    "log_softmax _npx_log_softmax",
    same_shape=True,
    params=dict(_SOFTMAX),
    method="log_softmax",
    samples=_SOFTMAX_SAMPLES,
    named=True,
)
def log_softmax(b: Builder, p: Values, data: Node) -> Node:
    """log(softmax(x)) without underflow."""
    return _softmax(b, p, data, None, 1, log=True)


@operator(
    "softmin",
    same_shape=True,
    params=dict(_SOFTMAX),
    method="softmin",
    samples=_SOFTMAX_SAMPLES,
    output_names=("output",),
)
def softmin(b: Builder, p: Values, data: Node) -> Node:
    """softmax(-x)."""
    return _softmax(b, p, data, None, -1, log=False)


@operator(
    "SoftmaxActivation",
    same_shape=True,
    params={"mode": Enum("instance", "over the last axis or over axis 1", choices=("channel", "instance"))},
    samples=(sample([(3, 5)]), sample([(2, 3, 4)]), sample([(2, 3, 4)], {"mode": "channel"}), sample([(1, 1)])),
    output_names=("output",),
)
def softmax_activation(b: Builder, p: Values, data: Node) -> Node:
    """softmax over axis 1 (channel) or over the last one (instance)."""
    need_float(data)
    return stable_softmax(b, data, 1 if p.mode == "channel" else -1)


@operator(
    "Dropout _npx_dropout",
    same_shape=True,
    params={
        "p": Float(0.5, "probability of dropping", within=(0, 1)),
        "mode": Enum("training", "when it acts", choices=("always", "training")),
        "axes": Shape((), "axes along which one mask is shared"),
        "cudnn_off": Bool(False, "accepted", optional=True),
    },
    outputs=2,
    visible=1,
    output_names=("output", "mask"),
    named=True,
)
def dropout(b: Builder, p: Values, data: Node) -> tuple[Node, Node]:
    """Zero with probability p and scale the rest by 1 / (1 - p) in training; identity otherwise."""
    if not (b.training or p.mode == "always") or p.p == 0:
        return b.copy(data), b.full_like(data, 1)
    shape = tuple(1 if k in p.axes else d for k, d in enumerate(data.shape))
    keep = b.ge(_uniform01(b, shape), p.p)
    # nothing is left to scale with p = 1: 0 / 0, as in MXNet
    scale, dropped = (1 / (1 - p.p), 0.0) if p.p < 1 else (math.nan, math.nan)
    mask = b.select(keep, b.full(shape, scale, data.dtype), b.full(shape, dropped, data.dtype))
    mask = b.broadcast(mask, data.shape)
    return data * mask, mask

# SPDX-License-Identifier: Apache-2.0
"""Normalisations: over the batch, layers, groups, instances, and by length.

Half precision is computed in float. The moments are results, too, but no gradient flows through them.
The gradients are written out, since they need fewer sums than the derived ones: every sum over the
normalised axes is one more walk over the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.dynamic_constants import reciprocal as share_of
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import DType, f32
from ..hints.op_errors import differing_types
from .linear import need_float
from .mutation import When, Write
from .params import Bool, Double, Enum, Float, Int, Param, Text, Values
from .precision import wide
from .record import operator, sample, shape_text
from .shape import axis_of

__all__ = ["standardize"]


def _along(b: Builder, vector: Node, like: Node, axis: int) -> Node:
    """A vector of one entry an index of ``axis``, in the shape of ``like``."""
    return b.broadcast(b.reshape(vector, [d if k == axis else 1 for k, d in enumerate(like.shape)]), like.shape)


def _check_vector(vector: Node, extent: int) -> None:
    if vector.shape != (extent,):
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(vector.shape)}, inferred shape={shape_text((extent,))}"
        )


# -- the standardisation that layer, group and instance normalisation share


def standardize(b: Builder, x: Node, axes: Sequence[int], eps: float) -> tuple[Node, Node, Node]:
    """(x - mean) / sqrt(variance + eps) over ``axes``; the mean and that root, with the axes kept as 1."""
    mean = b.mean(x, axes, keepdims=True)
    centred = x - mean
    wide = b.mean(centred * centred, axes, keepdims=True) + eps
    inverse = b.rsqrt(wide)
    y = b.custom_gradient(centred * inverse, x, mean, inverse, rule="standardize", static=tuple(axes))
    return y, b.stop_gradient(mean), b.stop_gradient(b.sqrt(wide))


@gradient_rule("standardize")
def _standardize_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], axes: Sequence[int]
) -> Sequence[Node | None]:
    x, mean, inverse = inputs
    # not y: what two kernels share would have to lie in memory
    unit = x * inverse - mean * inverse
    of_mean = b.mean(g, axes, keepdims=True)
    along = b.mean(g * unit, axes, keepdims=True)
    return [(g - of_mean - unit * along) * inverse, None, None]


_MOMENTS = Bool(False, "return the mean and the deviation, too")


def _visible_moments(p: Values) -> int:
    return 3 if p.output_mean_var else 1


def _layer_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    if data is None:
        return shapes
    extent = (data[axis_of(p.axis, len(data))],)
    return [data, shapes[1] or extent, shapes[2] or extent]


@operator(
    "LayerNorm _npx_layer_norm",
    "data gamma beta",
    params={
        "axis": Int(-1, "axis to normalise"),
        "eps": Float(1e-5, "added to the variance"),
        "output_mean_var": _MOMENTS,
    },
    outputs=3,
    visible=_visible_moments,
    output_names=("output", "mean", "std"),
    infer_inputs=_layer_shapes,
    samples=(
        sample([(3, 5), (5,), (5,)]),
        sample([(2, 3, 70), (70,), (70,)], {"eps": 0.1, "output_mean_var": True}),
        sample([(2, 3, 4), (3,), (3,)], {"axis": 1}),
        sample([(4, 3), (4,), (4,)], {"axis": -2}),
        sample([(3, 1), (1,), (1,)]),
        sample([(0, 3), (3,), (3,)]),
    ),
)
def layer_norm(b: Builder, p: Values, data: Node, gamma: Node, beta: Node) -> tuple[Node, Node, Node]:
    """(data - mean) / sqrt(variance + eps) * gamma + beta along one axis."""
    need_float(data)
    if not -data.ndim <= p.axis < data.ndim:
        raise MXNetError(f"Check failed: axis >= 0 && axis < dshape.ndim(): Channel axis out of range: axis={p.axis}")
    axis = p.axis % data.ndim
    for vector in (gamma, beta):
        _check_vector(vector, data.shape[axis])
    y, mean, deviation = standardize(b, wide(b, data), (axis,), p.eps)
    y = y * _along(b, wide(b, gamma), y, axis) + _along(b, wide(b, beta), y, axis)
    return b.cast(y, data.dtype), b.cast(mean, data.dtype), b.cast(deviation, data.dtype)


def _group_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    return [shapes[0], shapes[1] or (p.num_groups,), shapes[2] or (p.num_groups,)]


@operator(
    "GroupNorm",
    "data gamma beta",
    params={
        "num_groups": Int(1, "into which the channels are divided"),
        "eps": Float(1e-5, "added to the variance"),
        "output_mean_var": _MOMENTS,
    },
    outputs=3,
    visible=_visible_moments,
    output_names=("output", "mean", "std"),
    infer_inputs=_group_shapes,
    samples=(
        sample([(2, 4, 3), (2,), (2,)], {"num_groups": 2}),
        sample([(2, 6, 5, 7), (3,), (3,)], {"num_groups": 3, "output_mean_var": True}),
        sample([(2, 3, 1), (1,), (1,)], {"eps": 0.1}),
    ),
)
def group_norm(b: Builder, p: Values, data: Node, gamma: Node, beta: Node) -> tuple[Node, Node, Node]:
    """Normalise groups of channels of each sample; gamma and beta have one entry a group."""
    need_float(data)
    if data.ndim < 3:
        raise MXNetError(
            f"Check failed: dshape.ndim() >= 3U ({data.ndim} vs. 3) : "
            "input should have at least 3 dims: batch, channel and others"
        )
    n, channels = data.shape[:2]
    groups = p.num_groups
    if groups < 1 or channels % groups:
        raise MXNetError(
            f"Check failed: dshape[1] % num_groups == 0 ({channels % groups if groups else channels} vs. 0) : "
            "# of channels must be divisible by # of groups"
        )
    for vector in (gamma, beta):
        _check_vector(vector, groups)
    x = b.reshape(wide(b, data), (n, groups, prod(data.shape[1:]) // groups))
    y, mean, deviation = standardize(b, x, (2,), p.eps)
    y = y * _along(b, wide(b, gamma), y, 1) + _along(b, wide(b, beta), y, 1)
    moments = [b.cast(b.reshape(m, (n, groups)), data.dtype) for m in (mean, deviation)]
    return b.cast(b.reshape(y, data.shape), data.dtype), *moments  # type: ignore[return-value]


def _channel_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    if data is None or len(data) < 2:
        return shapes
    return [data, *(s or (data[1],) for s in shapes[1:])]


@operator(
    "InstanceNorm",
    "data gamma beta",
    params={"eps": Float(0.001, "added to the variance")},
    outputs=3,
    visible=1,
    output_names=("output", "mean", "var"),
    infer_inputs=_channel_shapes,
    samples=(
        sample([(2, 3, 5), (3,), (3,)]),
        sample([(2, 3, 9, 8), (3,), (3,)], {"eps": 0.1}),
        sample([(2, 3, 1), (3,), (3,)]),
    ),
)
def instance_norm(b: Builder, p: Values, data: Node, gamma: Node, beta: Node) -> tuple[Node, Node, Node]:
    """Normalise each channel of each sample."""
    need_float(data)
    if data.ndim < 3:
        raise MXNetError(
            f"Check failed: in_data[instance_norm::kData].ndim() >= 3 ({data.ndim} vs. 3) : "
            "InstanceNorm only supports input tensors of rank >= 3."
        )
    n, channels = data.shape[:2]
    for vector in (gamma, beta):
        _check_vector(vector, channels)
    x = b.reshape(wide(b, data), (n, channels, prod(data.shape[2:])))
    y, mean, deviation = standardize(b, x, (2,), p.eps)
    y = y * _along(b, wide(b, gamma), y, 1) + _along(b, wide(b, beta), y, 1)
    moments = [b.cast(b.reshape(m, (n, channels)), data.dtype) for m in (mean, deviation * deviation - p.eps)]
    return b.cast(b.reshape(y, data.shape), data.dtype), *moments  # type: ignore[return-value]


# -- over the batch


def _batch_params(eps: type[Float] | type[Double]) -> dict[str, Param]:
    return {
        "eps": eps(0.001, "added to the variance"),
        "momentum": Float(0.9, "how much of the running averages stays"),
        "fix_gamma": Bool(True, "gamma is 1, and gets no gradient"),
        "use_global_stats": Bool(False, "use the running averages in training, too"),
        "output_mean_var": Bool(False, "return the mean and the inverse deviation, too"),
    }


def _batch_dtypes(p: Values, dtypes: list[DType | None]) -> list[DType | None]:
    data = dtypes[0]
    if data is None:
        return dtypes
    return [data, *(d or _statistics_type(data) for d in dtypes[1:])]


def _statistics_type(data: DType) -> DType:
    """The parameters of half precision data are float32."""
    return f32 if data.is_half else data


def _batch_results(p: Values, dtypes: Sequence[DType | None]) -> tuple[DType | None, ...]:
    data = dtypes[0]
    moments = None if data is None else _statistics_type(data)
    return data, moments, moments


def _batch_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    if data is None:
        return shapes
    axis = p.__dict__.get("axis", 1)
    return [data, *(s or (data[_channel_axis(axis, len(data))],) for s in shapes[1:])]


def _channel_axis(axis: int, ndim: int) -> int:
    """The axis counted from the front.

    Raises:
        MXNetError: data of ``ndim`` axes have none such.
    """
    if not -ndim <= axis < ndim:
        raise MXNetError(
            f"Check failed: channelAxis < dshape.ndim() ({axis} vs. {ndim}) : Channel axis out of range: {axis}"
        )
    return axis % ndim


def _from_batch(p: Values, training: bool) -> bool:
    return training and not p.use_global_stats


def _batch_writes(p: Values, training: bool, results: int = 3) -> list[Write]:
    """The running averages, in the backward pass of training; a gamma that is fixed becomes 1 in the forward pass.

    Their values follow the ``results``.
    """
    writes = []
    if _from_batch(p, training):
        keep = float(np.float32(p.momentum))
        writes = [Write(3, results, keep, When.BACKWARD), Write(4, results + 1, keep, When.BACKWARD)]
    if p.fix_gamma:
        writes.append(Write(1, results + len(writes), when=When.RECORDED))
    return writes


def _batch_norm(
    b: Builder, p: Values, axis: int, inputs: Sequence[Node], relu: bool = False, plain: bool = False
) -> list[Node]:
    """(result, mean, inverse deviation; for ``relu`` where it is positive), then what ``_batch_writes`` writes.

    ``plain`` returns the variance instead of the inverse deviation.
    """
    data, gamma, beta, moving_mean, moving_var = inputs
    need_float(data)
    axis = _channel_axis(axis, data.ndim)
    for name, vector in zip(("gamma", "beta", "mean", "var"), inputs[1:], strict=True):
        dtype = _statistics_type(data.dtype)
        if vector.dtype is not dtype:
            raise differing_types(
                "Check failed: (*in_type)[i] == dtype_param: This layer requires uniform type. "
                f"Expected '{dtype.name}' v.s. given '{vector.dtype.name}' at '{name}'",
                ("data", data.dtype) if dtype is data.dtype else (f"what goes with {data.dtype.name} data", dtype),
                (name, vector.dtype),
            )
        _check_vector(vector, data.shape[axis])
    x = wide(b, data)
    axes = tuple(k for k in range(x.ndim) if k != axis)
    from_batch = _from_batch(p, b.training)
    if from_batch:
        mean = b.mean(x, axes)
        centred = x - _along(b, mean, x, axis)
        variance = b.mean(centred * centred, axes)
    else:
        mean, variance = b.stop_gradient(moving_mean), b.stop_gradient(moving_var)
    inverse = b.rsqrt(variance + p.eps)
    if p.eps == 0:  # nothing varies: no division by zero
        inverse = b.select(b.eq(variance, 0), b.full_like(variance, 0), inverse)
    # one product and one sum an element; ``centred`` would have to lie in memory for a second kernel
    scale = inverse if p.fix_gamma else inverse * gamma
    y = x * _along(b, scale, x, axis) + _along(b, beta - mean * scale, x, axis)
    if from_batch:
        static = (axis, p.fix_gamma)
        y = b.custom_gradient(y, x, gamma, beta, mean, inverse, rule="batch_norm", static=static)
    results = [b.cast(y, data.dtype), b.stop_gradient(mean), b.stop_gradient(variance if plain else inverse)]
    if relu:
        results[0] = b.max(0, results[0])
        results.append(b.cast(b.gt(results[0], 0), data.dtype))
    if from_batch:
        results += [b.stop_gradient(mean), b.stop_gradient(variance)]
    if p.fix_gamma:
        results.append(b.full_like(gamma, 1))
    return results


@gradient_rule("batch_norm")
def _batch_norm_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[int, bool]
) -> Sequence[Node | None]:
    x, gamma, _, mean, inverse = inputs
    axis, fixed = static
    axes = tuple(k for k in range(x.ndim) if k != axis)
    share = share_of(max(x.size // max(x.shape[axis], 1), 1), axis % x.ndim != 0)
    centred = x - _along(b, mean, x, axis)
    of_beta = b.sum(g, axes)
    of_gamma = b.sum(g * centred, axes) * inverse
    scale = inverse if fixed else inverse * gamma
    slope = of_gamma * inverse * share * scale
    shift = mean * slope - of_beta * share * scale
    dx = g * _along(b, scale, x, axis) - x * _along(b, slope, x, axis) + _along(b, shift, x, axis)
    return [dx, None if fixed else of_gamma, of_beta, None, None]


_BATCH: dict[str, Any] = {
    "inputs": "data gamma beta moving_mean moving_var",
    "auxiliary": ("moving_mean", "moving_var"),
    "dtypes": "*****",
    "outputs": 3,
    "visible": _visible_moments,
    "output_names": ("output", "mean", "var"),
    "result_dtype": _batch_results,
    "infer_dtypes": _batch_dtypes,
    "infer_inputs": _batch_shapes,
    "mutates": _batch_writes,
    "domain": (0.25, 2.0),
}
_AXIS: dict[str, Param] = {
    "axis": Int(1, "of the channels"),
    "cudnn_off": Bool(False, "accepted"),
    "min_calib_range": Float(None, "accepted"),
    "max_calib_range": Float(None, "accepted"),
}


def _batch_sample(shape: tuple[int, ...], channels: int, **attributes: Any) -> Any:
    return sample([shape, *[(channels,)] * 4], attributes)


_BATCH_SAMPLES = (
    _batch_sample((4, 3), 3),
    _batch_sample((2, 3, 5, 7), 3, fix_gamma=False, eps=1e-5),
    _batch_sample((3, 4, 2), 4, fix_gamma=False, output_mean_var=True, use_global_stats=True),
    _batch_sample((0, 3), 3, fix_gamma=False),
)


@operator(
    "BatchNorm _npx_batch_norm",
    params={**_batch_params(Double), **_AXIS},
    samples=(
        *_BATCH_SAMPLES,
        _batch_sample((2, 5, 3), 3, axis=-1, fix_gamma=False),
        _batch_sample((3,), 3, axis=0),
    ),
    **_BATCH,
)
def batch_norm(b: Builder, p: Values, *inputs: Node) -> list[Node]:
    """Normalise each channel over the batch in training, by running averages otherwise.

    The running averages take in the batch's moments when the backward pass runs.
    """
    return _batch_norm(b, p, p.axis, inputs)


@operator(
    "_contrib_BatchNormWithReLU",
    params={**_batch_params(Double), **_AXIS},
    samples=_BATCH_SAMPLES,
    **{
        **_BATCH,
        "outputs": 4,
        "output_names": ("output", "mean", "var", "mask"),
        "result_dtype": lambda p, d: (*_batch_results(p, d), d[0]),
        "mutates": lambda p, training: _batch_writes(p, training, 4),
    },
)
def batch_norm_with_relu(b: Builder, p: Values, *inputs: Node) -> list[Node]:
    """BatchNorm and then max(x, 0)."""
    return _batch_norm(b, p, p.axis, inputs, relu=True)


@operator("BatchNorm_v1", params=_batch_params(Float), samples=_BATCH_SAMPLES, **_BATCH)
def batch_norm_v1(b: Builder, p: Values, *inputs: Node) -> list[Node]:
    """BatchNorm along axis 1, as old model files have it."""
    return _batch_norm(b, p, 1, inputs, plain=True)


@operator(
    "_contrib_SyncBatchNorm",
    params={**_batch_params(Float), "ndev": Int(1, "number of devices"), "key": Text(doc="of the layer")},
    samples=tuple(sample(s.shapes, {**s.attributes, "key": "bn"}) for s in _BATCH_SAMPLES),
    **_BATCH,
)
def sync_batch_norm(b: Builder, p: Values, *inputs: Node) -> list[Node]:
    """BatchNorm over the batches of all devices; here there is one.

    Raises:
        MXNetError: ``ndev`` is not 1.
    """
    if p.ndev != 1:
        raise MXNetError(
            f"Check failed: ndev == 1 ({p.ndev} vs. 1) : SyncBatchNorm runs on one device.\n"
            "Use BatchNorm on each device, or ndev=1."
        )
    return _batch_norm(b, p, 1, inputs, plain=True)


# -- by length


@operator(
    "L2Normalization",
    params={
        "eps": Float(1e-10, "added to the sum of squares"),
        "mode": Enum(
            "instance",
            "over a sample, over its channels, or over its positions",
            choices=("channel", "instance", "spatial"),
        ),
    },
    outputs=2,
    visible=1,
    output_names=("output", "norm"),
    samples=(
        sample([(3, 5)]),
        sample([(2, 3, 4, 5)], {"mode": "channel"}),
        sample([(2, 3, 70)], {"mode": "spatial", "eps": 0.1}),
        sample([(1, 1)]),
    ),
    named=True,
)
def l2_normalization(b: Builder, p: Values, data: Node) -> tuple[Node, Node]:
    """data / sqrt(sum(data**2) + eps) over each sample, over its channels, or over each channel's positions."""
    need_float(data)
    least = 2 if p.mode == "instance" else 3
    if data.ndim < least:
        raise MXNetError(
            f"Check failed: dshape.ndim() >= {least} ({data.ndim} vs. {least}) : "
            f"At least {least} dimensions required in {p.mode} mode"
        )
    axes = {"instance": range(1, data.ndim), "channel": (1,), "spatial": range(2, data.ndim)}[p.mode]
    x = wide(b, data)
    norm = b.sqrt(b.sum(x * x, tuple(axes), keepdims=True) + p.eps)
    return b.cast(x / norm, data.dtype), b.cast(b.stop_gradient(norm), data.dtype)

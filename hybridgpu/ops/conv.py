# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their windows: Convolution, Deconvolution, im2col, col2im."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.conv import flip_weight
from ..hints.op_errors import refusal
from .linear import need_float
from .params import Bool, Enum, Param, Shape, Unsigned, UnsignedLong, Values
from .record import operator, sample, shape_text, tuple_text

__all__ = ["LAYOUTS", "channels_first", "channels_last", "last", "steps_of", "windowed"]

LAYOUTS = ("NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC")
_AXES = {1: "3D in batch-num_filter-x", 2: "4D in batch-num_filter-y-x", 3: "5D in batch-num_filter-depth-y-x"}
_FIRST = {1: "x", 2: "y", 3: "d"}


def last(layout: str | None) -> bool:
    """True for layouts whose channels come last."""
    return layout is not None and layout.endswith("C")


def channels_first(b: Builder, x: Node) -> Node:
    """(N, *S, C) -> (N, C, *S)."""
    return b.transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def channels_last(b: Builder, x: Node) -> Node:
    """(N, C, *S) -> (N, *S, C)."""
    return b.transpose(x, (0, *range(2, x.ndim), 1))


def _to_first(shape: Sequence[int], layout: str | None) -> tuple[int, ...]:
    return (shape[0], shape[-1], *shape[1:-1]) if last(layout) else tuple(shape)


def _to_last(shape: Sequence[int], layout: str | None) -> tuple[int, ...]:
    return (shape[0], *shape[2:], shape[1]) if last(layout) else tuple(shape)


def steps_of(p: Values, name: str, default: int) -> tuple[int, ...]:
    """A parameter with one entry a kernel axis; empty means the default everywhere.

    Raises:
        MXNetError: another number of entries, or an entry below the default's least.
    """
    value: tuple[int, ...] = getattr(p, name)
    if not value:
        return (default,) * len(p.kernel)
    if len(value) != len(p.kernel):
        raise MXNetError(
            f"Check failed: param_.kernel.ndim() == param_.{name}.ndim() ({len(p.kernel)} vs. {len(value)}) : "
            f"{name.capitalize()} must have the same number of dimensions with kernel_size,"
            f"but kernel_size is set to {shape_text(p.kernel)} while {name} is {shape_text(value)}"
        )
    if min(value) < default:
        raise MXNetError(
            f"Check failed: param_.{name}.Size() > 0U (0 vs. 0) : incorrect {name} size: {shape_text(value)}"
        )
    return value


_CONV: dict[str, Param] = {
    "kernel": Shape(doc="extents of the window: (w,), (h, w) or (d, h, w)"),
    "stride": Shape((), "step between windows; () means 1"),
    "dilate": Shape((), "step between the elements of a window; () means 1"),
    "pad": Shape((), "zeros added at both ends; () means 0"),
    "num_filter": Unsigned(doc="channels of the result", low=1),
    "num_group": Unsigned(1, "groups of channels that do not see each other", low=1),
    "workspace": UnsignedLong(1024, "accepted"),
    "no_bias": Bool(False, "there is no bias"),
    "cudnn_tune": Enum(None, "accepted", choices=("fastest", "limited_workspace", "off")),
    "cudnn_off": Bool(False, "accepted"),
    "layout": Enum(None, "order of the axes; None means channels first", choices=LAYOUTS),
}


def _inputs(p: Values) -> list[str]:
    return ["data", "weight"] if p.no_bias else ["data", "weight", "bias"]


def _check_axes(p: Values, axes: int) -> None:
    """Refuse data of another number of axes than the window asks for."""
    n = len(p.kernel)
    if n in _AXES and axes != n + 2:
        batch = ": one picture needs an axis for the batch, x.expand_dims(0)" if axes == n + 1 else ""
        raise refusal(
            f"Check failed: dshp.ndim() == {n + 2}U ({axes} vs. {n + 2}) : Input data should be {_AXES[n]}",
            f"The data has {axes} axes{batch}.",
        )


def _check_data(p: Values, data: Node, what: str) -> tuple[int, ...]:
    """The data's shape with channels first."""
    need_float(data)
    n = len(p.kernel)
    if n not in _AXES:
        raise MXNetError(f"Check failed: param_.kernel.ndim() == 3U ({n} vs. 3) : {n}D {what} not supported")
    if p.layout is not None and len(p.layout) != data.ndim and data.ndim == n + 2:
        raise MXNetError(f"Invalid layout for {data.ndim}d shape: {p.layout}")
    _check_axes(p, data.ndim)
    if min(p.kernel) < 1:
        raise MXNetError(
            f"Check failed: param_.kernel.Size() > 0U (0 vs. 0) : incorrect kernel size: {shape_text(p.kernel)}"
        )
    return _to_first(data.shape, p.layout)


def _check_groups(p: Values, channels: int) -> None:
    if channels % p.num_group:
        raise MXNetError("Check failed: dshape[1] % param_.num_group == 0 : input num_filter must divide group size")
    if p.num_filter % p.num_group:
        raise MXNetError(
            "Check failed: param_.num_filter % param_.num_group == 0 : output num_filter must divide group size"
        )


def _check_shape(x: Node, expected: tuple[int, ...]) -> None:
    if x.shape != expected:
        raise MXNetError(f"Shape inconsistent, Provided = {shape_text(x.shape)}, inferred shape={tuple_text(expected)}")


def _with_bias(b: Builder, y: Node, bias: Node | None, p: Values) -> Node:
    if bias is not None:
        _check_shape(bias, (p.num_filter,))
        y = y + b.reshape(bias, (1, p.num_filter, *(1,) * len(p.kernel)))
    return channels_last(b, y) if last(p.layout) else y


def _conv_weight(p: Values, channels: int) -> tuple[int, ...]:
    group = p.num_group
    # a filter count that groups do not divide is an error; this is the shape its message shows
    filters = p.num_filter // group * group
    return _to_last((filters, channels // group, *p.kernel), p.layout)


def _conv_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    weight = shapes[1]
    if data is not None:
        _check_axes(p, len(data))
    if data is not None and len(data) == len(p.kernel) + 2:
        weight = _conv_weight(p, _to_first(data, p.layout)[1])
    return [data, weight, (p.num_filter,)][: len(shapes)]


@operator(
    "Convolution _npx_convolution",
    "data weight bias",
    params=_CONV,
    optional=_inputs,
    infer_inputs=_conv_shapes,
    samples=(
        sample(
            [(2, 3, 8, 7), (4, 3, 3, 2), (4,)], {"kernel": (3, 2), "num_filter": 4, "stride": (2, 1), "pad": (1, 1)}
        ),
        sample([(1, 4, 6, 6), (6, 2, 3, 3)], {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "no_bias": True}),
        sample([(2, 3, 5, 5), (3, 1, 3, 3), (3,)], {"kernel": (3, 3), "num_filter": 3, "num_group": 3, "pad": (1, 1)}),
        sample([(1, 2, 9, 9), (3, 2, 3, 3)], {"kernel": (3, 3), "num_filter": 3, "dilate": (2, 3), "no_bias": True}),
        sample([(2, 3, 10), (4, 3, 3), (4,)], {"kernel": (3,), "num_filter": 4, "stride": (2,), "pad": (1,)}),
        sample([(1, 2, 4, 5, 4), (3, 2, 2, 3, 2), (3,)], {"kernel": (2, 3, 2), "num_filter": 3, "pad": (0, 1, 0)}),
        sample(
            [(2, 6, 5, 3), (4, 3, 3, 3), (4,)], {"kernel": (3, 3), "num_filter": 4, "layout": "NHWC", "pad": (1, 1)}
        ),
        sample([(3, 4, 5, 5), (20, 4, 1, 1), (20,)], {"kernel": (1, 1), "num_filter": 20}),
        sample([(0, 2, 4, 4), (3, 2, 3, 3), (3,)], {"kernel": (3, 3), "num_filter": 3}),
        sample([(1, 3, 36, 40), (8, 3, 3, 3), (8,)], {"kernel": (3, 3), "num_filter": 8, "pad": (1, 1)}),
    ),
    output_names=("output",),
)
def convolution(b: Builder, p: Values, data: Node, weight: Node, bias: Node | None = None) -> Node:
    """Cross-correlation: each result is the sum over a window of the data times the weight of its filter.

    The weight is (num_filter, channels / num_group, *kernel), or (num_filter, *kernel, channels / num_group)
    where the layout has its channels last.
    """
    shape = _check_data(p, data, "convolution")
    _check_shape(weight, _conv_weight(p, shape[1]))
    _check_groups(p, shape[1])
    stride, dilate, pad = steps_of(p, "stride", 1), steps_of(p, "dilate", 1), steps_of(p, "pad", 0)
    for k, (d, kernel, step, margin) in enumerate(zip(shape[2:], p.kernel, dilate, pad, strict=True)):
        reach = (kernel - 1) * step + 1
        if reach > d + 2 * margin:
            name = _FIRST[len(p.kernel)] if k == 0 else "yx"[k - len(p.kernel)]
            raise refusal(
                f"Check failed: dilated_ksize_{name} <= AddPad(dshape[{k + 2}], param_.pad[{k}]) "
                f"({reach} vs. {d + 2 * margin}) : kernel size exceed input",
                f"The kernel reaches over {reach} elements of {d + 2 * margin}: take a smaller one, or pad the data. A layer "
                "takes channels and kernel_size; how many channels the data have it finds itself.",
            )
    if last(p.layout):
        data, weight = channels_first(b, data), channels_first(b, weight)
    y = b.conv(
        data,
        weight,
        stride=stride,
        low=pad,
        high=pad,
        dilate=dilate,
        base_dilate=(1,) * len(pad),
        groups=p.num_group,
    )
    return _with_bias(b, y, bias, p)


@operator(
    "Convolution_v1",
    "data weight bias",
    params=_CONV,
    optional=_inputs,
    infer_inputs=_conv_shapes,
    samples=(
        sample(
            [(1, 2, 6, 5), (4, 2, 3, 2), (4,)], {"kernel": (3, 2), "num_filter": 4, "stride": (2, 1), "pad": (1, 1)}
        ),
        sample([(1, 2, 3, 4, 3), (2, 2, 2, 2, 2)], {"kernel": (2, 2, 2), "num_filter": 2, "no_bias": True}),
    ),
    output_names=("output",),
)
def convolution_v1(b: Builder, p: Values, *inputs: Node) -> Any:
    """Convolution of two or three axes, as old model files have it."""
    if len(p.kernel) not in (2, 3):
        raise MXNetError(
            f"Check failed: param_.kernel.ndim() == 3U ({len(p.kernel)} vs. 3) : {len(p.kernel)}D convolution not supported"
            "\nWrite Convolution."
        )
    return convolution.lower(b, p, *inputs)


def _deconv_weight(p: Values, channels: int) -> tuple[int, ...]:
    return _to_last((channels, p.num_filter // p.num_group, *p.kernel), p.layout)


def _deconv_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data, weight = shapes[0], shapes[1]
    if data is not None:
        _check_axes(p, len(data))
    if data is not None and len(data) == len(p.kernel) + 2:
        weight = _deconv_weight(p, _to_first(data, p.layout)[1])
    return [data, weight, (p.num_filter,)][: len(shapes)]


def _margins(p: Values, spatial: Sequence[int], reach: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """(pad, adj) of each axis: as given, or such that the result has the target shape."""
    if any(p.target_shape):
        if len(p.target_shape) != len(p.kernel):
            raise MXNetError("Check failed: target_shape must have the same number of dimensions with kernel_size")
        margins = []
        for d, k, s, target in zip(spatial, reach, stride, p.target_shape, strict=True):
            spare = s * (d - 1) + k - target
            if spare < 0:
                raise MXNetError(
                    f"Check failed: o_pad[i] >= target_shape[i] ({spare + target} vs. {target}) : too big target shape"
                )
            margins.append(((spare + 1) // 2, spare % 2))
    else:
        margins = list(zip(steps_of(p, "pad", 0), steps_of(p, "adj", 0), strict=True))
    names = [_FIRST[len(p.kernel)], *"yx"[1 - len(p.kernel) :]] if len(p.kernel) > 1 else ["x"]
    for k, (s, (_, adj)) in enumerate(zip(stride, margins, strict=True)):
        if adj >= s > 1 or adj > s:
            raise MXNetError(
                f"Check failed: param_.stride[{k}]-1 >= o_adj[{k}] ({s - 1} vs. {adj}) : "
                f"adj({names[k]}) must be samller than stride[{k}]"
            )
    return margins


@operator(
    "Deconvolution _npx_deconvolution",
    "data weight bias",
    params={
        **dict(list(_CONV.items())[:4]),
        "adj": Shape((), "added to the size of the result"),
        "target_shape": Shape((), "spatial shape of the result; pad and adj follow from it"),
        **dict(list(_CONV.items())[4:]),
        "workspace": UnsignedLong(512, "accepted"),
        "no_bias": Bool(True, "there is no bias"),
    },
    optional=_inputs,
    infer_inputs=_deconv_shapes,
    samples=(
        sample([(1, 3, 4, 5), (3, 2, 4, 3)], {"kernel": (4, 3), "num_filter": 2, "stride": (2, 3), "pad": (1, 0)}),
        sample(
            [(2, 4, 3, 3), (4, 3, 3, 3), (6,)],
            {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "stride": (2, 2), "adj": (1, 1), "no_bias": False},
        ),
        sample([(1, 2, 5), (2, 3, 4)], {"kernel": (4,), "num_filter": 3, "stride": (2,), "pad": (1,)}),
        sample([(1, 2, 2, 3, 2), (2, 3, 2, 2, 2)], {"kernel": (2, 2, 2), "num_filter": 3, "stride": (2, 1, 2)}),
        sample([(1, 2, 4, 4), (2, 2, 3, 3)], {"kernel": (3, 3), "num_filter": 2, "dilate": (2, 2), "pad": (3, 1)}),
        sample(
            [(1, 3, 5, 5), (3, 4, 3, 3)], {"kernel": (3, 3), "num_filter": 4, "stride": (2, 2), "target_shape": (10, 8)}
        ),
        sample([(1, 4, 5, 3), (3, 2, 2, 4)], {"kernel": (2, 2), "num_filter": 4, "layout": "NHWC", "stride": (2, 2)}),
    ),
    output_names=("output",),
)
def deconvolution(b: Builder, p: Values, data: Node, weight: Node, bias: Node | None = None) -> Node:
    """The transpose of Convolution: each element of the data adds its filter to a window of the result.

    The weight is (channels, num_filter / num_group, *kernel).
    """
    shape = _check_data(p, data, "deconvolution")
    _check_groups(p, shape[1])
    _check_shape(weight, _deconv_weight(p, shape[1]))
    stride, dilate = steps_of(p, "stride", 1), steps_of(p, "dilate", 1)
    reach = [(k - 1) * s + 1 for k, s in zip(p.kernel, dilate, strict=True)]
    margins = _margins(p, shape[2:], reach, stride)
    for d, k, s, (pad, adj) in zip(shape[2:], reach, stride, margins, strict=True):
        if s * (d - 1) + k - 2 * pad + adj < 1:
            raise MXNetError(
                f"Check failed: the pad {pad} leaves nothing of the {s * (d - 1) + k} results along an axis"
            )
    if last(p.layout):
        data, weight = channels_first(b, data), channels_first(b, weight)
    y = b.conv(
        data,
        flip_weight(b, weight, p.num_group),
        stride=(1,) * len(stride),
        low=tuple(k - 1 - pad for k, (pad, _) in zip(reach, margins, strict=True)),
        high=tuple(k - 1 - pad + adj for k, (pad, adj) in zip(reach, margins, strict=True)),
        dilate=dilate,
        base_dilate=stride,
        groups=p.num_group,
    )
    return _with_bias(b, y, bias, p)


# -- windows


def windowed(
    b: Builder,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilate: Sequence[int],
    count: Sequence[int],
    pad: Sequence[int],
    value: Any = 0,
) -> Node:
    """The windows (*kernel, …, *count) over the last axes of x, which ``pad`` places lie before and any number behind."""
    n = len(kernel)
    lead = x.ndim - n
    need = [(t - 1) * s + (k - 1) * d + 1 for t, s, k, d in zip(count, stride, kernel, dilate, strict=True)]
    high = [max(0, e - lo - d) for e, lo, d in zip(need, pad, x.shape[lead:], strict=True)]
    if any(pad) or any(high):
        x = b.pad(x, low=(0,) * lead + tuple(pad), high=(0,) * lead + tuple(high), value=value)
    x = b.broadcast(b.reshape(x, (1,) * n + x.shape), (*kernel, *x.shape))
    return b.unfold(x, stride=tuple(stride), dilate=tuple(dilate), extent=tuple(count))


_COLUMNS: dict[str, Param] = {k: _CONV[k] for k in ("kernel", "stride", "dilate", "pad")}


def _counts(p: Values, spatial: Sequence[int]) -> list[int]:
    stride, dilate, pad = steps_of(p, "stride", 1), steps_of(p, "dilate", 1), steps_of(p, "pad", 0)
    counts = []
    for d, k, s, step, margin in zip(spatial, p.kernel, stride, dilate, pad, strict=True):
        reach, padded = (k - 1) * step + 1, d + 2 * margin
        if reach > padded:
            raise MXNetError(
                f"Check failed: dilated_kernel_size <= pad_size ({reach} vs. {padded}) : kernel size exceed input"
            )
        counts.append((padded - reach) // s + 1)
    return counts


@operator(
    "im2col",
    params=_COLUMNS,
    samples=(
        sample([(2, 2, 5, 6)], {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}),
        sample([(1, 2, 7)], {"kernel": (3,), "dilate": (2,)}),
        sample([(1, 2, 3, 4, 3)], {"kernel": (2, 2, 2)}),
    ),
    named=True,
    output_names=("output",),
)
def im2col(b: Builder, p: Values, data: Node) -> Node:
    """The windows of the data as columns: (N, C, *S) -> (N, C * window, number of windows)."""
    n = len(p.kernel)
    if data.ndim != n + 2:
        raise MXNetError(f"Check failed: dshape.ndim() == {n + 2} : Input data should be {n + 2}D, got {data.ndim}D")
    count = _counts(p, data.shape[2:])
    taken = windowed(
        b, data, p.kernel, steps_of(p, "stride", 1), steps_of(p, "dilate", 1), count, steps_of(p, "pad", 0)
    )
    columns = b.transpose(taken, (n, n + 1, *range(n), *range(n + 2, 2 * n + 2)))
    return b.reshape(columns, (data.shape[0], data.shape[1] * prod(p.kernel), prod(count)))


@operator(
    "col2im",
    params={"output_size": Shape(doc="spatial shape of the result"), **_COLUMNS},
    samples=(
        sample([(2, 12, 15)], {"output_size": (5, 6), "kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}),
        sample([(1, 6, 3)], {"output_size": (7,), "kernel": (3,), "dilate": (2,)}),
        sample([(1, 18, 9)], {"output_size": (5, 5), "kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ),
    named=True,
    output_names=("output",),
)
def col2im(b: Builder, p: Values, data: Node) -> Node:
    """The transpose of im2col: overlapping windows add up."""
    n, window = len(p.kernel), prod(p.kernel)
    if data.ndim != 3 or len(p.output_size) != n:
        raise MXNetError(f"Check failed: dshape.ndim() == 3 ({data.ndim} vs. 3) : Input data should be 3D")
    if window == 0 or data.shape[1] % window:
        raise MXNetError(
            f"Check failed: dshape[1] % param.kernel.Size() == 0 ({data.shape[1] % max(window, 1)} vs. 0) : "
            "the second dim of input shape should be multiples of kernel size"
        )
    count = _counts(p, p.output_size)
    if data.shape[2] != prod(count):
        raise MXNetError(
            f"Check failed: dshape[2] == out_dim ({data.shape[2]} vs. {prod(count)}) : "
            "output size does not match convolution parameters"
        )
    stride, dilate, pad = steps_of(p, "stride", 1), steps_of(p, "dilate", 1), steps_of(p, "pad", 0)
    batch, channels = data.shape[0], data.shape[1] // window
    parts = b.transpose(
        b.reshape(data, (batch, channels, *p.kernel, *count)), (*range(2, 2 + n), 0, 1, *range(2 + n, 2 + 2 * n))
    )
    padded = tuple(d + 2 * margin for d, margin in zip(p.output_size, pad, strict=True))
    y = b.sum(b.fold(parts, stride=stride, dilate=dilate, extent=padded), range(n))
    ends = tuple(margin + d for d, margin in zip(p.output_size, pad, strict=True))
    return b.slice(y, (0, 0, *pad), (batch, channels, *ends))

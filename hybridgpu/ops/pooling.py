# SPDX-License-Identifier: Apache-2.0
"""Pooling over windows, over everything, and to a given size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import DType, f32, i32, i64
from .conv import LAYOUTS, channels_first, channels_last, last, steps_of, windowed
from .elementwise import root_flat_at_zero
from .linear import need_float
from .params import Bool, Enum, Int, Ints, Param, Shape, Values
from .record import operator, sample, shape_text

_WORDS = {3: "3D in (batch, channel, x)", 4: "4D in (batch, channel, y, x)", 5: "5D in (batch, channel, d, y, x)"}

_POOL: dict[str, Param] = {
    "kernel": Shape((), "extents of the window: (w,), (h, w) or (d, h, w)"),
    "pool_type": Enum("max", "what a window becomes", choices=("avg", "lp", "max", "sum")),
    "global_pool": Bool(False, "one window over everything; kernel, stride and pad are ignored"),
    "cudnn_off": Bool(False, "accepted"),
    "pooling_convention": Enum(
        "valid", "windows that overrun the end: none (valid) or one (full)", choices=("full", "same", "valid")
    ),
    "stride": Shape((), "step between windows; () means 1"),
    "pad": Shape((), "places added at both ends; () means 0"),
    "p_value": Int(None, "the p of lp: 1, 2 or 3"),
    "count_include_pad": Bool(None, "an average counts the padding; None means True", optional=True),
    "layout": Enum(None, "order of the axes; None means channels first", choices=LAYOUTS),
}


def _workspace(p: Values) -> int:
    """MXNet's maximum keeps positions in a hidden second result."""
    return 2 if p.pool_type == "max" and p.kernel else 1


@operator(
    "Pooling _npx_pooling",
    params=_POOL,
    outputs=_workspace,
    visible=1,
    output_names=("output", "workspace"),
    samples=(
        *(
            sample([(2, 3, 7, 6)], {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 0), "pool_type": kind})
            for kind in ("max", "avg", "sum")
        ),
        *(
            sample(
                [(1, 2, 6, 7)], {"kernel": (3, 2), "stride": (2, 3), "pooling_convention": "full", "pool_type": kind}
            )
            for kind in ("max", "avg", "sum")
        ),
        sample(
            [(1, 2, 7, 7)],
            {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False},
        ),
        sample([(2, 3, 9)], {"kernel": (3,), "stride": (2,), "pooling_convention": "same"}),
        sample([(1, 2, 4, 5, 4)], {"kernel": (2, 3, 2), "stride": (2, 1, 2)}),
        sample([(2, 5, 6, 3)], {"kernel": (2, 2), "stride": (2, 2), "layout": "NHWC"}),
        sample([(2, 3, 4, 5)], {"global_pool": True, "pool_type": "avg"}),
        sample([(2, 3, 4, 5)], {"global_pool": True, "kernel": (1, 1)}),
        sample([(1, 2, 6)], {"kernel": (2,), "pool_type": "lp", "p_value": 1}),
        sample([(1, 2, 6)], {"kernel": (2,), "pool_type": "lp", "p_value": 3}),
        sample([(1, 2, 4, 4)], {"kernel": (2, 2), "pool_type": "lp", "p_value": 2}),
        sample([(0, 2, 4, 4)], {"kernel": (2, 2), "pool_type": "avg"}),
    ),
    named=True,
)
def pooling(b: Builder, p: Values, data: Node) -> Sequence[Node]:
    """Reduce windows: their maximum, average, sum, or the p-th root of their sum of p-th powers.

    The gradient of a maximum goes to the first of equal elements. A NaN makes its windows NaN.
    """
    need_float(data)
    rank = len(p.kernel)
    if not p.global_pool and rank not in (1, 2, 3):
        raise MXNetError(f"Check failed: param.kernel.ndim() == 3U ({rank} vs. 3) : {rank}D pooling not supported")
    if data.ndim not in _WORDS:
        raise MXNetError(
            f"Check failed: dshape.ndim() >= 3 ({data.ndim} vs. 3) : Input data should be  {' Or '.join(_WORDS.values())}"
        )
    if not p.global_pool and data.ndim != rank + 2:
        raise MXNetError(
            f"Check failed: dshape.ndim() == {rank + 2}U ({data.ndim} vs. {rank + 2}) : "
            f"Input data should be {_WORDS[rank + 2]}"
        )
    if p.layout is not None and len(p.layout) != data.ndim:
        raise MXNetError(f"Check failed: layout == {p.layout} : Need {data.ndim - 2}D layout")
    if p.pool_type == "lp" and p.p_value not in (1, 2, 3):
        if p.p_value is None:
            raise MXNetError("Check failed: param.p_value.has_value(): \nGive p_value=1, 2 or 3.")
        raise MXNetError(f"p value of {p.p_value} is not supported yet...")
    x = channels_first(b, data) if last(p.layout) else data
    y = _global(b, p, x) if p.global_pool else _pooled(b, p, x)
    y = channels_last(b, y) if last(p.layout) else y
    return [y, b.full((0,), 0, y.dtype)][: _workspace(p)]


def _global(b: Builder, p: Values, x: Node) -> Node:
    axes = tuple(range(2, x.ndim))
    y = _reduced(b, p, x, axes)
    if p.pool_type == "avg":
        y = y * (1 / max(1, prod(x.shape[2:])))
    return b.reshape(y, (*x.shape[:2], *(1,) * len(axes)))


def _pooled(b: Builder, p: Values, x: Node) -> Node:
    spatial, n = x.shape[2:], len(p.kernel)
    same = p.pooling_convention == "same"
    if same and n != 1:
        raise MXNetError(
            f"Check failed: dshape.ndim() == 3U ({x.ndim} vs. 3) : Input data should be {_WORDS[3]}. "
            "Currently 'same' supports Max Pooling 1-D"
        )
    if same and any(p.pad):
        raise MXNetError("Same pooling convention disables the use of pad parameter.")
    # programs give three zeros here, which MXNet demands of 'same' whatever the kernel
    stride, pad = _steps(p, "stride", 1), (0,) * n if same else _steps(p, "pad", 0)
    count = []
    for k, (d, size, step, margin) in enumerate(zip(spatial, p.kernel, stride, pad, strict=True)):
        if size > d + 2 * margin:
            raise MXNetError(
                f"Check failed: param.kernel[{k}] <= dshape_nchw[{k + 2}] + 2 * param.pad[{k}]: "
                f"kernel size ({size}) exceeds input ({d} padded to {d + 2 * margin})"
            )
        if margin >= size and x.dtype is f32 and p.pool_type in ("avg", "max"):  # other types and sums MXNet computes
            raise MXNetError(f"Check failed: pad_l[{k}] < kernel[{k}] ({margin} vs. {size}) : ")
        rest = d + 2 * margin - size
        count.append(1 + (rest if p.pooling_convention != "full" else rest + step - 1) // step)
    if same:
        count = [-(-spatial[0] // stride[0])]
    outside = float(x.dtype.finfo.min) if p.pool_type == "max" else 0
    windows = windowed(b, x, p.kernel, stride, (1,) * n, count, pad, outside)
    y = _reduced(b, p, windows, tuple(range(n)))
    return y * _shares(b, p, spatial, y.shape, stride, pad, y.dtype) if p.pool_type == "avg" else y


def _steps(p: Values, name: str, default: int) -> tuple[int, ...]:
    value: tuple[int, ...] = getattr(p, name)
    if value and min(value) < default:
        raise MXNetError(
            f"value {shape_text(value)}for Parameter {name} is invalid, the input shape must be nonzero in all dimensions"
        )
    return steps_of(p, name, default)


def _reduced(b: Builder, p: Values, x: Node, axes: tuple[int, ...]) -> Node:
    """Maximum, sum, or root of the sum of powers over ``axes``."""
    if p.pool_type == "max":
        return b.custom_gradient(b.reduce("amax", x, axes), x, rule="first_maximum", static=axes)
    if p.pool_type != "lp" or p.p_value == 1:
        return b.sum(x, axes)
    total = b.sum(x * x if p.p_value == 2 else x * x * x, axes)
    return root_flat_at_zero(b, b.sqrt if p.p_value == 2 else b.cbrt, total)


@gradient_rule("first_maximum")
def _first_maximum(b: Builder, g: Node, y: Node, inputs: Sequence[Node], axes: tuple[int, ...]) -> Sequence[Node]:
    """The whole gradient goes to the first of the elements that equal the maximum."""
    x = inputs[0]
    reduced_shape = tuple(1 if k in axes else d for k, d in enumerate(x.shape))
    position, step = None, 1
    for axis in reversed(axes):
        here = b.iota(x.shape, axis, i64) * step
        position = here if position is None else position + here
        step *= x.shape[axis]
    assert position is not None
    first = b.broadcast(b.reshape(b.argmax(x, axes=axes), reduced_shape), x.shape)
    return [b.select(b.eq(position, first), b.broadcast(b.reshape(g, reduced_shape), x.shape), b.full_like(x, 0))]


def _shares(
    b: Builder,
    p: Values,
    spatial: Sequence[int],
    shape: tuple[int, ...],
    stride: Sequence[int],
    pad: Sequence[int],
    dtype: DType,
) -> Any:
    """One over the number of elements that each average counts: a number if all are equal."""
    whole = p.count_include_pad is not False
    share: Any = 1.0
    for k, (d, size, step, margin) in enumerate(zip(spatial, p.kernel, stride, pad, strict=True)):
        axis = k + 2
        # the last window of the 'full' convention may overrun the padding, which never counts
        first, end = (-margin, d + margin) if whole else (0, d)
        if first == -margin and (shape[axis] - 1) * step - margin + size <= end:
            share = share * (1 / size)
            continue
        line = (*(1,) * axis, shape[axis], *(1,) * (len(shape) - axis - 1))
        start = b.iota(line, axis, i32) * step - margin
        counted = b.min(start + size, end) - b.max(start, first)
        share = 1 / b.cast(b.max(counted, 1), dtype) * share
    return share


@operator(
    "Pooling_v1",
    params={
        **{k: _POOL[k] for k in ("kernel", "pool_type", "global_pool", "pooling_convention", "stride", "pad")},
        "pool_type": Enum("max", "what a window becomes", choices=("avg", "max", "sum")),
        "pooling_convention": Enum("valid", "windows that overrun the end: none or one", choices=("full", "valid")),
    },
    samples=(
        *(
            sample(
                [(1, 2, 6, 7)], {"kernel": (3, 2), "stride": (2, 3), "pooling_convention": "full", "pool_type": kind}
            )
            for kind in ("max", "avg", "sum")
        ),
        sample([(2, 3, 4, 5)], {"global_pool": True, "pool_type": "avg"}),
        sample([(1, 2, 4, 5, 4)], {"kernel": (2, 3, 2), "pad": (1, 1, 1), "pool_type": "avg"}),
    ),
    named=True,
    output_names=("output",),
)
def pooling_v1(b: Builder, p: Values, data: Node) -> Node:
    """Pooling of two or three axes, as old model files have it.

    Averages divide by the size of the window wherever it is, and padding takes part in maxima as zeros.
    """
    if data.ndim not in (4, 5):
        raise MXNetError(
            f"Check failed: dshape.ndim() >= 4 ({data.ndim} vs. 4) : Input data should be {_WORDS[4]} Or {_WORDS[5]}"
            "\nWrite Pooling."
        )
    attributes = {**p.as_dict(), "pool_type": "sum" if p.pool_type == "avg" else p.pool_type}
    if p.pool_type == "max" and any(p.pad) and not p.global_pool:
        pad = (0, 0, *attributes.pop("pad"))
        data = b.pad(data, pad, pad, 0)
    y = pooling.build(b, pooling.parse(attributes), [data])[0]
    window = data.shape[2:] if p.global_pool else p.kernel
    return y * (1 / max(1, prod(window))) if p.pool_type == "avg" else y


# -- pooling to a size


def averaging(b: Builder, size: int, source: int, dtype: DType) -> Node:
    """(size, source): row i averages the elements from floor(i * source / size) to ceil((i + 1) * source / size)."""
    shape = (size, source)
    row, at = b.iota((size, 1), 0, i32), b.iota(shape, 1, i32)
    start = row * source / size
    end = ((row + 1) * source + (size - 1)) / size
    inside = b.logical_and(b.ge(at, b.broadcast(start, shape)), b.lt(at, b.broadcast(end, shape)))
    share = 1 / b.cast(end - start, dtype)
    return b.select(inside, b.broadcast(share, shape), b.full(shape, 0, dtype))


@operator(
    "_contrib_AdaptiveAvgPooling2D",
    params={"output_size": Ints((), "spatial shape of the result, one number for both; () means 1")},
    samples=(
        sample([(1, 2, 7, 5)], {"output_size": (3, 2)}),
        sample([(2, 3, 6, 4)], {"output_size": (3, 2)}),
        sample([(2, 3, 4, 5)]),
        sample([(1, 2, 3, 3)], {"output_size": 5}),
    ),
)
def adaptive_average(b: Builder, p: Values, data: Node) -> Node:
    """Averages over windows that cover the data with a given number of results."""
    need_float(data)
    if data.ndim != 4:
        raise MXNetError(
            f"Check failed: dshape.ndim() == 4 ({data.ndim} vs. 4) : Input data should be 4D in (batch, channel, y, x)"
        )
    output_size = p.output_size
    height, width = output_size if len(output_size) == 2 else (output_size * 2 if len(output_size) == 1 else (1, 1))
    if min(height, width) < 1:
        raise MXNetError(f"Check failed: output_size {shape_text(output_size)} must be positive")
    batch, channels, h, w = data.shape
    if h % height == 0 and w % width == 0:
        parts = b.reshape(data, (batch, channels, height, h // height, width, w // width))
        return b.mean(parts, (3, 5)) if h else b.full((batch, channels, height, width), 0, data.dtype)
    rows = b.dot(b.reshape(data, (batch * channels * h, w)), b.transpose(averaging(b, width, w, data.dtype), (1, 0)))
    rows = b.transpose(b.reshape(rows, (batch * channels, h, width)), (1, 0, 2))
    y = b.dot(averaging(b, height, h, data.dtype), b.reshape(rows, (h, batch * channels * width)))
    return b.reshape(
        b.transpose(b.reshape(y, (height, batch * channels, width)), (1, 0, 2)), (batch, channels, height, width)
    )

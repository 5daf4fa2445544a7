# SPDX-License-Identifier: Apache-2.0
"""Convolution over any number of spatial axes, general enough to contain its own derivatives.

``conv(x, w)`` with x (N, C, *S) and w (O, C / groups, *K) is::

    y[n, o, s] = sum over c, k of  X[n, c, s * stride + k * dilate] * w[o, c, k]

where X is x with ``base_dilate - 1`` zeros between neighbours, then ``low`` and ``high`` zeros at
its ends (negative: elements cut off). A transposed convolution is one with ``base_dilate``; the
derivative by x is the convolution of the cotangent with the flipped weight, and the derivative by w
that of x with the cotangent, batch and channels exchanged. So higher orders need nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from ...core.dtypes import f32
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS", "apply_epilogue", "exchanged_shapes", "flip_weight", "is_forward", "padded"]

_CHUNK = 4 << 20  #: bytes of unfolded windows at a time: they stay in the cache
_DEVICE_CHUNK = 128 << 20  #: on a GPU, where starting a product costs more than memory
_WIDE = 64  #: output positions from which a product a sample is wide enough for BLAS


def _span(extent: int, step: int) -> int:
    """The extent that ``extent`` positions ``step`` apart cover."""
    return (extent - 1) * step + 1 if extent else 0


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    x, w = types
    n, groups = x.ndim - 2, params["groups"]
    spans = [params[k] for k in ("stride", "low", "high", "dilate", "base_dilate")]
    fits = n >= 1 and w.ndim == x.ndim and all(len(s) == n for s in spans) and x.dtype is w.dtype
    if not fits or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups or not x.dtype.is_float:
        raise TypeError(f"conv of {x!r} and {w!r} with {dict(params)}")
    shape = []
    for d, k, stride, low, high, dilate, base in zip(x.shape[2:], w.shape[2:], *spans, strict=True):
        free = _span(d, base) + low + high - _span(k, dilate)
        if min(stride, dilate, base, k) < 1 or free < 0:
            raise TypeError(f"conv of {x!r} and {w!r}: the kernel exceeds the input, or a step is not positive")
        shape.append(free // stride + 1)
    return tensor_type((x.shape[0], w.shape[0], *shape), x.dtype)


def is_forward(w: Sequence[int], out: Sequence[int], params: Params) -> bool:
    """True for what a layer computes, by the shapes of weight and result: no transposed one, no derivative by a weight."""
    return max(params["base_dilate"]) == 1 and prod(w[2:]) <= prod(out[2:])


def _infer_affine(types: Sequence[TensorType], params: Params) -> TensorType:
    out = _infer(types[:2], params)
    bias, *residual = types[2:]
    expected = [out] if params["residual"] else []
    if bias.shape != out.shape[1:2] or bias.dtype is not out.dtype or residual != expected:
        raise TypeError(f"conv_bias_act adds {types[2:]!r} to {out!r}")
    return out


def apply_epilogue(xp: Any, y: Any, added: Sequence[Any], relu: bool) -> Any:
    """``y`` (N, O, *S) with a bias (O,) and, if there is one, an array of its shape added, and relu; in its own memory."""
    bias, *residual = added
    y += bias.reshape((-1, *(1,) * (y.ndim - 2)))
    for r in residual:
        y += r
    if relu:
        xp.maximum(y, 0, out=y)
    return y


def _evaluate_affine(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    x, w, *added = (a.astype(xp.float32) for a in inputs) if out.dtype.short == "f16" else inputs
    wide = tensor_type(out.shape, f32) if out.dtype.short == "f16" else out
    y = apply_epilogue(xp, _evaluate(xp, (x, w), params, wide), added, params["relu"])
    return y.astype(out.dtype.np, copy=False)


def exchanged_shapes(x: Sequence[int], y: Sequence[int], groups: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the operands of the conv that is the derivative by a weight, from x (N, C, *S) and y (N, O, *T)."""
    n, c, *size = x
    return (c // groups, groups * n, *size), (y[1], y[0], *y[2:])


def _exchanged_types(types: Sequence[TensorType], groups: int) -> list[TensorType]:
    return [tensor_type(s, types[0].dtype) for s in exchanged_shapes(types[0].shape, types[1].shape, groups)]


def _infer_weights(types: Sequence[TensorType], params: Params) -> TensorType:
    x, y = types
    if x.ndim != y.ndim or x.shape[0] != y.shape[0] or x.dtype is not y.dtype or x.shape[1] % params["groups"]:
        raise TypeError(f"conv_backward_filter of {x!r} and {y!r} with {dict(params)}")
    c, o, *k = _infer(_exchanged_types(types, params["groups"]), params).shape
    return tensor_type((o, c, *k), x.dtype)


def _evaluate_weights(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    x, y = inputs
    groups, (o, c, *k) = params["groups"], out.shape
    n = x.shape[0]
    parts = x.reshape((n, groups, -1, *x.shape[2:])).transpose((2, 1, 0, *range(3, x.ndim + 1)))
    operands = parts.reshape((-1, groups * n, *x.shape[2:])), y.swapaxes(0, 1)
    return _evaluate(xp, operands, params, tensor_type((c, o, *k), out.dtype)).swapaxes(0, 1)


def _flipped(w: Any, groups: int) -> Any:
    """The same as :func:`flip_weight`, of an array."""
    o, c, *k = w.shape
    back: tuple[slice, ...] = (slice(None), slice(None), *[slice(None, None, -1)] * len(k))
    w = w[back].reshape((groups, o // groups, c, *k))
    return w.swapaxes(1, 2).reshape((groups * c, o // groups, *k))


def _infer_data(types: Sequence[TensorType], params: Params) -> TensorType:
    y, w = types
    o, c, *k = w.shape
    groups = params["groups"]
    if o % groups or y.shape[1] != o:
        raise TypeError(f"conv_backward_data of {y!r} and {w!r} with {dict(params)}")
    return _infer([y, tensor_type((groups * c, o // groups, *k), w.dtype)], params)


def _evaluate_data(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    y, w = inputs
    return _evaluate(xp, (y, _flipped(w, params["groups"])), params, out)


def flip_weight(b: Builder, w: Node, groups: int) -> Node:
    """(O, C/g, *K) -> (C, O/g, *K) with the spatial axes reversed."""
    o, c, *k = w.shape
    w = b.reverse(w, axes=tuple(range(2, w.ndim)))
    if groups == 1:
        return b.transpose(w, (1, 0, *range(2, w.ndim)))
    w = b.reshape(w, (groups, o // groups, c, *k))
    return b.reshape(b.transpose(w, (0, 2, 1, *range(3, w.ndim))), (groups * c, o // groups, *k))


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    """The cotangents of data and weight, both convolutions again.

    That of the data takes strides as dilation of ``g`` and reversed kernels; that of the weight has batch and channels
    swapped, and the cotangent as its kernel.
    """
    x, w = inputs
    groups = params["groups"]
    names = ("stride", "low", "dilate", "base_dilate")
    back, forth = [], []
    for s, k, out, stride, low, dilate, base in zip(
        x.shape[2:], w.shape[2:], y.shape[2:], *(params[p] for p in names), strict=True
    ):
        source, kernel, result = _span(s, base), _span(k, dilate), _span(out, stride)
        back.append((kernel - 1 - low, source + low - result))
        forth.append((low, kernel - 1 + result - source - low))
    dx = b.conv(
        g,
        flip_weight(b, w, groups),
        stride=params["base_dilate"],
        low=tuple(lo for lo, _ in back),
        high=tuple(hi for _, hi in back),
        dilate=params["dilate"],
        base_dilate=params["stride"],
        groups=groups,
    )
    # batch and channels change places; groups of channels become groups of samples
    n, c = x.shape[:2]
    swap = (1, 0, *range(2, x.ndim))
    folded = b.transpose(x, swap)
    if groups > 1:
        apart = b.reshape(x, (n, groups, c // groups, *x.shape[2:]))
        folded = b.transpose(apart, (2, 1, 0, *range(3, x.ndim + 1)))
        folded = b.reshape(folded, (c // groups, groups * n, *x.shape[2:]))
    dw = b.conv(
        folded,
        b.transpose(g, swap),
        stride=params["dilate"],
        low=params["low"],
        high=tuple(hi for _, hi in forth),
        dilate=params["stride"],
        base_dilate=params["base_dilate"],
        groups=groups,
    )
    return [dx, b.transpose(dw, swap)]


# -- evaluation: windows unfolded chunk by chunk, then BLAS


def _chunk(xp: Any) -> int:
    return _CHUNK if xp is np else _DEVICE_CHUNK


def _inner(*ends: slice) -> tuple[slice, ...]:
    """An index of the spatial axes."""
    return (slice(None), slice(None), *ends)


def padded(xp: Any, x: Any, params: Params) -> Any:
    """x with zeros between (``base_dilate``) and around its elements (``low``, ``high``; negative: cut off).

    It is x itself, or a view of it, where no zeros are added.
    """
    low, high, base = params["low"], params["high"], params["base_dilate"]
    if any(s != 1 for s in base):
        spans = [_span(d, s) for d, s in zip(x.shape[2:], base, strict=True)]
        spread = xp.zeros((*x.shape[:2], *spans), x.dtype)
        spread[_inner(*(slice(None, None, s) for s in base))] = x
        x = spread
    cut = [slice(max(0, -lo), d - max(0, -hi)) for d, lo, hi in zip(x.shape[2:], low, high, strict=True)]
    x = x[_inner(*cut)]
    if max((*low, *high)) <= 0:
        return x
    shape = [d + max(lo, 0) + max(hi, 0) for d, lo, hi in zip(x.shape[2:], low, high, strict=True)]
    y = xp.zeros((*x.shape[:2], *shape), x.dtype)
    y[_inner(*(slice(max(lo, 0), max(lo, 0) + d) for lo, d in zip(low, x.shape[2:], strict=True)))] = x
    return y


def _phase(r: int, k: int, dilate: int, base: int, low: int) -> tuple[slice, int, int]:
    """The taps that meet elements, not zeros between them, at results r, r + base, …; their dilation and pad."""
    step = base // gcd(dilate, base)
    first = next((t for t in range(min(step, k)) if (r + t * dilate - low) % base == 0), None)
    if first is None:
        return slice(0, 0), 1, 0
    return slice(first, None, step), step * dilate // base, -((r + first * dilate - low) // base)


def _by_phases(xp: Any, x: Any, w: Any, params: Params, out: TensorType) -> Any:
    """Base dilation without multiplying zeros: results a base apart are a convolution with part of the weight."""
    y = xp.zeros(out.shape, out.dtype.np)
    base = params["base_dilate"]
    for r in _positions(base):
        spatial = [-(-(d - at) // step) for d, at, step in zip(out.shape[2:], r, base, strict=True)]
        columns = (r, w.shape[2:], params["dilate"], base, params["low"])
        taps, dilate, low = zip(*(_phase(*c) for c in zip(*columns, strict=True)), strict=True)
        part = w[_inner(*taps)]
        if not part.size or min(spatial) < 1:
            continue
        reach = [(k - 1) * d for k, d in zip(part.shape[2:], dilate, strict=True)]
        high = [t + k - lo - d for t, k, lo, d in zip(spatial, reach, low, x.shape[2:], strict=True)]
        plain = {**params, "low": low, "high": tuple(high), "dilate": dilate, "base_dilate": params["stride"]}
        type = tensor_type((*out.shape[:2], *spatial), out.dtype)
        y[_inner(*(slice(at, None, step) for at, step in zip(r, base, strict=True)))] = _evaluate(
            xp, (x, part), plain, type
        )
    return y


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """The convolution on arrays: by products of unfolded windows, with quicker ways for one position and depthwise.

    Half precision is computed in float32.
    """
    x, w = inputs
    if out.dtype.short == "f16":
        x, w = x.astype(xp.float32), w.astype(xp.float32)
    if max(params["base_dilate"]) > 1 and max(params["stride"]) == 1 and x.size:
        return _by_phases(xp, x, w, params, out)
    groups = params["groups"]
    n, o = out.shape[:2]
    spatial, kernel = out.shape[2:], w.shape[2:]
    channels = w.shape[1]
    x = padded(xp, x, params)
    y = xp.empty((n, groups, o // groups, prod(spatial)), x.dtype)
    depth = channels * prod(kernel)
    if not y.size or not depth:
        return xp.zeros(out.shape, out.dtype.np)
    if kernel == x.shape[2:]:  # one position: nothing to unfold
        rows = x.reshape((n, groups, depth)).swapaxes(0, 1)
        y = xp.matmul(rows, w.reshape((groups, o // groups, depth)).swapaxes(1, 2))
        return y.swapaxes(0, 1).reshape(out.shape).astype(out.dtype.np, copy=False)
    strides = x.strides
    windows = xp.lib.stride_tricks.as_strided(
        x,
        (n, groups, channels, *kernel, *spatial),
        (
            strides[0],
            strides[1] * channels,
            strides[1],
            *(s * d for s, d in zip(strides[2:], params["dilate"], strict=True)),
            *(s * d for s, d in zip(strides[2:], params["stride"], strict=True)),
        ),
    )
    if depth == prod(kernel) and o == groups:
        _depthwise(xp, windows, w.reshape((groups, *kernel)), y.reshape((n, groups, *spatial)))
    elif max(params["stride"]) == 1 and 2 * o * prod(x.shape[2:]) <= groups * channels * prod(spatial):
        _spread(xp, x, w, y.reshape((n, groups, o // groups, *spatial)), params["dilate"])
    else:
        _product(xp, windows, w.reshape((groups, o // groups, depth)), y, spatial, kernel)
    return y.reshape(out.shape).astype(out.dtype.np, copy=False)


def _depthwise(xp: Any, windows: Any, w: Any, y: Any) -> None:
    """One channel a group: a weighted sum of shifted planes."""
    rank = w.ndim - 1
    y[...] = 0
    for k in _positions(w.shape[1:]):
        tap: Any = (slice(None), slice(None), 0, *k)
        weight: Any = (slice(None), *k)
        y += windows[tap] * w[weight].reshape((1, -1) + (1,) * rank)


def _spread(xp: Any, x: Any, w: Any, y: Any, dilate: Sequence[int]) -> None:
    """Few output channels: what every element gives to each tap, then a sum of shifted planes.

    That copies products, which are fewer here than the elements of windows.
    """
    n, groups, outputs = y.shape[:3]
    kernel, spatial = w.shape[2:], y.shape[3:]
    taps = _positions(kernel)
    weights = w.reshape((groups, outputs, w.shape[1], len(taps))).transpose((0, 3, 1, 2))
    weights = weights.reshape((groups, len(taps) * outputs, w.shape[1]))
    flat = x.reshape((n, groups, w.shape[1], prod(x.shape[2:])))
    many = max(1, _chunk(xp) // max(1, groups * len(taps) * outputs * flat.shape[3] * x.itemsize))
    for at in range(0, n, many):
        part = xp.matmul(weights, flat[at : at + many])
        part = part.reshape((part.shape[0], groups, len(taps), outputs, *x.shape[2:]))
        total = y[at : at + many]
        for t, k in enumerate(taps):
            window = (slice(i * d, i * d + s) for i, d, s in zip(k, dilate, spatial, strict=True))
            at_tap: Any = (slice(None), slice(None), t, slice(None), *window)
            shifted = part[at_tap]
            if t:
                total += shifted
            else:
                total[...] = shifted


def _positions(shape: Sequence[int]) -> list[tuple[int, ...]]:
    positions: list[tuple[int, ...]] = [()]
    for d in shape:
        positions = [(*p, k) for p in positions for k in range(d)]
    return positions


def _product(xp: Any, windows: Any, w: Any, y: Any, spatial: Sequence[int], kernel: Sequence[int]) -> None:
    """Unfold ``windows`` (N, G, C/g, *K, *S) in chunks and multiply by w (G, O/g, C/g * K) into y (N, G, O/g, S)."""
    n, groups = windows.shape[:2]
    depth, positions, rank = w.shape[2], prod(spatial), len(spatial)
    sample = groups * depth * positions * windows.dtype.itemsize
    chunk = _chunk(xp)
    many = max(1, chunk // sample)
    if positions >= _WIDE and spatial[-1] >= kernel[-1]:
        # a product a sample writes its results where they belong
        if sample <= chunk or spatial[0] == 1:
            for at in range(0, n, many):
                unfolded = windows[at : at + many].reshape((-1, groups, depth, positions))
                xp.matmul(w, unfolded, out=y[at : at + many])
            return
        rows, inner = max(1, chunk * spatial[0] // sample), positions // spatial[0]
        for k in range(n):
            for row in range(0, spatial[0], rows):
                band: Any = (k, *(slice(None),) * (2 + rank), slice(row, row + rows))
                part = windows[band]
                xp.matmul(w, part.reshape((groups, depth, -1)), out=y[k, ..., row * inner : (row + rows) * inner])
        return
    # few positions: samples side by side; the longer of window and result is copied innermost
    axes = (*range(2, 3 + rank), 0, *range(3 + rank, 3 + 2 * rank))  # channel, kernel, sample, position
    by_kernel = spatial[-1] < kernel[-1]
    if by_kernel:
        axes = (0, *range(3 + rank, 3 + 2 * rank), *range(2, 3 + rank))
    for at in range(0, n, many):
        part = windows[at : at + many]
        count = part.shape[0] * positions
        unfolded = part.transpose((1, *axes)).reshape((groups, count, depth) if by_kernel else (groups, depth, count))
        product = xp.matmul(w, unfolded.swapaxes(1, 2) if by_kernel else unfolded)
        y[at : at + many] = product.reshape((groups, -1, part.shape[0], positions)).transpose(2, 0, 1, 3)


ROWS = [
    Primitive("conv", "conv", _infer, _evaluate, _vjp, doc="(N, C, *S) with (O, C / groups, *K)"),
    Primitive(
        "conv_bias_act",
        "conv",
        _infer_affine,
        _evaluate_affine,
        NO_DERIVATIVE,  # programs have none before derivatives are taken
        doc="a conv to whose channels O numbers are added, then an array if there is one, and relu if asked for: what "
        "libraries do in one step",
    ),
    Primitive(
        "conv_backward_filter",
        "conv",
        _infer_weights,
        _evaluate_weights,
        NO_DERIVATIVE,  # programs have none before derivatives are taken
        doc="(N, C, *S) and (N, O, *T) to (O, C / groups, *K): the derivative of a conv by its weight, a conv with batch and "
        "channels exchanged (whose parameters these are), of arrays as libraries take them",
    ),
    Primitive(
        "conv_backward_data",
        "conv",
        _infer_data,
        _evaluate_data,
        NO_DERIVATIVE,
        doc="(N, O, *T) and (O, C / groups, *K) to (N, C, *S): the derivative of a conv by its operand, a conv with the weight "
        "turned round and its channels exchanged (whose parameters these are), with the weight as libraries take it",
    ),
]

# SPDX-License-Identifier: Apache-2.0
"""Comparison of the windows of two images at all displacements in a square."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..ir.graph import Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]


def _displacements(params: Params) -> list[tuple[int, int]]:
    """Displacements of the second image along y and x, in the order of the result's channels."""
    radius = params["reach"] // params["step"]
    line = [k * params["step"] for k in range(-radius, radius + 1)]
    return [(y, x) for y in line for x in line]


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    one, two = types
    if one.ndim != 4 or one is not two:
        raise TypeError(f"correlation of {one!r} and {two!r}")
    return tensor_type((one.shape[0], len(_displacements(params)), *params["out"]), one.dtype)


def _infer_back(types: Sequence[TensorType], params: Params) -> TensorType:
    return types[1]


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _padded(xp: Any, x: Any, params: Params) -> Any:
    pad = params["pad"]
    return xp.pad(_wide(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)))


def _windows(params: Params) -> Iterator[tuple[int, Any, Any]]:
    """(channel, part of the first image, part of the second) for each displacement and element of a window."""
    reach, stride, (height, width) = params["reach"], params["stride"], params["out"]

    def part(y: int, x: int) -> Any:
        rows = slice(y, y + (height - 1) * stride + 1, stride)
        return (slice(None), slice(None), rows, slice(x, x + (width - 1) * stride + 1, stride))

    for channel, (dy, dx) in enumerate(_displacements(params)):
        for y in range(reach, reach + params["kernel"]):
            for x in range(reach, reach + params["kernel"]):
                yield channel, part(y, x), part(y + dy, x + dx)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    one, two = (_padded(xp, x, params) for x in inputs)
    y = xp.zeros(out.shape, one.dtype)
    for channel, here, there in _windows(params):
        pair = one[here] * two[there] if params["multiply"] else xp.abs(one[here] - two[there])
        y[:, channel] += pair.sum(axis=1)
    return (y / (params["kernel"] ** 2 * one.shape[1])).astype(out.dtype.np, copy=False)


def _sign(xp: Any, one: Any, two: Any) -> Any:
    """The derivative of |one - two| by ``one``; equal elements count as the first one being greater."""
    return xp.where(one >= two, 1, -1).astype(one.dtype)


def _evaluate_back(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    g = _wide(inputs[0]) / (params["kernel"] ** 2 * out.shape[1])
    one, two = (_padded(xp, x, params) for x in inputs[1:])
    y = xp.zeros_like(one)
    first = params["side"] == 0
    for channel, here, there in _windows(params):
        if params["multiply"]:
            factor = two[there] if first else one[here]
        else:
            factor = _sign(xp, one[here], two[there]) * (1 if first else -1)
        y[here if first else there] += g[:, channel, None] * factor
    pad, (height, width) = params["pad"], out.shape[2:]
    return y[:, :, pad : pad + height, pad : pad + width].astype(out.dtype.np, copy=False)


def _infer_slope(types: Sequence[TensorType], params: Params) -> TensorType:
    return _infer(types[1:], params)


def _evaluate_slope(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """The change of the mean absolute differences with one of the images."""
    change, one, two = (_padded(xp, x, params) for x in inputs)
    y = xp.zeros(out.shape, one.dtype)
    first = params["side"] == 0
    for channel, here, there in _windows(params):
        sign = _sign(xp, one[here], two[there])
        y[:, channel] += (sign * change[here] if first else -sign * change[there]).sum(axis=1)
    return (y / (params["kernel"] ** 2 * one.shape[1])).astype(out.dtype.np, copy=False)


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.correlation_back(g, *inputs, **params, side=side) for side in (0, 1)]


def _vjp_back(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    head, one, two = inputs
    side = params["side"]
    if not params["multiply"]:
        return [b.correlation_slope(g, one, two, **params), None, None]
    rest = {k: v for k, v in params.items() if k != "side"}
    pair = (g, two) if side == 0 else (one, g)  # linear in the other image
    other = b.correlation_back(head, *pair, **rest, side=1 - side)
    return [b.correlation(*pair, **rest), None, other] if side == 0 else [b.correlation(*pair, **rest), other, None]


def _vjp_slope(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.correlation_back(g, *inputs[1:], **params), None, None]


ROWS = [
    Primitive("correlation", "library", _infer, _evaluate, _vjp, doc="windows compared at all displacements"),
    Primitive("correlation_back", "library", _infer_back, _evaluate_back, _vjp_back, doc="derivative of correlation"),
    Primitive("correlation_slope", "library", _infer_slope, _evaluate_slope, _vjp_slope, doc="transpose of it"),
]

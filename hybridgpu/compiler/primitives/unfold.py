# SPDX-License-Identifier: Apache-2.0
"""Sliding windows as views.

``unfold`` takes an operand of shape (*K, …, *S), where K are the extents of a window, to
(*K, …, *T)::

    y[k, …, t] = x[k, …, t * stride + k * dilate]

so the windows of an array are ``unfold`` of its broadcast over the axes K, and a pooling is that
with a reduction over them. ``fold`` is the transpose: every element goes back where it came
from, what was in no window is 0. Window axes lead, so that reducing them adds up whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]


def _check(types: Sequence[TensorType], params: Params, sources: Sequence[int], targets: Sequence[int]) -> None:
    x, n = types[0], len(params["extent"])
    kernel = x.shape[:n]
    if x.ndim < 2 * n or len(params["stride"]) != n or len(params["dilate"]) != n:
        raise TypeError(f"windows of {x!r} with {dict(params)}")
    for s, t, k, stride, dilate in zip(sources, targets, kernel, params["stride"], params["dilate"], strict=True):
        if min(stride, dilate) < 1 or (t and k and (t - 1) * stride + (k - 1) * dilate >= s):
            raise TypeError(f"windows of {x!r} with {dict(params)} reach past the end")


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    x, extent = types[0], params["extent"]
    lead = x.ndim - len(extent)
    _check(types, params, x.shape[lead:], extent)
    return tensor_type((*x.shape[:lead], *extent), x.dtype)


def _infer_back(types: Sequence[TensorType], params: Params) -> TensorType:
    x, extent = types[0], params["extent"]
    lead = x.ndim - len(extent)
    _check(types, params, extent, x.shape[lead:])
    return tensor_type((*x.shape[:lead], *extent), x.dtype)


def _view(xp: Any, x: Any, shape: Sequence[int], params: Params) -> Any:
    """The elements of x that ``unfold`` to ``shape`` reads, without a copy."""
    n = len(params["stride"])
    lead = x.ndim - n
    inner = x.strides[lead:]
    outer = [s + d * i for s, d, i in zip(x.strides[:n], params["dilate"], inner, strict=True)]
    strides = (*outer, *x.strides[n:lead], *(s * i for s, i in zip(params["stride"], inner, strict=True)))
    return xp.lib.stride_tricks.as_strided(x, shape, strides)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return _view(xp, inputs[0], out.shape, params)


def _evaluate_back(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    y = xp.zeros(out.shape, out.dtype.np)
    _view(xp, y, inputs[0].shape, params)[...] = inputs[0]
    return y


def _spatial(x: Node, params: Params) -> tuple[int, ...]:
    return x.shape[x.ndim - len(params["extent"]) :]


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.fold(g, **{**params, "extent": _spatial(inputs[0], params)})]


def _vjp_back(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.unfold(g, **{**params, "extent": _spatial(inputs[0], params)})]


ROWS = [
    Primitive("unfold", "view", _infer, _evaluate, _vjp, doc="elements in reach of each window position"),
    Primitive("fold", "view", _infer_back, _evaluate_back, _vjp_back, doc="the transpose of windows"),
]

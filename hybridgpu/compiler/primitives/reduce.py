# SPDX-License-Identifier: Apache-2.0
"""Reductions: the named axes disappear. Sums and products of float16 and bfloat16 are float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...core.dtypes import f32, i64
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type
from .prepared import PreparedEvaluation

__all__ = ["ROWS"]


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    axes = params["axes"]
    if list(axes) != sorted(set(axes)) or not axes or not 0 <= axes[0] <= axes[-1] < types[0].ndim:
        raise TypeError(f"reduction over axes {axes} of {types[0]!r}")
    return tensor_type(tuple(d for i, d in enumerate(types[0].shape) if i not in axes), types[0].dtype)


def _infer_total(types: Sequence[TensorType], params: Params) -> TensorType:
    inferred = _infer(types, params)
    return tensor_type(inferred.shape, f32) if inferred.dtype.is_half else inferred


def _infer_arg(types: Sequence[TensorType], params: Params) -> TensorType:
    return tensor_type(_infer(types, params).shape, i64)


def _keep(b: Builder, x: Node, y: Node, axes: Sequence[int]) -> Node:
    """Broadcast a reduced value back over the reduced axes."""
    keepdims_shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    return b.broadcast(b.reshape(y, keepdims_shape), x.shape)


_PLANES = 32  #: elements of leading axes, at most, of which the planes are combined one by one
_BLOCK = 64  #: rows that are added one after the other
_UFUNC = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def _few_planes(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """True for reductions over a few leading axes, such as those of windows: whole planes are then combined."""
    count = prod(shape[: len(axes)])
    return axes[-1] == len(axes) - 1 and 1 < count <= _PLANES and prod(shape) >= 64 * count


def _by_planes(xp: Any, function: str, x: Any, axes: int, out: TensorType) -> Any:
    planes = [x[k] for k in np.ndindex(x.shape[:axes])]
    combine = getattr(xp, _UFUNC[function])
    total = combine(*planes[:2], dtype=out.dtype.np if function in ("sum", "prod") else None)
    for plane in planes[2:]:
        combine(total, plane, out=total)
    return total.astype(out.dtype.np, copy=False)


def _many_rows(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """True for sums over leading axes that NumPy adds up one after the other, which loses digits."""
    return axes == tuple(range(len(axes))) and len(axes) < len(shape) and prod(shape[: len(axes)]) >= 4 * _BLOCK


def _sum_by_blocks(x: Any, axes: int, dtype: Any) -> Any:
    """Sums of blocks, added up: the error grows with the root of the number of rows."""
    rows = x.reshape(-1, *x.shape[axes:])
    whole = len(rows) // _BLOCK * _BLOCK
    blocks = rows[:whole].reshape(-1, _BLOCK, *rows.shape[1:]).sum(axis=1, dtype=dtype)
    return blocks.sum(axis=0) + rows[whole:].sum(axis=0, dtype=dtype)


def _arg_by_planes(xp: Any, function: str, x: Any, axes: int, out: TensorType) -> Any:
    """The first extreme; NaN counts as one."""
    beats = xp.greater if function == "argmax" else xp.less
    at = xp.zeros(out.shape, out.dtype.np)
    best = None
    for number, k in enumerate(np.ndindex(x.shape[:axes])):
        plane = x[k]
        if best is None:
            best = plane.copy()
            continue
        better = beats(plane, best)
        if x.dtype.kind == "f":
            better |= xp.isnan(plane) & ~xp.isnan(best)
        at[better] = number
        xp.copyto(best, plane, where=better)
    return at


def _reduction(function: str) -> PreparedEvaluation:
    """The evaluation of a reduction by a function of the array module."""

    def prepare(xp: Any, shapes: Sequence[tuple[int, ...]], params: Params, out: TensorType) -> Callable[..., Any]:
        axes, (shape,) = params["axes"], shapes
        if _few_planes(shape, axes):
            return lambda x: _by_planes(xp, function, x, len(axes), out)
        adds = function in ("sum", "prod")
        if function == "sum" and xp is np and out.dtype.is_float and _many_rows(shape, axes):
            return lambda x: _sum_by_blocks(x, len(axes), out.dtype.np)
        if not adds and prod(shape) == 0:
            return lambda x: _of_nothing(xp, function == "max", out)
        if xp is np:
            axis = axes[0] if len(axes) == 1 else axes
            reduce = getattr(np, _UFUNC[function]).reduce
            return partial(reduce, axis=axis, dtype=out.dtype.np) if adds else partial(reduce, axis=axis)
        array_function = getattr(xp, function)
        return partial(array_function, axis=axes, dtype=out.dtype.np) if adds else partial(array_function, axis=axes)

    return PreparedEvaluation(prepare)


def _of_nothing(xp: Any, largest: bool, out: TensorType) -> Any:
    """The identity of an extreme: -inf for a maximum of nothing."""
    if out.dtype.is_float:
        value: Any = float("-inf") if largest else float("inf")
    else:
        limits = xp.iinfo(out.dtype.np) if out.dtype.is_integer else None
        value = (limits.min if largest else limits.max) if limits else not largest
    return xp.full(out.shape, value, out.dtype.np)


def _evaluate_arg(function: str) -> Any:
    def run(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
        x, axes = inputs[0], params["axes"]
        rest = [i for i in range(x.ndim) if i not in axes]
        if x.size == 0:
            return xp.zeros(out.shape, out.dtype.np)
        if _few_planes(x.shape, axes):
            return _arg_by_planes(xp, function, x, len(axes), out)
        flat = xp.transpose(x, (*rest, *axes)).reshape((*out.shape, -1))
        return getattr(xp, function)(flat, axis=-1).astype(out.dtype.np)

    return run


def _narrowed(b: Builder, g: Node, x: Node) -> Node:
    """``g`` in the type of ``x``."""
    return g if g.dtype is x.dtype else b.round_to(g, x.dtype)


def _vjp_sum(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [_keep(b, inputs[0], _narrowed(b, g, inputs[0]), params["axes"])]


def _vjp_prod(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    x = inputs[0]
    return [_keep(b, x, _narrowed(b, g * y, x), params["axes"]) / x]


def _vjp_extreme(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    """Every entry that ties for the extreme gets the whole gradient, as in MXNet."""
    x, axes = inputs[0], params["axes"]
    return [b.select(b.eq(x, _keep(b, x, y, axes)), _keep(b, x, g, axes), b.full_like(x, 0))]


ROWS = [
    Primitive("sum", "reduce", _infer_total, _reduction("sum"), _vjp_sum, doc="sum over axes"),
    Primitive("prod", "reduce", _infer_total, _reduction("prod"), _vjp_prod, doc="product over axes"),
    Primitive("amax", "reduce", _infer, _reduction("max"), _vjp_extreme, doc="maximum over axes; NaN wins"),
    Primitive("amin", "reduce", _infer, _reduction("min"), _vjp_extreme, doc="minimum over axes; NaN wins"),
    Primitive("argmax", "reduce", _infer_arg, _evaluate_arg("argmax"), NO_DERIVATIVE, doc="index of the first maximum"),
    Primitive("argmin", "reduce", _infer_arg, _evaluate_arg("argmin"), NO_DERIVATIVE, doc="index of the first minimum"),
]

# SPDX-License-Identifier: Apache-2.0
"""Leaves, views and joins in memory: primitives that move no arithmetic.

In a fused kernel a view is only an index expression (``ir/indexing``); it costs memory
traffic solely where something outside a kernel needs its elements side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from operator import methodcaller
from typing import Any

from ...core.dtypes import f32
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type
from .prepared import PreparedEvaluation

__all__ = ["PERMUTING_VIEWS", "RESHAPES", "ROWS", "SIMPLE_VIEWS", "strip_views"]

#: views that arrange, repeat, leave out or narrow elements of one array, without overlaps as those of windows
SIMPLE_VIEWS = ("reshape", "broadcast", "transpose", "slice", "reverse", "round_to")
PERMUTING_VIEWS = ("reshape", "transpose", "reverse")  #: views that arrange all elements of the array behind them anew
RESHAPES = ("reshape",)  #: views that share memory with the array behind them, in the same order


def strip_views(node: Node, views: Collection[str] | None = None) -> Node:
    """The node that ``node`` is a view of: the first one behind it that is none of ``views`` (of any of one array)."""
    while node.prim.family == "view" and (len(node.inputs) == 1 if views is None else node.prim.name in views):
        node = node.inputs[0]
    return node


def _infer_leaf(types: Sequence[TensorType], params: Params) -> TensorType:
    out: TensorType = params["type"]
    return out


def _evaluate_iota(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    axis = params["axis"]
    line = xp.arange(out.shape[axis]).astype(out.dtype.np)
    return xp.broadcast_to(line.reshape((-1,) + (1,) * (out.ndim - axis - 1)), out.shape)


def _evaluate_input(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    raise AssertionError("graph inputs are bound, not evaluated")


# -- reshape, broadcast, transpose, reverse


def _infer_reshape(types: Sequence[TensorType], params: Params) -> TensorType:
    if prod(params["shape"]) != types[0].size:
        raise TypeError(f"cannot reshape {types[0]!r} to {params['shape']}")
    return tensor_type(params["shape"], types[0].dtype)


def _infer_broadcast(types: Sequence[TensorType], params: Params) -> TensorType:
    source, shape = types[0].shape, params["shape"]
    if len(source) != len(shape) or any(s not in (1, d) for s, d in zip(source, shape, strict=True)):
        raise TypeError(f"cannot broadcast {types[0]!r} to {shape}")
    return tensor_type(shape, types[0].dtype)


def _vjp_broadcast(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    x = inputs[0]
    axes = [i for i, (s, d) in enumerate(zip(x.shape, y.shape, strict=True)) if s != d]
    return [b.sum(g, axes, keepdims=True)]


def _infer_transpose(types: Sequence[TensorType], params: Params) -> TensorType:
    perm = params["perm"]
    if sorted(perm) != list(range(types[0].ndim)):
        raise TypeError(f"{perm} is no permutation of the axes of {types[0]!r}")
    return tensor_type(tuple(types[0].shape[p] for p in perm), types[0].dtype)


def _vjp_transpose(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    perm = params["perm"]
    return [b.transpose(g, [perm.index(i) for i in range(len(perm))])]


def _evaluate_reverse(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return xp.flip(inputs[0], params["axes"])


# -- narrow


def _infer_narrow(types: Sequence[TensorType], params: Params) -> TensorType:
    if types[0].dtype is not f32 or not params["dtype"].is_half:
        raise TypeError(f"cannot narrow {types[0]!r} to {params['dtype']}")
    return tensor_type(types[0].shape, params["dtype"])


# -- slice, pad, concat


def _infer_slice(types: Sequence[TensorType], params: Params) -> TensorType:
    shape = []
    for extent, begin, end, step in zip(types[0].shape, params["begin"], params["end"], params["step"], strict=True):
        if not 0 <= begin <= end <= extent or step < 1:
            raise TypeError(f"slice {begin}:{end}:{step} of an axis of {extent}")
        shape.append(-(-(end - begin) // step))
    return tensor_type(tuple(shape), types[0].dtype)


def _evaluate_slice(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return inputs[0][tuple(map(slice, params["begin"], params["end"], params["step"]))]


def _vjp_slice(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    x = inputs[0]
    steps = params["step"]
    if any(s != 1 for s in steps):
        g = _dilate(b, g, steps)
    low = params["begin"]
    high = tuple(d - lo - e for d, lo, e in zip(x.shape, low, g.shape, strict=True))
    if any(h < 0 for h in high):  # the dilated tail runs past the end: cut it
        g = b.slice(g, (0,) * g.ndim, tuple(min(e, e + h) for e, h in zip(g.shape, high, strict=True)))
        high = tuple(max(h, 0) for h in high)
    return [b.pad(g, low=low, high=high, value=0)]


def _dilate(b: Builder, x: Node, steps: Sequence[int]) -> Node:
    """Insert ``step - 1`` zeros after every element of each axis."""
    for axis, step in enumerate(steps):
        if step == 1:
            continue
        shape = x.shape
        split = b.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        high = tuple(step - 1 if i == axis + 1 else 0 for i in range(split.ndim))
        split = b.pad(split, low=(0,) * split.ndim, high=high, value=0)
        x = b.reshape(split, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
    return x


def _infer_pad(types: Sequence[TensorType], params: Params) -> TensorType:
    low, high = params["low"], params["high"]
    if len(low) != types[0].ndim or len(high) != types[0].ndim or min((*low, *high), default=0) < 0:
        raise TypeError(f"pad {low} {high} of {types[0]!r}")
    return tensor_type(tuple(lo + d + hi for d, lo, hi in zip(types[0].shape, low, high, strict=True)), types[0].dtype)


def _evaluate_pad(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    y = xp.full(out.shape, params["value"], out.dtype.np)
    y[tuple(slice(lo, lo + d) for lo, d in zip(params["low"], inputs[0].shape, strict=True))] = inputs[0]
    return y


def _vjp_pad(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    low = params["low"]
    return [b.slice(g, low, tuple(lo + d for lo, d in zip(low, inputs[0].shape, strict=True)))]


def _infer_concat(types: Sequence[TensorType], params: Params) -> TensorType:
    axis, first = params["axis"], types[0]
    for t in types:
        same = t.shape[:axis] == first.shape[:axis] and t.shape[axis + 1 :] == first.shape[axis + 1 :]
        if t.dtype is not first.dtype or not same or t.ndim != first.ndim:
            raise TypeError(f"cannot join {first!r} and {t!r} along axis {axis}")
    extent = sum(t.shape[axis] for t in types)
    return tensor_type((*first.shape[:axis], extent, *first.shape[axis + 1 :]), first.dtype)


def _vjp_concat(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    axis, at, out = params["axis"], 0, []
    for x in inputs:
        out.append(b.slice_axis(g, axis, at, at + x.shape[axis]))
        at += x.shape[axis]
    return out


ROWS = [
    Primitive("input", "leaf", _infer_leaf, _evaluate_input, NO_DERIVATIVE, doc="an argument of the graph"),
    Primitive(
        "full",
        "leaf",
        _infer_leaf,
        lambda xp, inputs, params, out: xp.full(out.shape, params["value"], out.dtype.np),
        NO_DERIVATIVE,
        doc="one value everywhere",
    ),
    Primitive("iota", "leaf", _infer_leaf, _evaluate_iota, NO_DERIVATIVE, doc="the index along an axis"),
    Primitive(
        "reshape",
        "view",
        _infer_reshape,
        PreparedEvaluation(
            lambda xp, shapes, params, out: methodcaller("reshape", out.shape)
        ),  # faster than functions of xp
        lambda b, g, y, inputs, params: [b.reshape(g, inputs[0].shape)],
        doc="the same elements in row-major order under another shape",
    ),
    Primitive(
        "broadcast",
        "view",
        _infer_broadcast,
        lambda xp, inputs, params, out: xp.broadcast_to(inputs[0], out.shape),
        _vjp_broadcast,
        doc="repeat axes of extent 1",
    ),
    Primitive(
        "transpose",
        "view",
        _infer_transpose,
        PreparedEvaluation(lambda xp, shapes, params, out: methodcaller("transpose", params["perm"])),
        _vjp_transpose,
        doc="permute the axes",
    ),
    Primitive(
        "reverse",
        "view",
        lambda types, params: types[0],
        _evaluate_reverse,
        lambda b, g, y, inputs, params: [b.reverse(g, axes=params["axes"])],
        doc="reverse the order along axes",
    ),
    Primitive("slice", "view", _infer_slice, _evaluate_slice, _vjp_slice, doc="a box of the operand, with steps"),
    Primitive("pad", "view", _infer_pad, _evaluate_pad, _vjp_pad, doc="surround with a constant", allocates=True),
    Primitive(
        "concat",
        "view",
        _infer_concat,
        lambda xp, inputs, params, out: xp.concatenate(inputs, params["axis"]),
        _vjp_concat,
        doc="join along an axis",
        allocates=True,
    ),
    Primitive(
        "concat_buffer",
        "memory",
        _infer_concat,
        lambda xp, inputs, params, out: xp.concatenate(inputs, params["axis"]),
        _vjp_concat,
        doc="memory whose parts along an axis the operands are written to (passes/concat/inplace_concat.py)",
    ),
    Primitive(
        "round_to",
        "view",
        _infer_narrow,
        lambda xp, inputs, params, out: inputs[0].astype(out.dtype.np),
        lambda b, g, y, inputs, params: [b.cast(g, f32)],
        doc="float32 as a type of two bytes, rounded where it is stored (a cast rounds at once)",
    ),
]

# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..hints.op_errors import refusal
from .params import Bool, Enum, Int, Param, Values
from .record import operator, sample, shape_text, tuple_text

_STYPE = Enum(None, "kept for compatibility", choices=("csr", "default", "row_sparse"))
_TRANSPOSE: dict[str, Param] = {
    "transpose_a": Bool(False, "use lhs transposed"),
    "transpose_b": Bool(False, "use rhs transposed"),
    "forward_stype": _STYPE,
}


def need_float(x: Node) -> None:
    """Raise MXNet's error for integer operands of a network operator."""
    if not x.dtype.is_float:
        raise refusal(
            f"This operation only support floating point types, not {x.dtype.name}",
            f"Cast {x.dtype.name} data first: x.astype('float32').",
            types=True,
        )


def _product_of(x: Node, y: Node, axis: int) -> str:
    """What to write where the last axis of ``x`` and ``axis`` of ``y`` are not of one length."""
    return (
        f"The sum goes over the last axis of lhs and the {'first' if axis == 0 else 'last but one'} of rhs, which have "
        f"{x.shape[-1]} and {y.shape[axis]} elements: transpose one, by transpose_a=True or transpose_b=True, or reshape it."
    )


@operator(
    "dot",
    "lhs rhs",
    params=dict(_TRANSPOSE),
    method="",
    samples=(
        sample([(3, 4), (4, 5)]),
        sample([(4, 3), (5, 4)], {"transpose_a": True, "transpose_b": True}),
        sample([(2, 3, 4), (4, 5, 2)]),
        sample([(7,), (7,)]),
        sample([(1, 1), (1, 1)]),
        sample([(0, 4), (4, 5)]),
        sample([(3, 0), (0, 5)]),
        sample([(33, 65), (65, 17)], {"transpose_b": False}),
    ),
)
def dot(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
    """Sum over the last axis of lhs and the first of rhs; transposing moves the other end there."""
    need_float(lhs)
    x, y = lhs, rhs
    if p.transpose_a and x.ndim > 1:
        x = b.transpose(x, [*range(1, x.ndim), 0])
    if p.transpose_b and y.ndim > 1:
        y = b.transpose(y, [y.ndim - 1, *range(y.ndim - 1)])
    if x.ndim == 0 or y.ndim == 0 or x.shape[-1] != y.shape[0]:
        text = f"Check failed: dot shape error: {shape_text(lhs.shape)} X {shape_text(rhs.shape)}"
        raise refusal(text, _product_of(x, y, 0) if x.ndim and y.ndim else "")
    shape = (*x.shape[:-1], *y.shape[1:])
    product = b.dot(b.reshape(x, (prod(x.shape[:-1]), x.shape[-1])), b.reshape(y, (y.shape[0], prod(y.shape[1:]))))
    return b.reshape(product, shape or (1,))


@operator(
    "batch_dot _npx_batch_dot",
    "lhs rhs",
    params=dict(_TRANSPOSE),
    samples=(
        sample([(2, 3, 4), (2, 4, 5)]),
        sample([(2, 4, 3), (2, 5, 4)], {"transpose_a": True, "transpose_b": True}),
        sample([(2, 2, 3, 4), (2, 2, 4, 1)]),
        sample([(1, 1, 1), (1, 1, 1)]),
        sample([(0, 3, 4), (0, 4, 5)]),
    ),
)
def batch_dot(b: Builder, p: Values, lhs: Node, rhs: Node) -> Node:
    """Matrix products of the last two axes, one for each index of the others."""
    need_float(lhs)
    if lhs.ndim < 3 or lhs.ndim != rhs.ndim:
        raise MXNetError(
            "batch_dot currently only support N-D*N-D array (N >= 3)"
            f"{shape_text(lhs.shape)} v.s. {shape_text(rhs.shape)}"
        )
    shapes = f"{shape_text(lhs.shape)} X {shape_text(rhs.shape)} trans_a={p.transpose_a:d} trans_b={p.transpose_b:d}"
    if lhs.shape[:-2] != rhs.shape[:-2]:
        raise MXNetError(f"Check failed: batch_dot shape error (the leading batch dimensions must be equal): {shapes}")
    axes = list(range(lhs.ndim))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    x = b.transpose(lhs, axes) if p.transpose_a else lhs
    y = b.transpose(rhs, axes) if p.transpose_b else rhs
    if x.shape[-1] != y.shape[-2]:
        text = f"Check failed: batch_dot shape error (shape mismatch): {shapes}"
        raise refusal(text, _product_of(x, y, -2))
    return b.dot(x, y)


def _dense_inputs(p: Values) -> list[str]:
    return ["data", "weight"] if p.no_bias else ["data", "weight", "bias"]


def _dense_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    depth = None if data is None else prod(data[1:]) if p.flatten else data[-1]
    weight = (p.num_hidden, depth) if depth is not None else shapes[1]
    return [data, weight, (p.num_hidden,)][: len(shapes)]


@operator(
    "FullyConnected _npx_fully_connected",
    "data weight bias",
    params={
        "num_hidden": Int(doc="number of results", low=1),
        "no_bias": Bool(False, "there is no bias"),
        "flatten": Bool(True, "fold all axes but the first; else only the last one is contracted"),
    },
    optional=_dense_inputs,
    infer_inputs=_dense_shapes,
    samples=(
        sample([(3, 4), (5, 4), (5,)], {"num_hidden": 5}),
        sample([(2, 3, 4), (5, 12)], {"num_hidden": 5, "no_bias": True}),
        sample([(2, 3, 4), (5, 4), (5,)], {"num_hidden": 5, "flatten": False}),
        sample([(1, 65), (33, 65), (33,)], {"num_hidden": 33}),
        sample([(1, 1), (1, 1), (1,)], {"num_hidden": 1}),
        sample([(0, 4), (5, 4), (5,)], {"num_hidden": 5}),
    ),
    output_names=("output",),
)
def fully_connected(b: Builder, p: Values, data: Node, weight: Node, bias: Node | None = None) -> Node:
    """data * weight^T + bias, weight of shape (num_hidden, inputs)."""
    need_float(data)
    depth = prod(data.shape[1:]) if p.flatten else data.shape[-1]
    if weight.shape != (p.num_hidden, depth):
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(weight.shape)}, inferred shape={tuple_text((p.num_hidden, depth))}"
        )
    if bias is not None and bias.shape != (p.num_hidden,):
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(bias.shape)}, inferred shape={tuple_text((p.num_hidden,))}"
        )
    lead = data.shape[:1] if p.flatten else data.shape[:-1]
    y = b.dot(b.reshape(data, (prod(lead), depth)), b.transpose(weight, (1, 0)))
    if bias is not None:
        y = y + b.reshape(bias, (1, p.num_hidden))
    return b.reshape(y, (*lead, p.num_hidden))

# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Leading axes are batch axes; half precision accumulates in float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type
from .linalg import swap
from .prepared import PreparedEvaluation

__all__ = ["ROWS"]


def _infer_dot(types: Sequence[TensorType], params: Params) -> TensorType:
    x, w = types
    batch = x.shape[:-2]
    if x.ndim < 2 or x.ndim != w.ndim or x.dtype is not w.dtype or w.shape[:-2] != batch or x.shape[-1] != w.shape[-2]:
        raise TypeError(f"dot of {x!r} and {w!r}")
    return tensor_type((*batch, x.shape[-2], w.shape[-1]), x.dtype)


def _prepare_dot(xp: Any, shapes: Sequence[tuple[int, ...]], params: Params, out: TensorType) -> Callable[..., Any]:
    if out.dtype.short == "f16":
        return lambda x, w: xp.matmul(x.astype(xp.float32), w.astype(xp.float32)).astype(out.dtype.np)
    return xp.matmul  # type: ignore[no-any-return]


def _infer_affine(types: Sequence[TensorType], params: Params) -> TensorType:
    out = _infer_dot(types[:2], params)
    if types[2].shape != out.shape[-1:] or types[2].dtype is not out.dtype:
        raise TypeError(f"affine adds {types[2]!r} to {out!r}")
    return out


def _evaluate_affine(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    x, w, bias = (a.astype(xp.float32) for a in inputs) if out.dtype.short == "f16" else inputs
    y = xp.matmul(x, w)
    y += bias
    if params["relu"]:
        xp.maximum(y, 0, out=y)
    return y.astype(out.dtype.np, copy=False)


def _vjp_dot(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    x, w = inputs
    return [b.dot(g, swap(b, w)), b.dot(swap(b, x), g)]


ROWS = [
    Primitive(
        "dot",
        "contract",
        _infer_dot,
        PreparedEvaluation(_prepare_dot),
        _vjp_dot,
        doc="(…, m, k) times (…, k, n)",
    ),
    Primitive(
        "gemm_bias",
        "contract",
        _infer_affine,
        _evaluate_affine,
        NO_DERIVATIVE,  # programs have none before derivatives are taken
        doc="a dot to whose rows one of n numbers is added, and relu if asked for: what libraries do in one step",
    ),
]

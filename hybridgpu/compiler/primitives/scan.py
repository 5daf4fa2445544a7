# SPDX-License-Identifier: Apache-2.0
"""Running totals along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Builder, Node, Params, Primitive
from ..ir.types import TensorType

__all__ = ["ROWS"]


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if not 0 <= params["axis"] < types[0].ndim:
        raise TypeError(f"cumsum of {types[0]!r} along axis {params['axis']}")
    return types[0]


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return xp.cumsum(inputs[0], axis=params["axis"], dtype=out.dtype.np)


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    axes = (params["axis"],)
    return [b.reverse(b.cumsum(b.reverse(g, axes=axes), axis=params["axis"]), axes=axes)]


ROWS = [Primitive("cumsum", "scan", _infer, _evaluate, _vjp, doc="running sum along an axis")]

# SPDX-License-Identifier: Apache-2.0
"""Evaluations in two steps, of which the first looks at types and parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.graph import Params
from ..ir.types import TensorType

__all__ = ["PreparedEvaluation"]

_Prepare = Callable[[Any, Sequence[tuple[int, ...]], Params, TensorType], Callable[..., Any]]


class PreparedEvaluation:
    """An evaluation that is a function of the arrays alone once it is prepared (see ``Primitive.evaluate``).

    Args:
        prepare: (xp, shapes of inputs, params, output type) -> that function; reference.py calls it once for each node.
    """

    def __init__(self, prepare: _Prepare) -> None:
        self.prepare = prepare

    def __call__(self, xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
        return self.prepare(xp, [x.shape for x in inputs], params, out)(*inputs)

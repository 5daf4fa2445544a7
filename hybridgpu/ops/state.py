# SPDX-License-Identifier: Apache-2.0
"""Writing into an array that outlives a call, as part of a graph."""

from __future__ import annotations

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from .params import Values
from .record import operator, sample, shape_text

__all__: list[str] = []


@operator(
    "_write_state",
    "data state value",
    dtypes="TSS",
    mutates={1: 1},
    no_gradient=("state", "value"),
    samples=(sample([(2, 3), (4,), (4,)]), sample([(2,), (2, 2), (2, 2)])),
)
def write_state(b: Builder, p: Values, data: Node, state: Node, value: Node) -> tuple[Node, Node]:
    """``data`` as it is; with the call ``state`` takes the values of ``value``.

    A traced function that writes into an argument, a parameter or an array from outside has one for each.
    """
    if state.shape != value.shape:
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(value.shape)}, inferred shape={shape_text(state.shape)}"
        )
    return b.copy(data), b.stop_gradient(value)

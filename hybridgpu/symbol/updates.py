# SPDX-License-Identifier: Apache-2.0
"""``sym.contrib``'s updates of weights; states must be variables, which a run of the graph changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import OPERATORS
from ..ops.record import Operator
from ..ops.update_functions import make_adamw
from .node_factory import make_node
from .symbol import Symbol

__all__ = ["adamw_update", "mp_adamw_update"]


def _node(op: Operator, inputs: Sequence[Symbol], factor: Any, attributes: dict[str, Any]) -> Symbol:
    """A node; ``out`` is ignored, since a Symbol's results go where its graph is bound."""
    if not isinstance(factor, Symbol):
        value = {"shape": (1,), "dtype": "float32", "value": float(factor)}
        factor = make_node(OPERATORS["_full"], "_full", [], value, None, None)
    attributes.pop("out", None)
    name, attr = attributes.pop("name", None), attributes.pop("attr", None)
    return make_node(op, op.name, [*inputs, factor], attributes, name, attr)


_made = make_adamw(_node)
adamw_update, mp_adamw_update = _made["adamw_update"], _made["mp_adamw_update"]

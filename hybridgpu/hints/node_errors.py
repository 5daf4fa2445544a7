# SPDX-License-Identifier: Apache-2.0
"""Errors of nodes: MXNet's words, the operands with their names, what to write instead, who made the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base import MXNetError
from ..ops import OPERATORS
from .op_errors import Given, add_details, hand_on, shape_of

if TYPE_CHECKING:
    from ..symbol.node import SymbolNode

__all__ = ["node_error", "origin", "origin_of_input"]


def origin(node: SymbolNode) -> str:
    """Where in the user's program a node was made, for the end of a message."""
    where = ", ".join(p for p in (f"block {node.block}" if node.block else "", node.line) if p)
    return f"\n(made in {where})" if where else ""


def origin_of_input(order: Sequence[SymbolNode], name: str) -> str:
    """Where the first node was made that takes a variable."""
    takes = (n for n in order if any(source.op is None and source.name == name for source, _ in n.inputs))
    return origin(next(takes, order[-1]))


def node_error(node: SymbolNode, error: MXNetError, given: Sequence[Given]) -> MXNetError:
    """The error for a node that refuses its inputs, of which so much is known."""
    assert node.op is not None
    op, values = node.op, node.values
    names = []
    for key, (source, _) in zip(op.input_names(values, len(given)), node.inputs, strict=False):
        own = source.op is None and source.name != key  # a variable: parameters are known by their names
        names.append(f"{key} {source.name}" if own else key)
    details = add_details(error, op, values, names, given)
    words = f"Error in operator {node.name}: {error}{details}{_no_broadcast(node, given)}{origin(node)}"
    return hand_on(error, MXNetError(words))


def _no_broadcast(node: SymbolNode, given: Sequence[Given]) -> str:
    """What to write instead of an operator that needs equal shapes, where there is one that broadcasts."""
    assert node.op is not None
    name = f"broadcast_{node.op.name.removeprefix('elemwise_').lstrip('_')}"
    if len(given) != 2 or shape_of(given[0]) == shape_of(given[1]) or name not in OPERATORS:
        return ""
    return f"\nBetween Symbols, {node.op.name} does not broadcast (nor do Python's operators): write F.{name}."

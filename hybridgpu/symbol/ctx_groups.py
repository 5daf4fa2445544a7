# SPDX-License-Identifier: Apache-2.0
"""Context groups: devices of a Symbol's variables and results (``AttrScope(ctx_group=…)``, ``group2ctx``)."""

from __future__ import annotations

from collections.abc import Mapping

from ..base import MXNetError
from ..context import Context
from .node import SymbolNode, topological
from .symbol import Symbol

__all__ = ["head_contexts", "variable_contexts"]

_KEY = "__ctx_group__"


def _group(node: SymbolNode, groups: Mapping[str, Context]) -> Context | None:
    """The device of a node's own group; None without a group.

    Raises:
        MXNetError: a group that has no device.
    """
    name = node.attrs.get(_KEY)
    if name is None or not groups:
        return None
    if name not in groups:
        raise MXNetError(
            f"Check failed: dit != device_assign_map.end(): The device assignment not found for group {name}\n"
            f"Add it to group2ctx, which knows {', '.join(map(repr, groups))}."
        )
    return groups[name]


def variable_contexts(symbol: Symbol, ctx: Context, groups: Mapping[str, Context]) -> dict[str, Context]:
    """The context of each variable's array: its group's device, ``ctx`` without a group.

    Raises:
        MXNetError: a group of any node that has no device.
    """
    places = [(n, _group(n, groups) or ctx) for n in topological(symbol._heads)]
    return {n.name: place for n, place in places if n.op is None}


def head_contexts(
    symbol: Symbol, ctx: Context, groups: Mapping[str, Context], variables: Mapping[str, Context]
) -> list[Context]:
    """The context of each result: that of its node's group, or else of the first input of the node that has one.

    Args:
        ctx: for nodes that neither says anything of.
        variables: where the arrays of the variables are.
    """
    places: dict[int, Context] = {}
    for node in topological(symbol._heads):
        own = _group(node, groups)
        if node.op is None:
            own = variables[node.name]
        elif own is None:
            own = next((places[id(s)] for s, _ in node.inputs if id(s) in places), None)
        if own is not None:
            places[id(node)] = own
    return [places.get(id(node), ctx) for node, _ in symbol._heads]

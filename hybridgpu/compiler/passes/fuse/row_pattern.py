# SPDX-License-Identifier: Apache-2.0
"""Row patterns: whether a group iterates over rows, or will; consumers are placed before the reductions they follow."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ...ir.graph import Node
from ...ir.indexing import Var
from .group import Group

__all__ = ["has_rows_of", "reaches_reduction"]

_LOOK_AHEAD = 24  #: operands that are looked at for a reduction


def has_rows_of(group: Group, node: Node, order: list[Var]) -> bool:
    """True if ``group`` walks rows, or is going to, of each of which ``node`` is a value."""
    if group.reduced:
        return set(order) == set(group.rows)
    return reaches_reduction([node], node.size, group.points // max(node.size, 1))


def reaches_reduction(nodes: Sequence[Node], size: int, count: int, rows: bool = False) -> bool:
    """True if a reduction of ``count`` elements to each of ``size`` results is found on the way to ``nodes``.

    Consumers come first: what follows a reduction is placed before the reduction itself. Operands of the results' size
    are followed, and with ``rows`` those of the size of what is reduced, after them.
    """
    frontier: deque[Node] = deque()
    seen: set[Node] = set()

    def follow(candidates: Sequence[Node]) -> None:
        for n in candidates:
            if n not in seen and n.size == size:
                frontier.append(n)
            elif n not in seen and rows and n.size == count * size:
                frontier.appendleft(n)
            seen.add(n)

    follow(nodes)
    for _ in range(_LOOK_AHEAD):
        if not frontier:
            break
        n = frontier.pop()
        if n.prim.family == "reduce" and n.size == size and n.inputs[0].size == count * size:
            return True
        if n.prim.family in ("elementwise", "view"):
            follow(n.inputs)
    return False

# SPDX-License-Identifier: Apache-2.0
"""What the fusion pass knows while it runs: its groups, who reads what, and what was refused."""

from __future__ import annotations

from collections.abc import Callable

from ....dataclass import dataclass, field
from ...ir.graph import Graph, Node
from ...ir.indexing import Index
from ...target import Target
from .group import Cut, Group

__all__ = ["LaneShare", "State", "Why", "merged"]

Why = Callable[[Node], str]  #: a library's node -> why it does not compute what follows, in words
#: (group, node, index at which a window reads it) -> the part of vectors' lanes that loops which compute it there use
LaneShare = Callable[[Group, Node, Index], float]


@dataclass
class State:
    graph: Graph
    target: Target
    generated_dots: frozenset[Node]
    outputs: set[Node]
    why_left: Why
    lane_share: LaneShare
    readers: dict[Node, dict[Group, None]] = field(default_factory=dict)
    homes: dict[Node, Group] = field(default_factory=dict)  #: node -> the group that computes it
    groups: list[Group] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)

    def resolve(self, node: Node) -> list[Group]:
        """The groups that read ``node``, merged ones once."""
        return list(dict.fromkeys(map(merged, self.readers.get(node, ()))))

    def open(self, level: int) -> Group:
        group = Group(len(self.groups), level)
        self.groups.append(group)
        return group

    def add(self, group: Group, node: Node, index: Index) -> None:
        group.add(node, index)
        self.homes[node] = group
        for read in group.pending:
            self.readers.setdefault(read, {})[group] = None


def merged(group: Group) -> Group:
    """The group that ``group`` is part of by now."""
    while group.merged_into is not None:
        group = group.merged_into
    return group

# SPDX-License-Identifier: Apache-2.0
"""State of the fusion pass: groups, readers of each node, and refusals."""

from __future__ import annotations

from collections.abc import Callable

from ....core.dataclass import dataclass, field
from ...ir.graph import Graph, Node
from ...ir.indexing import Index
from ...target import Target
from .group import Group, Refusal

__all__ = ["LaneUtilization", "LibraryReason", "State", "current_group"]

LibraryReason = Callable[[Node], str]  #: a library's node -> why it does not compute what follows, in words
#: (group, node, index at which a window reads it) -> the fraction of vector lanes that loops which compute it there use
LaneUtilization = Callable[[Group, Node, Index], float]


@dataclass
class State:
    """The state of one run; ``generated`` are the dots, convolutions and scatters for which a kernel is generated."""

    graph: Graph
    target: Target
    generated: frozenset[Node]
    outputs: set[Node]
    library_reason: LibraryReason
    lane_utilization: LaneUtilization
    readers: dict[Node, dict[Group, None]] = field(default_factory=dict)
    group_of: dict[Node, Group] = field(default_factory=dict)  #: node -> the group that computes it
    groups: list[Group] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def readers_of(self, node: Node) -> list[Group]:
        """The groups that read ``node``, merged ones once."""
        return list(dict.fromkeys(map(current_group, self.readers.get(node, ()))))

    def new_group(self, level: int) -> Group:
        group = Group(len(self.groups), level)
        self.groups.append(group)
        return group

    def add(self, group: Group, node: Node, index: Index) -> None:
        group.add(node, index)
        self.group_of[node] = group
        for read in group.reads:
            self.readers.setdefault(read, {})[group] = None


def current_group(group: Group) -> Group:
    """The group that ``group`` was merged into, itself if into none."""
    while group.merged_into is not None:
        group = group.merged_into
    return group

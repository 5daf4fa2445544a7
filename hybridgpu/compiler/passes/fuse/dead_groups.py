# SPDX-License-Identifier: Apache-2.0
"""Dead groups: those that store nothing, such as those of a concat's operand of which a slice leaves out all.

Simplification cannot find them: every node of theirs has a reader. Only the plan shows that no element is read from
memory, since readers compute what they need again, or leave it out. Each would be a launch and the traffic of its operands
for nothing. Without one, others may have lost their last reader, hence the loop.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ...ir.graph import Node
from .fuse import FusionPlan
from .group import Group

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run", "stored_members"]


def run(plan: FusionPlan, ctx: PassContext) -> FusionPlan:
    """``plan`` without groups that store nothing."""
    outputs = ctx.outputs
    while True:
        readers = plan.readers()
        groups = [g for g in plan.groups if g.library or g.scatter_source or stored_members(g, outputs, readers)]
        if len(groups) == len(plan.groups):
            return plan
        plan = FusionPlan(groups, plan.refusals)


def stored_members(group: Group, outputs: Collection[Node], readers: dict[Node, list[Group]]) -> list[Node]:
    """Members that are results, or that another group reads."""
    stored = [n for n in group.index_of if n in outputs or any(g is not group for g in readers.get(n, ()))]
    return sorted(stored, key=lambda n: n.index)

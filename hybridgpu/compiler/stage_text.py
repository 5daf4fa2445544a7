# SPDX-License-Identifier: Apache-2.0
"""The printed form of what passes hand on: graphs, plans, kernels."""

from __future__ import annotations

from typing import Any

from .passes.fuse import FusionPlan, Group

__all__ = ["stage_text"]


def stage_text(value: Any) -> str:
    """A graph, which parse_graph reads back; a line for each group of a plan and each refusal; or one for each kernel."""
    if isinstance(value, FusionPlan):
        lines = [*map(_group_text, value.groups)]
        lines += [f"not fused {c.producer!r} | {c.consumer!r} [{c.rule}] {c.reason}" for c in value.refusals]
    elif isinstance(value, list):
        lines = [f"{k.kind} {k.summary} {k.choice.report()} extents {k.extents}" for _, k in value if k]
    else:
        return str(value)
    return "\n".join(lines) + "\n"


def _group_text(group: Group) -> str:
    members = ", ".join(n.prim.name for n in (group.index_of or [group.library]) if n)
    domain, reduced = [v.extent for v in group.vars], [v.extent for v in group.reduced]
    return f"group {group.serial} level {group.level} domain {domain} reduced {reduced}: {members}"

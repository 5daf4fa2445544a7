# SPDX-License-Identifier: Apache-2.0
"""Merging of two groups into one, and of a rounded result into the group of what it rounds."""

from __future__ import annotations

from ...ir.graph import Node
from .group import Group, Refusal
from .match import match_groups
from .state import State, current_group

__all__ = ["absorb_rounding", "can_hoist", "merge"]


def merge(
    state: State, a: Group, b: Group, shared: Node, across_levels: bool = False, full_reductions: bool = False
) -> Refusal | None:
    """Merge ``b`` into ``a``, or say why not; arguments as for :func:`~.match.match_groups`."""

    def refuse(rule: str, reason: str) -> Refusal:
        return Refusal(a.root, b.root, rule, reason)

    if a.library or b.library or a.contraction or b.contraction:
        return refuse("kernel-kind", "contractions and library calls do not share a kernel with their siblings")
    if a.scatter or b.scatter:
        return refuse("kernel-kind", "a kernel that scatters is not shared with its siblings")
    if len(a.index_of) + len(b.index_of) > state.target.max_nodes:
        return refuse("size", "together the kernels would hold too many operations")
    if len({**a.reads, **b.reads}) > state.target.max_arguments:
        return refuse("arguments", f"together the kernels would read more than {state.target.max_arguments} arrays")
    match = match_groups(a, b, shared, state.target, across_levels, full_reductions)
    if isinstance(match, Refusal):
        return match
    a.absorb(b, match.substitution)
    a.reduced = match.reduced
    a.over_rows.update(dict.fromkeys(match.over_rows))
    a.over_rows.update(b.over_rows)
    return None


def can_hoist(state: State, group: Group, level: int, partner: Group) -> bool:
    """True if ``group`` may run at a higher ``level``: all that it reads is there, or computed by the group ``partner``."""
    for node in group.reads:
        home = state.group_of.get(node)
        if home is not None and current_group(home) is not partner and current_group(home).level <= level:
            return False
    return True


def absorb_rounding(state: State) -> None:
    """Merge a result that is only another group's value rounded into that group.

    Most do as they are placed. Sums along columns that read a value of a row, too, keep its copy apart until they are part
    of the kernel that walks these rows.
    """
    for group in state.groups:
        node = next(iter(group.index_of), None)
        if group.merged_into is not None or node is None or len(group.index_of) > 1 or node.prim.name != "copy":
            continue
        rounded = node.inputs[0]
        source = rounded.inputs[0] if rounded.prim.name == "round_to" else None
        source_group = None if source is None else state.group_of.get(source)
        if source is None or source_group is None:
            continue
        home = current_group(source_group)
        if source in home.index_of and not home.contraction:
            home.index_of[node] = home.index_of[source]
            group.merged_into = home
            state.group_of[node] = home
            state.refusals = [c for c in state.refusals if node not in (c.producer, c.consumer)]

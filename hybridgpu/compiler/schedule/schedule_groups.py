# SPDX-License-Identifier: Apache-2.0
"""Scheduling: the kernel of each group of a plan, by the kind of what it computes.

Fusion decides what is computed together, this pass how: it is the one place where a group meets the kinds of kernels, so
that a further kind is one branch here. Modules of rare kinds are imported where a graph has such a group: the first
compilation of others does not pay for them. Groups that a network repeats are scheduled once (:mod:`.repeated_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..ir.graph import Graph, Node
from ..ir.indexing import Expr, Index, all_vars
from ..passes.fuse import FusionPlan, Group
from ..passes.fuse.dead_groups import stored_members
from ..target import Target
from .collapse_axes import collapse_axes
from .kernel import Kernel
from .map import schedule_map
from .repeated_groups import RepeatedGroups
from .row_reciprocals import multiply_by_reciprocals
from .scalar import scalar_program

if TYPE_CHECKING:
    from ..pass_context import PassContext
    from ..select import Selector

__all__ = ["Scheduled", "run"]

#: groups with their kernels in an order in which they can run, None for a library call
Scheduled = list[tuple[Group, Kernel | None]]


def run(plan: FusionPlan, ctx: PassContext) -> Scheduled:
    """The kernels of ``plan``, of ``ctx.materialized``."""
    ctx.refusals = plan.refusals
    # what has no elements needs no kernel
    groups = [g for g in plan.groups if g.library or any(n.size for n in g.index_of)]
    readers, outputs = plan.readers(), ctx.outputs
    offsets = _store_offsets(ctx.graph, ctx.target)
    schedule = RepeatedGroups(partial(_schedule, select=ctx.select, offsets=offsets), ctx.select, offsets)
    scheduled = [(g, k) for g in groups for k in schedule(g, stored_members(g, outputs, readers))]
    for group, kernel in scheduled:
        node = group.contraction or group.scatter
        if node is not None and kernel is not None:
            kernel.choice = replace(kernel.choice, selected=ctx.select(node).reason)
    # concats that no step reads are no reason to keep steps apart
    scheduled.sort(key=lambda s: s[0].concat_buffer is not None and not readers.get(s[0].concat_buffer))
    return scheduled


def _store_offsets(graph: Graph, target: Target) -> dict[Node, Callable[[Index], Expr]]:
    """For operands of zero-copy concats the position of an element in memory."""
    if all(n.prim.name != "concat_buffer" for n in graph.nodes):
        return {}
    from ..passes.concat.inplace_concat import concat_slices

    return {n: partial(p.offset, start=p.pointer_offset(target)) for n, p in concat_slices(graph).items()}


def _schedule(
    group: Group, stored: list[Node], select: Selector, offsets: Mapping[Node, Callable[[Index], Expr]]
) -> Sequence[Kernel | None]:
    """The kernel of a group, or those that run one after the other; None for a library call."""
    if group.library is not None:
        return [None]
    target, source = select.target, group.scatter_source
    members = sorted(group.members, key=lambda n: n.index)
    if source is not None and source.scatter is not None:
        from .scatter import schedule_scatter

        node = source.scatter
        # on the CPU the memory of the first one has the sums
        stored = sorted(stored, key=lambda n: n.dtype is not node.dtype)
        updates, after = scalar_program(source, [node]), scalar_program(group, stored, offsets)
        return [schedule_scatter(updates, node, target, members, after)]
    program = scalar_program(group, stored, offsets)
    if group.contraction is not None and group.contraction.prim.name == "conv":
        from .conv.backward_filter import schedule_conv_backward_filter
        from .conv.direct import schedule_conv
        from .conv.input_dilated import schedule_input_dilated_conv

        kind = select(group.contraction).kind
        if kind == "conv_backward_filter":
            return [schedule_conv_backward_filter(program, group.contraction, target, members)]
        if kind == "conv_input_dilated":
            return [schedule_input_dilated_conv(program, group.contraction, target, members)]
        at = group.index_of[group.contraction]
        return [schedule_conv(program, group.contraction, target, members, group.prologues, at)]
    if group.contraction is not None:
        from .matmul.matmul import schedule_matmul

        return [schedule_matmul(program, group.contraction, target, members, group.prologues)]
    if group.scatter is not None:
        from .scatter import schedule_scatter

        return [schedule_scatter(program, group.scatter, target, members)]
    collapse_axes(program)
    if target.numeric == "fast":
        multiply_by_reciprocals(program)
    if program.column_sums and target.name == "cuda":
        from .cuda.column_sums import schedule_column_sums

        return schedule_column_sums(program, target, *_split_at_column_sums(group, stored, members))
    if program.reductions or program.reduced:  # (or values of a row to store)
        from .rows import schedule_rows

        return [schedule_rows(program, target, members)]
    return [schedule_map(program, target, members)]


def _split_at_column_sums(group: Group, stored: list[Node], members: list[Node]) -> tuple[list[Node], list[Node]]:
    """The members that are computed for every row, and those that are known behind the last; sums are in both."""
    sums, rows = set(group.column_sums), set(group.rows)
    per_row = [
        n for n in stored if all_vars(group.index_of[n]) & rows and not sums.intersection(group.backward_slice(n)[0])
    ]
    early = {m for n in (*per_row, *sums) for m in group.backward_slice(n)[0]}
    return [m for m in members if m in early], [m for m in members if m in sums or m not in early]

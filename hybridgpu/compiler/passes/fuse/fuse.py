# SPDX-License-Identifier: Apache-2.0
"""The fusion pass: one visit of the nodes, consumers before producers, with a certificate.

Every group has a *level* above the level of every group it feeds. A node may join the group with
the highest level among its consumers: all its other consumers are in groups below, so no cycle can
arise, whatever the policy says. Groups of one level cannot depend on each other, so they may merge
when they share a producer (the node then joins the merged group) or merely read the same data. A
node that is refused opens a group one level above its consumers, and the refusal is kept as a
:class:`Refusal`. Each node and edge is looked at a bounded number of times: linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from math import prod
from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ...cost import seconds
from ...ir.dims import nominal
from ...ir.graph import Graph, Node
from ...ir.indexing import Expr, Index, Var, all_vars, linearize, of_var
from ...primitives.views import RESHAPES, strip_views
from ...size_buckets import bucket, bucket_scale
from ..materialize import PRODUCTS, SCATTERS, batch_channel_swapped, is_fusible
from ..recompute_hints import ALWAYS_RECOMPUTE, NO_RECOMPUTE, NO_RECOMPUTE_REASONS
from .conv_pool import why_not_pooled
from .group import CONTRACTIONS, Group, Refusal, change_basis, label, label_pair, row_major_vars
from .merge import absorb_rounding, merge
from .merge_passes import (
    hoist_column_sums,
    hoist_groups,
    merge_column_sums,
    merge_full_reductions,
    merge_siblings,
)
from .recompute import (
    RecomputeInputs,
    pays_to_recompute,
    pays_to_recompute_in_windows,
    recompute_cost,
    recompute_inputs,
)
from .row_pattern import reaches_reduction
from .state import State

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["FusionPlan", "run"]

_MIN_WIDE_CONCAT = 3  #: CPU: operands of a concat from which on reductions read it from memory


@dataclass
class FusionPlan:
    """The result: groups in an order in which they can run, and the refusals that keep them apart."""

    groups: list[Group]
    refusals: list[Refusal]

    def readers(self) -> dict[Node, list[Group]]:
        """The groups that read what is in memory, in their order."""
        readers: dict[Node, list[Group]] = {}
        for group in self.groups:
            for node in group.reads:
                readers.setdefault(node, []).append(group)
        return readers


def run(graph: Graph, ctx: PassContext) -> FusionPlan:
    """Partition the nodes of ``graph`` that compute into groups; every output is one (see ``materialize``)."""
    target = ctx.target
    generated = ctx.materialized.generated if ctx.materialized is not None else frozenset()
    state = State(graph, target, generated, set(graph.outputs), ctx.library_reason(graph), ctx.lane_utilization(graph))
    for node in reversed(graph.nodes):
        if node.prim.family in ("leaf", "view"):
            continue
        _assign_group(state, node)
    merge_siblings(state)
    merge_column_sums(state)
    if target.device.has_shared_memory:  # loops have no other form for what is reduced on the way
        hoist_groups(state)
    absorb_rounding(state)
    merge_full_reductions(state)
    groups = [g for g in state.groups if g.merged_into is None]
    groups.sort(key=lambda g: (-g.level, -g.serial))
    # what is stored in its slice of a concat is where it belongs
    return FusionPlan(groups, [c for c in state.refusals if c.consumer.prim.name != "concat_buffer"])


def _assign_group(state: State, node: Node) -> None:
    """One step of the certificate: ``node`` joins the highest group among its readers, or opens one a level above.

    Readers that are not joined get a refusal each. Library calls and scatters always open a group of their own.
    """
    consumers = state.readers_of(node)
    level = 1 + max((g.level for g in consumers), default=-1)
    if hoist_column_sums(state, node, consumers):
        consumers = state.readers_of(node)
    if not _is_generated(state, node):
        if node.prim.name == "concat_buffer":
            _record_refusals(
                state, node, consumers, "concat", f"slices of {label(node)} are written by kernels of their own"
            )
        else:
            reason = _opaque_call_text(node, "leaves its result in memory")
            words = state.library_reason(node) if consumers else ""
            _record_refusals(state, node, consumers, "library", f"{reason}: {words}" if words else reason)
        group = state.new_group(level)
        group.library = node
        state.group_of[node] = group
        for i in node.inputs:
            read = batch_channel_swapped(node, i) or (
                strip_views(i) if node.prim.name in PRODUCTS else strip_views(i, RESHAPES)
            )
            group.reads.setdefault(read, [])
            group.must_be_materialized[read] = node
            state.readers.setdefault(read, {})[group] = None
        return
    if node.prim.name in SCATTERS:
        _record_refusals(
            state,
            node,
            consumers,
            "scatter",
            f"{label(node)} scatters into memory, and is complete only at the end",
        )
        group = state.new_group(level)
        group.scatter = node
        state.add(group, node, group.new_vars(node.inputs[-2].shape))
        return
    if consumers:
        # those of the largest domains first: others may be values of their rows
        top = sorted((g for g in consumers if g.level == level - 1), key=lambda g: -nominal(g.points))
        while len(top) > 1:
            refusal = merge(state, top[0], top[1], node)
            if refusal:
                state.refusals.append(refusal)
                break
            top.pop(1)
        else:
            lower = [g for g in state.readers_of(node) if g is not top[0]]
            if lower and _recompute_in_readers(state, node, lower, top[0]):
                return
            refusal = _try_join(state, top[0], node, needed_elsewhere=bool(lower) or node in state.outputs)
            if refusal is None:
                one, here = label_pair(node, top[0].root)
                _record_refusals(
                    state,
                    node,
                    lower,
                    "shared",
                    f"{one} is computed in the kernel of {here}, which runs before",
                )
                return
            state.refusals.append(refusal)
        readers = state.readers_of(node)
        if len(readers) > 1 and _recompute_in_readers(state, node, readers, None):
            return
        others = [g for g in readers if refusal.producer is not node or g.root is not refusal.consumer]
        _record_refusals(
            state, node, others, "own-kernel", f"{label(node)} has a kernel of its own, since {refusal.reason}"
        )
    group = state.new_group(level)
    if node.prim.name in CONTRACTIONS:
        # their kernels know variables by the axis of the result
        axes = [Var(f"i{k}", d) for k, d in enumerate(node.shape)]
        group.vars = [v for v in axes if v.extent > 1]
        group.contraction = node
        index = tuple(map(of_var, axes))
    else:
        index = group.new_vars(node.shape)
    if node.prim.family == "reduce":
        group.reduced = _add_reduced_vars(group, node)
    state.add(group, node, index)


def _recompute_in_readers(state: State, node: Node, readers: list[Group], computing: Group | None) -> bool:
    """Recompute ``node`` in all of ``readers`` (and in ``computing``, which would write it), if that is cheaper."""
    groups = readers if computing is None else [*readers, computing]
    if node.prim.family != "elementwise" or node in state.outputs:
        return False
    if any(
        _limit_refusal(state, g, node) or _recompute_refusal(state, g, node, needed_elsewhere=False) for g in groups
    ):
        return False
    inputs = _recompute_inputs(state, node)
    if inputs is None or not pays_to_recompute(
        node, inputs, readers, computing, lambda g: _total_executions(state, g, node), state.target
    ):
        return False
    for g in groups:
        for index in list(g.reads[node]):
            state.add(g, node, index)
    return True


def _recompute_inputs(state: State, node: Node) -> RecomputeInputs | None:
    return recompute_inputs(node, state.outputs, lambda n: n.prim.name not in SCATTERS and _is_generated(state, n))


def _read_by_windows(group: Group, node: Node) -> bool:
    """True if loops over windows read ``node``: each element once for each window that it lies in.

    Windows are reduced, or written where they overlap.
    """
    if group.contraction is not None or any(all_vars(i) != set(group.vars) for i in group.reads[node]):
        return False
    reduced = set(group.reduced)
    places = [e for i in group.reads[node] for e in i]
    if not reduced:
        return any(map(_repeats_places, places))
    return any(reduced & e.vars and e.vars - reduced for e in places)


def _repeats_places(e: Expr) -> bool:
    """True if ``e``, a sum of parts of the index, has fewer values than these together."""
    extents = [nominal(atom.high) - nominal(atom.low) + 1 for atom, _ in e.terms]
    steps = [abs(nominal(factor)) for _, factor in e.terms]
    values = 1 + sum(step * (extent - 1) for step, extent in zip(steps, extents, strict=True))
    return prod(extents) > values


def _record_refusals(state: State, node: Node, readers: list[Group], rule: str, reason: str) -> None:
    """Record why groups read ``node`` from memory."""
    state.refusals += [Refusal(node, g.root, rule, reason) for g in readers]


def _is_generated(state: State, node: Node) -> bool:
    if node.prim.name in CONTRACTIONS or node.prim.name in SCATTERS:
        return node in state.generated
    return node.prim.name == "random_bits" or is_fusible(node)


def _add_reduced_vars(group: Group, node: Node) -> list[Var]:
    shape = node.inputs[0].shape
    before = len(group.vars)
    group.new_vars(shape[a] for a in node.params["axes"])
    return group.vars[before:]


# -- joining a group


def _opaque_call_text(node: Node, does: str) -> str:
    """A sentence on a node that no generated kernel contains."""
    return f"a loop {does}" if node.prim.family == "loop" else f"{node.prim.name} is a library call, which {does}"


def _limit_refusal(state: State, group: Group, node: Node) -> Refusal | None:
    """The limit that keeps ``node`` out of ``group``, whatever it computes."""

    def refuse(rule: str, reason: str) -> Refusal:
        return Refusal(node, group.root, rule, reason)

    if group.library is not None:
        return refuse("library", _opaque_call_text(group.library, "takes its operands from memory"))
    if node in group.must_be_materialized:
        reader, read = label_pair(group.must_be_materialized[node], node)
        does = f"reads {read} at positions known only at run time"
        if group.scatter is not None:
            does = f"reads {read} as a whole, before it writes rows of it"
        elif group.contraction is not None:
            does = f"reuses every element of {read}, so that is materialized"
        return refuse("memory", f"{reader} {does}")
    if NO_RECOMPUTE in node.params:
        return refuse(node.params[NO_RECOMPUTE], NO_RECOMPUTE_REASONS[node.params[NO_RECOMPUTE]])
    if len(group.index_of) >= state.target.max_nodes:
        return refuse("size", f"the kernel already holds {len(group.index_of)} operations")
    if len(group.reads) + len(node.inputs) > state.target.max_arguments:
        return refuse("arguments", f"the kernel would read more than {state.target.max_arguments} arrays")
    return None


def _try_join(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Refusal | None:
    """Make ``node`` a member of ``group``, or say why not (leaving the group valid)."""
    refusal = _limit_refusal(state, group, node)
    if refusal is not None:
        return refusal
    if group.scatter is not None and (node.prim.family == "reduce" or node.prim.name in CONTRACTIONS):
        return Refusal(
            node, group.root, "scatter", "a kernel that scatters takes elementwise work on its operands only"
        )
    if node.prim.family == "reduce":
        return _try_join_reduction(state, group, node)
    if node.prim.name in CONTRACTIONS:
        return _try_join_contraction(state, group, node, needed_elsewhere)
    if group.contraction is not None and node.prim.name in ("take", "take_along"):
        return Refusal(node, group.root, "epilogue", "the epilogue of a contraction does not gather")
    return _try_join_elementwise(state, group, node, needed_elsewhere)


def _try_join_elementwise(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Refusal | None:
    """The join of an elementwise operation or a gather: added to ``group`` at every index it is read at, or refused.

    A value that others need, too, must be visited once, in the order in which it lies in memory, to be stored here.
    """
    indices, reduced = group.reads[node], group.reduced
    if state.target.device.loop_nests and reduced and _reads_wide_concat(node) and not _depends_on_reduction(node):
        reason = f"{label(node)} reads a concat, for which loops are split, but not those of a reduction"
        return Refusal(node, group.root, "concat", reason)
    if needed_elsewhere:
        offset = group.affine_offset(node)
        order = row_major_vars(offset, node.size) if offset is not None else None
        visited = order is not None and (
            set(order) in (set(group.vars), set(group.rows)) or _try_form_rows(state, group, node, order)
        )
        if (
            group.contraction is not None and not group.reduced
        ):  # whose kernel knows variables by the axis of the result
            _use_axes_of(
                group, linearize(group.index_of[group.contraction], group.contraction.shape), group.contraction
            )
        if not visited:
            return Refusal(
                node,
                group.root,
                "not-visited-once",
                f"{label(node)} is also needed in memory, and this kernel would not visit each element once",
            )
        indices = group.reads[node]
    refusal = _recompute_refusal(state, group, node, needed_elsewhere)
    if refusal is not None:
        group.reduced = reduced
        return refusal
    for index in list(indices):
        state.add(group, node, index)
    return None


def _reads_wide_concat(node: Node) -> bool:
    """True if ``node`` reads a join of several arrays, or of joins: each element would be chosen among all of them."""
    for i in map(strip_views, node.inputs):
        stack, count = [i], 0
        while stack and count < _MIN_WIDE_CONCAT:
            n = stack.pop()
            if n.prim.name == "concat":
                stack += map(strip_views, n.inputs)
            else:
                count += 1
        if count >= _MIN_WIDE_CONCAT:
            return True
    return False


def _depends_on_reduction(node: Node) -> bool:
    """True if a reduction is part of what ``node`` is made of, as the mean is of a deviation from it."""
    stack, seen = [node], {node}
    while stack:
        for i in map(strip_views, stack.pop().inputs):
            if i.prim.family == "reduce":
                return True
            if i.prim.family == "elementwise" and i not in seen:
                seen.add(i)
                stack.append(i)
    return False


def _try_form_rows(state: State, group: Group, node: Node, order: list[Var]) -> bool:
    """Make ``group`` iterate over rows if ``node`` is a value of each row, from a reduction that is still to be placed.

    So a mean that is needed in memory, too, does not keep what it normalises from its kernel. A host reads short pieces
    that lie far apart slowly: one more walk over them takes longer than one over all of memory in order.
    """
    rest = [v for v in group.vars if v not in order]
    count = group.points // max(node.size, 1)
    if group.reduced or group.contraction or group.scatter or not reaches_reduction([node], node.size, count):
        return False
    piece = prod(v.extent for v in takewhile(lambda v: v not in order, reversed(group.vars)))
    anyway = any(n.prim.family == "reduce" and n.inputs[0].size == count * n.size for n in group.reads)
    if 1 < piece < min(count, state.target.device.contiguous_run) and not anyway:
        return False
    group.reduced = rest
    return True


def _total_executions(state: State, group: Group, node: Node) -> int:
    """The number of times that ``group`` would compute ``node``."""
    every = sum(_executions_at(group, node, index, state.target.device.loop_nests) for index in group.reads[node])
    return round(nominal(every) * group.read_fraction.get(node, 1.0))


def _recompute_refusal(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Refusal | None:
    """The reason why ``node`` should not be computed in ``group``, if that costs more than a way through memory."""
    if ALWAYS_RECOMPUTE in node.params:
        return None
    executed, size = _total_executions(state, group, node), nominal(node.size)
    target = state.target
    if target.device.loop_nests and not needed_elsewhere and _read_by_windows(group, node):
        lanes = min(map(partial(state.lane_utilization, group, node), group.reads[node]))
        if (executed <= size and lanes == 1) or pays_to_recompute_in_windows(
            node, _recompute_inputs(state, node), executed / lanes, target
        ):
            return None
        times = f"{executed / size:.1f} times an element" if executed > size else "in a part of a vector's lanes"
        return Refusal(
            node,
            group.root,
            "recompute",
            f"{label(node)} would be computed {times} of windows, which costs more than storing it",
        )
    extra = (executed - size) * recompute_cost(node)
    trips = 0 if needed_elsewhere else target.device.concat_trips if group.read_fraction.get(node, 1.0) < 1 else 2
    memory_seconds = seconds(target, (trips + 1) * nominal(node.type.nbytes), launches=1 / bucket_scale(node.shape))
    if seconds(target, operations=extra) > memory_seconds:
        return Refusal(
            node,
            group.root,
            "recompute",
            f"{label(node)} would be computed {executed / max(size, 1):.0f} times an element, "
            "which costs more than storing it",
        )
    return None


def _executions_at(group: Group, node: Node, index: Index, nested: bool) -> int:
    """The number of times that ``node`` would be computed at ``index``: once a row if a reduction will make rows of it.

    In ``nested`` loops without reductions (those of a host), what is the same for all of an inner one is outside it.

    Consumers come first: what follows a reduction is placed before the reduction itself, so it is
    looked for among the operands of ``node`` that have its size.
    """
    if group.reduced or group.contraction:
        used = all_vars(index)
        counted = not group.reduced or group.vars[0] in group.rows or used & set(group.reduced)
        return _scaled_to_bucket(group.executions(index), group.vars[:1] if counted else [], used)
    rest = group.points // max(node.size, 1)
    used = all_vars(index)
    rows = rest > 1 and group.scatter is None and used != set(group.vars)
    if rows and reaches_reduction([*group.reads, node], node.size, rest, True):
        return node.size
    if nested:
        inner = next((k for k, v in enumerate(reversed(group.vars)) if v in used), len(group.vars))
        loops = group.vars[: len(group.vars) - inner]
        return _scaled_to_bucket(prod(v.extent for v in loops), loops, used)
    return group.executions(index)


def _scaled_to_bucket(times: int, loops: Sequence[Var], used: frozenset[Var]) -> int:
    """``times`` scaled to the size bucket of the batch, if an outermost loop alone repeats it."""
    if not loops or loops[0] in used:
        return times
    return nominal(times) // nominal(loops[0].extent) * bucket(loops[0].extent)


def _try_join_reduction(state: State, group: Group, node: Node) -> Refusal | None:
    """The join of a reduction: its results must be read row by row, and a group reduces over one set of axes.

    A group without a reduction gets the axes of this one.
    """
    operand = node.inputs[0]
    if group.contraction is not None:
        return Refusal(node, group.root, "epilogue", "the epilogue of a contraction does not hold reductions")
    if node.size == 0 or operand.size == 0:
        return Refusal(node, group.root, "empty", "an empty array is reduced on its own")
    offset = group.affine_offset(node)
    order = row_major_vars(offset, node.size) if offset is not None else None
    if order is None:
        return Refusal(
            node,
            group.root,
            "rows",
            f"{label(group.root)} does not read the results of the reduction row by row",
        )
    count = operand.size // node.size
    rest = [v for v in group.vars if v not in order]
    extents = prod(v.extent for v in rest)
    if group.reduced:
        if set(rest) != set(group.reduced) or extents != count:
            return Refusal(node, group.root, "reduction-shape", "the kernel already reduces over other axes")
    elif rest:
        if extents != count:
            return Refusal(
                node, group.root, "domain", "the reduction runs over a different number of elements than its reader"
            )
        group.reduced = rest
    else:
        group.reduced = _add_reduced_vars(group, node)
    state.add(group, node, group.reads[node][0])
    return None


def _try_join_contraction(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Refusal | None:
    """The join of a product or convolution: ``group`` becomes its epilogue, which reads each result once, forwards.

    On CUDA a convolution also joins the reduction of its pooling windows.
    """
    if (
        group.contraction is None
        and group.reduced
        and node.prim.name == "conv"
        and state.target.device.has_shared_memory
    ):
        why = why_not_pooled(group, node, needed_elsewhere)
        if why is not None:
            return Refusal(node, group.root, "conv-pool", why)
        group.contraction = node
        state.add(group, node, group.reads[node][0])
        return None
    if group.contraction is not None or group.reduced:
        return Refusal(node, group.root, "reduction-shape", "the kernel already contains a contraction or a reduction")
    offset = group.affine_offset(node)
    order = row_major_vars(offset, node.size) if offset is not None else None
    if offset is None or order is None or set(order) != set(group.vars):
        if group.points > node.size:  # such as a concat with something else
            why = "has more elements than the contraction, whose kernel computes one for each of its own results"
        else:
            why = "does not read each result of the contraction once, forwards"
        return Refusal(node, group.root, "epilogue", f"{label(group.root)} {why}")
    _use_axes_of(group, offset, node)
    group.contraction = node
    state.add(group, node, group.reads[node][0])
    return None


def _use_axes_of(group: Group, offset: Expr, node: Node) -> None:
    """Let the variables of ``group`` be the axes of ``node``, which lies at ``offset``."""
    group.vars, table = change_basis(offset, node.shape)
    group.replace(table)

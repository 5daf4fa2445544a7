# SPDX-License-Identifier: Apache-2.0
"""The compiler from end to end: a graph of primitives in, a Program out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..core.dataclass import dataclass
from ..core.settings import verifying
from .assemble import assemble
from .host_copy import host_copy_program
from .ir.graph import Graph, Node
from .ir.indexing import Expr, Index, all_vars
from .ir.verify import verify
from .passes.canonicalize.simplify import simplify
from .passes.canonicalize.transpose_dots import transpose_dots
from .passes.concat.split_wide_concats import split_wide_concats
from .passes.fuse import FusionPlan, Group, fuse
from .passes.fuse.state import LaneUtilization
from .passes.library.gemm_epilogues import fuse_gemm_epilogues
from .passes.materialize import SCATTERS, Materialized, materialize
from .passes.parameter_folding import hoist_parameter_cones
from .passes.pooling.pooling_backward import unroll_pooling_gradients
from .passes.precision.exact_extrema import materialize_compared
from .passes.prepack_weights import prepack_weights
from .passes.reductions.split_reductions import split_reductions
from .passes.reductions.welford import use_welford
from .program import Program
from .schedule.collapse_axes import collapse_axes
from .schedule.fuse_prologues import fuse_prologues
from .schedule.kernel import Kernel
from .schedule.map import schedule_map
from .schedule.matmul.matmul import schedule_matmul
from .schedule.row_reciprocals import multiply_by_reciprocals
from .schedule.scalar import scalar_program
from .select import Selector
from .target import Target

__all__ = ["compile_graph"]

Observer = Callable[[str, object], None]


def compile_graph(
    graph: Graph,
    target: Target,
    pinned_inputs: frozenset[int] = frozenset(),
    observe: Observer | None = None,
    folded_inputs: frozenset[int] = frozenset(),
    donated: Mapping[int, int] | None = None,
) -> Program:
    """Compile ``graph`` for ``target``.

    Args:
        graph: primitives only.
        target: the machine.
        pinned_inputs: positions of inputs whose address is the same at every call.
        observe: called with the name and the result of every stage (dumps, tests).
        folded_inputs: positions of inputs among them whose values rarely change: what depends on them alone may become
            the program's prelude.
        donated: number of a result -> position of the input whose memory it is to be written to; results for which that
            can be done are no outputs of the program, but stand in its ``input_output_aliases``.
    """
    seen = observe or (lambda stage, value: None)
    checking = verifying()
    select = Selector(target)
    seen("01_lowered", graph)
    graph = transpose_dots(simplify(graph), target, select.generates)
    if checking:
        verify(graph)
    seen("02_simplified", graph)
    graph = _match_conv_backward(graph, select)
    graph = _fuse_conv_epilogues(graph, select, folded_inputs)
    folding = None
    if folded_inputs:
        graph = prepack_weights(graph, folded_inputs, target)
        folding = hoist_parameter_cones(graph, folded_inputs, target, select.generates)
    if folding is not None:
        pinned_inputs |= {len(graph.inputs) + k for k in range(len(folding.folded_values))}
        graph = folding.remainder
        if checking:
            verify(folding.prelude)
            verify(graph)
        seen("02_prelude", folding.prelude)
        seen("02_without_prelude", graph)
    fused = _fuse_and_schedule(graph, select, seen, donated or {})
    scheduled = fused.kernels
    said: list[str] = []
    if target.name == "cuda":
        from .schedule.cuda.foreach import batch_small_kernels
        from .schedule.persistent.kernel import fuse_persistent

        scheduled, said = fuse_persistent(batch_small_kernels(scheduled, target), target, _body)
    seen("05_kernels", [k for _, k in scheduled if k])
    program = assemble(
        fused.source,
        fused.materialized,
        fused.plan,
        scheduled,
        target,
        pinned_inputs,
        donated or {},
        lambda body: compile_graph(body, target),
        lambda node: select(node).reason,
    )
    program.launch_fusion_notes = said
    if folding is not None:
        program.prelude = host_copy_program(folding.prelude, target) or compile_graph(folding.prelude, target)
        program.prelude_inputs, program.folded_values = list(folding.prelude_inputs), list(folding.folded_values)
    seen("06_program", program)
    return program


@dataclass(frozen=True)
class _Scheduled:
    """A graph on its way to a program.

    Attributes:
        source: before copies were put where views need memory.
        ready: behind.
        plan: its groups.
        scheduled: their kernels in an order in which they can run, None for a library call.
    """

    source: Graph
    materialized: Materialized
    plan: FusionPlan
    kernels: list[tuple[Group, Kernel | None]]


def _fuse_and_schedule(
    graph: Graph, select: Selector, seen: Observer, over: Mapping[int, int] | None = None
) -> _Scheduled:
    """The second half of the way: from a simplified graph to kernels.

    Args:
        over: as for :func:`compile_graph`; None for what a loop runs, whose steps have no memory to share.
    """
    checking, target = verifying(), select.target
    graph = materialize_compared(graph, target)
    graph = _separate_pooling(unroll_pooling_gradients(graph, target), target)
    graph = _two_stage_sums(graph)
    graph = _online_softmax(use_welford(graph, target), target)
    graph = split_wide_concats(split_reductions(_split_scatters(graph, target), target), target)
    graph = _promote_half_convolutions(_promote_small_results(graph), select)
    if checking:
        verify(graph)
    graph = fuse_gemm_epilogues(graph, target, select.generates)
    if checking:
        verify(graph)
    ready = materialize(
        graph,
        select.generates,
        select.copied_planes,
        swaps=target.name == "cuda",
    )
    if checking:
        verify(ready.graph)
    seen("03_materialized", ready.graph)
    plan = _groups(ready, select)
    if over is not None and any(n.prim.name == "concat" for n in ready.graph.nodes):
        ready, plan = _elide_concats(ready, plan, select, over)
        if checking:
            verify(ready.graph)
    wanted = frozenset(ready.graph.outputs)
    seen("04_groups", plan)
    # what has no elements needs no kernel
    groups = [g for g in plan.groups if g.library or any(n.size for n in g.index_of)]
    readers = plan.readers()
    placed = _store_offsets(ready.graph, target)
    scheduled = [(g, k) for g in groups for k in _schedule(g, _stored(g, wanted, readers), select, placed)]
    for group, kernel in scheduled:
        node = group.contraction or group.scatter
        if node is not None and kernel is not None:
            kernel.choice["selected"] = select(node).reason
    # joins that no step reads are no reason to keep steps apart
    scheduled.sort(key=lambda s: s[0].concat_buffer is not None and not readers.get(s[0].concat_buffer))
    return _Scheduled(graph, ready, plan, scheduled)


def _groups(ready: Materialized, select: Selector) -> FusionPlan:
    select.carry(ready.sources)
    target = select.target
    wanted = frozenset(ready.graph.outputs)
    why_left = _library_reason(ready.graph, select)
    fused = fuse(ready.graph, target, ready.generated, why_left, *_lane_share(ready.graph, target))
    plan = fuse_prologues(fused, wanted, target, select)
    return _drop_dead_groups(_fuse_scatter_epilogues(plan, wanted, target), wanted)


def _drop_dead_groups(plan: FusionPlan, outputs: frozenset[Node]) -> FusionPlan:
    """``plan`` without groups that store nothing, such as those of a join's operand of which a slice leaves out all."""
    while True:
        readers = plan.readers()
        groups = [g for g in plan.groups if g.library or g.scatter_source or _stored(g, outputs, readers)]
        if len(groups) == len(plan.groups):
            return plan
        plan = FusionPlan(groups, plan.refusals)


def _body(graph: Graph, target: Target) -> tuple[Graph, list[Kernel | None]]:
    """What a turn of a loop is made of: the body's graph as kernels see it, and these, None for a library call."""
    select = Selector(target)
    graph = transpose_dots(simplify(graph), target, select.generates)
    found = _fuse_and_schedule(_match_conv_backward(graph, select), select, lambda stage, value: None)
    return found.materialized.graph, [kernel for _, kernel in found.kernels]


# What few graphs have is imported where it is met: with the rest it would double what the first program waits for.


def _two_stage_sums(graph: Graph) -> Graph:
    if all(n.prim.name != "sum" or len(n.params["axes"]) < 2 for n in graph.nodes):
        return graph
    from .passes.reductions.two_stage_sums import use_two_stage_sums

    return use_two_stage_sums(graph)


def _promote_small_results(graph: Graph) -> Graph:
    if all(n.prim.name != "round_to" for n in graph.nodes):
        return graph
    from .passes.precision.promote_small_results import promote_small_results

    return promote_small_results(graph)


def _promote_half_convolutions(graph: Graph, select: Selector) -> Graph:
    if select.target.name != "cpu" or all(n.prim.name != "conv" or not n.dtype.is_half for n in graph.nodes):
        return graph
    from .passes.precision.promote_half import convolve_in_float32

    return convolve_in_float32(graph, select.generates)


def _online_softmax(graph: Graph, target: Target) -> Graph:
    if target.name != "cuda":
        return graph
    from .passes.reductions.online_softmax import use_online_softmax

    return use_online_softmax(graph, target)


def _split_scatters(graph: Graph, target: Target) -> Graph:
    """``graph`` with sums at computed positions as kernels of ``target`` want them."""
    if all(n.prim.name not in SCATTERS for n in graph.nodes):
        return graph
    if target.name == "cpu":
        from .passes.precision.promote_half import scatter_in_float32

        return scatter_in_float32(graph)
    from .passes.reductions.split_scatters import split_scatters

    return split_scatters(graph, target)


def _elide_concats(
    ready: Materialized, plan: FusionPlan, select: Selector, over: Mapping[int, int]
) -> tuple[Materialized, FusionPlan]:
    from .passes.concat.inplace_concat import elide_concats

    return elide_concats(ready, plan, lambda other: _groups(other, select), select.target, frozenset(over))


def _store_offsets(graph: Graph, target: Target) -> dict[Node, Callable[[Index], Expr]]:
    """For parts of joins the position of an element in memory."""
    if all(n.prim.name != "concat_buffer" for n in graph.nodes):
        return {}
    from .passes.concat.inplace_concat import concat_slices

    return {n: partial(p.offset, start=p.pointer_offset(target)) for n, p in concat_slices(graph).items()}


def _fuse_scatter_epilogues(plan: FusionPlan, outputs: frozenset[Node], target: Target) -> FusionPlan:
    if all(g.scatter is None for g in plan.groups):
        return plan
    from .schedule.fuse_scatter_epilogues import fuse_scatter_epilogues

    return fuse_scatter_epilogues(plan, outputs, target)


def _match_conv_backward(graph: Graph, select: Selector) -> Graph:
    if select.target.name != "cuda" or all(n.prim.name != "conv" for n in graph.nodes):
        return graph
    from .passes.library.conv_backward import match_conv_backward

    return match_conv_backward(graph, select.generates)


def _fuse_conv_epilogues(graph: Graph, select: Selector, constant: frozenset[int]) -> Graph:
    if not select.target.library_convolutions:
        return graph
    from .passes.library.conv_epilogues import fuse_conv_epilogues

    return fuse_conv_epilogues(graph, select.target, select.generates, constant)


def _library_reason(graph: Graph, select: Selector) -> Callable[[Node], str]:
    """A function from a library's node to the reason why the library does not compute what follows, '' if none is known."""
    if not select.target.library_convolutions:
        return lambda node: ""
    from .passes.library.conv_epilogues import why_not_fused

    return why_not_fused(graph, select.target, select.generates)


def _lane_share(graph: Graph, target: Target) -> list[LaneUtilization]:
    if target.name != "cpu" or all(n.prim.name != "unfold" for n in graph.nodes):
        return []
    from .schedule.cpu.pooling_tiles import lane_utilization

    return [lane_utilization]


def _separate_pooling(graph: Graph, target: Target) -> Graph:
    if target.name != "cpu" or all(n.prim.name != "unfold" for n in graph.nodes):
        return graph
    from .passes.pooling.separable_pooling import separate_pooling

    return separate_pooling(graph)


def _schedule(
    group: Group, stored: list[Node], select: Selector, placed: Mapping[Node, Callable[[Index], Expr]]
) -> Sequence[Kernel | None]:
    """The kernel of a group, or those that run one after the other; None for a library call."""
    if group.library is not None:
        return [None]
    target = select.target
    if group.scatter_source is not None and group.scatter_source.scatter is not None:
        from .schedule.scatter import schedule_scatter

        node = group.scatter_source.scatter
        # on the CPU the memory of the first one has the sums
        stored = sorted(stored, key=lambda n: n.dtype is not node.dtype)
        updates, after = scalar_program(group.scatter_source, [node]), scalar_program(group, stored, placed)
        members = sorted(group.members, key=lambda n: n.index)
        return [schedule_scatter(updates, node, target, members, after)]
    program = scalar_program(group, stored, placed)
    members = sorted(group.members, key=lambda n: n.index)
    if group.contraction is not None and group.contraction.prim.name == "conv":
        from .schedule.conv.backward_filter import schedule_conv_backward_filter
        from .schedule.conv.direct import schedule_conv
        from .schedule.conv.input_dilated import schedule_input_dilated_conv

        kind = select(group.contraction).kind
        if kind == "conv_backward_filter":
            return [schedule_conv_backward_filter(program, group.contraction, target, members)]
        if kind == "conv_input_dilated":
            return [schedule_input_dilated_conv(program, group.contraction, target, members)]
        at = group.index_of[group.contraction]
        return [schedule_conv(program, group.contraction, target, members, group.prologues, at)]
    if group.contraction is not None:
        return [schedule_matmul(program, group.contraction, target, members, group.prologues)]
    if group.scatter is not None:
        from .schedule.scatter import schedule_scatter

        return [schedule_scatter(program, group.scatter, target, members)]
    collapse_axes(program)
    if target.numeric == "fast":
        multiply_by_reciprocals(program)
    if program.column_sums and target.name == "cuda":
        from .schedule.cuda.column_sums import schedule_column_sums

        return schedule_column_sums(program, target, *_early_and_late(group, stored, members))
    if program.reductions or program.reduced:  # (or values of a row to store)
        from .schedule.rows import schedule_rows

        return [schedule_rows(program, target, members)]
    return [schedule_map(program, target, members)]


def _early_and_late(group: Group, stored: list[Node], members: list[Node]) -> tuple[list[Node], list[Node]]:
    """The members that are computed for every row, and those that are known behind the last; sums are in both."""
    sums, rows = set(group.column_sums), set(group.rows)
    kept = [
        n for n in stored if all_vars(group.index_of[n]) & rows and not sums.intersection(group.backward_slice(n)[0])
    ]
    early = {m for n in (*kept, *sums) for m in group.backward_slice(n)[0]}
    return [m for m in members if m in early], [m for m in members if m in sums or m not in early]


def _stored(group: Group, outputs: frozenset[Node], readers: dict[Node, list[Group]]) -> list[Node]:
    """Members that are results, or that another group reads."""
    wanted = [n for n in group.index_of if n in outputs or any(g is not group for g in readers.get(n, ()))]
    return sorted(wanted, key=lambda n: n.index)

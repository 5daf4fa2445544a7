# SPDX-License-Identifier: Apache-2.0
"""The compiler from end to end: the table of its passes, read from top to bottom, and the loop that runs them.

A pass is a module with one entry, ``run(value, ctx)``: a graph goes in and a graph comes out, until ``fuse`` makes a plan of
it and ``schedule`` makes kernels of that. Passes with a precondition are imported when it first holds: importing all of
them would double the latency of the first compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from operator import is_not
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..core.dataclass import dataclass
from ..core.settings import verifying
from .assemble import assemble
from .host_copy import host_copy_program
from .ir.graph import Graph, Node
from .ir.verify import verify
from .pass_context import Observer, PassContext
from .passes.fuse import FusionPlan
from .program import PassRecord, Program
from .target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .passes.materialize import Materialized
    from .schedule.kernel import Kernel

__all__ = ["GRAPH_PASSES", "PASSES", "Pass", "compile_graph", "new_context", "run_passes"]

Condition = Callable[[Any, PassContext], bool]  #: (what the pass would be given, context) -> whether it runs


@dataclass(frozen=True)
class Pass:
    """A row of the table.

    Attributes:
        name: by which it is reported and disabled.
        module: where its ``run`` is, below ``hybridgpu.compiler``.
        target: 'cpu' or 'cuda' if it is for that alone.
        when: its precondition, beside the target; None if there is none.
        required: why no program can do without it; '' for a pass that can be disabled.
        reorders: it changes the order in which sums are added up, so that without it results differ by rounding.
    """

    name: str
    module: str
    target: str = ""
    when: Condition | None = None
    required: str = ""
    reorders: bool = False

    def applies(self, value: Any, ctx: PassContext) -> bool:
        """Whether there may be something to do."""
        if (self.target and self.target != ctx.target.name) or self.name in ctx.target.disabled_passes:
            return False
        return self.when is None or self.when(value, ctx)

    def run(self, value: Any, ctx: PassContext) -> Any:
        entry = _ENTRIES.get(self.name)
        if entry is None:
            entry = _ENTRIES[self.name] = import_module(f".{self.module}", __package__).run
        return entry(value, ctx)


_ENTRIES: dict[str, Callable[[Any, PassContext], Any]] = {}  #: of the passes that were imported


def has(*primitives: str) -> Condition:
    """A graph with one of these primitives."""
    return lambda graph, ctx: not ctx.primitives(graph).isdisjoint(primitives)


def has_node(test: Callable[[Node], bool]) -> Condition:
    """A graph with a node of which ``test`` is true."""
    return lambda graph, ctx: any(map(test, graph.nodes))


def both(first: Condition, second: Condition) -> Condition:
    return lambda value, ctx: first(value, ctx) and second(value, ctx)


#: graphs to graphs
GRAPH_PASSES = (
    Pass("simplify", "passes.canonicalize.simplify", required="later passes match simplified graphs"),
    Pass("transpose_dots", "passes.canonicalize.transpose_dots", when=both(has("dot"), has("transpose"))),
    Pass("conv_backward", "passes.library.conv_backward", "cuda", when=has("conv")),
    Pass(
        "conv_epilogues",
        "passes.library.conv_epilogues",
        when=lambda graph, ctx: ctx.target.library_convolutions and "conv" in ctx.primitives(graph),
    ),
    Pass(
        "prepack_weights",
        "passes.prepack_weights",
        when=lambda graph, ctx: bool(ctx.folded_inputs) and ctx.target.panels,
    ),
    Pass("parameter_folding", "passes.parameter_folding", when=lambda graph, ctx: bool(ctx.folded_inputs)),
    Pass(
        "exact_extrema",
        "passes.precision.exact_extrema",
        when=has("amax", "amin"),
        required="a maximum equals one of the values that it is compared with",
    ),
    Pass("pooling_backward", "passes.pooling_backward", "cpu", when=has("fold"), reorders=True),
    Pass(
        "two_stage_reductions",
        "passes.reductions.two_stage_reductions",
        when=has_node(lambda n: n.prim.name in ("sum", "amax", "amin") and len(n.params["axes"]) > 1),
        reorders=True,
    ),
    Pass("welford", "passes.reductions.welford", when=both(has("sum"), has("sub")), reorders=True),
    Pass(
        "online_softmax", "passes.reductions.online_softmax", "cuda", when=both(has("exp"), has("sum")), reorders=True
    ),
    Pass(
        "promote_half_scatters",
        "passes.precision.promote_half_scatters",
        "cpu",
        when=has_node(lambda n: n.prim.name in ("scatter_add", "scatter_along") and n.dtype.is_half),
        required="a sum of many terms in a type of two bytes loses most of them",
    ),
    Pass(
        "split_scatters",
        "passes.reductions.split_scatters",
        "cuda",
        when=has("scatter_add", "scatter_along"),
        reorders=True,
    ),
    Pass(
        "split_reductions",
        "passes.reductions.split_reductions",
        "cuda",
        when=has_node(lambda n: n.prim.family == "reduce"),
        reorders=True,
    ),
    Pass(
        "split_wide_concats",
        "passes.concat.split_wide_concats",
        when=has("concat"),
        required="a kernel takes a limited number of arrays",
    ),
    Pass("promote_small_results", "passes.precision.promote_small_results", when=has("round_to")),
    Pass(
        "promote_half_convs",
        "passes.precision.promote_half_convs",
        "cpu",
        when=has_node(lambda n: n.prim.name == "conv" and n.dtype.is_half),
    ),
    Pass("unfold_convs", "passes.canonicalize.unfold_convs", "cpu", when=has("conv"), reorders=True),
    Pass(
        "gemm_epilogues",
        "passes.library.gemm_epilogues",
        when=lambda graph, ctx: ctx.target.library_epilogues and "dot" in ctx.primitives(graph),
    ),
    Pass("materialize", "passes.materialize", required="libraries and callers read results from memory"),
)
#: a graph to a plan, and plans to plans
FUSION_PASSES = (
    Pass("fuse", "passes.fuse.fuse", required="it assigns every node to a kernel"),
    Pass("fuse_prologues", "schedule.fuse_prologues", when=lambda plan, ctx: any(g.contraction for g in plan.groups)),
    Pass(
        "fuse_scatter_epilogues",
        "schedule.fuse_scatter_epilogues",
        when=lambda plan, ctx: any(g.scatter for g in plan.groups),
    ),
    Pass("drop_dead_groups", "passes.fuse.dead_groups", required="a kernel stores something"),
)
#: a plan to kernels, and kernels to kernels
KERNEL_PASSES = (
    Pass(
        "inplace_concat",
        "passes.concat.inplace_concat",
        when=lambda plan, ctx: not ctx.is_loop_body and "concat" in ctx.primitives(ctx.graph),
    ),
    Pass("schedule", "schedule.schedule_groups", required="it makes the kernels"),
    Pass("foreach", "schedule.cuda.foreach", "cuda", when=lambda kernels, ctx: not ctx.is_loop_body),
    Pass(
        "persistent",
        "schedule.persistent.kernel",
        "cuda",
        when=lambda kernels, ctx: not ctx.is_loop_body and ctx.target.resident != "never",
    ),
)
PASSES = (*GRAPH_PASSES, *FUSION_PASSES, *KERNEL_PASSES)

for _pass in PASSES:
    if _pass.when is None and not _pass.target:
        import_module(f".{_pass.module}", __package__)


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
        observe: called with 'lowered' and the graph, with the name of each pass that ran and what it gave, and with
            'prelude' and 'program' (dumps, tests).
        folded_inputs: positions of inputs among them whose values rarely change: what depends on them alone may become
            the program's prelude.
        donated: number of a result -> position of the input whose memory it is to be written to; results for which that
            can be done are no outputs of the program, but stand in its ``input_output_aliases``.
    """
    check_disabled(target.disabled_passes)
    ctx = new_context(target, pinned_inputs, folded_inputs, donated, observe=observe)
    ctx.observe("lowered", graph)
    program = assemble(run_passes(PASSES, graph, ctx), ctx)
    folding = ctx.folding
    if folding is not None:
        ctx.observe("prelude", folding.prelude)
        program.prelude = host_copy_program(folding.prelude, target) or compile_graph(folding.prelude, target)
        program.prelude_inputs, program.folded_values = list(folding.prelude_inputs), list(folding.folded_values)
    ctx.observe("program", program)
    return program


def run_passes(passes: Iterable[Pass], value: Any, ctx: PassContext) -> Any:
    """The result of ``passes`` on ``value``, one after the other; what each did is added to the records of ``ctx``."""
    checking, (size, unit) = verifying(), _size(value)
    for each in passes:
        if not each.applies(value, ctx):
            continue
        start = perf_counter()
        previous, value = value, each.run(value, ctx)
        seconds = perf_counter() - start
        if checking and isinstance(value, Graph):
            verify(value)
        before, changed = size, value is not previous and _changed(previous, value)
        if value is not previous:
            size, unit = _size(value)
        ctx.records.append(PassRecord(each.name, before, size, unit, changed, seconds))
        ctx.observe(each.name, value)
    return value


def check_disabled(names: Sequence[str]) -> None:
    """Refuse names of passes that are unknown or required.

    Raises:
        MXNetError: with the names of those that can be disabled.
    """
    if not names:
        return
    required = {p.name: p.required for p in PASSES}
    optional = ", ".join(sorted(repr(p.name) for p in PASSES if not p.required))
    for name in names:
        if name not in required:
            raise MXNetError(f"Invalid Input: '{name}', valid values are: {{{optional}}}, in HYBRIDGPU_DISABLE_PASSES")
        if required[name]:
            raise MXNetError(
                f"HYBRIDGPU_DISABLE_PASSES={name}: this pass is required, since {required[name]}.\n"
                f"Passes that can be disabled: {optional}."
            )


def new_context(target: Target, *given: Any, **named: Any) -> PassContext:
    """A context whose passes can compile further graphs."""
    ctx = PassContext(target, *given, **named)
    ctx.compile_body = lambda body: compile_graph(body, target)
    ctx.schedule_body = _schedule_body
    ctx.fuse_again = lambda other: _fuse_again(other, ctx)
    return ctx


def _schedule_body(graph: Graph, target: Target) -> tuple[Graph, list[Kernel | None]]:
    ctx = new_context(target, is_loop_body=True)
    kernels = [kernel for _, kernel in run_passes(PASSES, graph, ctx)]
    return ctx.graph, kernels


def _fuse_again(other: Materialized, ctx: PassContext) -> FusionPlan:
    plan: FusionPlan = run_passes(FUSION_PASSES, other.graph, ctx.with_graph(other))
    return plan


def _size(value: Any) -> tuple[int, str]:
    """The number of the parts of a graph, plan or list of kernels, and what these are."""
    if isinstance(value, Graph):
        return len(value.nodes), "nodes"
    return (len(value.groups), "groups") if isinstance(value, FusionPlan) else (len(value), "kernels")


def _changed(before: Any, after: Any) -> bool:
    """Whether what a pass gave differs from what it was given."""
    if isinstance(before, Graph) and isinstance(after, Graph):
        return not before.equals(after)
    if isinstance(before, FusionPlan) and isinstance(after, FusionPlan):
        before, after = before.groups, after.groups
    return type(before) is not type(after) or len(before) != len(after) or any(map(is_not, before, after))

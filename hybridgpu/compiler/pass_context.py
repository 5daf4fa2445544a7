# SPDX-License-Identifier: Apache-2.0
"""Pass context: what a compilation knows besides its graph, and what its passes find out for those behind them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .ir.graph import Graph, Node
from .select import Selector
from .target import Target

if TYPE_CHECKING:
    from .passes.fuse import FusionPlan, Refusal
    from .passes.fuse.state import LaneUtilization, LibraryReason
    from .passes.materialize import Materialized
    from .passes.parameter_folding import Folding
    from .program import PassRecord, Program
    from .schedule.kernel import Kernel

__all__ = ["Observer", "PassContext"]

Observer = Callable[[str, object], None]  #: called with the name of a pass and what it gives


class PassContext:
    """The context of one compilation.

    Args:
        target: the machine.
        pinned_inputs, folded_inputs, donated: as for ``compile_graph``.
        is_loop_body: the graph is what a loop runs, of which a kernel may become a part; its steps have no memory to share.
        observe: called with what each pass gives.
        generates: function (dot, conv or scatter node) -> whether a generated kernel computes it, in place of ``select``.

    Attributes:
        select: who computes each product, convolution and scatter.
        pinned_inputs: also those that parameter folding adds.
        folding: the cut into prelude and remainder, None without one.
        materialized: the graph with copies where views need memory, once it is there.
        refusals: what was not fused.
        launch_fusion_notes: what was decided for each run of small kernels and why, in words.
        records: what each pass did, in order.
        compile_body: compiles what a loop runs to a program of its own.
        schedule_body: (what a loop runs, target) -> the graph as kernels see it, and these, None for a library call.
        fuse_again: makes a plan of another graph.
    """

    compile_body: Callable[[Graph], Program]
    schedule_body: Callable[[Graph, Target], tuple[Graph, list[Kernel | None]]]
    fuse_again: Callable[[Materialized], FusionPlan]

    def __init__(
        self,
        target: Target,
        pinned_inputs: frozenset[int] = frozenset(),
        folded_inputs: frozenset[int] = frozenset(),
        donated: Mapping[int, int] | None = None,
        is_loop_body: bool = False,
        observe: Observer | None = None,
        generates: Callable[[Node], bool] | None = None,
    ) -> None:
        self.target = target
        self.pinned_inputs, self.folded_inputs = pinned_inputs, folded_inputs
        self.donated: Mapping[int, int] = donated or {}
        self.is_loop_body = is_loop_body
        self.observe: Observer = observe or _ignore
        self.select = Selector(target)
        self._generates = generates
        self.folding: Folding | None = None
        self.materialized: Materialized | None = None
        self.refusals: list[Refusal] = []
        self.launch_fusion_notes: list[str] = []
        self.records: list[PassRecord] = []
        self._named: Graph | None = None
        self._names: frozenset[str] = frozenset()

    def with_graph(self, materialized: Materialized) -> PassContext:
        """A context for trying another graph: nobody observes it, and its records are its own."""
        other = copy.copy(self)
        other.materialized, other.observe, other.records = materialized, _ignore, []
        self.select.carry(materialized.sources)
        return other

    @property
    def graph(self) -> Graph:
        """The materialized graph."""
        assert self.materialized is not None
        return self.materialized.graph

    @property
    def outputs(self) -> frozenset[Node]:
        """The results of the materialized graph."""
        return frozenset(self.graph.outputs)

    def primitives(self, graph: Graph) -> frozenset[str]:
        """The names of the primitives of ``graph``."""
        if graph is not self._named:
            self._named, self._names = graph, frozenset({n.prim.name for n in graph.nodes})
        return self._names

    # -- who computes what

    def generates(self, node: Node) -> bool:
        """Whether a generated kernel computes the product, convolution or scatter ``node``."""
        return self._generates(node) if self._generates is not None else self.select(node).generated

    def library_reason(self, graph: Graph) -> LibraryReason:
        """A function from a library's node to the reason why the library does not compute what follows, '' if none is known."""
        if not self.target.library_convolutions:
            return lambda node: ""
        from .passes.library.conv_epilogues import why_not_fused

        return why_not_fused(graph, self.target, self.generates)

    def lane_utilization(self, graph: Graph) -> LaneUtilization:
        """The fraction of a vector's lanes that loops over windows use."""
        if not self.target.device.loop_nests or "unfold" not in self.primitives(graph):
            return lambda group, node, index: 1.0
        from .schedule.cpu.pooling_tiles import lane_utilization

        return lane_utilization


def _ignore(name: str, value: object) -> None:
    pass

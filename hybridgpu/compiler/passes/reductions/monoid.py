# SPDX-License-Identifier: Apache-2.0
"""The splitter of reductions: one rewrite for every monoid whose partial results can be combined.

A split reduction is computed for each of several chunks of its operand, and once more over the partial results. A monoid says
which reductions are split together (a sum of squared deviations and the sum of which the mean is made), what fills up the
last chunk, and how the results are made of the chunks. The monoids are the passes of this folder: sums, products, extrema
and their positions (``split_reductions``), means and squared deviations (``welford``), maxima and sums of exponentials
(``online_softmax``), along rows and over a batch, or over windows' rows (``two_stage_reductions``). What they make are ordinary reductions, so that
fusion, scheduling and the memory plan need to know nothing of it. The order in which elements are combined depends on shapes
alone: results are the same in every run. Sums of half precision are float32 between the chunks.

Scatters are split by a pass of their own (``split_scatters``): their chunks are of updates, and each has a table, not one
value.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ....core.dataclass import dataclass
from ...ir.graph import Builder, Graph, Node
from ...target import Target
from ..rewrite import replace_nodes
from .reduction_splitting import Split

__all__ = ["Chunks", "Monoid", "Reductions", "split_axis", "split_reductions_of"]


@dataclass(frozen=True)
class Reductions:
    """Reductions that are split together.

    Attributes:
        results: the reduction of the operand itself first.
        given: other nodes that the last of them is made of.
    """

    results: tuple[Node, ...]
    given: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Chunks:
    """The operand of a reduction by chunks.

    Attributes:
        b: the builder of what is made of them.
        x: the operand, with an axis for the chunks of the axis that is split.
        inner: the axes inside a chunk.
        split: how it is split.
        axis: of partial results, that of the chunks.
    """

    b: Builder
    x: Node
    inner: tuple[int, ...]
    split: Split
    axis: int

    def reduce(self, kind: str, keepdims: bool = False) -> Node:
        """The reduction of each chunk."""
        return self.b.reduce(kind, self.x, self.inner, keepdims=keepdims)

    def gather(self, y: Node) -> Node:
        """``y``, a value of each chunk with or without axes of 1 for what is inside one, with one axis for all chunks."""
        left = [k for k in range(self.x.ndim) if k not in self.inner]
        split_axes = {k + (self.split.axis is not None and k > self.split.axis) for k in self.split.whole_axes}
        split_axes |= {self.split.axis} if self.split.axis is not None else set()
        middle = [k for k, axis in enumerate(left) if axis in split_axes]
        own = [k for k in range(len(left)) if k not in middle]
        y = self.b.reshape(y, tuple(self.x.shape[k] for k in left))
        y = self.b.transpose(y, (*own[: self.axis], *middle, *own[self.axis :]))
        shape, end = y.shape, self.axis + len(middle)
        return self.b.reshape(y, (*shape[: self.axis], prod(shape[self.axis : end]), *shape[end:]))


@dataclass(frozen=True)
class Monoid:
    """Reductions whose partial results can be combined.

    Attributes:
        match: node -> the reductions that are split together, of which it is the last; None if it is none.
        choose: (these, readers of nodes, target) -> the split; None where that does not pay.
        identity: reduction -> what fills up the last chunk.
        combine: for each of the results (chunks, the reduction, what is given) -> the node that takes its place.
    """

    match: Callable[[Node, Target], Reductions | None]
    choose: Callable[[Reductions, dict[Node, list[Node]], Target], Split | None]
    identity: Callable[[Node], bool | int | float]
    combine: tuple[Callable[..., Node], ...]


def split_reductions_of(monoid: Monoid, graph: Graph, target: Target) -> Graph:
    """``graph`` with the reductions of ``monoid`` by chunks where the target gains by it."""
    plans: dict[Node, tuple[int, Reductions, Split]] = {}
    uses: dict[Node, list[Node]] | None = None
    for node in graph.nodes:
        match = monoid.match(node, target)
        if match is None:
            continue
        uses = graph.uses() if uses is None else uses
        first = match.results[0]
        split = plans[first][2] if first in plans else monoid.choose(match, uses, target)
        if split is not None:
            plans |= {n: (k, match, split) for k, n in enumerate(match.results)}

    def split_one(b: Builder, node: Node, new: dict[Node, Node], plan: tuple[int, Reductions, Split]) -> Node:
        which, match, split = plan
        first, axes = match.results[0], node.params["axes"]
        x = new[first.inputs[0]]
        x = x if first.prim.name.startswith("arg") else b.cast(x, first.dtype)
        x, inner = split_axis(b, x, axes, split, monoid.identity(first))
        chunks = Chunks(b, x, inner, split, sum(a not in axes for a in range(axes[0])))
        given = match.given if node is match.results[-1] else ()
        return monoid.combine[which](chunks, node, *(new[n] for n in given))

    return replace_nodes(graph, plans, split_one)


def split_axis(
    b: Builder, x: Node, axes: tuple[int, ...], split: Split, fill: bool | int | float
) -> tuple[Node, tuple[int, ...]]:
    """``x`` with an axis for the chunks of the split one, and the axes inside a chunk."""
    inner = tuple(a for a in axes if a not in split.whole_axes)
    if split.axis is not None:
        a, missing = split.axis, split.count * split.length - x.shape[split.axis]
        if missing:
            high = tuple(missing if k == a else 0 for k in range(x.ndim))
            x = b.pad(x, low=(0,) * x.ndim, high=high, value=fill)
        x = b.reshape(x, (*x.shape[:a], split.count, split.length, *x.shape[a + 1 :]))
        inner = tuple(k + (k >= a) for k in inner)
    return x, inner

# SPDX-License-Identifier: Apache-2.0
"""Zero-copy concat: producers store into slices of the result.

Inside a map kernel a concat is an index expression. But what other kernels compute, a row's softmax or a convolution,
would first be stored and then copied into the result by one more kernel, which moves every byte three times. Such a
concat becomes the primitive ``concat_buffer``: memory of which its operands are slices. The kernel of each operand stores into
its slice, a library that computes one is given the strides of the whole, and no step copies.

Elementwise work that follows the concat in the copying kernel is computed by each producer instead. Operands that save
nothing, such as arguments, are copied by kernels of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ...cost import seconds, separate_launch_seconds
from ...devices.gpu import GpuConstants
from ...ir.graph import Builder, Graph, Node
from ...ir.indexing import Expr, Index, const
from ...primitives import TABLE
from ...primitives.views import RESHAPES, strip_views
from ...target import Target
from ..fuse import FusionPlan, Group, Refusal
from ..fuse.dead_groups import stored_members
from ..fuse.group import label, label_pair
from ..materialize import PRODUCTS, SCATTERS, Materialized

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["BufferSlice", "concat_slices", "run"]

#: bytes of a part that are neighbours, at least: memory is written in sectors of so many
_MIN_RUN_BYTES = GpuConstants.sector_bytes
_MIN_SAVED_FRACTION = 0.5  #: of a concat's bytes that are not moved, at least: each slice is another text to compile
_LIBRARY_PRIMITIVES = (
    *PRODUCTS,
    "conv",
    "conv_bias_act",
    "conv_backward_data",
)  #: primitives that a library computes into parts
_MAX_TRIES = 4  #: times that what turns out to gain nothing is left out
_COPY_NUMBER = "part"  #: parameter of a copy: its number, so that no two parts are one node


@dataclass(frozen=True)
class BufferSlice:
    """A slice of another array's memory: ``start`` elements behind its begin, with these ``strides``."""

    root: Node
    start: int
    strides: tuple[int, ...]

    def pointer_offset(self, target: Target) -> int:
        """The offset of a kernel's pointer in elements: the slice's begin, if vectors may begin there; else 0."""
        return 0 if self.start * self.root.dtype.size % target.device.pointer_alignment else self.start

    def offset(self, index: Index, start: int) -> Expr:
        """The position of the element at ``index``, counted from ``start`` elements behind the begin of ``root``."""
        offset = const(self.start - start)
        for e, stride in zip(index, self.strides, strict=True):
            offset = offset + e * stride
        return offset


def concat_slices(graph: Graph) -> dict[Node, BufferSlice]:
    """The slices in which operands of zero-copy concats lie, those of nested ones in the outermost."""
    slices: dict[Node, BufferSlice] = {}
    for node in reversed(graph.nodes):
        if node.prim.name != "concat_buffer":
            continue
        axis = node.params["axis"]
        mine = slices.get(node) or BufferSlice(node, 0, node.type.strides)
        at = mine.start
        for part in node.inputs:
            slices[part] = BufferSlice(mine.root, at, mine.strides)
            at += part.shape[axis] * mine.strides[axis]
    return slices


@dataclass(frozen=True)
class _Saving:
    """The saving of an operand: arrays that other kernels need not store then, and the bytes that are not moved."""

    sources: frozenset[Node]
    bytes: int


@dataclass(eq=False)
class _Candidate:
    """A candidate: a value that a map kernel computes from a concat, element by element, and stores.

    Attributes:
        stored: the value.
        concat: the concat.
        group: the map kernel.
        savings: number of an operand of the concat -> its saving.
    """

    stored: Node
    concat: Node
    group: Group
    savings: dict[int, _Saving]

    @property
    def axis(self) -> int:
        axis: int = self.concat.params["axis"]
        return axis

    def operand_ranges(self) -> Iterator[tuple[int, int]]:
        """The operands of each slice: (first, last + 1). Neighbours that save nothing are one slice."""
        begin = None
        for k in range(len(self.concat.inputs)):
            if k in self.savings:
                if begin is not None:
                    yield begin, k
                begin = None
                yield k, k + 1
            elif begin is None:
                begin = k
        if begin is not None:
            yield begin, len(self.concat.inputs)

    def pays(self, target: Target) -> bool:
        """Whether what is neither stored nor read takes longer than starting kernels of parts that gain nothing."""
        more = sum(first not in self.savings for first, _ in self.operand_ranges()) - 1
        return bool(self.savings) and seconds(target, self.saved_bytes) > seconds(target, launches=more)

    def source(self) -> Node:
        """The first array that need not be stored."""
        return next(n for n in self.group.reads if any(n in g.sources for g in self.savings.values()))

    @property
    def saved_bytes(self) -> int:
        """Bytes that are neither stored nor read."""
        return sum(g.bytes for g in self.savings.values())


def run(plan: FusionPlan, ctx: PassContext) -> FusionPlan:
    """The plan of ``ctx.materialized`` with zero-copy concats, where they save something: then that is another graph."""
    ready, target = ctx.materialized, ctx.target
    assert ready is not None
    donated = frozenset(ready.graph.outputs[k] for k in ctx.donated)  # arguments lie there, which steps may still read
    refused: list[Refusal] = []
    joins = list(_candidates(ready.graph, plan, target, donated, refused))
    for _ in range(_MAX_TRIES):
        if not joins:
            break
        other, parts = _rewrite(ready, joins)
        new_plan = ctx.fuse_again(other)
        whole = [
            j
            for j in joins
            if not any(_scatters(part, new_plan) for k, (part, _) in parts[j].items() if k not in j.savings)
        ]
        if len(whole) < len(joins):
            for join in joins:
                if join not in whole:
                    one, other_one = label_pair(join.source(), join.stored)
                    reason = f"{one} is copied into {other_one}, a part of which is scattered: that adds up in an array of its own"
                    refused.append(Refusal(join.source(), join.stored, "concat", reason))
            joins = whole
            continue
        failed = [(j, k) for j in joins for k in j.savings if not _is_realized(*parts[j][k], new_plan)]
        if not failed:
            if _seconds(other.graph, new_plan, target) >= _seconds(ready.graph, plan, target):
                break
            ctx.materialized = other
            return run(FusionPlan(new_plan.groups, new_plan.refusals + refused), ctx)  # parts may be joins, too
        for join, k in failed:
            del join.savings[k]
        joins = [j for j in joins if j.pays(target)]
    return FusionPlan(plan.groups, plan.refusals + refused)


# -- which joins


def _candidates(
    graph: Graph, plan: FusionPlan, target: Target, excluded: frozenset[Node], refused: list[Refusal]
) -> Iterator[_Candidate]:
    """Concats that map kernels store, operands of which other kernels store."""
    readers, outputs = plan.readers(), set(graph.outputs)
    homes = {n: g for g in plan.groups for n in g.index_of}
    libraries = frozenset(
        g.library for g in plan.groups if g.library is not None and g.library.prim.name in _LIBRARY_PRIMITIVES
    )
    kernels = _Context(homes, libraries, readers, outputs, graph.uses(), target)
    for group in plan.groups:
        others = group.library or group.contraction or group.scatter or group.scatter_source
        if others is not None or group.reduced or group.column_sums or group.prologues:
            continue
        stored = stored_members(group, outputs, readers)
        candidates = [j for n in stored if (j := _candidate_of(n, group, kernels, refused))]
        # the kernel is left with nothing to do, or is left alone
        if len(candidates) < len(stored) or excluded.intersection(stored):
            continue
        for join in candidates:
            source = join.source()
            one, other = label_pair(source, join.stored)
            small = seconds(target, join.saved_bytes) <= separate_launch_seconds(target)
            if target.resident != "never" and join.stored in readers and small:
                reason = f"copying {one} into {other} as a step of one kernel takes less time than starting another"
                refused.append(Refusal(source, join.stored, "concat", reason))
            elif join.saved_bytes < _MIN_SAVED_FRACTION * join.stored.type.nbytes:
                reason = f"the part of {one} in {other} is so small that a text of its own would gain little"
                refused.append(Refusal(source, join.stored, "concat", reason))
            elif join.pays(target):
                yield join


@dataclass(frozen=True)
class _Context:
    """Context of the search: the group of each node, nodes of libraries, readers, and the results of the graph."""

    group_of: dict[Node, Group]
    libraries: frozenset[Node]
    readers: dict[Node, list[Group]]
    outputs: set[Node]
    uses: dict[Node, list[Node]]
    target: Target


def _candidate_of(stored: Node, group: Group, kernels: _Context, refused: list[Refusal]) -> _Candidate | None:
    """The first concat that ``stored`` is computed from and of which an operand saves traffic; None without any."""
    stack, seen = [stored], {stored}
    while stack:
        node = stack.pop()
        if node.prim.name == "concat":
            gains = _savings(node, stored, group, kernels, refused)
            if gains:
                return _Candidate(stored, node, group, gains)
            continue
        if node.prim.family != "elementwise" or node not in group.index_of:
            continue
        inner = (
            node.inputs if node is not stored or node.prim.name != "copy" else [strip_views(node.inputs[0], RESHAPES)]
        )
        new = [i for i in inner if i not in seen]
        seen.update(new)
        stack += reversed(new)
    return None


def _savings(whole: Node, stored: Node, group: Group, kernels: _Context, refused: list[Refusal]) -> dict[int, _Saving]:
    """The savings of a concat's operands that other kernels than ``group`` store, or whose inputs they store."""
    savings: dict[int, _Saving] = {}
    homes = kernels.group_of
    axis = whole.params["axis"]
    alone = prod(whole.shape[:axis]) == 1
    for k, operand in enumerate(whole.inputs):
        source = strip_views(operand, RESHAPES)
        if source.prim.family in ("view", "leaf"):
            continue
        read = group.backward_slice(source)[1] if source in group.index_of else [source]
        sources = frozenset(n for n in read if n in homes and homes[n] is not group)
        if operand in kernels.libraries and _is_sole_use(stored, whole, k, kernels.uses, kernels.outputs):
            reason = _why_no_library_slice(
                operand, _operand_offsets(whole)[k] * prod(operand.shape[axis + 1 :]), kernels.target
            )
            sources = frozenset() if reason else frozenset((operand,))
            if reason:
                refused.append(Refusal(operand, stored, "concat", reason))
        if not sources:
            continue
        run = prod(operand.shape[axis:]) * stored.dtype.size
        if run < _MIN_RUN_BYTES and not alone:
            one, other = label_pair(next(n for n in read if n in sources), stored)
            reason = f"{one} is copied into {other}, where it has no more than {run} bytes in a row"
            refused.append(Refusal(next(n for n in read if n in sources), stored, "concat", reason))
            continue
        others = any(n in kernels.outputs or len(kernels.readers[n]) > 1 for n in sources)
        savings[k] = _Saving(sources, (1 if others else 2) * operand.type.nbytes)
    return savings


def _why_no_library_slice(node: Node, start: int, target: Target) -> str:
    """Why a library does not write its result ``start`` elements behind the begin of a join, '' if it does."""
    if target.device.host_memory or node.prim.name in PRODUCTS:
        return ""
    one = label(node)
    if len(node.inputs) > 3:  # an array behind the bias
        return f"what is added to {one} would have to lie as its part of the join does"
    if start * node.dtype.size % target.device.pointer_alignment:
        return f"the part of {one} begins at no multiple of {target.device.pointer_alignment} bytes, which cuDNN wants"
    return ""


# -- the graph with them


def _rewrite(
    ready: Materialized, joins: Sequence[_Candidate]
) -> tuple[Materialized, dict[_Candidate, dict[int, tuple[Node, frozenset[Node]]]]]:
    """``ready`` with these joins in memory; of each part, by its first operand, what stands there and what it gains by."""
    b = Builder(TABLE)
    new: dict[Node, Node] = {n: b.input(n.type, n.params["name"]) for n in ready.graph.inputs}
    of = {j.stored: j for j in joins}
    uses = ready.graph.uses()
    parts: dict[_Candidate, dict[int, tuple[Node, frozenset[Node]]]] = {}
    count = 0
    for node in ready.graph.nodes:
        if node in new:
            continue
        b.prov = node.prov
        join = of.get(node)
        if join is None:
            new[node] = b.reapply(node, [new[i] for i in node.inputs])
            continue
        if node.prim.name == "copy":  # whoever reads it asked for it; what lies there is the value
            b.prov = node.inputs[0].prov
        operands, mine = [], parts.setdefault(join, {})
        for first, last in join.operand_ranges():
            value = _operand_slice(b, new, join, first, last)
            if not (first in join.savings and _is_sole_use(join.stored, join.concat, first, uses, ready.graph.outputs)):
                value = b.copy(value, **{_COPY_NUMBER: count})
                count += 1
            operands.append(value)
            saved_sources = join.savings[first].sources if first in join.savings else ()
            mine[first] = value, frozenset(new[n] for n in saved_sources)
        new[node] = b.reshape(b.concat_buffer(*operands, axis=join.axis), node.shape)
    graph = b.finish([strip_views(new[o], RESHAPES) for o in ready.graph.outputs], ready.graph.name)
    left = set(graph.nodes)
    sources = {new[n]: n for n in ready.sources if new[n] in left}
    generated = frozenset(new[n] for n in ready.generated) & left
    return replace(ready, graph=graph, generated=generated, sources=sources), parts


def _is_sole_use(stored: Node, whole: Node, k: int, uses: dict[Node, list[Node]], outputs: Collection[Node]) -> bool:
    """Whether nothing but the join ``whole``, which is ``stored``, reads its ``k``-th operand, or stores anything of it."""
    operand = whole.inputs[k]
    if stored.prim.name != "copy" or strip_views(stored.inputs[0], RESHAPES) is not whole:
        return False
    if operand.prim.family in ("view", "leaf") or operand in outputs or operand.prim.name in SCATTERS:
        return False
    return len(uses[operand]) == 1 and len(uses[whole]) == 1 and whole.inputs.count(operand) == 1


def _operand_slice(b: Builder, new: dict[Node, Node], join: _Candidate, first: int, last: int) -> Node:
    """The slice that is stored of the operands ``first`` … ``last - 1``."""
    whole, axis = join.concat, join.axis
    ends = _operand_offsets(whole)
    slices: dict[Node, Node] = {}

    def inner(node: Node) -> Sequence[Node]:
        """The nodes to cut before ``node``, if its operands are."""
        if node is join.stored and node.prim.name == "copy":
            return [strip_views(node.inputs[0], RESHAPES)] if node.shape != whole.shape else node.inputs
        fused = node.prim.family == "elementwise" and node in join.group.index_of
        return node.inputs if fused else ()

    stack = [join.stored]
    while stack:
        node = stack[-1]
        needed = [i for i in inner(node) if i not in slices]
        if node in slices or not needed:
            stack.pop()
        if node in slices:
            continue
        if needed:
            stack += needed
            continue
        if node.prim.name == "concat" and node.params["axis"] == axis and _operand_offsets(node) == ends:
            slices[node] = b.concat([new[i] for i in node.inputs[first:last]], axis)
        elif not inner(node):
            slices[node] = b.slice_axis(new[node], axis, ends[first], ends[last])
        elif node.prim.name == "copy":
            slices[node] = slices[inner(node)[0]]
        else:
            slices[node] = b.reapply(node, [slices[i] for i in node.inputs])
    return slices[join.stored]


def _operand_offsets(whole: Node) -> list[int]:
    """The offsets at which the operands of a concat begin, and the extent of its axis."""
    offsets = [0]
    for i in whole.inputs:
        offsets.append(offsets[-1] + i.shape[whole.params["axis"]])
    return offsets


# -- whether they gain


def _is_realized(part: Node, by: frozenset[Node], plan: FusionPlan) -> bool:
    """Whether the kernel that writes a part computes what else would go through memory."""
    if part.prim.name == "concat_buffer" or (part in by and any(g.library is part for g in plan.groups)):
        return True
    home = _group_of(part, plan)
    return home is not None and not _scatters(part, plan) and not by.isdisjoint(home.index_of)


def _scatters(part: Node, plan: FusionPlan) -> bool:
    """Whether the kernel that writes a part scatters: it adds up in its result's memory as if this were an array."""
    home = _group_of(part, plan)
    return home is not None and (home.scatter is not None or home.scatter_source is not None)


def _group_of(part: Node, plan: FusionPlan) -> Group | None:
    return next((g for g in plan.groups if part in g.index_of), None)


def _seconds(graph: Graph, plan: FusionPlan, target: Target) -> float:
    """Seconds of memory traffic and launches."""
    readers, outputs = plan.readers(), set(graph.outputs)
    moved = starts = 0
    for group in plan.groups:
        if group.library is not None:
            continue
        starts += 1
        moved += sum(min(n.size, max(group.points, 1)) * n.dtype.size for n in group.reads if n.prim.name != "full")
        moved += sum(n.type.nbytes for n in stored_members(group, outputs, readers))
    return seconds(target, moved, launches=starts)

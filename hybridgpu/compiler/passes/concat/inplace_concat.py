# SPDX-License-Identifier: Apache-2.0
"""Joins whose parts are written where they belong.

Inside a map kernel a join is an index expression. But what other kernels compute, a row's softmax or a convolution,
would first be stored and then copied into the join by one more kernel, which moves every byte three times. Such a join
becomes the primitive ``join``: memory that its operands are parts of. The kernel of each operand stores into its part,
a library that computes one is given the strides of the whole, and no step copies.

What follows the join element by element in the copying kernel is computed by each part instead. Operands that gain
nothing, such as arguments, are copied by kernels of their own parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod

from ....dataclass import dataclass
from ...devices.gpu import GpuConstants
from ...ir.graph import Builder, Graph, Node
from ...ir.indexing import Expr, Index, const
from ...primitives import TABLE
from ...primitives.views import RESHAPES, behind
from ...target import Target
from ..fuse import Cut, FusionPlan, Group
from ..fuse.group import describe_two
from ..materialize import PRODUCTS, SCATTERS, Materialized

__all__ = ["Place", "places", "write_joins"]

#: bytes of a part that are neighbours, at least: memory is written in sectors of so many
_RUN = GpuConstants.sector_bytes
_SHARE = 0.5  #: of a join's bytes that are not moved, at least: each part is another text to compile
_ALIGNED = {"cpu": 64, "cuda": 16}  #: bytes of which kernels take their pointers to be multiples
_LIBRARY = (*PRODUCTS, "conv", "affine_conv", "conv_data")  #: primitives that a library computes into parts
_TRIES = 4  #: times that what turns out to gain nothing is left out
_PART = "part"  #: parameter of a copy: its number, so that no two parts are one node


@dataclass(frozen=True)
class Place:
    """Where an array lies as part of another: ``start`` elements behind its begin, with these ``strides``."""

    root: Node
    start: int
    strides: tuple[int, ...]

    def moved(self, target: Target) -> int:
        """How many elements a kernel's pointer is moved: to where the part begins, if vectors may begin there."""
        return 0 if self.start * self.root.dtype.size % _ALIGNED[target.name] else self.start

    def offset(self, index: Index, start: int) -> Expr:
        """The position of the element at ``index``, counted from ``start`` elements behind the begin of ``root``."""
        offset = const(self.start - start)
        for e, stride in zip(index, self.strides, strict=True):
            offset = offset + e * stride
        return offset


def places(graph: Graph) -> dict[Node, Place]:
    """Where the operands of joins lie, for joins that are operands of others in the outermost one."""
    found: dict[Node, Place] = {}
    for node in reversed(graph.nodes):
        if node.prim.name != "join":
            continue
        axis = node.params["axis"]
        mine = found.get(node) or Place(node, 0, _strides(node.shape))
        at = mine.start
        for part in node.inputs:
            found[part] = Place(mine.root, at, mine.strides)
            at += part.shape[axis] * mine.strides[axis]
    return found


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


@dataclass(frozen=True)
class _Gain:
    """What other kernels store of an operand, which they need not, and the bytes that are not moved then."""

    made: frozenset[Node]
    saved: int


@dataclass(eq=False)
class _Join:
    """A value that a map kernel stores, made of a join element by element.

    Attributes:
        stored: the value.
        whole: the join.
        group: the map kernel.
        gains: number of an operand of the join -> what it gains.
    """

    stored: Node
    whole: Node
    group: Group
    gains: dict[int, _Gain]

    @property
    def axis(self) -> int:
        axis: int = self.whole.params["axis"]
        return axis

    def parts(self) -> Iterator[tuple[int, int]]:
        """The operands of each part: (first, last + 1). Neighbours that gain nothing are one part."""
        begin = None
        for k in range(len(self.whole.inputs)):
            if k in self.gains:
                if begin is not None:
                    yield begin, k
                begin = None
                yield k, k + 1
            elif begin is None:
                begin = k
        if begin is not None:
            yield begin, len(self.whole.inputs)

    def pays(self, target: Target) -> bool:
        """Whether what is neither stored nor read takes longer than starting kernels of parts that gain nothing."""
        more = sum(first not in self.gains for first, _ in self.parts()) - 1
        return bool(self.gains) and self.saved * target.byte_seconds > more * target.launch_seconds

    def source(self) -> Node:
        """The first array that need not be stored."""
        return next(n for n in self.group.pending if any(n in g.made for g in self.gains.values()))

    @property
    def saved(self) -> int:
        """Bytes that are neither stored nor read."""
        return sum(g.saved for g in self.gains.values())


def write_joins(
    ready: Materialized,
    plan: FusionPlan,
    fused: Callable[[Materialized], FusionPlan],
    target: Target,
    kept: frozenset[int],
) -> tuple[Materialized, FusionPlan]:
    """``ready`` with joins whose parts are written where they belong, and its plan; both as they are where none gains.

    Args:
        plan: of ``ready``.
        fused: makes a plan.
        kept: numbers of results that are to be written over arguments, which other steps may still read then.
    """
    refused: list[Cut] = []
    theirs = frozenset(ready.graph.outputs[k] for k in kept)
    joins = list(_candidates(ready.graph, plan, target, theirs, refused))
    for _ in range(_TRIES):
        if not joins:
            break
        other, parts = _rewritten(ready, joins)
        found = fused(other)
        whole = [
            j for j in joins if not any(_scatters(part, found) for k, (part, _) in parts[j].items() if k not in j.gains)
        ]
        if len(whole) < len(joins):
            for join in joins:
                if join not in whole:
                    one, other_one = describe_two(join.source(), join.stored)
                    reason = f"{one} is copied into {other_one}, a part of which is scattered: that adds up in an array of its own"
                    refused.append(Cut(join.source(), join.stored, "join", reason))
            joins = whole
            continue
        failed = [(j, k) for j in joins for k in j.gains if not _gains(*parts[j][k], found)]
        if not failed:
            if _seconds(other.graph, found, target) >= _seconds(ready.graph, plan, target):
                break
            # (parts may be joins, too)
            return write_joins(other, FusionPlan(found.groups, found.cuts + refused), fused, target, kept)
        for join, k in failed:
            del join.gains[k]
        joins = [j for j in joins if j.pays(target)]
    return ready, FusionPlan(plan.groups, plan.cuts + refused)


# -- which joins


def _candidates(
    graph: Graph, plan: FusionPlan, target: Target, kept: frozenset[Node], refused: list[Cut]
) -> Iterator[_Join]:
    """What map kernels store of joins, operands of which other kernels store."""
    readers, outputs = plan.readers(), set(graph.outputs)
    homes = {n: g for g in plan.groups for n in g.at}
    libraries = frozenset(g.library for g in plan.groups if g.library is not None and g.library.prim.name in _LIBRARY)
    kernels = _Kernels(homes, libraries, readers, outputs, graph.uses(), target)
    for group in plan.groups:
        others = group.library or group.contract or group.scatter or group.updates
        if others is not None or group.reduced or group.sums or group.prologues:
            continue
        stored = [n for n in group.at if n in outputs or any(g is not group for g in readers.get(n, ()))]
        found = [j for n in stored if (j := _join_of(n, group, kernels, refused))]
        # the kernel is left with nothing to do, or is left alone
        if len(found) < len(stored) or kept.intersection(stored):
            continue
        for join in found:
            source = join.source()
            one, other = describe_two(source, join.stored)
            small = join.saved * target.byte_seconds <= target.launch_seconds
            if target.resident != "never" and join.stored in readers and small:
                reason = f"copying {one} into {other} as a step of one kernel takes less time than starting another"
                refused.append(Cut(source, join.stored, "join", reason))
            elif join.saved < _SHARE * join.stored.type.nbytes:
                reason = f"the part of {one} in {other} is so small that a text of its own would gain little"
                refused.append(Cut(source, join.stored, "join", reason))
            elif join.pays(target):
                yield join


@dataclass(frozen=True)
class _Kernels:
    """The group that computes a node, nodes that a library does, groups that read one, and the results of the graph."""

    homes: dict[Node, Group]
    libraries: frozenset[Node]
    readers: dict[Node, list[Group]]
    outputs: set[Node]
    uses: dict[Node, list[Node]]
    target: Target


def _join_of(stored: Node, group: Group, kernels: _Kernels, refused: list[Cut]) -> _Join | None:
    """The first join that ``stored`` is made of and of which an operand gains; None without any."""
    stack, seen = [stored], {stored}
    while stack:
        node = stack.pop()
        if node.prim.name == "concat":
            gains = _gaining(node, stored, group, kernels, refused)
            if gains:
                return _Join(stored, node, group, gains)
            continue
        if node.prim.family != "elementwise" or node not in group.at:
            continue
        inner = node.inputs if node is not stored or node.prim.name != "copy" else [behind(node.inputs[0], RESHAPES)]
        new = [i for i in inner if i not in seen]
        seen.update(new)
        stack += reversed(new)
    return None


def _gaining(whole: Node, stored: Node, group: Group, kernels: _Kernels, refused: list[Cut]) -> dict[int, _Gain]:
    """The operands of a join that other kernels than ``group`` store, or store what they are made of."""
    found: dict[int, _Gain] = {}
    homes = kernels.homes
    axis = whole.params["axis"]
    alone = prod(whole.shape[:axis]) == 1
    for k, operand in enumerate(whole.inputs):
        source = behind(operand, RESHAPES)
        if source.prim.family in ("view", "leaf"):
            continue
        read = group.needed(source)[1] if source in group.at else [source]
        made = frozenset(n for n in read if n in homes and homes[n] is not group)
        if operand in kernels.libraries and _alone(stored, whole, k, kernels.uses, kernels.outputs):
            reason = _why_no_part(operand, _ends(whole)[k] * prod(operand.shape[axis + 1 :]), kernels.target)
            made = frozenset() if reason else frozenset((operand,))
            if reason:
                refused.append(Cut(operand, stored, "join", reason))
        if not made:
            continue
        run = prod(operand.shape[axis:]) * stored.dtype.size
        if run < _RUN and not alone:
            one, other = describe_two(next(n for n in read if n in made), stored)
            reason = f"{one} is copied into {other}, where it has no more than {run} bytes in a row"
            refused.append(Cut(next(n for n in read if n in made), stored, "join", reason))
            continue
        others = any(n in kernels.outputs or len(kernels.readers[n]) > 1 for n in made)
        found[k] = _Gain(made, (1 if others else 2) * operand.type.nbytes)
    return found


def _why_no_part(node: Node, start: int, target: Target) -> str:
    """Why a library does not write its result ``start`` elements behind the begin of a join, '' if it does."""
    if target.name != "cuda" or node.prim.name in PRODUCTS:
        return ""
    one = describe_two(node, node)[0]
    if len(node.inputs) > 3:  # an array behind the bias
        return f"what is added to {one} would have to lie as its part of the join does"
    if start * node.dtype.size % _ALIGNED[target.name]:
        return f"the part of {one} begins at no multiple of {_ALIGNED[target.name]} bytes, which cuDNN wants"
    return ""


# -- the graph with them


def _rewritten(
    ready: Materialized, joins: Sequence[_Join]
) -> tuple[Materialized, dict[_Join, dict[int, tuple[Node, frozenset[Node]]]]]:
    """``ready`` with these joins in memory; of each part, by its first operand, what stands there and what it gains by."""
    b = Builder(TABLE)
    new: dict[Node, Node] = {n: b.input(n.type, n.params["name"]) for n in ready.graph.inputs}
    of = {j.stored: j for j in joins}
    uses = ready.graph.uses()
    parts: dict[_Join, dict[int, tuple[Node, frozenset[Node]]]] = {}
    count = 0
    for node in ready.graph.nodes:
        if node in new:
            continue
        b.prov = node.prov
        join = of.get(node)
        if join is None:
            new[node] = b.apply(node.prim, [new[i] for i in node.inputs], node.params)
            continue
        if node.prim.name == "copy":  # whoever reads it asked for it; what lies there is the value
            b.prov = node.inputs[0].prov
        operands, mine = [], parts.setdefault(join, {})
        for first, last in join.parts():
            value = _part(b, new, join, first, last)
            if not (first in join.gains and _alone(join.stored, join.whole, first, uses, ready.graph.outputs)):
                value = b.apply(TABLE["copy"], (value,), {_PART: count})
                count += 1
            operands.append(value)
            made = join.gains[first].made if first in join.gains else ()
            mine[first] = value, frozenset(new[n] for n in made)
        new[node] = b.reshape(b.apply(TABLE["join"], operands, {"axis": join.axis}), node.shape)
    graph = b.finish([behind(new[o], RESHAPES) for o in ready.graph.outputs], ready.graph.name)
    left = set(graph.nodes)
    return Materialized(graph, ready.types, frozenset(new[n] for n in ready.generated_dots) & left), parts


def _alone(stored: Node, whole: Node, k: int, uses: dict[Node, list[Node]], outputs: Collection[Node]) -> bool:
    """Whether nothing but the join ``whole``, which is ``stored``, reads its ``k``-th operand, or stores anything of it."""
    operand = whole.inputs[k]
    if stored.prim.name != "copy" or behind(stored.inputs[0], RESHAPES) is not whole:
        return False
    if operand.prim.family in ("view", "leaf") or operand in outputs or operand.prim.name in SCATTERS:
        return False
    return len(uses[operand]) == 1 and len(uses[whole]) == 1 and whole.inputs.count(operand) == 1


def _part(b: Builder, new: dict[Node, Node], join: _Join, first: int, last: int) -> Node:
    """What is stored of the operands ``first`` … ``last - 1``."""
    whole, axis = join.whole, join.axis
    ends = _ends(whole)
    low = tuple(ends[first] if k == axis else 0 for k in range(whole.ndim))
    high = tuple(ends[last] if k == axis else d for k, d in enumerate(whole.shape))
    found: dict[Node, Node] = {}

    def inner(node: Node) -> Sequence[Node]:
        """What has to be cut before ``node``, if its operands are."""
        if node is join.stored and node.prim.name == "copy":
            return [behind(node.inputs[0], RESHAPES)] if node.shape != whole.shape else node.inputs
        made = node.prim.family == "elementwise" and node in join.group.at
        return node.inputs if made else ()

    stack = [join.stored]
    while stack:
        node = stack[-1]
        needed = [i for i in inner(node) if i not in found]
        if node in found or not needed:
            stack.pop()
        if node in found:
            continue
        if needed:
            stack += needed
            continue
        if node.prim.name == "concat" and node.params["axis"] == axis and _ends(node) == ends:
            found[node] = b.concat([new[i] for i in node.inputs[first:last]], axis)
        elif not inner(node):
            found[node] = b.slice(new[node], low, high)
        elif node.prim.name == "copy":
            found[node] = found[inner(node)[0]]
        else:
            found[node] = b.apply(node.prim, [found[i] for i in node.inputs], node.params)
    return found[join.stored]


def _ends(whole: Node) -> list[int]:
    """Where the operands of a join begin, and the extent of its axis."""
    found = [0]
    for i in whole.inputs:
        found.append(found[-1] + i.shape[whole.params["axis"]])
    return found


# -- whether they gain


def _gains(part: Node, by: frozenset[Node], plan: FusionPlan) -> bool:
    """Whether the kernel that writes a part computes what else would go through memory."""
    if part.prim.name == "join" or (part in by and any(g.library is part for g in plan.groups)):
        return True
    home = _home(part, plan)
    return home is not None and not _scatters(part, plan) and not by.isdisjoint(home.at)


def _scatters(part: Node, plan: FusionPlan) -> bool:
    """Whether the kernel that writes a part scatters: it adds up in its result's memory as if this were an array."""
    home = _home(part, plan)
    return home is not None and (home.scatter is not None or home.updates is not None)


def _home(part: Node, plan: FusionPlan) -> Group | None:
    return next((g for g in plan.groups if part in g.at), None)


def _seconds(graph: Graph, plan: FusionPlan, target: Target) -> float:
    """What memory and starting kernels take."""
    readers, outputs = plan.readers(), set(graph.outputs)
    moved = starts = 0
    for group in plan.groups:
        if group.library is not None:
            continue
        starts += 1
        moved += sum(min(n.size, max(group.points, 1)) * n.dtype.size for n in group.pending if n.prim.name != "full")
        moved += sum(n.type.nbytes for n in group.at if n in outputs or any(g is not group for g in readers.get(n, ())))
    return moved * target.byte_seconds + starts * target.launch_seconds

# SPDX-License-Identifier: Apache-2.0
"""The fusion pass: one visit of the nodes, consumers before producers, with a certificate.

Every group has a *level* above the level of every group it feeds. A node may join the group with
the highest level among its consumers: all its other consumers are in groups below, so no cycle can
arise, whatever the policy says. Groups of one level cannot depend on each other, so they may merge
when they share a producer (the node then joins the merged group) or merely read the same data. A
node that is refused opens a group one level above its consumers, and the refusal is kept as a
:class:`Cut`. Each node and edge is looked at a bounded number of times: linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from math import prod

from ....dataclass import dataclass
from ...ir.graph import Graph, Node
from ...ir.indexing import Expr, Index, Var, all_vars, linearize, of_var
from ...primitives.views import RESHAPES, behind
from ...size_buckets import alike, enlarged
from ...target import Target
from ..concat.split_wide_concats import APART, TOGETHER, WHY_APART
from ..materialize import PRODUCTS, SCATTERS, exchanged, reads_views
from .conv_pool import why_not_pooled
from .full_reductions import merge_totals
from .group import CONTRACTIONS, Cut, Group, bijective, reexpress
from .group import describe as _describe
from .group import describe_two as _describe_two
from .hoist import merge_earlier
from .merge import lift, merge, merge_beside, merge_siblings, round_where_made
from .recompute import Ingredients, cost_of, made_of, pays_in_windows, worth_repeating
from .row_pattern import reduces
from .state import LaneShare, State, Why

__all__ = ["FusionPlan", "fuse"]

_PIECE = 256  #: CPU: elements of a row that are neighbours, at least, for a walk of their own
_FEW_JOINED = 3  #: CPU: arrays of a join from which on reductions read it from memory
#: CPU: how often what parts of a join share would go through memory: it is written, for which its lines are fetched
#: first, read by the loops of two parts, and what it is made of is read by one more kernel
_JOINED_WAYS = 5


@dataclass
class FusionPlan:
    """Groups in an order in which they can run, and why they are not fewer."""

    groups: list[Group]
    cuts: list[Cut]

    def readers(self) -> dict[Node, list[Group]]:
        """The groups that read what is in memory, in their order."""
        readers: dict[Node, list[Group]] = {}
        for group in self.groups:
            for node in group.pending:
                readers.setdefault(node, []).append(group)
        return readers


def fuse(
    graph: Graph,
    target: Target,
    generated_dots: frozenset[Node] = frozenset(),
    why_left: Why = lambda node: "",
    lane_share: LaneShare = lambda group, node, index: 1.0,
) -> FusionPlan:
    """Partition the nodes of ``graph`` that compute into groups.

    Args:
        graph: every output is a node that computes (see ``materialize``).
        target: limits and costs.
        generated_dots: the matrix products, convolutions and scatters for which a kernel is generated; others go to a
            library.
        why_left: a library's node -> why it does not compute what follows, in words; '' if there is nothing to say.
        lane_share: the part of a vector's lanes that loops over windows use.
    """
    state = State(graph, target, generated_dots, set(graph.outputs), why_left, lane_share)
    for node in reversed(graph.nodes):
        if node.prim.family in ("leaf", "view"):
            continue
        _place(state, node)
    merge_siblings(state)
    merge_beside(state)
    if target.name == "cuda":  # a host's loops have no other form for what is reduced on the way
        merge_earlier(state)
    round_where_made(state)
    merge_totals(state)
    groups = [g for g in state.groups if g.merged_into is None]
    groups.sort(key=lambda g: (-g.level, -g.serial))
    # what is stored in its part of a join is where it belongs: no cut
    return FusionPlan(groups, [c for c in state.cuts if c.consumer.prim.name != "join"])


def _place(state: State, node: Node) -> None:
    consumers = state.resolve(node)
    level = 1 + max((g.level for g in consumers), default=-1)
    if lift(state, node, consumers):
        consumers = state.resolve(node)
    if not _is_member(state, node):
        if node.prim.name == "join":
            _say_why(state, node, consumers, "join", f"parts of {_describe(node)} are written by kernels of their own")
        else:
            reason = _as_a_whole(node, "leaves its result in memory")
            words = state.why_left(node) if consumers else ""
            _say_why(state, node, consumers, "library", f"{reason}: {words}" if words else reason)
        group = state.open(level)
        group.library = node
        state.homes[node] = group
        for i in node.inputs:
            read = exchanged(node, i) or (behind(i) if node.prim.name in PRODUCTS else behind(i, RESHAPES))
            group.pending.setdefault(read, [])
            group.memory[read] = node
            state.readers.setdefault(read, {})[group] = None
        return
    if node.prim.name in SCATTERS:
        _say_why(
            state,
            node,
            consumers,
            "scatter",
            f"{_describe(node)} scatters into memory, and is complete only at the end",
        )
        group = state.open(level)
        group.scatter = node
        state.add(group, node, group.new_vars(node.inputs[-2].shape))
        return
    if consumers:
        # those of the largest domains first: others may be values of their rows
        top = sorted((g for g in consumers if g.level == level - 1), key=lambda g: -g.points)
        while len(top) > 1:
            cut = merge(state, top[0], top[1], node)
            if cut:
                state.cuts.append(cut)
                break
            top.pop(1)
        else:
            lower = [g for g in state.resolve(node) if g is not top[0]]
            if lower and _repeat(state, node, lower, top[0]):
                return
            cut = _admit(state, top[0], node, needed_elsewhere=bool(lower) or node in state.outputs)
            if cut is None:
                one, here = _describe_two(node, top[0].anchor)
                _say_why(
                    state,
                    node,
                    lower,
                    "shared",
                    f"{one} is computed in the kernel of {here}, which runs before",
                )
                return
            state.cuts.append(cut)
        readers = state.resolve(node)
        if len(readers) > 1 and _repeat(state, node, readers, None):
            return
        others = [g for g in readers if cut.producer is not node or g.anchor is not cut.consumer]
        _say_why(state, node, others, "apart", f"{_describe(node)} has a kernel of its own, since {cut.reason}")
    group = state.open(level)
    if node.prim.name in CONTRACTIONS:
        # their kernels know variables by the axis of the result
        axes = [Var(f"i{k}", d) for k, d in enumerate(node.shape)]
        group.vars = [v for v in axes if v.extent > 1]
        group.contract = node
        index = tuple(map(of_var, axes))
    else:
        index = group.new_vars(node.shape)
    if node.prim.family == "reduce":
        group.reduced = _reduced_vars(group, node)
    state.add(group, node, index)


def _repeat(state: State, node: Node, readers: list[Group], computing: Group | None) -> bool:
    """Let all of ``readers`` (and ``computing``, which would write it for them) compute ``node``, if that is cheaper."""
    groups = readers if computing is None else [*readers, computing]
    if node.prim.family != "elementwise" or node in state.outputs:
        return False
    if any(_no_room(state, g, node) or _too_often(state, g, node, needed_elsewhere=False) for g in groups):
        return False
    made = _made_of(state, node)
    if made is None or not worth_repeating(
        node, made, readers, computing, lambda g: _executed(state, g, node), state.target
    ):
        return False
    for g in groups:
        for index in list(g.pending[node]):
            state.add(g, node, index)
    return True


def _made_of(state: State, node: Node) -> Ingredients | None:
    return made_of(node, state.outputs, lambda n: n.prim.name not in SCATTERS and _is_member(state, n))


def _in_windows(group: Group, node: Node) -> bool:
    """True if loops over windows read ``node``: each element once for each window that it lies in."""
    if group.contract is not None or any(all_vars(i) != set(group.vars) for i in group.pending[node]):
        return False
    reduced = set(group.reduced)
    return any(reduced & e.vars and e.vars - reduced for i in group.pending[node] for e in i)


def _say_why(state: State, node: Node, readers: list[Group], rule: str, reason: str) -> None:
    """Keep the reason why groups read ``node`` from memory."""
    state.cuts += [Cut(node, g.anchor, rule, reason) for g in readers]


def _is_member(state: State, node: Node) -> bool:
    if node.prim.name in CONTRACTIONS or node.prim.name in SCATTERS:
        return node in state.generated_dots
    return node.prim.name == "random_bits" or reads_views(node)


def _reduced_vars(group: Group, node: Node) -> list[Var]:
    shape = node.inputs[0].shape
    before = len(group.vars)
    group.new_vars(shape[a] for a in node.params["axes"])
    return group.vars[before:]


# -- joining a group


def _as_a_whole(node: Node, does: str) -> str:
    """What a node does that no kernel contains."""
    return f"a loop {does}" if node.prim.family == "loop" else f"{node.prim.name} is a library call, which {does}"


def _no_room(state: State, group: Group, node: Node) -> Cut | None:
    """Why ``group`` cannot take ``node``, whatever it is."""

    def refuse(rule: str, reason: str) -> Cut:
        return Cut(node, group.anchor, rule, reason)

    if group.library is not None:
        return refuse("library", _as_a_whole(group.library, "takes its operands from memory"))
    if node in group.memory:
        how = "many times" if group.contract is not None else "at positions known only at run time"
        how = "as a whole, before it writes rows of it anew" if group.scatter is not None else how
        reader, read = _describe_two(group.memory[node], node)
        return refuse("memory", f"{reader} reads {read} {how}")
    if APART in node.params:
        return refuse(node.params[APART], WHY_APART[node.params[APART]])
    if len(group.at) >= state.target.max_nodes:
        return refuse("size", f"the kernel already holds {len(group.at)} operations")
    if len(group.pending) + len(node.inputs) > state.target.max_arguments:
        return refuse("arguments", f"the kernel would read more than {state.target.max_arguments} arrays")
    return None


def _admit(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    """Make ``node`` a member of ``group``, or say why not (leaving the group valid)."""
    cut = _no_room(state, group, node)
    if cut is not None:
        return cut
    if group.scatter is not None and (node.prim.family == "reduce" or node.prim.name in CONTRACTIONS):
        return Cut(node, group.anchor, "scatter", "a kernel that scatters takes elementwise work on its operands only")
    if node.prim.family == "reduce":
        return _admit_reduction(state, group, node, needed_elsewhere)
    if node.prim.name in CONTRACTIONS:
        return _admit_contraction(state, group, node, needed_elsewhere)
    if group.contract is not None and node.prim.name in ("take", "take_along"):
        return Cut(node, group.anchor, "epilogue", "the epilogue of a contraction does not gather")
    return _admit_elementwise(state, group, node, needed_elsewhere)


def _admit_elementwise(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    wanted, reduced = group.pending[node], group.reduced
    if state.target.name == "cpu" and reduced and _reads_join(node) and not _follows_reduction(node):
        reason = f"{_describe(node)} reads a join, for which loops are cut, but not those of a reduction"
        return Cut(node, group.anchor, "join", reason)
    if needed_elsewhere:
        offset = group.refine(node)
        order = bijective(offset, node.size) if offset is not None else None
        visited = order is not None and (
            set(order) in (set(group.vars), set(group.rows)) or _makes_rows(state, group, node, order)
        )
        if group.contract is not None and not group.reduced:  # whose kernel knows variables by the axis of the result
            _in_axes(group, linearize(group.at[group.contract], group.contract.shape), group.contract)
        if not visited:
            return Cut(
                node,
                group.anchor,
                "store",
                f"{_describe(node)} is also needed in memory, and this kernel would not visit each element once",
            )
        wanted = group.pending[node]
    cut = _too_often(state, group, node, needed_elsewhere)
    if cut is not None:
        group.reduced = reduced
        return cut
    for index in list(wanted):
        state.add(group, node, index)
    return None


def _reads_join(node: Node) -> bool:
    """True if ``node`` reads a join of several arrays, or of joins: each element would be chosen among all of them."""
    for i in map(behind, node.inputs):
        stack, count = [i], 0
        while stack and count < _FEW_JOINED:
            n = stack.pop()
            if n.prim.name == "concat":
                stack += map(behind, n.inputs)
            else:
                count += 1
        if count >= _FEW_JOINED:
            return True
    return False


def _follows_reduction(node: Node) -> bool:
    """True if a reduction is part of what ``node`` is made of, as the mean is of a deviation from it."""
    stack, seen = [node], {node}
    while stack:
        for i in map(behind, stack.pop().inputs):
            if i.prim.family == "reduce":
                return True
            if i.prim.family == "elementwise" and i not in seen:
                seen.add(i)
                stack.append(i)
    return False


def _makes_rows(state: State, group: Group, node: Node, order: list[Var]) -> bool:
    """Let ``group`` walk rows if ``node`` is a value of each row, made by a reduction that is still to be placed.

    So a mean that is needed in memory, too, does not keep what it normalises from its kernel. A host reads short pieces
    that lie far apart slowly: one more walk over them takes longer than one over all of memory in order.
    """
    rest = [v for v in group.vars if v not in order]
    count = group.points // max(node.size, 1)
    if group.reduced or group.contract or group.scatter or not reduces([node], node.size, count):
        return False
    piece = prod(v.extent for v in takewhile(lambda v: v not in order, reversed(group.vars)))
    anyway = any(n.prim.family == "reduce" and n.inputs[0].size == count * n.size for n in group.pending)
    if state.target.name == "cpu" and 1 < piece < min(count, _PIECE) and not anyway:
        return False
    group.reduced = rest
    return True


def _executed(state: State, group: Group, node: Node) -> int:
    """How often ``group`` would compute ``node``."""
    nested = state.target.name == "cpu"
    every = sum(_executions(group, node, index, nested) for index in group.pending[node])
    return round(every * group.shares.get(node, 1.0))


def _too_often(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    """The reason why ``node`` should not be computed in ``group``, if that costs more than a way through memory."""
    if TOGETHER in node.params:
        return None
    executed = _executed(state, group, node)
    target = state.target
    if target.name == "cpu" and not needed_elsewhere and _in_windows(group, node):
        lanes = min(map(partial(state.lane_share, group, node), group.pending[node]))
        if (executed <= node.size and lanes == 1) or pays_in_windows(
            node, _made_of(state, node), executed / lanes, target
        ):
            return None
        times = (
            f"{executed / node.size:.1f} times an element" if executed > node.size else "in a part of a vector's lanes"
        )
        return Cut(
            node,
            group.anchor,
            "recompute",
            f"{_describe(node)} would be computed {times} of windows, which costs more than keeping it in memory",
        )
    extra = (executed - node.size) * cost_of(node)
    ways = _JOINED_WAYS if target.name == "cpu" and group.shares.get(node, 1.0) < 1 else 2
    saved = ways * node.type.nbytes * target.byte_seconds * (0 if needed_elsewhere else 1)
    saved += target.launch_seconds / enlarged(node.shape)
    if extra * target.op_seconds > saved + node.type.nbytes * target.byte_seconds:
        return Cut(
            node,
            group.anchor,
            "recompute",
            f"{_describe(node)} would be computed {executed / max(node.size, 1):.0f} times an element, "
            "which costs more than keeping it in memory",
        )
    return None


def _executions(group: Group, node: Node, index: Index, nested: bool) -> int:
    """How often ``node`` would be computed, counting once a row if a reduction will make rows of it.

    In ``nested`` loops without reductions (those of a host), what is the same for all of an inner one is outside it.

    Consumers come first: what follows a reduction is placed before the reduction itself, so it is
    looked for among the operands of ``node`` that have its size.
    """
    if group.reduced or group.contract:
        used = all_vars(index)
        counted = not group.reduced or group.vars[0] in group.rows or used & set(group.reduced)
        return _for_a_batch(group.executions(index), group.vars[:1] if counted else [], used)
    rest = group.points // max(node.size, 1)
    used = all_vars(index)
    rows = rest > 1 and group.scatter is None and used != set(group.vars)
    if rows and reduces([*group.pending, node], node.size, rest, True):
        return node.size
    if nested:
        inner = next((k for k, v in enumerate(reversed(group.vars)) if v in used), len(group.vars))
        loops = group.vars[: len(group.vars) - inner]
        return _for_a_batch(prod(v.extent for v in loops), loops, used)
    return group.executions(index)


def _for_a_batch(times: int, loops: Sequence[Var], used: frozenset[Var]) -> int:
    """``times`` as it decides: what only an outermost loop repeats counts as in a batch of one of few sizes."""
    if not loops or loops[0] in used:
        return times
    return times // loops[0].extent * alike(loops[0].extent)


def _admit_reduction(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    operand = node.inputs[0]
    if group.contract is not None:
        return Cut(node, group.anchor, "epilogue", "the epilogue of a contraction does not hold reductions")
    if node.size == 0 or operand.size == 0:
        return Cut(node, group.anchor, "empty", "an empty array is reduced on its own")
    offset = group.refine(node)
    order = bijective(offset, node.size) if offset is not None else None
    if order is None:
        return Cut(
            node,
            group.anchor,
            "rows",
            f"{_describe(group.anchor)} does not read the results of the reduction row by row",
        )
    count = operand.size // node.size
    rest = [v for v in group.vars if v not in order]
    extents = prod(v.extent for v in rest)
    if group.reduced:
        if set(rest) != set(group.reduced) or extents != count:
            return Cut(node, group.anchor, "pattern", "the kernel already reduces over other axes")
    elif rest:
        if extents != count:
            return Cut(
                node, group.anchor, "domain", "the reduction runs over a different number of elements than its reader"
            )
        group.reduced = rest
    else:
        group.reduced = _reduced_vars(group, node)
    state.add(group, node, group.pending[node][0])
    return None


def _admit_contraction(state: State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    if group.contract is None and group.reduced and node.prim.name == "conv" and state.target.name == "cuda":
        why = why_not_pooled(group, node, needed_elsewhere)
        if why is not None:
            return Cut(node, group.anchor, "pool", why)
        group.contract = node
        state.add(group, node, group.pending[node][0])
        return None
    if group.contract is not None or group.reduced:
        return Cut(node, group.anchor, "pattern", "the kernel already contains a contraction or a reduction")
    offset = group.refine(node)
    order = bijective(offset, node.size) if offset is not None else None
    if offset is None or order is None or set(order) != set(group.vars):
        if group.points > node.size:  # such as a join with something else
            why = "has more elements than the contraction, whose kernel computes one for each of its own results"
        else:
            why = "does not read each result of the contraction once, forwards"
        return Cut(node, group.anchor, "epilogue", f"{_describe(group.anchor)} {why}")
    _in_axes(group, offset, node)
    group.contract = node
    state.add(group, node, group.pending[node][0])
    return None


def _in_axes(group: Group, offset: Expr, node: Node) -> None:
    """Let the variables of ``group`` be the axes of ``node``, which lies at ``offset``."""
    group.vars, table = reexpress(offset, node.shape)
    group.replace(table)

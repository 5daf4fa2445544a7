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

from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from math import prod

from ....dataclass import dataclass, field
from ...ir.graph import Graph, Node
from ...schedule.indexing import Expr, Index, Var, alike, all_vars, enlarged, linearize, of_var
from ...target import Target
from ..joins import APART, TOGETHER, WHY_APART
from ..materialize import PRODUCTS, SCATTERS, base, reads_views
from .beside import beside, fits
from .duplicate import made_of, worth_repeating
from .group import CONTRACTIONS, Cut, Group, align, bijective, reexpress, source
from .group import describe as _describe
from .group import describe_two as _describe_two
from .pooled import why_not_pooled

__all__ = ["FusionPlan", "fuse"]

_LOOK_AHEAD = 24  #: operands that are looked at for a reduction
_PIECE = 256  #: CPU: elements of a row that are neighbours, at least, for a walk of their own
_Why = Callable[[Node], str]
_SIBLINGS = 4  #: groups of one level that a further one is tried to be merged with


@dataclass
class FusionPlan:
    """Groups in an order in which they can run, and why they are not fewer."""

    groups: list[Group]
    cuts: list[Cut]


@dataclass
class _State:
    graph: Graph
    target: Target
    generated_dots: frozenset[Node]
    outputs: set[Node]
    why_left: _Why
    readers: dict[Node, dict[Group, None]] = field(default_factory=dict)
    homes: dict[Node, Group] = field(default_factory=dict)  #: node -> the group that computes it
    groups: list[Group] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)

    def resolve(self, node: Node) -> list[Group]:
        """The groups that read ``node``, merged ones once."""
        return list(dict.fromkeys(map(_merged, self.readers.get(node, ()))))

    def open(self, level: int) -> Group:
        group = Group(len(self.groups), level)
        self.groups.append(group)
        return group

    def add(self, group: Group, node: Node, index: Index) -> None:
        group.add(node, index)
        self.homes[node] = group
        for read in group.pending:
            self.readers.setdefault(read, {})[group] = None


def _merged(group: Group) -> Group:
    """The group that ``group`` is part of by now."""
    while group.merged_into is not None:
        group = group.merged_into
    return group


def fuse(
    graph: Graph, target: Target, generated_dots: frozenset[Node] = frozenset(), why_left: _Why = lambda node: ""
) -> FusionPlan:
    """Partition the nodes of ``graph`` that compute into groups.

    Args:
        graph: every output is a node that computes (see ``materialize``).
        target: limits and costs.
        generated_dots: the matrix products, convolutions and scatters for which a kernel is generated; others go to a
            library.
        why_left: a library's node -> why it does not compute what follows, in words; '' if there is nothing to say.
    """
    state = _State(graph, target, generated_dots, set(graph.outputs), why_left)
    for node in reversed(graph.nodes):
        if node.prim.family in ("leaf", "view"):
            continue
        _place(state, node)
    _merge_siblings(state)
    _merge_beside(state)
    groups = [g for g in state.groups if g.merged_into is None]
    groups.sort(key=lambda g: (-g.level, -g.serial))
    return FusionPlan(groups, state.cuts)


def _place(state: _State, node: Node) -> None:
    consumers = state.resolve(node)
    level = 1 + max((g.level for g in consumers), default=-1)
    if _lift(state, node, consumers):
        consumers = state.resolve(node)
    if not _is_member(state, node):
        reason = f"{node.prim.name} is a library call, which leaves its result in memory"
        words = state.why_left(node) if consumers else ""
        _say_why(state, node, consumers, "library", f"{reason}: {words}" if words else reason)
        group = state.open(level)
        group.library = node
        state.homes[node] = group
        for i in node.inputs:
            read = source(i) if node.prim.name in PRODUCTS else base(i)
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
            cut = _merge(state, top[0], top[1], node)
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


def _repeat(state: _State, node: Node, readers: list[Group], computing: Group | None) -> bool:
    """Let all of ``readers`` (and ``computing``, which would write it for them) compute ``node``, if that is cheaper."""
    groups = readers if computing is None else [*readers, computing]
    if node.prim.family != "elementwise" or node in state.outputs:
        return False
    if any(_no_room(state, g, node) or _too_often(state, g, node, needed_elsewhere=False) for g in groups):
        return False
    made = made_of(node, state.outputs, lambda n: n.prim.name not in SCATTERS and _is_member(state, n))
    if made is None or not worth_repeating(
        node, made, readers, computing, lambda g: _executed(state, g, node), state.target
    ):
        return False
    for g in groups:
        for index in list(g.pending[node]):
            state.add(g, node, index)
    return True


def _say_why(state: _State, node: Node, readers: list[Group], rule: str, reason: str) -> None:
    """Keep the reason why groups read ``node`` from memory."""
    state.cuts += [Cut(node, g.anchor, rule, reason) for g in readers]


def _is_member(state: _State, node: Node) -> bool:
    if node.prim.name in CONTRACTIONS or node.prim.name in SCATTERS:
        return node in state.generated_dots
    return node.prim.name == "random_bits" or reads_views(node)


def _reduced_vars(group: Group, node: Node) -> list[Var]:
    shape = node.inputs[0].shape
    before = len(group.vars)
    group.new_vars(shape[a] for a in node.params["axes"])
    return group.vars[before:]


# -- joining a group


def _no_room(state: _State, group: Group, node: Node) -> Cut | None:
    """Why ``group`` cannot take ``node``, whatever it is."""

    def refuse(rule: str, reason: str) -> Cut:
        return Cut(node, group.anchor, rule, reason)

    if group.library is not None:
        return refuse("library", f"{group.library.prim.name} is a library call, which takes its operands from memory")
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


def _admit(state: _State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
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


def _admit_elementwise(state: _State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    wanted, reduced = group.pending[node], group.reduced
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


def _makes_rows(state: _State, group: Group, node: Node, order: list[Var]) -> bool:
    """Let ``group`` walk rows if ``node`` is a value of each row, made by a reduction that is still to be placed.

    So a mean that is needed in memory, too, does not keep what it normalises from its kernel. A host reads short pieces
    that lie far apart slowly: one more walk over them takes longer than one over all of memory in order.
    """
    rest = [v for v in group.vars if v not in order]
    count = group.points // max(node.size, 1)
    if group.reduced or group.contract or group.scatter or not _reduces([node], node.size, count):
        return False
    piece = prod(v.extent for v in takewhile(lambda v: v not in order, reversed(group.vars)))
    anyway = any(n.prim.family == "reduce" and n.inputs[0].size == count * n.size for n in group.pending)
    if state.target.name == "cpu" and 1 < piece < min(count, _PIECE) and not anyway:
        return False
    group.reduced = rest
    return True


def _has_rows(group: Group, node: Node, order: list[Var]) -> bool:
    """True if ``group`` walks rows, or is going to, of each of which ``node`` is a value."""
    if group.reduced:
        return set(order) == set(group.rows)
    return _reduces([node], node.size, group.points // max(node.size, 1))


def _reduces(nodes: Sequence[Node], size: int, count: int, rows: bool = False) -> bool:
    """True if a reduction of ``count`` elements to each of ``size`` results is found on the way to ``nodes``.

    Consumers come first: what follows a reduction is placed before the reduction itself. Operands of the results' size
    are followed, and with ``rows`` those of the size of what is reduced, after them.
    """
    frontier: deque[Node] = deque()
    seen: set[Node] = set()

    def follow(found: Sequence[Node]) -> None:
        for n in found:
            if n not in seen and n.size == size:
                frontier.append(n)
            elif n not in seen and rows and n.size == count * size:
                frontier.appendleft(n)
            seen.add(n)

    follow(nodes)
    for _ in range(_LOOK_AHEAD):
        if not frontier:
            break
        n = frontier.pop()
        if n.prim.family == "reduce" and n.size == size and n.inputs[0].size == count * size:
            return True
        if n.prim.family in ("elementwise", "view"):
            follow(n.inputs)
    return False


def _executed(state: _State, group: Group, node: Node) -> int:
    """How often ``group`` would compute ``node``."""
    nested = state.target.name == "cpu"
    every = sum(_executions(group, node, index, nested) for index in group.pending[node])
    return round(every * group.shares.get(node, 1.0))


def _too_often(state: _State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
    """The reason why ``node`` should not be computed in ``group``, if that costs more than a way through memory."""
    if TOGETHER in node.params:
        return None
    executed = _executed(state, group, node)
    extra = (executed - node.size) * node.prim.cost
    target = state.target
    saved = 2 * node.type.nbytes * target.byte_seconds * (0 if needed_elsewhere else 1)
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
    if rows and _reduces([*group.pending, node], node.size, rest, True):
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


def _admit_reduction(state: _State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
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


def _admit_contraction(state: _State, group: Group, node: Node, needed_elsewhere: bool) -> Cut | None:
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
        reason = f"{_describe(group.anchor)} does not read each result of the contraction once"
        return Cut(node, group.anchor, "epilogue", reason)
    _in_axes(group, offset, node)
    group.contract = node
    state.add(group, node, group.pending[node][0])
    return None


def _in_axes(group: Group, offset: Expr, node: Node) -> None:
    """Let the variables of ``group`` be the axes of ``node``, which lies at ``offset``."""
    group.vars, table = reexpress(offset, node.shape)
    group.replace(table)


# -- merging groups of one level


def _merge(state: _State, a: Group, b: Group, shared: Node, only_beside: bool = False) -> Cut | None:
    """Merge ``b`` into ``a`` so that both read ``shared`` at one index, or say why not.

    With ``only_beside`` one of them has to walk rows, and the other columns of the same domain.
    """

    def refuse(rule: str, reason: str) -> Cut:
        return Cut(a.anchor, b.anchor, rule, reason)

    if a.library or b.library or a.contract or b.contract:
        return refuse("kind", "contractions and library calls do not share a kernel with their siblings")
    if a.scatter or b.scatter:
        return refuse("kind", "a kernel that scatters is not shared with its siblings")
    if len(a.at) + len(b.at) > state.target.max_nodes:
        return refuse("size", "together the kernels would hold too many operations")
    if len({**a.pending, **b.pending}) > state.target.max_arguments:
        return refuse("arguments", f"together the kernels would read more than {state.target.max_arguments} arrays")
    found = beside(a, b, shared, state.target)
    if isinstance(found, Cut):
        return found
    table = found.table if found else None if only_beside else _correspondence(a, b, shared)
    if table is not None and a.sums and b.sums:
        too_many = fits(len(a.sums) + len(b.sums), a.reduced, next(iter(a.sums)), state.target)
        if too_many:
            return refuse("beside", f"sums are taken on the way over rows, {too_many}")
    if table is None:
        one, other = _describe_two(a.anchor, b.anchor)
        return refuse("domain", f"{one} and {other} run over {shared.prim.name} differently")
    b.replace({v: of_var(w) for v, w in table.items()})
    if found:
        a.reduced = found.reduced
        a.sums.update(dict.fromkeys(found.sums))
    elif b.reduced and not a.reduced:
        a.reduced = [table[v] for v in b.reduced]
    a.sums.update(b.sums)
    a.at.update(b.at)
    for node, wanted in b.pending.items():
        if node in a.at:
            continue
        shares = [g.shares.get(node, 1.0) for g in (a, b) if node in g.pending]
        a.shares[node] = max(shares)
        mine = a.pending.setdefault(node, [])
        mine.extend(i for i in wanted if i not in mine)
    a.memory.update(b.memory)
    b.merged_into = a
    for node in b.pending:
        readers = state.readers.get(node)
        if readers is not None:
            readers.pop(b, None)
            readers[a] = None
    return None


def _correspondence(a: Group, b: Group, shared: Node) -> dict[Var, Var] | None:
    """The variables of ``b`` -> those of ``a`` under which both read ``shared`` at the same place.

    ``a`` may read it once a row, if it is made by a reduction over rows: then ``b`` has values of these rows.
    """
    orders: list[list[Var]] = []
    for g in (a, b):
        offset: Expr | None = g.refine(shared)
        order = bijective(offset, shared.size) if offset is not None else None
        if order is None or (set(order) != set(g.vars) and (g is b or b.reduced or not _has_rows(a, shared, order))):
            return None
        orders.append(order)
    if len(orders[0]) != len(orders[1]) and not align(a, b, orders, shared):
        return None
    if [v.extent for v in orders[0]] != [v.extent for v in orders[1]]:
        return None
    table = dict(zip(orders[1], orders[0], strict=True))
    if len(table) < len(a.vars):
        a.reduced = [v for v in a.vars if v not in orders[0]]
        return table
    if a.reduced and b.reduced and {table[v] for v in b.reduced} != set(a.reduced):
        return None
    return table


def _merge_siblings(state: _State) -> None:
    """Groups of one level that run over the same array in the same way become one kernel."""
    for node in state.graph.nodes:
        if node not in state.readers or (node.prim.family == "leaf" and node.prim.name != "input"):
            continue
        by_level: dict[int, list[Group]] = {}
        for g in state.resolve(node):
            if g.library or g.contract or g.scatter or node not in g.pending or len(g.pending[node]) != 1:
                continue
            if node in g.memory and node.prim.name != "input":  # an input always is
                continue
            met = by_level.setdefault(g.level, [])
            whole = all_vars(g.pending[node][0]) == set(g.vars)
            for other in met[:_SIBLINGS]:
                # rows may be few: reading an argument once is no reason to make a map as slow as a reduction
                alike = node.prim.name != "input" or bool(other.reduced) == bool(g.reduced)
                if whole and alike and other.points == g.points and _merge(state, other, g, node) is None:
                    break
            else:
                met.append(g)


# -- sums over all rows


def _rises(state: _State, group: Group, level: int, beside: Group) -> bool:
    """True if ``group`` may run at a higher ``level``: all that it reads is there, or made by the group ``beside``."""
    for node in group.pending:
        home = state.homes.get(node)
        if home is not None and _merged(home) is not beside and _merged(home).level <= level:
            return False
    return True


def _lift(state: _State, node: Node, consumers: Sequence[Group]) -> bool:
    """Merge sums along columns into the rows that read ``node``, too, but run earlier; True if there are any.

    Results of a program, as slopes are, need not wait for their level: what nobody reads may be computed early.
    """
    top = max((g.level for g in consumers), default=0)
    highest = [g for g in consumers if g.level == top and g.reduced]
    lifted = False
    for low in consumers:
        for high in highest:
            may = low.level < top and low.reduced and _rises(state, low, top, high)
            if may and _merge(state, high, low, node, only_beside=True) is None:
                lifted = True
                break
    return lifted


def _merge_beside(state: _State) -> None:
    """Sums along columns become part of the kernel that walks the rows of an array, or makes it, at whatever level."""
    for node in state.graph.nodes:
        readers = [g for g in state.resolve(node) if g.reduced]
        home = state.homes.get(node)
        made = [_merged(home)] if home is not None and _merged(home).reduced else []
        if not readers or len(readers) + len(made) < 2:
            continue
        groups = sorted({*readers[:_SIBLINGS], *made}, key=lambda g: (-g.level, g.serial))
        for k, high in enumerate(groups):
            for low in groups[k + 1 :]:
                if high.merged_into is None and low.merged_into is None and _rises(state, low, high.level, high):
                    cut = _merge(state, high, low, node, only_beside=True)
                    if cut is not None and cut.rule == "beside" and cut not in state.cuts:
                        state.cuts.append(cut)

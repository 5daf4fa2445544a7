# SPDX-License-Identifier: Apache-2.0
"""A fusion group: nodes that become one kernel, and where in its loops each of them is computed.

A group has a *domain*, a list of loop variables. Some of them may be *reduced*; the others are the
*rows*. Every member has an index, its position in its own tensor as expressions of the loop
variables. A member whose index uses no reduced variable is computed once a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from ....dataclass import dataclass, field
from ...ir.graph import Node
from ...ir.indexing import (
    ZERO,
    Expr,
    Index,
    Opaque,
    Operand,
    Quotient,
    Remainder,
    Var,
    all_vars,
    delinearize,
    divide,
    linearize,
    modulo,
    of_var,
    operands,
    substitute,
)
from ...primitives.views import behind
from ..materialize import SCATTERS

__all__ = [
    "CONTRACTIONS",
    "Cut",
    "Group",
    "Read",
    "align",
    "bijective",
    "describe",
    "describe_two",
    "destination",
    "positions",
    "reads",
    "told_apart",
]

_MOST_JOINED = 12  #: operands of a join whose loops are cut (schedule/map_cuda, schedule/map_cpu)
_SHORT = 32  #: pieces of an innermost loop that are not cut

CONTRACTIONS = ("dot", "conv")  #: primitives whose kernels take what follows as an epilogue


@dataclass(frozen=True)
class Cut:
    """Why two nodes are not in one kernel.

    Attributes:
        producer, consumer: the two parties.
        rule: a short name of the rule that refused.
        reason: a sentence for people.
    """

    producer: Node
    consumer: Node
    rule: str
    reason: str


@dataclass(frozen=True)
class Read:
    """``node`` is read at ``index``; a read that is not fusable needs it in memory.

    ``share`` is the part of the reader's elements that read it at all: joins and pads choose.
    """

    node: Node
    index: Index
    fusable: bool
    share: float = 1.0


@dataclass(eq=False)
class Group:
    """One future kernel.

    Attributes:
        serial: creation order.
        level: every group has a higher level than every group it feeds.
        vars: the domain, outermost first.
        reduced: the variables that reductions run over, but for those of ``sums``.
        sums: members that add up over all rows instead, a sum for each element of a row ("sums beside rows").
        totals: members that reduce a value of each row over all rows.
        at: member -> its index.
        pending: node outside (or not yet inside) -> the indices at which members read it.
        memory: nodes that must lie in memory to be read, with the member that reads each so.
        shares: the part of the domain where a node is read, for those that are not read everywhere.
        contract: the dot or conv whose epilogue this group is, if any.
        scatter: the node whose updates this group computes and scatters, if any; its index is that of an update.
        library: the node that a library computes, or a join of what others store, alone in its group.
        updates: the group that scatters the table whose elements this group's kernel then computes with, if any.
        prologues: position of an operand of the product -> the group whose work it does as it loads the operand.
        merged_into: the group that took this one over, if any.
    """

    serial: int
    level: int
    vars: list[Var] = field(default_factory=list)
    reduced: list[Var] = field(default_factory=list)
    sums: dict[Node, None] = field(default_factory=dict)
    totals: dict[Node, None] = field(default_factory=dict)
    at: dict[Node, Index] = field(default_factory=dict)
    pending: dict[Node, list[Index]] = field(default_factory=dict)
    memory: dict[Node, Node] = field(default_factory=dict)
    shares: dict[Node, float] = field(default_factory=dict)
    contract: Node | None = None
    scatter: Node | None = None
    library: Node | None = None
    updates: Group | None = None
    prologues: dict[int, Group] = field(default_factory=dict)
    merged_into: Group | None = None

    @property
    def anchor(self) -> Node:
        """A member to name the group by: its first (most downstream) node."""
        return next(iter(self.at)) if self.at else self.library  # type: ignore[return-value]

    @property
    def join(self) -> Node | None:
        """The join in memory, parts of which others store, that is this group: no step computes it."""
        return self.library if self.library is not None and self.library.prim.name == "join" else None

    def needed(self, node: Node) -> tuple[list[Node], list[Node]]:
        """The members that ``node`` is made of, and the arrays and constants that these read."""
        members: dict[Node, None] = {}
        read: dict[Node, None] = {}
        stack = [node]
        while stack:
            n = stack.pop()
            if n in self.at:
                if n not in members:
                    members[n] = None
                    stack += n.inputs
            elif n.prim.family == "view":
                stack += n.inputs
            else:
                read[n] = None
        return list(members), list(read)

    @property
    def members(self) -> list[Node]:
        """What it computes, an operand of its product included."""
        found = dict.fromkeys(self.updates.members if self.updates else ())
        found |= dict.fromkeys(self.at)
        for k, producer in self.prologues.items():
            assert self.contract is not None
            found |= dict.fromkeys(producer.needed(behind(self.contract.inputs[k]))[0])
        return list(found)

    @property
    def rows(self) -> list[Var]:
        return [v for v in self.vars if v not in self.reduced]

    @property
    def points(self) -> int:
        """Number of points of the whole domain."""
        return prod(v.extent for v in self.vars)

    def executions(self, index: Index) -> int:
        """How often a member at ``index`` is computed."""
        if not self.reduced or all_vars(index) & set(self.reduced):
            return self.points
        return prod(v.extent for v in self.rows)

    def new_vars(self, extents: Iterable[int]) -> Index:
        """Add a variable for each extent above 1; the index made of them."""
        index = []
        for extent in extents:
            if extent == 1:
                index.append(ZERO)
                continue
            var = Var(f"i{len(self.vars)}", extent)
            self.vars.append(var)
            index.append(of_var(var))
        return tuple(index)

    def add(self, node: Node, index: Index) -> None:
        """Make ``node`` a member computed at ``index`` and note what it reads."""
        self.pending.pop(node, None)
        self.at[node] = index
        mine = self.shares.get(node, 1.0)
        for read in reads(self, node, index):
            if not read.fusable:
                self.memory.setdefault(read.node, node)
            if read.node not in self.pending:
                self.shares[read.node] = read.share * mine
            else:
                self.shares[read.node] = max(read.share * mine, self.shares.get(read.node, 1.0))
            wanted = self.pending.setdefault(read.node, [])
            if read.index not in wanted:
                wanted.append(read.index)

    # -- changes of variables

    def replace(self, table: dict[Var, Expr]) -> None:
        """Substitute loop variables in every index."""
        cache: dict[Index, Index] = {}
        read: dict[Opaque, Expr] = {}

        def renew_read(atom: Opaque) -> Expr:
            if atom not in read:
                used = all_vars(substitute(of_var(v), table) for v in atom.value.vars)
                read[atom] = Expr(((Opaque(_Position(used), atom.low, atom.high), 1),))
            return read[atom]

        def renew(index: Index) -> Index:
            new = cache.get(index)
            if new is None:
                new = cache[index] = tuple(substitute(e, table, renew_read) for e in index)
            return new

        self.at = {n: renew(i) for n, i in self.at.items()}
        self.pending = {n: list(dict.fromkeys(map(renew, wanted))) for n, wanted in self.pending.items()}

    def split(self, var: Var, by: int) -> None:
        """Replace ``var`` by ``by * outer + inner``."""
        outer, inner = Var(f"{var.name}o", var.extent // by), Var(f"{var.name}i", by)
        place = self.vars.index(var)
        new = [v for v in (outer, inner) if v.extent > 1]
        self.vars[place : place + 1] = new
        if var in self.reduced:
            place = self.reduced.index(var)
            self.reduced[place : place + 1] = new
        self.replace({var: of_var(outer) * by + of_var(inner)})

    def refine(self, node: Node) -> Expr | None:
        """Split variables until ``node``'s position is a plain sum of them.

        Returns the position (in elements of ``node``), or None if it has no such form or differs
        between readers.
        """
        for _ in range(8):
            wanted = self.pending[node] if node not in self.at else [self.at[node]]
            if len(wanted) != 1:
                return None
            offset = linearize(wanted[0], node.shape)
            if offset.affine:
                return offset
            at = splittable(offset)
            if at is None:
                return None
            self.split(*at)
        return None


def splittable(offset: Expr) -> tuple[Var, int] | None:
    """A variable and a divisor of its extent at which a quotient or remainder takes it apart."""
    for atom, _ in offset.terms:
        if isinstance(atom, (Quotient, Remainder)) and atom.expr.const == 0 and len(atom.expr.terms) == 1:
            inner, c = atom.expr.terms[0]
            if isinstance(inner, Var) and c == 1 and inner.extent % atom.by == 0 and atom.by < inner.extent:
                return inner, atom.by
    return None


def bijective(offset: Expr, size: int) -> list[Var] | None:
    """The variables of ``offset``, outermost first, if it visits 0 … size - 1 once each; else None."""
    if offset.const or not offset.affine:
        return None
    order = sorted(((c, a) for a, c in offset.terms), key=lambda t: t[0])
    step, found = 1, []
    for c, var in order:
        if c != step or not isinstance(var, Var):
            return None
        step *= var.extent
        found.append(var)
    return found[::-1] if step == size else None


def align(a: Group, b: Group, orders: list[list[Var]], shared: Node) -> bool:
    """Split variables so that both groups cut ``shared`` at the same positions."""
    for _ in range(8):
        steps = []
        for order in orders:
            at, cuts = 1, {}
            for v in reversed(order):
                cuts[at] = v
                at *= v.extent
            steps.append(cuts)
        missing = [(k, s) for k in (0, 1) for s in steps[1 - k] if s not in steps[k]]
        if not missing:
            return True
        k, step = missing[0]
        base, var = max((s, v) for s, v in steps[k].items() if s < step)
        if step % base or var.extent % (step // base):
            return False
        group = (a, b)[k]
        group.split(var, step // base)
        offset = linearize(group.at[shared] if shared in group.at else group.pending[shared][0], shared.shape)
        found = bijective(offset, shared.size)
        if found is None:
            return False
        orders[k] = found
    return False


def reads(group: Group, node: Node, index: Index) -> list[Read]:
    """What ``node``, computed at ``index`` in ``group``, reads beyond views."""
    name = node.prim.name
    if node.prim.family == "elementwise":
        return [r for i in node.inputs for r in through(i, index)]
    if name == "take":
        axis, at = node.params["axis"], node.inputs[1]
        inner = index[axis : axis + at.ndim]
        row = Expr(((Opaque(_Position(all_vars(inner)), 0, node.inputs[0].shape[axis] - 1), 1),))
        return through(at, inner) + through(node.inputs[0], (*index[:axis], row, *index[axis + at.ndim :]))
    if name == "take_along":
        axis, at = node.params["axis"], node.inputs[1]
        row = Expr(((Opaque(_Position(all_vars(index)), 0, node.inputs[0].shape[axis] - 1), 1),))
        return through(at, index) + through(node.inputs[0], (*index[:axis], row, *index[axis + 1 :]))
    if node.prim.family == "reduce":
        return through(node.inputs[0], reduced_index(group, node, index))
    if name == "random_bits":
        return [Read(node.inputs[0], (ZERO,), False)]
    if name in CONTRACTIONS:
        return [Read(behind(i), (), False) for i in node.inputs]
    if name in SCATTERS:
        *table, updates, at = node.inputs
        found = through(at, positions(node, index)) + through(updates, index)
        return found + [Read(behind(i), (), False) for i in table if i.prim.name != "full"]
    raise AssertionError(f"{name} cannot be a member of a group")


def positions(node: Node, index: Index) -> Index:
    """The index at which a scatter reads where the update at ``index`` goes."""
    if node.prim.name == "scatter_along":
        return index
    axis = node.params.get("axis", 0)
    return index[axis : axis + node.inputs[-1].ndim]


def destination(node: Node, index: Index, row: Expr) -> Index:
    """The index in the table at which a scatter writes the update at ``index``, which goes to ``row``."""
    axis = node.params.get("axis", 0)
    behind = 1 if node.prim.name == "scatter_along" else node.inputs[-1].ndim
    return (*index[:axis], row, *index[axis + behind :])


@dataclass(frozen=True, eq=False)
class _Position:
    """Stands for an index read at run time while only its dependences matter."""

    vars: frozenset[Var]


def through(node: Node, index: Index, share: float = 1.0) -> list[Read]:
    """The nodes that are no views behind ``node`` at ``index``, which a ``share`` of the reader's elements reads."""
    if node.prim.family != "view":
        return [Read(node, index, node.prim.name not in ("input",), share)]
    return [r for o in operands(node, index) for r in through(o.node, o.index, share * _chosen(node, o))]


def _chosen(view: Node, operand: Operand) -> float:
    """The part of a view's elements for which ``operand`` is computed: loops are cut where a join changes its mind.

    1 where they will not be cut: conditions of several variables, too many operands, or short pieces of inner loops.
    """
    conditions = operand.conditions
    if view.prim.name not in ("concat", "pad") or len(view.inputs) > _MOST_JOINED or not conditions:
        return 1.0
    for c in conditions:
        alone = len(c.expr.terms) == 1 and isinstance(c.expr.terms[0][0], Var)
        if not alone or (c.expr == operand.index[-1] and c.bound < _SHORT):
            return 1.0
    return min(1.0, operand.node.size / view.size)


def describe(node: Node) -> str:
    """The operator and name of a node, for people."""
    return f"{node.prov.op} {node.prov.name}" if node.prov and node.prov.name else node.prim.name


def describe_two(first: Node, second: Node) -> tuple[str, str]:
    """The same for two nodes, which may be parts of one operator."""
    return told_apart(first, second, describe)


def told_apart(first: Node, second: Node, name: Callable[[Node], str]) -> tuple[str, str]:
    """The names of two nodes, with their primitives where both names are the same."""
    one, other = name(first), name(second)
    if first is second or one != other:
        return one, other
    a, b = first.prim.name, second.prim.name
    return f"{a} of {one}", f"{'another ' * (a == b)}{b} of {one}"


def reduced_index(group: Group, node: Node, index: Index) -> Index:
    """The index at which a reduction at ``index`` reads its operand: reduced variables on its axes, or those of rows."""
    shape, axes = node.inputs[0].shape, node.params["axes"]
    over = group.rows if node in group.sums or node in group.totals else group.reduced
    position = linearize([of_var(v) for v in over], [v.extent for v in over])
    inner = iter(delinearize(position, [shape[a] for a in axes]))
    outer = iter(index)
    return tuple(next(inner) if k in axes else next(outer) for k in range(len(shape)))


def reexpress(offset: Expr, shape: tuple[int, ...]) -> tuple[list[Var], dict[Var, Expr]]:
    """New variables, one an axis of ``shape``, and the old ones of a bijective ``offset`` in them."""
    fresh = [Var(f"i{k}", d) for k, d in enumerate(shape)]
    position = linearize([of_var(v) for v in fresh], shape)
    table = {a: modulo(divide(position, c), a.extent) for a, c in offset.terms if isinstance(a, Var)}
    return [v for v in fresh if v.extent > 1], table

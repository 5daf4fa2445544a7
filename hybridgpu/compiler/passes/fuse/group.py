# SPDX-License-Identifier: Apache-2.0
"""Fusion groups: nodes that become one kernel, each with its index map into the kernel's loops.

A group has a *domain*, a list of loop variables. Some of them may be *reduced*; the others are the
*rows*. Every member has an index, its position in its own tensor as expressions of the loop
variables. A member whose index uses no reduced variable is computed once a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import prod

from ....core.dataclass import dataclass, field
from ...ir.graph import Node
from ...ir.indexing import (
    ZERO,
    Expr,
    Index,
    IndirectIndex,
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
    substitute,
    view_operands,
)
from ...primitives.views import strip_views
from ...size_buckets import MAX_SPLIT_PARTS, MIN_SPLIT_EXTENT
from ..materialize import SCATTERS

__all__ = [
    "CONTRACTIONS",
    "Group",
    "Read",
    "Refusal",
    "align_splits",
    "indexed_element",
    "label",
    "label_pair",
    "position_index",
    "reads_of",
    "row_major_vars",
]


CONTRACTIONS = ("dot", "conv")  #: primitives whose kernels take what follows as an epilogue


@dataclass(frozen=True)
class Refusal:
    """The reason why two nodes are not in one kernel.

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
    """A read of ``node`` at ``index``; one that is not fusable needs it in memory.

    ``fraction`` is the part of the reader's elements that read it at all: concats and pads choose.
    """

    node: Node
    index: Index
    fusable: bool
    fraction: float = 1.0


@dataclass(eq=False)
class Group:
    """One future kernel.

    Attributes:
        serial: creation order.
        level: every group has a higher level than every group it feeds.
        vars: the domain, outermost first.
        reduced: the variables that reductions run over, except those ``over_rows``.
        over_rows: members that reduce over all rows instead: an element of each row, or one value of each.
        index_of: member -> its index.
        reads: node outside (or not yet inside) -> the indices at which members read it.
        must_be_materialized: nodes that must lie in memory to be read, with the member that reads each so.
        read_fraction: the part of the domain where a node is read, for those that are not read everywhere.
        contraction: the dot or conv whose epilogue this group is, if any.
        scatter: the node whose updates this group computes and scatters, if any; its index is that of an update.
        library: the node that a library computes, or a concat of what others store, alone in its group.
        scatter_source: the group that scatters the table whose elements this group's kernel then reads, if any.
        prologues: position of an operand of the product -> the group whose work it does as it loads the operand.
        merged_into: the group that took this one over, if any.
    """

    serial: int
    level: int
    vars: list[Var] = field(default_factory=list)
    reduced: list[Var] = field(default_factory=list)
    over_rows: dict[Node, None] = field(default_factory=dict)
    index_of: dict[Node, Index] = field(default_factory=dict)
    reads: dict[Node, list[Index]] = field(default_factory=dict)
    must_be_materialized: dict[Node, Node] = field(default_factory=dict)
    read_fraction: dict[Node, float] = field(default_factory=dict)
    contraction: Node | None = None
    scatter: Node | None = None
    library: Node | None = None
    scatter_source: Group | None = None
    prologues: dict[int, Group] = field(default_factory=dict)
    merged_into: Group | None = None

    @property
    def root(self) -> Node:
        """The member that names the group: its first (most downstream) node."""
        return next(iter(self.index_of)) if self.index_of else self.library  # type: ignore[return-value]

    @property
    def concat_buffer(self) -> Node | None:
        """The zero-copy concat that is this group, if it is one: others store its slices, and no step computes it."""
        return self.library if self.library is not None and self.library.prim.name == "concat_buffer" else None

    @property
    def is_plain(self) -> bool:
        """True for elementwise work and reductions alone."""
        return self.library is None and self.contraction is None and self.scatter is None

    @property
    def column_sums(self) -> list[Node]:
        """Members that add up over all rows, one sum for each element of a row."""
        return [n for n in self.over_rows if all_vars(self.index_of[n])]

    def backward_slice(self, node: Node) -> tuple[list[Node], list[Node]]:
        """The backward slice of ``node``: the members it depends on, and the arrays and constants that these read."""
        members: dict[Node, None] = {}
        read: dict[Node, None] = {}
        stack = [node]
        while stack:
            n = stack.pop()
            if n in self.index_of:
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
        """The nodes that it computes, an operand of its product included."""
        nodes = dict.fromkeys(self.scatter_source.members if self.scatter_source else ())
        nodes |= dict.fromkeys(self.index_of)
        for k, producer in self.prologues.items():
            assert self.contraction is not None
            nodes |= dict.fromkeys(producer.backward_slice(strip_views(self.contraction.inputs[k]))[0])
        return list(nodes)

    @property
    def rows(self) -> list[Var]:
        return [v for v in self.vars if v not in self.reduced]

    @property
    def points(self) -> int:
        """Number of points of the whole domain."""
        return prod(v.extent for v in self.vars)

    def executions(self, index: Index) -> int:
        """The number of times that a member at ``index`` is computed."""
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
        self.reads.pop(node, None)
        self.index_of[node] = index
        mine = self.read_fraction.get(node, 1.0)
        for read in reads_of(self, node, index):
            if not read.fusable:
                self.must_be_materialized.setdefault(read.node, node)
            if read.node not in self.reads:
                self.read_fraction[read.node] = read.fraction * mine
            else:
                self.read_fraction[read.node] = max(read.fraction * mine, self.read_fraction.get(read.node, 1.0))
            indices = self.reads.setdefault(read.node, [])
            if read.index not in indices:
                indices.append(read.index)

    def absorb(self, other: Group, substitution: dict[Var, Var]) -> None:
        """Take over the members and reads of ``other``, whose variables become those of this group."""
        other.replace({v: of_var(w) for v, w in substitution.items()})
        self.index_of.update(other.index_of)
        for node, indices in other.reads.items():
            if node in self.index_of:
                continue
            self.read_fraction[node] = max(g.read_fraction.get(node, 1.0) for g in (self, other) if node in g.reads)
            mine = self.reads.setdefault(node, [])
            mine.extend(i for i in indices if i not in mine)
        self.must_be_materialized.update(other.must_be_materialized)
        other.merged_into = self

    # -- changes of variables

    def replace(self, table: dict[Var, Expr]) -> None:
        """Substitute loop variables in every index."""
        cache: dict[Index, Index] = {}
        read: dict[IndirectIndex, Expr] = {}

        def renew_read(atom: IndirectIndex) -> Expr:
            if atom not in read:
                used = all_vars(substitute(of_var(v), table) for v in atom.value.vars)
                read[atom] = Expr(((IndirectIndex(_RuntimeIndex(used), atom.low, atom.high), 1),))
            return read[atom]

        def renew(index: Index) -> Index:
            new = cache.get(index)
            if new is None:
                new = cache[index] = tuple(substitute(e, table, renew_read) for e in index)
            return new

        self.index_of = {n: renew(i) for n, i in self.index_of.items()}
        self.reads = {n: list(dict.fromkeys(map(renew, indices))) for n, indices in self.reads.items()}

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

    def affine_offset(self, node: Node) -> Expr | None:
        """The row-major offset of ``node`` as an affine sum of variables, which are split until it is one.

        None if it has no such form, or differs between readers.
        """
        for _ in range(8):
            indices = self.reads[node] if node not in self.index_of else [self.index_of[node]]
            if len(indices) != 1:
                return None
            offset = linearize(indices[0], node.shape)
            if offset.affine:
                return offset
            at = split_point(offset)
            if at is None:
                return None
            self.split(*at)
        return None


def split_point(offset: Expr, among: Collection[Var] | None = None) -> tuple[Var, int] | None:
    """A variable (``among`` those, if given) and the divisor of its extent at which a quotient or remainder splits it."""
    for atom, _ in offset.terms:
        if isinstance(atom, (Quotient, Remainder)) and atom.expr.const == 0 and len(atom.expr.terms) == 1:
            inner, c = atom.expr.terms[0]
            if not isinstance(inner, Var) or (among is not None and inner not in among):
                continue
            if c == 1 and inner.extent % atom.by == 0 and atom.by < inner.extent:
                return inner, atom.by
    return None


def row_major_vars(offset: Expr, size: int) -> list[Var] | None:
    """The variables of ``offset``, outermost first, if it is a bijection onto 0 … size - 1; else None."""
    if offset.const or not offset.affine:
        return None
    order = sorted(((c, a) for a, c in offset.terms), key=lambda t: t[0])
    step, variables = 1, []
    for c, var in order:
        if c != step or not isinstance(var, Var):
            return None
        step *= var.extent
        variables.append(var)
    return variables[::-1] if step == size else None


def align_splits(a: Group, b: Group, orders: list[list[Var]], shared: Node) -> bool:
    """Split variables so that both groups divide the axes of ``shared`` at the same positions."""
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
        offset = linearize(group.index_of[shared] if shared in group.index_of else group.reads[shared][0], shared.shape)
        variables = row_major_vars(offset, shared.size)
        if variables is None:
            return False
        orders[k] = variables
    return False


def reads_of(group: Group, node: Node, index: Index) -> list[Read]:
    """The reads of ``node``, computed at ``index`` in ``group``, with views resolved."""
    name = node.prim.name
    if node.prim.family == "elementwise":
        return [r for i in node.inputs for r in resolve_views(i, index)]
    if name in ("take", "take_along"):
        data, at = node.inputs
        place = position_index(node, index)
        row = IndirectIndex(_RuntimeIndex(all_vars(place)), 0, data.shape[node.params["axis"]] - 1)
        return resolve_views(at, place) + resolve_views(data, indexed_element(node, index, Expr(((row, 1),))))
    if node.prim.family == "reduce":
        return resolve_views(node.inputs[0], reduction_operand_index(group, node, index))
    if name == "random_bits":
        return [Read(node.inputs[0], (ZERO,), False)]
    if name in CONTRACTIONS:
        return [Read(strip_views(i), (), False) for i in node.inputs]
    if name in SCATTERS:
        *table, updates, at = node.inputs
        reads = resolve_views(at, position_index(node, index)) + resolve_views(updates, index)
        return reads + [Read(strip_views(i), (), False) for i in table if i.prim.name != "full"]
    raise AssertionError(f"{name} cannot be a member of a group")


def position_index(node: Node, index: Index) -> Index:
    """The index at which a gather or scatter reads the position that belongs to its element at ``index``."""
    if node.prim.name in ("take_along", "scatter_along"):
        return index
    axis = node.params.get("axis", 0)
    return index[axis : axis + node.inputs[-1].ndim]


def indexed_element(node: Node, index: Index, row: Expr) -> Index:
    """The index in the array that a gather reads or a scatter writes, of its element at ``index`` with position ``row``."""
    axis = node.params.get("axis", 0)
    behind = 1 if node.prim.name in ("take_along", "scatter_along") else node.inputs[-1].ndim
    return (*index[:axis], row, *index[axis + behind :])


@dataclass(frozen=True, eq=False)
class _RuntimeIndex:
    """Placeholder for an index read at run time, of which only the dependences matter."""

    vars: frozenset[Var]


def resolve_views(node: Node, index: Index, share: float = 1.0) -> list[Read]:
    """The reads of ``node`` at ``index`` with views resolved; a ``fraction`` of the reader's elements does them."""
    if node.prim.family != "view":
        return [Read(node, index, node.prim.name not in ("input",), share)]
    return [
        r for o in view_operands(node, index) for r in resolve_views(o.node, o.index, share * _read_fraction(node, o))
    ]


def _read_fraction(view: Node, operand: Operand) -> float:
    """The fraction of a view's elements for which ``operand`` is computed: loops are split where a concat's operands meet.

    1 where they will not be split: conditions of several variables, too many operands, or short inner loops.
    """
    conditions = operand.conditions
    if view.prim.name not in ("concat", "pad") or len(view.inputs) > MAX_SPLIT_PARTS or not conditions:
        return 1.0
    for c in conditions:
        alone = len(c.expr.terms) == 1 and isinstance(c.expr.terms[0][0], Var)
        if not alone or (c.expr == operand.index[-1] and c.bound < MIN_SPLIT_EXTENT):
            return 1.0
    return min(1.0, operand.node.size / view.size)


def label(node: Node) -> str:
    """The label of a node in messages: its operator and name."""
    return f"{node.prov.op} {node.prov.name}" if node.prov and node.prov.name else node.prim.name


def label_pair(first: Node, second: Node, name: Callable[[Node], str] = label) -> tuple[str, str]:
    """The labels of two nodes, which may be parts of one operator: with their primitives where both are the same."""
    one, other = name(first), name(second)
    if first is second or one != other:
        return one, other
    a, b = first.prim.name, second.prim.name
    return f"{a} of {one}", f"{'another ' * (a == b)}{b} of {one}"


def reduction_operand_index(group: Group, node: Node, index: Index) -> Index:
    """The index at which a reduction at ``index`` reads its operand: reduced variables on its axes, or those of rows."""
    shape, axes = node.inputs[0].shape, node.params["axes"]
    over = group.rows if node in group.over_rows else group.reduced
    position = linearize([of_var(v) for v in over], [v.extent for v in over])
    inner = iter(delinearize(position, [shape[a] for a in axes]))
    outer = iter(index)
    return tuple(next(inner) if k in axes else next(outer) for k in range(len(shape)))


def change_basis(offset: Expr, shape: tuple[int, ...]) -> tuple[list[Var], dict[Var, Expr]]:
    """A change of variables: a new one for each axis of ``shape``, and the old ones of a bijective ``offset`` in them."""
    fresh = [Var(f"i{k}", d) for k, d in enumerate(shape)]
    position = linearize([of_var(v) for v in fresh], shape)
    table = {a: modulo(divide(position, c), a.extent) for a, c in offset.terms if isinstance(a, Var)}
    return [v for v in fresh if v.extent > 1], table

# SPDX-License-Identifier: Apache-2.0
"""The scalar program of a group: what one point of its domain computes.

Starting from what a group stores, nodes are evaluated *symbolically* at their index. Views only
change the index on the way; what is left are loads, constants, index values, arithmetic and
reductions, each a :class:`Scalar`. The same scalar at the same place is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...core.dataclass import dataclass, field
from ...core.dtypes import DType, bool_, i64, u32
from ..ir.dim_texts import report_text
from ..ir.dynamic_constants import DrawNumber, argument_kind
from ..ir.graph import Node
from ..ir.indexing import (
    ZERO,
    Condition,
    Expr,
    Index,
    IndirectIndex,
    Var,
    all_vars,
    const,
    linearize,
    of_var,
    substitute,
    view_operands,
)
from ..passes.fuse.group import CONTRACTIONS, Group, indexed_element, position_index, reduction_operand_index
from ..passes.materialize import SCATTERS

__all__ = [
    "Reduction",
    "Scalar",
    "ScalarProgram",
    "Store",
    "indirect_positions",
    "is_combine",
    "operand_program",
    "operands_of",
    "scalar_program",
]


@dataclass(eq=False)
class Scalar:
    """One scalar value.

    Attributes:
        op: load, const, index, predicate, compute or reduction.
        dtype: its element type (half precision is held in float).
        args: operands of a computation.
        node: the primitive application it stands for (compute, reduction) or the array (load).
        value: the number of a constant.
        offset: position of a load in its array, or the value of an index.
        conditions: a load happens, and a predicate is true, only where all of these hold.
        vars: loop variables it depends on.
    """

    op: str
    dtype: DType
    args: tuple[Scalar, ...] = ()
    node: Node | None = None
    value: Any = None
    offset: Expr | None = None
    conditions: tuple[Condition, ...] = ()
    vars: frozenset[Var] = frozenset()


def operands_of(s: Scalar) -> list[Scalar]:
    """The operands of ``s``, positions read at run time included."""
    exprs = [c.expr for c in s.conditions] if s.offset is None else [s.offset, *(c.expr for c in s.conditions)]
    return [*s.args, *(p for e in exprs for p in indirect_positions(e))]


def indirect_positions(e: Expr) -> list[Scalar]:
    """The scalars that hold the run-time positions in ``e``."""
    positions: list[Scalar] = []
    for atom, _ in e.terms:
        if isinstance(atom, IndirectIndex):
            positions.append(atom.value)
        elif not isinstance(atom, Var):
            positions += indirect_positions(atom.expr)
    return positions


def is_combine(s: Scalar) -> bool:
    """True if ``s`` puts an element into the state of a reduction that is written out."""
    return s.op == "compute" and s.node is not None and s.node.prim.family == "reduce"


@dataclass(eq=False)
class Reduction:
    """``result`` is the reduction of ``operand`` over the reduced variables.

    ``position`` is the index among the reduced elements, for argmax and argmin.
    """

    node: Node
    operand: Scalar
    result: Scalar
    position: Expr


@dataclass(eq=False)
class Store:
    """``value`` is written at ``offset`` of the array that holds ``node``, or of its part in a join.

    What is ``scattered`` is added to what is there or, if ``node`` replaces, takes its place.
    """

    node: Node
    value: Scalar
    offset: Expr
    scattered: bool = False

    @property
    def extent_in_memory(self) -> int:
        """Elements of memory from the pointer to behind the last one."""
        return max(self.node.size, self.offset.high + 1) if self.offset.affine else self.node.size

    def is_parallel(self, var: Var) -> bool:
        """True if the values of ``var`` write at places of their own, whatever is known only at run time."""
        if not self.scattered:
            return True
        return self.offset.coefficient(var) != 0 and all(a is var or var not in a.vars for a, _ in self.offset.terms)


@dataclass(eq=False)
class ScalarProgram:
    """Scalars in an order in which they can be computed, and where they end up.

    ``column_sums`` are over all rows, a sum for each element of a row, and ``full_reductions`` reductions of a value of each row: known,
    with all that is computed from them, only at the end (see :meth:`after_reductions`).
    """

    scalars: list[Scalar]
    reductions: list[Reduction]
    stores: list[Store]
    vars: list[Var]
    reduced: list[Var]
    contraction: Scalar | None = None  #: stands for the contraction's element in an epilogue
    column_sums: list[Reduction] = field(default_factory=list)
    full_reductions: list[Reduction] = field(default_factory=list)

    def after_reductions(self) -> set[Scalar]:
        """The scalars that depend on reductions over all rows, these included."""
        dependents = {r.result for r in (*self.column_sums, *self.full_reductions)}
        if dependents:
            for s in self.scalars:
                if s.op != "reduction" and not dependents.isdisjoint(s.args):
                    dependents.add(s)
        return dependents

    def expressions(self) -> list[Expr]:
        """Every index expression in use."""
        exprs: dict[Expr, None] = {}
        for s in self.scalars:
            if s.offset is not None:
                exprs[s.offset] = None
            for c in s.conditions:
                exprs[c.expr] = None
        for store in self.stores:
            exprs[store.offset] = None
        for r in self.reductions:
            if r.node.prim.name in ("argmax", "argmin"):
                exprs[r.position] = None
        return list(exprs)

    def runs_on(self, row: Var, column: Var, stores: bool = True) -> bool:
        """Whether positions go on from the end of a ``row`` in the next one: rows are one of row times column elements.

        Args:
            stores: those of stores do, too.
        """
        own = {row, column}
        exprs = {s.offset for s in self.scalars if s.offset is not None}
        exprs |= {c.expr for s in self.scalars for c in s.conditions}
        exprs |= {t.offset for t in self.stores if stores}
        return all(
            e.coefficient(row) == column.extent * e.coefficient(column)
            and all(a in own or not a.vars & own for a, _ in e.terms)
            for e in exprs
        )

    def replace(self, table: dict[Var, Expr]) -> None:
        """Substitute loop variables everywhere (the lists of variables are the caller's)."""
        cache: dict[Expr, Expr] = {}

        def renew(e: Expr) -> Expr:
            if e not in cache:
                cache[e] = substitute(e, table)
            return cache[e]

        def renew_vars(vs: frozenset[Var]) -> frozenset[Var]:
            if not any(v in table for v in vs):
                return vs
            return frozenset(w for v in vs for w in (table[v].vars if v in table else (v,)))

        for s in self.scalars:
            if s.offset is not None:
                s.offset = renew(s.offset)
            if s.conditions:
                s.conditions = tuple(Condition(renew(c.expr), c.bound).simplified() for c in s.conditions)
            s.vars = renew_vars(s.vars)
        for store in self.stores:
            store.offset = renew(store.offset)
        for r in self.reductions:
            r.position = renew(r.position)


_Key = tuple[Node, Index, tuple[Condition, ...]]


@dataclass
class _Evaluator:
    """Builder of a group's scalar expressions: nodes at indices, memoized and interned; views become index arithmetic.

    Attributes:
        memo: what was built, by node, index and conditions.
        interned: scalars by their structure: equal ones are one object.
        scalars: all of them, operands first.
        reductions, column_sums, full_reductions: of rows; of columns and of everything, over all rows.
        contraction: the scalar of the group's product or convolution.
    """

    group: Group
    memo: dict[_Key, Scalar] = field(default_factory=dict)
    interned: dict[Any, Scalar] = field(default_factory=dict)
    scalars: list[Scalar] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    column_sums: list[Reduction] = field(default_factory=list)
    full_reductions: list[Reduction] = field(default_factory=list)
    contraction: Scalar | None = None

    def value(self, node: Node, index: Index, conditions: tuple[Condition, ...] = ()) -> Scalar:
        """The scalar of ``node`` at ``index``; iterative, since groups can be deep chains."""
        root = (node, index, conditions)
        stack = [root]
        while stack:
            key = stack[-1]
            if key in self.memo:
                stack.pop()
                continue
            needed = [k for k in self.needs(key) if k not in self.memo]
            if needed:
                stack.extend(reversed(needed))
                continue
            self.memo[key] = self.build(key)
            stack.pop()
        return self.memo[root]

    def needs(self, key: _Key) -> list[_Key]:
        """The keys that must be evaluated before ``key`` can be built."""
        node, index, conditions = key
        if node.prim.family == "view":
            return [(o.node, o.index, _conjunction(conditions, o.conditions)) for o in view_operands(node, index)]
        if node not in self.group.index_of:
            return []
        name = node.prim.name
        if node.prim.family == "elementwise":
            return [(i, index, conditions) for i in node.inputs]
        if node.prim.family == "reduce":
            return [(node.inputs[0], reduction_operand_index(self.group, node, index), ())]
        if name in ("take", "take_along"):
            key_at = self.position_key(key)
            position_value = self.memo.get(key_at)
            if position_value is None:
                return [key_at]
            return [(node.inputs[0], self.gather_index(node, index, position_value), conditions)]
        return []

    def position_key(self, key: _Key) -> _Key:
        """The key of a gather's index operand."""
        node, index, conditions = key
        return (node.inputs[1], position_index(node, index), conditions)

    def gather_index(self, node: Node, index: Index, position: Scalar) -> Index:
        """The index at which a gather reads its data."""
        row = self.indirect_index(position, node.inputs[0].shape[node.params["axis"]])
        return indexed_element(node, index, Expr(((row, 1),)))

    def scatter_store(self, node: Node, index: Index) -> Store:
        """The store of a scatter's update at ``index``."""
        *_, updates, at = node.inputs
        row = self.indirect_index(self.value(at, position_index(node, index)), node.shape[node.params.get("axis", 0)])
        place = indexed_element(node, index, Expr(((row, 1),)))
        return Store(node, self.value(updates, index), linearize(place, node.shape), scattered=True)

    def indirect_index(self, position: Scalar, extent: int) -> IndirectIndex:
        key = ("opaque", position, extent)
        interned = self.interned.get(key)
        if interned is None:
            interned = self.interned[key] = IndirectIndex(position, 0, max(extent - 1, 0))  # type: ignore[assignment]
        return interned  # type: ignore[return-value]

    def build(self, key: _Key) -> Scalar:
        node, index, conditions = key
        if node.prim.family == "view":
            return self.build_view(node, index, conditions)
        if node.prim.name == "full":
            return self.constant(node.params["value"], node.dtype)
        if node.prim.name == "iota":
            return self.index(index[node.params["axis"]], node.dtype)
        if node not in self.group.index_of:
            return self.load(node, linearize(index, node.shape), conditions)
        if node.prim.family == "reduce":
            return self.build_reduction(node, index)
        if node.prim.name in ("take", "take_along"):
            position_value = self.memo[self.position_key(key)]
            return self.memo[(node.inputs[0], self.gather_index(node, index, position_value), conditions)]
        if node.prim.name == "random_bits":
            words = [self.load(node.inputs[0], const(k), ()) for k in range(4)]
            position = self.index(linearize(index, node.shape), i64)
            return self.compute(node, (*words, position, self.constant(DrawNumber(node.params["stream"]), u32)))
        if node.prim.name in ("copy", "stop_gradient"):  # no arithmetic: the same scalar
            return self.memo[(node.inputs[0], index, conditions)]
        if node.prim.name in CONTRACTIONS:
            if self.contraction is None:
                self.contraction = self.append(
                    Scalar("reduction", node.dtype, node=node, vars=frozenset(self.group.vars))
                )
            return self.contraction
        args = tuple(self.memo[(i, index, conditions)] for i in node.inputs)
        return self.compute(node, args)

    def build_view(self, node: Node, index: Index, conditions: tuple[Condition, ...]) -> Scalar:
        parts = view_operands(node, index)
        values = [self.memo[(o.node, o.index, _conjunction(conditions, o.conditions))] for o in parts]
        if node.prim.name in ("pad", "fold"):
            if not parts[0].conditions:
                return values[0]
            return self.select(parts[0].conditions, values[0], self.constant(node.params.get("value", 0), node.dtype))
        if not parts:  # a join of empty arrays is never visited
            return self.constant(0, node.dtype)
        result = values[-1]
        for part, value in zip(parts[-2::-1], values[-2::-1], strict=True):
            result = self.select(part.conditions, value, result)
        return result

    def build_reduction(self, node: Node, index: Index) -> Scalar:
        inner = reduction_operand_index(self.group, node, index)
        operand = self.memo[(node.inputs[0], inner, ())]
        if node in self.group.over_rows:
            return self.build_over_rows(node, index, operand)

        def make() -> Scalar:
            result = Scalar("reduction", node.dtype, (operand,), node, vars=frozenset(self.group.rows))
            axes, shape = node.params["axes"], node.inputs[0].shape
            position = linearize([inner[a] for a in axes], [shape[a] for a in axes])
            self.reductions.append(Reduction(node, operand, result, position))
            return result

        # the same reduction of the same scalar is one, however it was written
        return self.intern(("reduction", node.prim, operand), make)

    def build_over_rows(self, node: Node, index: Index, operand: Scalar) -> Scalar:
        """A reduction over all rows: of each element of a row, or of one value of each."""

        def make() -> Scalar:
            result = Scalar("reduction", node.dtype, (operand,), node, vars=all_vars(index))
            reductions = self.column_sums if result.vars else self.full_reductions
            reductions.append(Reduction(node, operand, result, ZERO))
            return result

        return self.intern(("over rows", node.prim, operand, index), make)

    # -- constructors; each kind of scalar is interned by what defines it

    def intern(self, key: Any, make: Callable[[], Scalar]) -> Scalar:
        interned = self.interned.get(key)
        if interned is None:
            interned = self.interned[key] = self.append(make())
        return interned

    def append(self, scalar: Scalar) -> Scalar:
        self.scalars.append(scalar)
        return scalar

    def load(self, node: Node, offset: Expr, conditions: tuple[Condition, ...]) -> Scalar:
        """A load of the element at ``offset``, which is made only where ``conditions`` hold.

        They are no reason to wait for what lies at one place wherever they hold or not, as the scale of a channel does in
        the padding around its plane: such a load needs no test, and belongs outside the loops that the test depends on. A
        lone row, which is read at one value of what is tested, keeps its test: its place moves (``collapse_axes``).
        """
        tested = frozenset[Var]().union(*(c.expr.vars for c in conditions))
        lone = any(c.bound == 1 for c in conditions)
        if not lone and tested.isdisjoint(offset.vars) and offset.low >= 0 and offset.high < node.size:
            conditions = ()
        used = offset.vars.union(*(c.expr.vars for c in conditions))
        return self.intern(
            ("load", node, offset, conditions),
            lambda: Scalar("load", node.dtype, node=node, offset=offset, conditions=conditions, vars=used),
        )

    def constant(self, value: Any, dtype: DType) -> Scalar:
        key = ("const", report_text(value), argument_kind(value), dtype)
        return self.intern(key, lambda: Scalar("const", dtype, value=value))

    def index(self, e: Expr, dtype: DType) -> Scalar:
        return self.intern(("index", e, dtype), lambda: Scalar("index", dtype, offset=e, vars=e.vars))

    def select(self, conditions: tuple[Condition, ...], inside: Scalar, outside: Scalar) -> Scalar:
        used = frozenset[Var]().union(*(c.expr.vars for c in conditions))
        test = self.intern(
            ("predicate", conditions), lambda: Scalar("predicate", bool_, conditions=conditions, vars=used)
        )
        return self.intern(
            ("choose", test, inside, outside),
            lambda: Scalar("compute", inside.dtype, (test, inside, outside), vars=_vars((test, inside, outside))),
        )

    def compute(self, node: Node, args: tuple[Scalar, ...]) -> Scalar:
        key = ("compute", node.prim, args, node.dtype)
        return self.intern(key, lambda: Scalar("compute", node.dtype, args, node, vars=_vars(args)))


def _vars(args: Iterable[Scalar]) -> frozenset[Var]:
    return frozenset[Var]().union(*(a.vars for a in args))


def _conjunction(a: tuple[Condition, ...], b: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return a if not b else tuple(dict.fromkeys((*a, *b)))


def scalar_program(
    group: Group, stored: Iterable[Node], store_offsets: Mapping[Node, Callable[[Index], Expr]] = MappingProxyType({})
) -> ScalarProgram:
    """The scalar program of ``group`` that stores the nodes ``stored``.

    Args:
        store_offsets: where elements of those that are parts of joins lie.

    Loop variables are the group's own; ``collapse_axes`` brings them into their final form.
    """
    evaluator = _Evaluator(group)
    stores = []
    for node in stored:
        index = group.index_of[node]
        if node.prim.name in SCATTERS:
            stores.append(evaluator.scatter_store(node, index))
        else:
            offset = store_offsets[node](index) if node in store_offsets else linearize(index, node.shape)
            stores.append(Store(node, evaluator.value(node, index), offset))
    return ScalarProgram(
        evaluator.scalars,
        evaluator.reductions,
        stores,
        list(group.vars),
        list(group.reduced),
        evaluator.contraction,
        evaluator.column_sums,
        evaluator.full_reductions,
    )


def operand_program(group: Group, operand: Node, variables: list[Var], inner: Var) -> ScalarProgram:
    """The program of one element of ``operand``, a view of a member of ``group``, which is stored at ``inner``.

    Args:
        variables: one an axis of ``operand``.
    """
    evaluator = _Evaluator(group)
    value = evaluator.value(operand, tuple(map(of_var, variables)))
    store = Store(operand, value, of_var(inner))
    return ScalarProgram(evaluator.scalars, [], [store], [v for v in variables if v.extent > 1], [])

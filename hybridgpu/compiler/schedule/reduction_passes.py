# SPDX-License-Identifier: Apache-2.0
"""Reduction passes: which scalar of a kernel with reductions is computed in which pass over a row.

The reduced variables are walked once per *pass*; a reduction of something that needs an earlier
reduction waits for the next pass. Scalars that depend on no reduced variable belong to the row and
are computed once between passes. What a later pass needs again is recomputed where that is cheap
and cached on chip where it is not, or where the last pass's result is going to lie.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.dataclass import dataclass, field
from ..ir.dims import nominal
from ..ir.graph import closure
from ..ir.indexing import Expr, Var, of_var
from .kernel import COMBINE, CWriter, Statement
from .scalar import Reduction, Scalar, Store, operands_of

__all__ = ["Accumulator", "Pass", "PassPlan"]

_UNROLLED_ROW = 128  #: CPU: elements of a row up to which its passes are two blocks of lanes
_MIN_CACHED_COST = 6  #: scalar operations that are cheaper to repeat than to keep


@dataclass(frozen=True)
class Accumulator:
    """One reduction in a template: of a row, of each element of all rows, or of a value of each row.

    Attributes:
        name: the variable (or array) that holds its state.
        combine, type: the combiner of ``reduce.h`` and the type it works on.
        operand: the value taken in at every element (or of every row).
        result, result_type: the reduced value.
        position, step: for argmax and argmin, the element's position and how far apart neighbours
            along the last reduced axis are; else empty and 0.
        origin: the position of element ``at`` of the last reduced axis; else empty.
        first: the position of the first element that a pass reaches.
        increasing: True if positions only grow on the way.
        variables: loop variables in the position.
    """

    name: str
    combine: str
    type: str
    operand: str
    result: str
    result_type: str
    position: str = ""
    step: int = 0
    origin: str = ""
    first: int = 0
    increasing: bool = False
    variables: frozenset[str] = frozenset()

    @staticmethod
    def of(name: str, r: Reduction, writer: CWriter) -> Accumulator:
        """The accumulator of a reduction, whose position does not count."""
        operand, result = writer.names[r.operand], writer.names[r.result]
        return Accumulator(
            name, COMBINE[r.node.prim.name], r.operand.dtype.compute, operand, result, r.result.dtype.compute
        )


@dataclass
class Pass:
    """One pass over the reduced variables, and the row's own statements before it.

    Attributes:
        row, each: statements of the row, and of every element.
        cache_writes: stores to the row's cache.
        stores: full-size stores.
        accumulators: reductions that end with the pass.
        sums: those over all rows that take in elements of the pass.
        cost: scalar operations of an element.
        lanes: CPU: accumulator -> (type of its states side by side, the variable that elements go to).
        separate_blocks: CPU: blocks of lanes stay apart (columns form).
        partial_sums: CPU: the accumulators that are summed part by part.
        prefetches: CPU: statements that fetch what later rows read.
        streamed_blocks, block_stores: CPU: the results that may be stored past the caches, as (type, name of a block, statement
            that stores it), and ``stores`` where these go to blocks first.
        unaligned_prefix: CPU: how many elements of a row come before the first of these blocks, '' if none do.
        row_live_in, row_live_out, live_in: row values that are read from and written to arrays, as (type, name), by the columns
            form, and where rows are walked together.
        row_scalars, scalars, reductions, targets: what the statements were made of: scalars of the row and of every
            element in their order, reductions in that of the accumulators, full-size stores by their number.
    """

    row: list[Statement] = field(default_factory=list)
    each: list[Statement] = field(default_factory=list)
    cache_writes: list[Statement] = field(default_factory=list)
    stores: list[Statement] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    sums: list[Accumulator] = field(default_factory=list)
    cost: int = 0
    lanes: dict[str, tuple[str, str]] = field(default_factory=dict)
    separate_blocks: bool = False
    partial_sums: list[Accumulator] = field(default_factory=list)
    prefetches: list[str] = field(default_factory=list)
    streamed_blocks: list[tuple[str, str, str]] = field(default_factory=list)
    block_stores: list[Statement] = field(default_factory=list)
    unaligned_prefix: str = ""
    row_uses_tile: bool = False  #: the columns form's row statements, and those of every element,
    each_uses_tile: bool = False  #: mention the tile's variable
    row_live_in: list[tuple[str, str]] = field(default_factory=list)
    row_live_out: list[tuple[str, str]] = field(default_factory=list)
    live_in: list[tuple[str, str]] = field(default_factory=list)
    row_scalars: list[Scalar] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)


class PassPlan:
    """Distributes the scalars of a program over passes.

    Attributes:
        passes: the passes, and at the end one more whose row statements follow the last pass.
        row_stores: stores of one value a row.
        cache, cache_text: the cache of a scalar that later passes need again, and the store to its element.
        cache_buffers: (type, name) of the caches that have memory of their own.
        row_values: (type, name) of row values that outlive the block that computes them.
        column_sums, full_reductions: all sums and totals over all rows, and …
        after, after_stores: … statements and stores behind the last row, of every element of one where there are sums.

    ``not_cached`` are scalars that must be computed again rather than kept; some are kept where the
    last pass's results will lie, if these follow each other along ``result_axis``.
    """

    def __init__(
        self,
        writer: CWriter,
        has_buffers: bool,
        cache_index: str,
        not_cached: frozenset[Scalar] = frozenset(),
        result_axis: Var | None = None,
    ) -> None:
        self.program = program = writer.program
        self.writer, self.has_buffers, self.cache_index = writer, has_buffers, cache_index
        self.not_cached, self.result_axis = not_cached, result_axis
        self.reduced = set(program.reduced)
        self.reduction_of = {r.result: r for r in program.reductions}
        self.after_last_row = program.after_reductions()
        self.phase: dict[Scalar, int] = {}
        for s in program.scalars:
            before = max((self.phase[a] for a in operands_of(s)), default=0)
            self.phase[s] = before + (1 if s in self.reduction_of else 0)
        self.passes: list[Pass] = []
        self.cache: dict[Scalar, str] = {}
        self.cache_text: dict[Scalar, Statement] = {}
        self.cache_buffers: list[tuple[str, str]] = []
        self.row_stores = [
            writer.store(writer.store_address(k, s), writer.names[s.value])
            for k, s in enumerate(program.stores)
            if not self.is_after_last_row(s) and not self.is_full_store(s)
        ]
        self.column_sums = [Accumulator.of(f"s{k}", r, writer) for k, r in enumerate(program.column_sums)]
        self.full_reductions = [Accumulator.of(f"total{k}", r, writer) for k, r in enumerate(program.full_reductions)]
        self._build()
        self.after = [st for s in self._after_order() if (st := writer.statement(s))]
        self.after_stores = [
            Statement("", writer.store_address(k, s), writer.names[s.value])
            for k, s in enumerate(program.stores)
            if self.is_after_last_row(s)
        ]

    def is_full(self, s: Scalar) -> bool:
        """True if ``s`` is computed for every element of a row."""
        return bool(s.vars & self.reduced) and s not in self.reduction_of

    def is_full_store(self, store: Store) -> bool:
        """True if ``store`` happens for every element of a row."""
        return not self.is_after_last_row(store) and (
            self.is_full(store.value) or bool(store.offset.vars & self.reduced)
        )

    def is_after_last_row(self, store: Store) -> bool:
        """True if ``store`` happens behind the last row: all rows would write the same."""
        if store.value in self.after_last_row:
            return True
        return bool(self.program.column_sums) and (store.value.vars | store.offset.vars) <= self.reduced

    @property
    def kind(self) -> str:
        """The kernel's kind: 'rows' if it has results of every element, 'reduce' if not."""
        return "rows" if any(map(self.is_full_store, self.program.stores)) else "reduce"

    def _build(self) -> None:
        targets = self._targets()
        sums = self._column_sums_by_pass(targets)
        targets += [([], [])] * (max(sums, default=-1) + 1 - len(targets))
        self.result_slots = self._result_slots(len(targets) - 1)
        computed: set[Scalar] = set()
        first: dict[Scalar, Pass] = {}
        rows: list[list[Scalar]] = []
        pass_scalars: list[list[Scalar]] = []
        emitted: set[Scalar] = set()
        for k, (reductions, stores) in enumerate([*targets, ([], [])]):
            row_pass = Pass()
            rows.append(self._row_scalars(k if k < len(targets) else 1 << 30, emitted))
            row_pass.row_scalars = rows[-1]
            row_pass.row = [st for s in rows[-1] if (st := self.writer.statement(s))]
            taken = [r.operand for r in (*reductions, *sums.get(k, ()))]
            taken += [self.program.stores[n].value for n, _ in stores]
            order = self._pass_order(taken, computed)
            for s in order:
                if s in self.cache and s in computed:
                    home = self.cache_text[s]
                    statement: Statement | None = Statement(
                        s.dtype.compute, self.writer.names[s], home.name, home.variables
                    )
                else:
                    statement = self.writer.statement(s)
                    first.setdefault(s, row_pass)
                    row_pass.cost += s.node.prim.cost if s.op == "compute" and s.node is not None else 0
                if statement:
                    row_pass.each.append(statement)
            row_pass.accumulators = [self._accumulator(r) for r in reductions]
            row_pass.sums = [self.column_sums[self.program.column_sums.index(r)] for r in sums.get(k, ())]
            row_pass.stores = [
                replace(text, text=self._store_operand(self.program.stores[n].value)) for n, text in stores
            ]
            row_pass.scalars, row_pass.reductions, row_pass.targets = order, reductions, [n for n, _ in stores]
            pass_scalars.append(order + taken)
            computed.update(order)
            self.passes.append(row_pass)
        for s, home in self.cache_text.items():
            first[s].cache_writes.append(home)
        self._connect_row_values(rows, pass_scalars)

    def _store_operand(self, s: Scalar) -> str:
        """The name of what a store of ``s`` takes: it rounds to half precision itself."""
        rounded = s.op == "compute" and s.node is not None and s.node.prim.name == "cast" and s.dtype.is_half
        again = rounded and s not in self.cache and self.is_full(s.args[0])
        return self.writer.names[s.args[0] if again else s]

    def _targets(self) -> list[tuple[list[Reduction], list[tuple[int, Statement]]]]:
        """The targets of each pass: reductions by the phase of their operand, then full stores, with their numbers."""
        by_phase: dict[int, tuple[list[Reduction], list[tuple[int, Statement]]]] = {}
        for r in self.program.reductions:
            by_phase.setdefault(self.phase[r.operand], ([], []))[0].append(r)
        for k, store in enumerate(self.program.stores):
            if self.is_full_store(store):
                text = self.writer.store(self.writer.store_address(k, store), self.writer.names[store.value])
                by_phase.setdefault(self.phase[store.value], ([], []))[1].append((k, text))
        return [by_phase.get(k, ([], [])) for k in range(max(by_phase, default=-1) + 1)]

    def _column_sums_by_pass(
        self, targets: list[tuple[list[Reduction], list[tuple[int, Statement]]]]
    ) -> dict[int, list[Reduction]]:
        """The sums over all rows by the pass that takes them in.

        Where the states of a row's own reductions fill the registers, that is not the first pass that has the elements,
        but the last one, if it stores results; unless it had to compute again what an earlier one has. (The passes of short
        rows are written out by compilers: there it is slower. On CUDA the sums have registers in all passes: nothing more
        is kept for a later one.)
        """
        last = len(targets) - 1
        long = (
            self.writer.target.device.loop_nests
            and nominal(prod(v.extent for v in self.program.reduced)) > _UNROLLED_ROW
        )
        early = self._full_operands([r.operand for reductions, _ in targets[:last] for r in reductions])
        by_pass: dict[int, list[Reduction]] = {}
        for r in self.program.column_sums:
            k = self.phase[r.operand]
            waits = long and k < last and len(targets[last][0]) < len(targets[k][0]) and bool(targets[last][1])
            dear = r.operand in early and self._recompute_cost(r.operand, 0) >= _MIN_CACHED_COST
            by_pass.setdefault(last if waits and not dear else k, []).append(r)
        return by_pass

    def _full_operands(self, wanted: list[Scalar]) -> set[Scalar]:
        """The scalars of every element of a row that ``wanted`` need."""
        return closure(filter(self.is_full, wanted), lambda s: filter(self.is_full, operands_of(s)))

    def _after_order(self) -> list[Scalar]:
        """The scalars behind the last row, in order."""
        stored = [s.value for s in self.program.stores if self.is_after_last_row(s)]
        needed = closure(stored, lambda s: () if s.op == "reduction" else operands_of(s))
        return [s for s in self.program.scalars if s in needed]

    def _result_slots(self, last: int) -> list[tuple[str, Statement]]:
        """(type, store) of elements that only the last pass writes."""
        if self.result_axis is None:
            return []
        points = prod(v.extent for v in self.program.vars)
        return [
            (s.node.dtype.storage, self.writer.store(self.writer.store_address(k, s), ""))
            for k, s in enumerate(self.program.stores)
            if self.is_full(s.value) and self.phase[s.value] == last and s.node.size == points
            if s in self.writer.tile_elements or s.offset.coefficient(self.result_axis) == 1
        ]

    def _allocate_cache(self, s: Scalar) -> bool:
        """Find a place for ``s`` until a later pass; False if there is none."""
        if s in self.cache:
            return True
        name = f"k{len(self.cache)}"
        home = next((h for h in self.result_slots if h[0] == s.dtype.compute), None)
        if home is not None:
            self.result_slots.remove(home)
            self.cache_text[s] = replace(home[1], text=self.writer.names[s])
        elif self.has_buffers:
            self.cache_buffers.append((s.dtype.compute, name))
            self.cache_text[s] = Statement("", f"{name}[{self.cache_index}]", self.writer.names[s])
        else:
            return False
        self.cache[s] = name
        return True

    def _row_scalars(self, phase: int, emitted: set[Scalar]) -> list[Scalar]:
        """Scalars of the row that can be computed before pass ``phase`` and have not been."""
        scalars = []
        for s in self.program.scalars:
            late = bool(self.full_reductions) and s in self.after_last_row
            if s.op != "const" and s not in emitted and self.phase[s] <= phase and not self.is_full(s) and not late:
                emitted.add(s)
                scalars.append(s)
        return scalars

    def _pass_order(self, wanted: list[Scalar], computed: set[Scalar]) -> list[Scalar]:
        """The full scalars a pass needs, in order; marks what is better kept than computed again."""
        needed: set[Scalar] = set()
        stack = [s for s in wanted if self.is_full(s)]
        while stack:
            s = stack.pop()
            if s in needed:
                continue
            needed.add(s)
            if (
                s in computed
                and s not in self.not_cached
                and self._recompute_cost(s, 0) >= _MIN_CACHED_COST
                and self._allocate_cache(s)
            ):
                continue
            stack.extend(a for a in operands_of(s) if self.is_full(a))
        return [s for s in self.program.scalars if s in needed]

    def _recompute_cost(self, s: Scalar, depth: int) -> int:
        """Scalar operations to compute ``s`` again from loads, counted up to the limit."""
        if s.op == "load":  # on the CPU a row that was just read is in the first-level cache
            return self.writer.target.device.row_load_ops
        if s.op != "compute":
            return 0
        if depth > 8:
            return _MIN_CACHED_COST
        total = s.node.prim.cost if s.node is not None else 1
        for a in s.args:
            if self.is_full(a) and total < _MIN_CACHED_COST:
                total += self._recompute_cost(a, depth + 1)
        return total

    def _accumulator(self, r: Reduction) -> Accumulator:
        accumulator = Accumulator.of(f"a{self.program.reductions.index(r)}", r, self.writer)
        if r.node.prim.name not in ("argmax", "argmin"):
            return accumulator
        last = self.program.reduced[-1]
        step = r.position.coefficient(last)
        origin = r.position + of_var(last) * -step + of_var(Var("at", last.extent)) * step
        return replace(
            accumulator,
            position=self.writer.expr(r.position),
            variables=self.writer.variables(),
            step=step,
            origin=self.writer.expr(origin),
            first=r.position.const,
            increasing=_is_increasing(r.position, self.program.reduced),
        )

    def _connect_row_values(self, rows: list[list[Scalar]], pass_scalars: list[list[Scalar]]) -> None:
        """Note which row values cross from one block to another (those forms need them whose rows are walked together)."""

        def entry(s: Scalar) -> tuple[str, str]:
            return s.dtype.compute, self.writer.names[s]

        def row_operands(block: list[Scalar]) -> list[Scalar]:
            used = dict.fromkeys(
                a for s in block for a in (*operands_of(s), s) if a.op != "const" and not self.is_full(a)
            )
            return list(used)

        crossing: dict[Scalar, None] = {}
        stored = [s.value for s in self.program.stores if not self.is_full_store(s)]
        stored = [s for s in stored if s not in self.after_last_row] + [r.operand for r in self.program.full_reductions]
        for k, row_pass in enumerate(self.passes):
            own = {s for s in rows[k] if s.op != "reduction"}  # results come from the pass before
            last = k == len(self.passes) - 1
            incoming = [s for s in row_operands([*rows[k], *(stored if last else [])]) if s not in own]
            row_pass.row_live_in = [entry(s) for s in incoming]
            used = row_operands(pass_scalars[k])
            row_pass.live_in = [entry(s) for s in used]
            crossing.update(dict.fromkeys([*incoming, *used]))
        for k, row_pass in enumerate(self.passes):
            row_pass.row_live_out = [entry(s) for s in rows[k] if s in crossing and s.op != "reduction"]
        self.row_values = [entry(s) for s in crossing]


def _is_increasing(e: Expr, variables: list[Var]) -> bool:
    """True if ``e`` only grows while the variables, outermost first, count up."""
    span = 0
    for v in reversed(variables):
        if v.extent > 1 and e.coefficient(v) <= span:
            return False
        span += e.coefficient(v) * (v.extent - 1)
    return e.affine

# SPDX-License-Identifier: Apache-2.0
"""Loops of CUDA's reduction kernels, from the passes over a row to the fields of the templates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....core.dataclass import dataclass
from ...ir.indexing import Var
from ..blocks import Block, Line, texts
from ..kernel import Launch, Pointer, Statement, unravel, variables_of
from ..reduction_passes import Accumulator, Pass, PassPlan
from ..scalar import Scalar
from .index_type import index_type
from .reduction_config import LaunchConfig
from .reduction_fields import (
    CachedValue,
    ColumnsFields,
    PassFields,
    ReductionInputs,
    RowsFields,
    RowsWithSumsFields,
)
from .vector_access import SpanBody, SpanBuilder, cached_type

__all__ = ["ReductionLoops"]


@dataclass(frozen=True)
class ReductionLoops:
    """The loops of both forms: rows of teams, or of single threads.

    Attributes:
        plan: the passes over a row, and what is before, between and behind them.
        form: threads of a row and of a block, and what they keep.
        spans: how neighbours are read and written together.
        rows: the variables of rows.
        length: C text of the number of elements that are reduced, if an argument decides about it; else empty.
    """

    plan: PassPlan
    form: LaunchConfig
    spans: SpanBuilder
    rows: list[Var]
    length: str
    pointers: list[Pointer]

    def rows_fields(self) -> tuple[RowsFields, Launch]:
        """Rows that are contiguous: a team of threads has one."""
        plan, form, spans, vector = self.plan, self.form, self.spans, self.spans.vector
        partial = bool(self.length) or form.cluster * form.steps * form.team * vector != self._width
        partial = partial or spans.anchor is not None
        position = self._position()
        passes = [self._team_pass(p, partial, position) for p in plan.passes[:-1]]
        if form.cluster > 1 and not plan.column_sums:
            _mark_arrival(passes)
        one_state = form.team > 32 and sum(bool(w.accumulators) for w in passes) == 1
        double_buffered = one_state and form.cluster > 1 and bool(plan.column_sums)  # barriers of a cluster are dear
        spans.writer.printed.clear()
        anchor = spans.writer.expr(spans.anchor) if spans.anchor is not None and spans.shifted else ""
        used = variables_of([*plan.row_stores, *(s for p in plan.passes for s in p.row)]) | spans.writer.variables()
        used = used.union(*(w.variables for w in passes))
        row = self.rows[0].name if len(self.rows) == 1 else "r"
        row_index = [s for s in (unravel(self.rows, "r") if len(self.rows) > 1 else []) if s.name in used]
        items = form.steps * vector
        fields = RowsFields(
            **self._inputs(form.team * vector),
            passes=passes,
            after=[*texts(plan.passes[-1].row), *self._row_stores()],
            row=row,
            row_index=row_index,
            lanes=min(form.team, 32),
            shared_states=[a for w in passes for a in w.accumulators] if form.team > 32 else [],
            state_dims=(2, form.threads // 32) if double_buffered else (form.threads // 32,),
            state_slot="[slot]" if double_buffered else "",
            reuses_states=one_state and not double_buffered,
            sums=[(s, f"y{len(plan.program.stores) + n}") for n, s in enumerate(plan.column_sums)],
            sums_shape=f"[{items}][{form.threads}]" if plan.column_sums and form.teams > 1 else "",
            warps=form.team // 32,
            guarded=self._guarded,
            reads_row=row in used or bool(row_index),
            anchor=anchor,
        )
        if plan.column_sums:
            beyond = [f"if (at >= {self._width}) continue;"] if partial else []
            sizes = [max(4, r.operand.dtype.size) for r in plan.program.column_sums]
            with_sums = RowsWithSumsFields(
                **vars(fields),
                sums_at=[items * form.threads * sum(sizes[:n]) for n in range(len(sizes))],
                width=self._width,
                span_place=[f"const Index at = {position};", *beyond],
            )
            blocks = form.cluster * form.cluster_reduced
            return with_sums, Launch(form.threads, extent=1, scale=1, per_block=1, shared=form.shared, cluster=blocks)
        limit, per_block = (0, 1) if form.cluster > 1 else (2048 // form.threads * 8, form.teams)
        launch = Launch(form.threads, 0, self._inner_rows, per_block, limit, shared=form.shared, cluster=form.cluster)
        return fields, launch

    def columns_fields(self) -> tuple[ColumnsFields, Launch]:
        """Rows that are neighbours in memory: a thread has a span of them and every so many-th element."""
        plan, form, spans, vector = self.plan, self.form, self.spans, self.spans.vector
        tile = spans.var.name
        stored = [(n, s) for n, s in enumerate(plan.program.stores) if not plan.is_full_store(s)]
        passes = [self._span_pass(p) for p in plan.passes[:-1]]
        accumulators = [a for w in passes for a in w.accumulators]
        if form.cluster > 1:
            _mark_arrival(passes)
        last = spans.row_body(plan.passes[-1].row_scalars, stored)
        one = {"live": True, "rank == 0": form.cluster > 1, "down == 0": form.team > 1}
        each = [*self._row_of(last.element_variables), *_reads(plan.passes[-1].row_live_in)]
        each += texts([*last.each, *last.scalar_stores])
        results: list[Line] = [*_before(last, vector), _each(vector, each), *_after(last, vector)]
        used = last.variables.union(*(w.variables for w in passes))
        used |= {spans.base} if tile in used else set()
        index = unravel([*self.rows[:-1], Var(spans.base, spans.var.extent)], "r") if len(self.rows) > 1 else []
        fields = ColumnsFields(
            **self._inputs(form.team),
            passes=passes,
            after=[Block([_if_all(one)], results)] if stored else [],
            row=f"{tile}_0" if len(self.rows) == 1 else "r",
            row_index=[s for s in index if s.name in used],
            lanes=form.lanes,
            shared_states=accumulators if form.states_per_row > 1 else [],
            state_dims=(form.states_per_row, vector, form.teams),
            cluster_states=accumulators if form.cluster > 1 else [],
            cluster_shape=f"[{vector}][{form.teams}]",
            reuses_states=form.states_per_row > 1 and sum(bool(w.accumulators) for w in passes) == 1,
            lane_stride=form.teams if form.lanes > 1 else 32,
            row_values=plan.row_values,
        )
        limit = max(1, 2048 // form.threads) * 8 if form.cluster == 1 else 0
        per_block = form.teams * vector
        return fields, Launch(
            form.threads, 0, self._inner_rows, per_block, limit, shared=form.shared, cluster=form.cluster
        )

    # -- passes

    def _team_pass(self, row_pass: Pass, partial: bool, position: str) -> PassFields:
        """One pass of a team over its row."""
        spans, vector = self.spans, self.spans.vector
        *outer, last = self.plan.program.reduced
        first = "c_0" if outer else spans.base
        block = spans.pass_body(self.plan, row_pass, self._places, f"step * {vector} + j", self.form.team * vector)
        inside = block.element_variables.union(*(a.variables for a in row_pass.accumulators))
        inner = last.name if last.name in inside or spans.anchor is not None else ""
        used = inside | block.variables | ({spans.base} if inner else set())
        places = unravel([*outer, Var(spans.base, last.extent)], first) if outer else []
        span = f"{first}, {self._end}" if spans.anchor is not None else ""
        guard = "if (live) " if self._guarded else ""
        each = [f"const Index {inner} = {inner}_0 + j;"] if inner else []
        each += [f"if ({inner} < 0 || {inner} >= {self._end}) continue;"] if span else []
        each += texts(block.each)
        each += [f"{a.name} = {_taken(a, a.name)};" for a in row_pass.accumulators]
        each += [f"{guard}{t.name}[step * {vector} + j] += {t.operand};" for t in row_pass.sums]
        each += [f"{guard}{store}" for store in block.scalar_stores]
        step: list[Line] = [*self._step_head(first, position, partial, places, used), *_before(block, vector, span)]
        step += [_each(vector, each), *_after(block, vector, span, guard)]
        return PassFields(texts(row_pass.row), step, row_pass.accumulators, inside | block.variables)

    def _span_pass(self, row_pass: Pass) -> PassFields:
        """One pass over a span of rows by the threads that have it."""
        form, spans, reduced, vector = self.form, self.spans, self.plan.program.reduced, self.spans.vector
        partial = bool(self.length) if not self._has_dynamic_steps else form.team > 1
        partial = partial or (not self.length and form.cluster * form.steps * form.team != self._width)
        first = "c" if len(reduced) > 1 else reduced[0].name
        block = spans.pass_body(self.plan, row_pass, self._places, f"step * {vector} + j", form.threads * vector)
        before = spans.row_body(row_pass.row_scalars, [])
        inside = block.element_variables.union(*(a.variables for a in row_pass.accumulators))
        used = inside | block.variables
        places = unravel(reduced, first) if len(reduced) > 1 else []
        each = [*self._row_of(inside), *_reads(row_pass.live_in), *texts(block.each)]
        each += [f"{a.name}[j] = {_taken(a, f'{a.name}[j]')};" for a in row_pass.accumulators]
        each += [f"if (live) {store}" for store in block.scalar_stores]
        step: list[Line] = [
            *self._step_head(first, self._position_down(), partial, places, used),
            *_before(block, vector),
        ]
        step += [_each(vector, each), *_after(block, vector, guard="if (live) ")]
        of_row = [*self._row_of(before.element_variables), *_reads(row_pass.row_live_in), *texts(before.each)]
        of_row += [f"r_{name}[j] = {name};" for _, name in row_pass.row_live_out]
        row: list[Line] = [*_before(before, vector), _each(vector, of_row)]
        return PassFields(
            [Block([], row)] if before.each else [], step, row_pass.accumulators, before.variables.union(used)
        )

    def _step_head(
        self, first: str, position: str, partial: bool, places: list[Statement], used: frozenset[str]
    ) -> list[str]:
        """The head of a step: the variable of its first element, what skips steps beyond the row, and what follows from it."""
        index = [s for s in places if s.name in used]
        named = [f"const Index {first} = {position};"] if partial or index or first in used else []
        beyond = [f"if ({first} >= {self._end}) continue;"] if partial else []
        return [*named, *beyond, *texts(index)]

    def _row_of(self, used: frozenset[str]) -> list[str]:
        """The row of element ``j`` of a span of rows, where that is named."""
        tile = self.spans.var.name
        return [f"const Index {tile} = {tile}_0 + j;"] if tile in used else []

    def _row_stores(self) -> list[Line]:
        """Stores of one value a row, by one thread of its team."""
        stores = texts(self.plan.row_stores)
        if self.form.team == 1 or not stores:
            return [*stores]
        one = {"live": self._guarded, "rank == 0": self.form.cluster > 1, "lane == 0": True}
        return [Block([_if_all(one)], stores)]

    def _position_down(self) -> str:
        """The position along the row of what a thread takes in a step, of rows that are neighbours."""
        form = self.form
        text = f"step * {form.team} + down" if form.team > 1 else "step"
        return f"rank * {form.steps * form.team} + {text}" if form.cluster > 1 else text

    def _position(self) -> str:
        """The position of a span's first element along the row."""
        form, vector = self.form, self.spans.vector
        text = f"step * {form.team} + lane" if form.team > 1 else "step"
        if vector > 1:
            text = f"({text}) * {vector}" if form.team > 1 else f"step * {vector}"
        if form.cluster > 1:
            text = f"rank * {form.steps * form.team * vector} + {text}"
        return f"{text} - shift" if self.spans.shifted else text

    # -- what both forms have

    @property
    def _width(self) -> int:
        return prod(v.extent for v in self.plan.program.reduced)

    @property
    def _end(self) -> str | int:
        """C text of the number of elements of a row."""
        return self.length or self._width

    @property
    def _inner_rows(self) -> int:
        """Rows for each value of the outermost variable."""
        return prod(v.extent for v in self.rows[1:])

    @property
    def _guarded(self) -> bool:
        """True if there may be teams without a row."""
        return 1 < self.form.team < self.form.threads

    @property
    def _places(self) -> dict[Scalar, str]:
        """The place of a thread's part of every kept value: 'registers' or a pointer into shared memory."""
        return {s: p if isinstance(p, str) else f"m_{self.plan.cache[s]}" for s, p in self.form.storage.items()}

    @property
    def _has_dynamic_steps(self) -> bool:
        """True if the length decides how many steps there are; where elements are kept, there is room for the most."""
        return bool(self.length) and not self.form.storage and self.form.cluster == 1

    def _inputs(self, each: int) -> ReductionInputs:
        """Fields of the records of both forms, of which a step takes ``each`` elements."""
        plan, form, storage = self.plan, self.form, self.form.storage
        steps: str | int = form.steps
        if self._has_dynamic_steps:
            more = each - 1 + (self.spans.vector - 1 if self.spans.anchor is not None else 0)
            steps = f"({self.length} + {more}) / {each}" if more else self.length
        unrolled = form.steps <= form.unroll and steps == form.steps
        parts = form.partial_sum_rows(prod(v.extent for v in self.rows), self.spans.writer.target)
        shared = [(s, at) for s, at in storage.items() if at != "registers"]
        return {
            "pointers": self.pointers,
            "index_type": index_type([plan.program], [parts * self._width] if plan.column_sums else ()),
            "inner_rows": self._inner_rows,
            "form": form,
            "vector": self.spans.vector,
            "steps": steps,
            "items": form.steps * self.spans.vector,
            "unroll": "HG_UNROLL" if unrolled else f"#pragma unroll {form.unroll}",
            "cached": [CachedValue(cached_type(s), self._places[s], at) for s, at in shared],
            "arrays": [(cached_type(s), plan.cache[s]) for s, at in storage.items() if at == "registers"],
        }


def _before(body: SpanBody, vector: int, inside: str = "") -> list[str]:
    """The lines that read spans of so many elements, and declare those that are written.

    Args:
        inside: C text of the first element of a span and of how many a row has, where rows begin anywhere.
    """
    read = f"hg::read_inside<{vector}, Index>({{}}, {inside})" if inside else f"hg::read<{vector}>({{}})"
    halves = [d.span for d in body.divisions if d.span != d.target]
    return [
        *(f"const hg::span<{p.type}, {vector}> {p.name} = {read.format(p.address)};" for p in body.reads),
        *(f"const hg::span<{p.type}, {vector}> {p.name} = hg::read<{vector}>({p.address});" for p in body.cache_reads),
        *(f"hg::span<{p.type}, {vector}> {p.name};" for p in (*body.writes, *body.cache_writes)),
        *(f"hg::span<float, {vector}> {name};" for name in halves),
    ]


def _after(body: SpanBody, vector: int, inside: str = "", guard: str = "") -> list[str]:
    """The lines that divide and write spans; ``guard``: the condition of the latter."""
    lines = [f"hg::write({p.address}, {p.name});" for p in body.cache_writes]
    for d in body.divisions:
        lines.append(f"hg::divide({d.span}, {d.divisor}, {d.reciprocal});")
        if d.span != d.target:
            each = f"for (int j = 0; j < {vector}; ++j)"
            lines += ["HG_UNROLL", f"{each} {d.target}.v[j] = {d.span}.v[j];"]
    write = f"hg::write_inside<Index>({{}}, {inside}, {{}});" if inside else "hg::write({}, {});"
    return [*lines, *(guard + write.format(p.address, p.name) for p in body.writes)]


def _if_all(conditions: dict[str, bool]) -> str:
    """The head of a block for those of the conditions that are needed."""
    return f"if ({' && '.join(text for text, needed in conditions.items() if needed)})"


def _each(vector: int, lines: Sequence[Line]) -> Block:
    """The loop over the elements of a span."""
    return Block(["HG_UNROLL", f"for (int j = 0; j < {vector}; ++j)"], lines)


def _taken(a: Accumulator, state: str) -> str:
    """C text of a state that has taken in an element."""
    return f"hg::{a.combine}<{a.type}>::add({state}, {a.operand}, {a.position or 0})"


def _reads(values: Sequence[tuple[str, str]]) -> list[str]:
    """Definitions of row values, which are in arrays."""
    return [f"const {type} {name} = r_{name}[j];" for type, name in values]


def _mark_arrival(passes: list[PassFields]) -> None:
    """Note the last pass that reduces anything, where several blocks share a row."""
    last = next((w for w in reversed(passes) if w.accumulators), None)
    if last is not None:
        last.arrives = True

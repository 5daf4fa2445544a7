# SPDX-License-Identifier: Apache-2.0
"""Reduction kernels on CUDA: from the passes over a row to the fields of the templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ....core.dtypes import f32
from ...ir.graph import Node
from ...ir.indexing import Expr, Var
from ...ir.types import tensor_type
from ...size_buckets import length_bucket, next_power_of_two
from ..blocks import Block, Line, texts
from ..choice import ReductionChoice
from ..in_place import in_place_pairs_reduction
from ..kernel import CWriter, Kernel, Launch, Pointer, headers, summary, unravel, variables_of
from ..reduction_passes import Accumulator, PassPlan
from ..row_reciprocals import stored_divisions
from ..runtime_args import reduces_batch_axis
from ..scalar import Reduction, Scalar, ScalarProgram
from ..traffic import elements_read, traffic
from .index_type import index_type
from .reduction_config import LaunchConfig, Workload, choose_columns, choose_rows, choose_rows_with_sums, live_values
from .reduction_fields import CachedValue, ColumnsFields, PassFields, RowsFields, RowsWithSumsFields
from .vector_access import SpanBuilder, cached_type, choose_vector

__all__ = ["schedule_reduction"]

_MIN_LENGTH_BUCKET = (
    256  #: elements that shorter rows are added up as, if their number is an argument: all take next to nothing
)
_MANY_ROWS = 1 << 10  #: neighbours that stand for any number of them
_MIN_CACHED_WIDTH = 64  #: elements that a row on chip has room for, at least, if how many it has is an argument


def schedule_reduction(
    program: ScalarProgram,
    writer: CWriter,
    rows: list[Var],
    columns: bool,
    members: list[Node],
    dynamic: Var | None,
) -> Kernel:
    """The kernel of a group with reductions.

    Sums over all rows are left in parts (see :mod:`.column_sums`), the last results.

    Args:
        dynamic: the variable whose extent may be an argument.
    """
    outputs = [s.node for s in program.stores]
    var = rows[-1] if columns else program.reduced[-1]
    if _has_fixed_order(program, writer.target.numeric):  # a batch of one is added up as others are
        dynamic = None
    ragged = not columns and not program.column_sums and len(program.reduced) == 1
    ragged = ragged and _order_may_vary(program, writer.target.numeric)
    vector, anchor = choose_vector(program, var, ragged)
    width = prod(v.extent for v in program.reduced)
    length = length_bucket(width, _MIN_LENGTH_BUCKET) if dynamic else 0
    widest = vector
    inside = None if columns else frozenset(program.reduced)
    quotients: dict[Scalar, tuple[Scalar, Scalar]] = {}
    if not columns and anchor is None and writer.target.numeric == "strict":
        quotients = stored_divisions(program, SpanBuilder(writer, var, vector, computed_inside=inside).is_span)
        writer.name_scalars(program.scalars)
    plan, form, vector = _choose(program, writer, rows, columns, widest, anchor, length)
    if dynamic is not None and (
        _depends_on_length(form) or _reread_bytes(program, plan, rows)
    ):  # arrays on chip have a length
        roomy = _choose(
            program, writer, rows, columns, widest, anchor, max(next_power_of_two(width), _MIN_CACHED_WIDTH)
        )
        again, kept = _reread_bytes(program, roomy[0], rows), _depends_on_length(roomy[1])
        exact = _choose(program, writer, rows, columns, widest, anchor, 0) if again or not kept else None
        if exact and ((_depends_on_length(form) and not kept) or _reread_bytes(program, exact[0], rows) < again):
            (plan, form, vector), dynamic = exact, None  # it fits, a longer one would not
        elif kept:
            plan, form, vector = roomy
    spans = SpanBuilder(writer, var, vector, anchor, inside, quotients)
    length_text = _length(program, writer, dynamic)
    make = _columns_fields if columns else _rows_fields
    extents: tuple[int, ...] = (rows[0].extent,)
    read, written = traffic(program)
    if program.column_sums:
        parts = form.partial_sum_rows(prod(v.extent for v in rows), writer.target)
        extents = (*extents, parts)
        left = [partial_sums_node(r, parts, width) for r in program.column_sums]
        outputs += left
        written += sum(n.type.nbytes for n in left)
    fields, launch = make(program, plan, form, spans, rows, length_text, writer.pointer_list(outputs))
    again = _reread_bytes(program, plan, rows)
    full = any(walk.targets for walk in plan.passes)
    choice = ReductionChoice(
        form="columns" if columns else "rows",
        width=prod(v.extent for v in program.reduced),
        threads=form.threads,
        team=form.team,
        vector=vector,
        steps=form.steps,
        cluster=form.cluster if form.cluster > 1 else None,
        merged=form.cluster_reduced if form.cluster_reduced > 1 else None,
        sums_beside_rows=len(program.column_sums) or None,
        parts=extents[-1] if program.column_sums else None,
        read_again=again or None,
        why=form.why,
    )
    return Kernel(
        kind="rows" if full else "reduce",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=extents,
        headers=(*headers(program), "reduce.h", *(["divide_cuda.h"] if quotients else [])),
        members=members,
        launch=launch,
        choice=choice,
        bytes_read=read + again,
        bytes_written=written,
        elements_read=elements_read(program),
        reread_bytes=again,
        register_demand=form.demand,
        in_place=in_place_pairs_reduction(program, plan) if _computes_once(rows, form, columns, spans) else [],
        runtime_args=writer.runtime_args,
    )


def _order_may_vary(program: ScalarProgram, numeric: str) -> bool:
    """True if the lanes' shares of a row may differ between rows, as they do where spans begin at multiples of 16 bytes.

    In the strict mode sums that round have the same order wherever the row stands.
    """
    rounds = (r.node.dtype.is_float and r.node.prim.name in ("sum", "prod") for r in program.reductions)
    return numeric == "fast" or not any(rounds)


def _has_fixed_order(program: ScalarProgram, numeric: str) -> bool:
    """True if a row is added up in the same order however many there are: in the strict mode, if rows are a batch."""
    return not _order_may_vary(program, numeric) and not reduces_batch_axis(program)


def partial_sums_node(total: Reduction, parts: int, width: int) -> Node:
    """The array of so many parts of a sum over all rows, each of which has ``width`` elements."""
    node, dtype = total.node, total.operand.dtype
    held = tensor_type((parts, width), f32 if dtype.is_half else dtype)
    return Node(node.builder, node.prim, (), {}, held, node.index, node.prov)


def _computes_once(rows: list[Var], form: LaunchConfig, columns: bool, spans: SpanBuilder) -> bool:
    """True if no thread without rows of its own reads those of others, to take part in barriers."""
    together = form.row_spans * (spans.vector if columns else 1)
    return prod(v.extent for v in rows) % together == 0 or not (columns or 1 < form.team < form.threads)


def _choose(
    program: ScalarProgram,
    writer: CWriter,
    rows: list[Var],
    columns: bool,
    vector: int,
    anchor: Expr | None,
    width: int,
) -> tuple[PassPlan, LaunchConfig, int]:
    """The passes, the form and the elements of a span, which are fewer where sums over all rows have no room otherwise, or
    elements that are needed again.

    What has no place on chip is refused, and the passes are planned again without it.

    Args:
        width: the length that stands for all that the form is to serve; 0 if that is this kernel's alone.
    """
    refused: frozenset[Scalar] = frozenset()
    while True:
        plan = PassPlan(program, writer, True, "", refused)
        work = _workload(program, plan, rows, vector, anchor is not None)
        work = replace(work, width=width, dynamic_width=True) if width else work
        if columns:
            same = _has_fixed_order(program, writer.target.numeric)
            form = choose_columns(work, writer.target, _contiguous_rows(program, rows, same), same)
        elif program.column_sums:
            found = choose_rows_with_sums(work, writer.target)
            if found is None:
                assert vector > 1, "sums over all rows have no room in any form"
                vector //= 2
                continue
            form = found
        else:
            form = choose_rows(work, writer.target)
        refused |= form.not_cached
        if not form.not_cached:
            break
    if columns and vector > 1 and _reread_bytes(program, plan, rows):  # fewer rows side by side may have room
        fewer = _choose(program, writer, rows, columns, vector // 2, anchor, width)
        if fewer[1].cluster > 1 and not _reread_bytes(program, fewer[0], rows):
            return fewer
    return plan, form, vector


def _depends_on_length(form: LaunchConfig) -> bool:
    """True if the text depends on how long rows are."""
    return bool(form.storage) or form.cluster > 1


def _contiguous_rows(program: ScalarProgram, rows: list[Var], same_order: bool) -> int:
    """How many rows follow each other in memory; any number of them if that is a batch, which may not decide."""
    batch = len(rows) == 1 and all(r.node.inputs[0].shape[0] > 1 for r in program.reductions)
    return _MANY_ROWS if batch and same_order else rows[-1].extent


def _workload(program: ScalarProgram, plan: PassPlan, rows: list[Var], vector: int, ragged: bool) -> Workload:
    width = prod(v.extent for v in program.reduced)
    count = prod(v.extent for v in rows)
    streamed = {
        s.node: s.node.dtype.size for s in program.scalars if s.op == "load" and s.node and _is_stream(s, rows, program)
    }
    walks = [w for w in plan.passes if w.scalars or w.accumulators or w.targets]
    arrays = {
        s.node: s.node.dtype.size
        for s in program.scalars
        if s.op == "load" and s.node and s.vars & set(program.reduced)
    }
    return Workload(
        rows=count,
        width=width,
        vector=vector,
        unaligned_rows=ragged,
        read=sum(streamed.values()),
        written=sum(program.stores[n].node.dtype.size for w in walks for n in w.targets),
        passes=len(walks),
        merges=sum(bool(w.accumulators) for w in walks),
        state=sum(_state_size(r.operand, r.node) for w in walks for r in w.reductions),
        operations=sum(s.node.prim.cost if s.node and s.op == "compute" else 1 for w in walks for s in w.scalars),
        live=live_values(plan),
        reread=_reread_bytes(program, plan, rows) // (count * width),
        arrays=len(arrays),
        loaded=sum(arrays.values()),
        double=any(s.dtype.is_float and s.dtype.size == 8 for s in program.scalars),
        column_sum_words=sum(max(4, r.operand.dtype.size) // 4 for r in program.column_sums),
        row_values=len(plan.row_values),
    )


def _is_stream(s: Scalar, rows: list[Var], program: ScalarProgram) -> bool:
    """True if a load brings other elements from memory for other rows, so that caches do not hold them."""
    if len(rows) == 1 and rows[0].extent == 1:
        return bool(s.vars & set(program.reduced))
    return bool(s.vars & set(program.reduced)) and bool(s.vars & set(rows))


def _state_size(operand: Scalar, node: Node) -> int:
    size = max(4, operand.dtype.size) if operand.dtype.is_float else operand.dtype.size
    return 16 if node.prim.name in ("argmax", "argmin") else size


def _reread_bytes(program: ScalarProgram, plan: PassPlan, rows: list[Var]) -> int:
    """Bytes that walks read from memory once more, because nothing on chip had room for them."""
    total = 0
    for s in program.scalars:
        if s.op != "load" or s in plan.cache or not _is_stream(s, rows, program):
            continue
        times = sum(s in w.scalars for w in plan.passes)
        assert s.node is not None
        total += max(0, times - 1) * min(s.node.size, prod(v.extent for v in s.vars)) * s.node.dtype.size
    return total


# -- what the templates see


def _length(program: ScalarProgram, writer: CWriter, dynamic: Var | None) -> str:
    """C text of the number of elements that are reduced, if an argument decides about it; else empty."""
    if dynamic is None:
        return ""
    rest = prod(v.extent for v in program.reduced if v is not dynamic)
    return f"(Index){writer.runtime_args.extent(dynamic)}" + (f" * {rest}" if rest > 1 else "")


def _has_dynamic_steps(form: LaunchConfig, length: str) -> bool:
    """True if the ``length`` decides how many steps there are; where elements are kept, there is room for the most."""
    return bool(length) and not form.storage and form.cluster == 1


def _rows_fields(
    program: ScalarProgram,
    plan: PassPlan,
    form: LaunchConfig,
    spans: SpanBuilder,
    rows: list[Var],
    length: str,
    pointers: list[Pointer],
) -> tuple[RowsFields, Launch]:
    """Rows that are contiguous: a team of threads has one."""
    vector, width = spans.vector, prod(v.extent for v in program.reduced)
    inner_rows = prod(v.extent for v in rows[1:])
    teams = form.threads // form.team
    single = len(program.reduced) == 1
    first = spans.base if single else "c_0"
    after = unravel([*program.reduced[:-1], Var(spans.base, spans.var.extent)], first) if not single else []
    places = _cache_pointers(plan, form)
    partial = bool(length) or form.cluster * form.steps * form.team * vector != width or spans.anchor is not None
    position = _position(form, vector, spans.shifted)
    guarded = 1 < form.team < form.threads
    guard = "if (live) " if guarded else ""
    walks = []
    for walk in plan.passes[:-1]:
        block = spans.pass_body(plan, walk, places, f"step * {vector} + j", form.team * vector)
        inside = block.element_variables.union(*(a.variables for a in walk.accumulators))
        inner = spans.var.name if spans.var.name in inside or spans.anchor is not None else ""
        used = inside | block.variables | ({spans.base} if inner else set())
        index = [c for c in after if c.name in used]
        named = partial or index or first in used
        step = [f"const Index {first} = {position};"] if named else []
        step += [f"if ({first} >= {length or width}) continue;"] if partial else []
        span = f"{first}, {length or width}" if spans.anchor is not None else ""
        each = [f"const Index {inner} = {inner}_0 + j;"] if inner else []
        each += [f"if ({inner} < 0 || {inner} >= {length or width}) continue;"] if span else []
        each += texts(block.each)
        each += [f"{a.name} = {_taken(a, a.name)};" for a in walk.accumulators]
        each += [f"{guard}{t.name}[step * {vector} + j] += {t.operand};" for t in walk.sums]
        each += [f"{guard}{store}" for store in block.scalar_stores]
        lines: list[Line] = [*step, *texts(index), *block.before(vector, span), _each(vector, each)]
        walks.append(
            PassFields(
                row=texts(walk.row),
                step=[*lines, *block.after(vector, span, guard)],
                accumulators=walk.accumulators,
                variables=inside | block.variables,
            )
        )
    if form.cluster > 1 and not program.column_sums:
        _mark_arrival(walks)
    again = form.team > 32 and sum(bool(w.accumulators) for w in walks) == 1
    sizes = [max(4, r.operand.dtype.size) for r in program.column_sums]
    turns = again and form.cluster > 1 and bool(plan.column_sums)  # barriers of a cluster are dear
    spans.writer.printed.clear()
    anchor = spans.writer.expr(spans.anchor) if spans.anchor is not None and spans.shifted else ""
    used = variables_of([*plan.row_stores, *(s for p in plan.passes for s in p.row)]) | spans.writer.variables()
    used = used.union(*(w.variables for w in walks))
    row = rows[0].name if len(rows) == 1 else "r"
    row_index = [s for s in (unravel(rows, "r") if len(rows) > 1 else []) if s.name in used]
    steps = _steps(form, spans, length, form.team * vector)
    fields = RowsFields(
        pointers=pointers,
        index_type=_index_type(program, form, spans),
        passes=walks,
        after=[*texts(plan.passes[-1].row), *_row_stores(plan, form, guarded)],
        row=row,
        row_index=row_index,
        inner_rows=inner_rows,
        threads=form.threads,
        vector=vector,
        steps=steps,
        items=form.steps * vector,
        unroll=_unroll(form, steps),
        cluster=form.cluster,
        lanes=min(form.team, 32),
        cached=_shared_values(form, places),
        arrays=_register_values(plan, form),
        shared_states=[a for w in walks for a in w.accumulators] if form.team > 32 else [],
        state_dims=(2, form.threads // 32) if turns else (form.threads // 32,),
        state_slot="[slot]" if turns else "",
        reuses_states=again and not turns,
        sums=[(s, f"y{len(program.stores) + n}") for n, s in enumerate(plan.column_sums)],
        sums_shape=f"[{form.steps * vector}][{form.threads}]" if plan.column_sums and teams > 1 else "",
        cluster_reduced=form.cluster_reduced,
        team=form.team,
        teams=teams,
        warps=form.team // 32,
        guarded=guarded,
        reads_row=row in used or bool(row_index),
        anchor=anchor,
        recompute_indices=form.recompute_indices,
    )
    if program.column_sums:
        each_sum = form.steps * vector * form.threads
        fields = RowsWithSumsFields.of(
            fields,
            blocks=form.blocks,
            sums_at=[each_sum * sum(sizes[:n]) for n in range(len(sizes))],
            width=width,
            span_place=[f"const Index at = {position};", *[f"if (at >= {width}) continue;"] * partial],
        )
        blocks = form.cluster * form.cluster_reduced
        launch = Launch(form.threads, extent=1, scale=1, per_block=1, shared=form.shared, cluster=blocks)
    elif form.cluster > 1:
        launch = Launch(form.threads, 0, inner_rows, per_block=1, shared=form.shared, cluster=form.cluster)
    else:
        limit = 2048 // form.threads * 8
        launch = Launch(form.threads, 0, inner_rows, per_block=teams, limit=limit, shared=form.shared)
    return fields, launch


def _columns_fields(
    program: ScalarProgram,
    plan: PassPlan,
    form: LaunchConfig,
    spans: SpanBuilder,
    rows: list[Var],
    length: str,
    pointers: list[Pointer],
) -> tuple[ColumnsFields, Launch]:
    """Rows that are neighbours in memory: a thread has a span of them and every so many-th element."""
    vector, width = spans.vector, prod(v.extent for v in program.reduced)
    inner_rows = prod(v.extent for v in rows[1:])
    single = len(program.reduced) == 1
    column = program.reduced[0].name if single else "c"
    places = _cache_pointers(plan, form)
    after = unravel(program.reduced, column) if not single else []
    partial = bool(length) if not _has_dynamic_steps(form, length) else form.team > 1
    partial = partial or (not length and form.cluster * form.steps * form.team != width)
    accumulators = [a for w in plan.passes for a in w.accumulators]
    tile, position = spans.var.name, _position_down(form)
    walks = []
    stored = [(n, s) for n, s in enumerate(program.stores) if not plan.is_full_store(s.value, s.offset.vars)]

    def lane(used: frozenset[str]) -> list[str]:
        """The row of element ``j`` of a span, where that is named."""
        return [f"const Index {tile} = {tile}_0 + j;"] if tile in used else []

    for walk in plan.passes[:-1]:
        block = spans.pass_body(plan, walk, places, f"step * {vector} + j", form.threads * vector)
        before = spans.row_body(walk.row_scalars, [])
        inside = block.element_variables.union(*(a.variables for a in walk.accumulators))
        used = inside | block.variables
        index = [c for c in after if c.name in used]
        step = [f"const Index {column} = {position};"] if partial or index or column in used else []
        step += [f"if ({column} >= {length or width}) continue;"] if partial else []
        live_in = _of_row(walk.live_in)
        each = [*live_in, *texts(block.each)]
        each += [f"{a.name}[j] = {_taken(a, f'{a.name}[j]')};" for a in walk.accumulators]
        each += [f"if (live) {store}" for store in block.scalar_stores]
        lines: list[Line] = [*step, *texts(index), *block.before(vector), _each(vector, [*lane(inside), *each])]
        row = [*lane(before.element_variables), *_of_row(walk.row_live_in), *texts(before.each)]
        row += [f"r_{name}[j] = {name};" for _, name in walk.row_live_out]
        before_walk: list[Line] = [*before.before(vector), _each(vector, row)]
        walks.append(
            PassFields(
                row=[Block([], before_walk)] if before.each else [],
                step=[*lines, *block.after(vector, guard="if (live) ")],
                accumulators=walk.accumulators,
                variables=before.variables.union(used),
            )
        )
    if form.cluster > 1:
        _mark_arrival(walks)
    last = spans.row_body(plan.passes[-1].row_scalars, stored)
    conditions = ["live", *["rank == 0"] * (form.cluster > 1), *["down == 0"] * (form.team > 1)]
    finish = [
        *lane(last.element_variables),
        *_of_row(plan.passes[-1].row_live_in),
        *texts([*last.each, *last.scalar_stores]),
    ]
    results: list[Line] = [*last.before(vector), _each(vector, finish), *last.after(vector)]
    used = last.variables.union(*(w.variables for w in walks))
    used |= {spans.base} if tile in used else set()
    index = unravel([*rows[:-1], Var(spans.base, spans.var.extent)], "r") if len(rows) > 1 else []
    steps = _steps(form, spans, length, form.team)
    fields = ColumnsFields(
        pointers=pointers,
        index_type=_index_type(program, form, spans),
        passes=walks,
        after=[Block([f"if ({' && '.join(conditions)})"], results)] if stored else [],
        row=f"{tile}_0" if len(rows) == 1 else "r",
        row_index=[s for s in index if s.name in used],
        inner_rows=inner_rows,
        threads=form.threads,
        vector=vector,
        steps=steps,
        items=form.steps * vector,
        unroll=_unroll(form, steps),
        cluster=form.cluster,
        lanes=form.lanes,
        cached=_shared_values(form, places),
        arrays=_register_values(plan, form),
        shared_states=accumulators if form.states_per_row > 1 else [],
        state_dims=(form.states_per_row, vector, form.row_spans),
        cluster_states=accumulators if form.cluster > 1 else [],
        cluster_shape=f"[{vector}][{form.row_spans}]",
        reuses_states=form.states_per_row > 1 and sum(bool(w.accumulators) for w in walks) == 1,
        row_spans=form.row_spans,
        down=form.team,
        states_per_row=form.states_per_row,
        lane_stride=form.row_spans if form.lanes > 1 else 32,
        row_values=plan.row_values,
    )
    limit = max(1, 2048 // form.threads) * 8 if form.cluster == 1 else 0
    launch = Launch(
        form.threads, 0, inner_rows, form.row_spans * vector, limit, shared=form.shared, cluster=form.cluster
    )
    return fields, launch


# -- what both forms have


def _each(vector: int, lines: Sequence[Line]) -> Block:
    """The loop over the elements of a span."""
    return Block(["HG_UNROLL", f"for (int j = 0; j < {vector}; ++j)"], lines)


def _taken(a: Accumulator, state: str) -> str:
    """C text of a state that has taken in an element."""
    return f"hg::{a.combine}<{a.type}>::add({state}, {a.operand}, {a.position or 0})"


def _of_row(values: Sequence[tuple[str, str]]) -> list[str]:
    """Definitions of row values, which are in arrays."""
    return [f"const {type} {name} = r_{name}[j];" for type, name in values]


def _row_stores(plan: PassPlan, form: LaunchConfig, guarded: bool) -> list[Line]:
    """Stores of one value a row, by one thread of its team."""
    if form.team == 1 or not plan.row_stores:
        return [*texts(plan.row_stores)]
    conditions = [*["live"] * guarded, *["rank == 0"] * (form.cluster > 1), "lane == 0"]
    return [Block([f"if ({' && '.join(conditions)})"], texts(plan.row_stores))]


def _steps(form: LaunchConfig, spans: SpanBuilder, length: str, each: int) -> str | int:
    """C text of the steps of a walk.

    Args:
        length: C text of the number of elements, if that is an argument.
        each: elements that a step takes.
    """
    if not _has_dynamic_steps(form, length):
        return form.steps
    more = each - 1 + (spans.vector - 1 if spans.anchor is not None else 0)
    return f"({length} + {more}) / {each}" if more else length


def _unroll(form: LaunchConfig, steps: str | int) -> str:
    """The pragma of the loop over the ``steps`` of a walk."""
    return "HG_UNROLL" if form.steps <= form.unroll and steps == form.steps else f"#pragma unroll {form.unroll}"


def _index_type(program: ScalarProgram, form: LaunchConfig, spans: SpanBuilder) -> str:
    width = prod(v.extent for v in program.reduced)
    parts = form.partial_sum_rows(prod(v.extent for v in program.vars if v not in program.reduced), spans.writer.target)
    return index_type([program], [parts * width] if program.column_sums else ())


def _mark_arrival(walks: list[PassFields]) -> None:
    """Note the last walk that reduces anything, where several blocks share a row."""
    last = next((w for w in reversed(walks) if w.accumulators), None)
    if last is not None:
        last.arrives = True


def _shared_values(form: LaunchConfig, places: dict[Scalar, str]) -> list[CachedValue]:
    """Values that are kept in shared memory."""
    return [CachedValue(cached_type(s), places[s], at) for s, at in form.storage.items() if at != "registers"]


def _register_values(plan: PassPlan, form: LaunchConfig) -> list[tuple[str, str]]:
    """(type, array) of values that are kept in registers."""
    return [(cached_type(s), plan.cache[s]) for s, place in form.storage.items() if place == "registers"]


def _cache_pointers(plan: PassPlan, form: LaunchConfig) -> dict[Scalar, str]:
    """Where a thread's part of every kept value begins: 'registers' or a pointer into shared memory."""
    return {s: p if isinstance(p, str) else f"m_{plan.cache[s]}" for s, p in form.storage.items()}


def _position_down(form: LaunchConfig) -> str:
    """The position along the row of what a thread takes in a step, of rows that are neighbours."""
    text = f"step * {form.team} + down" if form.team > 1 else "step"
    return f"rank * {form.steps * form.team} + {text}" if form.cluster > 1 else text


def _position(form: LaunchConfig, vector: int, shifted: bool) -> str:
    """The position of a span's first element along the row."""
    text = f"step * {form.team} + lane" if form.team > 1 else "step"
    if vector > 1:
        text = f"({text}) * {vector}" if form.team > 1 else f"step * {vector}"
    if form.cluster > 1:
        text = f"rank * {form.steps * form.team * vector} + {text}"
    return f"{text} - shift" if shifted else text

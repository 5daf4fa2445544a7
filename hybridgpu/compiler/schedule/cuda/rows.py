# SPDX-License-Identifier: Apache-2.0
"""Reduction kernels on CUDA: which threads have a row, and what they keep of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from ....core.dtypes import f32
from ...ir.graph import Node
from ...ir.indexing import Expr, Var
from ...ir.types import tensor_type
from ...size_buckets import length_bucket, next_power_of_two
from ..choice import Choice
from ..in_place import in_place_pairs_reduction
from ..kernel import CWriter, Kernel
from ..program_kernel import kernel_of_program
from ..reduction_passes import PassPlan
from ..row_reciprocals import stored_divisions
from ..runtime_args import reduces_batch_axis
from ..scalar import Reduction, Scalar, ScalarProgram
from .reduction_config import LaunchConfig, Workload, choose_columns, choose_rows, choose_rows_with_sums, live_values
from .reduction_loops import ReductionLoops
from .vector_access import SpanBuilder, choose_vector

__all__ = ["schedule_reduction"]

_MIN_LENGTH_BUCKET = (
    256  #: elements that shorter rows are added up as, if their number is an argument: all take next to nothing
)
_MANY_ROWS = 1 << 10  #: neighbours that stand for any number of them
_MIN_CACHED_WIDTH = 64  #: elements that a row on chip has room for, at least, if how many it has is an argument


def schedule_reduction(
    writer: CWriter, rows: list[Var], columns: bool, members: list[Node], dynamic: Var | None
) -> Kernel:
    """The kernel of a group with reductions.

    Sums over all rows are left in parts (see :mod:`.column_sums`), the last results.

    Args:
        dynamic: the variable whose extent may be an argument.
    """
    program = writer.program
    outputs = [s.node for s in program.stores]
    var = rows[-1] if columns else program.reduced[-1]
    if _has_fixed_order(program, writer.target.numeric):  # a batch of one is added up as others are
        dynamic = None
    ragged = not columns and not program.column_sums and len(program.reduced) == 1
    ragged = ragged and _order_may_vary(program, writer.target.numeric)
    vector, anchor = choose_vector(program, var, ragged)
    width = prod(v.extent for v in program.reduced)
    length = length_bucket(width, _MIN_LENGTH_BUCKET) if dynamic else 0
    inside = None if columns else frozenset(program.reduced)
    quotients: dict[Scalar, tuple[Scalar, Scalar]] = {}
    if not columns and anchor is None and writer.target.numeric == "strict":
        quotients = stored_divisions(program, SpanBuilder(writer, var, vector, computed_inside=inside).is_span)
        writer.name_scalars(program.scalars)
    choose = partial(_choose, writer, rows, columns, vector, anchor)
    plan, form, vector = choose(length)
    if dynamic is not None and (_depends_on_length(form) or _reread_bytes(plan, rows)):  # arrays on chip have a length
        roomy = choose(max(next_power_of_two(width), _MIN_CACHED_WIDTH))
        again, length_dependent = _reread_bytes(roomy[0], rows), _depends_on_length(roomy[1])
        exact = choose(0) if again or not length_dependent else None
        if exact and ((_depends_on_length(form) and not length_dependent) or _reread_bytes(exact[0], rows) < again):
            (plan, form, vector), dynamic = exact, None  # it fits, a longer one would not
        elif length_dependent:
            plan, form, vector = roomy
    spans = SpanBuilder(writer, var, vector, anchor, inside, quotients)
    extents: tuple[int, ...] = (rows[0].extent,)
    if program.column_sums:
        parts = form.partial_sum_rows(prod(v.extent for v in rows), writer.target)
        extents = (*extents, parts)
        outputs += [partial_sums_node(r, parts, width) for r in program.column_sums]
    loops = ReductionLoops(plan, form, spans, rows, _length(writer, dynamic), writer.pointer_list(outputs))
    fields, launch = loops.columns_fields() if columns else loops.rows_fields()
    again = _reread_bytes(plan, rows)
    choice = Choice(
        {
            "form": "columns" if columns else "rows",
            "width": width,
            "threads": form.threads,
            "team": form.team,
            "vector": vector,
            "steps": form.steps,
            "cluster": form.cluster if form.cluster > 1 else None,
            "merged": form.cluster_reduced if form.cluster_reduced > 1 else None,
            "column_sums": len(program.column_sums) or None,
            "parts": extents[-1] if program.column_sums else None,
            "reread_bytes": again or None,
        },
        why=form.why,
    )
    return kernel_of_program(
        writer,
        plan.kind,
        members,
        fields,
        choice,
        extents,
        ("reduce.h", *(["divide_cuda.h"] if quotients else [])),
        outputs,
        reread_bytes=again,
        launch=launch,
        in_place=in_place_pairs_reduction(plan) if _computes_once(rows, form, columns, spans) else [],
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
    parts_type = tensor_type((parts, width), f32 if dtype.is_half else dtype)
    return Node(node.builder, node.prim, (), {}, parts_type, node.index, node.prov)


def _computes_once(rows: list[Var], form: LaunchConfig, columns: bool, spans: SpanBuilder) -> bool:
    """True if no thread without rows of its own reads those of others, to take part in barriers."""
    together = form.teams * (spans.vector if columns else 1)
    return prod(v.extent for v in rows) % together == 0 or not (columns or 1 < form.team < form.threads)


def _choose(
    writer: CWriter, rows: list[Var], columns: bool, vector: int, anchor: Expr | None, width: int
) -> tuple[PassPlan, LaunchConfig, int]:
    """The passes, the form and the elements of a span, which are fewer where sums over all rows have no room otherwise, or
    elements that are needed again.

    What has no place on chip is refused, and the passes are planned again without it.

    Args:
        width: the length that stands for all that the form is to serve; 0 if that is this kernel's alone.
    """
    program = writer.program
    refused: frozenset[Scalar] = frozenset()
    while True:
        plan = PassPlan(writer, True, "", refused)
        work = _workload(plan, rows, vector, anchor is not None)
        work = replace(work, width=width, dynamic_width=True) if width else work
        if columns:
            same = _has_fixed_order(program, writer.target.numeric)
            form = choose_columns(work, writer.target, _contiguous_rows(program, rows, same), same)
        elif program.column_sums:
            with_sums = choose_rows_with_sums(work, writer.target)
            if with_sums is None:
                assert vector > 1, "sums over all rows have no room in any form"
                vector //= 2
                continue
            form = with_sums
        else:
            form = choose_rows(work, writer.target)
        refused |= form.not_cached
        if not form.not_cached:
            break
    if columns and vector > 1 and _reread_bytes(plan, rows):  # fewer rows side by side may have room
        fewer = _choose(writer, rows, columns, vector // 2, anchor, width)
        if fewer[1].cluster > 1 and not _reread_bytes(fewer[0], rows):
            return fewer
    return plan, form, vector


def _depends_on_length(form: LaunchConfig) -> bool:
    """True if the text depends on how long rows are."""
    return bool(form.storage) or form.cluster > 1


def _contiguous_rows(program: ScalarProgram, rows: list[Var], same_order: bool) -> int:
    """The number of rows that follow each other in memory; any number of them if that is a batch, which may not decide."""
    batch = len(rows) == 1 and all(r.node.inputs[0].shape[0] > 1 for r in program.reductions)
    return _MANY_ROWS if batch and same_order else rows[-1].extent


def _workload(plan: PassPlan, rows: list[Var], vector: int, ragged: bool) -> Workload:
    program = plan.program
    width = prod(v.extent for v in program.reduced)
    count = prod(v.extent for v in rows)
    streamed = {
        s.node: s.node.dtype.size for s in program.scalars if s.op == "load" and s.node and _is_stream(s, rows, program)
    }
    passes = [w for w in plan.passes if w.scalars or w.accumulators or w.targets]
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
        written=sum(program.stores[n].node.dtype.size for w in passes for n in w.targets),
        passes=len(passes),
        merges=sum(bool(w.accumulators) for w in passes),
        state=sum(_state_size(r.operand, r.node) for w in passes for r in w.reductions),
        operations=sum(s.node.prim.cost if s.node and s.op == "compute" else 1 for w in passes for s in w.scalars),
        live=live_values(plan),
        reread=_reread_bytes(plan, rows) // (count * width),
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


def _reread_bytes(plan: PassPlan, rows: list[Var]) -> int:
    """Bytes that passes read from memory once more, because nothing on chip had room for them."""
    total = 0
    for s in plan.program.scalars:
        if s.op != "load" or s in plan.cache or not _is_stream(s, rows, plan.program):
            continue
        times = sum(s in w.scalars for w in plan.passes)
        assert s.node is not None
        total += max(0, times - 1) * min(s.node.size, prod(v.extent for v in s.vars)) * s.node.dtype.size
    return total


def _length(writer: CWriter, dynamic: Var | None) -> str:
    """C text of the number of elements that are reduced, if an argument decides about it; else empty."""
    if dynamic is None:
        return ""
    rest = prod(v.extent for v in writer.program.reduced if v is not dynamic)
    return f"(Index){writer.runtime_args.extent(dynamic)}" + (f" * {rest}" if rest > 1 else "")

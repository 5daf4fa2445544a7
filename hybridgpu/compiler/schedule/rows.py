# SPDX-License-Identifier: Apache-2.0
"""Reduction kernels: softmax, normalisations, sums, and elementwise work around them.

A row is walked in passes (see :mod:`.reduction_passes`). Two forms: *inner*, the reduced elements are neighbours in memory (threads or vector lanes share a
row); *columns*, the rows are neighbours (every thread or lane has a row of its own).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod

from ..ir.dims import nominal
from ..ir.graph import Node
from ..ir.indexing import Expr, Var
from ..size_buckets import worth_argument
from ..target import Target
from .choice import Choice, with_form
from .cpu.loop_nests import LoopFields, TooManyStatements
from .cpu.pooling_tiles import tile_pooling_windows
from .cpu.rows import (
    TILE,
    cache_index,
    columns_fields,
    packed_lanes,
    rows_fields,
    rows_per_group,
    transpose_short_rows,
    uses_private_buffer,
)
from .cpu.unrolled_windows import unroll_windows, wants_unrolled_windows
from .in_place import in_place_pairs_reduction
from .kernel import CWriter, Kernel
from .map import schedule_map
from .program_kernel import kernel_of_program
from .reduction_passes import PassPlan
from .runtime_args import (
    dynamic_axes,
    dynamic_columns,
    dynamic_outer_reduction,
    dynamic_row,
    is_outermost,
    reduces_batch_axis,
)
from .scalar import ScalarProgram
from .traffic import bytes_of, elements_read

__all__ = ["schedule_rows"]

_WINDOW = 64  #: elements of a window, …
_STEP = 4  #: … distance of windows, …
_NEIGHBOURS = 4  #: … and their number along an axis, for which each lane or thread takes a window of its own


def schedule_rows(program: ScalarProgram, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group with reductions (``program`` is normalised)."""
    writer = CWriter(target, program, allows_dynamic=True)
    outputs = [s.node for s in program.stores]
    rows = [v for v in program.vars if v not in program.reduced]
    columns = not program.column_sums and _is_outer_reduction(program, rows)
    width = prod(v.extent for v in program.reduced)
    if not rows:
        rows = [Var("r0", 1)]
        program.vars.insert(0, rows[0])
    if target.name == "cuda":
        from .cuda.rows import schedule_reduction

        return schedule_reduction(writer, rows, columns, members, dynamic_outer_reduction(program, rows, columns))
    transposed = (
        None
        if program.column_sums
        else transpose_short_rows(program, rows, writer) or tile_pooling_windows(program, rows, writer)
    )
    if (
        not transposed
        and not program.column_sums
        and not program.full_reductions
        and wants_unrolled_windows(program, rows)
    ):
        with suppress(TooManyStatements):
            return _unrolled_kernel(program, target, members)
    tile = transposed.rows if transposed else 0
    fits = width * 4 <= target.register_row
    columns = columns or transposed is not None or (width == 1 and not program.column_sums)
    packed = columns and not transposed and len(program.reduced) == 1
    # (where the batch is added up, how many there are is dynamic)
    run = packed_lanes(program, rows) if packed and not reduces_batch_axis(program) else 0
    if run and len(rows) == 1:  # of a batch of one
        rows.insert(0, Var("r0", 1))
        program.vars.insert(0, rows[0])
    lanes = rows[-1] if tile else None if columns else program.reduced[-1]
    dynamic = None if tile or run or program.column_sums else dynamic_outer_reduction(program, rows, columns)
    length = dynamic_row(program) if not columns and dynamic is None else None
    if length:
        writer.dynamic_axes = frozenset(v.name for v in program.vars) | {"at"}
    elif not columns and not program.column_sums and (len(program.reduced) == 1 or _is_single_pass(program)):
        writer.inner, writer.dynamic_axes = program.reduced[-1], dynamic_axes(program, program.reduced[-1])
    elif columns and not tile and not run and not program.column_sums:
        writer.inner, writer.dynamic_axes = rows[-1], dynamic_columns(program, rows[-1], dynamic)
    private = not columns and dynamic is None and uses_private_buffer(program)  # (a buffer's length is in the text)
    index_text = cache_index(program, tile, rows_per_group(program, length) if private else 0, writer.extent)
    lanes = None if private else lanes
    plan = PassPlan(writer, tile > 0 or (fits and not columns), index_text, result_axis=lanes)
    pointers = writer.pointer_list(outputs)
    fields: LoopFields
    choice: Choice
    more: list[str] = []
    if columns:
        fields, choice = columns_fields(program, rows, plan, pointers, transposed, dynamic, run)
        if transposed and not transposed.run:
            more = ["tile_cpu.h"]
    else:
        fields, choice = rows_fields(program, rows, plan, pointers, dynamic, length, private)
        if (fields.states or fields).nontemporal is not None:
            more = ["stream_cpu.h"]
    if fields.states:
        more.append("chunks_cpu.h")
    return kernel_of_program(
        writer,
        plan.kind,
        members,
        fields,
        choice,
        (rows[0].extent,),
        ("reduce.h", *more),
        in_place=in_place_pairs_reduction(plan),
        chunk_multiple=_chunk_multiple(plan, rows, columns),
        most_chunks=fields.states.count if fields.states else 0,
    )


def _chunk_multiple(plan: PassPlan, rows: list[Var], columns: bool) -> int:
    """The number that chunks of rows are multiples of: of rows that lie or are finished side by side, a tile."""
    if len(rows) > 1:
        return 1
    return TILE if columns or plan.full_reductions else 1


def _unrolled_kernel(program: ScalarProgram, target: Target, members: list[Node]) -> Kernel:
    """The kernel of windows whose elements are statements rather than loops."""
    read = bytes_of(elements_read(program))
    kernel = schedule_map(unroll_windows(program), target, members)
    return replace(
        kernel,
        kind="reduce",
        headers=(*kernel.headers, "reduce.h"),
        choice=with_form(kernel.choice, "unrolled"),
        bytes_read=read,
    )


def _is_single_pass(program: ScalarProgram) -> bool:
    """True if nothing of a row is kept or written: its length may be dynamic."""
    reduced = set(program.reduced)
    return len(program.reductions) == 1 and not any((s.value.vars | s.offset.vars) & reduced for s in program.stores)


def _is_outer_reduction(program: ScalarProgram, rows: list[Var]) -> bool:
    """True if most data is contiguous along a row variable rather than a reduced one."""
    if not rows or not program.reduced:
        return False
    votes = 0
    for s in program.scalars:
        if s.op == "load" and s.offset is not None and s.vars & set(program.reduced):
            elements = prod(v.extent for v in s.vars)
            votes += elements * (s.offset.coefficient(rows[-1]) == 1)
            votes -= elements * (s.offset.coefficient(program.reduced[-1]) == 1)
    return votes > 0 or _small_windows(program, rows[-1])


def _small_windows(program: ScalarProgram, row: Var) -> bool:
    """True if small windows slide over the data: neighbouring rows overlap or follow each other closely."""
    if worth_argument(program.reduced[0].extent) and is_outermost(program, program.reduced[0]):  # a sum over the batch
        return False
    offsets = [s.offset for s in program.scalars if s.op == "load" and s.offset and s.vars & set(program.reduced)]
    return bool(offsets) and all(_follows_closely(program, e, row) for e in offsets)


def _follows_closely(program: ScalarProgram, offset: Expr, row: Var) -> bool:
    """True if small windows at ``offset`` overlap along ``row``, or follow each other closely."""
    step = offset.coefficient(row)
    last = program.reduced[-1].extent
    small = nominal(prod(v.extent for v in program.reduced)) <= _WINDOW and row.extent >= _NEIGHBOURS
    return small and 0 < step <= _STEP and (len(program.reduced) > 1 or step < last)

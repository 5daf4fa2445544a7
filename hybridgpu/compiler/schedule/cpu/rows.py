# SPDX-License-Identifier: Apache-2.0
"""Reduction kernels on the CPU: the fields of their templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd, prod

from ...devices.cpu import CpuConstants
from ...ir.dim_texts import is_literal, literal_text
from ...ir.dims import Dim, nominal
from ...ir.indexing import Expr, Var, of_var
from ...size_buckets import MIN_LANE_ROWS, bucket, next_power_of_two
from ..blocks import Line
from ..choice import Choice
from ..kernel import CWriter, Pointer, address, variables_of
from ..reduction_passes import Accumulator, PassPlan
from ..runtime_args import dynamic_row, dynamic_transposed
from ..scalar import Scalar, ScalarProgram, Store
from .chunks import CHUNK_ROWS
from .loop_nests import LoopFields
from .nontemporal_stores import (
    is_contiguous,
    is_line_aligned,
    same_alignment,
    store_block,
    streaming_condition,
    unaligned_prefix,
)
from .reduction_loops import PARTIAL_SUM_TERMS, ColumnLoops, RowLoops, RowTiles, TileCopy

__all__ = [
    "cache_index",
    "columns_fields",
    "packed_lanes",
    "rows_fields",
    "rows_per_group",
    "transpose_short_rows",
    "uses_private_buffer",
]

TILE = 64  #: rows of a tile
#: rows of up to so many elements are turned, a tile of them at a time, to lie side by side, …
_VECTOR = CpuConstants.vector_bytes // 4
SHORT_ROW = 63  #: … and of up to so many that are no multiple: vectors would be filled in part
_LANES = 64  #: states of one reduction: four vectors hide the latency of an addition
_MAX_LANES = 128  #: … or so many, where they divide a row and 64 do not
_MAX_SHARED_OPS = (
    8  #: operations of an element up to which GCC may take two rows of columns at once: states are read once
)
_COLUMNS = 256  #: columns that are walked together, half as many if several times: states in the first-level cache
_L1_ROW_BYTES = CpuConstants.l1_bytes // 3  #: bytes of rows that are fetched ahead into the first-level cache, …
_L2_ROW_BYTES = CpuConstants.l2_bytes // 4  #: … and into the second; longer rows are left to the hardware
_PREFETCH_BYTES = CpuConstants.prefetched_bytes  #: bytes between a row in work and the one fetched ahead
_GROUP_BYTES = (
    CpuConstants.l1_bytes // 6
)  #: bytes of rows that are walked together: they stay in the first-level cache, …
_MAX_GROUP = 4  #: … and their number
_MIN_PACKED_ROW = (
    32  #: where few rows are neighbours, the least length of rows whose lanes take several elements of each, …
)
_MIN_PACKED_ELEMENTS = 128  #: … and elements of all: in the end lanes put their states together
_MAX_STREAMED = 4  #: that are stored in blocks
_MIN_STREAMED_SIZE = (
    4  #: bytes of an element from which rows that begin anywhere are streamed (halves are computed for longer), …
)
_MIN_STREAMED_ROW = 384  #: … and elements of a row: whole lines are few in shorter ones
_PRIVATE_BUFFER_BYTES = CpuConstants.l1_bytes // 3  #: bytes of a row that are kept in a buffer of their own


def cache_index(
    program: ScalarProgram, tile: int, rows: int = 0, extent: Callable[[Var], str] = lambda v: literal_text(v.extent)
) -> str:
    """The index of the loop variables' element in a row's cache; in a tile of rows, that of row ``j``.

    Args:
        rows: how many rows are walked together.
        extent: C text of how many elements there are along a variable.
    """
    at = row_major_text(program.reduced)
    if rows:
        row = next(v for v in reversed(program.vars) if v not in program.reduced)
        one = len(program.reduced) == 1
        width = extent(program.reduced[0]) if one else literal_text(prod(v.extent for v in program.reduced))
        return f"({row.name} - from) * {width} + {at}"
    return f"({at}) * {tile} + j" if tile else at


def uses_private_buffer(program: ScalarProgram) -> bool:
    """Whether what later passes need is better kept in a buffer than where the last pass's results will lie.

    A store there would wait for its line. Longer rows would throw each other out of the first-level cache.
    """
    return _row_bytes(program) <= _PRIVATE_BUFFER_BYTES


def rows_per_group(program: ScalarProgram, length: Var | None = None) -> int:
    """The number of rows that may share a pass, 0 for one after the other, but not if their ``length`` is dynamic."""
    count = min(_MAX_GROUP, _GROUP_BYTES // _row_bytes(program))
    return max(count, 1) if length else count if count > 1 else 0


def _row_bytes(program: ScalarProgram) -> int:
    return prod(v.extent for v in program.reduced) * max(s.dtype.size for s in program.scalars)


def rows_fields(
    program: ScalarProgram,
    rows: list[Var],
    plan: PassPlan,
    pointers: list[Pointer],
    dynamic: Var | None,
    length: Var | None,
    private: bool,
) -> tuple[LoopFields, Choice]:
    """Fields and choice of the form whose lanes share a row.

    Args:
        dynamic: the outermost variable that is reduced, if its extent is an argument.
        length: the variable of rows whose length is dynamic.
        private: what later passes need is in a buffer of its own, see :func:`uses_private_buffer`.
    """
    last = program.reduced[-1]
    alone = dynamic is last
    # (a row alone is added up as it is among others)
    size = _LANES if (alone or length) and last.extent < _LANES else _lane_count(last.extent)
    outer = program.reduced[:-1]
    blocks = -(-last.extent // size)
    # a sum of sums: within a part, and of the parts
    part = (
        size * PARTIAL_SUM_TERMS
        if alone or blocks > PARTIAL_SUM_TERMS or (blocks > 1 and prod(v.extent for v in outer) > 1)
        else 0
    )
    _set_lane_types(program, plan, size, part)
    count = _group_size(program, plan, length) if dynamic is None else 0
    group, step = (
        (_MAX_GROUP, plan.writer.runtime_args.named("group_rows", count)) if length and count else (count, str(count))
    )
    for w in plan.passes:  # what a row's own statements read or compute is there already
        there = {name for _, name in w.row_live_in} | {s.name for s in w.row}
        w.live_in = [entry for entry in w.live_in if entry[1] not in there]
    _add_prefetches(program, rows, plan, dynamic, max(1, count), length)
    extents = _extents(program, plan, dynamic)
    extent = extents[-1]
    width = prod(v.extent for v in program.reduced)
    room = next_power_of_two(width) if dynamic else width
    if length:  # of some rows that share a pass
        near = _PRIVATE_BUFFER_BYTES // max(s.dtype.size for s in program.scalars)
        cache_length = near if private else next_power_of_two(length.extent)
    else:
        cache_length = room if dynamic else width * max(1, group)
    loops = RowLoops(
        plan=plan,
        rows=[(v.name, plan.writer.extent(v) if k else literal_text(v.extent)) for k, v in enumerate(rows)],
        reduced=[(v.name, n) for v, n in zip(outer, extents, strict=False)],
        width=room,
        tile=last.name,
        tile_size=size,
        masked_vector=_VECTOR if length else 0,
        group=group,
        group_step=step,
        part=part,
        extent=extent,
        elements=extent if alone or (length and last.extent < size) else "",
        # (blocks of one length are worth a text of their own: their states stay in registers)
        count=str(size) if last.extent % size == 0 else f"{extent} - at < {size} ? {extent} - at : {size}",
        cache_length=cache_length,
        totals_lanes=_LANES,
        element=row_major_text(program.reduced),
        streaming_condition=_nontemporal_condition(program, rows, plan, dynamic, length, size),
    )
    streamed = loops.lines(True) if loops.streaming_condition else None
    fields = _loop_fields(loops, rows, pointers, loops.lines(False), streamed)
    choice = Choice(
        {
            "form": "inner",
            "width": width,
            "kept": len(plan.cache_buffers),
            "tile": size,
            "group": count if count > 1 else None,
            "column_sums": len(plan.column_sums) or None,
            "full_reductions": len(plan.full_reductions) or None,
        }
    )
    return fields, choice


def _group_size(program: ScalarProgram, plan: PassPlan, length: Var | None) -> int:
    """The number of rows that share a pass, 0 for one after the other.

    Every pass but the first needs a row's reduced values, which come out of a chain of dependent instructions that
    takes as long as some hundred elements.
    """
    wide = length is not None and not uses_private_buffer(program)
    return rows_per_group(program, length) if len(plan.passes) >= 3 and not wide else 0


def _extents(program: ScalarProgram, plan: PassPlan, dynamic: Var | None) -> list[str]:
    """C text of the extents of what is reduced."""
    return [plan.writer.runtime_args.extent(v) if v is dynamic else plan.writer.extent(v) for v in program.reduced]


def packed_lanes(program: ScalarProgram, rows: list[Var]) -> int:
    """The number of elements of each row that lanes take at once where few rows are neighbours; 0 if lanes are rows.

    A run of them lies in memory without a gap, of every array that is walked, and is some whole vectors.
    """
    last, count = rows[-1], rows[-1].extent
    few = 1 < nominal(count) < MIN_LANE_ROWS
    if len(program.reduced) != 1 or not few or program.column_sums or program.full_reductions:
        return 0
    along = program.reduced[0]
    if nominal(along.extent) < _MIN_PACKED_ROW or nominal(along.extent * count) < _MIN_PACKED_ELEMENTS:
        return 0
    run = _VECTOR // gcd(_VECTOR, count)
    while run * count < _LANES and along.extent % (2 * run) == 0:
        run *= 2
    if run == 1 or along.extent % run or run * count > _MAX_LANES or along.extent < 2 * run:
        return 0
    if any(r.node.prim.name in ("argmax", "argmin") for r in program.reductions):  # lanes do not know positions
        return 0
    if any(s.conditions or s.op not in ("const", "load", "compute", "reduction") for s in program.scalars):
        return 0
    walked = [s.offset for s in program.scalars if s.offset is not None]
    walked += [s.offset for s in program.stores if s.offset.coefficient(along)]
    left = [s.offset for s in program.stores if not s.offset.coefficient(along)]
    if any(not e.affine for e in (*walked, *left)):
        return 0
    fits = all((e.coefficient(along), e.coefficient(last)) in ((count, 1), (0, 0)) for e in walked)
    return run if fits else 0


def columns_fields(
    program: ScalarProgram,
    rows: list[Var],
    plan: PassPlan,
    pointers: list[Pointer],
    tiles: RowTiles | None,
    dynamic: Var | None,
    run: int = 0,
) -> tuple[LoopFields, Choice]:
    """Fields and choice of the form whose lanes are rows.

    Args:
        tiles: those of rows whose elements are turned.
        dynamic: the variable whose extent is an argument.
        run: how many elements of each row lanes take at once, if not one.
    """
    last = rows[-1]
    runtime = len(rows) == 1
    tile = tiles.rows if tiles else 0
    size = run * last.extent or tile or _row_lane_count(last, len(plan.passes) - 1, runtime)
    end = str(size) if run else "end" if runtime else plan.writer.extent(last)
    literal = not runtime and not run and is_literal(end)
    first = program.reduced[0]
    # a sum of sums, as above; the outermost loop is taken in parts
    part = PARTIAL_SUM_TERMS * max(run, 1)
    part = part if dynamic is first or first.extent > part else 0
    extents = _extents(program, plan, dynamic)
    _set_lane_types(program, plan, size, part)
    for w in plan.passes:
        stores = plan.row_stores if w is plan.passes[-1] else []
        w.separate_blocks = w.cost > _MAX_SHARED_OPS
        w.row_uses_tile = last.name in variables_of([*w.row, *stores]) or (
            w is plan.passes[-1] and bool(plan.full_reductions)
        )
        w.each_uses_tile = last.name in variables_of([*w.each, *w.stores, *w.cache_writes]).union(
            *(a.variables for a in w.accumulators)
        )
    width = prod(v.extent for v in program.reduced)
    ragged = tiles is not None and not tiles.run  # rows of a tile, whose length is dynamic
    loops = ColumnLoops(
        plan=plan,
        rows=[(v.name, plan.writer.extent(v)) for v in rows[:-1]],
        reduced=[(v.name, n) for v, n in zip(program.reduced[1:], extents[1:], strict=True)],
        width=SHORT_ROW + 1 if ragged else next_power_of_two(width) if dynamic else width,
        first=first.name,
        first_extent=extents[0],
        part=part,
        run=run,
        neighbours=last.extent if run else 0,
        tile=last.name,
        tile_begin="begin" if runtime else "0",
        tile_end=end,
        tile_size=size,
        partial=""
        if run or (literal and last.extent % size == 0)
        else f"{end} - {'begin' if runtime else '0'} < {size}",
        count=str(size)
        if run or (literal and last.extent % size == 0)
        else end
        if literal and last.extent < size
        else f"{end} - at < {size} ? {end} - at : {size}",
        totals_lanes=size,
        tiles=tiles or RowTiles(),
    )
    fields = _loop_fields(loops, rows, pointers, loops.lines())
    choice = Choice(
        {
            "form": "columns",
            "width": width,
            "kept": len(plan.cache_buffers),
            "tile": size,
            "run": run or None,
            "full_reductions": len(plan.full_reductions) or None,
        }
    )
    return fields, choice


def _loop_fields(
    loops: RowLoops | ColumnLoops,
    rows: list[Var],
    pointers: Sequence[Pointer],
    lines: list[Line],
    streamed: list[Line] | None = None,
) -> LoopFields:
    """Loops over rows; where something is reduced over all of them, in chunks with states of their own."""
    states = loops.chunk_states(lines, streamed)
    if states is None:
        return LoopFields(pointers=pointers, lines=lines, nontemporal=streamed)
    loops.plan.writer.runtime_args.named(CHUNK_ROWS, rows[0].extent)
    return LoopFields(pointers=pointers, lines=loops.results(), states=states)


def transpose_short_rows(program: ScalarProgram, rows: list[Var], writer: CWriter) -> RowTiles | None:
    """Turn a tile of short rows, so that neighbours in memory become neighbours in lanes.

    Returns:
        the tiles, with the loads and stores of ``writer`` led to the copies; None if the elements do not lie so.
    """
    width, row = prod(v.extent for v in program.reduced), rows[-1] if rows else None
    loads = [s for s in program.scalars if s.op == "load" and s.vars & set(program.reduced)]
    if type(width) is Dim and dynamic_row(program) is None:  # tiles of a literal width
        return None
    wanted = nominal(width)
    if row is None or not loads or not 2 <= wanted <= SHORT_ROW or (wanted > _VECTOR and wanted % _VECTOR == 0):
        return None
    if width > SHORT_ROW:  # tiles have no room for it
        return None
    if len(rows) > 1 and nominal(row.extent) < TILE // 4:  # (how many there are of the outermost is an argument)
        return None
    starts: list[tuple[Scalar, Expr]] = []
    elements: dict[Scalar | Store, str] = {}
    at = of_var(Var("at", row.extent)) * width
    element = f"[{cache_index(program, TILE)}]"
    for s in loads:
        assert s.offset is not None and s.node is not None
        if not s.offset.affine:  # passes of a tile compute rows that are not there, too: positions would be anything
            return None
        if s.offset.coefficient(row) in (0, 1):
            continue
        start = _row_start(program, s.offset, row, width)
        if start is None or s.conditions:
            return None
        starts.append((s, start + at))
    results: list[tuple[int, Store, Expr]] = []
    for k, store in enumerate(program.stores):
        if not store.offset.vars & set(program.reduced) or store.offset.coefficient(row) == 1:
            continue
        start = _row_start(program, store.offset, row, width)
        if start is None:
            return None
        results.append((k, store, start + at))
    if not starts:
        return None
    length = dynamic_row(program)
    if length:
        writer.dynamic_axes = frozenset(v.name for v in program.vars) | {"at"}
    else:
        writer.inner, writer.dynamic_axes = program.reduced[-1], dynamic_transposed(program, row)
    into: dict[tuple[str, str], str] = {}
    for s, start in starts:
        assert s.node is not None
        key = (s.node.dtype.storage, address(writer.pointers[s.node], writer.address_text(start)))
        elements[s] = into.setdefault(key, f"t{len(into)}") + element
    out = []
    for k, store, start in results:
        out.append(TileCopy(store.node.dtype.storage, f"o{k}", f"o{k}", address(f"y{k}", writer.expr(start))))
        elements[store] = f"o{k}{element}"
    writer.tile_elements |= elements
    return RowTiles(
        loads=[TileCopy(t, name, name, at) for (t, at), name in into.items()],
        stores=out,
        run=0 if length else width,
        length=writer.extent(length) if length else "",
        rows=TILE,
    )


def _row_start(program: ScalarProgram, offset: Expr, row: Var, width: int) -> Expr | None:
    """The offset at the first element of the first row; None if rows do not follow each other."""
    step = width
    e = offset + of_var(row) * -width
    for v in program.reduced:
        step //= v.extent
        e = e + of_var(v) * -step
    return None if e.vars & {row, *program.reduced} or not e.affine else e


def _lane_count(extent: int) -> int:
    """States side by side; a multiple of a vector that divides the row, if there is one."""
    if extent <= _LANES or extent % _LANES == 0:
        return min(_LANES, extent)
    return next((n for n in range(_MAX_LANES, 31, -_VECTOR) if extent % n == 0), _LANES)


def _row_lane_count(row: Var, passes: int, runtime: bool) -> int:
    """Rows side by side; two sizes, so that texts depend little on an extent that is an argument."""
    size = _COLUMNS if passes == 1 else _COLUMNS // 2
    size = size if nominal(row.extent) > _LANES else _LANES
    return size if runtime else min(size, row.extent)


def _set_lane_types(program: ScalarProgram, plan: PassPlan, size: int, part: int) -> None:
    """The types of the reductions' states, and which of them are taken in parts."""
    total = prod(v.extent for v in program.reduced)
    for w in plan.passes:
        w.partial_sums = [a for a in w.accumulators if part and a.combine == "Sum" and a.type in ("float", "double")]
        for a in w.accumulators:
            w.lanes[a.name] = (_lane_type(a, size, total), f"part_{a.name}" if a in w.partial_sums else a.name)


def _lane_type(a: Accumulator, size: int, total: int) -> str:
    if not a.position:
        return f"hg::Lanes<hg::{a.combine}<{a.type}>, {a.type}, {size}>"
    position = "int" if total < 1 << 31 else "long long"
    flags = ", ".join(str(x).lower() for x in (a.combine == "ArgMax", a.increasing))
    return f"hg::ArgLanes<{a.type}, {position}, {flags}, {size}>"


def _add_prefetches(
    program: ScalarProgram, rows: list[Var], plan: PassPlan, dynamic: Var | None, group: int, length: Var | None
) -> None:
    """Let the pass that computes most fetch what comes next; a single pass is served well by the hardware."""
    passes = plan.passes[:-1]
    if len(passes) < 2:
        return
    busiest = max(passes, key=lambda w: (w.cost, passes.index(w)))
    row, last = rows[-1], program.reduced[-1]
    at = of_var(Var("at", last.extent))
    for s in program.scalars:
        if s.op != "load" or s.conditions or s.offset is None or s.node is None or not s.offset.affine:
            continue
        pieces = [bucket(v.extent) if v is dynamic else v.extent for v in program.reduced if v in s.vars]
        nbytes = prod(pieces) * s.dtype.size  # of the whole row, in a batch of one of few sizes
        step = s.offset.coefficient(row)
        if s.offset.coefficient(last) != 1 or step <= 0 or nbytes > _L2_ROW_BYTES:
            continue
        distance: int | str = step * max(group, _PREFETCH_BYTES // nbytes)
        if length:
            distance = plan.writer.runtime_args.named(f"prefetch_distance{len(busiest.prefetches)}", int(distance))
        begin = plan.writer.address_text(s.offset + of_var(last) * -1 + at)
        place = address(plan.writer.pointers[s.node], f"{begin} + {distance}")
        busiest.prefetches.append(
            f"hg::prefetch_elements<{'true' if nbytes <= _L1_ROW_BYTES else 'false'}>({place}, count);"
        )


def _nontemporal_condition(
    program: ScalarProgram, rows: list[Var], plan: PassPlan, dynamic: Var | None, length: Var | None, size: int
) -> str:
    """Let passes store blocks of ``size`` elements past the caches where they may: C text of when they do, or ''.

    Rows whose ``length`` is dynamic begin anywhere: a pass that adds up nothing takes blocks from a row's first line on.
    """
    last, first, writer = program.reduced[-1], rows[0], plan.writer
    if dynamic is last or (last.extent % size and not length) or (length and not uses_private_buffer(program)):
        return ""
    cached_names = {s.name for w in plan.passes for s in w.cache_writes}
    streamed: list[Store] = []
    for w in plan.passes:
        for k, text in zip(w.targets, w.stores, strict=True):
            store = program.stores[k]
            if length:
                wide = store.node.dtype.size >= _MIN_STREAMED_SIZE
                lines = (
                    wide and not w.accumulators and is_contiguous(store, last) and same_alignment([store, *streamed])
                )
            else:
                lines = is_line_aligned(store, last)
            lines = lines and size * store.node.dtype.size % 64 == 0
            if lines and text.name not in cached_names and len(streamed) < _MAX_STREAMED:
                streamed.append(store)
                w.streamed_blocks.append((store.node.dtype.storage, f"o{k}", store_block(writer, k, store, last, size)))
                text = replace(text, name=f"o{k}[j]")
                if length:
                    w.unaligned_prefix = unaligned_prefix(writer, k, store, last, "0")
            w.block_stores.append(text)
    if not streamed:
        return ""
    return (f"{writer.extent(last)} >= {_MIN_STREAMED_ROW} && " if length else "") + streaming_condition(
        program, writer, first, streamed, not length, dynamic=dynamic is not None
    )


def row_major_text(variables: list[Var]) -> str:
    """The row-major position of the variables as C text."""
    text = variables[0].name
    for v in variables[1:]:
        text = f"({text}) * {literal_text(v.extent)} + {v.name}"
    return text

# SPDX-License-Identifier: Apache-2.0
"""Loop nests of the CPU's map kernels.

The compiler vectorises innermost loops; what does not depend on an inner loop is computed outside it.
Loops are cut where conditions change (``index_set_splitting``), so that a concat is as many loops as it has operands, or
one over a table of these (``rolled_loops``), and two run in tiles where operands lie across (``transpose_tiling``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import ClassVar

from ....core.dataclass import dataclass, field
from ....core.dtypes import DType
from ...devices.cpu import CpuConstants
from ...ir.dim_texts import is_literal
from ...ir.dims import Dim, nominal
from ...ir.graph import Node
from ...ir.indexing import Expr, Var, of_var
from ...size_buckets import MIN_SPLIT_EXTENT, worth_argument
from ..blocks import Block, Line, for_head, texts
from ..choice import Choice
from ..index_set_splitting import bit_copies, breakpoints, restrict
from ..kernel import CWriter, Statement, TemplateFields, address
from ..scalar import Scalar, ScalarProgram, is_combine
from ..transpose_tiling import Tiling, choose_tiling, tiling_of_axes, transposed_loads, transposed_runs
from .rolled_loops import LoopPart, Table, alike_parts, roll

__all__ = [
    "PREFETCH_BYTES",
    "ChunkStates",
    "Loop",
    "LoopFields",
    "TooManyStatements",
    "aligned_array",
    "blocks",
    "build_loops",
    "has_transposes",
    "is_pure_transpose",
    "operations_along",
    "streamed_loads",
]

_TILE_BYTES = CpuConstants.l1_bytes // 2  #: of all operands' tiles together: half of a first-level cache
_TILES = ((64, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16))  #: across, along: larger first
_ALIASED_BYTES = CpuConstants.aliased_bytes  #: bytes between lines that meet in a few sets of the first-level cache
_MIN_WINDOW_LOADS = 4  #: loads of an array that make a window
_MAX_UNROLLED = 4  #: an innermost loop as short as that is written out
_MIN_SPLIT_POINTS = 256  #: points of a kernel that is not worth cutting
_MAX_BREAKPOINTS = 64  #: of one loop
_MAX_STATEMENTS = 800  #: of a kernel whose loops are cut
PREFETCH_BYTES = CpuConstants.prefetched_bytes  #: bytes between what is in work and what is fetched ahead, …
_RUNS = 16  #: that lie side by side where they are read, and are written to as many places
_BLOCK = 64  #: … so many elements at a time, …
_RUNTIME_BLOCK = 256  #: … or so many, where the number of elements is an argument
_ROLLED_BLOCK = 256  #: elements of a block of any type, of which innermost loops are whose extents are in a table


def transposed_copy(source: str, rows: str, target: str, columns: str, height: str, width: str) -> str:
    """C text of a transposed copy: ``target[c * columns + r] = source[r * rows + c]``."""
    return f"hg::transpose({source}, {rows}, {target}, {columns}, {height}, {width});"


def aligned_array(type: str, name: str, count: int) -> str:
    """C text of a tile's or a block's memory."""
    return f"alignas(64) {type} {name}[{count}];"


@dataclass
class Loop:
    """One loop: over ``var`` from ``begin`` to ``end``, by ``step``.

    Attributes:
        body: tiles, statements and calls that belong directly into it.
        copies_in: transposed copies into tiles.
        inner: the loops within; none in an innermost loop, which is vectorised …
        sequential: … unless one iteration may add to what another one wrote.
        copies_out: transposed copies out of tiles, or other calls behind them.
        program: what an innermost loop computes, over the last variable of it.
        tile_extent: how many elements of it a tile has, 0 where the loop is in no tile.
        table: whose rows it goes through.
    """

    var: str
    begin: str
    end: str
    step: int = 1
    body: Sequence[Statement | str] = field(default_factory=list)
    copies_in: list[str] = field(default_factory=list)
    inner: list[Loop] = field(default_factory=list)
    copies_out: list[str] = field(default_factory=list)
    sequential: bool = False
    program: ScalarProgram | None = None
    tile_extent: int = 0
    table: Table | None = None

    def block(self) -> Block:
        """The loop as it is printed."""
        pragma = [] if self.inner or self.sequential else ["HG_SIMD"]
        lines = [*texts(self.body), *self.copies_in, *blocks(self.inner), *self.copies_out]
        block = Block([*pragma, for_head(self.var, self.begin, self.end, self.step)], lines)
        return Block([], [self.table.declaration, block]) if self.table else block


def blocks(loops: Sequence[Loop]) -> list[Line]:
    """Loops as they are printed."""
    return [loop.block() for loop in loops]


@dataclass(frozen=True, kw_only=True)
class ChunkStates:
    """States of reductions over all rows: each chunk of rows has its own, and they are merged in the order of the chunks.

    Attributes:
        count: chunks that there is room for.
        declarations: of the states of all chunks.
        parameters: of the function of a chunk, behind the kernel's, and …
        arguments: … what it is given.
        lines, nontemporal: the body of that function, as for :class:`LoopFields`.
    """

    count: int
    declarations: Sequence[str]
    parameters: Sequence[str]
    arguments: Sequence[str]
    lines: Sequence[Line]
    nontemporal: Sequence[Line] | None = None


@dataclass(frozen=True, kw_only=True)
class LoopFields(TemplateFields):
    """A kernel of loops on the CPU.

    Attributes:
        lines: the body of its function.
        nontemporal: the body of one that may store past the caches, if that may be faster.
        extents: parameters behind those of the range that its outermost loop runs over.
        states: of reductions over all rows; ``lines`` are then what follows the last chunk of rows.
    """

    template: ClassVar[str] = "cpu/loops.j2"
    lines: Sequence[Line]
    nontemporal: Sequence[Line] | None = None
    extents: Sequence[str] = ()
    states: ChunkStates | None = None

    @property
    def body(self) -> Sequence[Line]:
        """The lines to print: results that are written over operands are in the caches already."""
        return self._chosen(self.lines, self.nontemporal)

    @property
    def chunk_body(self) -> Sequence[Line]:
        """The lines of the function of a chunk."""
        assert self.states is not None
        return self._chosen(self.states.lines, self.states.nontemporal)

    def _chosen(self, lines: Sequence[Line], nontemporal: Sequence[Line] | None) -> Sequence[Line]:
        if nontemporal is not None and not any(p.aliased for p in self.pointers):
            return nontemporal
        return lines


class TooManyStatements(Exception):
    """Loops cut everywhere would have too many statements."""


def build_loops(
    program: ScalarProgram, writer: CWriter, partial_range: bool = True, prefetch: bool = False
) -> tuple[list[Statement], list[Loop], Choice]:
    """Statements before the loops, the loops, and what was chosen and why.

    Args:
        partial_range: the first variable runs from ``begin`` to ``end``, which are arguments.
        prefetch: operands are large, so that they may be worth fetching ahead.

    Raises:
        TooManyStatements: windows are written out, and there would be too many pieces.
    """
    points, first = prod(v.extent for v in program.vars), program.vars[0] if partial_range else None
    try:
        builder = _LoopBuilder(writer, first, splits=nominal(points) >= _MIN_SPLIT_POINTS, prefetch=prefetch)
        body, loops = builder.build(program)
    except TooManyStatements:
        if any(map(is_combine, program.scalars)):  # tests of every element are better made in loops over them
            raise
        builder = _LoopBuilder(writer, first, splits=False)
        body, loops = builder.build(program)
    return body, loops, builder.choice


def has_transposes(loops: Sequence[Loop]) -> bool:
    """True if operands or results are transposed on the way, tile by tile."""
    return any(loop.copies_in or loop.copies_out or has_transposes(loop.inner) for loop in loops)


_Level = tuple[list[Statement], list[Loop]]


def operations_along(program: ScalarProgram, v: Var) -> int:
    """Scalar operations for each value of ``v``, the innermost variable."""
    return sum(s.node.prim.cost for s in program.scalars if s.op == "compute" and s.node and v in s.vars)


def streamed_loads(program: ScalarProgram, v: Var) -> list[Scalar]:
    """A load of each array that is walked along ``v`` and grows with the first variable's extent."""
    loads: dict[Node, Scalar] = {}
    for s in program.scalars:
        if s.op != "load" or s.conditions or s.offset is None or s.node is None or not s.offset.affine:
            continue
        if s.offset.coefficient(v) == 1 and program.vars[0] in s.offset.vars:
            loads.setdefault(s.node, s)
    return list(loads.values())


def is_pure_transpose(program: ScalarProgram, tiles: Tiling) -> bool:
    """True if elements are moved from one order into another one and nothing else, so that they need no tile between."""
    if [s.op for s in program.scalars] != ["load"] or len(program.stores) != 1 or program.scalars[0].conditions:
        return False
    (s,), (store,) = program.scalars, program.stores
    assert s.node is not None and s.offset is not None
    lies = len(tiles.loads) + len(tiles.stores) == 1 and s.node.dtype is store.node.dtype and not store.scattered
    along, v = (store.offset, tiles.across) if tiles.loads else (s.offset, tiles.along)
    meets = store.offset.coefficient(v) * s.node.dtype.size % _ALIASED_BYTES == 0
    return lies and along.coefficient(tiles.along) == 1 and not meets


@dataclass
class _LoopBuilder:
    """Builds the loops of one kernel; ``splits`` says whether loops may be cut into pieces, ``prefetch`` whether to fetch ahead."""

    writer: CWriter
    first: Var | None
    splits: bool
    prefetch: bool = False
    choice: Choice = Choice()
    tiles: set[tuple[str, str]] = field(default_factory=set)  #: (across, along) of the loops that run in tiles
    block_bounds: dict[str, tuple[str, str]] = field(default_factory=dict)  #: of variables walked in blocks
    buffers: int = 0
    columns: int = 0  #: of tables of loops around
    statements: int = 0
    piece_count: int = 1

    def build(self, program: ScalarProgram) -> _Level:
        self.writer.reset_names()  # names are given as statements are written
        program = replace(program, vars=[*program.vars])  # the order of loops is this nest's: another one has its own
        if any(s.scattered for s in program.stores):  # in order
            return self.build_level(program, 0, frozenset())
        tiling = choose_tiling(program, conditions=self.splits, cached=True)
        if tiling is None:
            self.sink_interleaved_axis(program)
            if transposed_runs(program):
                return self.build_runs(program)
            return self.build_level(program, 0, frozenset())
        body: list[Statement] = []
        loops: list[Loop] = []
        done: frozenset[Scalar] = frozenset()
        for part, _ in self.split_at_conditions(program, tiling.across):
            along = [v for v in part.vars if v.name == tiling.along.name]
            for piece, _ in self.split_at_conditions(part, along[0]) if along else [(part, None)]:
                tiles = choose_tiling(piece, cached=True)
                if tiles:
                    last = [tiles.across, tiles.along]
                    piece.vars = [v for v in piece.vars if v not in last] + last
                    self.tiles.add((tiles.across.name, tiles.along.name))
                else:
                    self.tiles.clear()
                once, nest = self.build_level(piece, 0, done)
                body += once
                done = done.union(s for s in piece.scalars if not s.vars)
                loops += nest
        return body, loops

    def sink_interleaved_axis(self, program: ScalarProgram) -> None:
        """Make a short variable along which operands are neighbours the innermost one, which is written out."""
        for v in program.vars[1:-1]:
            if (
                nominal(v.extent) <= _MAX_UNROLLED
                and self.splits
                and tiling_of_axes(program, v, program.vars[-1], shortest=2)
            ):
                program.vars.remove(v)
                program.vars.append(v)
                return

    def build_runs(self, program: ScalarProgram) -> _Level:
        """Loops over :func:`transposed_runs`: some that are neighbours at a time, each to a place that goes on from step to step."""
        outer, inner, run = program.vars
        begin, end = self.bounds(outer)
        name, stop = f"b{outer.name[1:]}", f"e{outer.name[1:]}"
        self.block_bounds[outer.name] = name, stop
        once, nest = self.build_level(replace(program, vars=[inner, outer, run]), 0, frozenset())
        for loop in nest:
            loop.body = [*self.prefetched_runs(program, name), *loop.body]
        last = Statement("Index", stop, f"hg::minimum<Index>({name} + {_RUNS}, {end})")
        self.choice = Choice(
            {"tile": f"{_RUNS} runs of {run.extent}"}, why="runs read across the axis along which they are written"
        )
        return once, [Loop(name, begin, end, _RUNS, body=[last], inner=nest)]

    def prefetched_runs(self, program: ScalarProgram, begin: str) -> list[str]:
        """Calls that fetch runs ahead, from ``begin`` on: the hardware does not, each step being in another page."""
        outer, inner, run = program.vars
        calls: list[str] = []
        for s in transposed_loads(program):
            assert s.node is not None and s.offset is not None
            count, sign = _RUNS * run.extent, s.offset.coefficient(run)
            steps = max(1, PREFETCH_BYTES // (count * s.node.dtype.size))
            start = s.offset + of_var(run) * -sign + min(0, sign) * run.high + s.offset.coefficient(inner) * steps
            place = self.writer.place(self.writer.pointer(s), start, {outer: begin})
            calls.append(f"hg::prefetch_elements<true>({place}, {count});")
        return calls

    def build_level(self, program: ScalarProgram, depth: int, done: frozenset[Scalar]) -> _Level:
        """Statements and loops inside the loops over ``program.vars[:depth]``; ``done`` are in scope."""
        outside = frozenset(program.vars[:depth])
        here = [s for s in program.scalars if s not in done and s.vars <= outside]
        self.writer.name_scalars(here)
        body = [t for t in map(self.writer.statement, here) if t]
        done = done.union(here)
        if depth == len(program.vars):
            for k, store in enumerate(program.stores):
                target = self.writer.as_stored(store.value, self.writer.store_address(k, store))
                body.append(Statement("", target, self.writer.stored_value(store, target)))
        self.count_statements(body)
        if depth == len(program.vars):
            return body, []
        var = program.vars[depth]
        if depth == len(program.vars) - 2 and (var.name, program.vars[-1].name) in self.tiles:
            tiles = tiling_of_axes(program, var, program.vars[-1])
            if tiles:
                return body, [self.build_tile(program, tiles, done)]
        loops: list[Loop] = []
        parts = self.split_at_conditions(program, var)
        self.piece_count += len(parts) - 1
        for alike in alike_parts(parts, var) if self.may_roll(program, var, parts) else [[part] for part in parts]:
            part, v = alike[0]
            if len(alike) > 1:
                loops.append(self.build_table(alike, depth, done))
            elif v is None:
                inside, within = self.build_level(part, depth, done)
                body, loops = body + inside, loops + within
            else:
                loops.append(self.build_loop(part, v, depth, done))
        return body, loops

    def build_loop(self, part: ScalarProgram, v: Var, depth: int, done: frozenset[Scalar]) -> Loop:
        """The loop over ``v``, and what is in it."""
        inside, within = self.build_level(part, depth + 1, done)
        loop = Loop(v.name, *self.bounds(v), body=inside, inner=within)
        loop.sequential = not all(store.is_parallel(v) for store in part.stores)
        loop.program = part if v is part.vars[-1] and not loop.sequential else None
        streams = self.prefetched_loads(part, v) if self.prefetch and not within else []
        return self.with_prefetch(loop, v, streams) if len(streams) > 1 else loop

    def may_roll(self, program: ScalarProgram, var: Var, parts: Sequence[LoopPart]) -> bool:
        """Whether loops over ``parts`` of ``var`` may be one over a table.

        Of an innermost loop the extent stays known, unless it is long and of whole blocks. Where strides are arguments, the
        places where parts begin are multiples of them, which a table does not have.
        """
        writer = self.writer
        innermost = var in program.vars[-2 if self.unrolls_innermost(program) else -1 :]
        if innermost and (self.first is None or var.name != self.first.name):
            numbers = [n for _, v in parts if v for n in (v.low, v.extent)]
            if any(type(n) is Dim or n % _ROLLED_BLOCK for n in numbers):
                return False
        steps = {s.offset.coefficient(var) for s in program.scalars if s.op == "load" and s.offset}
        row = {writer.inner.extent} if writer.inner else set()
        named = var.name in writer.dynamic_axes & writer.literal_axes and not set(filter(worth_argument, steps)) <= row
        return not named and var.name not in self.block_bounds

    def build_table(self, parts: Sequence[LoopPart], depth: int, done: frozenset[Scalar]) -> Loop:
        """The loop over a table of parts that are alike."""
        table = roll(parts, self.bounds, self.writer, self.columns)
        (_, begin), (_, end), *_ = table.columns.values()
        self.columns += len(table.columns)
        self.block_bounds[table.var.name] = begin, end
        loop = self.build_loop(parts[0][0], table.var, depth, done)
        del self.block_bounds[table.var.name]
        self.columns -= len(table.columns)
        return Loop("loop", "0", str(table.rows), body=table.definitions, inner=[loop], table=table)

    def prefetched_loads(self, program: ScalarProgram, v: Var) -> list[Scalar]:
        """A load of each array that the innermost loop, over ``v``, walks along, where it computes much.

        One array is fetched well by the hardware. Of several it does not have the next lines there in time if most of the
        instructions that a processor holds at once are arithmetic.
        """
        if self.has_literal_bounds(v) and (v.extent < 4 * _BLOCK or v.extent % _BLOCK):
            return []
        loads = streamed_loads(program, v)
        return loads if operations_along(program, v) >= CpuConstants.prefetch_ops * len(loads) else []

    def with_prefetch(self, loop: Loop, v: Var, streams: list[Scalar]) -> Loop:
        """``loop`` in blocks, before each of which what comes later is fetched."""
        literal = self.has_literal_bounds(v)
        size = _BLOCK if literal else _RUNTIME_BLOCK
        at = of_var(Var("at", max(2, v.extent)))
        body: list[Statement | str] = [
            Statement("Index", "count", str(size) if literal else f"hg::minimum<Index>({size}, {loop.end} - at)")
        ]
        for s in streams:
            assert s.offset is not None
            block = self.writer.address_text(s.offset + of_var(v) * -1 + at)
            place = address(self.writer.pointer(s), f"{block} + {PREFETCH_BYTES // s.dtype.size}")
            body.append(f"hg::prefetch_elements<true>({place}, count);")
        within = Loop("j", "0", "count", body=[Statement("Index", v.name, "at + j"), *loop.body])
        return Loop("at", loop.begin, loop.end, size, body=body, inner=[within])

    def count_statements(self, body: list[Statement]) -> None:
        self.statements += len(body)
        if self.piece_count > 1 and self.statements > _MAX_STATEMENTS:
            raise TooManyStatements

    def has_literal_bounds(self, v: Var) -> bool:
        """Whether the loop over ``v``, all of it, has numbers for bounds."""
        return v is not self.first and v.name not in self.block_bounds and all(map(is_literal, self.bounds(v)))

    def bounds(self, v: Var) -> tuple[str, str]:
        """The begin and end of the loop over ``v``; those of the first variable are arguments."""
        if v.name in self.block_bounds:
            return self.block_bounds[v.name]
        if self.first is None or v.name != self.first.name:
            return str(v.low), self.writer.extent(v) if v.low == 0 else str(v.high + 1)
        boundary = self.writer.boundary
        begin = "begin" if v.low == self.first.low else f"hg::maximum<Index>(begin, {boundary(v.low)})"
        end = "end" if v.high == self.first.high else f"hg::minimum<Index>(end, {boundary(v.high + 1)})"
        return begin, end

    def split_at_conditions(self, program: ScalarProgram, var: Var) -> list[LoopPart]:
        """``program`` cut where conditions on ``var`` change, and without loop where ``var`` has one value."""
        at = breakpoints(program, var) if self.splits else []
        inner = var is program.vars[-1]
        if self.splits and inner and self.unrolls_innermost(program):
            at = list(range(var.low + 1, var.high + 1))
        bounds = [var.low, *at, var.high + 1]
        lengths = [b - a for a, b in pairwise(bounds)]
        short = inner and MIN_SPLIT_EXTENT > max(map(nominal, lengths)) > 1 and not self.tests_windows(program)
        if not at or len(at) > _MAX_BREAKPOINTS or short:
            return [(program, var)]
        keep = self.first is not None and var.name == self.first.name
        parts = [restrict(program, var, a, b, keep) for a, b in pairwise(bounds)]
        for part, _ in parts:
            self.writer.bit_copied |= bit_copies(part)
        return parts

    def tests_windows(self, program: ScalarProgram) -> bool:
        """True if elements of windows are tested one by one: in a short loop, too, that is most of the work."""
        loads = [s for s in program.scalars if s.op == "load"]
        tested = {s.node for s in loads if s.conditions}
        return any(sum(s.node is node for s in loads) >= _MIN_WINDOW_LOADS for node in tested)

    def unrolls_innermost(self, program: ScalarProgram) -> bool:
        """True if the innermost loop is so short that the one around it is better vectorised."""
        return (
            len(program.vars) > 1
            and nominal(program.vars[-1].extent) <= _MAX_UNROLLED
            and nominal(program.vars[-2].extent) >= MIN_SPLIT_EXTENT
            and len(program.scalars) <= 4 * _MAX_UNROLLED
        )

    def build_tile(self, program: ScalarProgram, tiles: Tiling, done: frozenset[Scalar]) -> Loop:
        """Loops over tiles, and the loops within one."""
        writer, across, along = self.writer, tiles.across, tiles.along
        stored = [program.stores[k].node for k in tiles.stores]
        width = sum(n.dtype.size for n in (*(s.node for s in tiles.loads if s.node), *stored))
        wide, long = next(((a, b) for a, b in _TILES if a * b * width <= _TILE_BYTES), _TILES[-1])
        wide, long = (
            size if v.name in writer.dynamic_axes - writer.literal_axes else min(size, v.extent + -v.extent % 16)
            for v, size in ((across, wide), (along, long))
        )
        self.choice = Choice({"tile": f"{wide}x{long}"}, why=tiles.why)
        name = {v: f"b{v.name[1:]}" for v in (across, along)}
        stop = {v: f"e{v.name[1:]}" for v in (across, along)}
        size = {v: f"{stop[v]} - {name[v]}" for v in (across, along)}
        at = f"({across.name} - {name[across]}) * {long} + {along.name} - {name[along]}"

        def block(v: Var, step: int) -> Loop:
            begin, end = self.bounds(v)
            last = Statement("Index", stop[v], f"hg::minimum<Index>({name[v]} + {step}, {end})")
            return Loop(name[v], begin, end, step, body=[last])

        def walk(v: Var, **parts: list[Statement] | list[Loop]) -> Loop:
            return Loop(v.name, name[v], stop[v], **parts)  # type: ignore[arg-type]

        outer, inner = block(across, wide), block(along, long)
        outer.inner = [inner]
        arrays: list[str] = []

        def start(offset: Expr, pointer: str) -> str:
            return writer.place(pointer, offset, name)

        def stride_along(offset: Expr, v: Var) -> str:
            """C text of the distance of neighbours along ``v``."""
            step = offset.coefficient(v)
            dynamic = v.name in writer.dynamic_axes
            return writer.runtime_args.by_value(f"{v.name}_stride", step) if dynamic else str(step)

        def buffer(dtype: DType) -> str:
            buffer_name = f"s{self.buffers}"
            self.buffers += 1
            arrays.append(aligned_array(dtype.storage, buffer_name, wide * long))
            return buffer_name

        writer.name_scalars(program.scalars)
        if writer.dynamic_axes and is_pure_transpose(program, tiles):
            (s,), (store,) = program.scalars, program.stores
            assert s.node is not None and s.offset is not None
            source, target = start(s.offset, writer.pointer(s)), start(store.offset, f"{writer.result_prefix}0")
            far, near = (along, across) if tiles.loads else (across, along)  # the load's axes
            tile_copy = transposed_copy(
                source, stride_along(s.offset, far), target, stride_along(store.offset, near), size[far], size[near]
            )
            inner.copies_in.append(tile_copy)
            inner.sequential = True  # (its body is a call)
            return outer
        in_tile: dict[Scalar, str] = {}
        for s in tiles.loads:
            assert s.node is not None and s.offset is not None
            source, step = start(s.offset, writer.pointer(s)), stride_along(s.offset, along)
            in_tile[s] = buffer(s.node.dtype)
            inner.copies_in.append(transposed_copy(source, step, in_tile[s], str(long), size[along], size[across]))
        once: list[Statement] = []
        each: list[Statement] = []
        for s in program.scalars:
            if s in done:
                continue
            statement = writer.statement(s)
            if s in in_tile:
                statement = Statement(writer.c_type(s), writer.names[s], writer.as_stored(s, f"{in_tile[s]}[{at}]"))
            if statement:
                (each if along in s.vars else once).append(statement)
        for k, store in enumerate(program.stores):
            target = writer.store_address(k, store)
            if k in tiles.stores:
                out_tile, step = buffer(store.node.dtype), stride_along(store.offset, along)
                inner.copies_out.append(
                    transposed_copy(
                        out_tile,
                        str(long),
                        start(store.offset, f"{writer.result_prefix}{k}"),
                        step,
                        size[across],
                        size[along],
                    )
                )
                target = f"{out_tile}[{at}]"
            each.append(Statement("", writer.as_stored(store.value, target), writer.names[store.value]))
        self.count_statements(once + each)
        row = walk(along, body=each)
        row.program, row.tile_extent = program, long
        inner.body = [*arrays, *inner.body]
        inner.inner = [walk(across, body=once, inner=[row])]
        return outer

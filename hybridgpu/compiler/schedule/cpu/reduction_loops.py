# SPDX-License-Identifier: Apache-2.0
"""Loops of the CPU's reduction kernels, from the passes over a row: lanes share a row, or are rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....core.dataclass import dataclass, field
from ..blocks import Block, Line, for_head, texts
from ..kernel import Statement
from ..reduction_passes import Accumulator, Pass, PassPlan
from .loop_nests import ChunkStates

__all__ = ["PARTIAL_SUM_TERMS", "ColumnLoops", "RowLoops", "RowTiles", "TileCopy"]

PARTIAL_SUM_TERMS = 64
"""Elements that a state of a sum takes in before it is added to another, which bounds the rounding error."""

_MOST_CHUNKS = 64  #: of which there are states, …
_STATES_BYTES = 1 << 18  #: … in so many bytes of the stack, …
_WORD = 8  #: … of which an element takes so many at most
_ALIGNED = "__attribute__((aligned(64)))"

Names = Iterable[tuple[str, str]]  #: (type, name)


def _loop_heads(loops: Iterable[tuple[str, str]]) -> list[str]:
    """Heads of loops from 0, as (variable, extent)."""
    return [for_head(name, "0", extent) for name, extent in loops]


def _vectorized(var: str, begin: str, end: str | int, lines: Sequence[Line]) -> Block:
    return Block(["HG_SIMD", for_head(var, begin, str(end))], lines)


def _states(row_pass: Pass) -> list[str]:
    """The states of a pass's reductions, side by side."""
    return [
        line
        for a in row_pass.accumulators
        for line in (f"{row_pass.lanes[a.name][0]} {a.name};", f"{a.name}.start({a.first});")
    ]


def _chunked(row_pass: Pass, extent: str, part: int, inner: Line) -> Block:
    """``inner`` in chunks of ``part`` elements: sums of a chunk have states of their own."""
    stop = f"{extent} - part < {part} ? {extent} : part + {part}"
    starts = [
        line
        for a in row_pass.partial_sums
        for line in (f"{row_pass.lanes[a.name][0]} part_{a.name};", f"part_{a.name}.start(0);")
    ]
    merges = [f"{a.name}.merge(part_{a.name});" for a in row_pass.partial_sums]
    return Block([for_head("part", "0", extent, str(part))], [f"const Index stop = {stop};", *starts, inner, *merges])


def _reads(values: Names, array: str, at: str) -> list[str]:
    """Row values out of their arrays."""
    return [f"const {type} {name} = {array}{name}[{at}];" for type, name in values]


def _writes(values: Names, array: str, at: str) -> list[str]:
    """Row values into their arrays."""
    return [f"{array}{name}[{at}] = {name};" for _, name in values]


@dataclass(frozen=True, kw_only=True)
class ReductionLoops:
    """The loops of both forms: lanes share a row, or are rows.

    Attributes:
        plan: the passes over a row, and what is before, between and behind them.
        rows: the loops over rows, as (variable, extent).
        reduced: the loops over what is reduced, but the outermost (columns form) or the innermost one.
        width: elements of a row that arrays have room for.
        tile: the variable that lanes count along.
        tile_size, count: lanes, and C text of how many of them are used.
        part: elements of which states are put together before they are added to others; 0: of all.
        totals_lanes: states of a reduction over all rows.
    """

    plan: PassPlan
    rows: list[tuple[str, str]]
    reduced: list[tuple[str, str]]
    width: int
    tile: str
    tile_size: int
    count: str
    part: int
    totals_lanes: int

    @property
    def row_passes(self) -> list[Pass]:
        """The passes over a row; the plan's last one follows them."""
        return self.plan.passes[:-1]

    @property
    def totals(self) -> list[tuple[Accumulator, str]]:
        """The reductions over all rows, and the type of their states."""
        lanes = self.totals_lanes
        return [(t, f"hg::Lanes<hg::{t.combine}<{t.type}>, {t.type}, {lanes}>") for t in self.plan.full_reductions]

    def row_heads(self) -> list[str]:
        """Heads of the loops over rows; the outermost one runs over what the call is about."""
        bounds = [("begin", "end"), *(("0", extent) for _, extent in self.rows[1:])]
        return [for_head(name, *bound) for (name, _), bound in zip(self.rows, bounds, strict=False)]

    def finished(self) -> list[str]:
        """A row's statements and stores behind its last pass."""
        return texts([*self.plan.passes[-1].row, *self.plan.row_stores])

    def after(self) -> list[str]:
        """The lines behind the last row."""
        return texts([*self.plan.after, *self.plan.after_stores])

    def total_states(self) -> list[str]:
        """States of a chunk of the reductions over all rows, and of a part of it."""
        return [
            line
            for t, type in self.totals
            for line in (f"{type} part_{t.name};", f"{t.name}.start(0);", f"part_{t.name}.start(0);")
        ]

    @property
    def most_chunks(self) -> int:
        """Chunks that there is room for the states of; 0: there are none."""
        sums = len(self.plan.column_sums) * self.width
        words = sums + self.totals_lanes * len(self.totals)
        return max(2, min(_MOST_CHUNKS, _STATES_BYTES // (_WORD * words))) if words else 0

    def chunk_states(self, lines: Sequence[Line], nontemporal: Sequence[Line] | None = None) -> ChunkStates | None:
        """The states of chunks of rows, whose body is ``lines``, if there are reductions over all rows."""
        if not self.most_chunks:
            return None
        sums, chunk = self.plan.column_sums, "[begin / chunk_rows]"
        return ChunkStates(
            count=self.most_chunks,
            declarations=[
                *(f"{s.type} {s.name}_chunks[{self.most_chunks}][{self.width}] {_ALIGNED};" for s in sums),
                *(f"{type} {t.name}_chunks[{self.most_chunks}];" for t, type in self.totals),
            ],
            parameters=[
                *(f"{s.type}* HG_RESTRICT const {s.name}" for s in sums),
                *(f"{type}& {t.name}" for t, type in self.totals),
            ],
            arguments=[
                f"{name}_chunks{chunk}" for name in (*(s.name for s in sums), *(t.name for t, _ in self.totals))
            ],
            lines=lines,
            nontemporal=nontemporal,
        )

    def merged_chunks(self) -> list[Line]:
        """The states of all chunks become those of the first one."""
        if not self.most_chunks:
            return []
        sums = [
            f"hg::move_into<{self.width}>({s.name}_chunks[0], {s.name}_chunks[chunk]);" for s in self.plan.column_sums
        ]
        totals = [f"{t.name}_chunks[0].merge({t.name}_chunks[chunk]);" for t, _ in self.totals]
        return [Block(["for (Index chunk = 1; chunk * chunk_rows < end; ++chunk)"], [*sums, *totals])]

    def total_part(self) -> list[Line]:
        """Rows (a vector of them) are put together part by part."""
        merges = [
            line for t, _ in self.totals for line in (f"{t.name}.merge(part_{t.name});", f"part_{t.name}.start(0);")
        ]
        return [Block([f"if (++taken % {PARTIAL_SUM_TERMS} == 0)"], merges)] if merges else []

    def total_results(self) -> list[str]:
        """The results of reductions over all rows, and what is made of them."""
        folds = [f"const {t.result_type} {t.result} = {t.name}_chunks[0].fold(1);" for t, _ in self.totals]
        return [*folds, *self.after()] if folds else []

    def merged_totals(self) -> list[str]:
        """The last part of a chunk."""
        return [f"{t.name}.merge(part_{t.name});" for t, _ in self.totals]


@dataclass(frozen=True, kw_only=True)
class RowLoops(ReductionLoops):
    """Rows whose elements are neighbours in memory: lanes share a row.

    A row at a time, or some rows a pass at a time: every pass goes in blocks, the states of its reductions side by side.
    Where a later pass waits for what an earlier one has reduced, the processor is busy with the next row meanwhile.

    Attributes:
        extent: C text of the number of elements of a row.
        masked_vector: lanes of a vector, where how many elements a row has is dynamic; else 0.
        elements: C text of the elements that a state may have taken in, '' if all of them have.
        element: C text of an element's position in a row.
        cache_length: elements of a cache.
        group, group_step: rows that there is room for where they share each pass (0: one after the other), and C
            text of how many are.
        streaming_condition: C text of when results are stored past the caches, '' if never.
    """

    extent: str
    masked_vector: int
    elements: str
    element: str
    cache_length: int
    group: int
    group_step: str
    streaming_condition: str

    @property
    def tile_begin(self) -> str:
        """C text of where a part of a row begins, or all of it."""
        return "part" if self.part else "0"

    @property
    def tile_stop(self) -> str:
        """C text of where it ends."""
        return "stop" if self.part else self.extent

    def lines(self, streams: bool) -> list[Line]:
        """The body of the function; ``streams``: blocks of results may be stored past the caches."""
        sums = self.plan.column_sums
        lines: list[Line] = [
            f"{type} {name}[{self.cache_length}] {_ALIGNED};" for type, name in self.plan.cache_buffers
        ]
        lines += [f"const bool nontemporal = {self.streaming_condition};"] if streams else []
        lines += [f"{s.type} part_{s.name}[{self.width}] {_ALIGNED} = {{}};" for s in sums]
        lines += [f"for (Index k = 0; k < {self.width}; ++k) {s.name}[k] = 0;" for s in sums]
        lines += self.total_states()
        lines += ["Index taken = 0;"] if sums or self.totals else []
        lines.append(self._over_rows(streams))
        lines += ["if (nontemporal) hg::streaming_fence();"] if streams else []
        return [*lines, *(self._merged_sums() if sums else []), *self.merged_totals()]

    def results(self) -> list[Line]:
        """The lines behind the last row."""
        sums, lines = self.plan.column_sums, self.merged_chunks()
        if sums:
            results = [f"const {s.type} {s.result} = {s.name}_chunks[0][{self.element}];" for s in sums]
            heads = [*_loop_heads(self.reduced), "HG_SIMD", for_head(self.tile, "0", self.extent)]
            lines.append(Block(heads, [*results, *self.after()]))
        return [*lines, *self.total_results()]

    def _over_rows(self, streams: bool) -> Block:
        """The loops over rows."""
        extent = self.rows[-1][1]
        first, last = ("begin", "end") if len(self.rows) == 1 else ("0", extent)
        block = self._in_chunks(first, last, streams) if self.totals else self._over_last_axis(first, last, streams)
        for head in reversed(self.row_heads()[:-1]):
            block = Block([head], [block])
        return block

    def _in_chunks(self, first: str, last: str, streams: bool) -> Block:
        """Rows of which as many as a reduction over all rows has states are finished side by side."""
        row, values = self.rows[-1][0], self.plan.passes[-1].row_live_in
        taken = [f"part_{t.name}.add({row} - chunk, {t.operand}, 0);" for t, _ in self.totals]
        finished = [*_reads(values, "h_", f"{row} - chunk"), *self.finished(), *taken]
        return Block(
            [for_head("chunk", first, last, str(self.totals_lanes))],
            [
                f"const Index chunk_end = hg::minimum<Index>(chunk + {self.totals_lanes}, {last});",
                *(f"{type} h_{name}[{self.totals_lanes}] {_ALIGNED};" for type, name in values),
                self._over_last_axis("chunk", "chunk_end", streams),
                _vectorized(row, "chunk", "chunk_end", finished),
                *self.total_part(),
            ],
        )

    def _over_last_axis(self, first: str, last: str, streams: bool) -> Block:
        """The loop over neighbouring rows: of some that share each pass, or one after the other."""
        if not self.group:
            return Block([for_head(self.rows[-1][0], first, last)], self._one_row(streams))
        to = f"const Index to = hg::minimum<Index>(from + {self.group_step}, {last});"
        return Block([for_head("from", first, last, self.group_step)], [to, *self._some_rows(streams)])

    def _one_row(self, streams: bool) -> list[Line]:
        """All passes over a row."""
        lines = [line for p in self.row_passes for line in (*texts(p.row), *self._pass_lines(p, streams))]
        return [*lines, *self._after_last_pass(), *self._partial_sum_lines("1")]

    def _some_rows(self, streams: bool) -> list[Line]:
        """Each pass over some rows; what outlives one is in arrays."""
        at = f"{self.rows[-1][0]} - from"
        lines: list[Line] = [f"{type} r_{name}[{self.group}];" for type, name in self.plan.row_values]
        for row_pass in self.row_passes:
            before = [
                *texts(row_pass.row),
                *_writes(row_pass.row_live_out, "r_", at),
                *_reads(row_pass.live_in, "r_", at),
            ]
            lines.append(self._each_row(row_pass, [*before, *self._pass_lines(row_pass, streams)]))
        behind = self._after_last_pass()
        lines += [self._each_row(self.plan.passes[-1], behind)] if behind or self.totals else []
        return [*lines, *self._partial_sum_lines("to - from")]

    def _each_row(self, row_pass: Pass, lines: Sequence[Line]) -> Block:
        """The loop over some rows."""
        row = self.rows[-1][0]
        return Block([for_head(row, "from", "to")], [*_reads(row_pass.row_live_in, "r_", f"{row} - from"), *lines])

    def _after_last_pass(self) -> list[str]:
        """The statements behind a row's last pass: where values of all rows are reduced, these wait."""
        if self.totals:
            return _writes(self.plan.passes[-1].row_live_in, "h_", f"{self.rows[-1][0]} - chunk")
        return self.finished()

    def _partial_sum_lines(self, count: str) -> list[Line]:
        """The count of rows in the partial sums over all rows, which are merged when they are many."""
        if not self.plan.column_sums:
            return []
        full = Block([f"if (taken >= {PARTIAL_SUM_TERMS})"], [*self._merged_sums(), "taken = 0;"])
        return [f"taken += {count};", full]

    def _merged_sums(self) -> list[str]:
        """Sums over some rows are added to those over all."""
        return [f"hg::move_into<{self.width}>({s.name}, part_{s.name});" for s in self.plan.column_sums]

    def _pass_lines(self, row_pass: Pass, streams: bool) -> list[Line]:
        """One pass over a row, from the states of its reductions to their results."""
        block = self._masked_row(row_pass, streams) if self.masked_vector else self._row(row_pass, streams)
        if self.part:
            block = _chunked(row_pass, self.extent, self.part, block)
        elements = f", {self.elements}" if self.elements else ""
        at = f"[{self.rows[-1][0]} - from]"
        results = [
            f"{f'r_{a.result}{at}' if self.group else f'const {a.result_type} {a.result}'} = {a.name}.fold({a.step}{elements});"
            for a in row_pass.accumulators
        ]
        return [*_states(row_pass), Block([*_loop_heads(self.reduced), *block.heads], block.lines), *results]

    def _row(self, row_pass: Pass, streams: bool) -> Block:
        """Blocks of a row, of which the last one may be shorter."""
        head = for_head("at", self.tile_begin, self.tile_stop, str(self.tile_size))
        return Block([head], self._block(row_pass, self.count, streams))

    def _masked_row(self, row_pass: Pass, streams: bool) -> Block:
        """Blocks of a row whose length is dynamic, then vectors: of the last one some lanes may have no element."""
        lines: list[Line] = [f"Index at = {self.tile_begin};"]
        if row_pass.unaligned_prefix and streams:
            first, prefix = f"const Index first = {row_pass.unaligned_prefix};", self._vectors(row_pass, "first", "")
            lines.append(Block(["if (nontemporal)"], [first, prefix, "at = first;", self._blocks(row_pass, True)]))
        lines += [self._blocks(row_pass, False), "const Index rest = at;", *_origins(row_pass)]
        return Block([], [*lines, self._vectors(row_pass, self.tile_stop, "at - rest + j")])

    def _blocks(self, row_pass: Pass, streams: bool) -> Block:
        size = self.tile_size
        return Block(
            [f"for (; at <= {self.tile_stop} - {size}; at += {size})"], self._block(row_pass, str(size), streams)
        )

    def _vectors(self, row_pass: Pass, stop: str, lane: str) -> Block:
        size = self.masked_vector
        heads = ["HG_SIMD", f"{for_head('j', '0', str(size))} if (at + j < {stop})"]
        return Block(
            [f"for (; at < {stop}; at += {size})"], [Block(heads, self._elements(row_pass, lane, row_pass.stores))]
        )

    def _block(self, row_pass: Pass, count: str, streams: bool) -> list[Line]:
        """A block of elements, a lane for each."""
        streamed = row_pass.streamed_blocks if streams else []
        return [
            "HG_BLOCK",
            f"const Index count = {count};",
            *row_pass.prefetches,
            *_origins(row_pass),
            *(f"alignas(64) {type} {name}[{self.tile_size}];" for type, name, _ in streamed),
            _vectorized(
                "j", "0", "count", self._elements(row_pass, "j", row_pass.block_stores if streams else row_pass.stores)
            ),
            *(text for _, _, text in streamed),
        ]

    def _elements(self, row_pass: Pass, lane: str, stores: list[Statement]) -> list[str]:
        """The statements of an element."""
        taken = [
            f"{row_pass.lanes[a.name][1]}.add({lane}, {a.operand}, {f'at_{a.name}' if a.position else 0});"
            for a in row_pass.accumulators
        ]
        sums = [f"part_{s.name}[{self.element}] += {s.operand};" for s in row_pass.sums]
        before = [f"const Index {self.tile} = at + j;", *texts([*row_pass.each, *row_pass.cache_writes])]
        return [*before, *taken, *sums, *texts(stores)]


@dataclass(frozen=True)
class TileCopy:
    """An operand or result whose elements are turned: its type, its copy, the part of that, and where it lies."""

    type: str
    name: str
    part: str
    place: str


@dataclass(frozen=True)
class RowTiles:
    """Tiles of rows (or windows) that are turned, so that they lie side by side.

    Attributes:
        loads, stores: what is turned before the passes and behind them.
        loops: name and extent of the loops around.
        run: neighbours of a row, 0 if how many there are is dynamic: then ``length`` is C text of it.
        count: C text of the number of rows.
        rows: those of a tile.
    """

    loads: list[TileCopy] = field(default_factory=list)
    stores: list[TileCopy] = field(default_factory=list)
    loops: list[tuple[str, int]] = field(default_factory=list)
    run: int = 0
    length: str = ""
    count: str = "count"
    rows: int = 0

    def copies_in(self) -> list[str]:
        """Loops and calls before the passes."""
        size, n = self.rows, self.length
        into = f"hg::tile_in<{self.run}, {size}>({{0.part}}, {{0.place}}, {self.count});"
        turned = f"hg::transpose({{0.place}}, {n}, {{0.part}}, {size}, {self.count}, {n});"
        return self._copies(self.loads, into if self.run else turned)

    def copies_out(self) -> list[str]:
        """Loops and calls behind them."""
        size, n = self.rows, self.length
        out = f"hg::tile_out<{self.run}, {size}>({{0.place}}, {{0.part}}, {self.count});"
        turned = f"hg::transpose({{0.part}}, {size}, {{0.place}}, {n}, {n}, {self.count});"
        return self._copies(self.stores, out if self.run else turned)

    def _copies(self, copies: list[TileCopy], call: str) -> list[str]:
        heads = _loop_heads((name, str(extent)) for name, extent in self.loops)
        return [line for copy in copies for line in (*heads, call.format(copy))]


@dataclass(frozen=True, kw_only=True)
class ColumnLoops(ReductionLoops):
    """Rows that are neighbours in memory, or are made so: lanes are rows.

    A tile of them is reduced side by side, lane by lane. What works on copies alone takes all lanes, also those without a
    row: nothing of them is kept, but what lies there at random would often be a denormal number, with which processors
    compute slowly. Where fewer rows are neighbours than lanes, lanes take several elements of each, as they lie in memory.

    Attributes:
        tile_begin, tile_end: what the variable that lanes count along runs between.
        first, first_extent, run: the outermost loop over what is reduced, and how many elements of a row lanes take at once.
        neighbours: rows, where lanes take several elements of each; else 0.
        partial: C text of whether a tile may have lanes without a row; '' if none has.
        tiles: what is turned.
    """

    tile_begin: str
    tile_end: str
    first: str
    first_extent: str
    run: int
    neighbours: int
    partial: str
    tiles: RowTiles

    def lines(self) -> list[Line]:
        """The body of the function."""
        tiles, lines = self.tiles, self.total_states()
        lines += ["Index taken = 0;"] if self.totals else []
        for t in tiles.loads:
            lines.append(self._tile(t.type, t.name))
            if self.partial:
                length = self.width if tiles.run else tiles.length
                lines.append(f"if ({self.partial}) hg::clear({t.name}, {length} * {self.tile_size});")
        block = Block([for_head("at", self.tile_begin, self.tile_end, str(self.tile_size))], self._of_tile())
        for head in reversed(self.row_heads()):
            block = Block([head], [block])
        return [*lines, block, *self.merged_totals()]

    def results(self) -> list[Line]:
        """The lines behind the last row."""
        return [*self.merged_chunks(), *self.total_results()]

    def _tile(self, type: str, name: str) -> str:
        return f"{type} {name}[{self.width * self.tile_size}] {_ALIGNED};"

    def _of_tile(self) -> list[Line]:
        """A tile of rows, from the copies of operands to those of results."""
        arrays = [*((t.type, t.name) for t in self.tiles.stores), *self.plan.cache_buffers]
        return [
            f"const Index count = {self.count};",
            *self.tiles.copies_in(),
            *(self._tile(type, name) for type, name in arrays),
            *(f"{type} r_{name}[{self.tile_size}] {_ALIGNED};" for type, name in self.plan.row_values),
            *(line for p in self.row_passes for line in self._pass_lines(p)),
            *self._after_last_pass(),
            *self.total_part(),
            *self.tiles.copies_out(),
        ]

    def _lanes(self, uses_tile: bool, lines: Sequence[Line], count: int = 0) -> Block:
        """A loop over lanes."""
        used = "count" if uses_tile or not self.tiles.loads else self.tile_size
        row = [f"const Index {self.tile} = at + j;"] if uses_tile else []
        return _vectorized("j", "0", count or used, [*row, *lines])

    def _pass_lines(self, row_pass: Pass) -> list[Line]:
        """One pass over the rows of a tile, from the states of its reductions to their results."""
        lines: list[Line] = [*_states(row_pass)]
        if row_pass.row:
            of_row = [
                *_reads(row_pass.row_live_in, "r_", "j"),
                *texts(row_pass.row),
                *_writes(row_pass.row_live_out, "r_", "j"),
            ]
            lines.append(self._lanes(row_pass.row_uses_tile, of_row))
        begin, end = ("part", "stop") if self.part else ("0", self.first_extent)
        block = Block([for_head(self.first, begin, end, self.run or 1)], self._elements(row_pass))
        if self.part:
            block = _chunked(row_pass, self.first_extent, self.part, block)
        lines.append(block)
        if row_pass.accumulators:
            names = row_pass.accumulators if self.neighbours else []
            lines += [f"{a.name}.merge_every<{self.neighbours}>();" for a in names]
            lines.append(self._lanes(False, [f"r_{a.result}[j] = {a.name}.result(j);" for a in row_pass.accumulators]))
        return lines

    def _elements(self, row_pass: Pass) -> list[Line]:
        """The statements of an element of each row."""
        taken = [f"{row_pass.lanes[a.name][1]}.add(j, {a.operand}, {a.position or 0});" for a in row_pass.accumulators]
        each = [
            *_reads(row_pass.live_in, "r_", "j"),
            *texts([*row_pass.each, *row_pass.cache_writes]),
            *taken,
            *texts(row_pass.stores),
        ]
        lines: list[Line] = ["HG_BLOCK"] if row_pass.separate_blocks else []
        lines.append(self._lanes(row_pass.each_uses_tile, each))
        for head in reversed(_loop_heads(self.reduced)):
            lines = [Block([head], lines)]
        return lines

    def _after_last_pass(self) -> list[Line]:
        """The statements behind the last pass."""
        last = self.plan.passes[-1]
        if not (last.row or self.plan.row_stores or self.totals):
            return []
        taken = [f"part_{t.name}.add(j, {t.operand}, 0);" for t, _ in self.totals]
        lines = [*_reads(last.row_live_in, "r_", "j"), *self.finished(), *taken]
        return [self._lanes(last.row_uses_tile, lines, self.neighbours)]


def _origins(row_pass: Pass) -> list[str]:
    """Positions of the first element of a block."""
    return [f"const Index at_{a.name} = {a.origin};" for a in row_pass.accumulators if a.position]

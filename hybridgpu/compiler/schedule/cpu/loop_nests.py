# SPDX-License-Identifier: Apache-2.0
"""Map kernels on the host: nests of loops.

The compiler vectorises innermost loops; what does not depend on an inner loop is computed outside it.
Loops are cut where conditions change (``index_set_splitting``), so that a join is as many loops as it has parts, and
two of them run in tiles where operands lie across (``transpose_tiling``).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

from ....dataclass import dataclass, field
from ....dtypes import DType
from ...devices.cpu import CpuConstants
from ...ir.graph import Node
from ...ir.indexing import Expr, Var, of_var
from ...size_buckets import SHORT
from ..index_set_splitting import only_moved, restrict, turns
from ..kernel import Statement, Writer, address
from ..scalar import Scalar, ScalarProgram, combines
from ..transpose_tiling import Tiling, between, tiling

__all__ = ["AHEAD", "BUSY", "Buffer", "Call", "Loop", "TooLong", "Turn", "moves", "nests", "operations", "walked"]

_TILE_BYTES = CpuConstants.l1_bytes // 2  #: of all operands' tiles together: half of a first-level cache
_TILES = ((64, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16))  #: across, along: larger first
_MEETS = CpuConstants.aliased_bytes  #: bytes between lines that meet in a few sets of the first-level cache
_WINDOW = 4  #: loads of an array that make a window
_UNROLLED = 4  #: an innermost loop as short as that is written out
_FEW = 256  #: points of a kernel that is not worth cutting
_MOST_TURNS = 64  #: of one loop
_MOST_STATEMENTS = 800  #: of a kernel whose loops are cut
AHEAD = CpuConstants.prefetched_bytes  #: bytes between what is in work and what is fetched ahead, …
_BLOCK = 64  #: … so many elements at a time, …
_RUNTIME_BLOCK = 256  #: … or so many, where the number of elements is an argument
BUSY = 10  #: operations for an element of each array from which on several are fetched ahead


@dataclass(frozen=True)
class Turn:
    """A transposed copy: ``target[c * columns + r] = source[r * rows + c]``."""

    source: str
    rows: str
    target: str
    columns: str
    height: str
    width: str


@dataclass(frozen=True)
class Buffer:
    """A tile's memory."""

    type: str
    name: str
    count: int


@dataclass(frozen=True)
class Call(Statement):
    """A call that stands for itself."""

    def __str__(self) -> str:
        return f"{self.text};"


@dataclass
class Loop:
    """One loop: over ``var`` from ``begin`` to ``end``, by ``step``.

    Attributes:
        buffers: tiles that live in it.
        body: statements that belong directly into it.
        before: transposed copies into tiles.
        inner: the loops within; none in an innermost loop, which is vectorised …
        ordered: … unless one turn may add to what another one wrote.
        after: transposed copies out of tiles.
        last: statements at the end of its body.
        part: what an innermost loop computes, over the last variable of it.
        span: how many elements of it a tile has, 0 where the loop is in no tile.
    """

    var: str
    begin: str
    end: str
    step: int = 1
    buffers: list[Buffer] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    before: list[Turn] = field(default_factory=list)
    inner: list[Loop] = field(default_factory=list)
    after: list[Turn] = field(default_factory=list)
    last: list[Statement] = field(default_factory=list)
    ordered: bool = False
    part: ScalarProgram | None = None
    span: int = 0


class TooLong(Exception):
    """Loops cut everywhere would have too many statements."""


def nests(
    program: ScalarProgram, writer: Writer, runs: bool = True, fetch: bool = False
) -> tuple[list[Statement], list[Loop], dict[str, object]]:
    """Statements before the loops, the loops, and what was chosen and why.

    Args:
        runs: the first variable runs from ``begin`` to ``end``, which the kernel is told.
        fetch: operands are large, so that they may be worth fetching ahead.

    Raises:
        TooLong: windows are written out, and there would be too many pieces.
    """
    points, first = prod(v.extent for v in program.vars), program.vars[0] if runs else None
    try:
        made = _Nests(writer, first, cut=points >= _FEW, fetch=fetch)
        body, loops = made.build(program)
    except TooLong:
        if any(map(combines, program.scalars)):  # tests of every element are better made in loops over them
            raise
        made = _Nests(writer, first, cut=False)
        body, loops = made.build(program)
    return body, loops, made.choice


_Level = tuple[list[Statement], list[Loop]]


def operations(program: ScalarProgram, v: Var) -> int:
    """Scalar operations for each value of ``v``, the innermost variable."""
    return sum(s.node.prim.cost for s in program.scalars if s.op == "compute" and s.node and v in s.vars)


def walked(program: ScalarProgram, v: Var) -> list[Scalar]:
    """A load of each array that is walked along ``v`` and grows with the first variable's extent."""
    found: dict[Node, Scalar] = {}
    for s in program.scalars:
        if s.op != "load" or s.conditions or s.offset is None or s.node is None or not s.offset.affine:
            continue
        if s.offset.coefficient(v) == 1 and program.vars[0] in s.offset.vars:
            found.setdefault(s.node, s)
    return list(found.values())


def moves(program: ScalarProgram, tiles: Tiling) -> bool:
    """True if elements are moved from one order into another one and nothing else, so that they need no tile between."""
    if [s.op for s in program.scalars] != ["load"] or len(program.stores) != 1 or program.scalars[0].conditions:
        return False
    (s,), (store,) = program.scalars, program.stores
    assert s.node is not None and s.offset is not None
    lies = len(tiles.loads) + len(tiles.stores) == 1 and s.node.dtype is store.node.dtype and not store.scattered
    along, v = (store.offset, tiles.across) if tiles.loads else (s.offset, tiles.along)
    meets = store.offset.coefficient(v) * s.node.dtype.size % _MEETS == 0
    return lies and along.coefficient(tiles.along) == 1 and not meets


@dataclass
class _Nests:
    """Builds the loops of one kernel; ``cut`` says whether loops may be cut into pieces, ``fetch`` whether to fetch ahead."""

    writer: Writer
    first: Var | None
    cut: bool
    fetch: bool = False
    choice: dict[str, object] = field(default_factory=dict)
    tiles: dict[tuple[str, str], Tiling] = field(default_factory=dict)
    buffers: int = 0
    statements: int = 0
    pieces: int = 1

    def build(self, program: ScalarProgram) -> _Level:
        self.writer.forget()  # names are given as statements are written
        program = replace(program, vars=[*program.vars])  # the order of loops is this nest's: another one has its own
        if any(s.scattered for s in program.stores):  # in order
            return self.level(program, 0, frozenset())
        wanted = tiling(program, conditions=self.cut, cached=True)
        if wanted is None:
            self.interleave(program)
            return self.level(program, 0, frozenset())
        body: list[Statement] = []
        loops: list[Loop] = []
        done: frozenset[Scalar] = frozenset()
        for part, _ in self.parts(program, wanted.across):
            along = [v for v in part.vars if v.name == wanted.along.name]
            for piece, _ in self.parts(part, along[0]) if along else [(part, None)]:
                tiles = tiling(piece, cached=True)
                if tiles:
                    last = [tiles.across, tiles.along]
                    piece.vars = [v for v in piece.vars if v not in last] + last
                    self.tiles[tiles.across.name, tiles.along.name] = tiles
                else:
                    self.tiles.clear()
                once, nest = self.level(piece, 0, done)
                body += once
                done = done.union(s for s in piece.scalars if not s.vars)
                loops += nest
        return body, loops

    def interleave(self, program: ScalarProgram) -> None:
        """Make a short variable along which operands are neighbours the innermost one, which is written out."""
        for v in program.vars[1:-1]:
            if v.extent <= _UNROLLED and self.cut and between(program, v, program.vars[-1], shortest=2):
                program.vars.remove(v)
                program.vars.append(v)
                return

    def level(self, program: ScalarProgram, depth: int, done: frozenset[Scalar]) -> _Level:
        """Statements and loops inside the loops over ``program.vars[:depth]``; ``done`` are in scope."""
        outside = frozenset(program.vars[:depth])
        here = [s for s in program.scalars if s not in done and s.vars <= outside]
        self.writer.name(here)
        body = [t for t in map(self.writer.statement, here) if t]
        done = done.union(here)
        if depth == len(program.vars):
            for k, store in enumerate(program.stores):
                target = self.writer.place(store.value, self.writer.destination(k, store))
                body.append(Statement("", target, self.writer.stored(store, target)))
        self.count(body)
        if depth == len(program.vars):
            return body, []
        var = program.vars[depth]
        if depth == len(program.vars) - 2 and (var.name, program.vars[-1].name) in self.tiles:
            tiles = between(program, var, program.vars[-1])
            if tiles:
                return body, [self.tile(program, tiles, done)]
        loops: list[Loop] = []
        parts = self.parts(program, var)
        self.pieces += len(parts) - 1
        for part, v in parts:
            if v is None:
                inside, within = self.level(part, depth, done)
                body, loops = body + inside, loops + within
            else:
                inside, within = self.level(part, depth + 1, done)
                loop = Loop(v.name, *self.limits(v), body=inside, inner=within)
                loop.ordered = not all(store.free(v) for store in part.stores)
                loop.part = part if v is part.vars[-1] and not loop.ordered else None
                streams = self.streams(part, v) if self.fetch and not within else []
                loops.append(self.in_blocks(loop, v, streams) if len(streams) > 1 else loop)
        return body, loops

    def streams(self, program: ScalarProgram, v: Var) -> list[Scalar]:
        """A load of each array that the innermost loop, over ``v``, walks along, where it computes much.

        One array is fetched well by the hardware. Of several it does not have the next lines there in time if most of the
        instructions that a processor holds at once are arithmetic.
        """
        known = v is not self.first and self.limits(v) == (str(v.low), str(v.high + 1))
        if known and (v.extent < 4 * _BLOCK or v.extent % _BLOCK):
            return []
        found = walked(program, v)
        return found if operations(program, v) >= BUSY * len(found) else []

    def in_blocks(self, loop: Loop, v: Var, streams: list[Scalar]) -> Loop:
        """``loop`` in blocks, before each of which what comes later is fetched."""
        known = loop.begin == str(v.low) and loop.end == str(v.high + 1)
        size = _BLOCK if known else _RUNTIME_BLOCK
        at = of_var(Var("at", max(2, v.extent)))
        body = [Statement("Index", "count", str(size) if known else f"hg::minimum<Index>({size}, {loop.end} - at)")]
        for s in streams:
            assert s.node is not None and s.offset is not None
            block = self.writer.place_of(s.offset + of_var(v) * -1 + at)
            place = address(self.writer.pointers[s.node], f"{block} + {AHEAD // s.dtype.size}")
            body.append(Call("", "", f"hg::ahead<true>({place}, count)"))
        within = Loop("j", "0", "count", body=[Statement("Index", v.name, "at + j"), *loop.body])
        return Loop("at", loop.begin, loop.end, size, body=body, inner=[within])

    def count(self, body: list[Statement]) -> None:
        self.statements += len(body)
        if self.pieces > 1 and self.statements > _MOST_STATEMENTS:
            raise TooLong

    def limits(self, v: Var) -> tuple[str, str]:
        """Where the loop over ``v`` begins and ends; the first variable runs as the kernel is told."""
        if self.first is None or v.name != self.first.name:
            return str(v.low), self.writer.extent(v) if v.low == 0 else str(v.high + 1)
        turn = self.writer.turn
        begin = "begin" if v.low == self.first.low else f"hg::maximum<Index>(begin, {turn(v.low)})"
        end = "end" if v.high == self.first.high else f"hg::minimum<Index>(end, {turn(v.high + 1)})"
        return begin, end

    def parts(self, program: ScalarProgram, var: Var) -> list[tuple[ScalarProgram, Var | None]]:
        """``program`` cut where conditions on ``var`` change, and without loop where ``var`` has one value."""
        at = turns(program, var) if self.cut else []
        inner = var is program.vars[-1]
        if self.cut and inner and self.unrolled(program):
            at = list(range(var.low + 1, var.high + 1))
        bounds = [var.low, *at, var.high + 1]
        lengths = [b - a for a, b in pairwise(bounds)]
        short = inner and SHORT > max(lengths) > 1 and not self.tests_windows(program)
        if not at or len(at) > _MOST_TURNS or short:
            return [(program, var)]
        keep = self.first is not None and var.name == self.first.name
        found = [restrict(program, var, a, b, keep) for a, b in pairwise(bounds)]
        for part, _ in found:
            self.writer.moved |= only_moved(part)
        return found

    def tests_windows(self, program: ScalarProgram) -> bool:
        """True if elements of windows are tested one by one: in a short loop, too, that is most of the work."""
        loads = [s for s in program.scalars if s.op == "load"]
        tested = {s.node for s in loads if s.conditions}
        return any(sum(s.node is node for s in loads) >= _WINDOW for node in tested)

    def unrolled(self, program: ScalarProgram) -> bool:
        """True if the innermost loop is so short that the one around it is better vectorised."""
        return (
            len(program.vars) > 1
            and program.vars[-1].extent <= _UNROLLED
            and program.vars[-2].extent >= SHORT
            and len(program.scalars) <= 4 * _UNROLLED
        )

    def tile(self, program: ScalarProgram, tiles: Tiling, done: frozenset[Scalar]) -> Loop:
        """Loops over tiles, and the loops within one."""
        writer, across, along = self.writer, tiles.across, tiles.along
        stored = [program.stores[k].node for k in tiles.stores]
        width = sum(n.dtype.size for n in (*(s.node for s in tiles.loads if s.node), *stored))
        wide, long = next(((a, b) for a, b in _TILES if a * b * width <= _TILE_BYTES), _TILES[-1])
        wide, long = (
            size if v.name in writer.told - writer.fixed else min(size, v.extent + -v.extent % 16)
            for v, size in ((across, wide), (along, long))
        )
        self.choice |= {"tile": f"{wide}x{long}", "why": tiles.why}
        name = {v: f"b{v.name[1:]}" for v in (across, along)}
        stop = {v: f"e{v.name[1:]}" for v in (across, along)}
        size = {v: f"{stop[v]} - {name[v]}" for v in (across, along)}
        at = f"({across.name} - {name[across]}) * {long} + {along.name} - {name[along]}"

        def block(v: Var, step: int) -> Loop:
            begin, end = self.limits(v)
            last = Statement("Index", stop[v], f"hg::minimum<Index>({name[v]} + {step}, {end})")
            return Loop(name[v], begin, end, step, body=[last])

        def walk(v: Var, **parts: list[Statement] | list[Loop]) -> Loop:
            return Loop(v.name, name[v], stop[v], **parts)  # type: ignore[arg-type]

        outer, inner = block(across, wide), block(along, long)
        outer.inner = [inner]

        def start(offset: Expr, pointer: str) -> str:
            writer.renamed = name
            text = address(pointer, writer.place_of(offset))
            writer.renamed = {}
            return text

        def apart(offset: Expr, v: Var) -> str:
            """How far neighbours along ``v`` are apart."""
            step = offset.coefficient(v)
            return writer.numbers.stride(step, v.name) if v.name in writer.told else str(step)

        def buffer(dtype: DType) -> str:
            made = Buffer(dtype.storage, f"s{self.buffers}", wide * long)
            self.buffers += 1
            inner.buffers.append(made)
            return made.name

        writer.name(program.scalars)
        if writer.told and moves(program, tiles):
            (s,), (store,) = program.scalars, program.stores
            assert s.node is not None and s.offset is not None
            source, target = start(s.offset, writer.pointers[s.node]), start(store.offset, f"{writer.results}0")
            far, near = (along, across) if tiles.loads else (across, along)  # the load's axes
            turn = Turn(source, apart(s.offset, far), target, apart(store.offset, near), size[far], size[near])
            inner.before.append(turn)
            inner.ordered = True  # (its body is a call)
            return outer
        in_tile: dict[Scalar, str] = {}
        for s in tiles.loads:
            assert s.node is not None and s.offset is not None
            source, step = start(s.offset, writer.pointers[s.node]), apart(s.offset, along)
            in_tile[s] = buffer(s.node.dtype)
            inner.before.append(Turn(source, step, in_tile[s], str(long), size[along], size[across]))
        once: list[Statement] = []
        each: list[Statement] = []
        for s in program.scalars:
            if s in done:
                continue
            statement = writer.statement(s)
            if s in in_tile:
                statement = Statement(writer.type(s), writer.names[s], writer.place(s, f"{in_tile[s]}[{at}]"))
            if statement:
                (each if along in s.vars else once).append(statement)
        for k, store in enumerate(program.stores):
            target = writer.destination(k, store)
            if k in tiles.stores:
                held, step = buffer(store.node.dtype), apart(store.offset, along)
                inner.after.append(
                    Turn(held, str(long), start(store.offset, f"{writer.results}{k}"), step, size[across], size[along])
                )
                target = f"{held}[{at}]"
            each.append(Statement("", writer.place(store.value, target), writer.names[store.value]))
        self.count(once + each)
        row = walk(along, body=each)
        row.part, row.span = program, long
        inner.inner = [walk(across, body=once, inner=[row])]
        return outer

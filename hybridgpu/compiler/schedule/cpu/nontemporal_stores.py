# SPDX-License-Identifier: Apache-2.0
"""Results that a host's kernel may store past the caches (streaming, or non-temporal, stores).

A plain store fetches the line that it overwrites: a third more bytes where one array is read and one written. Results
that are not small beside the caches have left them anyway before anybody reads them. How many elements there are is an
argument, so that a kernel chooses as it runs: it computes a few vectors, which stay in registers, and stores these in
either way. (Longer buffers were measured to be slower: nothing is computed while one is streamed out.) Of rows that are
short or do not begin with a line there are two nests: in the caches blocks of a line and what is left over before and
behind them take longer than plain loops.

Kernels that compute very much for what they move are not held up by memory, and what is written over an operand is in the
cache already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ....dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.graph import Node
from ...ir.indexing import ZERO, Expr, Var, of_var
from ..kernel import Statement, Writer, address
from ..scalar import ScalarProgram, Store
from .loop_nests import AHEAD, BUSY, Buffer, Call, Loop, operations, walked

__all__ = ["Streamed", "head", "past", "put", "side_by_side", "streamed", "walks", "walks_lines"]

_BLOCK = 4 * CpuConstants.vector_bytes  #: bytes of a result that are stored together: four of the widest vectors
_RESULTS = 4  #: whose blocks stay in registers
_LINE = CpuConstants.line_bytes
_LONG = 2048  #: bytes of a row from which on what is left over does not matter; shorter ones have blocks of a line
_SHORT = 512  #: bytes of a row that is not worth looking for its first line, …
_SHORT_LINES = 64  #: … and of one that begins with a line and is not worth blocks
_PARTS = 16  #: of so small a part of a kernel is not streamed
_MOST_OPERATIONS = 4  #: for a byte
_FAR = CpuConstants.far_prefetched_bytes  #: bytes between what is in work and what is fetched ahead from memory, …
_ALL_FAR = 2 * CpuConstants.l1_bytes // 3  #: … of all arrays: two thirds of a first-level cache


@dataclass(frozen=True)
class Streamed:
    """The other nest.

    Attributes:
        test: when it streams.
        before: what stands before its loops.
        loops: these.
        apart: it is for large arrays alone: of small ones its rows take longer than with plain stores.
    """

    test: str
    before: list[Statement]
    loops: list[Loop]
    apart: bool


def streamed(program: ScalarProgram, writer: Writer, loops: Sequence[Loop]) -> Streamed | None:
    """The nest that may stream, or None where that would not be faster; ``loops``: the one with plain stores.

    Where loops are cut, as those of a join are, each part has its own blocks; short parts keep plain stores.
    """
    if not 0 < len(program.stores) <= _RESULTS:
        return None
    parts = _parts(loops)
    if not parts:
        return None
    nest = _Nest(writer, program, sum(map(_points, parts)))
    before, made = nest.level(loops)
    if 2 * nest.streams < nest.points:
        return None
    first = program.vars[0]
    test = past(program, writer, first, program.stores, nest.lines, max(_each(parts, first).values()))
    return Streamed(test, before, made, nest.apart)


@dataclass
class _Nest:
    """Rewrites the loops of a kernel, of so many ``points`` (see :func:`_points`), and counts those that are streamed then."""

    writer: Writer
    program: ScalarProgram
    points: int
    streams: int = 0
    lines: bool = True  #: whether all rows that are streamed begin with a line
    apart: bool = False  #: whether some are short, or do not
    cuts: int = 0  #: loops that find their first line

    def level(self, loops: Sequence[Loop]) -> tuple[list[Statement], list[Loop]]:
        """Statements before ``loops`` and what takes their place."""
        before: list[Statement] = []
        made: list[Loop] = []
        for loop in loops:
            if loop.inner:
                statements, inner = self.level(loop.inner)
                made.append(replace(loop, body=[*loop.body, *statements], inner=inner))
                continue
            statements, blocks = self.blocks(loop)
            before += statements
            made += blocks or [loop]
        return before, made

    def blocks(self, innermost: Loop) -> tuple[list[Statement], list[Loop]]:
        """The same for an innermost loop; no loops where it keeps its plain stores."""
        part, writer = innermost.part, self.writer
        assert part is not None
        inner = part.vars[-1]
        outermost, busy = inner.name == self.program.vars[0].name, operations(part, inner)
        if not self.may(innermost, part, busy):
            return [], []
        lines = all(walks_lines(s, inner) and inner.low * s.node.dtype.size % _LINE == 0 for s in part.stores)
        lines = lines and (not outermost or inner is self.program.vars[0])
        sizes = [s.node.dtype.size for s in part.stores]
        span = innermost.span or inner.extent
        row = span * max(sizes)
        if innermost.span and (writer.told or not lines or any(span * n % _LINE for n in sizes)):
            return [], []
        if not lines and not side_by_side(part.stores):
            return [], []
        if not outermost and row < (_SHORT_LINES if lines else _SHORT):
            return [], []
        long = outermost or row >= _LONG or (lines and row % _BLOCK == 0)
        size = max((_BLOCK if long else _LINE) // max(sizes), _LINE // min(sizes))
        body = innermost.body[: -len(part.stores)]
        buffers: list[Buffer] = []
        fetched: list[Statement] = [Call("", "", text) for text in _ahead(part, writer, inner, busy, size)]
        out: list[Statement] = []
        for k, store in enumerate(part.stores):
            held = Buffer(store.node.dtype.storage, f"o{k}", size)
            buffers.append(held)
            body.append(Statement("", writer.place(store.value, f"{held.name}[j]"), writer.names[store.value]))
            out.append(Call("", "", put(writer, k, store, inner, size)))
        within = Loop("j", "0", str(size), body=[Statement("Index", inner.name, "at + j"), *body])
        begin, end = innermost.begin, innermost.end
        before: list[Statement] = []
        made: list[Loop] = []
        if not lines:  # what comes before the first line that a row has for itself
            number = self.cuts or ""
            self.cuts += 1
            if outermost:
                before += [Statement("Index", f"from{number}", begin), Statement("Index", f"to{number}", end)]
                begin, end = f"from{number}", f"to{number}"
            line = head(writer, 0, part.stores[0], inner, begin)
            line = line if begin == "0" else f"{begin} + {line}"
            line = f"hg::minimum<Index>({line}, {end})" if outermost else line
            before.append(Statement("Index", f"line{number}", line))
            made.append(replace(innermost, begin=begin, end=f"line{number}"))
            begin = f"line{number}"
        whole = lines and not outermost and inner.extent % size == span % size == 0
        stop = end if whole else f"{end} - {size - 1}"
        made.append(Loop("at", begin, stop, size, buffers=buffers, body=fetched, inner=[within], last=out))
        if not whole:  # what is left over
            made.append(replace(innermost, begin=f"{end} - ({end} - {begin}) % {size}", end=end))
        self.streams += _points(part)
        self.lines = self.lines and lines
        self.apart = self.apart or not (outermost or (lines and row >= _LONG))
        return before, made

    def may(self, innermost: Loop, part: ScalarProgram, busy: int) -> bool:
        """Whether what a loop computes, in so many operations, follows each other in memory, is much and held up by memory."""
        if _PARTS * _points(part) < self.points or not all(walks(s, part.vars[-1]) for s in part.stores):
            return False
        if sum(isinstance(t, Statement) and not t.type for t in innermost.body) != len(part.stores):
            return False  # a short loop inside is written out
        moved = sum(n.dtype.size for n in _moving(part, part.vars[0]))
        return _in_order(part) and busy <= _MOST_OPERATIONS * moved


def _parts(loops: Sequence[Loop]) -> list[ScalarProgram]:
    """What the innermost loops compute; nothing if that of some is not known."""
    found: list[ScalarProgram] = []
    for loop in loops:
        inner = _parts(loop.inner) if loop.inner else [loop.part] if loop.part else []
        if not inner:
            return []
        found += inner
    return found


def _points(part: ScalarProgram) -> int:
    """Points of one value of the outermost variable: what a text is made for does not depend on how many there are."""
    return prod(v.extent for v in part.vars[1:])


def _each(parts: Sequence[ScalarProgram], first: Var) -> dict[tuple[int, int], int]:
    """Bytes that one value of the first variable moves, between the values at which its loop is cut."""
    found: dict[tuple[int, int], int] = {}
    for part in parts:
        mine = next((v for v in part.vars if v.name == first.name), first)
        key = mine.low, mine.high
        found[key] = found.get(key, 0) + sum(_moving(part, mine).values())
    return found


def past(
    program: ScalarProgram,
    writer: Writer,
    first: Var,
    stores: Sequence[Store],
    lines: bool = True,
    each: int | None = None,
    told: bool = False,
) -> str:
    """C text of whether a kernel that runs over ``first`` from ``begin`` to ``end`` streams ``stores``.

    ``lines``: whether each row begins with a line, or finds its first one. ``each``: the bytes that one value of ``first``
    moves, if these are not those of the program as a whole. ``told``: whether an extent that they depend on is an argument.
    """
    start = "begin" if lines and any(s.offset.coefficient(first) * s.node.dtype.size % _LINE for s in stores) else "0"
    starts = [f"hg::aligned({address(f'{writer.results}{program.stores.index(s)}', start)})" for s in stores]
    each = sum(_moving(program, first).values()) if each is None else each
    text = writer.numbers.told("bytes", each) if told or writer.told else str(each)
    return " && ".join([f"hg::streams((end - begin) * {text})", *starts])


def put(writer: Writer, k: int, store: Store, inner: Var, size: int) -> str:
    """C text of storing a block of the ``k``-th result, whose elements along ``inner`` begin ``at``."""
    return f"hg::put<{size}>({_place(writer, k, store, inner, 'at')}, o{k}, past)"


def head(writer: Writer, k: int, store: Store, inner: Var, begin: str) -> str:
    """C text of how many elements of a row of the ``k``-th result come before its first line, from ``begin`` on."""
    return f"hg::head({_place(writer, k, store, inner, begin)}, past)"


def _place(writer: Writer, k: int, store: Store, inner: Var, at: str) -> str:
    """C text of where the element of the ``k``-th result lies whose place along ``inner`` is ``at``."""
    start = ZERO if at == "0" else of_var(Var(at, max(2, inner.extent)))
    return address(f"{writer.results}{k}", writer.expr(store.offset + Expr(((inner, -1),)) + start))


def walks_lines(store: Store, inner: Var) -> bool:
    """Whether a result is walked along ``inner``, each row from the beginning of a line."""
    size = store.node.dtype.size
    others = [c for v, c in store.offset.terms if v is not inner]
    return walks(store, inner) and not any(c * size % _LINE for c in (*others, store.offset.const))


def walks(store: Store, inner: Var) -> bool:
    """Whether the elements of a result follow each other along ``inner``."""
    return not store.scattered and store.offset.affine and store.offset.coefficient(inner) == 1


def side_by_side(stores: Sequence[Store]) -> bool:
    """Whether lines of all results begin at the same places of a row, if those of the results do."""
    return all(s.offset == stores[0].offset and s.node.dtype.size == stores[0].node.dtype.size for s in stores)


def _in_order(program: ScalarProgram) -> bool:
    """Whether nothing is gathered."""
    return all(s.offset is not None and s.offset.affine and not s.conditions for s in program.scalars if s.op == "load")


def _ahead(program: ScalarProgram, writer: Writer, inner: Var, busy: int, size: int) -> list[str]:
    """C text of fetching what is read soon of each array that is walked along.

    From memory that pays everywhere, from a cache only where :meth:`.loop_nests._Nests.streams` says, and not from as far.
    """
    found = walked(program, inner)
    always = len(found) > 1 and busy >= BUSY * len(found)
    calls = []
    writer.renamed = {inner: "at"}
    for s in found:
        assert s.offset is not None and s.node is not None
        far, near = (n // s.node.dtype.size for n in (min(_FAR, _ALL_FAR // len(found)), AHEAD))
        place = writer.place_of(s.offset)
        source = address(writer.pointers[s.node], f"{place} + {f'(past ? {far} : {near})' if always else far}")
        calls.append(f"{'' if always else 'if (past) '}hg::ahead<true>({source}, {size})")
    writer.renamed = {}
    return calls


def _moving(program: ScalarProgram, first: Var) -> dict[Node, int]:
    """Bytes that one value of the first variable moves of each array that grows with its extent."""
    loads = [(s.node, s.offset) for s in program.scalars if s.op == "load"]
    found: dict[Node, int] = {}
    for node, offset in (*loads, *((s.node, s.offset) for s in program.stores)):
        if node is not None and offset is not None and first in offset.vars:
            extents = [v.extent for v in program.vars if v is not first and v in offset.vars]
            found[node] = max(found.get(node, 0), prod(extents) * node.dtype.size)
    return found

# SPDX-License-Identifier: Apache-2.0
"""Non-temporal stores: results that a CPU kernel may write past the caches.

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

from ....core.dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.dims import Dim
from ...ir.graph import Node
from ...ir.indexing import ZERO, Expr, Var, of_var
from ..blocks import Block, Line, texts
from ..kernel import CWriter, Statement, address
from ..scalar import ScalarProgram, Store
from .loop_nests import PREFETCH_BYTES, Loop, aligned_array, blocks, operations_along, streamed_loads

__all__ = [
    "NontemporalLoops",
    "is_contiguous",
    "is_line_aligned",
    "nontemporal_loops",
    "same_alignment",
    "store_block",
    "streaming_condition",
    "unaligned_prefix",
]

_BLOCK = 4 * CpuConstants.vector_bytes  #: bytes of a result that are stored together: four of the widest vectors
_MAX_RESULTS = 4  #: whose blocks stay in registers
_LINE = CpuConstants.line_bytes
_LONG_ROW_BYTES = (
    2048  #: bytes of a row from which on what is left over does not matter; shorter ones have blocks of a line
)
_MIN_ROW_BYTES = 512  #: bytes of a row that is not worth looking for its first line, …
_MIN_ALIGNED_ROW_BYTES = 64  #: … and of one that begins with a line and is not worth blocks
_MIN_SHARE = 16  #: so small a part of a kernel, or one of so many alike, is not streamed
_PREFETCH_FAR_BYTES = (
    CpuConstants.far_prefetched_bytes
)  #: bytes between what is in work and what is fetched ahead from memory, …
_PREFETCH_FAR_TOTAL = 2 * CpuConstants.l1_bytes // 3  #: … of all arrays: two thirds of a first-level cache


@dataclass(frozen=True)
class NontemporalLoops:
    """The other nest.

    Attributes:
        condition: when it streams.
        before: what stands before its loops.
        loops: these.
        large_only: it is for large arrays alone: of small ones its rows take longer than with plain stores.
    """

    condition: str
    before: list[Statement]
    loops: list[Loop]
    large_only: bool

    def lines(self, plain: Sequence[Line]) -> list[Line]:
        """The body of the kernel's function; ``plain``: the nest with plain stores."""
        fence = "hg::streaming_fence();"
        lines: list[Line] = [f"const bool nontemporal = {self.condition};", *texts(self.before)]
        if self.large_only:
            return [*lines, Block(["if (nontemporal)"], [*blocks(self.loops), fence], plain)]
        return [*lines, *blocks(self.loops), f"if (nontemporal) {fence}"]


def nontemporal_loops(program: ScalarProgram, writer: CWriter, loops: Sequence[Loop]) -> NontemporalLoops | None:
    """The nest that may stream, or None where that would not be faster; ``loops``: the one with plain stores.

    Where loops are cut, as those of a join are, each part has its own blocks; short parts keep plain stores.
    """
    if not 0 < len(program.stores) <= _MAX_RESULTS:
        return None
    parts = _innermost_programs(loops)
    if not parts:
        return None
    nest = _LoopRewriter(writer, program, sum(map(_points, parts)))
    before, new_loops = nest.rewrite(loops)
    if 2 * nest.streamed_points < nest.points:
        return None
    first = program.vars[0]
    test = streaming_condition(
        program, writer, first, program.stores, nest.line_aligned, max(_bytes_per_value(parts, first).values())
    )
    return NontemporalLoops(test, before, new_loops, nest.large_only)


@dataclass
class _LoopRewriter:
    """Rewrites the loops of a kernel, of so many ``points`` (see :func:`_points`), and counts those that are streamed then."""

    writer: CWriter
    program: ScalarProgram
    points: int
    streamed_points: int = 0
    line_aligned: bool = True  #: whether all rows that are streamed begin with a line
    large_only: bool = False  #: whether some are short, or do not
    prefixes: int = 0  #: loops that find their first line

    def rewrite(self, loops: Sequence[Loop]) -> tuple[list[Statement], list[Loop]]:
        """Statements before ``loops`` and what takes their place."""
        before: list[Statement] = []
        new_loops: list[Loop] = []
        for loop in loops:
            if loop.inner:
                small = loop.table is not None and loop.table.rows > _MIN_SHARE
                statements, inner = ([], loop.inner) if small else self.rewrite(loop.inner)
                new_loops.append(replace(loop, body=[*loop.body, *statements], inner=inner))
                continue
            statements, blocks = self.rewrite_innermost(loop)
            before += statements
            new_loops += blocks or [loop]
        return before, new_loops

    def rewrite_innermost(self, innermost: Loop) -> tuple[list[Statement], list[Loop]]:
        """The same for an innermost loop; no loops where it keeps its plain stores."""
        part, writer = innermost.program, self.writer
        assert part is not None
        inner = part.vars[-1]
        outermost, busy = inner.name == self.program.vars[0].name, operations_along(part, inner)
        if not self.may_stream(innermost, part, busy):
            return [], []
        lines = all(is_line_aligned(s, inner) and inner.low * s.node.dtype.size % _LINE == 0 for s in part.stores)
        lines = lines and (not outermost or inner is self.program.vars[0])
        sizes = [s.node.dtype.size for s in part.stores]
        span = innermost.tile_extent or inner.extent
        row = span * max(sizes)
        if innermost.tile_extent and (writer.dynamic_axes or not lines or any(span * n % _LINE for n in sizes)):
            return [], []
        if not lines and not same_alignment(part.stores):
            return [], []
        if not outermost and row < (_MIN_ALIGNED_ROW_BYTES if lines else _MIN_ROW_BYTES):
            return [], []
        long = outermost or row >= _LONG_ROW_BYTES or (lines and row % _BLOCK == 0)
        size = max((_BLOCK if long else _LINE) // max(sizes), _LINE // min(sizes))
        body = list(innermost.body[: -len(part.stores)])
        fetched = _prefetch_calls(part, writer, inner, busy, size)
        buffers = [aligned_array(s.node.dtype.storage, f"o{k}", size) for k, s in enumerate(part.stores)]
        out = [store_block(writer, k, s, inner, size) for k, s in enumerate(part.stores)]
        for k, s in enumerate(part.stores):
            body.append(Statement("", writer.as_stored(s.value, f"o{k}[j]"), writer.names[s.value]))
        within = Loop("j", "0", str(size), body=[Statement("Index", inner.name, "at + j"), *body])
        begin, end = innermost.begin, innermost.end
        before: list[Statement] = []
        new_loops: list[Loop] = []
        if not lines:  # what comes before the first line that a row has for itself
            number = self.prefixes or ""
            self.prefixes += 1
            if outermost:
                before += [Statement("Index", f"from{number}", begin), Statement("Index", f"to{number}", end)]
                begin, end = f"from{number}", f"to{number}"
            line = unaligned_prefix(writer, 0, part.stores[0], inner, begin)
            line = line if begin == "0" else f"{begin} + {line}"
            line = f"hg::minimum<Index>({line}, {end})" if outermost else line
            before.append(Statement("Index", f"line{number}", line))
            new_loops.append(replace(innermost, begin=begin, end=f"line{number}"))
            begin = f"line{number}"
        whole = lines and not outermost and inner.extent % size == span % size == 0
        stop = end if whole else f"{end} - {size - 1}"
        new_loops.append(Loop("at", begin, stop, size, body=[*buffers, *fetched], inner=[within], copies_out=out))
        if not whole:  # what is left over
            new_loops.append(replace(innermost, begin=f"{end} - ({end} - {begin}) % {size}", end=end))
        self.streamed_points += _points(part)
        self.line_aligned = self.line_aligned and lines
        self.large_only = self.large_only or not (outermost or (lines and row >= _LONG_ROW_BYTES))
        return before, new_loops

    def may_stream(self, innermost: Loop, part: ScalarProgram, busy: int) -> bool:
        """Whether what a loop computes, in so many operations, follows each other in memory, is much and held up by memory."""
        if _MIN_SHARE * _points(part) < self.points or not all(is_contiguous(s, part.vars[-1]) for s in part.stores):
            return False
        if sum(isinstance(t, Statement) and not t.type for t in innermost.body) != len(part.stores):
            return False  # a short loop inside is written out
        moved = sum(n.dtype.size for n in _traffic_per_point(part, part.vars[0]))
        return _gathers_nothing(part) and busy <= CpuConstants.streamed_byte_ops * moved


def _innermost_programs(loops: Sequence[Loop]) -> list[ScalarProgram]:
    """The programs of the innermost loops; none if that of some is not known."""
    programs: list[ScalarProgram] = []
    for loop in loops:
        inner = _innermost_programs(loop.inner) if loop.inner else [loop.program] if loop.program else []
        if not inner:
            return []
        programs += inner
    return programs


def _points(part: ScalarProgram) -> int:
    """Points of one value of the outermost variable: what a text is made for does not depend on how many there are."""
    return prod(v.extent for v in part.vars[1:])


def _bytes_per_value(parts: Sequence[ScalarProgram], first: Var) -> dict[tuple[int, int], int]:
    """Bytes that one value of the first variable moves, between the values at which its loop is cut."""
    range_bytes: dict[tuple[int, int], int] = {}
    for part in parts:
        mine = next((v for v in part.vars if v.name == first.name), first)
        key = mine.low, mine.high
        range_bytes[key] = range_bytes.get(key, 0) + sum(_traffic_per_point(part, mine).values())
    return range_bytes


def streaming_condition(
    program: ScalarProgram,
    writer: CWriter,
    first: Var,
    stores: Sequence[Store],
    line_aligned: bool,
    bytes_each: int | None = None,
    dynamic: bool = False,
) -> str:
    """C text of whether a kernel that runs over ``first`` streams ``stores``.

    ``line_aligned``: whether each row begins with a line, or finds its first one. ``bytes_each``: the bytes that one value of ``first``
    moves, if these are not those of the program as a whole. ``dynamic``: whether an extent that they depend on is an argument.
    """
    start = (
        "begin"
        if line_aligned and any(s.offset.coefficient(first) * s.node.dtype.size % _LINE for s in stores)
        else "0"
    )
    starts = [f"hg::aligned({address(f'{writer.result_prefix}{program.stores.index(s)}', start)})" for s in stores]
    bytes_each = sum(_traffic_per_point(program, first).values()) if bytes_each is None else bytes_each
    dynamic = dynamic or bool(writer.dynamic_axes) or type(bytes_each) is Dim
    text = writer.runtime_args.named("bytes", bytes_each) if dynamic else str(bytes_each)
    turns = writer.runtime_args.named("turns", first.extent)  # of all threads' chunks
    return " && ".join([f"hg::exceeds_caches({turns} * {text})", *starts])


def store_block(writer: CWriter, k: int, store: Store, inner: Var, size: int) -> str:
    """C text of storing a block of the ``k``-th result, whose elements along ``inner`` begin ``at``."""
    return f"hg::store_block<{size}>({_store_pointer(writer, k, store, inner, 'at')}, o{k}, nontemporal);"


def unaligned_prefix(writer: CWriter, k: int, store: Store, inner: Var, begin: str) -> str:
    """C text of how many elements of a row of the ``k``-th result come before its first line, from ``begin`` on."""
    return f"hg::unaligned_prefix({_store_pointer(writer, k, store, inner, begin)}, nontemporal)"


def _store_pointer(writer: CWriter, k: int, store: Store, inner: Var, at: str) -> str:
    """C text of where the element of the ``k``-th result lies whose place along ``inner`` is ``at``."""
    start = ZERO if at == "0" else of_var(Var(at, max(2, inner.extent)))
    return address(f"{writer.result_prefix}{k}", writer.expr(store.offset + Expr(((inner, -1),)) + start))


def is_line_aligned(store: Store, inner: Var) -> bool:
    """Whether a result is walked along ``inner``, each row from the beginning of a line."""
    size = store.node.dtype.size
    others = [c for v, c in store.offset.terms if v is not inner]
    return is_contiguous(store, inner) and not any(c * size % _LINE for c in (*others, store.offset.const))


def is_contiguous(store: Store, inner: Var) -> bool:
    """Whether the elements of a result follow each other along ``inner``."""
    return not store.scattered and store.offset.affine and store.offset.coefficient(inner) == 1


def same_alignment(stores: Sequence[Store]) -> bool:
    """Whether lines of all results begin at the same places of a row, if those of the results do."""
    return all(s.offset == stores[0].offset and s.node.dtype.size == stores[0].node.dtype.size for s in stores)


def _gathers_nothing(program: ScalarProgram) -> bool:
    """Whether nothing is gathered."""
    return all(s.offset is not None and s.offset.affine and not s.conditions for s in program.scalars if s.op == "load")


def _prefetch_calls(program: ScalarProgram, writer: CWriter, inner: Var, busy: int, size: int) -> list[str]:
    """C text of fetching what is read soon of each array that is walked along.

    From memory that pays everywhere, from a cache only where :meth:`.loop_nests._LoopBuilder.prefetched_loads` says, and not from as far.
    """
    loads = streamed_loads(program, inner)
    always = len(loads) > 1 and busy >= CpuConstants.prefetch_ops * len(loads)
    calls = []
    writer.renamed = {inner: "at"}
    for s in loads:
        assert s.offset is not None and s.node is not None
        far, near = (
            n // s.node.dtype.size
            for n in (min(_PREFETCH_FAR_BYTES, _PREFETCH_FAR_TOTAL // len(loads)), PREFETCH_BYTES)
        )
        place = writer.address_text(s.offset)
        source = address(writer.pointer(s), f"{place} + {f'(nontemporal ? {far} : {near})' if always else far}")
        calls.append(f"{'' if always else 'if (nontemporal) '}hg::prefetch_elements<true>({source}, {size});")
    writer.renamed = {}
    return calls


def _traffic_per_point(program: ScalarProgram, first: Var) -> dict[Node, int]:
    """Bytes that one value of the first variable moves of each array that grows with its extent."""
    loads = [(s.node, s.offset) for s in program.scalars if s.op == "load"]
    traffic_bytes: dict[Node, int] = {}
    for node, offset in (*loads, *((s.node, s.offset) for s in program.stores)):
        if node is not None and offset is not None and first in offset.vars:
            extents = [v.extent for v in program.vars if v is not first and v in offset.vars]
            traffic_bytes[node] = max(traffic_bytes.get(node, 0), prod(extents) * node.dtype.size)
    return traffic_bytes

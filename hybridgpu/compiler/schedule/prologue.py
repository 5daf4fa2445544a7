# SPDX-License-Identifier: Apache-2.0
"""Prologues: operands of products and convolutions that are computed as they are loaded.

On the CPU a *panel* of such an operand (some rows of the left one, some columns of the right one) is computed by the
loops of map kernels into memory that stays in a core's cache, where the product reads it. On a GPU the product's
function gets a *loader*, a lambda that computes neighbouring elements from wide loads of what they are made of.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ..devices.cpu import CpuConstants
from ..devices.gpu import GpuConstants
from ..ir.computed import fits_into
from ..ir.dims import nominal
from ..ir.graph import Node
from ..ir.indexing import Var, divide, modulo, of_var
from ..passes.fuse.group import Group
from .blocks import Block, Line, for_head, texts
from .collapse_axes import can_collapse, split_at_quotients
from .cpu.loop_nests import blocks, build_loops, has_transposes
from .index_set_splitting import MAX_CONDITIONS, bit_copies, breakpoints, restrict
from .kernel import CWriter, Statement, headers, variables_of
from .scalar import Scalar, ScalarProgram, operand_program
from .traffic import elements_read
from .transpose_tiling import unit_stride

if TYPE_CHECKING:
    from .cuda.map_fields import VectorAccess

__all__ = [
    "PANEL_BYTES",
    "ComputedOperand",
    "ImagePrologue",
    "Loader",
    "computed_operand",
    "dynamic_panel_columns",
    "image_prologue",
    "loader",
    "panel",
    "panel_columns",
    "panel_rows",
    "strided_array",
    "strided_in_rows",
]

PANEL_BYTES = (
    CpuConstants.l2_bytes // 8
)  #: bytes of a panel: with the other operand it stays in the second-level cache, …
_MAX_PANEL_BYTES = CpuConstants.l2_bytes // 4  #: … and at the very most
_PANEL_ROWS = (192, 64, 32, 16, 8, 4)  #: of a panel of a left operand
_PANEL_COLUMNS = (480, 192, 96, 48, 24, 8)  #: of one of a right operand that is contiguous along the sum, …
_PANEL_STRIP_COLUMNS = (512, 256, 128, 64)  #: … and of one that is contiguous along its columns
_ACCESS = GpuConstants.access_bytes  #: bytes of a thread's widest access


@dataclass
class ComputedOperand:
    """An operand as a program of one element, which it stores at its place along ``inner``.

    Attributes:
        program: over the axes of the product that the operand has.
        outer, inner: its last two axes, neighbours in memory along ``inner``.
        elements_read: array -> how many of its elements are read.
    """

    program: ScalarProgram
    outer: Var
    inner: Var
    elements_read: dict[Node, int]


def computed_operand(
    group: Group, operand: Node, batch: list[Var], rows: Var, columns: Var, along: bool
) -> ComputedOperand:
    """The computation by ``group`` of ``operand``, whose last two axes are ``rows`` and ``columns``.

    Args:
        along: whether neighbours are those along the columns.
    """
    variables = [*batch, rows, columns]
    outer, inner = (rows, columns) if along else (columns, rows)
    program = operand_program(group, operand, variables, inner)
    return ComputedOperand(program, outer, inner, elements_read(program))


def strided_array(what: ComputedOperand) -> Node | None:
    """An array whose elements lie apart where those of the operand are neighbours, the largest one.

    (``what`` is taken apart as a panel would be.)
    """
    return None if _collapsed(what) else _largest_strided(what.program, _split_var(what.program, what.inner)[-1])


def _collapsed(what: ComputedOperand) -> Var | None:
    """One variable in place of both, if all that is loaded lies as the operand's lines do, one behind the other."""
    program, outer, inner = what.program, what.outer, what.inner
    (store,) = program.stores
    if 1 in (outer.extent, inner.extent):
        return None
    loads = [e for e in program.expressions() if e is not store.offset]
    if not all(can_collapse(e, outer, inner) for e in loads):
        return None
    one = Var("e", outer.extent * inner.extent)
    store.offset = of_var(outer) * inner.extent + of_var(inner)
    e = of_var(one)
    program.replace({outer: divide(e, inner.extent), inner: modulo(e, inner.extent)})
    return one


def _largest_strided(program: ScalarProgram, inner: Var) -> Node | None:
    strided = [
        s.node
        for s in program.scalars
        if s.op == "load" and s.node and s.offset and inner in s.offset.vars and not unit_stride(s.offset, inner)
    ]
    return max(strided, key=lambda n: n.type.nbytes, default=None)


def _split_var(program: ScalarProgram, var: Var) -> list[Var]:
    """``var`` in as many variables as positions that hold quotients and remainders of it want; outermost first."""
    variables = [var]
    split_at_quotients(program, [variables])
    return variables


# -- the host


def panel_rows(rows: int, depth: int, itemsize: int) -> int:
    """Rows of a panel of a left operand, 0 if none fits; the same for any number of rows above one."""
    line = depth * itemsize
    return (1 if line <= _MAX_PANEL_BYTES else 0) if rows == 1 else _largest_fitting(_PANEL_ROWS, line)


def panel_columns(columns: int, depth: int, itemsize: int, along: bool) -> int:
    """Columns of a panel of a right operand, 0 if none fits; ``along``: it is contiguous along the sum."""
    return min(columns, _largest_fitting(_PANEL_COLUMNS if along else _PANEL_STRIP_COLUMNS, depth * itemsize))


def dynamic_panel_columns(depth: int, itemsize: int) -> int:
    """Columns of a panel of a right operand that is contiguous along the sum, where how many there are is dynamic; 0 if
    there is no room for some."""
    return _largest_fitting(_PANEL_COLUMNS, depth * itemsize, PANEL_BYTES)  # which the memory of such a panel has


def _largest_fitting(counts: tuple[int, ...], line: int, most: int = _MAX_PANEL_BYTES) -> int:
    """The number of lines that fit a panel; of a dimension's length as many as of its nominal one, where there is room.

    Args:
        most: bytes that the fewest lines may take.
    """
    tried = [(c, PANEL_BYTES) for c in counts] + [(counts[-1], most)]
    return next((c for c, room in tried if c * nominal(line) <= room and fits_into(c * line, room)), 0)


def panel(
    what: ComputedOperand,
    name: str,
    writer: CWriter,
    begin: str,
    end: str,
    lines: int,
    first: tuple[str, int] | None = None,
) -> tuple[list[Line], bool]:
    """The panel ``name`` of an operand, a part that is computed before it is used, and whether its loops turn operands in tiles.

    Args:
        writer: that of the product, which knows the pointers.
        begin, end: C text of where its lines are (how long they are may be a runtime argument).
        lines: how many there are, at the most; if that, or how long they are, is dynamic: as many as there is room for.
        first: where its elements begin along the inner variable (a name), and how many they are; all of them, if None.
    """
    program, inner = what.program, what.inner
    (store,) = program.stores
    width = inner.extent if first is None else first[1]
    flat = _collapsed(what) if first is None else None
    if flat is not None:
        store.offset = of_var(flat)
        if begin != "0":
            store.offset += of_var(Var("begin", flat.extent)) * -1
        inner = flat
    if first is not None:
        origin, inner = Var(first[0], what.inner.extent), Var("c", first[1])
        program.replace({what.inner: of_var(origin) + of_var(inner)})
        store.offset = of_var(inner)
    program.vars = _split_var(program, inner)
    for s in program.scalars:  # the others are known where the loops begin
        s.vars &= set(program.vars)
    mine = CWriter(
        writer.target, program, pointers=writer.pointers, result_prefix="row", runtime_args=writer.runtime_args
    )
    mine.delinearized_axes, mine.dynamic_axes = (what.outer,), writer.dynamic_axes
    mine.bit_copied = bit_copies(program)
    once, loops, _ = build_loops(program, mine, partial_range=flat is not None)
    line = what.outer.name if begin == "0" else f"({what.outer.name} - {begin})"
    length = writer.extent(what.inner) if first is None else str(width)
    outer, storage = what.outer.name, store.node.dtype.storage
    heads, bounds = [for_head(outer, begin, end)], list[str]()
    start = f"{name} + {line} * {length}"
    if flat is not None:
        begin, end = (f"({t}) * {length}" if " " in t else f"{t} * {length}" for t in (begin, end))
        heads, bounds, start = [], [f"const Index begin = {begin}, end = {end};"], name
    inside = [*bounds, f"{storage}* const row0 = {start};", *texts(once), *blocks(loops)]
    dynamic = {what.outer.name, what.inner.name} & writer.dynamic_axes
    count = PANEL_BYTES // store.node.dtype.size if dynamic and lines > 1 else lines * width
    return [f"alignas(64) {storage} {name}[{count}];", Block(heads, inside)], has_transposes(loops)


@dataclass(frozen=True)
class ImagePiece:
    """The channels below ``end`` of a convolution's computed operand, from those of the piece before on.

    Attributes:
        once, each: statements of a row and of each neighbour.
        value: C text of the element.
    """

    end: int
    once: list[Statement]
    each: list[Statement]
    value: str


@dataclass(frozen=True)
class ImagePrologue:
    """A convolution's operand as a lambda that computes neighbours of a row (an element, on a GPU).

    Attributes:
        program: what it computes.
        axes: names of its parameters: sample, channel, and three spatial axes.
        step: from one neighbour to the next; 0: there is one.
        flat: whether rows of a plane follow each other in all that it reads, so that they can be computed as one.
        pieces: one, or on the CPU one for each part of a join along channels, which has no tests then.
        type: of the element in memory, if it were there.
        elements_read: array -> how many of its elements are read.
        headers: what the statements call for.
    """

    program: ScalarProgram
    axes: tuple[str, ...]
    step: int
    flat: bool
    pieces: list[ImagePiece]
    type: str
    elements_read: dict[Node, int]
    headers: tuple[str, ...]

    @property
    def element(self) -> list[str]:
        """The statements of one element (on a GPU)."""
        (piece,) = self.pieces
        return texts([*piece.once, *piece.each])

    @property
    def value(self) -> str:
        """C text of that element."""
        return self.pieces[0].value

    @property
    def row(self) -> list[Line]:
        """The loops over ``count`` neighbours from ``first`` on, which are stored in ``to`` (on the CPU)."""
        place = f"first + j * {self.step}" if self.step > 1 else "first + j"
        rest: list[Line] = []
        for piece in reversed(self.pieces):
            each = [f"const Index {self.axes[-1]} = {place};", *texts(piece.each), f"to[j] = {piece.value};"]
            lines: list[Line] = [*texts(piece.once), Block(["HG_SIMD", for_head("j", "0", "count")], each)]
            rest = [Block([f"if ({self.axes[1]} < {piece.end})"], lines, rest)] if rest else lines
        return rest


def strided_in_rows(group: Group, operand: Node) -> Node | None:
    """An array whose elements lie apart where those of a row of ``operand`` are neighbours, the largest one."""
    variables = [Var(f"i{k}", d) for k, d in enumerate(operand.shape)]
    program = operand_program(group, operand, variables, variables[-1])
    return _largest_strided(program, variables[-1])


def image_prologue(group: Group, operand: Node, writer: CWriter, step: int) -> ImagePrologue:
    """The computation by ``group`` of a convolution's ``operand``; ``writer`` is that of the convolution."""
    names = ("n", "c", "d", "h", "w")
    rank = operand.ndim - 2
    used = [*names[:2], *names[5 - rank :]]
    variables = [Var(name, d) for name, d in zip(used, operand.shape, strict=True)]
    inner = variables[-1]
    program = operand_program(group, operand, variables, inner)
    channels = variables[1]
    points = breakpoints(program, channels) if writer.target.device.loop_nests else []
    if len(points) > MAX_CONDITIONS:
        points = []
    parts = [program]
    if points:
        parts = [restrict(program, channels, *ends)[0] for ends in pairwise([0, *points, channels.extent])]
    pieces = [
        _image_piece(part, inner, writer, end) for part, end in zip(parts, [*points, channels.extent], strict=True)
    ]
    flat = rank > 1 and all(part.runs_on(variables[-2], inner, stores=False) for part in parts)
    read = elements_read(program)
    return ImagePrologue(program, names, step, flat, pieces, operand.dtype.storage, read, headers(program))


def _image_piece(program: ScalarProgram, inner: Var, writer: CWriter, end: int) -> ImagePiece:
    """The piece that ``program`` computes, along ``inner``."""
    mine = CWriter(writer.target, program, pointers=writer.pointers, runtime_args=writer.runtime_args)
    once: list[Statement] = []
    each: list[Statement] = []
    for s in program.scalars:
        if statement := mine.statement(s):
            (each if inner in s.vars else once).append(statement)
    return ImagePiece(end, once, each, mine.names[program.stores[0].value])


# -- a GPU


@dataclass(frozen=True)
class Loader:
    """A lambda that computes ``vector`` neighbours of an operand.

    Attributes:
        name: of the lambda.
        type: of its elements in memory, if they were there.
        parameters: a row or column, counted from the patch's first one, and a place along the sum.
        wide_loads: wide loads.
        once, each: statements of all neighbours and of each.
    """

    name: str
    type: str
    vector: int
    parameters: tuple[str, str]
    wide_loads: list[VectorAccess]
    once: list[Statement]
    each: list[Statement]

    @property
    def used(self) -> frozenset[str]:
        """The loop variables that it names."""
        return variables_of([*self.once, *self.each]).union(*(p.variables for p in self.wide_loads))


def loader(
    what: ComputedOperand,
    name: str,
    writer: CWriter,
    vector: int,
    line: Var,
    start: str | None,
    dynamic_k: bool = False,
) -> Loader:
    """The loader ``name`` of an operand.

    Args:
        writer: that of the product, which knows the pointers.
        vector: how many neighbours along the inner variable it computes.
        line: the variable of the operand's rows or columns (the other one is that of the sum).
        start: C text of the patch's first line; None if ``line`` has its value already.
        dynamic_k: how many terms the sum has is an argument, and so is where parts of a join or pad begin along it.
    """
    from .cuda.map_fields import VectorAccess

    program, inner = what.program, what.inner
    depth = what.outer if inner is line else inner
    mine = CWriter(
        writer.target,
        program,
        pointers=writer.pointers,
        runtime_args=writer.runtime_args,
        allows_dynamic=writer.allows_dynamic,
    )
    mine.bit_copied, mine.split_axis = bit_copies(program), depth if dynamic_k else None
    mine.delinearized_axes = (line, depth) if dynamic_k else (line,)
    (store,) = program.stores
    first = f"{inner.name}_0"  # of the neighbours
    packs: list[VectorAccess] = []
    once: list[Statement] = []
    each: list[Statement] = []
    for s in program.scalars:
        if _is_wide_load(s, inner, vector):
            assert s.node is not None and s.offset is not None
            mine.printed.clear()
            place = mine.place(mine.pointers[s.node], s.offset, {inner: first})
            packs.append(VectorAccess(f"p{len(packs)}", s.node.dtype.storage, place, mine.variables()))
            each.append(Statement(mine.c_type(s), mine.names[s], mine.as_stored(s, f"{packs[-1].name}.v[j]")))
        elif statement := mine.statement(s):
            (each if inner in s.vars else once).append(statement)
    each.append(Statement("", mine.as_stored(store.value, "made.v[j]"), mine.names[store.value]))
    if inner.name in variables_of(each):
        each.insert(0, Statement("Index", inner.name, f"{first} + j", frozenset({first})))
    called = {v: first if v is inner else v.name for v in (line, depth)}
    result = Loader(name, store.node.dtype.storage, vector, ("r", called[depth]), packs, once, each)
    if start is not None and called[line] in result.used:
        once.insert(0, Statement("Index", called[line], "r" if start == "0" else f"{start} + r"))
    return result


def _is_wide_load(s: Scalar, inner: Var, vector: int) -> bool:
    """True if neighbours are one access."""
    if vector == 1 or s.op != "load" or s.conditions or s.node is None or not unit_stride(s.offset, inner):
        return False
    assert s.offset is not None
    apart = [c for a, c in s.offset.terms if a is not inner]
    return vector * s.node.dtype.size <= _ACCESS and all(c % vector == 0 for c in (*apart, s.offset.const))

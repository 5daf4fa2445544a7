# SPDX-License-Identifier: Apache-2.0
"""Scatter kernels on CUDA.

A block owns some rows of the table, or a tile of their columns, and keeps them in shared memory, where each element
belongs to one thread. It looks through the positions of all updates for those that meet its rows, and lists these in
their order; then its threads add (or put) what each update brings. So every sum is one addition after the other, the
same in every run, and the table is written once. Where rows are apart (those of each example of a batch have updates
of their own), a block looks through theirs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from ....core.dataclass import dataclass
from ....core.dtypes import DType, f32
from ...ir.graph import Node
from ...ir.indexing import ZERO, Expr, IndirectIndex, Var, delinearize, linearize, of_var
from ...passes.reductions.scatter_cost import THREADS, ScatterConfig, ScatterWorkload, choose_config
from ...primitives import TABLE
from ...size_buckets import bucket
from ..choice import Choice
from ..index_set_splitting import live_scalars
from ..kernel import CWriter, Launch, Statement, TemplateFields, address, unravel, variables_of
from ..scalar import Scalar, ScalarProgram, Store
from ..scatter_epilogue import Epilogue
from ..transpose_tiling import unit_stride
from .index_type import index_type
from .map import contiguous, vector_body
from .map_fields import RowPart

__all__ = ["ScatterFields", "scatter_fields"]


@dataclass(frozen=True)
class _Axes:
    """The loop variables of a scatter.

    Attributes:
        update_axes: those that number the updates, outermost first.
        batch_axes: those among them of which each value has rows of its own …
        outer_batch_axes: … and those of them that are outside all others.
        columns: what is left: an update is a row of so many elements.
        extents: of the table's rows: how many values each of ``digits`` has, …
        digits: … the variables, and the position read at run time, that a row's number consists of, …
        steps: … and how far apart in memory their values are.
        position: the scalar that is read there; None where there is but one row.
    """

    update_axes: list[Var]
    batch_axes: list[Var]
    outer_batch_axes: list[Var]
    columns: list[Var]
    extents: list[int]
    digits: list[Expr]
    steps: list[int]
    position: IndirectIndex | None

    @property
    def rows(self) -> int:
        return prod(self.extents)


def _axes(program: ScalarProgram, store: Store) -> _Axes:
    position, step = None, 0
    for atom, c in store.offset.terms:
        if isinstance(atom, IndirectIndex):
            position, step = atom, c
    read = position.value.vars if position else frozenset()
    own = [v for v in program.vars if store.offset.coefficient(v)]
    apart = [v for v in own if v in read]
    columns = [v for v in own if v not in read]
    walked = [v for v in program.vars if v not in columns]
    lead = walked[: next((k for k, v in enumerate(walked) if v not in apart), len(walked))]
    places = [(store.offset.coefficient(v), v.extent, of_var(v)) for v in apart]
    if position:
        places.append((step, position.high + 1, Expr(((position, 1),))))
    places.sort(key=lambda p: -p[0])
    return _Axes(
        walked, apart, lead, columns, [p[1] for p in places], [p[2] for p in places], [p[0] for p in places], position
    )


@dataclass(frozen=True, kw_only=True)
class ScatterFields(TemplateFields):
    """A scatter on CUDA.

    Attributes:
        index_type: of positions.
        type, bits_suffix: of the table's elements in memory, and what is behind one that is copied as it is.
        shared_type, shared_count: of its elements on chip; 0: as many as the launch says.
        element: C text of element ``j`` of a thread's part of row ``r`` there.
        block_setup: which rows and columns are a thread's, and which updates its block looks through.
        has_idle_lanes: there may be threads without columns.
        teams, vector: threads of a block that take a row each, and elements of an access.
        before, fill: where the table's rows are before all updates ('' if nowhere), and C text of an element.
        position_statements, row: what reads where update ``u`` goes, and C text of the row that it meets.
        update, part: definitions of what an update brings, and what is done with it.
        result, after: where a row goes, or what is made of it.
    """

    template: ClassVar[str] = "cuda/scatter.j2"
    index_type: str
    type: str
    bits_suffix: str
    shared_type: str
    shared_count: int
    element: str
    block_setup: list[Statement]
    has_idle_lanes: bool
    teams: int
    vector: int
    before: str
    fill: str
    position_statements: list[Statement]
    row: str
    update: list[Statement]
    part: RowPart
    result: str
    after: RowPart | None


def scatter_fields(
    program: ScalarProgram,
    writer: CWriter,
    outputs: Sequence[Node],
    scatter: Node,
    table: Node | None,
    fill: str,
    epilogue: Epilogue | None,
    why: str,
) -> tuple[ScatterFields, Launch, tuple[int, int], Choice, int]:
    """Fields of the template, the launch, its extents, what was chosen and why, and bytes of positions that are read again.

    Args:
        outputs: the results.
        table: what is there before, in memory; None if that is ``fill`` everywhere.
        epilogue: what is made of the table's elements and stored instead of them.
        why: what it does, in words.
    """
    (number,) = (k for k, s in enumerate(program.stores) if s.scattered)
    store, first = program.stores[number], program.vars[0]
    axes = _axes(program, store)
    inner = axes.columns[-1] if axes.columns else Var("none", 1)
    as_bits, storage = store.value in writer.bit_copied, scatter.dtype.storage
    work = ScatterWorkload(
        rows=axes.rows,
        groups=prod(v.extent for v in axes.outer_batch_axes),
        updates=prod(v.extent for v in axes.update_axes),
        columns=prod(v.extent for v in axes.columns),
        vector=_vector(program, store, inner, epilogue),
        accumulator_bytes=2 if as_bits else 4 if scatter.dtype.is_half else scatter.dtype.size,
        element_bytes=scatter.dtype.size,
    )
    usual = prod(v.extent for v in axes.columns[1:]) * bucket(first.extent) if first in axes.columns else work.columns
    form = choose_config(work, writer.target, usual)
    element = _element(form, work.vector)
    writer.tile_elements[store] = element
    numbered = unravel(axes.update_axes, "u")
    looked = live_scalars(program.scalars, [Store(scatter, axes.position.value, ZERO)]) if axes.position else []
    look, row = _target_row(writer, looked, axes)
    row_variables = writer.variables()

    # what an update brings
    writer.reset_names()
    stores = [Store(s.node, s.value, ZERO if s.scattered else s.offset) for s in program.stores]
    brought = ScalarProgram(live_scalars(program.scalars, stores), [], program.stores, program.vars, [])
    writer.name_scalars(brought.scalars)
    base = f"{inner.name}_0"
    body = vector_body(brought, writer, inner, base, work.vector)
    writer.printed.clear()
    at = _row_address(writer, axes, store, {inner: base})
    used = body.names | writer.variables()
    after = epilogue.row_part(_element_value(element, scatter.dtype, as_bits), at, work.vector) if epilogue else None
    fields = ScatterFields(
        pointers=writer.pointer_list(outputs),
        index_type=index_type([program, *([epilogue.program] if epilogue else [])]),
        shared_type="unsigned short" if as_bits else scatter.dtype.compute,
        shared_count=0 if form.shared_bytes(work) else form.row_capacity * form.lanes * work.vector,
        block_setup=_block_setup(writer, axes, work, form, first, used),
        has_idle_lanes=_has_idle_lanes(axes, work, form, first),
        teams=form.teams,
        vector=work.vector,
        type=storage,
        bits_suffix=".bits" if as_bits else "",
        before=address(writer.pointers[table], at) if table else "",
        fill=f"p.v[j]{'.bits' if as_bits else ''}" if table else f"{storage}({fill}).bits" if as_bits else fill,
        element=element,
        position_statements=[s for s in numbered if s.name in row_variables.union(variables_of(look))] + look,
        row=row,
        update=[s for s in numbered if s.name in used],
        part=RowPart(body),
        result=address(f"y{number}", at),
        after=after,
    )
    blocks = form.blocks(work)
    scanned = _rescanned_bytes(looked, work, form)
    choice = Choice(
        {
            "threads": THREADS,
            "vector": work.vector,
            "rows": form.rows,
            "blocks": blocks,
            "scanned": scanned or None,
        },
        why=f"{why}: a block has {form.rows} of {work.rows} rows on chip and looks through "
        f"{form.positions_scanned(work):.0f} positions; {form.seconds * 1e6:.3g} us by the model",
    )
    return (
        fields,
        Launch(THREADS, extent=1, scale=1, per_block=1, shared=form.shared_bytes(work)),
        (first.extent, blocks),
        choice,
        scanned,
    )


def _vector(program: ScalarProgram, store: Store, inner: Var, epilogue: Epilogue | None) -> int:
    """Elements of a row that travel in one access of 16 bytes at most."""
    if not unit_stride(store.offset, inner):
        return 1
    sizes = [store.node.dtype.size, *(s.dtype.size for s in program.scalars if contiguous(s, inner))]
    strides = [c for a, c in store.offset.terms if a is not inner]
    if epilogue:
        after, last = epilogue.program, epilogue.program.vars[-1]
        sizes += [s.dtype.size for s in after.scalars if contiguous(s, last)]
        sizes += [s.node.dtype.size for s in after.stores]
        strides.append(last.extent)  # neighbours of the table never differ but in the innermost variable
    vector = max(1, 16 // max(sizes))
    while inner.extent % vector or any(c % vector for c in strides):
        vector //= 2
    return vector


def _element(form: ScatterConfig, vector: int) -> str:
    """C text of element ``j`` of the calling thread's part of row ``r`` on chip: neighbours are in different banks."""
    row = f"j * {form.row_capacity} + r" if vector > 1 else "r"
    if form.lanes == 1:
        return f"table[{row}]"
    return f"table[({row}) * {form.lanes} + lane]" if vector > 1 else f"table[{row} * {form.lanes} + lane]"


def _element_value(element: str, dtype: DType, as_bits: bool) -> str:
    """C text of what the table would hold in memory: sums of halves are rounded as they would be there."""
    if not dtype.is_half:
        return element
    if as_bits:
        return f"{dtype.storage}_to_float({element})"
    expr = TABLE["cast"].expr
    assert callable(expr)
    return expr([f32], dtype).format(element, T=dtype.compute)


def _target_row(writer: CWriter, looked: list[Scalar], axes: _Axes) -> tuple[list[Statement], str]:
    """Statements that read where an update goes, and C text of the number of the row that it meets."""
    writer.reset_names()
    writer.name_scalars(looked)
    return [s for s in map(writer.statement, looked) if s], writer.expr(linearize(axes.digits, axes.extents))


def _row_address(writer: CWriter, axes: _Axes, store: Store, renamed: dict[Var, str]) -> str:
    """C text of where the calling thread's part of row ``row`` lies in memory."""
    offset = ZERO
    for digit, step in zip(delinearize(of_var(Var("row", axes.rows)), axes.extents), axes.steps, strict=True):
        offset = offset + digit * step
    for v in axes.columns:
        offset = offset + of_var(v) * store.offset.coefficient(v)
    writer.renamed = renamed
    text = writer.expr(offset)
    writer.renamed = {}
    return text


def _has_idle_lanes(axes: _Axes, work: ScatterWorkload, form: ScatterConfig, first: Var) -> bool:
    """True if there may be threads without columns."""
    idle = form.teams * form.lanes < THREADS or work.columns % (form.lanes * work.vector) != 0
    return idle or first in axes.columns


def _block_setup(
    writer: CWriter,
    axes: _Axes,
    work: ScatterWorkload,
    form: ScatterConfig,
    first: Var,
    used: frozenset[str] | set[str],
) -> list[Statement]:
    """Statements that say which rows and columns are a thread's, and which updates its block looks through.

    Args:
        first: the variable whose extent is an argument.
        used: names that statements mention.
    """

    def count(variables: list[Var], whole: int) -> str:
        """C text of a number that ``variables`` multiply to, perhaps with others."""
        if first not in variables:
            return str(whole)
        return f"(Index)n0 * {whole // first.extent}" if whole > first.extent else "(Index)n0"

    lanes, per_tile = form.lanes, form.lanes * work.vector
    tiled = first in axes.columns or work.columns > per_tile
    columns = count(axes.columns, work.columns)
    whole = form.teams == 1
    statements = [Statement("int", "lane", "threadIdx.x" if whole else f"threadIdx.x % {lanes}")] if lanes > 1 else []
    statements.append(
        Statement("int", "team", "0" if whole else f"threadIdx.x / {lanes}" if lanes > 1 else "threadIdx.x")
    )
    if tiled:
        tiles = f"({columns} + {per_tile - 1}) / {per_tile}" if first in axes.columns else str(form.tiles(work))
        statements.append(Statement("Index", "tiles", tiles))
    if axes.columns:
        begin = [f"(Index)blockIdx.x % tiles * {per_tile}"] if tiled else []
        begin += ["lane" if work.vector == 1 else f"lane * {work.vector}"] if lanes > 1 else []
        statements.append(Statement("Index", "column", " + ".join(begin) or "0"))
        across = unravel([*axes.columns[:-1], Var(f"{axes.columns[-1].name}_0", axes.columns[-1].extent)], "column")
        statements += [s for s in across if s.name in used]
    if _has_idle_lanes(axes, work, form, first):
        statements.append(Statement("bool", "live", f"column < {columns}"))
    share = writer.runtime_args.named("block_rows", form.rows)
    rows = count(axes.batch_axes, work.rows)
    statements.append(Statement("Index", "first", f"(Index)blockIdx.x{' / tiles' if tiled else ''} * (Index){share}"))
    statements.append(Statement("int", "count", f"(int)hg::minimum<Index>((Index){share}, {rows} - first)"))
    if axes.outer_batch_axes:
        each, theirs = work.rows // work.groups, work.updates // work.groups
        statements.append(Statement("Index", "begin", f"first / {each} * {theirs}"))
        statements.append(Statement("Index", "end", f"((first + count - 1) / {each} + 1) * {theirs}"))
    else:
        statements += [
            Statement("Index", "begin", "0"),
            Statement("Index", "end", count(axes.update_axes, work.updates)),
        ]
    return statements


def _rescanned_bytes(looked: list[Scalar], work: ScatterWorkload, form: ScatterConfig) -> int:
    """Bytes of positions that blocks read besides those that are read once."""
    each = work.rows // work.groups
    first = np.arange(-(-work.rows // form.rows), dtype=np.int64) * form.rows
    last = np.minimum(first + form.rows, work.rows) - 1
    groups = int((last // each - first // each + 1).sum()) * form.tiles(work)
    once = sum(prod(v.extent for v in s.vars) * s.dtype.size for s in looked if s.op == "load")
    return once * (groups - work.groups) // work.groups

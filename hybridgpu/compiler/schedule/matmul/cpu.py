# SPDX-License-Identifier: Apache-2.0
"""Matrix products of the CPU: blocks of large ones, or panels of operands that are made and the calls between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....core.dataclass import dataclass, field
from ...ir.computed import computed
from ...ir.dim_texts import literal_text
from ...ir.graph import Node
from ...ir.indexing import Var
from ...passes.fuse.group import Group
from ...passes.materialize import as_strided
from ...size_buckets import worth_argument
from ...target import Target
from ..blocks import Line
from ..choice import Choice
from ..kernel import CWriter, Kernel, Statement, variables_of
from ..prologue import PANEL_BYTES, dynamic_panel_columns, panel, panel_columns, panel_rows
from ..runtime_args import dynamic_lengths, likely_dynamic, reduces_outermost
from .blocked import why_in_blocks
from .fields import BlockedMatmulFields, ColumnSpan, CpuMatmulFields, Matrix
from .product import Product, contiguous_along_k, epilogue_statements, lay_out_operands

__all__ = ["cpu_kernel"]

_CHUNK_ROWS = 64  #: rows that chunks are multiples of: those beside which columns are copied, or tiles run down (CPU) …
_FEW_ROWS = 512  #: … of so many; of fewer ones chunks are multiples of 8
_BLOCK_ROWS = 192  #: the same of a product in blocks, whole tiles: each chunk copies all of the right operand …
_BLOCK_COLUMN_BYTES = 256  #: … or of its columns, as many as its tiles have: each chunk copies its part
_BLOCKS_OF_COLUMNS = 4  #: columns are what threads share where there are so many of them, …
_MIN_COSTLY_EPILOGUE = 24  #: operations an element, of which there is better one copy in the code than one a tile


@dataclass
class _Panels:
    """The calls of a product's function, and the panels of operands that are computed between them; see the fields.

    Attributes:
        transposes: the loops of some panel transpose operands in tiles.
    """

    left: Matrix
    range: str
    rows: tuple[str, str, str | int] | None = None
    left_panel: list[Line] | None = None
    spans: list[ColumnSpan] = field(default_factory=list)
    transposes: bool = False


@computed
def _chunk_rows(rows: int) -> int:
    return 8 if rows < _FEW_ROWS else _CHUNK_ROWS


def cpu_kernel(p: Product, target: Target) -> Kernel:
    """Panels of the operands that are made, and the calls between."""
    if not p.prologues and why_in_blocks(p.dot, target):
        return _blocked_kernel(p)
    writer, dot, batch, m, n = p.writer, p.dot, p.batch, p.m, p.n
    depth, floats = p.k.extent, dot.dtype.short in ("f32", "f64")
    panels = _is_packed(dot)
    lengths = _dynamic_axes(dot, m, n, p.k, p.prologues) if batch and not panels else frozenset()
    if lengths:
        writer.dynamic_axes = frozenset(v.name for v in (*lengths, m, *batch))
    lay_out_operands(p, m, n, constants=floats)
    if lengths:
        axes = zip(p.operands, ((m, p.k), (p.k, n)), strict=True)
        p.operands = [o.with_dynamic(a in lengths, b in lengths) for o, (a, b) in axes]
    elif not batch and not p.prologues and floats:
        p.operands = [
            _with_dynamic_rows(o, a.extent, b.extent)
            for o, (a, b) in zip(p.operands, ((m, p.k), (p.k, n)), strict=True)
        ]
    if not panels:
        p.operands = [o.with_dims() for o in p.operands]
    words = not lengths and any(any(o.dynamic) for o in p.operands)
    left, right = p.operands
    form = "dots" if right.first == 1 and (left.second == 1 or depth == 1) else "axpy"
    first = "true" if m.extent == 1 else "false"
    if not floats:
        form, first = "plain", dot.dtype.compute
    # rows are what threads share, of a single one its columns
    by_columns = form == "dots" and m.extent == 1 and not (batch or p.prologues or words)
    form = "dots_row" if by_columns else form
    outermost = not batch and reduces_outermost((left.first, left.second), (right.first, right.second), depth)
    dynamic = outermost and not p.prologues and form == "axpy"
    statements = epilogue_statements(p)
    lines = ("0", "lines" if panels else writer.extent(m)) if batch else ("begin", "end")
    calls = _panels(p, lines, statements, n in lengths)
    terms = writer.runtime_args.named("depth", depth) if dynamic and not words else ""
    if lengths or words:
        argument_axes = frozenset({p.k}) if dynamic else lengths
        columns = "to_column - column" if 1 in p.prologues else writer.extent(n)
        terms = _shape_text(
            writer, calls.left, calls.spans[0].right, columns if n in argument_axes else "0", p.k, argument_axes
        )
    elif form == "axpy" and not (dynamic or panels or p.prologues) and _epilogue_cost(p) >= _MIN_COSTLY_EPILOGUE:
        calls.spans = [replace(s, columns=0) for s in calls.spans]
        terms = f"hg::Shape{{{literal_text(n.extent)}, 0, 0, 0, 0, 0}}"
    if batch and not panels and not worth_argument(batch[0].extent):  # of a batch of few, threads share the heads
        batch = sorted(batch, key=lambda v: -v.extent)
    fields = CpuMatmulFields(
        pointers=p.pointers,
        product=p.element,
        form=form,
        first=first,
        batch=[(v.name, v.extent) for v in batch],
        depth=0 if dynamic or p.k in lengths else depth,
        terms=terms,
        left=calls.left,
        range=calls.range,
        rows=calls.rows,
        left_panel=calls.left_panel,
        spans=calls.spans,
        statements=statements,
        panels=panels,
    )
    return p.kernel(
        fields,
        Choice({"form": form}),
        (batch[0].extent, *([m.extent] if panels else [])) if batch else (n.extent if by_columns else m.extent,),
        chunk_multiple=1 if batch else 8 if by_columns else _chunk_rows(m.extent),
        more_headers=("tile_cpu.h",) if calls.transposes else (),
        compile_cost=5 if form == "dots" and m.extent > 1 else 2,  # tiles, whose sums a compiler unrolls and orders
        library=_library(p, "HG_AXPY") if form == "axpy" and any(not s.columns for s in calls.spans) else (),
    )


def _epilogue_cost(p: Product) -> int:
    """Scalar operations of an element's epilogue."""
    return sum(s.node.prim.cost for s in p.program.scalars if s.op == "compute" and s.node is not None)


def _library(p: Product, functions: str, header: str = "matmul_cpu.h") -> tuple[str, ...]:
    """The value of :attr:`Kernel.library`: the ``functions`` of a header for the type of a product."""
    return header, f"{functions}(template, {p.element[0]})"


def _blocked_kernel(p: Product) -> Kernel:
    """Blocks of the operands, which lie in any order; threads share columns, or rows beside few columns."""
    writer, dot, batch, m, n = p.writer, p.dot, p.batch, p.m, p.n
    if batch:
        lengths = dynamic_lengths(m.extent, n.extent, p.k.extent)
        dynamic = {v.name for v in (m, n, p.k) if v.extent in lengths}
        writer.dynamic_axes = frozenset({*dynamic, m.name, *(v.name for v in batch)} if dynamic else ())
    lay_out_operands(p, m, n, constants=False)
    named = writer.runtime_args.named
    columns_of_tile = _BLOCK_COLUMN_BYTES // dot.dtype.size
    by_columns = not batch and (n.extent >= _BLOCKS_OF_COLUMNS * columns_of_tile or n.extent >= m.extent)
    rows, columns = f"0, {named('rows', m.extent)}", f"0, {named('columns', n.extent)}"
    if not batch:
        rows, columns = (rows, "begin, end") if by_columns else ("begin, end", columns)
    if batch and not worth_argument(batch[0].extent):
        batch = sorted(batch, key=lambda v: -v.extent)
    left, right = p.operands
    steps = {
        "left_row": left.first,
        "left_term": left.second,
        "right_term": right.first,
        "right_column": right.second,
    }
    terms = named("depth", p.k.extent)
    fields = BlockedMatmulFields(
        pointers=p.pointers,
        product=p.element,
        batch=[(v.name, v.extent) for v in batch],
        rows=rows,
        columns=columns,
        shape=", ".join(["0", terms, *(named(name, step) for name, step in steps.items())]),
        left=left,
        right=right,
        coordinates=(m.name, n.name),
        statements=epilogue_statements(p),
    )
    return p.kernel(
        fields,
        Choice({"form": "blocked"}),
        (batch[0].extent if batch else n.extent if by_columns else m.extent,),
        chunk_multiple=1 if batch else columns_of_tile if by_columns else _BLOCK_ROWS,
        more_headers=("matmul_blocked_cpu.h",),
        library=_library(p, "HG_BLOCKED", "matmul_blocked_cpu.h"),
    )


def _panels(p: Product, lines: tuple[str, str], statements: list[Statement], dynamic_columns: bool) -> _Panels:
    """Panels of the operands that are made, and the calls between them; ``lines``: the rows to compute."""
    writer, prologues, dot, m, n = p.writer, p.prologues, p.dot, p.m, p.n
    depth, size = p.k.extent, dot.dtype.size
    used = variables_of(statements)
    panels = _Panels(p.operands[0], ", ".join(lines))
    row, places = m.name, []
    if 0 in prologues:
        count = panel_rows(m.extent, depth, size)
        panels.left_panel, panels.transposes = panel(p.prologue_operand(0, True), "left", writer, "from", "to", count)
        dynamic = "k" in writer.dynamic_axes
        each = writer.runtime_args.named("panel", count) if dynamic and count > 1 else count
        panels.rows, panels.range = (*lines, each), "0, to - from"
        panels.left = Matrix("left", "0", depth, 1, (dynamic, False))
        row, places = "r", [Statement("Index", m.name, "from + r")]
    columns = 0 if dynamic_columns else n.extent
    all_columns = literal_text(n.extent)
    spans = [ColumnSpan(0, all_columns, columns, n.extent, p.operands[1], None, (row, n.name), places)]
    if 1 in prologues and dynamic_columns:
        places = [*places, Statement("Index", n.name, "column + c")]
        step = dynamic_panel_columns(depth, size)
        right, transposes = panel(p.prologue_operand(1, True), "right", writer, "column", "to_column", step)
        panels.transposes |= transposes
        matrix = Matrix("right", "0", 1, depth)
        spans = [ColumnSpan(0, writer.extent(n), 0, step, matrix, right, (row, "c"), places)]
    elif 1 in prologues:
        along = contiguous_along_k(dot)
        count = panel_columns(n.extent, depth, size, along)
        whole = n.extent // count * count
        spans = []
        places = [*places, Statement("Index", n.name, "column + c")]
        for begin, end in ((0, whole), (whole, n.extent)):
            width = min(count, end - begin)
            if not width:
                continue
            if along:
                right, transposes = panel(
                    p.prologue_operand(1, True), "right", writer, "column", f"column + {width}", width
                )
                matrix = Matrix("right", "0", 1, depth)
            else:
                part = ("column", width) if width < n.extent else None
                right, transposes = panel(
                    p.prologue_operand(1, False), "right", writer, "0", writer.extent(p.k), depth, part
                )
                matrix = Matrix("right", "0", width, 1)
            panels.transposes |= transposes
            spans.append(ColumnSpan(begin, literal_text(end), width, width, matrix, right, (row, "c"), places))
    panels.spans = [replace(s, places=[p for p in s.places if p.name in used]) for s in spans]
    return panels


def _is_packed(dot: Node) -> bool:
    """True for a batch of products with one left operand for all: panels of a weight, see passes/prepack_weights.py."""
    strided = as_strided(dot.inputs[0])
    assert strided is not None
    _, variables, offset = strided
    return dot.ndim > 2 and not {a for a, _ in offset.terms} & {*variables[:-2]}


def _dynamic_axes(dot: Node, m: Var, n: Var, depth: Var, prologues: Mapping[int, Group]) -> frozenset[Var]:
    """Dynamic axes of a batch of products on the CPU; see :func:`.dynamic_lengths`.

    Not the columns of a panel that is contiguous along them, which is as wide as its text says, and not the sum of dots, whose
    blocks are vectors.
    """
    axes = {v for v in (m, n, depth) if v.extent in dynamic_lengths(m.extent, n.extent, depth.extent)}
    size = dot.dtype.size
    along = contiguous_along_k(dot)
    if along and dot.dtype.short in ("f32", "f64"):
        axes.discard(depth)
    if 1 in prologues:
        if not along or not dynamic_panel_columns(depth.extent, size):
            axes.discard(n)
        if (
            panel_columns(n.extent, depth.extent, size, along) < n.extent
            or depth.extent * n.extent * size > PANEL_BYTES
        ):
            axes.discard(depth)
    return frozenset(axes)


def _with_dynamic_rows(o: Matrix, first: int, second: int) -> Matrix:
    """The operand, whose stride is dynamic if it steps over whole sentences, one word of which is read.

    Args:
        first, second: the extents of its axes.
    """
    step, width = (o.first, second) if o.second == 1 else (o.second, first) if o.first == 1 else (0, 1)
    if step % width or not likely_dynamic(step // width):
        return o
    return o.with_dynamic(True, True)


def _shape_text(writer: CWriter, left: Matrix, right: Matrix, columns: str, depth: Var, lengths: frozenset[Var]) -> str:
    """C text of the runtime shape that a product's function takes; ``columns``: C text of their number."""
    named, parts = writer.runtime_args.named, [columns]
    parts.append(named("depth", depth.extent) if depth in lengths else "0")
    for names, matrix in ((("left_row_step", "left_step"), left), (("right_step", "right_column_step"), right)):
        strides = zip(names, matrix.dynamic, (matrix.first, matrix.second), strict=True)
        parts += [named(name, stride) if is_dynamic else "0" for name, is_dynamic, stride in strides]
    return f"hg::Shape{{{', '.join(parts)}}}"

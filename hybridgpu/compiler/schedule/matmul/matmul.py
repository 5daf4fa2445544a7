# SPDX-License-Identifier: Apache-2.0
"""Generated matrix products, with prologues and epilogues.

The loops live in ``kernels/matmul_*.h``; a template passes them the strides and a lambda that
receives each element of the product and stores the results of the epilogue. On the CPU there are two
forms, by the operand that is read most: *dots*, where the right matrix is contiguous along the summed
axis (the weight of a dense layer), and *axpy*, where it is contiguous along the columns. Those of a GPU
are chosen in ``config_cuda``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from ....core.dataclass import dataclass, field
from ...ir.computed import computed
from ...ir.dim_texts import literal_text
from ...ir.graph import Node
from ...ir.indexing import Expr, Var, of_var, substitute
from ...passes.fuse.group import Group, label
from ...passes.materialize import as_strided, matrix_strides
from ...primitives.views import strip_views
from ...size_buckets import worth_argument
from ...target import Target
from ..blocks import Line
from ..choice import Choice
from ..cuda.index_type import index_type
from ..in_place import in_place_pairs
from ..index_set_splitting import outer_breakpoint_axis
from ..kernel import (
    CWriter,
    Kernel,
    Launch,
    Pointer,
    StageableColumns,
    Statement,
    TemplateFields,
    address,
    headers,
    literal,
    unravel,
    variables_of,
)
from ..program_kernel import kernel_of_program
from ..prologue import (
    PANEL_BYTES,
    ComputedOperand,
    computed_operand,
    dynamic_panel_columns,
    loader,
    panel,
    panel_columns,
    panel_rows,
)
from ..runtime_args import dynamic_lengths, likely_dynamic, reduces_outermost
from ..scalar import ScalarProgram
from .blocked import why_in_blocks
from .fields import (
    BlockedMatmulFields,
    ColumnSpan,
    CpuMatmulFields,
    CudaMatmulFields,
    ElementFields,
    Matrix,
    PatchFields,
)

if TYPE_CHECKING:
    from .config_cuda import MatmulConfig

__all__ = ["contiguous_along_k", "schedule_matmul"]

_CHUNK_ROWS = 64  #: rows that chunks are multiples of: those beside which columns are copied, or tiles run down (CPU) …
_FEW_ROWS = 512  #: … of so many; of fewer ones chunks are multiples of 8
_MIN_COSTLY_EPILOGUE = 24  #: operations an element, of which there is better one copy in the code than one a tile
_BLOCK_ROWS = 192  #: the same of a product in blocks, whole tiles: each chunk copies all of the right operand …
_BLOCK_COLUMN_BYTES = 256  #: … or of its columns, as many as its tiles have: each chunk copies its part
_BLOCKS_OF_COLUMNS = 4  #: columns are what threads share where there are so many of them, …
_COMPUTED = ("left", "right")  #: names of operands that are computed as they are loaded


def contiguous_along_k(dot: Node) -> bool:
    """True if neighbours of the right operand of ``dot`` are those along the sum."""
    strides = matrix_strides(dot.inputs[1])
    return strides is not None and strides[0] == 1


@dataclass
class _Product:
    """A product whose kernel is being made.

    Attributes:
        members: the primitives that it computes.
        batch, m, n, k: its axes: those of the batch, rows, columns, and the sum.
        prologues: position of an operand -> the group that says how to compute it.
        operands: how each lies.
        starts, start_variables: C text of where a row of the left one and a column of the right one begin, and the loop
            variables in it.
        stored_operands: arrays that it reads.
    """

    members: list[Node]
    program: ScalarProgram
    dot: Node
    writer: CWriter
    batch: list[Var]
    m: Var
    n: Var
    k: Var
    prologues: dict[int, Group]
    operands: list[Matrix]
    starts: list[str]
    stored_operands: list[Node]
    start_variables: frozenset[str] = frozenset()

    @property
    def element(self) -> tuple[str, str]:
        """Type and name of an element of the product."""
        assert self.program.contraction is not None
        return self.dot.dtype.compute, self.writer.names[self.program.contraction]

    def prologue_operand(self, position: int, sum_along: bool) -> ComputedOperand:
        """How an operand is computed, neighbours along the sum being next to each other or not."""
        rows, columns = (self.m, self.k) if position == 0 else (self.k, self.n)
        operand, along = self.dot.inputs[position], sum_along == (position == 0)
        return computed_operand(self.prologues[position], operand, self.batch, rows, columns, along)

    @property
    def pointers(self) -> list[Pointer]:
        """The parameters of the kernel."""
        return self.writer.pointer_list([s.node for s in self.program.stores])

    def kernel(
        self,
        fields: TemplateFields,
        choice: Choice,
        extents: tuple[int, ...],
        more_headers: tuple[str, ...] = (),
        **more: Any,
    ) -> Kernel:
        """The kernel; the arguments are those of :func:`kernel_of_program`."""
        loaded = [self.prologue_operand(position, True) for position in self.prologues]
        if self.prologues:
            choice = replace(choice, prologue=_prologue_note(self.dot, self.prologues))
        return kernel_of_program(
            self.writer,
            "matmul",
            self.members,
            fields,
            choice,
            extents,
            (*(h for x in loaded for h in headers(x.program)), *more_headers, f"matmul_{self.writer.target.name}.h"),
            whole=self.stored_operands,
            also=[x.elements_read for x in loaded],
            in_place=in_place_pairs(
                self.program, (*self.stored_operands, *(n for operand in loaded for n in operand.elements_read))
            ),
            **more,
        )


def schedule_matmul(
    program: ScalarProgram,
    dot: Node,
    target: Target,
    members: list[Node],
    prologues: Mapping[int, Group] | None = None,
) -> Kernel:
    """The kernel of a group around ``dot``; ``program.vars`` are the product's axes above extent 1.

    Args:
        prologues: position of an operand -> the group that says how to compute it.
    """
    writer = CWriter(target, program, allows_dynamic=True)
    writer.split_axis = outer_breakpoint_axis(program)
    if len(dot.shape) == 2:
        writer.delinearized_axes = tuple(v for v in program.vars if v.name == "i0")
    axis_of = {v.name: v for v in program.vars}
    *batch, m, n = (axis_of.get(f"i{k}", Var(f"i{k}", 1)) for k in range(dot.ndim))
    k = Var("k", dot.inputs[0].shape[-1])
    product = _Product(members, program, dot, writer, batch, m, n, k, dict(prologues or {}), [], [], [])
    return _cpu_kernel(product, target) if target.name == "cpu" else _cuda_kernel(product, target)


@dataclass
class _Panels:
    """The calls of a product's function, and the panels of operands that are computed between them; see the fields.

    Attributes:
        transposes: the loops of some panel turn operands in tiles.
    """

    left: Matrix
    range: str
    rows: tuple[str, str, str | int] | None = None
    left_panel: list[Line] | None = None
    spans: list[ColumnSpan] = field(default_factory=list)
    transposes: bool = False


def _lay_out_operands(p: _Product, row: Var, column: Var, constants: bool) -> None:
    """Fill in how the operands of ``p`` lie.

    Args:
        row, column: what counts rows and columns in ``starts``.
        constants: a left operand that is one value everywhere is that value, not computed.
    """
    writer = p.writer
    for position, operand in enumerate(p.dot.inputs):
        strided = as_strided(operand)
        assert strided is not None
        node, variables, offset = strided
        value = _constant_value(operand) if constants and position == 0 and position in p.prologues else None
        if value is not None:  # as the first state of a recurrent cell: one element for all
            constant = writer.runtime_args.constant_array("left", literal(value, p.dot.dtype), p.dot.dtype)
            p.operands.append(Matrix(constant, "0", 0, 0))
            p.starts.append("left")
            del p.prologues[position]
            continue
        along, across = (offset.coefficient(v) for v in variables[-2:])
        if position in p.prologues:
            p.starts.append(_COMPUTED[position])
            p.operands.append(Matrix(_COMPUTED[position], "0", along, across))
            continue
        pointer = writer.pointers.setdefault(node, f"x{len(writer.pointers)}")
        table = {v: of_var(b) for v, b in zip(variables[:-2], p.batch, strict=True)}
        place = substitute(Expr(tuple((a, c) for a, c in offset.terms if a in variables[:-2]), offset.const), table)
        if not writer.target.device.loop_nests:  # a thread begins at a row and a column
            start = place + (of_var(row) * along if position == 0 else of_var(column) * across)
            writer.printed.clear()
            p.starts.append(address(pointer, writer.address_text(start, matrix=True)))
            p.start_variables |= writer.variables()
        p.operands.append(Matrix(pointer, writer.address_text(place, matrix=True), along, across))
        p.stored_operands.append(node)


def _epilogue_statements(p: _Product) -> list[Statement]:
    """The epilogue of an element."""
    writer = p.writer
    return [
        *(st for s in p.program.scalars if (st := writer.statement(s))),
        *(
            writer.store(f"y{k}[{writer.address_text(s.offset)}]", writer.names[s.value])
            for k, s in enumerate(p.program.stores)
        ),
    ]


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
    if contiguous_along_k(dot) and dot.dtype.short in ("f32", "f64"):
        axes.discard(depth)
    if 1 in prologues:
        along = contiguous_along_k(dot)
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
    parts.append(writer.runtime_args.reduction_length(depth.extent) if depth in lengths else "0")
    for names, matrix in ((("left_row_step", "left_step"), left), (("right_step", "right_column_step"), right)):
        strides = zip(names, matrix.dynamic, (matrix.first, matrix.second), strict=True)
        parts += [named(name, stride) if is_dynamic else "0" for name, is_dynamic, stride in strides]
    return f"hg::Shape{{{', '.join(parts)}}}"


def _constant_value(operand: Node) -> Any:
    """What every element of ``operand`` is, a view of what is computed; None if they differ."""
    node = strip_views(operand)
    filled = node.inputs[0] if node.prim.name == "copy" else node
    return filled.params["value"] if filled.prim.name == "full" else None


def _prologue_note(dot: Node, prologues: Mapping[int, Group]) -> str:
    """Which operands are computed as they are loaded, in words; of the product's own operator the primitives."""
    own = label(dot)
    names: dict[str, None] = {}
    for k in sorted(prologues):
        operand = strip_views(dot.inputs[k])
        for n in reversed(prologues[k].backward_slice(operand)[0] or [operand]):
            name = label(n)
            names[f"{n.prim.name} of {name}" if name == own else name] = None
    return f"computes {' and '.join(names)} as it loads {'them' if len(prologues) > 1 else 'it'}"


@computed
def _chunk_rows(rows: int) -> int:
    return 8 if rows < _FEW_ROWS else _CHUNK_ROWS


def _cpu_kernel(p: _Product, target: Target) -> Kernel:
    """Panels of the operands that are made, and the calls between."""
    if not p.prologues and why_in_blocks(p.dot, target):
        return _blocked_kernel(p)
    writer, dot, batch, m, n = p.writer, p.dot, p.batch, p.m, p.n
    depth, floats = p.k.extent, dot.dtype.short in ("f32", "f64")
    panels = _is_packed(dot)
    lengths = _dynamic_axes(dot, m, n, p.k, p.prologues) if batch and not panels else frozenset()
    if lengths:
        writer.dynamic_axes = frozenset(v.name for v in (*lengths, m, *batch))
    _lay_out_operands(p, m, n, constants=floats)
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
    statements = _epilogue_statements(p)
    lines = ("0", "lines" if panels else writer.extent(m)) if batch else ("begin", "end")
    calls = _panels(p, lines, statements, n in lengths)
    terms = writer.runtime_args.reduction_length(depth) if dynamic and not words else ""
    if lengths or words:
        argument_axes = frozenset({p.k}) if dynamic else lengths
        columns = "to_column - column" if 1 in p.prologues else writer.extent(n)
        terms = _shape_text(
            writer, calls.left, calls.spans[0].right, columns if n in argument_axes else "0", p.k, argument_axes
        )
    elif form == "axpy" and not (dynamic or panels or p.prologues) and _epilogue_cost(p) >= _MIN_COSTLY_EPILOGUE:
        calls.spans, terms = (
            [replace(s, columns=0) for s in calls.spans],
            f"hg::Shape{{{literal_text(n.extent)}, 0, 0, 0, 0, 0}}",
        )
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


def _epilogue_cost(p: _Product) -> int:
    """Scalar operations of an element's epilogue."""
    return sum(s.node.prim.cost for s in p.program.scalars if s.op == "compute" and s.node is not None)


def _library(p: _Product, functions: str, header: str = "matmul_cpu.h") -> tuple[str, ...]:
    """As :attr:`Kernel.library`, the ``functions`` of a header for the type of a product."""
    return header, f"{functions}(template, {p.element[0]})"


def _blocked_kernel(p: _Product) -> Kernel:
    """Blocks of the operands, which lie in any order; threads share columns, or rows beside few columns."""
    writer, dot, batch, m, n = p.writer, p.dot, p.batch, p.m, p.n
    if batch:
        lengths = dynamic_lengths(m.extent, n.extent, p.k.extent)
        dynamic = {v.name for v in (m, n, p.k) if v.extent in lengths}
        writer.dynamic_axes = frozenset({*dynamic, m.name, *(v.name for v in batch)} if dynamic else ())
    _lay_out_operands(p, m, n, constants=False)
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
    terms = writer.runtime_args.reduction_length(p.k.extent)
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
        statements=_epilogue_statements(p),
    )
    return p.kernel(
        fields,
        Choice({"form": "blocked"}),
        (batch[0].extent if batch else n.extent if by_columns else m.extent,),
        chunk_multiple=1 if batch else columns_of_tile if by_columns else _BLOCK_ROWS,
        more_headers=("matmul_blocked_cpu.h",),
        library=_library(p, "HG_BLOCKED", "matmul_blocked_cpu.h"),
    )


def _panels(p: _Product, lines: tuple[str, str], statements: list[Statement], dynamic_columns: bool) -> _Panels:
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
        right, turns = panel(p.prologue_operand(1, True), "right", writer, "column", "to_column", step)
        panels.transposes |= turns
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
                right, turns = panel(p.prologue_operand(1, True), "right", writer, "column", f"column + {width}", width)
                matrix = Matrix("right", "0", 1, depth)
            else:
                part = ("column", width) if width < n.extent else None
                right, turns = panel(
                    p.prologue_operand(1, False), "right", writer, "0", writer.extent(p.k), depth, part
                )
                matrix = Matrix("right", "0", width, 1)
            panels.transposes |= turns
            spans.append(ColumnSpan(begin, literal_text(end), width, width, matrix, right, (row, "c"), places))
    panels.spans = [replace(s, places=[p for p in s.places if p.name in used]) for s in spans]
    return panels


def _cuda_kernel(p: _Product, target: Target) -> Kernel:
    """The chosen form, and loaders of the operands that are made."""
    from .config_cuda import choose_config, dot_shape, loads_along_k

    writer, dot, m, n = p.writer, p.dot, p.m, p.n
    shape = dot_shape(dot)
    form = choose_config(target, shape)
    row, column = (Var("line", m.extent), Var("column", n.extent)) if form.rows else (m, n)
    _lay_out_operands(p, row, column, constants=False)
    dynamic = shape.dynamic_k
    sums = loads_along_k(form)
    places = ("line", "column") if form.rows else (None, None)
    batch = [v for v in p.batch if v.extent > 1]
    statements = _epilogue_statements(p)
    depth = f"(int){writer.runtime_args.reduction_length(p.k.extent)}" if dynamic else str(p.k.extent)
    computed = {k: p.prologue_operand(k, sums[k]) for k in p.prologues}
    loaders = [
        loader(x, _COMPUTED[k], writer, form.vectors[k], (m, n)[k], places[k], dynamic) for k, x in computed.items()
    ]
    sizes = [*(node.size for node in (*writer.inputs, dot)), *(s.extent_in_memory for s in p.program.stores)]
    used = variables_of(statements).union(p.start_variables, *(x.used for x in loaders))
    whole_type = index_type([p.program, *(x.program for x in computed.values())], sizes)
    of_both: dict[str, Any] = {
        "pointers": p.pointers,
        "index_type": whole_type,
        "product": p.element,
        "threads": form.threads,
        "batched": bool(batch),
        "starts": p.starts,
        "loaders": loaders,
        "depth": depth,
        "statements": statements,
    }
    fields: CudaMatmulFields
    if form.rows:
        at = (("line", m, f"e / {form.columns}"), ("column", n, f"e % {form.columns}"))
        fields = PatchFields(
            **of_both,
            arguments=[*_arguments(form), dot.dtype.compute],
            coordinates=[s for s in unravel(batch, "batch") if s.name in used],
            form=form.name,
            patch=(form.rows, form.columns),
            blocks=(-(-m.extent // form.rows), -(-n.extent // form.columns)),
            lines=m.extent if batch else "n0",
            columns=n.extent,
            layers=form.layers,
            words=form.words,
            unroll=max(1, min(4, form.rows * form.columns // form.threads)),
            place=[Statement("Index", v.name, f"{first} + {text}") for first, v, text in at if v.name in used],
            right_type=dot.inputs[1].dtype.storage,
        )
    else:
        axes = [*batch, m, n]
        fields = ElementFields(
            **of_both,
            arguments=[dot.dtype.compute, *_arguments(form)],
            coordinates=[s for s in unravel(axes, "e") if s.name in used],
            per_outer=prod(v.extent for v in axes[1:]),
        )
    extents, launch = _grid(form, batch, m, n)
    stageable = None if batch or loaders or dynamic else _stageable_columns(p, form)
    return p.kernel(fields, _choice(form), extents, launch=launch, matmul_config=form, stageable_columns=stageable)


def _stageable_columns(p: _Product, form: MatmulConfig) -> StageableColumns | None:
    """What a block reads of the right operand, if that lies in one piece."""
    right, depth = p.operands[1], p.k.extent
    node = next(n for n, name in p.writer.pointers.items() if name == right.pointer)
    line = depth * node.dtype.size
    if form.name != "dots" or (right.first, right.second) != (1, depth):
        return None
    return StageableColumns(node, line, min(form.columns, p.n.extent) * line)


def _arguments(form: MatmulConfig) -> list[str]:
    return [str(a).lower() for a in form.arguments]


def _grid(form: MatmulConfig, batch: list[Var], m: Var, n: Var) -> tuple[tuple[int, ...], Launch]:
    """The extents, and one block a patch (or a thread an element)."""
    outer = batch[0].extent if batch else m.extent
    if not form.rows:
        extents = (outer,) if batch else (outer, outer)
        per_outer = prod(v.extent for v in (*batch, m, n)[1:])
        return extents, Launch(form.threads, extent=0, scale=per_outer, per_block=form.threads)
    down, across = -(-m.extent // form.rows), -(-n.extent // form.columns)
    if not batch:
        return (outer, down), Launch(form.threads, extent=1, scale=across, per_block=1)
    rest = prod(v.extent for v in batch[1:])
    return (outer,), Launch(form.threads, extent=0, scale=rest * down * across, per_block=1)


def _choice(form: MatmulConfig) -> Choice:
    """The numbers, and the form in words."""
    patch = f" {form.rows} x {form.columns}" if form.rows else ""
    shape = {"product_element": "an element a thread"}.get(form.name, f"{form.name}{patch}")
    return Choice(
        {
            "form": form.name,
            "rows": form.rows,
            "columns": form.columns,
            "threads": form.threads,
            "layers": form.layers,
            "vectors": list(form.vectors),
        },
        why=f"{shape}, about {form.seconds * 1e6:.1f} us",
    )

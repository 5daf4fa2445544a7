# SPDX-License-Identifier: Apache-2.0
"""Matrix products that are worth a generated kernel, with what follows them as an epilogue.

The loops live in ``kernels/matmul_*.h``; a template passes them the strides and a lambda that
receives each element of the product and stores the results of the epilogue. On the CPU there are two
forms, by the operand that is read most: *dots*, where the right matrix is contiguous along the summed
axis (the weight of a dense layer), and *axpy*, where it is contiguous along the columns. Those of a GPU
are chosen in ``matmul_cuda``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from ...dataclass import dataclass
from ..ir.graph import Node
from ..ir.indexing import Expr, Var, of_var, substitute
from ..passes.fuse.group import Group, describe
from ..passes.materialize import blas_layout, strided
from ..passes.pack import DEEPEST, PANELS
from ..primitives.views import behind
from ..target import Target
from .in_place import at_points
from .kernel import (
    Kernel,
    Launch,
    Statement,
    Writer,
    address,
    coordinates,
    headers,
    literal,
    mentioned,
    summary,
    touched,
    traffic,
)
from .numbers import sums_outside, told_lengths
from .pieces import cut
from .prologue import PANEL, Made, Panel, loader, made, panel, panel_columns, panel_rows
from .scalar import ScalarProgram

if TYPE_CHECKING:
    from .matmul_cuda import Form

__all__ = ["beyond_library", "contiguous_along_the_sum", "schedule_matmul", "wants_kernel"]

_TILED = 1 << 24  #: multiplications
_MADE = ("left", "right")  #: names of operands that are computed as they are loaded
_TOLD = "hg::TOLD"  #: in the place of a number that a product's function is told
_STRIP = 2 << 10  #: bytes of a column of the right operand of which some dozens may be copied; see matmul_cpu.h


def wants_kernel(target: Target, node: Node) -> bool:
    """True if a generated kernel beats a library call for the dot ``node``.

    Thin products are bound by reading the matrix once, and small ones by the cost of a call. On the CPU the
    generated tiles are as fast as a library's up to some ten million multiplications; beyond, its threads pay.
    """
    m, k = node.inputs[0].shape[-2:]
    if node.size == 0 or k == 0:
        return False
    work = node.size * k
    if not node.dtype.is_float:
        return True
    if target.name != "cpu":
        return not target.library_products or beyond_library(target, node) <= 0
    if m <= 4 or work <= 1 << 19:
        return True
    if node.dtype.is_half or work > _TILED:
        return False
    along, across = (_strides(i) for i in node.inputs)
    if along is None or across is None:  # copied first, into rows
        return k * node.dtype.size <= _STRIP
    if across[0] == 1 and along[1] == 1:  # dots
        return True
    if target.panels and across[1] == 1 and across[0] * node.dtype.size in PANELS and k <= DEEPEST:
        return True  # axpy, on whole vectors side by side
    return m >= 16 and k * node.dtype.size <= _STRIP


def beyond_library(target: Target, node: Node) -> float:
    """CUDA: seconds that a generated kernel takes longer than a library's call for the dot ``node``."""
    return _form_on_gpu(target, node).seconds - _library(target, node)


def _form_on_gpu(target: Target, node: Node) -> Form:
    from .matmul_cuda import choose, dot_of

    return choose(target, dot_of(node))


def _library(target: Target, node: Node) -> float:
    """Seconds of a library's product, with the copies of arguments that it cannot take as they lie."""
    from .matmul_cuda import dot_of, library_seconds

    total = library_seconds(target, dot_of(node))
    for operand in node.inputs:
        found = strided(operand)
        if found and found[0].prim.name == "input" and blas_layout(operand, found) is None:
            total += target.launch_seconds + 2 * operand.type.nbytes * target.byte_seconds
    return total


def contiguous_along_the_sum(dot: Node) -> bool:
    """True if neighbours of the right operand of ``dot`` are those along the sum."""
    found = _strides(dot.inputs[1])
    return found is not None and found[0] == 1


def _strides(operand: Node) -> tuple[int, int] | None:
    """Strides of the last two axes in memory, in elements."""
    found = strided(operand)
    if found is None:
        return None
    _, variables, offset = found
    return offset.coefficient(variables[-2]), offset.coefficient(variables[-1])


@dataclass(frozen=True)
class Matrix:
    """An operand: its pointer, the offset of the batch, strides along its two axes, in elements, and which are told."""

    pointer: str
    place: str
    first: int
    second: int
    told: tuple[bool, bool] = (False, False)

    @property
    def address(self) -> str:
        return address(self.pointer, self.place)

    @property
    def strides(self) -> tuple[str, str]:
        """C text of both strides in a function's name."""
        first, second = (
            _TOLD if told else str(n) for told, n in zip(self.told, (self.first, self.second), strict=True)
        )
        return first, second

    def with_told(self, along: bool, across: bool) -> Matrix:
        """The same whose stride is told that steps over an axis of a told extent.

        Args:
            along, across: whether the extents of its first and second axis are told.
        """
        return replace(self, told=(self.second == 1 != self.first and across, self.first == 1 != self.second and along))


@dataclass(frozen=True)
class Span:
    """Columns that one call of a product's function computes on the CPU: all of them, if none are made in panels.

    Attributes:
        begin, end: where such calls begin, and where they end, …
        columns: … each of so many columns.
        right: the right operand.
        panel: what is computed of it first, if anything.
        parameters: names of the row and the column that the function counts.
        places: the product's variables in terms of these.
    """

    begin: int
    end: int
    columns: int
    right: Matrix
    panel: Panel | None
    parameters: tuple[str, str]
    places: list[Statement]


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
    prologues = dict(prologues or {})
    writer = Writer(target, program, tells=True)
    writer.cut = cut(program)
    if len(dot.shape) == 2:
        writer.apart = tuple(v for v in program.vars if v.name == "i0")
    outputs = [s.node for s in program.stores]
    shape = dot.shape
    axis_of = {v.name: v for v in program.vars}
    axes = [axis_of.get(f"i{k}", Var(f"i{k}", 1)) for k in range(len(shape))]
    batch, m, n = axes[:-2], axes[-2], axes[-1]
    depth = dot.inputs[0].shape[-1]
    depth_var = Var("k", depth)
    panels = target.name == "cpu" and _packed(dot)
    lengths = (
        _lengths(dot, m, n, depth_var, prologues) if target.name == "cpu" and batch and not panels else frozenset()
    )
    if lengths:
        writer.told = frozenset(v.name for v in (*lengths, m, *batch))
    operands = []
    starts: list[str] = []  # where an element's row and column begin
    form_on_gpu = None
    if target.name == "cuda":
        from .matmul_cuda import along_the_sum, dot_of

        form_on_gpu = _form_on_gpu(target, dot)
    row, column = (
        (m, n) if form_on_gpu is None or not form_on_gpu.rows else (Var("line", m.extent), Var("column", n.extent))
    )
    memory = []
    for position, operand in enumerate(dot.inputs):
        found = strided(operand)
        assert found is not None
        node, variables, offset = found
        made_here = (
            target.name == "cpu" and position == 0 and position in prologues and dot.dtype.short in ("f32", "f64")
        )
        value = _constant(operand) if made_here else None
        if value is not None:  # as the first state of a recurrent cell: one element for all
            operands.append(Matrix(writer.numbers.held("left", literal(value, dot.dtype), dot.dtype), "0", 0, 0))
            starts.append("left")
            del prologues[position]
            continue
        if position in prologues:
            starts.append(_MADE[position])
            along, across = (offset.coefficient(v) for v in variables[-2:])
            operands.append(Matrix(starts[-1], "0", along, across))
            continue
        pointer = writer.pointers.setdefault(node, f"x{len(writer.pointers)}")
        table = {v: of_var(b) for v, b in zip(variables[:-2], batch, strict=True)}
        place = substitute(Expr(tuple((a, c) for a, c in offset.terms if a in variables[:-2]), offset.const), table)
        along, across = (offset.coefficient(v) for v in variables[-2:])
        start = place + (of_var(row) * along if not starts else of_var(column) * across)
        starts.append(address(pointer, writer.place_of(start, matrix=True)))
        operands.append(Matrix(pointer, writer.place_of(place, matrix=True), along, across))
        memory.append(node)
    if lengths:
        operands = [
            o.with_told(a in lengths, b in lengths)
            for o, (a, b) in zip(operands, ((m, depth_var), (depth_var, n)), strict=True)
        ]
    left, right = operands
    form = "dots" if right.first == 1 and (left.second == 1 or depth == 1) else "axpy"
    first = "true" if m.extent == 1 else "false"
    if target.name == "cpu" and dot.dtype.short not in ("f32", "f64"):
        form, first = "plain", dot.dtype.compute
    if form_on_gpu is None:
        outermost = not batch and sums_outside((left.first, left.second), (right.first, right.second), depth)
        told = outermost and not prologues and form == "axpy"
    else:
        told = dot_of(dot).told
    statements = [st for s in program.scalars if (st := writer.statement(s))]
    statements += [
        Statement("", f"y{k}[{writer.place_of(s.offset)}]", writer.names[s.value]) for k, s in enumerate(program.stores)
    ]
    assert program.result is not None
    outer = batch[0] if batch else m
    rest = batch[1:]
    per_outer = prod(v.extent for v in rest) * (m.extent if batch else 1) * n.extent

    def make(position: int, sum_along: bool) -> Made:
        rows, columns = (m, depth_var) if position == 0 else (depth_var, n)
        along = sum_along == (position == 0)
        return made(prologues[position], dot.inputs[position], batch, rows, columns, along)

    loaded = [make(position, True) for position in prologues]
    fields: dict[str, Any] = {
        "left": left,
        "right": right,
        "form": form,
        "first": first,
        "starts": starts,
        "batched": bool(batch),
        "batch": [(v.name, v.extent) for v in batch],
        "rest": [(v.name, v.extent) for v in rest],
        "m": (m.name, m.extent),
        "n": (n.name, n.extent),
        "depth": 0 if told or depth_var in lengths else depth,
        "terms": writer.numbers.depth(depth) if told else "",
        "statements": statements,
        "product": (dot.dtype.compute, writer.names[program.result]),
        "per_outer": per_outer,
        "panels": panels,
    }
    read, written = traffic(program, memory, [m.touched for m in loaded])
    needed = dict.fromkeys(h for p in (program, *(m.program for m in loaded)) for h in headers(p))
    launch: Launch | None = None
    extents: tuple[int, ...] = (outer.extent,)
    choice: dict[str, Any] = {"form": form}
    if form_on_gpu is None:
        lines = ("0", "lines" if panels else writer.extent(m)) if batch else ("begin", "end")
        if panels:
            extents = (*extents, m.extent)
        fields |= _on_host(make, prologues, writer, dot, lines, m, n, fields)
        if lengths:
            fields["spans"] = [replace(s, columns=0) if n in lengths else s for s in fields["spans"]]
            fields["terms"] = _shape(writer, fields["left"], fields["spans"][0].right, n, depth_var, lengths)
        if fields["turns"]:
            needed["tile_cpu.h"] = None
    else:
        sums = along_the_sum(form_on_gpu)
        places = ("line", "column") if form_on_gpu.rows else (None, None)
        fields["loaders"] = [
            loader(make(p, sums[p]), _MADE[p], writer, form_on_gpu.vectors[p], (m, n)[p], places[p], told)
            for p in prologues
        ]
        library = _library(target, dot) if dot.dtype.is_float else None
        sizes = [node.size for node in (*writer.inputs, *outputs, dot)]
        several = [v for v in batch if v.extent > 1]
        fields |= _on_gpu(form_on_gpu, dot.dtype.compute, several, m, n, fields)
        fields["right_type"] = dot.inputs[1].dtype.storage
        fields["index_type"] = "int" if 2 * max(sizes) < 1 << 31 else "long long"
        extents, launch = _grid(form_on_gpu, several, m, n)
        choice = _chosen(form_on_gpu, library)
    fields["pointers"] = writer.pointer_list(outputs)
    return Kernel(
        numbers=writer.numbers,
        kind="matmul",
        effort=5 if form == "dots" and m.extent > 1 else 2,  # tiles, whose sums a compiler unrolls and orders
        template=f"{target.name}/matmul.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=extents,
        headers=(*needed, f"matmul_{target.name}.h"),
        members=members,
        launch=launch,
        choice=choice | ({"prologue": _said(dot, prologues)} if prologues else {}),
        bytes_read=read,
        bytes_written=written,
        touched=touched(program, memory, [m.touched for m in loaded]),
        in_place=at_points(program, (*memory, *(x for m in loaded for x in m.touched))),
    )


def _packed(dot: Node) -> bool:
    """True for a batch of products with one left operand for all: panels of a weight, see passes/pack.py."""
    found = strided(dot.inputs[0])
    assert found is not None
    _, variables, offset = found
    return dot.ndim > 2 and not {a for a, _ in offset.terms} & {*variables[:-2]}


def _lengths(dot: Node, m: Var, n: Var, depth: Var, prologues: Mapping[int, Group]) -> frozenset[Var]:
    """The axes of a batch of products on the CPU whose extents are told; see :func:`.told_lengths`.

    Not those of a panel of columns, which is as wide as its text says, and not the sum of dots, whose blocks are vectors.
    """
    found = {v for v in (m, n, depth) if v.extent in told_lengths(m.extent, n.extent, depth.extent)}
    size = dot.dtype.size
    if contiguous_along_the_sum(dot) and dot.dtype.short in ("f32", "f64"):
        found.discard(depth)
    if 1 in prologues:
        along = contiguous_along_the_sum(dot)
        found.discard(n)
        if panel_columns(n.extent, depth.extent, size, along) < n.extent or depth.extent * n.extent * size > PANEL:
            found.discard(depth)
    return frozenset(found)


def _shape(writer: Writer, left: Matrix, right: Matrix, n: Var, depth: Var, lengths: frozenset[Var]) -> str:
    """C text of the numbers that a product's function is told, in its order."""
    told, parts = writer.numbers.told, [writer.extent(n) if n in lengths else "0"]
    parts.append(writer.numbers.depth(depth.extent) if depth in lengths else "0")
    for name, matrix in (("left", left), ("right", right)):
        strides = zip(matrix.told, (matrix.first, matrix.second), strict=True)
        parts += [told(f"{name}_step", stride) if known else "0" for known, stride in strides]
    return f"hg::Shape{{{', '.join(parts)}}}"


def _constant(operand: Node) -> Any:
    """What every element of ``operand`` is, a view of what is computed; None if they differ."""
    node = behind(operand)
    filled = node.inputs[0] if node.prim.name == "copy" else node
    return filled.params["value"] if filled.prim.name == "full" else None


def _said(dot: Node, prologues: Mapping[int, Group]) -> str:
    """Which operands are computed as they are loaded, in words; of the product's own operator the primitives."""
    own = describe(dot)
    found: dict[str, None] = {}
    for k in sorted(prologues):
        operand = behind(dot.inputs[k])
        for n in reversed(prologues[k].needed(operand)[0] or [operand]):
            name = describe(n)
            found[f"{n.prim.name} of {name}" if name == own else name] = None
    return f"computes {' and '.join(found)} as it loads {'them' if len(prologues) > 1 else 'it'}"


def _on_host(
    make: Callable[[int, bool], Made],
    prologues: Mapping[int, Group],
    writer: Writer,
    dot: Node,
    lines: tuple[str, str],
    m: Var,
    n: Var,
    fields: dict[str, Any],
) -> dict[str, Any]:
    """What the template for the CPU needs besides: panels of the operands that are made, and the calls between."""
    depth, size = dot.inputs[0].shape[-1], dot.dtype.size
    used = mentioned(fields["statements"])
    found: dict[str, Any] = {"rows": None, "range": ", ".join(lines), "turns": False}
    row, places = m.name, []
    if 0 in prologues:
        count = panel_rows(m.extent, depth, size)
        left, turns = panel(make(0, True), "left", writer, "from", "to", count)
        told = "k" in writer.told
        each = writer.numbers.told("panel", count) if told and count > 1 else count
        found |= {"rows": (*lines, each), "left_panel": left, "range": "0, to - from", "turns": turns}
        found["left"] = Matrix("left", "0", depth, 1, (told, False))
        row, places = "r", [Statement("Index", m.name, "from + r")]
    spans = [Span(0, n.extent, n.extent, fields["right"], None, (row, n.name), places)]
    if 1 in prologues:
        along = contiguous_along_the_sum(dot)
        count = panel_columns(n.extent, depth, size, along)
        whole = n.extent // count * count
        spans = []
        places = [*places, Statement("Index", n.name, "column + c")]
        for begin, end in ((0, whole), (whole, n.extent)):
            width = min(count, end - begin)
            if not width:
                continue
            if along:
                right, turns = panel(make(1, True), "right", writer, "column", f"column + {width}", width)
                matrix = Matrix("right", "0", 1, depth)
            else:
                part = ("column", width) if width < n.extent else None
                right, turns = panel(make(1, False), "right", writer, "0", writer.extent(Var("k", depth)), depth, part)
                matrix = Matrix("right", "0", width, 1)
            found["turns"] |= turns
            spans.append(Span(begin, end, width, matrix, right, (row, "c"), places))
    for k, s in enumerate(spans):
        spans[k] = replace(s, places=[p for p in s.places if p.name in used])
    return found | {"spans": spans}


def _on_gpu(form: Form, compute: str, batch: list[Var], m: Var, n: Var, fields: dict[str, Any]) -> dict[str, Any]:
    """What the template for a GPU needs besides."""
    used = mentioned([*fields["starts"], *fields["statements"]]).union(*(x.used for x in fields["loaders"]))
    arguments = [str(a).lower() for a in form.arguments]
    found = {
        "form": form.name,
        "threads": form.threads,
        "layers": form.layers,
        "words": form.words,
        "batched": bool(batch),
    }
    if not form.rows:
        found |= {
            "patch": None,
            "per_outer": prod(v.extent for v in (*batch, m, n)[1:]),
            "arguments": [compute, *arguments],
            "coordinates": [s for s in coordinates([*batch, m, n], "e") if s.name in used],
        }
        return found
    places = (("line", m, f"e / {form.columns}"), ("column", n, f"e % {form.columns}"))
    return found | {
        "patch": (form.rows, form.columns),
        "unroll": max(1, min(4, form.rows * form.columns // form.threads)),
        "arguments": [*arguments, compute],
        "blocks": (-(-m.extent // form.rows), -(-n.extent // form.columns)),
        "lines": m.extent if batch else "n0",
        "coordinates": [s for s in coordinates(batch, "batch") if s.name in used],
        "place": [Statement("Index", v.name, f"{first} + {text}") for first, v, text in places if v.name in used],
    }


def _grid(form: Form, batch: list[Var], m: Var, n: Var) -> tuple[tuple[int, ...], Launch]:
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


def _chosen(form: Form, library: float | None) -> dict[str, Any]:
    """The numbers, and why in words."""
    patch = f" {form.rows} x {form.columns}" if form.rows else ""
    shape = {"product_element": "an element a thread"}.get(form.name, f"{form.name}{patch}")
    against = "libraries have no integers" if library is None else f"a library's call {library * 1e6:.1f}"
    return {
        "form": form.name,
        "rows": form.rows,
        "columns": form.columns,
        "threads": form.threads,
        "layers": form.layers,
        "vectors": list(form.vectors),
        "why": f"{shape}, about {form.seconds * 1e6:.1f} us, {against}",
    }

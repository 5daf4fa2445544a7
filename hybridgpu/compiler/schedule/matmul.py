# SPDX-License-Identifier: Apache-2.0
"""Matrix products that are worth a generated kernel, with what follows them as an epilogue.

The loops live in ``kernels/matmul_*.h``; a template passes them the strides and a lambda that
receives each element of the product and stores the results of the epilogue. On the CPU there are two
forms, by the operand that is read most: *dots*, where the right matrix is contiguous along the summed
axis (the weight of a dense layer), and *axpy*, where it is contiguous along the columns. Those of a GPU
are chosen in ``matmul_cuda``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ..ir.graph import Node
from ..passes.materialize import strided
from ..target import Target
from .indexing import Expr, Var, of_var, substitute
from .kernel import Kernel, Launch, Statement, Writer, address, coordinates, headers, mentioned, summary, traffic
from .matmul_cuda import Form, choose, dot_of, library_seconds
from .scalar import ScalarProgram

__all__ = ["schedule_matmul", "wants_kernel"]

_TILED = 1 << 24  #: multiplications
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
        dot = dot_of(node)
        return choose(target, dot).seconds <= library_seconds(target, dot)
    if m <= 4 or work <= 1 << 19:
        return True
    if node.dtype.is_half or work > _TILED:
        return False
    along, across = (_strides(i) for i in node.inputs)
    if along is None or across is None:  # copied first, into rows
        return k * node.dtype.size <= _STRIP
    if across[0] == 1 and along[1] == 1:  # dots
        return True
    return m >= 16 and k * node.dtype.size <= _STRIP


def _strides(operand: Node) -> tuple[int, int] | None:
    """Strides of the last two axes in memory, in elements."""
    found = strided(operand)
    if found is None:
        return None
    _, variables, offset = found
    return offset.coefficient(variables[-2]), offset.coefficient(variables[-1])


@dataclass(frozen=True)
class Matrix:
    """An operand: its pointer, the offset of the batch, and strides along its two axes, in elements."""

    pointer: str
    place: str
    first: int
    second: int

    @property
    def address(self) -> str:
        return address(self.pointer, self.place)


def schedule_matmul(program: ScalarProgram, dot: Node, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group around ``dot``; ``program.vars`` are the product's axes above extent 1."""
    writer = Writer(target, program)
    outputs = [s.node for s in program.stores]
    shape = dot.shape
    axis_of = {v.name: v for v in program.vars}
    axes = [axis_of.get(f"i{k}", Var(f"i{k}", 1)) for k in range(len(shape))]
    batch, m, n = axes[:-2], axes[-2], axes[-1]
    depth = dot.inputs[0].shape[-1]
    operands = []
    starts: list[str] = []  # where an element's row and column begin
    form_on_gpu = choose(target, dot_of(dot)) if target.name == "cuda" else None
    row, column = (
        (m, n) if form_on_gpu is None or not form_on_gpu.rows else (Var("line", m.extent), Var("column", n.extent))
    )
    memory = []
    for operand in dot.inputs:
        found = strided(operand)
        assert found is not None
        node, variables, offset = found
        pointer = writer.pointers.setdefault(node, f"x{len(writer.pointers)}")
        table = {v: of_var(b) for v, b in zip(variables[:-2], batch, strict=True)}
        place = substitute(Expr(tuple((a, c) for a, c in offset.terms if a in variables[:-2]), offset.const), table)
        along, across = (offset.coefficient(v) for v in variables[-2:])
        start = place + (of_var(row) * along if not starts else of_var(column) * across)
        starts.append(address(pointer, writer.expr(start)))
        operands.append(Matrix(pointer, writer.expr(place), along, across))
        memory.append(node)
    left, right = operands
    form = "dots" if right.first == 1 and (left.second == 1 or depth == 1) else "axpy"
    first = "true" if m.extent == 1 else "false"
    if target.name == "cpu" and dot.dtype.short not in ("f32", "f64"):
        form, first = "plain", dot.dtype.compute
    statements = [st for s in program.scalars if (st := writer.statement(s))]
    statements += [
        Statement("", f"y{k}[{writer.expr(s.offset)}]", writer.names[s.value]) for k, s in enumerate(program.stores)
    ]
    assert program.result is not None
    outer = batch[0] if batch else m
    rest = batch[1:]
    per_outer = prod(v.extent for v in rest) * (m.extent if batch else 1) * n.extent
    fields: dict[str, Any] = {
        "pointers": writer.pointer_list(outputs),
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
        "depth": depth,
        "statements": statements,
        "product": (dot.dtype.compute, writer.names[program.result]),
        "per_outer": per_outer,
    }
    read, written = traffic(program, memory)
    launch: Launch | None = None
    extents: tuple[int, ...] = (outer.extent,)
    choice: dict[str, Any] = {"form": form}
    if form_on_gpu is not None:
        library = library_seconds(target, dot_of(dot)) if dot.dtype.is_float else None
        sizes = [node.size for node in (*writer.inputs, *outputs, dot)]
        several = [v for v in batch if v.extent > 1]
        fields |= _on_gpu(form_on_gpu, dot.dtype.compute, several, m, n, fields)
        fields["index_type"] = "int" if 2 * max(sizes) < 1 << 31 else "long long"
        extents, launch = _grid(form_on_gpu, several, m, n)
        choice = _chosen(form_on_gpu, library)
    return Kernel(
        kind="matmul",
        template=f"{target.name}/matmul.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=extents,
        headers=(*headers(program), f"matmul_{target.name}.h"),
        members=members,
        launch=launch,
        choice=choice,
        bytes_read=read,
        bytes_written=written,
    )


def _on_gpu(form: Form, compute: str, batch: list[Var], m: Var, n: Var, fields: dict[str, Any]) -> dict[str, Any]:
    """What the template for a GPU needs besides."""
    used = mentioned([*fields["starts"], *fields["statements"]])
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

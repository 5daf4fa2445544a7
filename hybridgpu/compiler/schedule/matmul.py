# SPDX-License-Identifier: Apache-2.0
"""Matrix products that are worth a generated kernel, with what follows them as an epilogue.

The loops live in ``kernels/matmul_*.h``; a template passes them the strides and a lambda that
receives each element of the product and stores the results of the epilogue. Two forms, by the
operand that is read most: *dots*, where the right matrix is contiguous along the summed axis (the
weight of a dense layer), and *axpy*, where it is contiguous along the columns.
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
from .scalar import ScalarProgram

__all__ = ["schedule_matmul", "wants_kernel"]


def wants_kernel(target: Target, node: Node) -> bool:
    """True if a generated kernel beats a library call for the dot ``node``.

    Thin products are bound by reading the matrix once, and small ones by the cost of a call; from
    a few million multiplications on, a library's blocking pays.
    """
    m, k = node.inputs[0].shape[-2:]
    n = node.shape[-1]
    if node.size == 0 or k == 0:
        return False
    work = node.size * k
    if not node.dtype.is_float:
        return True
    if target.name == "cpu":
        return m <= 4 or work <= 1 << 19
    return m <= 8 or (work <= 1 << 19 and n <= 4096)


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
    memory = []
    for operand in dot.inputs:
        found = strided(operand)
        assert found is not None
        node, variables, offset = found
        pointer = writer.pointers.setdefault(node, f"x{len(writer.pointers)}")
        table = {v: of_var(b) for v, b in zip(variables[:-2], batch, strict=True)}
        place = substitute(Expr(tuple((a, c) for a, c in offset.terms if a in variables[:-2]), offset.const), table)
        along, across = (offset.coefficient(v) for v in variables[-2:])
        start = place + (of_var(m) * along if not starts else of_var(n) * across)
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
    launch = None
    if target.name == "cuda":
        used = mentioned([*starts, *statements])
        fields["coordinates"] = [s for s in coordinates([*batch, m, n], "e") if s.name in used]
        per_block = 8 if form == "dots" else 128
        launch = Launch(threads=256 if form == "dots" else 128, extent=0, scale=per_outer, per_block=per_block)
    return Kernel(
        kind="matmul",
        template=f"{target.name}/matmul.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=(outer.extent,),
        headers=(*headers(program), f"matmul_{target.name}.h"),
        members=members,
        launch=launch,
        choice={"form": form},
        bytes_read=read,
        bytes_written=written,
    )

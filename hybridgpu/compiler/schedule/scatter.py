# SPDX-License-Identifier: Apache-2.0
"""Scatter kernels, which write at positions computed at run time: gradients of gathers, and rows replaced.

Updates are computed as they are needed, and added in their order: of rows that meet, sums are those of one addition
after the other, the same bits every time, and the last one replaces. Here is what both targets share. On the CPU the loops
run over the updates, and where neighbours of a row follow each other in the table, too, they are one vector; on CUDA
blocks own rows of the table (``cuda.scatter``).
"""

from __future__ import annotations

from ..ir.graph import Node
from ..ir.indexing import Var
from ..primitives.views import RESHAPES, strip_views
from ..target import Target
from .blocks import Block, for_head, texts
from .choice import Choice
from .collapse_axes import collapse_axes
from .cpu.loop_nests import LoopFields, blocks, build_loops
from .index_set_splitting import bit_copies
from .kernel import CWriter, Kernel, Launch, TemplateFields, headers, literal
from .program_kernel import kernel_of_program
from .runtime_args import dynamic_axes
from .scalar import ScalarProgram
from .scatter_epilogue import Epilogue

__all__ = ["schedule_scatter"]


def schedule_scatter(
    program: ScalarProgram, scatter: Node, target: Target, members: list[Node], after: ScalarProgram | None = None
) -> Kernel:
    """The kernel of a group around ``scatter``.

    Args:
        after: what is computed of the table's elements, once they are complete, and stored instead of them.
    """
    collapse_axes(program, reorder=False)
    if not program.vars:
        program.vars.append(Var("i0", 1))
    writer = CWriter(target, program, allows_dynamic=True)
    writer.bit_copied = bit_copies(program)
    if target.name == "cpu":
        writer.inner, writer.dynamic_axes = program.vars[-1], dynamic_axes(program, program.vars[-1])
    outputs = [s.node for s in (after or program).stores]
    before: Node | None = None
    fill = literal(0, scatter.dtype)
    if scatter.prim.name == "scatter_set":
        table = scatter.inputs[0]
        if table.prim.name == "full":
            fill = literal(table.params["value"], scatter.dtype)
        else:
            before = strip_views(table, RESHAPES)
            writer.pointers.setdefault(before, f"x{len(writer.pointers)}")
    whole = [before] if before else []
    epilogue = Epilogue(after, writer, scatter) if after else None
    also = [epilogue.elements_read] if epilogue else []
    does = "replaces rows" if scatter.prim.name == "scatter_set" else "adds rows up"
    why = f"{does} in the order of the updates{', then computes with the table' if epilogue else ''}"
    launch: Launch | None = None
    fields: TemplateFields
    more: tuple[str, ...] = headers(after) if after else ()
    scanned = 0
    if target.name == "cpu":
        statements, loops, _ = build_loops(program, writer)
        result = f"y{0 if epilogue else outputs.index(scatter)}"
        element = f"{writer.pointers[before]}[t]" if before else fill
        lines = [Block([for_head("t", "0", "size")], [f"{result}[t] = {element};"]), *texts(statements), *blocks(loops)]
        if epilogue:
            lines.append(Block([], ["const Index begin = 0, end = rows;", *epilogue.lines()]))
        sizes = ["size", "rows"] if epilogue else ["size"]
        fields = LoopFields(pointers=writer.pointer_list(outputs), lines=lines, extents=sizes)
        extents: tuple[int, ...] = (program.vars[0].extent, scatter.size)
        if epilogue:
            extents = (*extents, epilogue.program.vars[0].extent)
        choice = Choice(why=why)
    else:
        from .cuda.scatter import scatter_fields

        fields, launch, extents, choice, scanned = scatter_fields(
            program, writer, outputs, scatter, before, fill, epilogue, why
        )
        more = (*more, "scatter_cuda.h")
    return kernel_of_program(
        writer,
        "scatter",
        members,
        fields,
        choice,
        extents,
        more,
        outputs,
        whole,
        also,
        reread_bytes=scanned,
        launch=launch,
        in_place=epilogue.in_place([*whole, *(s.node for s in program.scalars if s.node)]) if epilogue else (),
    )

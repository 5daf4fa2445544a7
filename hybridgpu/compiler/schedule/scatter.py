# SPDX-License-Identifier: Apache-2.0
"""Kernels that write at positions computed at run time: gradients of gathers, and rows replaced.

The loops run over the updates, which are computed as they are needed, and in their order: of rows that meet, sums are
those of one addition after the other, the same bits every time, and the last one replaces. Where neighbours of a row
follow each other in the table, too, they are one vector.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Node
from ..passes.materialize import base
from ..target import Target
from .axes import normalize
from .indexing import Var
from .kernel import Kernel, Writer, headers, literal, summary, traffic
from .map_cpu import nests
from .pieces import only_moved
from .scalar import ScalarProgram

__all__ = ["schedule_scatter", "wants_scatter_kernel"]


def wants_scatter_kernel(target: Target, node: Node) -> bool:
    """True if a kernel is generated for the scatter ``node``: not for sums of halves, which passes/widen makes sums of
    floats, nor of truth values, which are no sums.
    """
    if target.name != "cpu" or node.size == 0 or node.inputs[-2].size == 0:
        return False
    return node.prim.name == "scatter_set" or not (node.dtype.is_half or node.dtype.kind == "b")


def schedule_scatter(program: ScalarProgram, scatter: Node, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group around ``scatter``, whose loops run over the updates."""
    normalize(program, ordered=False)
    if not program.vars:
        program.vars.append(Var("i0", 1))
    writer = Writer(target, program)
    writer.moved = only_moved(program)
    outputs = [s.node for s in program.stores]
    whole: list[Node] = []
    fill = literal(0, scatter.dtype)
    if scatter.prim.name == "scatter_set":
        table = scatter.inputs[0]
        if table.prim.name == "full":
            fill = literal(table.params["value"], scatter.dtype)
        else:
            whole = [base(table)]
            fill = f"{writer.pointers.setdefault(whole[0], f'x{len(writer.pointers)}')}[t]"
    before, loops, _ = nests(program, writer)
    read, written = traffic(program, whole)
    fields: dict[str, Any] = {
        "pointers": writer.pointer_list(outputs),
        "table": f"y{outputs.index(scatter)}",
        "fill": fill,
        "before": before,
        "loops": loops,
    }
    does = "replaces rows" if scatter.prim.name == "scatter_set" else "adds rows up"
    return Kernel(
        numbers=writer.numbers,
        kind="scatter",
        template=f"{target.name}/scatter.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=(program.vars[0].extent, scatter.size),
        headers=headers(program),
        members=members,
        choice={"why": f"{does} in the order of the updates"},
        bytes_read=read,
        bytes_written=written,
    )

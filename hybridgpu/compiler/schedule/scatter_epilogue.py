# SPDX-License-Identifier: Apache-2.0
"""Scatter epilogue: what a kernel that scatters computes of its table's elements, once these are complete."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..ir.graph import Node
from ..ir.indexing import Var, of_var
from .blocks import Line, texts
from .collapse_axes import collapse_axes
from .cpu.loop_nests import blocks, build_loops
from .in_place import Pair, in_place_pairs
from .kernel import CWriter, Statement, unravel
from .scalar import Scalar, ScalarProgram
from .traffic import elements_read

if TYPE_CHECKING:
    from .cuda.map_fields import RowPart

__all__ = ["Epilogue"]


class Epilogue:
    """The elementwise program over a table, with the names that the kernel's other part gives to arrays.

    Args:
        program: its first variables are those of the outermost axis; it loads the table, which has several elements, at
            the place that it stores to.
        writer: of the kernel's other part; gets a pointer for every array that is read.
        table: the scatter.

    Attributes:
        element: the scalar that is the table's element.
        elements_read: elements of each array that are read, the table's not counted.
    """

    def __init__(self, program: ScalarProgram, writer: CWriter, table: Node) -> None:
        collapse_axes(program)
        names = {v: Var(f"t{v.name[1:]}", v.extent) for v in program.vars}
        program.replace({v: of_var(w) for v, w in names.items()})
        program.vars = [names[v] for v in program.vars]
        self.program, self._table = program, table
        self.element: Scalar = next(s for s in program.scalars if s.op == "load" and s.node is table)
        for s in program.scalars:
            if s.op == "load" and s.node is not None and s.node is not table:
                writer.pointers.setdefault(s.node, f"x{len(writer.pointers)}")
        pointers = {**writer.pointers, table: "y0"}
        self.writer = CWriter(
            writer.target, program, pointers=pointers, runtime_args=writer.runtime_args, allows_dynamic=True
        )
        self.elements_read = {n: count for n, count in elements_read(program).items() if n is not table}

    def in_place(self, others: Collection[Node]) -> list[Pair]:
        """Operands that results may be written over.

        Args:
            others: arrays that the kernel's other part reads.
        """
        pairs = in_place_pairs(self.program, [*others, self._table])
        accumulated = self.program.stores[0].node if self.writer.target.device.scatters_in_result else None
        return [(x, y) for x, y in pairs if y is not accumulated]

    def lines(self) -> list[Line]:
        """CPU: statements before its loops, and these; the table lies where the first result does."""
        once, loops, _ = build_loops(self.program, self.writer)
        return [*texts(once), *blocks(loops)]

    # -- CUDA: a thread has some neighbours of a row

    def row_part(self, element: str, at: str, vector: int) -> RowPart:
        """The work of a thread for ``vector`` neighbours.

        Args:
            element: C text of element ``j`` of them, on chip.
            at: C text of the place of the first one in the table.
        """
        from .cuda.map import vector_body
        from .cuda.map_fields import RowPart

        writer, inner = self.writer, self.program.vars[-1]
        first = f"{inner.name}_0"
        writer.tile_elements[self.element] = element
        writer.reset_names()
        writer.name_scalars(self.program.scalars)
        body = vector_body(self.program, writer, inner, first, vector)
        walked = unravel([*self.program.vars[:-1], Var(first, inner.extent)], "at")
        steps = [s for s in walked if s.name in body.names]
        begin = [Statement("Index", "at", at)] if steps else []
        return RowPart(body, begin + steps)

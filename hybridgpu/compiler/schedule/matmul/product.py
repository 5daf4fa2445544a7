# SPDX-License-Identifier: Apache-2.0
"""Product: a matrix product whose kernel is being made, where its operands lie, and its epilogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....core.dataclass import dataclass
from ...ir.graph import Node
from ...ir.indexing import Expr, Var, of_var, substitute
from ...passes.fuse.group import Group, label
from ...passes.materialize import as_strided, matrix_strides
from ...primitives.views import strip_views
from ..choice import Choice
from ..in_place import in_place_pairs
from ..kernel import (
    CWriter,
    Kernel,
    Pointer,
    Statement,
    TemplateFields,
    address,
    headers,
    literal,
)
from ..program_kernel import TargetOptions, kernel_of_program
from ..prologue import ComputedOperand, computed_operand
from ..scalar import ScalarProgram
from .fields import Matrix

if TYPE_CHECKING:
    from typing_extensions import Unpack  # which checkers know without the package

__all__ = ["COMPUTED", "Product", "contiguous_along_k", "epilogue_statements", "lay_out_operands"]

COMPUTED = ("left", "right")  #: names of operands that are computed as they are loaded


def contiguous_along_k(dot: Node) -> bool:
    """True if neighbours of the right operand of ``dot`` are those along the sum."""
    strides = matrix_strides(dot.inputs[1])
    return strides is not None and strides[0] == 1


@dataclass
class Product:
    """A product whose kernel is being made.

    Attributes:
        members: the primitives that it computes.
        batch, m, n, k: its axes: those of the batch, rows, columns, and the sum.
        prologues: position of an operand -> the group that says how to compute it.
        operands: how each lies.
        starts, start_variables: of a GPU: C text of where a row of the left one and a column of the right one begin, and the
            loop variables in it.
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
        """The computation of an operand, neighbours along the sum being next to each other or not."""
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
        **more: Unpack[TargetOptions],
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


def lay_out_operands(p: Product, row: Var, column: Var, constants: bool) -> None:
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
            del p.prologues[position]
            continue
        along, across = (offset.coefficient(v) for v in variables[-2:])
        if position in p.prologues:
            p.starts.append(COMPUTED[position])
            p.operands.append(Matrix(COMPUTED[position], "0", along, across))
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


def epilogue_statements(p: Product) -> list[Statement]:
    """The epilogue of an element."""
    writer = p.writer
    return [
        *(st for s in p.program.scalars if (st := writer.statement(s))),
        *(
            writer.store(f"y{k}[{writer.address_text(s.offset)}]", writer.names[s.value])
            for k, s in enumerate(p.program.stores)
        ),
    ]


def _constant_value(operand: Node) -> Any:
    """The value of every element of ``operand``, a view of what is computed; None if they differ."""
    node = strip_views(operand)
    filled = node.inputs[0] if node.prim.name == "copy" else node
    return filled.params["value"] if filled.prim.name == "full" else None


def _prologue_note(dot: Node, prologues: Mapping[int, Group]) -> str:
    """The operands that are computed as they are loaded, in words; of the product's own operator the primitives."""
    own = label(dot)
    names: dict[str, None] = {}
    for k in sorted(prologues):
        operand = strip_views(dot.inputs[k])
        for n in reversed(prologues[k].backward_slice(operand)[0] or [operand]):
            name = label(n)
            names[f"{n.prim.name} of {name}" if name == own else name] = None
    return f"computes {' and '.join(names)} as it loads {'them' if len(prologues) > 1 else 'it'}"
